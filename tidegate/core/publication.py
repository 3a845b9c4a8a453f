"""Decision 3, read back: what the table's own history says about a batch.

The ancestry of `main` is the only judge of whether a batch is published. It is asked in two places, by the same
function: inside the commit that would publish the batch, on every try of it, and after every error. A history can
forget: snapshots expire, a table is rolled back or replaced. Hence the floor: as long as it is still reached, nothing
since the batch's first attempt was forgotten.
"""

from collections.abc import Iterable
from dataclasses import dataclass

# What Iceberg's own cherry-pick writes into the summary of what it publishes (org.apache.iceberg.SnapshotSummary,
# 1.11.0). Ours does the same: Iceberg's clean-up keeps the files of a snapshot that is somebody's source
# (org.apache.iceberg.IncrementalFileCleanup), and drivers of earlier versions find the batch by it.
PUBLISHED_WAP_ID = "published-wap-id"
SOURCE_SNAPSHOT_ID = "source-snapshot-id"
STAGED_WAP_ID = "wap.id"
"""Of snapshots that earlier versions staged: one that was fast-forwarded to carries it in `main`."""
BATCH = "tidegate.batch"
"""Ours, on whatever this project writes. In `main`, without one of the others, nobody checked what went in."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The part of a snapshot that decides anything; `parent` is None for a table's first."""

    id: int
    parent: int | None
    summary: dict[str, str]


@dataclass(frozen=True, slots=True)
class Floor:
    """Where the table stood when the batch was first attempted; `head` is None if it was empty."""

    table_uuid: str
    head: int | None


@dataclass(frozen=True, slots=True)
class History:
    """One consistent reading of a table: its uuid, and the ancestors of `main`, its head first.

    It may end at the floor that it was read for: what lies below decides nothing.
    """

    table_uuid: str
    ancestors: tuple[Snapshot, ...]


def down_to(floor: Floor, ancestors: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """The ancestors from the head to the floor, which is the last of them if it is there. Reads no further."""
    found: list[Snapshot] = []
    for snapshot in ancestors:
        found.append(snapshot)
        if snapshot.id == floor.head:
            break
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Published:
    """The batch is in the table as `snapshot`, which published what was staged as `staged`."""

    snapshot: int
    staged: int


@dataclass(frozen=True, slots=True)
class NotPublished:
    """The history reaches back to the floor, and the batch is not in it."""


@dataclass(frozen=True, slots=True)
class Unprovable:
    """The history cannot say: only a person may. `reason` names what is missing and what to look for."""

    reason: str


Verdict = Published | NotPublished | Unprovable


def verdict(history: History, batch_id: str, floor: Floor) -> Verdict:
    """What the table says of `batch_id`, given where it stood before the batch's first attempt."""
    if history.table_uuid != floor.table_uuid:
        return Unprovable(
            f"the table is another one than when batch {batch_id} began (uuid {floor.table_uuid} then,"
            f" {history.table_uuid} now): it was dropped and created again"
        )
    found: list[Published] = []
    below: int | None = history.ancestors[0].id if history.ancestors else None
    for snapshot in history.ancestors:
        if snapshot.id == floor.head:
            break
        if batch_id in (snapshot.summary.get(PUBLISHED_WAP_ID), snapshot.summary.get(STAGED_WAP_ID)):
            # what an earlier version published by fast-forward is its own source
            found.append(Published(snapshot.id, int(snapshot.summary.get(SOURCE_SNAPSHOT_ID, snapshot.id))))
        elif snapshot.summary.get(BATCH) == batch_id:
            return Unprovable(
                f"snapshot {snapshot.id} holds rows of batch {batch_id} that went into the table past the check"
                " (by hand, or by an earlier version while write.wap.enabled was switched off): roll it back or keep"
                " it, and then decide about the batch"
            )
        below = snapshot.parent
    if below != floor.head:
        return Unprovable(
            f"snapshot {floor.head or 'none (an empty table)'}, the head when batch {batch_id} began, is no"
            " longer among the ancestors of main: snapshots were expired or the table was rolled back"
        )
    if len(found) > 1:
        return Unprovable(f"batch {batch_id} is in the table {len(found)} times: {found}; keep everything as it is")
    return found[0] if found else NotPublished()

"""Decision 3, read back: what the table's own history says about a batch.

Iceberg refuses to publish two snapshots under one write-audit-publish id into the same ancestry, so the
ancestry of `main` is the only judge of whether a batch is published, and it is asked after every error.
The refusal walks retained ancestors only: an expired, rolled-back or replaced history forgets the id.
Hence the floor: as long as it is still reached, nothing since the batch's first attempt was forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# summary keys that Iceberg itself writes (org.apache.iceberg.SnapshotSummary, 1.11.0)
STAGED_WAP_ID = "wap.id"
PUBLISHED_WAP_ID = "published-wap-id"
SOURCE_SNAPSHOT_ID = "source-snapshot-id"
# and one of ours, on whatever this project writes: a write that was not staged has it, and no wap id
BATCH = "tidegate.batch"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The part of an Iceberg snapshot that decides anything; `parent` is None for a table's first."""

    id: int
    parent: int | None
    summary: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class History:
    """One consistent reading of a table's metadata: its uuid, the head of `main`, every retained snapshot."""

    table_uuid: str
    head: int | None
    snapshots: Mapping[int, Snapshot]


@dataclass(frozen=True, slots=True)
class Floor:
    """Where the table stood when the batch was first attempted; `head` is None if it was empty."""

    table_uuid: str
    head: int | None


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
    current = history.head
    while current != floor.head:
        snapshot = history.snapshots.get(current) if current is not None else None
        if snapshot is None:
            return Unprovable(
                f"snapshot {floor.head or 'none (an empty table)'}, the head when batch {batch_id} began, is no"
                " longer among the ancestors of main: snapshots were expired or the table was rolled back"
            )
        if batch_id in (snapshot.summary.get(STAGED_WAP_ID), snapshot.summary.get(PUBLISHED_WAP_ID)):
            # a fast-forward keeps the staged snapshot's own id; a rebase names its source
            found.append(Published(snapshot.id, int(snapshot.summary.get(SOURCE_SNAPSHOT_ID, snapshot.id))))
        elif snapshot.summary.get(BATCH) == batch_id:
            return Unprovable(
                f"snapshot {snapshot.id} holds rows of batch {batch_id} that went straight into the table, because"
                " write.wap.enabled was switched off while they were written: roll it back or keep it, and then"
                " decide about the batch"
            )
        current = snapshot.parent
    if len(found) > 1:
        return Unprovable(f"batch {batch_id} is in the table {len(found)} times: {found}; keep everything as it is")
    return found[0] if found else NotPublished()


def staged_by(history: History, batch_id: str, driver: str, driver_key: str) -> int | None:
    """The snapshot that this very driver staged: `driver` is unique to one run of one process."""
    for snapshot in history.snapshots.values():
        if snapshot.summary.get(STAGED_WAP_ID) == batch_id and snapshot.summary.get(driver_key) == driver:
            return snapshot.id
    return None

"""Decision 3: whether a batch is published, by the table's own history.

Only the ancestry of `main` decides whether a batch is published. The same function checks it in two places: inside the
commit that would publish the batch, on every try, and after every error. A history can lose snapshots: they expire, or
the table is rolled back or replaced. Hence the floor: as long as the history reaches it, no snapshot since the batch's
first attempt is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One version of a table, with the fields that decisions need. `parent` is None for a table's first.

    `publishes` are the batches that this version published or fenced: one, as a rule, or none. `source` is what was
    staged for it. `holds` is the batch that its rows are marked with. A version that holds a batch and does not publish
    it went in unchecked. `adds` and `removes`: files of rows came, or went or lost rows. `rewrites`: files of rows, or
    what says which rows of them are lost, went, perhaps for others.
    """

    id: int
    parent: int | None
    publishes: frozenset[str] = frozenset()
    source: int = 0
    holds: str = ""
    adds: bool = False
    removes: bool = False
    rewrites: bool = False


@dataclass(frozen=True, slots=True)
class Floor:
    """The table's uuid and head when the batch was first attempted. `head` is None if the table was empty."""

    table_uuid: str
    head: int | None


@dataclass(frozen=True, slots=True)
class History:
    """One consistent reading of a table: its uuid, and the ancestors of `main`, its head first.

    It may end at the floor that it was read for: snapshots below the floor decide nothing.
    """

    table_uuid: str
    ancestors: tuple[Snapshot, ...]


def down_to(floor: Floor, ancestors: Iterable[Snapshot]) -> tuple[Snapshot, ...]:
    """The ancestors from the head down to the floor, which is the last of them if it is found. Reads no further."""
    found: list[Snapshot] = []
    for snapshot in ancestors:
        found.append(snapshot)
        if snapshot.id == floor.head:
            break
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Published:
    """The batch is in the table as `snapshot`, which was published from the staged snapshot `staged`."""

    snapshot: int
    staged: int


@dataclass(frozen=True, slots=True)
class NotPublished:
    """The history reaches back to the floor, and the batch is not in it."""


@dataclass(frozen=True, slots=True)
class Unprovable:
    """The history cannot prove either: a person must decide. `reason` names what is missing and what to check."""

    reason: str


Verdict = Published | NotPublished | Unprovable


def verdict(history: History, batch_id: str, floor: Floor) -> Verdict:
    """Whether `batch_id` is published. `floor` is where the table stood before the batch's first attempt."""
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
        if batch_id in snapshot.publishes:
            found.append(Published(snapshot.id, snapshot.source))
        elif snapshot.holds == batch_id:
            return Unprovable(
                f"snapshot {snapshot.id} holds rows of batch {batch_id} that went into the table past the check"
                " (by hand): roll it back or keep it, and then decide about the"
                " batch"
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

"""The operations on a table that decision 3 needs, in any table format.

A sink is one driver's access to the table that its batch goes to. It stages rows where readers do not see them. It
publishes what it staged on one condition: the batch is not in the table's history, and the history reaches back to the
floor. The condition must be part of the commit. A format that checks after the commit cannot be a sink.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Read
from tidegate.core.publication import Floor, History, Published, Snapshot, Unprovable
from tidegate.core.receipts import RejectedRows
from tidegate.core.replacing import HeldRows, RowsPlace


class Hopeless(Exception):
    """Another attempt would fail alike: a person must act. The text names the object and the action."""


class Undecided(Hopeless):
    """A table cannot prove whether the batch is published: a person must decide (`tidegate resume`)."""


class RejectedUndecided(Undecided):
    """The batch is published, from the snapshot `staged`. Its rejected rows are not provably in their table, or cannot
    be brought there any more."""

    staged = 0


class ReaderDied(Retryable):
    """A process that read files died, or lacked memory. One of the files may be the cause."""


class StagedIsGone(Retryable):
    """The staged snapshot is not in the table any more, or rests on a version that is not: stage again."""


class TableMoved(Retryable):
    """A batch was published, or rows came or left, since the version at which this driver looked: look again."""


@dataclass(frozen=True, slots=True)
class SeenVersion:
    """A version of a table at which its driver has looked for rows. It must be in the history of what the driver
    publishes. `unmoved`: and no rows may have come or gone since, and no batch may have been published."""

    version: int
    unmoved: bool = False


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged snapshot: its id in the table, how many rows the table counted, and the result of reading each upload,
    by its position among the items. `None` stands for an upload that was read twice with different endings. `rejected`
    are the rows of these uploads that do not fit, if there are some. `slowly` is why the table took its slower way to
    write rows, if a setting of the table is all that asks for it; nothing is decided by it."""

    id: int
    rows: int
    reads: dict[int, Read | None]
    rejected: RejectedRows | None = None
    slowly: str = ""


def require_seen(seen: SeenVersion | None, line: Iterable[Snapshot], table: str) -> None:
    """Raises StagedIsGone if `seen` is named, and is none of these versions, which reach down to a floor below it, the
    latest first. Raises TableMoved if one after it has moved rows that may not move. A batch that moved none may have
    deletions (`flows.replacing`)."""
    if seen is None:
        return
    for each in line:
        if each.id == seen.version:
            return
        if seen.unmoved and (each.adds or each.removes or each.publishes):
            raise TableMoved(f"version {each.id} of table {table} came after version {seen.version}")
    raise StagedIsGone(f"table {table} was rolled back past version {seen.version}, at which was looked for rows")


class PublishTarget(Protocol):
    """A table to which a driver of one batch publishes.

    Every method may raise Retryable (nothing happened) or OutcomeUnknown (it may have happened).
    """

    @property
    def table(self) -> str:
        """The table's name, for people."""
        ...

    @property
    def exists(self) -> bool: ...

    def position(self) -> Floor:
        """Where the table stands, never before its first version. An empty position would be reached by any history,
        also by that of a table that replaced this one under its name."""
        ...

    def history(self, floor: Floor) -> History:
        """One consistent reading of the table, from its head down to the floor."""
        ...

    def publish(self, staged: int, floor: Floor, seen: SeenVersion | None = None) -> Published | Unprovable:
        """Publish what was staged, unless the batch is in the table, or the floor is not.

        The commit itself decides the result: this version was published, or another one of this batch was before, or
        the history proves nothing and nothing was written. Raises StagedIsGone if nothing was tried, or if the history
        has `seen` no more, a version not below the floor; TableMoved as `require_seen`. Raises OutcomeUnknown for a
        conflict or a lost answer: then only the history proves which it was.
        """
        ...


class Sink(PublishTarget, Protocol):
    """The table that a batch goes to, for one driver of it; and the table of its rejected rows, if there are some."""

    @property
    def replaces(self) -> bool:
        """Whether the rows of an object's later version replace those of the earlier ones."""
        ...

    @property
    def skips(self) -> bool:
        """Whether a version with the bytes of its neighbour brings no rows (`core.same_bytes`)."""
        ...

    def prepare(self) -> None:
        """Create the table if it is absent. Raises Hopeless if the batch's rows do not fit into it."""
        ...

    def create_if_absent(self) -> None:
        """Create the table if it is absent. If several processes create it at once, one succeeds and the others find
        it. Raises Hopeless if it cannot be created as the route describes it."""
        ...

    def in_line(self, version: int) -> bool:
        """Whether this version is the head of the table, or an ancestor of it that is still in the history."""
        ...

    def held(self, position: Floor) -> int:
        """How many rows of the batch the table holds at this position."""
        ...

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        """One consistent reading of the table: its whole history, and the batches that versions out of it have
        published. These were in it until a rollback took them. A version that has expired is not known any more."""
        ...

    def rows_of_objects(self, uris: Collection[str], version: int) -> Sequence[HeldRows]:
        """What the table has at this version of the objects with these URIs, in order."""
        ...

    def may_have_gained(self, uris: Collection[str], since: int, now: int) -> bool:
        """Whether the versions of the table after `since`, up to `now`, may have brought rows of the objects with these
        URIs. To ask is cheaper than `rows_of_objects`."""
        ...

    def stage(self, items: Sequence[OwnedUpload], *, careful: bool = False, at: int | None = None) -> Staged:
        """Read every upload and write its rows where no reader sees them and no property of the table publishes them,
        on top of the version `at`, if that matters. `careful`: a file that kills its reader is found and ends as
        quarantined, which takes longer. Raises ReaderDied if a reader died and the file that it had is not known."""
        ...

    def let_rows_go(self) -> None:
        """See to it that rows can leave the table. Raises Hopeless if they cannot."""
        ...

    def stage_removal(self, staged: int, gone: Collection[RowsPlace]) -> tuple[int, int | None]:
        """Stage, on top of what was `staged`, that these rows leave the table. Returns the staged snapshot of both, and
        how many rows leave, if the table says so."""
        ...

    def stage_nothing(self) -> int:
        """Stage an empty append, for a fence. Returns its id."""
        ...

    def rejected(self, table: str) -> PublishTarget:
        """The table of rejected rows, for this driver."""
        ...

    def stage_rejected(self, items: Sequence[OwnedUpload], table: str) -> RejectedRows:
        """Read these uploads once more, and stage their rows that do not fit in `table`, which is created if it is
        absent. Raises RejectedUndecided if the route does not set such rows aside any more."""
        ...

    def tidy(self) -> None:
        """Drop what was staged for the decided batch, and what other drivers left long ago."""
        ...

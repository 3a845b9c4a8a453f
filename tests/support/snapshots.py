"""A table of snapshots that can be rolled back, and a sink on it: a model of Iceberg for many stories a second."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from tidegate.core.lineage import Landed
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.publication import (
    Floor,
    History,
    NotPublished,
    Published,
    Snapshot,
    Unprovable,
    down_to,
    verdict,
)
from tidegate.core.receipts import RejectedRows
from tidegate.core.replacing import HeldRows, RowsPlace
from tidegate.core.uploads import Upload
from tidegate.flows.sink import SeenVersion, Staged, require_seen


@dataclass
class Table:
    """`at` has the snapshots by id, each with the rows that a reader of it sees."""

    name: str
    at: dict[int, tuple[Snapshot, tuple[Landed, ...]]] = field(default_factory=dict)
    head: int = 10
    staged: dict[int, tuple[Landed, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at[10] = (Snapshot(10, None), ())

    @property
    def rows(self) -> tuple[Landed, ...]:
        return self.at[self.head][1]

    def commit(self, rows: tuple[Landed, ...], batch: str = "", source: int = 0) -> int:
        new = max(self.at) + 1
        self.at[new] = (Snapshot(new, self.head, frozenset({batch} if batch else ()), source), rows)
        self.head = new
        return new

    @property
    def history(self) -> History:
        found, each = [], self.at.get(self.head)
        while each is not None:
            found.append(each[0])
            each = self.at.get(each[0].parent or 0)
        return History(self.name, tuple(found))

    @property
    def rolled_back(self) -> frozenset[str]:
        """The batches that snapshots out of the line published."""
        line = {each.id for each in self.history.ancestors}
        return frozenset[str]().union(*(each.publishes for each, _ in self.at.values() if each.id not in line))


@dataclass
class TableSink:
    """`flows.sink.Sink` on it. `read` says how an upload ends; one that is committed has one row."""

    of: Table
    batch: str
    read: Callable[[Upload], Read]
    exists: bool = True
    replaces: bool = False
    skips: bool = False

    @property
    def table(self) -> str:
        return self.of.name

    def prepare(self) -> None: ...

    def create_if_absent(self) -> None: ...

    def tidy(self) -> None: ...

    def position(self) -> Floor:
        return Floor(self.of.name, self.of.head)

    def history(self, floor: Floor) -> History:
        return History(self.of.name, down_to(floor, self.of.history.ancestors))

    def in_line(self, version: int) -> bool:
        return version in {each.id for each in self.of.history.ancestors}

    def held(self, position: Floor) -> int:
        return sum(each.rows for each in self.of.at[position.head or 10][1] if each.batch == self.batch)

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        return self.of.history, self.of.rolled_back

    def rows_of_objects(self, uris: Collection[str], version: int) -> Sequence[HeldRows]:
        there = [(f"s3://{each.bucket}/{each.key}", each) for each in self.of.at[version][1]]
        return [HeldRows(uri, each.version, each.batch, each.rows) for uri, each in there if uri in uris]

    def may_have_gained(self, uris: Collection[str], since: int, now: int) -> bool:
        return True

    def let_rows_go(self) -> None:
        raise AssertionError("nothing is replaced here")

    def stage_removal(self, staged: int, gone: Collection[RowsPlace]) -> tuple[int, int | None]:
        raise AssertionError(gone)

    def stage(self, items: Sequence[OwnedUpload], *, careful: bool = False, at: int | None = None) -> Staged:
        reads: dict[int, Read | None] = {at: self.read(item.upload) for at, item in enumerate(items)}
        landed = [items[at].upload for at, read in reads.items() if read and read.outcome is Outcome.COMMITTED]
        return Staged(self._stage(tuple(Landed(*each.identity, self.batch, 1) for each in landed)), len(landed), reads)

    def stage_nothing(self) -> int:
        return self._stage(())

    def _stage(self, rows: tuple[Landed, ...]) -> int:
        number = 1_000 + len(self.of.staged)
        self.of.staged[number] = rows
        return number

    def publish(self, staged: int, floor: Floor, seen: SeenVersion | None = None) -> Published | Unprovable:
        line = self.history(floor)
        told = verdict(line, self.batch, floor)
        if not isinstance(told, NotPublished):
            return told
        require_seen(seen, line.ancestors, self.table)
        return Published(self.of.commit(self.of.rows + self.of.staged[staged], self.batch, staged), staged)

    def rejected(self, table: str) -> "TableSink":
        raise AssertionError(table)

    def stage_rejected(self, items: Sequence[OwnedUpload], table: str) -> RejectedRows:
        raise AssertionError(table)

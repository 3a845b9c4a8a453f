"""A model of Iceberg's commits: what `tidegate.spark.table.IcebergTable` does, on a catalog that swaps one pointer.

Read in Iceberg 1.11.0: `SnapshotProducer.commit` (refresh, ask the ancestry validator, swap, again after a conflict)
and `SnapshotUtil.ancestorsOf` (the walk ends where history was expired, without a word).
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException

from tests.sim.network import Network
from tidegate.core.publication import (
    PUBLISHED_WAP_ID,
    SOURCE_SNAPSHOT_ID,
    Floor,
    History,
    NotPublished,
    Published,
    Snapshot,
    Unprovable,
    down_to,
    verdict,
)
from tidegate.spark.table import StagedIsGone

Row = tuple[str, str, int]
"""(uri, version, number of the row in its file)."""

COMMIT_TRIES = 5


class CommitFailed(PySparkException):
    """The pointer was moved by somebody else, every time."""


class CommitStateUnknown(PySparkException):
    """No answer from the catalog: it may have been swapped."""


class Refused(PySparkException):
    """The ancestry validator said no: nothing was written."""

    def __init__(self, verdict: Published | Unprovable) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


class NoAnswer(PySparkException):
    """The catalog could not be asked."""


@dataclass(frozen=True)
class Stored:
    """One snapshot with its files: each file is the rows it holds."""

    snapshot: Snapshot
    files: tuple[str, ...]


@dataclass(frozen=True)
class Metadata:
    """One version of the table's metadata; the catalog points to exactly one."""

    version: int
    uuid: str
    head: int | None
    snapshots: Mapping[int, Stored]
    branches: Mapping[str, int | None] = field(default_factory=dict)
    """All but main: the snapshot that each points to."""
    beneath: tuple[Stored, ...] = ()
    """What main holds of snapshots that were expired, oldest first: the rows stay, the history forgets."""

    def ancestors(self) -> Iterator[Snapshot]:
        """Of main, the head first; it ends where history was expired."""
        current = self.head
        while current is not None and current in self.snapshots:
            yield self.snapshots[current].snapshot
            current = self.snapshots[current].snapshot.parent

    def expired(self) -> "Metadata":
        """Without any history but the heads of main and of the branches."""
        kept = {self.head, *self.branches.values()}
        cut = [self.snapshots[each.id] for each in self.ancestors() if each.id not in kept][::-1]
        snapshots = {at: each for at, each in self.snapshots.items() if at in kept}
        return replace(self, version=self.version + 1, snapshots=snapshots, beneath=(*self.beneath, *cut))

    def remembered(self, forgotten: Mapping[int, Stored]) -> "Metadata":
        """With the history again that was expired: a backup of the metadata was restored."""
        return replace(self, version=self.version + 1, snapshots={**forgotten, **self.snapshots}, beneath=())


@dataclass
class Catalog:
    """The one pointer to each table's metadata, and the store of data files. What the oracle reads."""

    tables: dict[str, Metadata] = field(default_factory=dict)
    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    ids: Any = field(default_factory=lambda: itertools.count(1_000))

    def rows(self, table: str) -> list[tuple[int, Row]]:
        """(snapshot, row) for all that `main` holds, oldest first. Raises KeyError for a file that is gone."""
        return [
            (stored.snapshot.id, row)
            for stored in self.ancestry(table)
            for name in stored.files
            for row in self.files[name]
        ]

    def ancestry(self, table: str) -> list[Stored]:
        metadata = self.tables.get(table)
        if metadata is None:
            return []
        return [*metadata.beneath, *[metadata.snapshots[each.id] for each in metadata.ancestors()][::-1]]


@dataclass(frozen=True)
class Rows:
    """What a DataFrame of rows is to the model."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class ModelTable:
    """`tidegate.spark.table.IcebergTable`, as one driver sees it. Every look and every swap passes the network."""

    def __init__(self, catalog: Catalog, network: Network, name: str, schema: Callable[[], Any]) -> None:
        self.catalog = catalog
        self.network = network
        self.name = name
        self._schema = schema

    # ---- the interface that the driver knows

    def create_if_absent(self, columns: str, partition_by: Any) -> None:
        def create() -> None:
            if self.name not in self.catalog.tables:
                # its first snapshot comes along: what happens between the two is for tests with a real table
                first = next(self.catalog.ids)
                begun = Stored(Snapshot(first, None, {"tidegate.begun": "true"}), ())
                self.catalog.tables[self.name] = Metadata(1, f"uuid-{next(self.catalog.ids)}", first, {first: begun})

        self._ask("create", create)

    @property
    def exists(self) -> bool:
        return self._ask("load", lambda: self.name in self.catalog.tables)

    @property
    def schema(self) -> Any:
        return self._schema()

    def begin(self) -> None:
        raise AssertionError("a table of the model is never empty")

    def position(self) -> Floor:
        metadata = self._load()
        return Floor(metadata.uuid, metadata.head)

    def history(self, floor: Floor) -> History:
        metadata = self._load()
        return History(metadata.uuid, down_to(floor, metadata.ancestors()))

    def stage(self, rows: Rows, branch: str, properties: Mapping[str, str]) -> tuple[int, int]:
        number = next(self.catalog.ids)
        name = f"file-{number}"
        self.catalog.files[name] = rows.rows
        self._stage(branch, number, {**properties, "added-records": str(len(rows.rows))}, (name,))
        return number, len(rows.rows)

    def stage_nothing(self, branch: str, properties: Mapping[str, str]) -> int:
        number = next(self.catalog.ids)
        self._stage(branch, number, {**properties, "added-records": "0"}, ())
        return number

    def drop_branches(self, prefix: str) -> None:
        def dropped(base: Metadata) -> Metadata:
            left = {name: at for name, at in base.branches.items() if not name.startswith(prefix)}
            return replace(base, version=base.version + 1, branches=left)

        if any(name.startswith(prefix) for name in self._load().branches):
            self._commit(dropped)

    def publish(
        self, staged: int, batch_id: str, floor: Floor, properties: Mapping[str, str]
    ) -> Published | Unprovable:
        number = next(self.catalog.ids)
        loaded = self._load()
        if staged not in loaded.snapshots:
            raise StagedIsGone(f"snapshot {staged} of batch {batch_id} is not in table {self.name}")
        files = loaded.snapshots[staged].files
        summary = {**properties, PUBLISHED_WAP_ID: batch_id, SOURCE_SNAPSHOT_ID: str(staged)}

        def appended(base: Metadata) -> Metadata:
            told = verdict(History(loaded.uuid, down_to(floor, base.ancestors())), batch_id, floor)
            if not isinstance(told, NotPublished):
                raise Refused(told)
            stored = Stored(Snapshot(number, base.head, summary), files)
            return replace(base, version=base.version + 1, head=number, snapshots={**base.snapshots, number: stored})

        try:
            self._commit(appended, loaded.uuid)
        except Refused as refused:
            return refused.verdict
        return Published(number, staged)

    # ---- how Iceberg does it

    def _stage(self, branch: str, number: int, summary: dict[str, str], files: tuple[str, ...]) -> None:
        def created(base: Metadata) -> Metadata:
            return replace(base, version=base.version + 1, branches={**base.branches, branch: base.head})

        def appended(base: Metadata) -> Metadata:
            stored = Stored(Snapshot(number, base.branches.get(branch, base.head), summary), files)
            snapshots = {**base.snapshots, number: stored}
            branches = {**base.branches, branch: number}
            return replace(base, version=base.version + 1, snapshots=snapshots, branches=branches)

        self._commit(created)
        self._commit(appended)

    def _commit(self, change: Callable[[Metadata], Metadata], uuid: str = "") -> None:
        for _ in range(COMMIT_TRIES):
            base = self._load()
            if uuid and base.uuid != uuid:
                raise CommitFailed(f"table {self.name} is another one than was loaded")
            after = change(base)
            if self._swap(base, after):
                return
        raise CommitFailed(f"table {self.name}: the pointer moved {COMMIT_TRIES} times")

    def _load(self) -> Metadata:
        return self._ask("load", lambda: self.catalog.tables[self.name])

    def _swap(self, base: Metadata, after: Metadata) -> bool:
        def swap() -> bool:
            # the compare-and-swap that Glue, REST and JDBC catalogs do
            if self.catalog.tables[self.name].version != base.version:
                return False
            self.catalog.tables[self.name] = after
            return True

        return self.network.call(
            "iceberg.swap",
            swap,
            lost=lambda: CommitStateUnknown(f"table {self.name}: no answer from the catalog"),
            failed=lambda: NoAnswer(f"table {self.name}: the catalog refuses"),
        )

    def _ask(self, what: str, question: Callable[[], Any]) -> Any:
        error = NoAnswer(f"table {self.name}: the catalog does not answer")
        return self.network.call(f"iceberg.{what}", question, lost=lambda: error, failed=lambda: error)

"""A model of Iceberg's commits: what `tidegate.spark.table.IcebergTable` does, on a catalog that swaps one pointer.

Read in Iceberg 1.11.0: `SnapshotProducer.commit` (refresh, validate, swap, again after a conflict),
`CherryPickOperation` (fast-forward if the staged snapshot's parent is the head, else a new snapshot with its files),
`WapUtil` (`isWapIdPublished` walks the ancestors of main for `wap.id` and `published-wap-id`).
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException

from tests.sim.network import Network
from tidegate.core.publication import (
    PUBLISHED_WAP_ID,
    SOURCE_SNAPSHOT_ID,
    STAGED_WAP_ID,
    History,
    Snapshot,
)

Row = tuple[str, str, int]
"""(uri, version, number of the row in its file)."""

COMMIT_TRIES = 5


class CommitFailed(PySparkException):
    """The pointer was moved by somebody else, every time."""


class CommitStateUnknown(PySparkException):
    """No answer from the catalog: it may have been swapped."""


class DuplicateWap(PySparkException):
    """A snapshot was published under this id already."""


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
    properties: Mapping[str, str]


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
        found, current = [], metadata.head
        while current is not None:
            stored = metadata.snapshots[current]
            found.append(stored)
            current = stored.snapshot.parent
        return found[::-1]


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
                properties = {"write.wap.enabled": "true"}
                self.catalog.tables[self.name] = Metadata(1, f"uuid-{next(self.catalog.ids)}", None, {}, properties)

        self._ask("create", create)

    @property
    def exists(self) -> bool:
        return self._ask("load", lambda: self.name in self.catalog.tables)

    @property
    def schema(self) -> Any:
        return self._schema()

    @property
    def stages(self) -> bool:
        return self._load().properties.get("write.wap.enabled") == "true"

    def history(self) -> History:
        metadata = self._load()
        snapshots = {number: stored.snapshot for number, stored in metadata.snapshots.items()}
        return History(metadata.uuid, metadata.head, snapshots)

    def stage(self, rows: Rows, batch_id: str, properties: dict[str, str]) -> None:
        number = next(self.catalog.ids)
        name = f"file-{number}"
        self.catalog.files[name] = rows.rows
        summary = {**properties, "added-records": str(len(rows.rows))}
        if self.stages:
            summary[STAGED_WAP_ID] = batch_id
        self._commit(lambda base: self._appended(base, number, summary, (name,)))

    def stage_nothing(self, batch_id: str, properties: dict[str, str]) -> None:
        number = next(self.catalog.ids)
        summary = {**properties, STAGED_WAP_ID: batch_id, "added-records": "0"}
        self._commit(lambda base: self._appended(base, number, summary, ()))

    def publish(self, snapshot: int) -> None:
        number = next(self.catalog.ids)
        self._commit(lambda base: self._picked(base, snapshot, number))

    # ---- how Iceberg does it

    def _appended(self, base: Metadata, number: int, summary: dict[str, str], files: tuple[str, ...]) -> Metadata:
        stored = Stored(Snapshot(number, base.head, summary), files)
        # without a wap id, the write goes straight to main
        head = base.head if STAGED_WAP_ID in summary else number
        return replace(base, version=base.version + 1, head=head, snapshots={**base.snapshots, number: stored})

    def _picked(self, base: Metadata, snapshot: int, number: int) -> Metadata:
        staged = base.snapshots[snapshot]
        wap_id = staged.snapshot.summary[STAGED_WAP_ID]
        current = base.head
        # the walk ends where history was expired, without a word (SnapshotUtil.ancestorsOf)
        while current is not None and current in base.snapshots:
            ancestor = base.snapshots[current].snapshot
            if wap_id in (ancestor.summary.get(STAGED_WAP_ID), ancestor.summary.get(PUBLISHED_WAP_ID)):
                raise DuplicateWap(f"Duplicate request to cherry pick wap id that was published already: {wap_id}")
            current = ancestor.parent
        if staged.snapshot.parent == base.head:
            return replace(base, version=base.version + 1, head=snapshot)
        summary = {SOURCE_SNAPSHOT_ID: str(snapshot), PUBLISHED_WAP_ID: wap_id}
        stored = Stored(Snapshot(number, base.head, summary), staged.files)
        return replace(base, version=base.version + 1, head=number, snapshots={**base.snapshots, number: stored})

    def _commit(self, change: Callable[[Metadata], Metadata]) -> None:
        for _ in range(COMMIT_TRIES):
            base = self._load()
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

"""The operations on an Iceberg table that decision 3 needs: position, history, staging, publishing.

A driver stages on a branch of its own, which no property of the table turns into `main`. It publishes by appending the
staged files to `main`, on the condition that the batch is not in the ancestry and that the ancestry reaches the floor.
Iceberg checks that condition on every try of the commit, against the metadata that the try is based on
(`SnapshotUpdate.validateWith`). Source read: Iceberg 1.11.0, `SnapshotProducer`, `SnapshotManager`,
`IncrementalFileCleanup`.

It calls Iceberg's Java API through Spark, because that reads the metadata once and consistently. SQL over the metadata
tables would read it twice.
"""

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StructType

from tidegate.core.publication import Floor, History, NotPublished, Published, Unprovable, down_to
from tidegate.core.replacing import HeldRows, RowsPlace
from tidegate.flows.sink import SeenVersion, StagedIsGone
from tidegate.sinks.iceberg import removal
from tidegate.sinks.iceberg.ancestry import ancestry, stored
from tidegate.sinks.iceberg.columns import quoted
from tidegate.sinks.iceberg.condition import CommitCondition
from tidegate.sinks.iceberg.data_files.append import LoadedTable
from tidegate.sinks.iceberg.data_files.layout import Layout
from tidegate.sinks.iceberg.data_files.write import DataFile
from tidegate.sinks.iceberg.few_files import FEW_FILES, located_by_driver
from tidegate.sinks.iceberg.marks import ON_TOP_OF, PUBLISHED_WAP_ID, SOURCE_SNAPSHOT_ID, IcebergSnapshot
from tidegate.sinks.iceberg.position_deletes import NO_RANGES, PLACES, PositionDeletes, ranges_of
from tidegate.sinks.iceberg.staged import commit_of

BEGUN = "tidegate.begun"
"""In the summary of the first snapshot of a table that was empty: a floor needs a snapshot."""
SOURCE = ("_source_uri", "_source_version", "_batch_id")
BRANCHES = "tidegate_"
"""The prefix of the names of all drivers' branches."""
DRIVERS_BRANCH = re.compile(rf"{BRANCHES}.+_[0-9a-f]{{32}}(_\d+)?")
"""A batch and a driver, as `sinks.iceberg.sink` names its branches. A person's branch may have the prefix too."""
BRANCH_LIVES = timedelta(days=30)
"""A branch whose driver died is dropped after this time by the next driver that tidies up. It gets no retention of its
own: S3 Tables would then stop expiring the table's snapshots
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-considerations.html)."""


TRUNCATE = re.compile(r"truncate\[([0-9]+)\]")
"""As Iceberg writes it (https://iceberg.apache.org/spec/#partition-specs)."""
COMMIT_FAILED = "org.apache.iceberg.exceptions.CommitFailedException"
BRANCH_TRIES = 5
"""As many as Iceberg makes for an append (`commit.retry.num-retries` is 4)."""
MAINTAIN = "tidegate.maintain"
"""Only a table that has it as `true` is maintained, unless its route asks for that."""
PROPERTIES = {
    "format-version": "2",
    MAINTAIN: "true",
    # a batch writes four versions of the metadata, each as large as the history: keep some, not all
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""The properties of a table that Tidegate creates."""


class IcebergTable:
    """The table called `name` (catalog.namespace.table) in Spark's catalog."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self.name = name
        self._located = NO_RANGES

    def create_if_absent(self, columns: str, partition_by: Sequence[str], *, replaces: bool = False) -> None:
        """Create it with `columns` (Spark DDL). If several drivers do at once, one succeeds and the others find it."""
        namespace = self.name.rsplit(".", 1)[0]
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(namespace)}")
        partitioned = f"PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
        wanted = {**PROPERTIES, **(removal.REPLACES if replaces else {})}
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in wanted.items())
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {quoted(self.name)} ({columns}) USING iceberg {partitioned}"
            f" TBLPROPERTIES ({properties})"
        )

    @property
    def exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self.name))

    @property
    def schema(self) -> StructType:
        return self._spark.table(quoted(self.name)).schema

    def let_rows_go(self) -> str:
        """See to it that rows can be replaced (`removal.let_rows_go`)."""
        return removal.let_rows_go(self._load(), ours=MAINTAIN)

    def now_called(self, name: str) -> str | None:
        """What the column is called now that an earlier schema of this table called `name`: "" if it was dropped, None
        if no earlier schema had it. The latest of them counts."""
        table = self._load()
        earlier = [found for each in table.operations().current().schemas() if (found := each.findField(name))]
        return str(table.schema().findColumnName(earlier[-1].fieldId()) or "") if earlier else None

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The fields of its partition as Spark's DDL has them, with their names (`formats.paths`). Those whose values
        have a bounded length are left out."""
        table = self._load()
        schema = table.schema()
        found = []
        for field in table.spec().fields():
            column, name = schema.findColumnName(field.sourceId()), str(field.name())
            transform = str(field.transform().toString())
            if transform == "identity":
                found.append(f"{column} AS {name}")
            elif cut := TRUNCATE.fullmatch(transform):
                found.append(f"truncate({cut[1]}, {column}) AS {name}")
        return tuple(found)

    def position(self) -> Floor:
        """Where the table stands now."""
        metadata = self._load().operations().current()
        head = metadata.currentSnapshot()
        return Floor(str(metadata.uuid()), None if head is None else int(head.snapshotId()))

    def begin(self) -> None:
        """Write the first snapshot of an empty table, an empty append. Twins write two: that is harmless."""
        self._load().newAppend().set(BEGUN, "true").commit()

    def history(self, floor: Floor) -> History:
        """One consistent reading of the table, from its head down to the floor, fresh from the catalog.

        It costs a call of the JVM for each page of the snapshots in between (`ancestry.PAGE`), independent of the rest
        of the table.
        """
        metadata = self._load().operations().current()
        return History(str(metadata.uuid()), down_to(floor, (each.plain for each in self._ancestors(metadata))))

    def whole_history(self) -> History:
        """One consistent reading of the table, down to the oldest ancestor of `main` that has not expired. It costs a
        call of the JVM for each page of them."""
        return self._whole(self._load().operations().current())

    def _whole(self, metadata: Any) -> History:
        return History(str(metadata.uuid()), tuple(each.plain for each in self._ancestors(metadata)))

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        """As `whole_history`, and the batches that snapshots out of it have published. It costs a call of the JVM for
        each page of all snapshots, staged ones too."""
        metadata = self._load().operations().current()
        history = self._whole(metadata)
        stay = {each.id for each in history.ancestors}
        others = (each.plain for each in ancestry(self._jvm).read(metadata.snapshots().iterator()))
        taken = (each.publishes for each in others if each.id not in stay)
        return history, frozenset[str]().union(*taken)

    def in_line(self, snapshot: int) -> bool:
        """Whether this snapshot is the head of `main`, or an ancestor of it that has not expired."""
        table = self._load()
        if table.currentSnapshot() is None:
            return False
        return bool(self._jvm.org.apache.iceberg.util.SnapshotUtil.isAncestorOf(table, snapshot))

    def rows_of(self, batch_id: str, position: Floor) -> int:
        """How many rows at this position are marked with the batch."""
        return self._count(position, lambda rows: rows["_batch_id"] == batch_id)

    def rows_without_batch(self, position: Floor) -> int:
        """How many rows at this position say which upload they are from, and not which batch: somebody has taken that
        from them."""
        return self._count(position, lambda rows: rows["_batch_id"].isNull() & rows["_source_uri"].isNotNull())

    def rows_of_objects(self, uris: Collection[str], snapshot: int) -> list[HeldRows]:
        """How many rows of each version of these objects are in this snapshot, by batch. Memory holds them, and where
        they are. Iceberg skips files by the uris; if that leaves few, Spark is not asked (`few_files`)."""
        if not uris:
            return []
        table = self._load()
        names = self._called_at(table, snapshot, *SOURCE)
        # without a name, a column was added since: no row of then says where it is from
        if not all(names):
            return []
        if names[0] == SOURCE[0]:
            few = list(islice(removal.files_with(self._jvm, table, snapshot, uris), FEW_FILES + 1))
            if found := located_by_driver(self.loaded(table), snapshot, uris, names, few):
                self._located = found
                return found.held
        located = not self._has_columns_called_as_places(table, snapshot)
        rows = self._at(snapshot, dict(zip(SOURCE, names, strict=True)), located=located)
        rows = rows.where(removal.among("_source_uri", uris))
        if len(uris) > removal.MOST_NAMED:  # a join takes Spark longer
            wanted = self._spark.createDataFrame([(uri,) for uri in uris], "_source_uri string")
            rows = rows.join(functions.broadcast(wanted), "_source_uri", "left_semi")
        self._located = ranges_of(rows, SOURCE, snapshot, uris, located=located)
        return self._located.held

    def _has_columns_called_as_places(self, table: Any, snapshot: int) -> bool:
        """Whether a column of this snapshot hides where Iceberg says that a row is: Spark ignores the case of names."""
        then = self._jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(table, snapshot)
        return any(then.caseInsensitiveFindField(name) is not None for name in PLACES)

    def may_have_gained(self, uris: Collection[str], since: int, now: int) -> bool:
        return removal.may_have_gained(self._jvm, self._load(), uris, since, now)

    def _count(self, position: Floor, condition: Callable[[DataFrame], Column]) -> int:
        if position.head is None:
            return 0
        wanted = ("_batch_id", "_source_uri")
        names = self._called_at(self._load(), position.head, *wanted)
        rows = self._at(position.head, {now: then or now for now, then in zip(wanted, names, strict=True)})
        return int(rows.where(condition(rows)).count())

    def _called_at(self, table: Any, snapshot: int, *columns: str) -> list[str]:
        """What today's columns of these names were called in this snapshot; one that was dropped and added again since
        counts as the one before. "" for one that was not there."""
        then = self._jvm.org.apache.iceberg.util.SnapshotUtil.schemaFor(table, snapshot)
        found = []
        for name in columns:
            today = table.schema().findField(name)
            called = then.findColumnName(today.fieldId()) if today is not None else None
            found.append(str(called or (name if then.findField(name) is not None else "")))
        return found

    def _at(self, snapshot: int, columns: Mapping[str, str], *, located: bool = False) -> DataFrame:
        """These columns of the snapshot, by the names that they have today; `located` also where each row is. Iceberg
        binds a condition to today's schema (`SparkScanBuilder.pushPredicates`), so one on a column that was renamed is
        left to Spark."""
        listed = ", ".join(
            quoted(now) if then == now else f"concat({quoted(then)}, '') AS {quoted(now)}"
            for now, then in columns.items()
        )
        more = f", {', '.join(PLACES)}" if located else ""
        return self._spark.sql(f"SELECT {listed}{more} FROM {quoted(self.name)} VERSION AS OF {snapshot}")

    def main(self) -> list[IcebergSnapshot]:
        """All ancestors of `main`, its head first: for people and tests. Its cost grows with the history."""
        return list(self._ancestors(self._load().operations().current()))

    def _ancestors(self, metadata: Any) -> Iterator[IcebergSnapshot]:
        return ancestry(self._jvm).of_main(metadata)

    def _stored(self, snapshot: Any) -> IcebergSnapshot:
        """Iceberg's own JSON of a snapshot: one call of the JVM, not one for each field."""
        return stored(json.loads(self._jvm.org.apache.iceberg.SnapshotParser.toJson(snapshot)))

    # ---- staging

    def stage(
        self, rows: DataFrame, branch: str, properties: Mapping[str, str], at: int | None = None
    ) -> tuple[int, int]:
        """Write `rows` on the new branch `branch`, from the snapshot `at` on, or from the head. Returns the staged
        snapshot, and how many rows Iceberg counted."""
        self._create_branch(branch, at)
        writer = rows.writeTo(quoted(f"{self.name}.branch_{branch}"))
        for name, value in properties.items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.append()
        return self._staged(branch)

    def loaded(self, table: Any = None) -> LoadedTable:
        """The table as it is now, for data files that are written or read without Spark."""
        table = table or self._load()
        return LoadedTable(self._jvm, self._gateway, table, table.spec())

    def stage_files(
        self,
        loaded: LoadedTable,
        files: Sequence[DataFile],
        branch: str,
        properties: Mapping[str, str],
        at: int | None = None,
    ) -> tuple[int, int]:
        """Add these files to the new branch `branch` of the loaded table. Otherwise as `stage`."""
        self._create_branch(branch, at)
        loaded.append(files, branch, properties)
        return self._staged(branch)

    def _staged(self, branch: str) -> tuple[int, int]:
        table = self._load()
        staged = self._stored(table.snapshot(table.refs().get(branch).snapshotId()))
        return staged.id, int(staged.summary.get("added-records", "0"))

    def stage_removal(
        self, staged: int, gone: Collection[RowsPlace], properties: Mapping[str, str], layout: Layout | None = None
    ) -> tuple[int, int | None]:
        """Remove these rows on the branch whose head is `staged`; `layout` is that of its data files, if tasks wrote
        them. Returns its head, and how many rows that were, if Iceberg says so."""
        table = self._load()
        refs = table.refs()
        branch = next(name for name in refs if refs.get(name).snapshotId() == staged and name.startswith(BRANCHES))
        marks = {**properties, ON_TOP_OF: str(staged)}
        ranges = self._located.ranges(gone, table.snapshot(staged)) if layout else None
        if layout and ranges:
            PositionDeletes(self._jvm, table, layout, branch).mark(ranges, self._located, marks)
        else:
            removal.delete_rows(self._spark, quoted(f"{self.name}.branch_{branch}"), gone, marks)
        table = self._load()
        head = int(table.refs().get(branch).snapshotId())
        left, before = (self._stored(table.snapshot(each)).rows for each in (head, staged))
        return head, None if left is None or before is None else before - left

    def stage_nothing(self, branch: str, properties: Mapping[str, str]) -> int:
        """Stage an empty append on `branch`, for a fence."""
        self._create_branch(branch)
        append = self._load().newAppend().toBranch(branch)
        for name, value in properties.items():
            append = append.set(name, value)
        append.commit()
        return int(self._load().refs().get(branch).snapshotId())

    def _create_branch(self, branch: str, at: int | None = None) -> None:
        """Create the branch at this snapshot, or at the head. Iceberg retries an append after a conflict, but not a
        change of branches: on a table with many writers attempts would fail for that."""
        for tries_left in reversed(range(BRANCH_TRIES)):
            try:
                change = self._load().manageSnapshots()
                (change.createBranch(branch) if at is None else change.createBranch(branch, at)).commit()
                return
            except Py4JJavaError as error:
                # this class means refused; a change that may have been applied is a CommitStateUnknownException
                refused = is_instance_of(self._gateway, error.java_exception, COMMIT_FAILED)
                if not refused or not tries_left:
                    raise

    def drop_branches(self, prefix: str) -> None:
        """Drop the branches with this prefix, and old branches of other drivers. Staged snapshots on them that were not
        published are left to expiry. A tag, and a branch that no driver made, stay."""
        table = self._load()
        refs = table.refs()
        old = int((time.time() - BRANCH_LIVES.total_seconds()) * 1_000)

        def is_left(name: str) -> bool:
            a_drivers = DRIVERS_BRANCH.fullmatch(name) is not None
            return a_drivers and table.snapshot(refs.get(name).snapshotId()).timestampMillis() < old

        names = [each for each in refs if refs.get(each).isBranch() and (each.startswith(prefix) or is_left(each))]
        if names:
            branches = table.manageSnapshots()
            for name in names:
                branches = branches.removeBranch(name)
            branches.commit()

    # ---- publishing

    def publish(
        self, staged: int, batch_id: str, floor: Floor, properties: Mapping[str, str], seen: SeenVersion | None = None
    ) -> Published | Unprovable:
        """Bring what was staged to `main`, unless the batch is there, or the floor is not, or `seen` is not.

        The commit itself decides the result: this snapshot was published, or another one of this batch was before, or
        the history proves nothing and nothing was written. Raises StagedIsGone if nothing was tried, or `seen` is gone;
        TableMoved; Py4JJavaError for a conflict or an unknown outcome: then only the history proves which it was.
        """
        table = self._load()
        snapshot = table.snapshot(staged)
        if snapshot is None:
            raise StagedIsGone(f"snapshot {staged}, which batch {batch_id} had staged, is not in table {self.name}")
        commit = commit_of(self._jvm, table, snapshot, seen)
        published = {**properties, PUBLISHED_WAP_ID: batch_id, SOURCE_SNAPSHOT_ID: str(staged)}
        for name, value in published.items():
            commit = commit.set(name, value)
        ensure_callback_server_started(self._gateway)
        condition = CommitCondition(self._jvm, self.name, str(table.uuid()), batch_id, floor, seen)
        commit = commit.validateWith(condition)
        try:
            commit.commit()
        except Py4JJavaError:
            if condition.error is not None:
                raise condition.error from None
            # only a verdict that refused the last try counts: after an earlier one there may have been a conflict
            if condition.verdict is None or isinstance(condition.verdict, NotPublished):
                raise
            return condition.verdict
        return Published(int(commit.updateEvent().snapshotId()), staged)

    # ---- the JVM

    @property
    def _jvm(self) -> Any:
        jvm = self._spark._jvm
        assert jvm is not None
        return jvm

    @property
    def _gateway(self) -> Any:
        return self._spark.sparkContext._gateway

    def _load(self) -> Any:
        """The table, fresh from the catalog."""
        table = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self.name)
        table.refresh()
        return table

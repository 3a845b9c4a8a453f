"""An Iceberg table as decision 3 needs it: where it stands, its history, staging, publishing.

A driver stages on a branch of its own, which no property of the table turns into `main`. It publishes by appending the
staged files to `main`, on the condition that the batch is not in the ancestry and that the ancestry reaches the floor.
Iceberg asks that condition on every try of the commit, against the metadata that the try is based on
(`SnapshotUpdate.validateWith`). Source read: Iceberg 1.11.0, `SnapshotProducer`, `SnapshotManager`,
`IncrementalFileCleanup`.

Talks to Iceberg's Java API through Spark, because it answers from one consistent reading of the metadata; SQL over the
metadata tables would read twice.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.core.publication import (
    PUBLISHED_WAP_ID,
    SOURCE_SNAPSHOT_ID,
    Floor,
    History,
    NotPublished,
    Published,
    Snapshot,
    Unprovable,
    Verdict,
    down_to,
    verdict,
)

BEGUN = "tidegate.begun"
"""In the summary of the first snapshot of a table that was empty: a floor needs one to stand on."""
BRANCHES = "tidegate_"
"""How the names of all drivers' branches begin."""
BRANCH_LIVES = timedelta(days=30)
"""A branch that nobody dropped, because its driver died, is dropped after this time by whoever tidies up next. It gets
no retention of its own: S3 Tables would expire no snapshots of the table any more
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-considerations.html)."""


BRANCH_TRIES = 5
"""As many as Iceberg takes for an append (`commit.retry.num-retries` is 4)."""
PROPERTIES = {
    "format-version": "2",
    # a batch makes four versions of the metadata, each as large as the history: keep some, not all
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}
"""Of a table that Tidegate creates."""


class StagedIsGone(Exception):
    """What was staged is not in the table's metadata any more: stage again."""


class IcebergTable:
    """The table called `name` (catalog.namespace.table) in Spark's catalog."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self.name = name

    def create_if_absent(self, columns: str, partition_by: Sequence[str]) -> None:
        """Create it with `columns` (Spark DDL). Racing creators are harmless: one wins, the others find it there."""
        namespace = self.name.rsplit(".", 1)[0]
        self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {_quoted(namespace)}")
        partitioned = f"PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {_quoted(self.name)} ({columns}) USING iceberg {partitioned}"
            f" TBLPROPERTIES ({properties})"
        )

    @property
    def exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self.name))

    @property
    def schema(self) -> StructType:
        return self._spark.table(_quoted(self.name)).schema

    def position(self) -> Floor:
        """Where the table stands now."""
        metadata = self._load().operations().current()
        head = metadata.currentSnapshot()
        return Floor(str(metadata.uuid()), None if head is None else int(head.snapshotId()))

    def begin(self) -> None:
        """Give an empty table its first snapshot, an empty append. Twins make two: that is harmless."""
        self._load().newAppend().set(BEGUN, "true").commit()

    def history(self, floor: Floor) -> History:
        """One consistent reading of the table, from its head down to the floor, fresh from the catalog.

        Costs two calls of the JVM for each snapshot in between, whatever else the table holds.
        """
        metadata = self._load().operations().current()
        return History(str(metadata.uuid()), down_to(floor, self._ancestors(metadata)))

    def _ancestors(self, metadata: Any) -> Iterator[Snapshot]:
        found = metadata.currentSnapshot()
        while found is not None:
            snapshot = self._plain(found)
            yield snapshot
            found = None if snapshot.parent is None else metadata.snapshot(snapshot.parent)

    def _plain(self, snapshot: Any) -> Snapshot:
        """Iceberg's own JSON of a snapshot: one call of the JVM, not one for each field."""
        told = json.loads(self._jvm.org.apache.iceberg.SnapshotParser.toJson(snapshot))
        summary = told.get("summary", {})
        return Snapshot(int(told["snapshot-id"]), told.get("parent-snapshot-id"), summary)

    # ---- staging

    def stage(self, rows: DataFrame, branch: str, properties: Mapping[str, str]) -> tuple[int, int]:
        """Write `rows` on `branch`, which is made for it; the staged snapshot, and how many rows Iceberg counted."""
        self._create_branch(branch)
        writer = rows.writeTo(_quoted(f"{self.name}.branch_{branch}"))
        for name, value in properties.items():
            writer = writer.option(f"snapshot-property.{name}", value)
        writer.append()
        table = self._load()
        staged = self._plain(table.snapshot(table.refs().get(branch).snapshotId()))
        return staged.id, int(staged.summary.get("added-records", "0"))

    def stage_nothing(self, branch: str, properties: Mapping[str, str]) -> int:
        """Stage an empty append on `branch`: what a fence publishes."""
        self._create_branch(branch)
        append = self._load().newAppend().toBranch(branch)
        for name, value in properties.items():
            append = append.set(name, value)
        append.commit()
        return int(self._load().refs().get(branch).snapshotId())

    def _create_branch(self, branch: str) -> None:
        """Iceberg does not try a change of branches again after a conflict, as it does an append: on a table that many
        write to, attempts would fail for that."""
        for tries_left in reversed(range(BRANCH_TRIES)):
            try:
                self._load().manageSnapshots().createBranch(branch).commit()
                return
            except Py4JJavaError as error:
                # refused for sure: what may have been applied has another class, CommitStateUnknownException
                refused = error.java_exception.getClass().getSimpleName() == "CommitFailedException"
                if not refused or not tries_left:
                    raise

    def drop_branches(self, prefix: str) -> None:
        """Drop the branches whose names begin so, and those of other drivers that nobody dropped for long: what was
        staged there and not published is left to expiry."""
        table = self._load()
        refs = table.refs()
        old = int((time.time() - BRANCH_LIVES.total_seconds()) * 1_000)
        names = [
            name
            for name in refs
            if name.startswith(prefix)
            or (name.startswith(BRANCHES) and table.snapshot(refs.get(name).snapshotId()).timestampMillis() < old)
        ]
        if names:
            branches = table.manageSnapshots()
            for name in names:
                branches = branches.removeBranch(name)
            branches.commit()

    # ---- publishing

    def publish(
        self, staged: int, batch_id: str, floor: Floor, properties: Mapping[str, str]
    ) -> Published | Unprovable:
        """Append what was staged to `main`, unless the batch is there, or the floor is not.

        What is returned was decided by the commit itself: this snapshot was published, or another one of this batch
        was before, or the history cannot say and nothing was written. Raises StagedIsGone if nothing was tried, and
        Py4JJavaError for a conflict or an unknown outcome: then ask the history which it was, never the exception.
        """
        table = self._load()
        snapshot = table.snapshot(staged)
        if snapshot is None:
            raise StagedIsGone(f"snapshot {staged}, which batch {batch_id} had staged, is not in table {self.name}")
        append = table.newAppend()
        staged_files = self._jvm.org.apache.iceberg.SnapshotChanges.builderFor(table).snapshot(snapshot).build()
        for file in staged_files.addedDataFiles():
            append = append.appendFile(file)
        published = {**properties, PUBLISHED_WAP_ID: batch_id, SOURCE_SNAPSHOT_ID: str(staged)}
        for name, value in published.items():
            append = append.set(name, value)
        ensure_callback_server_started(self._gateway)
        condition = _Condition(self, str(table.uuid()), batch_id, floor)
        append = append.validateWith(condition)
        try:
            append.commit()
        except Py4JJavaError:
            if condition.error is not None:
                raise condition.error from None
            # only a verdict that the last try was refused for: an earlier one may have met a conflict after it
            if condition.verdict is None or isinstance(condition.verdict, NotPublished):
                raise
            return condition.verdict
        return Published(int(append.updateEvent().snapshotId()), staged)

    # ---- asking the JVM

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


class _Condition:
    """`org.apache.iceberg.SnapshotAncestryValidator`: asked on each try of a commit, with the ancestors of the head
    that it is based on. Py4J proxies default methods too, so both are here."""

    def __init__(self, table: IcebergTable, table_uuid: str, batch_id: str, floor: Floor) -> None:
        self._table = table
        self._table_uuid = table_uuid
        self._batch_id = batch_id
        self._floor = floor
        self.verdict: Verdict | None = None
        self.error: Exception | None = None

    def validate(self, ancestors: Any) -> bool:
        self.verdict = None
        try:
            found = down_to(self._floor, map(self._table._plain, _each(ancestors.iterator())))
            # a commit is based on the table that was loaded: Iceberg refuses one whose uuid has changed
            self.verdict = verdict(History(self._table_uuid, found), self._batch_id, self._floor)
        except Exception as error:  # what is raised here would reach the JVM as text
            self.error = error
        return isinstance(self.verdict, NotPublished)

    def errorMessage(self) -> str:  # noqa: N802
        return str(self.error or self.verdict)

    class Java:
        implements = ["org.apache.iceberg.SnapshotAncestryValidator"]  # noqa: RUF012


def _each(iterator: Any) -> Iterator[Any]:
    while iterator.hasNext():
        yield iterator.next()


def _quoted(name: str) -> str:
    return ".".join(f"`{part}`" for part in name.split("."))


def cause(error: Exception) -> str:
    """What went wrong, in one line: Py4J and Spark put the Java class and a trace in front of it."""
    if isinstance(error, Py4JJavaError):
        java = error.java_exception
        try:
            while java.getCause() is not None:
                java = java.getCause()
        except Exception:
            return "Spark's process does not answer any more"
        return f"{java.getClass().getSimpleName()}: {_first_line(str(java.getMessage()))}"
    # a Python worker's exception arrives as the tail of a Java one
    raised = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception|Missing|Contradiction)): (.*)$", str(error), re.MULTILINE)
    if raised:
        return ": ".join(raised[-1])
    return f"{type(error).__name__}: {_first_line(str(error))}"


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[0]

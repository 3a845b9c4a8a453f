"""An Iceberg table as decision 3 needs it: its history, staging, publishing, fencing.

Talks to Iceberg's Java API through Spark, because it answers from one consistent reading of the metadata; SQL over the
metadata tables would read twice. Source read: Iceberg 1.11.0, `CherryPickOperation`, `SnapshotProducer`, `WapUtil`.
"""

import re
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.core.publication import STAGED_WAP_ID, History, Snapshot

WAP_ENABLED = "write.wap.enabled"


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
        self._spark.sql(
            f"CREATE TABLE IF NOT EXISTS {_quoted(self.name)} ({columns}) USING iceberg {partitioned}"
            f" TBLPROPERTIES ('format-version' = '2', '{WAP_ENABLED}' = 'true')"
        )

    @property
    def exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self.name))

    @property
    def schema(self) -> StructType:
        return self._spark.table(_quoted(self.name)).schema

    @property
    def stages(self) -> bool:
        """Whether a write under a wap id is staged. Without the property it would go straight to main."""
        value = self._metadata().property(WAP_ENABLED, "false")
        return str(value).lower() == "true"

    def history(self) -> History:
        """One consistent reading of the table's metadata, fresh from the catalog."""
        metadata = self._metadata()
        head = metadata.currentSnapshot()
        snapshots = {}
        for snapshot in metadata.snapshots():
            parent = snapshot.parentId()
            number = int(snapshot.snapshotId())
            snapshots[number] = Snapshot(
                number, None if parent is None else int(parent), dict(snapshot.summary().items())
            )
        return History(str(metadata.uuid()), None if head is None else int(head.snapshotId()), snapshots)

    def stage(self, rows: DataFrame, batch_id: str, properties: dict[str, str]) -> None:
        """Write `rows` as a snapshot that is in the table's metadata but not in `main`."""
        self._spark.conf.set("spark.wap.id", batch_id)
        try:
            writer = rows.writeTo(_quoted(self.name))
            for name, value in properties.items():
                writer = writer.option(f"snapshot-property.{name}", value)
            writer.append()
        finally:
            self._spark.conf.unset("spark.wap.id")

    def stage_nothing(self, batch_id: str, properties: dict[str, str]) -> None:
        """Stage an empty append: what a fence publishes. Only moving `main` keeps a zombie's publish out."""
        append = self._table().newAppend().set(STAGED_WAP_ID, batch_id).stageOnly()
        for name, value in properties.items():
            append = append.set(name, value)
        append.commit()

    def publish(self, snapshot: int) -> None:
        """Make a staged snapshot part of `main`. Raises Py4JJavaError for a refusal, a conflict or an unknown outcome:
        ask the history which it was, never the exception."""
        self._table().manageSnapshots().cherrypick(snapshot).commit()

    def _table(self) -> Any:
        jvm = self._spark._jvm
        assert jvm is not None
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self.name)
        table.refresh()
        return table

    def _metadata(self) -> Any:
        return self._table().operations().current()


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

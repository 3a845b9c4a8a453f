"""The table of rejected rows, and how they are staged (`tidegate.flows.rejected`)."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from tidegate.core.manifests import OwnedUpload, bin_pack, pack_tasks, unpack_task
from tidegate.flows.sink import Hopeless
from tidegate.reading.reader import REJECTED_COLUMNS, Reader
from tidegate.sinks.iceberg.causes import MISTAKES, cause
from tidegate.sinks.iceberg.columns import rename_column
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.sinks.iceberg.target import asking
from tidegate.sinks.iceberg.tasks import rows_of_tasks

COLUMNS = ", ".join(f"{name} {kind} not null" for name, kind in REJECTED_COLUMNS.items())
PARTITION_BY = ("days(_ingested_at)",)
"""Whoever has dealt with the rejected rows of a day deletes them by metadata alone."""


def create_rejected(iceberg: IcebergTable) -> None:
    """Create the table if it is absent. Raises Hopeless if it cannot be created, or is a table of something else."""
    with asking(f"table {iceberg.name}, for rejected rows: "):
        if not iceberg.exists:
            try:
                iceberg.create_if_absent(COLUMNS, PARTITION_BY)
            except MISTAKES as error:
                raise Hopeless(f"table {iceberg.name}, for rejected rows, cannot be created: {cause(error)}") from error
        there = {field.name: field.dataType.simpleString() for field in iceberg.schema}
        for name, kind in REJECTED_COLUMNS.items():
            if there.get(name) != kind:
                raise Hopeless(
                    f"table {iceberg.name} is to have the rejected rows, and its column {name} is"
                    f" {there.get(name, 'not there')}, not {kind}. {_remedy(iceberg, name)}"
                )


def _remedy(iceberg: IcebergTable, column: str) -> str:
    if now := iceberg.now_called(column):
        return f"It is called {now} now. Run: {rename_column(iceberg.name, now, column)}" if now != column else _ANEW
    return _ANEW


_ANEW = "Rename that table: Tidegate creates it anew"


def rejected_rows(
    spark: SparkSession, reader: Reader, items: Sequence[OwnedUpload], task_bytes: int, task_objects: int
) -> Any:
    """The rejected rows of these uploads as a DataFrame. They are read once more: few files have some."""
    tasks = bin_pack(
        [item.upload.size for item in items],
        parallelism=spark.sparkContext.defaultParallelism,
        task_bytes=task_bytes,
        task_objects=task_objects,
    )
    packed = pack_tasks(items, tasks)
    return rows_of_tasks(spark, packed, lambda task: reader.read_rejected(unpack_task(task)), COLUMNS)

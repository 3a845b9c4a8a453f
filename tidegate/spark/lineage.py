"""A job that writes the lineage of a table to the work bucket (`tidegate.core.lineage`). It changes no table.

    step                                    if the driver dies right after it     if a twin runs beside it
    1 read main's head and its ancestors    nothing has happened                  each may read another snapshot
    2 write the history                     a file that nobody reads              each writes to its own folder
    3 group, sort, write numbered files     the same                              the same
    4 write complete.json, if there is none done                                  one writes it, and its files count

All reads after step 1 name the snapshot, so what is published meanwhile is not in it. A task that is repeated writes
the same file again: the rows of a snapshot do not change, and each group is in one place of the order.
"""

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import boto3
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, count, expr, lit

from tidegate.aws.work import S3Work
from tidegate.core.lineage import (
    PART_UPLOADS,
    CompleteLineage,
    Landed,
    checked_prefix,
    encode_history,
    encode_landed,
    history_name,
    lineage_folder,
)
from tidegate.core.publication import History
from tidegate.sinks.iceberg.causes import cause
from tidegate.sinks.iceberg.columns import quoted
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.spark.session import open_session

log = logging.getLogger("tidegate")

COLUMNS = ("_source_uri", "_source_version", "_batch_id")
_WRITTEN = "name string, uploads bigint, rows bigint"


def run(identifier: str, work_bucket: str, account: str, table: str, prefix: str) -> int:
    """Write the lineage of `table` under `prefix` as run `identifier`. 0 if it is complete, now or already."""
    work = S3Work(boto3.client("s3"), work_bucket, account)
    folder = lineage_folder(identifier)
    try:
        spark = open_session(f"tidegate-{identifier}")
        complete = write(spark, table, prefix, folder, work_bucket, account)
        work.put_if_absent(folder + "complete.json", complete.encode())
        spark.stop()
    except Exception as error:
        log.exception("the lineage of %s could not be written", table)
        work.put(folder + "failure.json", json.dumps({"table": table, "reason": cause(error)}).encode())
        return 1
    log.info("%s: %d uploads with %d rows in %d files", table, complete.uploads, complete.rows, len(complete.parts))
    return 0


def write(
    spark: SparkSession,
    table: str,
    prefix: str,
    folder: str,
    work_bucket: str,
    account: str,
    at_most: int = PART_UPLOADS,
) -> CompleteLineage:
    """Write the files. Each has `at_most` uploads."""
    driver = uuid.uuid4().hex
    read = IcebergTable(spark, table)
    history = read.whole_history() if read.exists else History("", ())
    S3Work(boto3.client("s3"), work_bucket, account).put(history_name(f"{folder}{driver}/"), encode_history(history))
    head = history.ancestors[0].id if history.ancestors else None
    if head is None:
        return CompleteLineage(table, prefix, None, driver, (), 0, 0)
    writer = _writer(f"{folder}{driver}/", work_bucket, account, at_most)
    parts = sorted(grouped(spark, table, head, prefix).mapInArrow(writer, _WRITTEN).collect())
    return CompleteLineage(
        table=table,
        prefix=prefix,
        snapshot=head,
        folder=driver,
        parts=tuple(each.name for each in parts),
        uploads=sum(each.uploads for each in parts),
        rows=sum(each.rows for each in parts),
    )


def grouped(spark: SparkSession, table: str, snapshot: int, prefix: str) -> DataFrame:
    """bucket, key, version, batch and number of rows, sorted. Raises ValueError if the table has no lineage."""
    rows = spark.sql(f"SELECT * FROM {quoted(table)} VERSION AS OF {snapshot}")
    if missing := [name for name in COLUMNS if name not in rows.columns]:
        raise ValueError(f"table {table} has no column {', '.join(missing)}: its rows do not say where they are from")
    # first, so that Iceberg gets the filter and skips files by it
    rows = rows.where(col("_source_uri").startswith(checked_prefix(prefix)))
    place = [
        # a bucket's name has no slash
        expr("substring_index(substring(_source_uri, 6), '/', 1)").alias("bucket"),
        expr("substring(_source_uri, 7 + length(substring_index(substring(_source_uri, 6), '/', 1)))").alias("key"),
        coalesce(col("_source_version"), lit("")).alias("version"),
        coalesce(col("_batch_id"), lit("")).alias("batch"),
    ]
    names = ("bucket", "key", "version", "batch")
    counted = rows.select(*place).groupBy(*names).agg(count(lit(1)).alias("rows"))
    # Spark compares strings by their UTF-8 bytes
    return counted.orderBy(*names)


def _writer(folder: str, bucket: str, account: str, at_most: int) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Writes one sorted partition as files, and yields their names and counts. It is sent to the executors, so it has
    plain values only. Partitions are numbered in the order of the sort."""

    def write_partition(batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        work = S3Work(boto3.client("s3"), bucket, account)
        for number, part in enumerate(_cut(batches, at_most)):
            name = f"{context.partitionId():06}-{number:06}.jsonl.gz"
            work.put(folder + name, encode_landed(part))
            written = {"name": [name], "uploads": [len(part)], "rows": [sum(each.rows for each in part)]}
            yield pa.RecordBatch.from_pydict(written)

    return write_partition


def _cut(batches: Iterable[Any], at_most: int) -> Iterator[list[Landed]]:
    part: list[Landed] = []
    for batch in batches:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            part.append(Landed(*row))
            if len(part) == at_most:
                yield part
                part = []
    if part:
        yield part

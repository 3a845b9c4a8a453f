"""A job that screens a bucket for an audit (`tidegate.core.screening`). It changes no table and no ledger.

    step                                    if the driver dies right after it     if a twin runs beside it
    1 find the uploads' places              nothing has happened                  each may find others
    2 compare, write suspects in            files that nobody reads               each writes to its own folder
      numbered files
    3 write complete.json, if there is none done                                  one writes it, and its files count

A task that is repeated may find others than before, because the ledger moves on. So a file's name has the attempt of
its task, and those count whose tasks Spark took.

Where the uploads are found:

    listing                 key ranges of the bucket, listed beside each other
    s3-metadata-inventory   S3 Metadata's live inventory table: every version in the bucket
    s3-metadata-journal     S3 Metadata's journal table: every version that was created since it was switched on
    s3://...                the newest list of an S3 Inventory, in Parquet
"""

import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import boto3
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, lit, unix_timestamp

from tidegate.aws.listing import S3Listing
from tidegate.aws.work import S3Work
from tidegate.core.audit import LISTING, METADATA_INVENTORY, METADATA_JOURNAL, AuditCounts, Listed, Marker
from tidegate.core.key_ranges import FirstKeys, KeyRange, find_boundaries, just_before, key_ranges
from tidegate.core.routes import is_file_under
from tidegate.core.screening import (
    PART_SUSPECTS,
    CompleteScreening,
    ScreeningRequest,
    SuspectsPart,
    encode_suspects,
    screening_failure,
    screening_folder,
)
from tidegate.core.uploads import Upload, version_of
from tidegate.flows.ledger import Ledger
from tidegate.flows.screen import screen
from tidegate.sinks.iceberg.causes import cause
from tidegate.sinks.iceberg.table import quoted
from tidegate.spark.inventory import newest_list, rows_of
from tidegate.stores.dynamodb import DynamoDbStore

log = logging.getLogger("tidegate")

RANGES = 256
"""Key ranges that a listing is cut into: many for each core, because their sizes differ."""
LOOKS = 1_000
"""Requests to S3 to find the ranges, at most: half a cent."""
CATALOG = "tidegate_s3_metadata"
METADATA_LAG = 3 * 3_600
"""Seconds. The live inventory table shows a change after an hour at most
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/metadata-tables-inventory-schema.html)."""
_RANGE = "begin string, end string"
_WRITTEN = "written string"


def run(identifier: str, work_bucket: str, account: str, request: ScreeningRequest) -> int:
    """Screen as run `identifier`. 0 if it is complete, now or already."""
    work = S3Work(boto3.client("s3"), work_bucket, account)
    folder = screening_folder(identifier)
    try:
        spark = SparkSession.builder.appName(f"tidegate-audit-{identifier}").getOrCreate()
        complete = write(spark, request, folder, work_bucket, account)
        work.put_if_absent(folder + "complete.json", complete.encode())
        spark.stop()
    except Exception as error:
        log.exception("s3://%s/%s could not be screened", request.bucket, request.prefix)
        reason = {"bucket": request.bucket, "prefix": request.prefix, "reason": cause(error)}
        work.put(screening_failure(identifier), json.dumps(reason).encode())
        return 1
    log.info("%s: %d suspects", complete.counts.as_dict(), complete.suspects)
    return 0


def write(
    spark: SparkSession, request: ScreeningRequest, folder: str, work_bucket: str, account: str
) -> CompleteScreening:
    """Compare, and write the suspects."""
    driver = uuid.uuid4().hex
    # the times of the tables have no zone, and are in UTC
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    now = int(time.time())
    remarks: tuple[str, ...] = ()
    until = request.window.until
    match request.source:
        case source if source == LISTING:
            found = _ranges(spark, request, account)
            listed = _list_range(request, account)
        case source if source in (METADATA_INVENTORY, METADATA_JOURNAL):
            _attach_metadata(spark, account)
            table = metadata_table(request)
            until = min(until, now - METADATA_LAG)
            found = _places_of_metadata(spark, table, request)
            remarks = _remarks_on_journal(spark, table, request) if source == METADATA_JOURNAL else ()
            listed = _read_places(request)
        case source:
            newest = newest_list(source, request.bucket, now, account)
            until = min(until, newest.until)
            found = _places(rows_of(spark, newest), request)
            listed = _read_places(request)
    rate = request.rate / tasks_at_once(spark)
    writer = _writer(f"{folder}{driver}/", work_bucket, account, request, rate, listed)
    written = [json.loads(row.written) for row in found.mapInArrow(writer, _WRITTEN).collect()]
    parts = sorted((SuspectsPart(**part) for each in written for part in each["parts"]), key=lambda part: part.first)
    counts = sum((AuditCounts.from_dict(each["counts"]) for each in written), AuditCounts())
    return CompleteScreening(driver, tuple(parts), counts, until, remarks)


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks may run at a time, once the job has all executors that it may get."""
    conf = spark.sparkContext.getConf()
    most = int(conf.get("spark.dynamicAllocation.maxExecutors", "0") or 0)
    cores = int(conf.get("spark.executor.cores", "1") or 1)
    return max(1, most * cores, spark.sparkContext.defaultParallelism)


# ---- the bucket's listing


def _ranges(spark: SparkSession, request: ScreeningRequest, account: str) -> DataFrame:
    """The key ranges, each a partition."""
    listing = S3Listing(boto3.client("s3"), account)

    def look(after: str) -> FirstKeys:
        page = listing.page(request.bucket, request.prefix, Marker(after), request.owner)
        keys = tuple(each.upload.key for each in page.listed)
        # a page may have delete markers only, and S3 says where the next one begins
        return FirstKeys((*keys, page.after.key) if page.after else keys, page.after is None)

    boundaries = find_boundaries(request.prefix, look, wanted=RANGES, looks=LOOKS)
    ranges = [(each.begin, each.end) for each in key_ranges(boundaries)]
    return spark.createDataFrame(spark.sparkContext.parallelize(ranges, len(ranges)), _RANGE)


def _list_range(request: ScreeningRequest, account: str) -> Callable[[dict[str, Any]], Iterator[Listed]]:
    def uploads_in(row: dict[str, Any]) -> Iterator[Listed]:
        listing = S3Listing(boto3.client("s3"), account)
        keys = KeyRange(row["begin"], row["end"])
        after: Marker | None = Marker(just_before(keys.begin))
        while after:
            page = listing.page(request.bucket, request.prefix, after, request.owner)
            yield from (each for each in page.listed if keys.has(each.upload.key))
            after = None if page.after is None or keys.is_after(page.after.key) else page.after

    return uploads_in


# ---- tables and lists of the bucket


def metadata_table(request: ScreeningRequest) -> str:
    """(https://docs.aws.amazon.com/AmazonS3/latest/userguide/metadata-tables-overview.html)"""
    name = "journal" if request.source == METADATA_JOURNAL else "inventory"
    return f"{CATALOG}.b_{request.bucket}.{name}"


def _attach_metadata(spark: SparkSession, account: str) -> None:
    """Name the table bucket of S3 Metadata as a catalog, by its Iceberg REST endpoint. Spark loads a catalog when it is
    first used."""
    name = f"spark.sql.catalog.{CATALOG}"
    if spark.conf.get(name, None):
        return
    region = boto3.session.Session().region_name
    partition = boto3.session.Session().get_partition_for_region(region)
    suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    properties = {
        "type": "rest",
        "uri": f"https://s3tables.{region}.{suffix}/iceberg",
        "warehouse": f"arn:{partition}:s3tables:{region}:{account}:bucket/aws-s3",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "rest.sigv4-enabled": "true",
        "rest.signing-name": "s3tables",
        "rest.signing-region": region,
        "rest-metrics-reporting-enabled": "false",
    }
    spark.conf.set(name, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in properties.items():
        spark.conf.set(f"{name}.{key}", value)


def _places_of_metadata(spark: SparkSession, table: str, request: ScreeningRequest) -> DataFrame:
    rows = spark.table(quoted(table))
    if request.source == METADATA_JOURNAL:
        rows = rows.where(col("record_type") == "CREATE")
    return _places(rows, request)


def _remarks_on_journal(spark: SparkSession, table: str, request: ScreeningRequest) -> tuple[str, ...]:
    first = spark.sql(f"SELECT CAST(min(record_timestamp) AS STRING) AS at FROM {quoted(table)}").collect()[0].at
    since = datetime.fromtimestamp(request.window.since, UTC).replace(tzinfo=None)
    if first is not None and datetime.fromisoformat(first) <= since:
        return ()
    return (
        f"the journal of bucket {request.bucket} begins at {first}, and the audit looks back to {since}: uploads from"
        " before the journal are not compared",
    )


def _places(rows: DataFrame, request: ScreeningRequest) -> DataFrame:
    """The versions under the prefix that the window may have, in the order of their keys: Spark compares strings by
    their UTF-8 bytes."""
    modified = unix_timestamp(col("last_modified_date"))
    return (
        rows.where(col("key").startswith(request.prefix) & col("key").endswith(request.suffix))
        .where(~coalesce(col("is_delete_marker").cast("boolean"), lit(False)))
        .where((modified >= request.window.since) & (modified <= request.window.until))
        .select("key", "version_id", "e_tag", col("size").cast("bigint").alias("size"), modified.alias("modified"))
        .orderBy("key")
    )


def _read_places(request: ScreeningRequest) -> Callable[[dict[str, Any]], Iterator[Listed]]:
    def upload_at(row: dict[str, Any]) -> Iterator[Listed]:
        version = version_of(row["version_id"], row["e_tag"])
        yield Listed(Upload(request.bucket, row["key"], version, row["size"] or 0), row["modified"])

    return upload_at


# ---- comparing


def _writer(
    folder: str,
    bucket: str,
    account: str,
    request: ScreeningRequest,
    rate: float,
    listed: Callable[[dict[str, Any]], Iterator[Listed]],
) -> Callable[[Iterable[Any]], Iterable[Any]]:
    """Screens one partition, and yields what it has written. It is sent to the executors, so it has plain values
    only."""

    def screen_partition(batches: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        work = S3Work(boto3.client("s3"), bucket, account)
        store = DynamoDbStore(boto3.client("dynamodb"), request.ledger)
        ledger = Ledger(store, lambda: int(time.time()), request.claims)
        counts = AuditCounts()
        parts: list[SuspectsPart] = []
        suspects: list[Upload] = []

        def flush() -> None:
            name = f"{context.partitionId():06}-{context.taskAttemptId()}-{len(parts):06}.jsonl.gz"
            work.put(folder + name, encode_suspects(suspects))
            parts.append(SuspectsPart(name, suspects[0].key, suspects[-1].key, len(suspects)))
            suspects.clear()

        found_there = (each for row in _rows(batches) for each in listed(row))
        uploads = (each for each in found_there if is_file_under(each.upload, request.prefix, request.suffix))
        for found in screen(uploads, request.window, ledger):
            counts += found.counts
            suspects += found.suspects
            if len(suspects) >= PART_SUSPECTS:
                flush()
            time.sleep(found.compared / rate)
        if suspects:
            flush()
        done = {"parts": [asdict(part) for part in parts], "counts": counts.as_dict()}
        yield pa.RecordBatch.from_pydict({"written": [json.dumps(done)]})

    return screen_partition


def _rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()

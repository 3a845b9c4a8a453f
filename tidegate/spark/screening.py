"""A job that screens a bucket for an audit (`tidegate.core.screening`). It changes no table and no ledger.

    step                                    if the driver dies right after it     if a twin runs beside it
    1 find the uploads' places              nothing has happened                  each may find others
    2 compare, write suspects in            files that nobody reads               each writes to its own folder
      numbered files
    3 write complete.json, if there is none done                                  one writes it, and its files count

A listing is compared in rounds, because a key range may have far more keys than others: what a task has left of its
range is in its answer, beside what it has compared. So if the task is repeated, the last answer's rest belongs to the
last answer's parts.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from typing import Any

import boto3
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import coalesce, col, lit, unix_timestamp

from tidegate.aws.listing import S3Listing
from tidegate.aws.work import S3Work
from tidegate.core.audit import LISTING, METADATA_INVENTORY, METADATA_JOURNAL, AuditCounts, Listed, Marker
from tidegate.core.key_ranges import EVERY_KEY, FirstKeys, KeyRange, divided
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
from tidegate.flows.screen import listed_in, screen
from tidegate.sinks.iceberg.causes import cause
from tidegate.sinks.iceberg.columns import quoted
from tidegate.spark.inventory import newest_list, rows_of
from tidegate.spark.session import open_session
from tidegate.stores.dynamodb import DynamoDbStore

log = logging.getLogger("tidegate")

RANGES = 256
"""Key ranges that a listing is cut into: many for each core, because their sizes differ."""
LOOKS = 1_000
"""Requests to S3 to find the ranges, at most, in each round: half a cent."""
PAGES: Sequence[int | None] = (200, 2_000, 20_000, None)
"""What a task lists of a range in each round, in requests: then the rest of the range is cut again. A page has 1,000
versions. So where nearly all keys follow one text, at most 200,000 of them are listed before others help."""
Places = Callable[[dict[str, Any], list[KeyRange]], Iterator[Listed]]
"""The uploads at a row, and in the list which keys it has left for another round."""
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
        spark = open_session(f"tidegate-audit-{identifier}")
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
    rate = request.rate / tasks_at_once(spark)

    def compared(found: DataFrame, listed: Places) -> list[Any]:
        writer = _writer(f"{folder}{driver}/", work_bucket, account, request, rate, listed)
        return [json.loads(row.written) for row in found.mapInArrow(writer, _WRITTEN).collect()]

    match request.source:
        case source if source == LISTING:
            written = _of_listing(spark, request, account, compared)
        case source if source in (METADATA_INVENTORY, METADATA_JOURNAL):
            _attach_metadata(spark, account)
            table = metadata_table(request)
            until = min(until, now - METADATA_LAG)
            remarks = _remarks_on_journal(spark, table, request) if source == METADATA_JOURNAL else ()
            written = compared(_places_of_metadata(spark, table, request), _read_places(request))
        case source:
            newest = newest_list(source, request.bucket, now, account)
            until = min(until, newest.until)
            written = compared(_places(rows_of(spark, newest), request), _read_places(request))
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


def _of_listing(
    spark: SparkSession, request: ScreeningRequest, account: str, compared: Callable[[DataFrame, Places], list[Any]]
) -> list[Any]:
    """Round by round, each key range a partition. A range that is longer than a round's limit is cut again, by what
    the rest of it has: one prefix of many may have nearly all keys. The last round has no limit."""
    written: list[Any] = []
    ranges = [EVERY_KEY]
    for most in PAGES:
        ranges = _divided(request, account, ranges)
        rows = spark.createDataFrame(
            spark.sparkContext.parallelize([(each.begin, each.end) for each in ranges], len(ranges)), _RANGE
        )
        found = compared(rows, _list_range(request, account, most))
        written += found
        ranges = sorted((KeyRange(*left) for each in found for left in each["rest"]), key=lambda each: each.begin)
        if not ranges:
            break
        log.info("%d key ranges have more than %d pages: they are cut again", len(ranges), most)
    return written


def _divided(request: ScreeningRequest, account: str, ranges: Sequence[KeyRange]) -> list[KeyRange]:
    """About `RANGES` of these, with at most `LOOKS` requests."""
    listing = S3Listing(boto3.client("s3"), account)

    def look(after: str) -> FirstKeys:
        page = listing.page(request.bucket, request.prefix, Marker(after), request.owner)
        keys = tuple(each.upload.key for each in page.listed)
        # a page may have delete markers only, and S3 says where the next one begins
        return FirstKeys((*keys, page.after.key) if page.after else keys, page.after is None)

    wanted, looks = max(1, RANGES // len(ranges)), LOOKS // len(ranges)
    return [part for each in ranges for part in divided(each, request.prefix, look, wanted=wanted, looks=looks)]


def _list_range(request: ScreeningRequest, account: str, most: int | None) -> Places:
    def uploads_in(row: dict[str, Any], rest: list[KeyRange]) -> Iterator[Listed]:
        listing = S3Listing(boto3.client("s3"), account)
        page_after = partial(listing.page, request.bucket, request.prefix, owner=request.owner)
        yield from listed_in(KeyRange(row["begin"], row["end"]), lambda after: page_after(after=after), most, rest)

    return uploads_in


# ---- tables and lists of the bucket


def metadata_table(request: ScreeningRequest) -> str:
    """(https://docs.aws.amazon.com/AmazonS3/latest/userguide/metadata-tables-overview.html)"""
    name = "journal" if request.source == METADATA_JOURNAL else "inventory"
    return f"{CATALOG}.b_{request.bucket}.{name}"


def _attach_metadata(spark: SparkSession, account: str) -> None:
    """Name the table bucket of S3 Metadata as a catalog, by way of Glue, which every job reaches
    (docs/adr/0027-catalogs-by-rest.md). Spark loads a catalog when it is first used."""
    name = f"spark.sql.catalog.{CATALOG}"
    if spark.conf.get(name, None):
        return
    properties = {
        "catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
        "glue.id": f"{account}:s3tablescatalog/aws-s3",
        "client.region": boto3.session.Session().region_name,
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    spark.conf.set(name, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in properties.items():
        spark.conf.set(f"{name}.{key}", value)


def _places_of_metadata(spark: SparkSession, table: str, request: ScreeningRequest) -> DataFrame:
    rows = spark.table(quoted(table))
    if request.source == METADATA_JOURNAL:
        # a delete marker is recorded as a deletion
        marked = (col("record_type") == "DELETE") & col("is_delete_marker")
        rows = rows.where((col("record_type") == "CREATE") | (marked & lit(request.removes)))
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
        .where(~coalesce(col("is_delete_marker").cast("boolean"), lit(False)) | lit(request.removes))
        .where((modified >= request.window.since) & (modified <= request.window.until))
        .select("key", "version_id", "e_tag", col("size").cast("bigint").alias("size"), modified.alias("modified"))
        .orderBy("key")
    )


def _read_places(request: ScreeningRequest) -> Places:
    def upload_at(row: dict[str, Any], rest: list[KeyRange]) -> Iterator[Listed]:
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
    listed: Places,
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

        rest: list[KeyRange] = []
        found_there = (each for row in _rows(batches) for each in listed(row, rest))
        wanted = (each for each in found_there if request.removes or not each.deletion)
        uploads = (each for each in wanted if is_file_under(each.upload, request.prefix, request.suffix))
        for found in screen(uploads, request.window, ledger):
            counts += found.counts
            suspects += found.suspects
            if len(suspects) >= PART_SUSPECTS:
                flush()
            time.sleep(found.compared / rate)
        if suspects:
            flush()
        done: dict[str, Any] = {"parts": [asdict(part) for part in parts], "counts": counts.as_dict()}
        done["rest"] = [(each.begin, each.end) for each in rest]
        yield pa.RecordBatch.from_pydict({"written": [json.dumps(done)]})

    return screen_partition


def _rows(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()

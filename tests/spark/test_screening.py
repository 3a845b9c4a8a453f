"""A job that screens a bucket, on a real Spark: from its listing, from S3 Metadata's tables, from an S3 Inventory."""

import io
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.spark.world import WORK
from tests.support.build import notice
from tests.support.fakes import MemoryListing
from tests.support.ledgers import create_table
from tidegate.aws.listing import S3Listing
from tidegate.aws.work import S3Work
from tidegate.core.audit import (
    BEGINNING,
    LISTING,
    METADATA_INVENTORY,
    METADATA_JOURNAL,
    AuditCounts,
    Listed,
    Marker,
    Window,
)
from tidegate.core.errors import Rejected
from tidegate.core.inventories import OLDEST
from tidegate.core.records import DAY
from tidegate.core.screening import (
    CompleteScreening,
    ScreeningRequest,
    decode_screening,
    decode_suspects,
    screening_failure,
    screening_folder,
)
from tidegate.core.uploads import Upload
from tidegate.flows.ledger import Ledger
from tidegate.flows.suspects import SuspectListing
from tidegate.spark import screening
from tidegate.spark.inventory import newest_list
from tidegate.stores.dynamodb import DynamoDbStore

pytestmark = pytest.mark.spark

LISTS = "lists"
CLAIMS = 60 * DAY
TAKEN = sorted(f"in/{name}.json" for name in ("'1", "1 +ä", "2%41", "\U0001f30a", "\ufffd", "x/1", "x/2", "x/3"))
"""By UTF-16 two of them were the other way round."""
NOT_TAKEN = ("in/x.txt", "in/x/", "out/1.json")


@dataclass
class Bucket:
    """A landing bucket with versions, and a ledger: some of its uploads are claimed and registered."""

    name: str
    table: str
    spark: SparkSession

    @property
    def listing(self) -> S3Listing:
        return S3Listing(boto3.client("s3"))

    @property
    def ledger(self) -> Ledger:
        return Ledger(DynamoDbStore(boto3.client("dynamodb"), self.table), lambda: int(time.time()), CLAIMS)

    @property
    def listed(self) -> list[Listed]:
        return list(self.listing.page(self.name, "", BEGINNING, "").listed)

    def request(self, source: str, **changed: Any) -> ScreeningRequest:
        now = int(time.time())
        window = Window(now - 30 * DAY, now + 60, 0, 45 * DAY)
        asked = ScreeningRequest(self.name, "in/", ".json", "", source, window, self.table, CLAIMS, 1_000_000)
        return replace(asked, **changed)

    def claim(self, *keys: str) -> None:
        found = [each.upload for each in self.listed if each.upload.key in keys]
        assert len(self.ledger.claim(notice(*found)).owned) == len(found)

    def screen(self, source: str, **changed: Any) -> tuple[CompleteScreening, list[str]]:
        """What a job finds, and the keys of the suspects as the audit gets them."""
        run = f"R{uuid.uuid4().hex[:12]}"
        done = screening.write(self.spark, self.request(source, **changed), screening_folder(run), WORK, "")
        suspects = SuspectListing(run, done, self.listing, S3Work(boto3.client("s3"), WORK))
        found: list[str] = []
        after: Marker | None = BEGINNING
        while after:
            page = suspects.page(self.name, "in/", after, "")
            found += [each.upload.key for each in page.listed]
            after = page.after
        return done, found


@pytest.fixture
def bucket(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    monkeypatch.setattr(screening, "RANGES", 5)
    name = f"landing-{uuid.uuid4().hex[:8]}"
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=name)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for key in (*TAKEN, *NOT_TAKEN):
        s3.put_object(Bucket=name, Key=key, Body=b"" if key.endswith("/") else b"{}")
    create_table(boto3.client("dynamodb"), f"ledger-{name}")
    return Bucket(name, f"ledger-{name}", spark)


class _InPages:
    """S3 with pages of two."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def list_object_versions(self, **given: Any) -> Any:
        return self._client.list_object_versions(**given, MaxKeys=2)


def _listing_in_pages(client: Any, account: str) -> S3Listing:
    return S3Listing(_InPages(client), account)  # type: ignore[arg-type]


def test_key_ranges_of_the_listing_are_compared_beside_each_other(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(screening, "S3Listing", _listing_in_pages)
    done, found = bucket.screen(LISTING)
    assert found == TAKEN
    assert (done.suspects, done.counts) == (8, AuditCounts())
    assert len({part.name.partition("-")[0] for part in done.parts}) > 1, "several tasks found some"
    assert [part.first for part in done.parts] == sorted(part.first for part in done.parts)


def test_what_a_task_has_left_of_its_range_is_cut_again(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    """Each upload is compared once, all the same: one of several versions, too."""
    monkeypatch.setattr(screening, "S3Listing", _listing_in_pages)
    monkeypatch.setattr(screening, "RANGES", 1)
    monkeypatch.setattr(screening, "LOOKS", 0)
    for _ in range(3):
        boto3.client("s3").put_object(Bucket=bucket.name, Key="in/x/2.json", Body=b"{}")
    expected = sorted([*TAKEN, *["in/x/2.json"] * 3])
    for limits in ((1, 1, None), (1, 2, 1, None)):
        monkeypatch.setattr(screening, "PAGES", limits)
        done, found = bucket.screen(LISTING)
        assert found == expected
        assert done.suspects == len(expected)
        assert len({part.name.partition("-")[2] for part in done.parts}) >= 3, "several rounds found some"


def test_what_has_a_claim_is_no_suspect(bucket: Bucket):
    bucket.claim(*TAKEN[:5])
    # claimed a moment ago by a notice that never registered, and at once old enough for this window
    done, found = bucket.screen(LISTING)
    assert found == TAKEN, "stale claims are suspected"
    done, found = bucket.screen(LISTING, window=replace(bucket.request(LISTING).window, min_age=DAY))
    assert found == TAKEN[5:]
    assert done.counts == AuditCounts(listed=5, pending=5)


def test_an_old_version_is_an_upload_of_its_own(bucket: Bucket):
    boto3.client("s3").put_object(Bucket=bucket.name, Key="in/x/2.json", Body=b"{}")
    boto3.client("s3").delete_object(Bucket=bucket.name, Key="in/x/1.json")
    _, found = bucket.screen(LISTING)
    assert (found.count("in/x/2.json"), found.count("in/x/1.json")) == (2, 1), "a delete marker is no upload"


def test_what_is_outside_the_window_is_counted_and_not_compared(bucket: Bucket):
    now = int(time.time())
    done, found = bucket.screen(LISTING, window=Window(now - 30 * DAY, now - DAY, 0, 45 * DAY))
    assert (found, done.counts) == ([], AuditCounts(listed=8, outside=8))


def test_a_rate_holds_the_job_back(bucket: Bucket):
    begin = time.monotonic()
    bucket.screen(LISTING, rate=4)
    assert time.monotonic() - begin >= 8 / 4 / 2, "eight uploads, and two tasks at a time may each have two in a second"


# ---- S3 Metadata


@pytest.fixture
def metadata(spark: SparkSession, warehouse: Path, bucket: Bucket) -> Iterator[str]:
    """The namespace of the bucket's tables, in a catalog of this machine instead of AWS's table bucket."""
    name = f"spark.sql.catalog.{screening.CATALOG}"
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".jdbc.schema-version": "V1",
        ".uri": f"jdbc:sqlite:{warehouse / 'metadata.db'}?busy_timeout=20000",
        ".warehouse": (warehouse / "metadata").as_uri(),
        ".cache-enabled": "false",
    }
    for key, value in properties.items():
        spark.conf.set(f"{name}{key}", value)
    namespace = f"{screening.CATALOG}.`b_{bucket.name}`"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    for table in ("inventory", "journal"):
        spark.sql(
            f"CREATE TABLE {namespace}.{table} (bucket string, key string, sequence_number string,"
            f" {'record_type string, record_timestamp timestamp_ntz,' if table == 'journal' else ''}"
            " version_id string, is_delete_marker boolean, size bigint, last_modified_date timestamp_ntz, e_tag string)"
            " USING iceberg"
        )
    return namespace


def at(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)


def record(spark: SparkSession, table: str, rows: list[dict[str, Any]]) -> None:
    frame = spark.createDataFrame(rows, spark.table(table).schema)
    frame.writeTo(table).append()


def row_of(each: Listed, **more: Any) -> dict[str, Any]:
    return {
        "bucket": each.upload.bucket,
        "key": each.upload.key,
        "sequence_number": "1",
        "version_id": each.upload.version_id,
        "is_delete_marker": False,
        "size": each.upload.size,
        "last_modified_date": at(each.modified),
        "e_tag": each.upload.etag or "e",
        **more,
    }


def test_the_live_inventory_names_every_version_and_the_bucket_says_which_are_there(
    spark: SparkSession, bucket: Bucket, metadata: str
):
    rows = [row_of(each) for each in bucket.listed]
    gone = row_of(Listed(Upload(bucket.name, "in/gone.json", "v0", 1), int(time.time())))
    marker = row_of(Listed(Upload(bucket.name, "in/marker.json", "v0", 1), 0), is_delete_marker=True, size=None)
    record(spark, f"{metadata}.inventory", [*rows, gone, marker])
    done, found = bucket.screen(METADATA_INVENTORY)
    assert found == TAKEN
    assert (done.suspects, done.rest(AuditCounts(listed=8)).gone) == (9, 1)
    assert done.until <= time.time() - screening.METADATA_LAG


def test_the_journal_tells_what_was_created_and_where_it_begins(spark: SparkSession, bucket: Bucket, metadata: str):
    now = int(time.time())

    def told(each: Listed, kind: str) -> dict[str, Any]:
        return row_of(each, record_type=kind, record_timestamp=at(now - 5))

    listed = [each for each in bucket.listed if each.upload.key in TAKEN]
    rows = [*(told(each, "CREATE") for each in listed[:3]), told(listed[0], "UPDATE_METADATA")]
    record(spark, f"{metadata}.journal", [*rows, {**told(listed[4], "DELETE"), "is_delete_marker": None}])
    done, found = bucket.screen(METADATA_JOURNAL)
    assert found == TAKEN[:3]
    (remark,) = done.remarks
    assert f"the journal of bucket {bucket.name} begins at {at(now - 5)}" in remark
    window = replace(bucket.request(METADATA_JOURNAL).window, since=now - 2)
    assert bucket.screen(METADATA_JOURNAL, window=window)[0].remarks == ()


# ---- S3 Inventory

SCHEMA = (
    "message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); optional binary version_id"
    " (UTF8); optional boolean is_latest; optional boolean is_delete_marker; optional int64 size; optional int64"
    " last_modified_date (TIMESTAMP_MILLIS); optional binary e_tag (UTF8); }"
)


def write_list(bucket: Bucket, begun: int, listed: list[Listed], files: int = 2, **changed: Any) -> str:
    """What S3 Inventory writes: files, then the manifest. Returns the folder."""
    s3 = boto3.client("s3")
    if LISTS not in [each["Name"] for each in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=LISTS)
    folder = f"all/{bucket.name}/daily"
    named = []
    for number in range(files):
        rows = [row_of(each) for each in listed[number::files]]
        columns = {
            "bucket": pa.array([each["bucket"] for each in rows], pa.string()),
            "key": pa.array([each["key"] for each in rows], pa.string()),
            "version_id": pa.array([each["version_id"] for each in rows], pa.string()),
            "is_latest": pa.array([True for _ in rows], pa.bool_()),
            "is_delete_marker": pa.array([False for _ in rows], pa.bool_()),
            "size": pa.array([each["size"] for each in rows], pa.int64()),
            "last_modified_date": pa.array([each["last_modified_date"] for each in rows], pa.timestamp("ms")),
            "e_tag": pa.array([each["e_tag"] for each in rows], pa.string()),
        }
        file = io.BytesIO()
        pq.write_table(pa.table(columns), file)
        key = f"{folder}/data/{begun}-{number}.parquet"
        s3.put_object(Bucket=LISTS, Key=key, Body=file.getvalue())
        named.append({"key": key, "size": len(file.getvalue()), "MD5checksum": "-"})
    manifest = {
        "sourceBucket": bucket.name,
        "destinationBucket": f"arn:aws:s3:::{LISTS}",
        "version": "2016-11-30",
        "creationTimestamp": str(begun * 1000),
        "fileFormat": "Parquet",
        "fileSchema": SCHEMA,
        "files": named,
        **changed,
    }
    name = f"{datetime.fromtimestamp(begun, UTC):%Y-%m-%dT%H-%MZ}"
    s3.put_object(Bucket=LISTS, Key=f"{folder}/{name}/manifest.json", Body=json.dumps(manifest).encode())
    return f"s3://{LISTS}/{folder}"


def test_the_newest_list_of_an_inventory_is_read(bucket: Bucket):
    now = int(time.time())
    listed = bucket.listed
    write_list(bucket, now - 3 * DAY, listed[:2])
    folder = write_list(bucket, now - DAY, listed)
    # S3 has begun another one, which has no manifest yet
    boto3.client("s3").put_object(
        Bucket=LISTS, Key=f"{folder.removeprefix(f's3://{LISTS}/')}/2999-01-01T01-00Z/part", Body=b""
    )
    done, found = bucket.screen(folder)
    assert found == TAKEN
    assert done.until == now - DAY - DAY, "a day before it was begun"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sourceBucket": "other"}, "lists bucket other, not"),
        ({"fileFormat": "CSV"}, "is of CSV files: let the inventory write Parquet"),
        ({"fileSchema": SCHEMA.replace("version_id", "owner")}, "has no version_id: let the inventory include all"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_the_reason(bucket: Bucket, changed: dict[str, Any], said: str):
    now = int(time.time())
    folder = write_list(bucket, now - DAY, [], **changed)
    with pytest.raises(Rejected, match=said):
        newest_list(folder, bucket.name, now, "")


def test_an_inventory_that_has_stopped_is_said(bucket: Bucket):
    now = int(time.time())
    folder = write_list(bucket, now - 20 * DAY, [])
    begun = datetime.fromtimestamp(now - OLDEST, UTC)
    with pytest.raises(Rejected, match=f"no list in {folder} that was begun at {begun:%Y-%m-%dT%H-%M}Z or later"):
        newest_list(folder, bucket.name, now, "")


# ---- the job


def test_a_job_writes_once_what_is_complete(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    work = S3Work(boto3.client("s3"), WORK)
    run = f"R{bucket.name}"
    assert screening.run(run, WORK, "", bucket.request(LISTING)) == 0
    first = work.get(screening_folder(run) + "complete.json")
    assert first is not None
    complete = decode_screening(first)
    assert complete.suspects == len(TAKEN)
    assert screening.run(run, WORK, "", bucket.request(LISTING)) == 0
    assert work.get(screening_folder(run) + "complete.json") == first, "a twin that is later does not change it"
    suspects = []
    for part in complete.parts:
        body = work.get(f"{screening_folder(run)}{complete.folder}/{part.name}")
        assert body is not None
        suspects += [each.key for each in decode_suspects(body)]
    assert suspects == TAKEN


def test_a_job_that_cannot_leaves_the_reason(bucket: Bucket, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    work = S3Work(boto3.client("s3"), WORK)
    run = f"R{bucket.name}"
    assert screening.run(run, WORK, "", bucket.request(LISTING, bucket="no-such-bucket")) == 1
    body = work.get(screening_failure(run))
    assert body is not None
    assert "list s3://no-such-bucket/in/: NoSuchBucket" in json.loads(body)["reason"]
    assert work.get(screening_folder(run) + "complete.json") is None


def test_the_fake_of_the_other_tests_lists_in_the_same_order(bucket: Bucket):
    there = MemoryListing({each.upload: each.modified for each in bucket.listed})
    in_memory = there.page(bucket.name, "in/", BEGINNING, "").listed
    on_s3 = [each for each in bucket.listed if each.upload.key.startswith("in/")]
    assert [each.upload.key for each in in_memory] == [each.upload.key for each in on_s3]

"""The lineage of a real table on a real Spark: its order, its prefix, one snapshot, and what a job writes."""

import json

import boto3
import pytest
from pyspark.sql import SparkSession

from tests.spark.world import WORK, World
from tidegate.aws.work import S3Work
from tidegate.core.lineage import (
    CompleteLineage,
    Landed,
    decode_complete,
    decode_history,
    decode_landed,
    history_name,
    in_order,
    lineage_folder,
)
from tidegate.flows.publish import run
from tidegate.reading.reader import LINEAGE_DDL
from tidegate.spark import lineage

pytestmark = pytest.mark.spark

KEYS = ("a'b/1", "a/1", "a/10", "a/2", "a/ö", "a/￿", "a/\U0001f30a", "b\\c/%41 +", "z/line\nbreak")
"""Ends of the order: by UTF-16 the last two of `a/` were the other way round."""


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    return lineage_folder(f"run-{request.node.name}")


@pytest.fixture
def table(world: World) -> str:
    assert world.spark is not None
    world.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.tests")
    world.sql(f"CREATE TABLE {{t}} (id bigint, {LINEAGE_DDL}) USING iceberg")
    return world.dataset.table


def insert(world: World, rows: list[tuple[str, str, str]]) -> None:
    """Rows by (URI, version, batch)."""
    assert world.spark is not None
    frame = world.spark.createDataFrame(
        [(number, *row) for number, row in enumerate(rows)],
        "id bigint, _source_uri string, _source_version string, _batch_id string",
    )
    frame.selectExpr(
        "id", "_source_uri", "_source_version", "id AS _source_row", "_batch_id", "now() AS _ingested_at"
    ).writeTo(world.dataset.table).append()


def read(complete: CompleteLineage, folder: str) -> list[Landed]:
    work = S3Work(boto3.client("s3"), WORK)
    bodies = [work.get(f"{folder}{complete.folder}/{name}") for name in complete.parts]
    return list(in_order((each for body in bodies if body for each in decode_landed(body)), complete))


def write(spark: SparkSession, table: str, folder: str, prefix: str = "", at_most: int = 50_000) -> list[Landed]:
    return read(lineage.write(spark, table, prefix, folder, WORK, "", at_most), folder)


def test_all_rows_of_a_batch_are_counted_by_upload(spark: SparkSession, world: World, batch: str, folder: str):
    uploads = world.put({f"in/{key}": b'{"id": 1}\n{"id": 2}\n' for key in KEYS})
    world.seal(batch, uploads)
    assert run(world.attempt(batch, 1), "ingest") == 0
    expected = [Landed(each.bucket, each.key, each.version, batch, 2) for each in uploads]
    assert write(spark, world.dataset.table, folder) == sorted(expected, key=lambda each: each.place)


def test_what_is_written_is_in_order_over_many_files(spark: SparkSession, world: World, table: str, folder: str):
    keys = [f"{number * 7919 % 1000:03}" for number in range(1000)]
    places = [(f"s3://{bucket}/{key}", "v", "B") for bucket in ("a", "a-b") for key in keys]
    insert(world, places)
    # else Spark puts small partitions together
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        complete = lineage.write(spark, table, "", folder, WORK, "", 100)
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    assert len({name.partition("-")[0] for name in complete.parts}) > 1, "partitions are in order among themselves"
    assert len(complete.parts) >= 20
    found = read(complete, folder)
    # s3://a-b/ sorts before s3://a/, and bucket a before bucket a-b
    assert [(each.bucket, each.key) for each in found] == [
        (bucket, key) for bucket in ("a", "a-b") for key in sorted(keys)
    ]


def test_rows_are_told_by_version_and_batch(spark: SparkSession, world: World, table: str, folder: str):
    uri = "s3://a/k"
    insert(world, [(uri, "v2", "B1"), (uri, "v1", "B2"), (uri, "v1", "B1"), (uri, "v1", "B2"), ("elsewhere", "v", "B")])
    assert write(spark, table, folder) == [
        Landed("a", "k", "v1", "B1", 1),
        Landed("a", "k", "v1", "B2", 2),
        Landed("a", "k", "v2", "B1", 1),
    ]


def test_rows_of_other_tools_may_lack_version_and_batch(spark: SparkSession, world: World, folder: str):
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.tests")
    world.sql("CREATE TABLE {t} (_source_uri string, _source_version string, _batch_id string) USING iceberg")
    world.sql("INSERT INTO {t} VALUES ('s3://a/k', null, null), (null, 'v', 'B')")
    assert write(spark, world.dataset.table, folder) == [Landed("a", "k", "", "", 1)]


def test_the_prefix_is_taken_as_it_is(spark: SparkSession, world: World, table: str, folder: str):
    names = ["a%/1", "ab/1", "a_/1", "a/1", "a\\/1", "a'/1"]
    insert(world, [(f"s3://b/{name}", "v", "B") for name in names] + [("s3://bb/a/1", "v", "B")])
    for prefix in ("a%", "a_", "a\\", "a'", "ab/"):
        found = [each.key for each in write(spark, table, folder, f"s3://b/{prefix}")]
        assert found == [name for name in names if name.startswith(prefix)]
    assert len(write(spark, table, folder, "s3://b")) == len(names), "not of bucket bb"


def test_iceberg_gets_the_prefix(spark: SparkSession, world: World, table: str):
    insert(world, [("s3://a/1", "v", "B")])
    insert(world, [("s3://b/1", "v", "B")])
    head = world.main()[0].id
    found = lineage.grouped(spark, table, head, "s3://a/")
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "filters=_source_uri LIKE 's3://a/%'" in plan, plan
    assert [row.bucket for row in found.collect()] == ["a"]


def test_it_is_one_snapshot_of_main(spark: SparkSession, world: World, table: str):
    insert(world, [("s3://a/1", "v", "B1")])
    head = world.main()[0].id
    insert(world, [("s3://a/2", "v", "B2")])
    world.sql("ALTER TABLE {t} CREATE BRANCH staged")
    world.sql("INSERT INTO {t}.branch_staged SELECT 3, 's3://a/3', 'v', 0, 'B3', now()")
    world.sql("DELETE FROM {t} WHERE _source_uri = 's3://a/1'")
    assert [row.key for row in lineage.grouped(spark, table, head, "").collect()] == ["1"]
    assert [row.key for row in lineage.grouped(spark, table, world.main()[0].id, "").collect()] == ["2"]


def test_rows_that_were_rewritten_keep_their_lineage(spark: SparkSession, world: World, table: str, folder: str):
    insert(world, [("s3://a/1", "v", "B1")])
    insert(world, [("s3://a/2", "v", "B2")])
    before = write(spark, table, folder)
    assert [each.batch for each in before] == ["B1", "B2"]
    world.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")
    assert write(spark, table, folder) == before


def test_a_job_writes_once_what_is_complete(spark: SparkSession, world: World, table: str, folder: str, monkeypatch):
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    insert(world, [("s3://a/1", "v", "B1")])
    identifier = folder.split("/")[1]
    assert lineage.run(identifier, WORK, "", table, "s3://a/") == 0
    work = S3Work(boto3.client("s3"), WORK)
    first = work.get(folder + "complete.json")
    assert first is not None
    complete = decode_complete(first)
    assert (complete.table, complete.prefix, complete.uploads, complete.rows) == (table, "s3://a/", 1, 1)
    assert complete.snapshot == world.main()[0].id
    history = work.get(history_name(f"{folder}{complete.folder}/"))
    assert history
    assert decode_history(history).ancestors == tuple(each.plain for each in world.main())
    insert(world, [("s3://a/2", "v", "B2")])
    assert lineage.run(identifier, WORK, "", table, "s3://a/") == 0
    assert work.get(folder + "complete.json") == first, "a twin that is later does not change it"
    assert [each.key for each in read(complete, folder)] == ["1"]


@pytest.mark.parametrize("create", ["", "CREATE TABLE {t} (id bigint) USING iceberg"], ids=["no_table", "no_snapshot"])
def test_what_is_not_there_holds_nothing(spark: SparkSession, world: World, folder: str, create: str):
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.tests")
    if create:
        world.sql(create)
    assert write(spark, world.dataset.table, folder) == []


def test_a_table_without_lineage_is_a_failure(spark: SparkSession, world: World, folder: str, monkeypatch):
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.tests")
    world.sql("CREATE TABLE {t} (id bigint) USING iceberg")
    world.sql("INSERT INTO {t} VALUES (1)")
    assert lineage.run(folder.split("/")[1], WORK, "", world.dataset.table, "") == 1
    work = S3Work(boto3.client("s3"), WORK)
    body = work.get(folder + "failure.json")
    assert body is not None
    assert "has no column _source_uri, _source_version, _batch_id" in json.loads(body)["reason"]
    assert work.get(folder + "complete.json") is None

"""Columns that files do not have under their names, on a real Spark and a real Iceberg: what the schema lacks is in
`_unknown`, also of a table that had no such column, and what is in the key is in its columns."""

import json
import signal
import threading
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_publish import start_driver
from tests.spark.world import World
from tests.support.patience import HANGING, eventually
from tidegate.core.routes import Dataset
from tidegate.flows.publish import run
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.sinks.iceberg.widen import add_columns

pytestmark = pytest.mark.spark

SCHEMA = "id bigint, customer struct<city: string> -- all that we need"
ROWS = [
    {"id": 1, "coupon": "A", "customer": {"city": "R", "vip": True}},
    {"id": 2, "customer": None},
    {"id": 3, "coupon": None, "customer": {"vip": 1.50}},
]
KEPT: list[Any] = [{"coupon": "A", "customer": {"vip": True}}, None, {"coupon": None, "customer": {"vip": 1.5}}]


def reporting(spark: SparkSession, **more: Any) -> World:
    return World(Dataset(f"lake.tests.k{uuid.uuid4().hex[:12]}", SCHEMA, "json", **more), spark)


def keeping(world: World) -> World:
    """The same route after its settings were changed."""
    kept = replace(world.dataset, schema=f"{SCHEMA}\n\n, _unknown string", options=(("unknown", "keep"),))
    return World(kept, world.spark)


def put(world: World, batch: str) -> None:
    body = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
    world.seal(batch, world.put({f"in/{batch}.json": body}))


def landed(world: World, batch: str) -> None:
    put(world, batch)
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)


def kept_of(world: World, batch: str) -> list[Any]:
    rows = [row for row in world.rows() if row["_batch_id"] == batch]
    return [None if row["_unknown"] is None else json.loads(row["_unknown"]) for row in rows]


@pytest.mark.parametrize("written_by_spark", [False, True])
def test_what_the_schema_lacks_is_kept(spark: SparkSession, batch: str, written_by_spark: bool) -> None:
    world = keeping(reporting(spark))
    if written_by_spark:
        world.attempt(batch, 1).sink.prepare()
        world.sql("ALTER TABLE {t} WRITE ORDERED BY id")
    landed(world, batch)
    assert kept_of(world, batch) == KEPT
    assert world.outcomes(batch).unknown.names == {"coupon": 1, "customer.vip": 1}
    (found,) = world.sql("SELECT get_json_object(_unknown, '$.customer.vip') AS vip FROM {t} WHERE id = 3")
    assert found.vip == "1.5"


def test_a_table_that_is_there_gets_the_column(spark: SparkSession, batch: str) -> None:
    before = reporting(spark)
    landed(before, f"{batch}1")
    world = keeping(before)
    landed(world, f"{batch}2")
    assert kept_of(world, f"{batch}1") == [None] * 3
    assert kept_of(world, f"{batch}2") == KEPT
    # and a batch of before the change, or after it was taken back
    landed(before, f"{batch}3")
    assert kept_of(world, f"{batch}3") == [None] * 3
    assert len(world.rows()) == 9


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("ALTER TABLE {t} RENAME COLUMN _unknown TO extra", "It is called extra now"),
        ("ALTER TABLE {t} DROP COLUMN _unknown", "It was dropped"),
        (
            "ALTER TABLE {t} RENAME COLUMN _unknown TO x; ALTER TABLE {t} RENAME COLUMN x TO _UNKNOWN",
            "It has _UNKNOWN, and Spark does not tell these apart",
        ),
    ],
)
def test_a_column_that_somebody_took_away_is_not_added_in_silence(
    spark: SparkSession, batch: str, statement: str, told: str
) -> None:
    world = keeping(reporting(spark))
    landed(world, f"{batch}1")
    for each in statement.split(";"):
        world.sql(each)
    put(world, batch)
    assert run(world.attempt(batch, 1), "ingest") != 0
    assert told in world.failure(batch, 1).reason


@pytest.mark.parametrize("round", range(3))
def test_drivers_that_add_the_column_at_the_same_time_all_have_it(spark: SparkSession, batch: str, round: int) -> None:
    world = reporting(spark)
    landed(world, f"{batch}0")
    table = IcebergTable(spark, world.dataset.table)
    failed: list[BaseException] = []
    gate = threading.Barrier(3)

    def add() -> None:
        gate.wait()
        try:
            add_columns(table, {"_unknown": "string"})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert table.schema.names.count("_unknown") == 1


def test_twins_that_find_no_column_publish_once(
    spark: SparkSession, warehouse: Path, batch: str, tmp_path: Path
) -> None:
    before = reporting(spark)
    landed(before, f"{batch}1")
    world = keeping(before)
    put(world, batch)
    twins = [start_driver(world, warehouse, batch, 1, gate=tmp_path) for _ in range(2)]
    eventually(
        lambda: len(list(tmp_path.glob("waiting-*"))), lambda count: count == 2, waiting_for="both twins to have staged"
    )
    (tmp_path / "open").touch()
    assert [twin.wait(HANGING) for twin in twins] == [0, 0], world.failure(batch, 1)
    assert kept_of(world, batch) == KEPT


@pytest.mark.parametrize("die_before", ["stage", "publish", "write_receipt"])
def test_a_driver_that_is_killed_keeps_each_value_once(
    spark: SparkSession, warehouse: Path, batch: str, die_before: str
) -> None:
    before = reporting(spark)
    landed(before, f"{batch}1")
    world = keeping(before)
    put(world, batch)
    assert start_driver(world, warehouse, batch, 1, die_before=die_before).wait(HANGING) == -signal.SIGKILL
    assert run(world.attempt(batch, 2), "ingest") == 0, world.failure(batch, 2)
    assert kept_of(world, batch) == KEPT


def test_columns_of_the_key_partition_a_table(spark: SparkSession, batch: str) -> None:
    made = reporting(spark, partition_by=("shop", "day"), options=(("from_key", "day={day}/{shop}/"),))
    world = World(replace(made.dataset, schema="id bigint, day date, shop string not null"), spark)
    files = {f"in/day=2026-03-0{day}/{shop}/a.json": b'{"id": %d}\n' % day for day in (1, 2) for shop in ("eu", "us")}
    world.seal(batch, world.put(files | {"in/day=x/eu/a.json": b'{"id": 9}'}))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    assert [(row.id, str(row.day), row.shop) for row in world.rows()] == [
        (day, f"2026-03-0{day}", shop) for day in (1, 2) for shop in ("eu", "us")
    ]
    (refused,) = (each for each in world.outcomes(batch).endings if each.error)
    assert refused.error.startswith("its key: day = 'x' ")
    found = world.sql("SELECT partition.shop, partition.day FROM {t}.partitions")
    assert {(each.shop, str(each.day)) for each in found} == {
        (shop, f"2026-03-0{day}") for day in (1, 2) for shop in ("eu", "us")
    }

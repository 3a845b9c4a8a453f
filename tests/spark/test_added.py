"""`unknown = "add"`: what files have becomes columns of the table, on a real Spark and Iceberg."""

import io
import json
import signal
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.spark.test_publish import start_driver
from tests.spark.world import World
from tests.support.patience import HANGING, eventually
from tests.support.streaming import StreamingReader
from tidegate.core.routes import Dataset
from tidegate.flows.publish import run
from tidegate.sinks.iceberg import widen
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.sinks.iceberg.widen import MOST_ADDED, add_columns

SCHEMA = "id bigint, customer struct<city:string>"
pytestmark = pytest.mark.spark

ADDS = (("unknown", "add"),)
FIRST = [
    {"id": 1, "coupon": "A", "customer": {"city": "Ulm", "vip": True}, "at": "2026-03-01T10:00:00Z"},
    {"id": 2, "amount": 5, "customer": {"city": "Ulm"}, "lines": [1, 2]},
    {"id": 3, "amount": 2.5, "coupon": None, "flag": True, "day": "2026-03-01"},
]
TYPES = {
    "coupon": "string",
    "at": "timestamp",
    "amount": "double",
    "flag": "boolean",
    "day": "date",
}


def adding(spark: SparkSession, schema: str = SCHEMA, format: str = "json", **more: Any) -> World:
    options = tuple(sorted((*ADDS, *more.pop("options", ()))))
    name = f"lake.tests.a{uuid.uuid4().hex[:12]}"
    return World(Dataset(name, f"{schema}\n\n, _unknown string", format, options=options, **more), spark)


def put(world: World, batch: str, *files: Sequence[Mapping[str, Any]]) -> None:
    bodies = ["".join(json.dumps(row) + "\n" for row in rows).encode() for rows in files]
    world.seal(batch, world.put({f"in/{batch}-{number}.json": body for number, body in enumerate(bodies)}))


def landed(world: World, batch: str, *files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    put(world, batch, *files)
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    return rows_of(world, batch)


def rows_of(world: World, batch: str) -> list[dict[str, Any]]:
    """The rows of a batch without their lineage, what is null left out."""
    found = (row.asDict(recursive=True) for row in world.rows() if row["_batch_id"] == batch)
    return [{name: value for name, value in row.items() if value is not None and name not in LINEAGE} for row in found]


LINEAGE = ("_source_uri", "_source_version", "_source_row", "_batch_id", "_ingested_at")


def added(world: World) -> dict[str, str]:
    columns = {
        each.name: each.dataType.simpleString() for each in IcebergTable(world.spark, world.dataset.table).schema
    }
    return {name: kind for name, kind in columns.items() if name not in ("id", "customer", "_unknown", *LINEAGE)}


def kept(row: Mapping[str, Any]) -> Any:
    return json.loads(row["_unknown"]) if "_unknown" in row else None


@pytest.mark.parametrize("written_by_spark", [False, True])
def test_new_names_become_columns_and_the_rest_is_kept(spark: SparkSession, batch: str, written_by_spark: bool) -> None:
    world = adding(spark)
    if written_by_spark:
        world.attempt(batch, 1).sink.prepare()
        world.sql("ALTER TABLE {t} WRITE ORDERED BY id")
    one, two, three = landed(world, batch, FIRST)
    assert added(world) == TYPES
    assert (one["coupon"], str(one["at"]), kept(one)) == ("A", "2026-03-01 10:00:00", {"customer": {"vip": True}})
    assert (two["amount"], kept(two)) == (5.0, {"lines": [1, 2]})
    assert (three["amount"], three["flag"], str(three["day"]), kept(three)) == (2.5, True, "2026-03-01", None)
    assert "coupon" not in three
    # told once, by the batch that brought them
    assert world.outcomes(batch).unknown.names.keys() == {*TYPES, "customer.vip", "lines"}


def test_a_later_file_changes_no_type_and_loses_no_value(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1, "size": 7, "at": "2026-03-01T10:00:00Z"}])
    assert added(world) == {"size": "bigint", "at": "timestamp"}
    rows = landed(
        world,
        f"{batch}2",
        [{"id": 2, "size": 7.5, "at": "soon"}, {"id": 3, "size": 8, "Size": 1}, {"id": 4, "size": "9", "new": "x"}],
    )
    assert added(world) == {"size": "bigint", "at": "timestamp", "new": "string"}
    assert [kept(row) for row in rows] == [{"at": "soon", "size": 7.5}, {"Size": 1}, {"size": "9"}]
    assert [row.get("size") for row in rows] == [None, 8, None]
    # new names, and columns whose values do not fit
    assert world.outcomes(f"{batch}2").unknown.names.keys() == {"Size", "new", "at", "size"}
    landed(world, f"{batch}3", [{"id": 5, "size": 1, "at": "2026-03-01T10:00:00Z", "new": ""}])
    assert not world.outcomes(f"{batch}3").unknown.names


def test_what_somebody_has_renamed_or_dropped_is_not_added_again(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1, "one": 1, "two": 2}])
    world.sql("ALTER TABLE {t} RENAME COLUMN one TO first")
    world.sql("ALTER TABLE {t} DROP COLUMN two")
    (row,) = landed(world, f"{batch}2", [{"id": 2, "one": 1, "two": 2, "first": 3}])
    assert (row["first"], kept(row)) == (3, {"one": 1, "two": 2})
    assert added(world) == {"first": "bigint"}


def test_keys_of_a_map_become_no_columns(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    row = {f"k{number}": number for number in range(MOST_ADDED + 1)}
    (found,) = landed(world, batch, [{"id": 1, **row}])
    assert kept(found) == row
    assert added(world) == {}


NEVER = (
    *('qu"ote', "back\\slash", "a.b", "tick`", "tab\tx", "", " ", " x", "x ", "\u2028", "\x7f", "l" * 101, "l" * 5_000),
    *("_BATCH_ID", "_unknown", "ID", "_file", "_pos", "_partition", "_spec_id", "_row_id", "_metadata", "_x"),
    *("${env:HOME}", "${nope}", "a,b", "a:b", "gr\u00f6\u00dfe", "\u0131d", "\U0001f600", "$", "-", "1"),
)
FITS = ("a b", "a-b", "select", "f0", "g0", "object", "l" * 100)
OF_PARTITION = ("at_day", "at_hour", "id_bucket")


@pytest.mark.parametrize("partition_by", [(), ("days(at)", "bucket(4, id)")])
def test_whatever_a_name_is_no_value_is_lost_and_no_route_halts(
    spark: SparkSession, batch: str, partition_by: tuple[str, ...]
) -> None:
    world = adding(spark, "id bigint, at timestamp", partition_by=partition_by)
    row = {name: f"value {number}" for number, name in enumerate((*NEVER, *FITS, *OF_PARTITION, "COUPON", "coupon"))}
    for time in (1, 2):
        (found,) = landed(world, f"{batch}{time}", [{"id": 1, "at": "2026-03-01T10:00:00Z", **row}])
        there = {name: value for name, value in found.items() if name not in ("id", "at", "_unknown")}
        assert there | (kept(found) or {}) == row
        assert set(FITS) <= there.keys() <= {*FITS, *OF_PARTITION, "COUPON", "coupon"}
    comments = {each["col_name"]: each["comment"] for each in world.sql("DESCRIBE {t}")}
    assert {comments[name] for name in there} == {f"came with batch {batch}1 of Tidegate"}


def test_a_column_that_the_owner_has_added_is_filled(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1}])
    world.sql("ALTER TABLE {t} ADD COLUMNS (price decimal(10,2), small int, blob binary)")
    rows = landed(
        world,
        f"{batch}2",
        [{"id": 1, "price": 1.25, "small": 5, "blob": "YQ=="}, {"id": 2, "price": 1.255, "small": 1 << 40}],
    )
    assert [(str(row.get("price")), row.get("small"), kept(row)) for row in rows] == [
        ("1.25", 5, {"blob": "YQ=="}),
        ("None", None, {"price": 1.255, "small": 1 << 40}),
    ]


def test_csv_tells_types_as_init_does(spark: SparkSession, batch: str) -> None:
    options = (("decimal", ","), ("delimiter", ";"), ("null", "NA"))
    world = adding(spark, "id bigint", "csv", options=options)
    body = b"id;n;price;zip;day\n1;5;1,5;01234;2026-03-01\n2;NA;2,25;99999;2026-03-02\n"
    world.seal(batch, world.put({"in/a.csv": body}))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    columns = {each.name: each.dataType.simpleString() for each in IcebergTable(spark, world.dataset.table).schema}
    assert {name: columns[name] for name in ("n", "price", "zip", "day")} == {
        "n": "bigint",
        "price": "double",
        "zip": "string",
        "day": "date",
    }
    rows = rows_of(world, batch)
    assert [(row.get("n"), row["price"], row["zip"], str(row["day"]), kept(row)) for row in rows] == [
        (5, 1.5, "01234", "2026-03-01", None),
        (None, 2.25, "99999", "2026-03-02", None),
    ]


@pytest.mark.parametrize("round", range(3))
def test_drivers_that_add_other_columns_at_the_same_time_add_all(spark: SparkSession, batch: str, round: int) -> None:
    world = adding(spark)
    landed(world, batch, [{"id": 1}])
    table = IcebergTable(spark, world.dataset.table)
    failed: list[BaseException] = []
    gate = threading.Barrier(3)

    def add(number: int) -> None:
        gate.wait()
        try:
            add_columns(table, {f"own{number}": "string", "shared": "bigint", f"more{number}": "date"})
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=add, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert added(world).keys() == {"shared", *(f"{name}{number}" for name in ("own", "more") for number in range(3))}


@pytest.mark.parametrize("round", range(3))
def test_drivers_that_add_a_name_in_several_cases_add_it_once(spark: SparkSession, batch: str, round: int) -> None:
    world = adding(spark)
    landed(world, batch, [{"id": 1}])
    table = IcebergTable(spark, world.dataset.table)
    gate = threading.Barrier(3)

    def add(name: str) -> None:
        gate.wait()
        add_columns(table, {name: "string"})

    threads = [threading.Thread(target=add, args=[name]) for name in ("race", "Race", "RACE")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [name.lower() for name in added(world)] == ["race"]
    (row,) = landed(world, f"{batch}2", [{"id": 2, "race": "a", "Race": "b", "RACE": "c"}])
    assert kept(row).keys() == {"race", "Race", "RACE"} - added(world).keys()


def test_a_schema_that_was_changed_meanwhile_is_not_changed(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, batch, [{"id": 1}])
    stale = IcebergTable(spark, world.dataset.table).loaded()
    stale = replace(
        stale,
        table=spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            spark._jsparkSession, world.dataset.table
        ),
    )
    change = stale.table.updateSchema()
    add_columns(IcebergTable(spark, world.dataset.table), {"Race": "string"})
    change.addColumn("race", spark._jvm.org.apache.iceberg.types.Types.StringType.get())
    with pytest.raises(Py4JJavaError, match="CommitFailedException"):
        change.commit()
    assert added(world) == {"Race": "string"}


def test_a_column_says_which_batch_brought_it(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, batch, [{"id": 1, "coupon": "A"}])
    (found,) = (each for each in world.sql("DESCRIBE {t}") if each["col_name"] == "coupon")
    assert found["comment"] == f"came with batch {batch} of Tidegate"


def test_a_text_that_is_in_the_path_of_files_is_filled_if_the_schema_has_it(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1, "region": "eu", "day": "2026-03-01"}])
    world.sql("ALTER TABLE {t} ADD PARTITION FIELD region")
    world.sql("ALTER TABLE {t} ADD PARTITION FIELD day")
    rows = landed(
        world, f"{batch}2", [{"id": 2, "region": "x" * 3_000, "day": "2026-03-02"}, {"id": 3, "region": "eu"}]
    )
    kept_of = {row["id"]: kept(row) for row in rows}
    assert kept_of == {2: {"region": "x" * 3_000}, 3: {"region": "eu"}}
    assert str(next(row for row in rows if row["id"] == 2)["day"]) == "2026-03-02"
    assert world.outcomes(f"{batch}2").unknown.names.keys() == {"region"}


def test_schemas_in_the_metadata_are_bounded(spark: SparkSession, batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1, "one": 1}])
    monkeypatch.setattr(widen, "MOST_IN_METADATA", 10)
    (row,) = landed(world, f"{batch}2", [{"id": 2, "one": 2, "two": 2}])
    assert (row["one"], kept(row)) == (2, {"two": 2})
    # what the route itself says is no file's doing
    own = World(
        replace(world.dataset, schema=world.dataset.schema.replace("id bigint", "id bigint, price double")), spark
    )
    (row,) = landed(own, f"{batch}3", [{"id": 3, "price": 1.5}])
    assert row["price"] == 1.5


def test_a_table_of_many_columns_gets_no_more(spark: SparkSession, batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(widen, "MOST_COLUMNS", 8)
    world = adding(spark)
    (row,) = landed(world, f"{batch}1", [{"id": 1, "one": 1}])
    assert kept(row) == {"one": 1}


def test_files_of_two_types_make_no_column(spark: SparkSession, batch: str) -> None:
    world = adding(spark, "id bigint", "parquet")
    bodies = {}
    for name, scale in (("a", 2), ("b", 4)):
        buffer = io.BytesIO()
        price = pa.array([Decimal("1.5")], pa.decimal128(10, scale))
        pq.write_table(pa.table({"id": [1], "price": price, "size": [1]}), buffer)
        bodies[f"in/{batch}-{name}.parquet"] = buffer.getvalue()
    world.seal(batch, world.put(bodies))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    assert added(world) == {"size": "bigint"}


def test_a_decimal_that_its_column_cannot_hold_stays(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1}])
    world.sql("ALTER TABLE {t} ADD COLUMNS (rate decimal(38,30))")
    put_text = '{"id": 2, "rate": 123456789012345678}\n{"id": 3, "rate": 0.5}\n'
    world.seal(f"{batch}2", world.put({f"in/{batch}2.json": put_text.encode()}))
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 0, world.failure(f"{batch}2", 1)
    found = {row["id"]: (row.get("rate"), kept(row)) for row in rows_of(world, f"{batch}2")}
    assert found == {2: (None, {"rate": 123456789012345678}), 3: (Decimal("0.5"), None)}


def test_a_file_that_is_refused_after_some_rows_adds_nothing(
    spark: SparkSession, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.iceberg.sink.Reader", StreamingReader)
    world = adding(spark)
    rows = b"".join(b'{"id": %d, "odd": 1}\n' % number for number in range(1_000))
    world.seal(batch, world.put({"in/a.json": rows + b'{"id": "x"}\n', "in/b.json": b'{"id": 1, "good": 1}\n'}))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    assert added(world) == {"good": "bigint"}
    # with the bad file and without it, and both once more for the column
    assert world.staged(batch) == 4


@pytest.mark.parametrize("format", ["parquet", "avro", "orc"])
def test_files_with_types_bring_them(spark: SparkSession, batch: str, format: str) -> None:
    world = adding(spark, "id bigint", format)
    landed_as(world, f"{batch}1", format, {"id": [1], "price": [Decimal("1.50")], "size": [2], "word": ["a"]})
    assert added(world) == {"price": "decimal(38,2)", "size": "bigint", "word": "string"}
    (one,) = rows_of(world, f"{batch}1")
    assert (one["price"], one["size"], one["word"], kept(one)) == (Decimal("1.50"), 2, "a", None)
    landed_as(world, f"{batch}2", format, {"id": [2, 3], "price": [1.5, 2.5], "size": [3, 4]})
    rows = rows_of(world, f"{batch}2")
    assert [(row["size"], kept(row)) for row in rows] == [(3, {"price": 1.5}), (4, {"price": 2.5})]
    assert world.outcomes(f"{batch}2").unknown.names.keys() == {"price"}


def landed_as(world: World, batch: str, format: str, columns: dict[str, list[Any]]) -> None:
    table, buffer = pa.table(columns), io.BytesIO()
    if format == "parquet":
        pq.write_table(table, buffer)
    elif format == "orc":
        pyarrow.orc.write_table(table, buffer)
    else:
        kinds = {int: "long", float: "double", str: "string"}
        decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
        fields = [{"name": name, "type": kinds.get(type(each[0]), decimal)} for name, each in columns.items()]
        fastavro.writer(buffer, {"type": "record", "name": "row", "fields": fields}, table.to_pylist())
    world.seal(batch, world.put({f"in/{batch}.{format}": buffer.getvalue()}))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)


def test_two_batches_that_add_at_the_same_time_lose_no_column(
    spark: SparkSession, warehouse: Path, batch: str, tmp_path: Path
) -> None:
    world = adding(spark)
    landed(world, f"{batch}0", [{"id": 1}])
    put(world, f"{batch}1", [{"id": 2, "one": 1, "both": "x"}])
    put(world, f"{batch}2", [{"id": 3, "two": 2, "both": 5}])
    drivers = [start_driver(world, warehouse, f"{batch}{number}", 1, gate=tmp_path) for number in (1, 2)]
    waiting = "both to have staged"
    eventually(lambda: len(list(tmp_path.glob("waiting-*"))), lambda count: count == 2, waiting_for=waiting)
    (tmp_path / "open").touch()
    assert [driver.wait(HANGING) for driver in drivers] == [0, 0]
    (one,), (two,) = rows_of(world, f"{batch}1"), rows_of(world, f"{batch}2")
    assert added(world).keys() == {"one", "two", "both"}
    assert (one["one"], two["two"]) == (1, 2)
    both = [one.get("both", kept(one) and kept(one)["both"]), two.get("both", kept(two) and kept(two)["both"])]
    assert both == ["x", 5]


@pytest.mark.parametrize("die_before", ["stage", "publish", "write_receipt"])
def test_a_driver_that_is_killed_lands_each_value_once(
    spark: SparkSession, warehouse: Path, batch: str, die_before: str
) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1}])
    put(world, batch, [{"id": 2, "coupon": "A"}])
    assert start_driver(world, warehouse, batch, 1, die_before=die_before).wait(HANGING) == -signal.SIGKILL
    assert run(world.attempt(batch, 2), "ingest") == 0, world.failure(batch, 2)
    assert [row["coupon"] for row in rows_of(world, batch)] == ["A"]


def test_a_route_that_replaces_adds_too(spark: SparkSession, batch: str) -> None:
    world = adding(spark, replaces=True)
    (row,) = landed(world, batch, [{"id": 1, "coupon": "A"}])
    assert row["coupon"] == "A"


def test_a_route_that_keeps_again_leaves_the_columns(spark: SparkSession, batch: str) -> None:
    world = adding(spark)
    landed(world, f"{batch}1", [{"id": 1, "coupon": "A"}])
    keeping = World(replace(world.dataset, options=(("unknown", "keep"),)), spark)
    (row,) = landed(keeping, f"{batch}2", [{"id": 2, "coupon": "B"}])
    assert kept(row) == {"coupon": "B"}

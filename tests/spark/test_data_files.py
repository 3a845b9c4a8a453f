"""Data files that the tasks write, beside those of Spark's own writer: the same rows, the same metrics, read by the
same readers; and what becomes of them if something happens on the way."""

import datetime
import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tests.spark.world import World
from tidegate.core.errors import Retryable
from tidegate.core.routes import Dataset
from tidegate.flows.publish import run
from tidegate.sinks.iceberg import sink as sinks
from tidegate.sinks.iceberg import tasks
from tidegate.sinks.iceberg.data_files.layout import WRITER
from tidegate.sinks.iceberg.data_files.write import DataFile

pytestmark = pytest.mark.spark

SCHEMA = (
    "id bigint not null, b boolean, i int, f float, d double, n decimal(9,2), o decimal(18,3), p decimal(38,10),"
    " s string, x binary, day date, t timestamp, z timestamp_ntz, a array<int>,"
    " r struct<q: string, w: array<struct<e: decimal(12,2)>>>, m map<string, bigint>"
)
UTC = datetime.UTC
LATEST = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)
FULL: dict[str, Any] = {
    "b": True,
    "i": -(2**31),
    "f": -1.5,
    "d": 1e300,
    "n": Decimal("-9999999.99"),
    "o": Decimal("999999999999999.999"),
    "p": Decimal("-9999999999999999999999999999.9999999999"),
    "s": "a text that is longer than sixteen 😀 characters, of which Iceberg keeps sixteen",
    "x": b"\x00\xff" * 20,
    "day": datetime.date(1, 1, 1),
    "t": LATEST.replace(tzinfo=UTC),
    "z": datetime.datetime(1, 1, 1),
    "a": [1, None, 3],
    "r": {"q": "", "w": [{"e": Decimal("0.01")}, None, {"e": None}]},
    "m": {"k": 1, "": None},
}
EMPTY: dict[str, Any] = {"s": "", "x": b"", "a": [], "r": {"q": None, "w": []}, "m": {}, "f": -0.0, "d": 0.0}
LARGEST = {"s": "\U0010ffff" * 20, "x": b"\xff" * 20, "f": math.inf, "d": -math.inf, "i": 2**31 - 1, "b": False}
STRANGE = {"f": math.nan, "d": math.nan, "s": "z", "day": datetime.date(9999, 12, 31), "z": LATEST}
FILES: list[list[dict[str, Any]]] = [
    [FULL, {}, EMPTY],
    [{}, {}],
    [LARGEST, FULL],
    [{**STRANGE, "f": 1.0, "d": 1.0}],
    [{**FULL, "s": f"text {number % 3}", "i": number, "o": Decimal(number)} for number in range(3_000)],
]


def body(rows: Sequence[dict[str, Any]]) -> bytes:
    schema = to_arrow_schema(StructType.fromDDL(SCHEMA))
    file = io.BytesIO()
    table = pa.Table.from_pylist([{"id": number, **row} for number, row in enumerate(rows)], schema=schema)
    pq.write_table(table, file)
    return file.getvalue()


@pytest.fixture
def wide(world: World) -> World:
    return World(replace(world.dataset, schema=SCHEMA, format="parquet"), world.spark)


def landed(world: World, batch: str, files: dict[str, bytes] | None = None) -> None:
    world.seal(batch, world.put(files or {"in/a.json": b'{"id": 1, "text": "x"}\n'}))
    assert run(world.attempt(batch, 1), "ingest") == 0


def created(world: World, columns: str, more: str = "") -> None:
    lineage = "_source_uri string, _source_version string, _source_row bigint, _batch_id string, _ingested_at timestamp"
    world.sql("CREATE NAMESPACE IF NOT EXISTS lake.tests")
    world.sql(f"CREATE TABLE {{t}} ({columns}, {lineage}) USING iceberg {more}")


def writers(world: World) -> set[str]:
    """Who wrote the table's data files, by their footers."""
    found = world.sql("SELECT file_path FROM {t}.files")
    paths = [Path(row.file_path.removeprefix("file:").replace("//", "/")) for row in found]
    return {str(pq.read_metadata(path).created_by).split()[0] for path in paths}


TASKS, SPARK = {"parquet-cpp-arrow"}, {"parquet-mr"}


def both(dataset: Dataset, spark: SparkSession, batch: str, files: dict[str, bytes]) -> tuple[World, World]:
    """The same files, landed by tasks and by Spark's writer."""
    ours, sparks = (World(replace(dataset, table=f"{dataset.table}{end}"), spark) for end in "os")
    sparks.attempt(batch, 1).sink.prepare()
    sparks.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{WRITER}' = 'spark')")
    for number, each in enumerate((ours, sparks)):
        landed(each, f"{batch}{number}", files)
    assert (writers(ours), writers(sparks)) == (TASKS, SPARK)
    return ours, sparks


# ---- the same as Spark's


def test_rows_and_metrics_are_those_of_sparks_writer(wide: World, batch: str) -> None:
    files = {f"in/{number}.parquet": body(rows) for number, rows in enumerate(FILES)}
    landings = both(wide.dataset, wide.spark, batch, files)
    columns = [
        name
        for name in wide.spark.table(landings[0].dataset.table).columns
        if name not in ("_batch_id", "_ingested_at")
    ]
    ours, sparks = ([[row[name] for name in columns] for row in each.rows()] for each in landings)
    assert repr(ours) == repr(sparks)
    assert len(ours) == sum(map(len, FILES))
    assert metrics(landings[0]) == metrics(landings[1])


def metrics(world: World) -> list[str]:
    """What Iceberg keeps of each file. The bytes differ, and only Spark's writer counts NaN."""
    kept = ("value_count", "null_value_count", "lower_bound", "upper_bound")
    told = []
    for row in world.sql("SELECT readable_metrics, record_count FROM {t}.files"):
        columns = row.readable_metrics.asDict(recursive=True)
        # these two differ between batches
        del columns["_batch_id"], columns["_ingested_at"]
        of_columns = {name: [column[each] for each in kept] for name, column in columns.items()}
        told.append(repr((row.record_count, of_columns)))
    return sorted(told)


def test_a_reader_that_skips_by_metrics_finds_each_value(wide: World, batch: str) -> None:
    landed(wide, batch, {"in/a.parquet": body([FULL, {}]), "in/b.parquet": body([LARGEST, STRANGE])})
    assert writers(wide) == TASKS

    def count(condition: str) -> int:
        return int(wide.sql(f"SELECT count(*) AS n FROM {{t}} WHERE {condition}")[0].n)

    assert count("s = repeat('\U0010ffff', 20)") == 1
    assert count("s >= 'b'") == 2
    assert count("x = unhex(repeat('FF', 20))") == 1
    assert count("p < 0") == 1
    assert count("t > TIMESTAMP '9999-12-31 00:00:00+00'") == 1
    assert count("z < TIMESTAMP_NTZ '1000-01-01 00:00:00'") == 1
    assert count("isnan(f)") == 1
    assert count("d IS NULL") == 1
    assert count("r.q = ''") == 1
    assert count("d = double('-infinity')") == 1


def test_columns_are_told_apart_by_id(wide: World, batch: str) -> None:
    landed(wide, batch, {"in/a.parquet": body([FULL])})
    wide.sql("ALTER TABLE {t} RENAME COLUMN s TO was_s")
    wide.sql("ALTER TABLE {t} RENAME COLUMN i TO s2")
    wide.sql("ALTER TABLE {t} ADD COLUMN i int")
    wide.sql("ALTER TABLE {t} RENAME COLUMN r.q TO was_q")
    (row,) = wide.rows()
    assert (row.was_s, row.s2, row.i, row.r.was_q) == (FULL["s"], FULL["i"], None, "")


def test_columns_that_only_the_table_has_are_null(world: World, batch: str) -> None:
    created(world, "more int, text string, id bigint")
    landed(world, batch)
    assert writers(world) == TASKS
    (row,) = world.rows()
    assert (row.more, row.id, row.text) == (None, 1, "x")


@pytest.mark.parametrize("location", ["with a space", "50%25", "ä"])
def test_a_folder_with_any_name(world: World, batch: str, tmp_path: Path, location: str) -> None:
    created(world, "id bigint, text string", f"LOCATION 'file://{tmp_path}/{location}'")
    landed(world, batch)
    assert world.ids() == [1]
    assert list((tmp_path / location / "data").glob(f"tidegate_{batch}_*.parquet"))


def test_files_have_the_size_that_the_table_wants(world: World, batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    created(world, "id bigint, text string", "TBLPROPERTIES ('write.target-file-size-bytes' = '1')")
    lines = b"".join(b'{"id": %d, "text": "x"}\n' % number for number in range(10))
    landed(world, batch, {"in/a.json": lines, "in/b.json": lines})
    assert world.ids() == sorted([*range(10), *range(10)])
    assert int(world.published()[0].summary["added-data-files"]) >= 1


def test_maintenance_and_other_writers_take_these_files(world: World, batch: str) -> None:
    landed(world, batch)
    landed(world, f"{batch}x", {"in/b.json": b'{"id": 2, "text": "y"}\n'})
    world.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('min-input-files', '2'))")
    assert world.ids() == [1, 2]
    world.sql("DELETE FROM {t} WHERE id = 1")
    world.sql("UPDATE {t} SET text = 'z' WHERE id = 2")
    assert [(row.id, row.text) for row in world.rows()] == [(2, "z")]


# ---- partitions by time

TIMES = "id bigint, day date, t timestamp, z timestamp_ntz"
MOMENTS = [None, -62135596800000000, -1, 0, 1, 1795262400000000, 1795262400000000 - 1, 253402300799999999]
"""Microseconds since 1970, from the first to the last that has a name."""


def moments(values: Sequence[int | None]) -> bytes:
    schema = to_arrow_schema(StructType.fromDDL(TIMES))
    days = [None if value is None else value // 86_400_000_000 for value in values]
    columns = [pa.array(range(len(values)), pa.int64()), pa.array(days, pa.int32()).cast(pa.date32())]
    micros = pa.array(values, pa.int64())
    file = io.BytesIO()
    pq.write_table(pa.table([*columns, *(micros.cast(schema.field(name).type) for name in "tz")], schema=schema), file)
    return file.getvalue()


def placed(world: World) -> list[Any]:
    """The partitions, with their files' folders and rows."""
    found = world.sql("SELECT partition, file_path, record_count FROM {t}.files")
    return sorted(
        repr((each.partition, each.file_path.rpartition("/")[0].partition("/data/")[2], each.record_count))
        for each in found
    )


@pytest.mark.parametrize(
    "partition_by",
    [
        *(
            ("days(t)",),
            ("hours(t)",),
            ("months(t)",),
            ("years(t)",),
            ("days(day)",),
            ("months(day)",),
            ("years(day)",),
        ),
        *(("days(z)",), ("hours(z)",), ("months(z)", "hours(t)"), ("days(_ingested_at)", "years(z)")),
    ],
    ids=" ".join,
)
def test_rows_are_in_the_partitions_in_which_iceberg_puts_them(
    world: World, batch: str, partition_by: tuple[str, ...]
) -> None:
    dataset = replace(world.dataset, schema=TIMES, format="parquet", partition_by=partition_by)
    ours, sparks = both(dataset, world.spark, batch, {"in/a.parquet": moments(MOMENTS)})
    assert placed(ours) == placed(sparks)
    assert [row.id for row in ours.sql("SELECT id FROM {t} ORDER BY id")] == list(range(len(MOMENTS)))
    for condition in ("t >= TIMESTAMP '2026-11-21 12:00:00'", "day < DATE '1970-01-01'", "z IS NULL"):
        question = f"SELECT id FROM {{t}} WHERE {condition} ORDER BY id"
        assert ours.sql(question) == sparks.sql(question)


def test_rows_in_many_partitions_are_left_to_spark(
    world: World, batch: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(replace(world.dataset, schema=TIMES, format="parquet", partition_by=("days(day)",)), world.spark)
    body = moments([number * 86_400_000_000 for number in range(140)])
    with caplog.at_level("INFO", "tidegate.sinks"):
        landed(world, batch, {"in/a.parquet": body, "in/b.parquet": moments([0])})
    assert "the rows of a task are in too many partitions" in caplog.text
    assert writers(world) == SPARK
    assert [row.id for row in world.sql("SELECT id FROM {t} ORDER BY id")] == sorted([*range(140), 0])
    named = {each.file_path for each in world.sql("SELECT file_path FROM {t}.files")}
    folder = Path(next(iter(named)).removeprefix("file:").replace("//", "/").partition("/data/")[0])
    assert len([each for each in (folder / "data").rglob("*.parquet")]) == len(named), "what tasks had put is gone"


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_the_session_may_have_any_zone(world: World, batch: str, zone: str) -> None:
    assert world.spark is not None
    before = world.spark.conf.get("spark.sql.session.timeZone")
    world.spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        dataset = replace(world.dataset, schema=TIMES, format="parquet", partition_by=("days(t)", "years(day)"))
        ours, sparks = both(dataset, world.spark, batch, {"in/a.parquet": moments(MOMENTS)})
        assert placed(ours) == placed(sparks)
        question = "SELECT id FROM {t} WHERE t >= TIMESTAMP '2026-11-21 00:00:00' ORDER BY id"
        assert ours.sql(question) == sparks.sql(question)
    finally:
        world.spark.conf.set("spark.sql.session.timeZone", before)


def test_an_upload_that_goes_before_spark_reads_it_again(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks found its rows, and others in too many partitions."""
    given = World(replace(world.dataset, schema=TIMES, format="parquet", partition_by=("days(day)",)), world.spark)

    def then(*arguments: Any) -> None:
        assert tasks.files_of_tasks(*arguments) is None
        given.s3.delete_object(Bucket="landing", Key="in/b.parquet")

    monkeypatch.setattr(sinks, "files_of_tasks", then)
    many = moments([number * 86_400_000_000 for number in range(140)])
    landed(given, batch, {"in/a.parquet": many, "in/b.parquet": moments([0])})
    assert given.ids() == list(range(140))
    assert [(each.key, each.outcome.value) for each in given.outcomes(batch).endings] == [("in/b.parquet", "vanished")]


# ---- left to Spark


@pytest.mark.parametrize(
    "more",
    [
        "PARTITIONED BY (bucket(4, id))",
        "PARTITIONED BY (text)",
        "PARTITIONED BY (days(_ingested_at)) TBLPROPERTIES ('write.distribution-mode' = 'hash')",
        "TBLPROPERTIES ('write.parquet.row-group-size-bytes' = '1000000')",
        "TBLPROPERTIES ('format-version' = '3')",
        f"TBLPROPERTIES ('{WRITER}' = 'spark')",
    ],
)
def test_what_a_table_asks_for_is_left_to_spark(
    world: World, batch: str, more: str, caplog: pytest.LogCaptureFixture
) -> None:
    created(world, "id bigint, text string", more)
    with caplog.at_level("INFO", "tidegate.sinks"):
        landed(world, batch)
    assert f"Spark writes the data files of table {world.dataset.table}: " in caplog.text
    assert writers(world) == SPARK
    assert world.ids() == [1]
    # what nobody may know of is in the receipt, and so in a metric
    setting = "write.parquet.row-group-size-bytes"
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.slowly == (f"{setting} is set" if setting in more else "")


def test_an_order_is_left_to_spark(world: World, batch: str) -> None:
    created(world, "id bigint, text string")
    world.sql("ALTER TABLE {t} WRITE ORDERED BY id")
    landed(world, batch)
    assert writers(world) == SPARK


# ---- what happens on the way


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[list[DataFile]], Any]], None]:
    """Does something after the tasks have written, and before the driver adds what they wrote."""

    def planted(act: Callable[[list[DataFile]], Any]) -> None:
        def then(*arguments: Any) -> list[DataFile]:
            files = tasks.files_of_tasks(*arguments)
            assert files is not None
            return act(files) or files

        monkeypatch.setattr(sinks, "files_of_tasks", then)

    return planted


def refused(world: World, batch: str, text: str | None = None) -> None:
    world.seal(batch, world.put({"in/a.json": b'{"id": 1, "text": "x"}\n'}))
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    with pytest.raises(Retryable, match=text):
        attempt.stage()


def test_a_table_that_was_made_anew_meanwhile_gets_nothing(world: World, batch: str, between: Any) -> None:
    def made_anew(_: list[DataFile]) -> None:
        world.sql("DROP TABLE {t}")
        created(world, "text string, id bigint")

    between(made_anew)
    refused(world, batch)
    assert world.rows() == []
    assert world.sql("SELECT * FROM {t}.all_data_files") == []
    assert world.main() == []


def test_a_column_that_was_renamed_meanwhile_keeps_its_values(world: World, batch: str, between: Any) -> None:
    between(lambda _: world.sql("ALTER TABLE {t} RENAME COLUMN text TO other"))
    landed(world, batch)
    (row,) = world.rows()
    assert (row.id, row.other) == (1, "x")


def test_a_partition_that_was_added_meanwhile_is_for_the_files_after(world: World, batch: str, between: Any) -> None:
    between(lambda _: world.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)"))
    landed(world, batch)
    assert world.ids() == [1]
    assert world.sql("SELECT * FROM {t} WHERE id = 1")


def test_a_file_that_is_gone_fails_the_attempt(world: World, batch: str, between: Any) -> None:
    between(lambda files: [Path(each.location.removeprefix("file:")).unlink() for each in files] and None)
    refused(world, batch, "parquet")
    assert world.rows() == []


def test_a_file_that_was_cut_fails_the_attempt(world: World, batch: str, between: Any) -> None:
    def cut(files: list[DataFile]) -> None:
        for each in files:
            path = Path(each.location.removeprefix("file:"))
            path.write_bytes(path.read_bytes()[:-10])

    between(cut)
    refused(world, batch)


def test_a_file_with_other_rows_than_its_task_wrote_fails_the_attempt(world: World, batch: str, between: Any) -> None:
    between(lambda files: [replace(each, rows=each.rows + 1) for each in files])
    refused(world, batch, "has 1 rows, and its task has written 2")


def test_a_task_that_failed_is_run_again_and_its_rows_are_there_once(
    world: World, batch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run of the task dies after its file was put, as if its answer had been lost."""
    real = sinks.files_of_tasks
    marker = tmp_path / "failed-once"

    def flaky(spark: SparkSession, ids: Any, read: Any, *rest: Any) -> Any:
        def once(task: Any) -> Iterator[Any]:
            yield from read(task)
            if not marker.exists():
                marker.write_text("")
                raise OSError("the first time")

        return real(spark, ids, once, *rest)

    monkeypatch.setattr(sinks, "files_of_tasks", flaky)
    world.seal(batch, world.put({"in/a.json": b'{"id": 1, "text": "x"}\n'}))
    # local[2] runs no task twice: the attempt fails, and the next one lands the rows
    codes = [run(world.attempt(batch, number), "ingest") for number in (1, 2)]
    assert codes[-1] == 0
    assert marker.exists()
    assert world.ids() == [1]

"""What a route says of its rows in SQL, on a real Spark: which ones land, and what they have in generated columns."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.spark.test_publish import start_driver
from tests.spark.test_replace import landed, put
from tests.spark.test_replace import world as world_that_replaces
from tests.spark.world import World
from tests.support.patience import HANGING, eventually
from tidegate.core.receipts import Tally
from tidegate.flows.publish import run
from tidegate.flows.sink import Hopeless
from tidegate.sinks.iceberg.sink import IcebergSink

pytestmark = pytest.mark.spark
replacing = world_that_replaces

SCHEMA = "id bigint, text string, at timestamp, total double, day date"
GENERATED = (("total", "id / cast(text as int)"), ("day", "to_date(at)"))
NOON = "2026-03-01T12:00:00Z"


@pytest.fixture
def route(world: World) -> World:
    world.dataset = replace(world.dataset, schema=SCHEMA, where="id > 1", generated=GENERATED)
    return world


def lines(*rows: tuple[int, str | None]) -> bytes:
    return b"".join(json.dumps({"id": id, "text": text, "at": NOON}).encode() + b"\n" for id, text in rows)


def land(world: World, batch: str, files: dict[str, bytes]) -> Tally:
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0
    receipt = world.receipt(batch)
    assert receipt is not None
    return receipt.tally


def found(world: World) -> list[tuple[object, ...]]:
    return [(each.id, each.total, str(each.day), each._source_row) for each in world.rows()]


def test_rows_are_left_out_and_counted_and_columns_are_generated(route: World, batch: str) -> None:
    tally = land(route, batch, {"a.json": lines((1, "7"), (3, "2"), (4, None)), "b.json": lines((0, "1"), (1, "2"))})
    assert found(route) == [(3, 1.5, "2026-03-01", 1), (4, None, "2026-03-01", 2)]
    assert (tally.committed, tally.rows, tally.left_out) == (2, 2, 3)
    assert route.outcomes(batch).rows == ((2, 0),)
    (snapshot,) = route.published()
    assert (snapshot.summary["tidegate.where"], snapshot.summary["tidegate.generated.day"]) == ("id > 1", "to_date(at)")


def test_a_row_that_fails_has_its_file_quarantined(route: World, batch: str) -> None:
    files = {"a.json": lines((2, "1"), (3, "x"), (4, "0")), "b.json": lines((5, "5"))}
    files["c.json"] = lines((6, "0"), *((7, "7") for _ in range(15_000)), (8, "0"))
    tally = land(route, batch, files)
    assert [each[0] for each in found(route)] == [5]
    assert (tally.quarantined, tally.committed, tally.rows, tally.left_out) == (2, 1, 1, 0)
    first, second = route.outcomes(batch).endings
    assert first.error == "row 2: column total (CAST_INVALID_INPUT) of the route cannot be evaluated"
    assert "'x'" in first.where
    assert second.error == "row 1: column total (DIVIDE_BY_ZERO) of the route cannot be evaluated"


@pytest.mark.parametrize("day", ["to_date(text)", "text"], ids=["by SQL", "by the cast to the column's type"])
def test_the_value_for_which_a_row_fails_is_logged_nowhere(
    route: World, batch: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], day: str
) -> None:
    route.dataset = replace(route.dataset, generated=(("day", day),))
    tally = land(route, batch, {"a.json": lines((3, "secret"))})
    assert tally.quarantined == 1
    assert "'secret'" in route.outcomes(batch).endings[0].where
    assert "secret" not in caplog.text
    assert "secret" not in "".join(capfd.readouterr())


def test_of_what_is_left_out_nothing_else_is_evaluated(route: World, batch: str) -> None:
    tally = land(route, batch, {"a.json": lines((1, "x"), (0, "0"), (3, "3"))})
    assert (tally.rows, tally.left_out) == (1, 2)


def test_a_large_file_is_read_in_splits(route: World, batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.sinks.iceberg.shares.TASK_BYTES", 20_000)
    route.dataset = replace(route.dataset, where="id % 500 > 1")
    rows = [(number, "1") for number in range(2_000)]
    tally = land(route, batch, {"a.json": lines(*rows), "b.json": lines(*rows[:2], (5, "y"))})
    assert (tally.rows, tally.left_out, tally.quarantined) == (1_992, 8, 1)
    assert [each[3] for each in found(route)] == [number for number in range(2_000) if number % 500 > 1]


def test_spark_writes_them_if_the_tasks_cannot(route: World, batch: str) -> None:
    route.dataset = replace(route.dataset, partition_by=("id",))
    tally = land(route, batch, {"a.json": lines(*((number, "1") for number in range(30)))})
    assert (tally.rows, tally.left_out) == (28, 2)
    assert len(found(route)) == 28


def test_a_generated_text_that_no_path_can_hold_has_its_file_quarantined(route: World, batch: str) -> None:
    schema, generated = "id bigint, text string, at timestamp, name string", (("name", "repeat(text, 10)"),)
    route.dataset = replace(route.dataset, schema=schema, generated=generated, partition_by=("name",))
    tally = land(route, batch, {"a.json": lines((2, "a"), (3, "b")), "b.json": lines((5, "a"), (6, "x" * 30))})
    assert [(each.id, each.name) for each in route.rows()] == [(2, "a" * 10), (3, "b" * 10)]
    assert (tally.rows, tally.quarantined) == (2, 1)
    (ended,) = route.outcomes(batch).endings
    assert ended.error.startswith("row 2: ")
    assert "name" in ended.error


def test_sql_may_have_a_comment_and_reads_no_environment(route: World, batch: str) -> None:
    schema = "id bigint, text string, at timestamp, name string, moment timestamp, `a-b` struct<`c.d`: bigint>"
    generated = (
        ("name", "'${env:HOME}' -- not replaced"),
        ("moment", "to_timestamp(text, 'yyyy-MM-dd')"),
        ("a-b", "struct(id)"),
    )
    route.dataset = replace(route.dataset, schema=schema, generated=generated, where="id > 1 -- all but one")
    assert land(route, batch, {"a.json": lines((1, "x"), (2, "2026-01-02"))}).rows == 1
    assert [(each.name, str(each.moment), each["a-b"]["c.d"]) for each in route.rows()] == [
        ("${env:HOME}", "2026-01-02 00:00:00", 2)
    ]


def test_what_spark_says_of_a_row_may_be_no_error_of_python(route: World, batch: str) -> None:
    schema = "id bigint, text string, at timestamp, far date, x struct<a: int>"
    generated = (("far", "date_add(date'9999-12-31', cast(id as int) - 2)"), ("x", "struct(cast(text as int))"))
    route.dataset = replace(route.dataset, schema=schema, generated=generated)
    tally = land(route, batch, {"a.json": lines((2, "1"), (3, "x")), "b.json": lines((2, "5"))})
    assert (tally.rows, tally.quarantined) == (1, 1)
    assert route.outcomes(batch).endings[0].error.startswith("row 2: column x (CAST_INVALID_INPUT)")


def test_a_generated_value_that_no_file_may_have_has_its_file_quarantined(route: World, batch: str) -> None:
    schema = "id bigint, text string, at timestamp, far date, x struct<a: timestamp>, y int not null, z string"
    generated = (
        ("z", "cast(unhex(if(text = '3', 'ff', '41')) as string)"),
        ("far", "date_add(date'9999-12-31', cast(text as int))"),
        ("x", "struct(timestamp_micros(id * 100000000000000000))"),
        ("y", "nullif(length(text), 2)"),
    )
    route.dataset = replace(route.dataset, schema=schema, generated=generated)
    files = {"a.json": lines((2, "0")), "b.json": lines((2, "0"), (2, "1")), "c.json": lines((4, "0"))}
    tally = land(route, batch, {**files, "d.json": lines((2, "-1")), "e.json": lines((2, "-3"), (2, "3"))})
    assert (tally.rows, tally.quarantined) == (1, 4)
    assert sorted(each.error for each in route.outcomes(batch).endings) == [
        "row 1: column x.a of the route is outside the years 0001 to 9999: correct it",
        "row 1: column y of the route is null or missing, and the schema says not null: give it a value, or take"
        " `not null` away",
        "row 2: column far of the route is outside the years 0001 to 9999: correct it",
        "row 2: column z of the route cannot be read",
    ]


@pytest.mark.parametrize("die_before", ["publish", "write_receipt"])
def test_a_driver_that_is_killed_leaves_out_and_counts_once(
    route: World, warehouse: Path, batch: str, die_before: str
) -> None:
    route.seal(batch, route.put({"a.json": lines((1, "7"), (3, "2")), "b.json": lines((5, "x"))}))
    killed = start_driver(route, warehouse, batch, 1, die_before=die_before)
    assert killed.wait(HANGING) == -signal.SIGKILL
    assert run(route.attempt(batch, 2), "ingest") == 0
    receipt = route.receipt(batch)
    assert receipt is not None
    assert [each[0] for each in found(route)] == [3]
    assert (receipt.tally.rows, receipt.tally.left_out, receipt.tally.quarantined) == (1, 1, 1)


def test_two_drivers_with_other_sql_land_each_row_once(
    route: World, warehouse: Path, batch: str, tmp_path: Path
) -> None:
    """Twins of a batch, of which one has the settings from before: what one of them has counted is what is there."""
    route.seal(batch, route.put({"a.json": lines(*((number, "1") for number in range(9)))}))
    before = replace(route.dataset, where="id > 5")
    drivers = [start_driver(each, warehouse, batch, 1, gate=tmp_path) for each in (route, World(before, route.spark))]
    eventually(lambda: len(list(tmp_path.glob("waiting-*"))), lambda count: count == 2, waiting_for="both to stage")
    (tmp_path / "open").touch()
    assert [each.wait(HANGING) for each in drivers] == [0, 0]
    (landed_as,) = route.published()
    receipt, ids = route.receipt(batch), [each[0] for each in found(route)]
    assert receipt is not None
    assert (receipt.tally.rows, receipt.tally.left_out) == (len(ids), 9 - len(ids))
    assert ids == [each for each in range(9) if each > (1 if landed_as.summary["tidegate.where"] == "id > 1" else 5)]


def test_it_replaces_with_what_is_left(replacing: World, batch: str) -> None:
    """A later version of which no row is left takes the rows of the one before away."""
    replacing.dataset = replace(replacing.dataset, where="id > 1")
    first, later = put(replacing, 2, 3), put(replacing, 1)
    landed(replacing, f"{batch}1", first)
    assert replacing.ids() == [2, 3]
    landed(replacing, f"{batch}2", later)
    assert replacing.ids() == []


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("nope = 1", "where of the route cannot be evaluated"),
        ("id >", "where of the route cannot be evaluated"),
        ("rand() > 0.5", "where of the route uses a function of chance"),
        ("at < current_timestamp()", "where of the route uses CurrentTimestamp"),
        ("sum(id) > 1", "where of the route uses an aggregate or a window"),
        ("row_number() over (order by id) = 1", "where of the route uses an aggregate or a window"),
        ("id in (select 1)", "where of the route uses"),
        ("_batch_id = 'x'", "where of the route cannot be evaluated"),
        ("1 / 0 = 1", "where of the route cannot be evaluated"),
        ("id > 3) or (id = 0", "where of the route cannot be evaluated"),
        ("at < timestamp 'now'", "where of the route uses the time 'now'"),
        ("at < cast(' Today ' as timestamp)", "where of the route uses the time ' Today '"),
        ("at < cast(text as timestamp)", "where of the route uses a cast of text to a time"),
        ("at < to_timestamp(text)", "where of the route uses a cast of text to a time"),
        ("length(aes_encrypt(text, '0000111122223333')) > 1", "where of the route uses AesEncrypt"),
        ("map(text, id)['a'] = 1", "where of the route uses CreateMap"),
        ("str_to_map(text)['a'] = '1'", "where of the route uses StringToMap"),
    ],
)
def test_sql_that_gives_no_lasting_answer_is_refused(route: World, batch: str, where: str, said: str) -> None:
    assert route.spark is not None
    sink = IcebergSink(route.spark, replace(route.dataset, where=where), batch, 1, "d")
    with pytest.raises(Hopeless, match=said.replace("(", r"\(")):
        sink.prepare()
    assert not sink.exists

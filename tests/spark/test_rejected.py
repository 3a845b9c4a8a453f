"""Rows that do not fit, on a real Spark with real tables: they land once, in a table of their own."""

import csv
import gzip
import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.spark.world import World
from tidegate.core.outcomes import Tally
from tidegate.core.publication import Published
from tidegate.flows.publish import run
from tidegate.formats.registry import FORMATS
from tidegate.sinks.iceberg.table import IcebergTable

pytestmark = pytest.mark.spark

FILES: Mapping[str, bytes] = {
    "in/good.json": b'{"id": 1, "text": "a"}\n',
    "in/one-bad.json": b'{"id": 2}\n{"id": "x", "text": "b"}\n{"id": 4}\n',
    "in/one-bad.json.gz": gzip.compress(b'{"id": 5}\n{"id": 6}\nnonsense\n'),
    "in/all-bad.json": b'{"id": "y"}\n',
    "in/too-many.json": b'{"id": "z"}\n' * 3 + b'{"id": 7}\n',
}


@pytest.fixture
def setting_aside(world: World) -> World:
    options = FORMATS["json"].carry({"bad_rows_share": 0.5})
    return replace(world, dataset=replace(world.dataset, options=options))


def rejected(world: World) -> list[Any]:
    assert world.spark is not None
    table = world.spark.table(world.dataset.rejected_table)
    return table.orderBy("_source_uri", "_source_row").collect()


def test_they_land_once_with_their_file_line_text_and_error(setting_aside: World, batch: str) -> None:
    world = setting_aside
    uploads = world.put(FILES)
    world.seal(batch, uploads)
    for attempt in (1, 2):
        assert run(world.attempt(batch, attempt), "ingest") == 0, world.failure(batch, attempt)
    assert [(row.id, row._source_row) for row in world.rows()] == [(1, 0), (2, 0), (4, 2), (5, 0), (6, 1)]
    found = rejected(world)
    assert [(row._source_uri, row._source_row, row.place, row.text) for row in found] == [
        ("s3://landing/in/one-bad.json", 1, "line 2", '{"id": "x", "text": "b"}'),
        ("s3://landing/in/one-bad.json.gz", 2, "line 3", "nonsense"),
    ]
    assert found[0].error.startswith("line 2: id = 'x' is text, and the schema says bigint")
    assert {(row._source_version, row._batch_id) for row in found} == {
        (uploads[1].version, batch),
        (uploads[2].version, batch),
    }
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.tally == Tally(committed=3, quarantined=2, rows=5, rejected=2)
    endings = {each.key: each.error for each in world.outcomes(batch).endings}
    assert "id = 'y' is text" in endings["in/all-bad.json"]
    assert endings["in/too-many.json"].startswith("more than 2 rows do not fit")
    assert world.outcomes(batch).rejected_rows == ((0, 0, 1, 1, 0),)  # in the order of the part, which is that of keys
    assert world.branches() == []
    assert replace(world, dataset=replace(world.dataset, table=world.dataset.rejected_table)).branches() == []


def test_without_bad_rows_nothing_is_staged_for_them(setting_aside: World, batch: str) -> None:
    world = setting_aside
    world.seal(batch, world.put({"in/good.json": FILES["in/good.json"]}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    assert world.outcomes(batch).rejected is None
    assert rejected(world) == []


def test_a_driver_that_dies_between_the_two_commits_is_followed_by_one_that_lands_them(
    setting_aside: World, batch: str
) -> None:
    world = setting_aside
    world.seal(batch, world.put(FILES))
    dead = world.attempt(batch, 1)
    dead.sink.prepare()
    decided = dead.publish(dead.stage(), dead.floor())
    assert isinstance(decided, Published)
    assert rejected(world) == []
    # the settings change in between: what was staged counts
    plain = replace(world, dataset=replace(world.dataset, options=()))
    assert run(plain.attempt(batch, 2), "ingest") == 0, world.failure(batch, 2)
    assert len(world.rows()) == 5
    assert len(rejected(world)) == 2


def test_a_fence_keeps_them_out(setting_aside: World, batch: str) -> None:
    world = setting_aside
    world.seal(batch, world.put(FILES))
    zombie = world.attempt(batch, 1)
    zombie.sink.prepare()
    floor = zombie.floor()
    staged = zombie.stage()
    assert run(world.attempt(batch, 2), "fence") == 0
    assert zombie.end(zombie.publish(staged, floor)).fence
    assert (world.rows(), rejected(world)) == ([], [])


def test_a_table_that_was_dropped_in_between_gets_them_anew(setting_aside: World, batch: str) -> None:
    world = setting_aside
    world.seal(batch, world.put(FILES))
    dead = world.attempt(batch, 1)
    dead.sink.prepare()
    dead.publish(dead.stage(), dead.floor())
    assert world.spark is not None
    world.spark.sql(f"DROP TABLE {world.dataset.rejected_table}")
    assert run(world.attempt(batch, 2), "ingest") == 0, world.failure(batch, 2)
    assert [row.place for row in rejected(world)] == ["line 2", "line 3"]
    assert run(world.attempt(batch, 3), "ingest") == 0
    assert len(rejected(world)) == 2


def test_a_table_of_something_else_is_refused_before_anything_is_published(setting_aside: World, batch: str) -> None:
    world = setting_aside
    assert world.spark is not None
    world.sql("CREATE NAMESPACE IF NOT EXISTS lake.web")
    table = IcebergTable(world.spark, world.dataset.rejected_table)
    table.create_if_absent("id bigint", ())
    world.seal(batch, world.put(FILES))
    assert run(world.attempt(batch, 1), "ingest") == 1
    failure = world.failure(batch, 1)
    assert failure.hopeless
    assert "its column place is not there, not string. Rename that table" in failure.reason


def test_a_value_that_no_path_can_hold_is_set_aside(setting_aside: World, batch: str) -> None:
    """Of the table's own partition, which the route does not name. Its neighbours land."""
    world = setting_aside
    assert world.spark is not None
    world.attempt(batch, 1).sink.prepare()
    world.spark.sql(f"ALTER TABLE {world.dataset.table} ADD PARTITION FIELD truncate(900, text) AS label")
    files = {f"in/{n}.json": b'{"id": %d, "text": "a"}\n{"id": 9, "text": "%s"}\n' % (n, b"x" * 800) for n in (1, 2)}
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    assert [row.id for row in world.rows()] == [1, 2]
    assert {row.error[:60] for row in rejected(world)} == {
        "the table is partitioned by column text, and label=xxxxxxxxxxxxxxxxxxxxxx"[:60]
    }


def test_a_large_csv_file_keeps_its_good_rows(world: World, batch: str) -> None:
    """It is streamed, and read by one task."""
    options = FORMATS["csv"].carry({"bad_rows_share": 0.01})
    world = replace(
        world, dataset=replace(world.dataset, format="csv", options=options, max_object_bytes=1_000_000_000)
    )
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["id", "text"])
    for number in range(70_000):
        rows.writerow([f"x{number}" if number % 10_000 == 7 else number, "some text that is long " * 44])
    body = text.getvalue().encode()
    world.seal(batch, world.put({"in/large.csv": body}))
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.tally == Tally(committed=1, rows=69_993, rejected=7)
    found = rejected(world)
    assert [row._source_row for row in found] == [number for number in range(70_000) if number % 10_000 == 7]
    assert found[1].place == "line 10009"
    assert found[1].text.startswith("x10007,")
    assert world.sql("SELECT count(*) AS n FROM {t} WHERE id != _source_row")[0].n == 0

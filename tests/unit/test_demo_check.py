"""The judge is incorruptible: it passes what is right, and fails on every way in which a table can be wrong."""

import datetime
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.unit.test_demo_source import flights
from tidegate_local.demo import check, run, source
from tidegate_local.demo.check import Finding

OBJECTS = 3
KEYS = {hour.key: hour for hour in source.hours(flights(), OBJECTS, "")}
VERSIONS = {f"s3://landing/{key}": f"etag:{number}" for number, key in enumerate(KEYS)}

Row = dict[str, Any]


def table_rows() -> list[Row]:
    """What the path would have made of the first objects."""
    rows = []
    for key, hour in KEYS.items():
        uri = f"s3://landing/{key}"
        for number, flight in enumerate(hour.flights):
            time_hour = datetime.datetime.fromisoformat(flight["time_hour"])
            lineage = {"_source_uri": uri, "_source_version": VERSIONS[uri], "_source_row": number}
            rows.append({**flight, "time_hour": time_hour, **lineage})
    return rows


def judge(rows: list[Row]) -> dict[str, Finding]:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    expected = check.expected_rows(flights(), OBJECTS, lambda flight: True)
    findings = [
        *check.compare(check.rows_of(table, check.COLUMNS), expected),
        *check.check_lineage(table, VERSIONS),
    ]
    return {finding.what: finding for finding in findings}


TEXT = ("carrier", "tailnum", "origin", "dest", "_source_uri", "_source_version")
SCHEMA = pa.schema(
    [
        (
            name,
            pa.timestamp("us", tz="UTC")
            if name == "time_hour"
            else pa.string()
            if name in TEXT
            else pa.int64()
            if name == "_source_row"
            else pa.int32(),
        )
        for name in (*check.COLUMNS, *check.LINEAGE)
    ]
)


def broken(rows: list[Row]) -> set[str]:
    return {what for what, finding in judge(rows).items() if not finding.holds}


MISSING = "every one of the 4 expected rows is in the table"
REPEATED = "none of them twice"
FOREIGN = "no other row is there"
PLACES = "no two rows come from the same line of the same upload"
ORIGIN = "the rows come from the last version of each object, and from every object"
GAPS = "no line of an object is left out"


def test_what_is_right_passes():
    assert broken(table_rows()) == set()


def test_the_order_of_the_rows_does_not_matter():
    assert broken(table_rows()[::-1]) == set()


def duplicated(rows: list[Row]) -> list[Row]:
    return [*rows, rows[0]]


def published_again(rows: list[Row]) -> list[Row]:
    return rows * 2


def twice_under_another_line(rows: list[Row]) -> list[Row]:
    return [*rows, {**rows[0], "_source_row": 2}]


def without_the_last_row_of_an_object(rows: list[Row]) -> list[Row]:
    return [rows[0], *rows[2:]]


def without_the_first_row_of_an_object(rows: list[Row]) -> list[Row]:
    return rows[1:]


def without_an_object(rows: list[Row]) -> list[Row]:
    return rows[:-1]


def empty(rows: list[Row]) -> list[Row]:
    return []


def with_a_foreign_row(rows: list[Row]) -> list[Row]:
    return [*rows, {**rows[0], "flight": 9999, "_source_uri": "s3://landing/other", "_source_version": "etag:9"}]


def with_a_changed_cell(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "arr_delay": 12}, *rows[1:]]


def with_a_lost_value(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "dep_time": None}, *rows[1:]]


def with_a_time_an_hour_off(rows: list[Row]) -> list[Row]:
    return [{**rows[0], "time_hour": rows[0]["time_hour"] + datetime.timedelta(hours=1)}, *rows[1:]]


def from_an_older_version(rows: list[Row]) -> list[Row]:
    return [*rows[:-1], {**rows[-1], "_source_version": "etag:older"}]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (duplicated, {REPEATED, PLACES, GAPS}),
        (published_again, {REPEATED, PLACES, GAPS}),
        (twice_under_another_line, {REPEATED}),
        (without_the_last_row_of_an_object, {MISSING}),
        (without_the_first_row_of_an_object, {MISSING, GAPS}),
        (without_an_object, {MISSING, ORIGIN}),
        (empty, {MISSING, ORIGIN}),
        (with_a_foreign_row, {FOREIGN, ORIGIN}),
        (with_a_changed_cell, {MISSING, FOREIGN}),
        (with_a_lost_value, {MISSING, FOREIGN}),
        (with_a_time_an_hour_off, {MISSING, FOREIGN}),
        (from_an_older_version, {ORIGIN}),
    ],
)
def test_what_is_wrong_fails_and_says_how(spoil: Callable[[list[Row]], list[Row]], expected: set[str]):
    assert broken(spoil(table_rows())) == expected


def test_a_failure_shows_the_row():
    finding = judge(with_a_foreign_row(table_rows()))[FOREIGN]
    assert "1 foreign" in finding.seen
    assert "9999" in finding.seen


def test_rows_that_the_source_itself_has_twice_must_be_there_twice():
    expected = check.expected_rows(flights(), OBJECTS, lambda flight: True)
    row = next(iter(expected))
    expected[row] += 1
    assert not check.compare(check.rows_of(pa.Table.from_pylist(table_rows(), schema=SCHEMA), check.COLUMNS), expected)[
        0
    ].holds


def test_what_was_quarantined_is_not_expected():
    kept = check.expected_rows(flights(), OBJECTS, lambda flight: flight["origin"] == "JFK")
    assert kept.total() == 1


def test_the_table_is_read_and_the_printed_command_counts_it(tmp_path: Path):
    folder = tmp_path / "it's a folder"
    folder.mkdir()
    where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    catalog = SqlCatalog("lake", **where)
    catalog.create_namespace("flights")
    written = pa.Table.from_pylist(table_rows(), schema=SCHEMA)
    catalog.create_table("flights.departures", SCHEMA).append(written)

    assert sorted(check.read_table("lake.flights.departures", **where).column("flight").to_pylist()) == [1, 2, 3, 1545]

    command = run.query_command("lake.flights.departures", **where)
    assert shlex.split(command)[1] == "-c"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "4"
    assert sys.executable.endswith(shlex.split(command)[0].removeprefix("./"))

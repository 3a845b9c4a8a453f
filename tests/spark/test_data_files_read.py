"""Readers find in the tasks' files what they find in those of Spark's writer, whatever they skip by."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from tests.spark.test_data_files import (
    EMPTY,
    FULL,
    LARGEST,
    SCHEMA,
    STRANGE,
    TASKS,
    body,
    both,
    created,
    landed,
    writers,
)
from tests.spark.world import World
from tidegate.flows.publish import run

pytestmark = pytest.mark.spark


def parquet(columns: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def of_parquet(world: World, batch: str, schema: str, files: dict[str, bytes]) -> tuple[World, World]:
    dataset = replace(world.dataset, schema=schema, format="parquet", max_object_bytes=1_000_000_000)
    return both(dataset, world.spark, batch, files)


NAN = float("nan")
FLOATS = {"id": [1, 2, 3], "f": [0.5, NAN, None], "g": [NAN] * 3}


def test_nan_is_neither_deleted_nor_missed_by_bounds(world: World, batch: str) -> None:
    for each in of_parquet(world, batch, "id bigint, f double, g double", {"in/a.parquet": parquet(FLOATS)}):
        assert repr(each.sql("SELECT max(f), min(f), max(g) FROM {t}")[0][:]) == "(nan, 0.5, nan)"
        each.sql("DELETE FROM {t} WHERE f < 1.0D")
        assert each.ids() == [2, 3]


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_a_long_value_after_many_short_ones_is_found(world: World, batch: str, kind: str) -> None:
    rows = (1 << 20) + 1
    short, long = ("a", "z" * 5_000) if kind == "string" else (b"a", b"z" * 5_000)
    values = pa.DictionaryArray.from_arrays(pa.array([0] * rows + [1], pa.int32()), pa.array([short, long]))
    files = {"in/a.parquet": parquet({"id": range(rows + 1), "v": values.cast(values.type.value_type)})}
    given = World(replace(world.dataset, schema=f"id bigint, v {kind}", format="parquet"), world.spark)
    given = World(replace(given.dataset, max_object_bytes=1_000_000_000), world.spark)
    landed(given, batch, files)
    assert writers(given) == TASKS
    assert given.sql("SELECT count(*) AS n FROM {t} WHERE v > cast('b' AS " + kind + ")")[0].n == 1


OF_PYICEBERG = (
    *(
        "i = -2147483648",
        "b = true",
        "n < 0",
        "p < 0",
        "d is nan",
        "f is nan",
        "d > 1",
        "d is null",
        "s > 'b'",
        "s = ''",
    ),
    *("f = 0", "f > 1", "day < '1000-01-01'", "x is null"),
)
OF_DUCKDB = (
    *(
        "i = -2147483648",
        "b",
        "n < 0",
        "p < 0",
        "isnan(d)",
        "isnan(f)",
        "d is null",
        "s > 'b'",
        "s = ''",
        "f = 0",
        "f > 1",
    ),
    *("f >= 'nan'", "day < '1000-01-01'", "t > '9999-12-31 00:00:00+00'", "z < '1000-01-01'", "r.q = ''", "m['k'] = 1"),
    *("o > 1", "x = ''"),
)


def test_other_readers(world: World, batch: str) -> None:
    small = {"f": 0.5, "d": 0.5}
    rows = ([FULL, {}, EMPTY], [LARGEST, STRANGE], [small, STRANGE])
    files = {f"in/{number}.parquet": body(each) for number, each in enumerate(rows)}
    told: list[dict[str, Any]] = []
    for each in of_parquet(world, batch, SCHEMA, files):
        log = each.sql("SELECT file FROM {t}.metadata_log_entries ORDER BY timestamp DESC LIMIT 1")
        table = StaticTable.from_metadata(log[0].file)
        paths = [row.file_path.removeprefix("file:") for row in each.sql("SELECT file_path FROM {t}.files")]
        question = f"SELECT count(*) FROM read_parquet({paths}) WHERE "
        told.append({where: table.scan(row_filter=where).to_arrow().num_rows for where in OF_PYICEBERG})
        told[-1] |= {f"duckdb: {where}": duckdb.execute(question + where).fetchone() for where in OF_DUCKDB}
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["a.b", "a b", "ä", "1x", "x,y;(z)=", "A.list.element", "a`b"])
def test_columns_with_odd_names(world: World, batch: str, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    schema = f"A array<int>, r struct<{quoted}: double, z: int>, {quoted} int"
    given = World(replace(world.dataset, schema=schema), world.spark)
    lines = json.dumps({"A": [50], "r": {name: 0.5, "z": 70}, name: 7}).encode()
    landed(given, batch, {"in/a.json": lines})
    assert writers(given) == TASKS
    assert given.sql(f"SELECT count(*) AS n FROM {{t}} WHERE {quoted} = 7 AND r.{quoted} = 0.5")[0].n == 1
    assert given.rows()[0].A == [50]


def test_a_nested_field_that_takes_no_nulls_gets_none(world: World, batch: str) -> None:
    given = World(replace(world.dataset, schema="id bigint, r struct<q: string>"), world.spark)
    created(given, "id bigint, r struct<q: string NOT NULL>")
    given.seal(batch, given.put({"in/a.json": b'{"id": 1, "r": {"q": null}}\n{"id": 2, "r": {"q": "x"}}\n'}))
    assert run(given.attempt(batch, 1), "ingest") == 1
    assert given.published() == []


def test_a_property_of_snapshots_that_the_session_sets(world: World, batch: str) -> None:
    assert world.spark is not None
    name = "spark.sql.iceberg.snapshot-property.team"
    world.spark.conf.set(name, "blue")
    try:
        landed(world, batch)
    finally:
        world.spark.conf.unset(name)
    found = world.sql("SELECT summary FROM {t}.snapshots")
    assert any(row.summary.get("team") == "blue" for row in found)


def test_a_struct_that_is_null_may_demand_values(world: World, batch: str) -> None:
    """Its fields are null, too, and the route's schema says `not null` of one. PyIceberg (0.12) reads no such row,
    whoever wrote it."""
    assert world.spark is not None
    nested = "struct<a: int not null, w: array<struct<e: string not null>>>"
    world.dataset = replace(world.dataset, schema=f"id bigint, s {nested}")
    lines = b'{"id": 1, "s": {"a": 5, "w": [{"e": "x"}, null]}}\n{"id": 2, "s": null}\n{"id": 3}\n'
    world.seal(batch, world.put({"in/a.json": lines, "in/b.json": b'{"id": 4, "s": {"a": null}}\n'}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    expected = [(1, {"a": 5, "w": [{"e": "x"}, None]}), (2, None), (3, None)]
    there = world.sql("SELECT * FROM {t} ORDER BY id")
    assert [(each.id, each.s and each.s.asDict(recursive=True)) for each in there] == expected
    assert [each.id for each in world.sql("SELECT id FROM {t} WHERE s.a IS NULL ORDER BY id")] == [2, 3]
    paths = [row.file_path.removeprefix("file:") for row in world.sql("SELECT file_path FROM {t}.files")]
    found = duckdb.execute(f"SELECT id, s FROM read_parquet({paths}) ORDER BY id").fetchall()
    assert found == expected

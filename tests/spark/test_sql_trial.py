"""What `tidegate try` says of a route's SQL is what a job does: on a real Spark, of the same rows."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.test_route_sql import GENERATED, SCHEMA, lines
from tests.spark.world import World
from tests.support.build import route
from tidegate.cli.exits import Exit
from tidegate.cli.sampling.try_files import decoding_of
from tidegate.core.routes import Dataset
from tidegate.flows.publish import run
from tidegate.flows.sink import Hopeless
from tidegate.formats.registry import FORMATS
from tidegate.formats.streams import HeldBytes
from tidegate.reading.trial import tried
from tidegate.sinks.iceberg.sql_trial import SqlTrial, TriedSql

pytestmark = pytest.mark.spark


def trial(spark: Any, dataset: Dataset, body: bytes) -> SqlTrial:
    decoded = tried(decoding_of(replace(route(), dataset=dataset)), "a.json", HeldBytes(body), 1_000)
    assert not decoded.reason
    return TriedSql(spark, dataset)(decoded.first, [each.row for each in decoded.bad])


@pytest.mark.parametrize(
    "body",
    [
        lines((1, "7"), (3, "2"), (4, None)),
        lines((2, "1"), (1, "x"), (3, "x"), (4, "0")),
        lines((5, "0")),
        lines((0, "0")),
        b"",
    ],
    ids=["left out", "cannot be cast", "divided by zero", "none lands", "empty"],
)
@pytest.mark.parametrize("where", ["id > 1", ""])
@pytest.mark.parametrize("first", ["id bigint", "id bigint not null"])
def test_it_is_what_a_job_makes_of_the_file(world: World, batch: str, body: bytes, where: str, first: str) -> None:
    schema = SCHEMA.replace("id bigint", first)
    generated = (*GENERATED, ("next", "id + 1"))
    world.dataset = replace(world.dataset, schema=f"{schema}, next bigint", where=where, generated=generated)
    said = trial(world.spark, world.dataset, body)
    world.seal(batch, world.put({"a.json": body}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    receipt, endings = world.receipt(batch), world.outcomes(batch).endings
    assert receipt is not None
    assert (said.lands.num_rows, said.left_out) == (receipt.tally.rows, receipt.tally.left_out)
    assert (said.reason, said.where) == ((endings[0].error, endings[0].where) if endings else ("", ""))
    landed = [(each.id, each.text, each.total, each.day, each.next) for each in world.rows()]
    assert [
        (each["id"], each["text"], each["total"], each["day"], each["next"]) for each in said.lands.to_pylist()
    ] == landed


def test_rows_that_are_set_aside_count(world: World, batch: str) -> None:
    bad = b'{"id": "no number"}\n'
    body = bad + lines((2, "1")) + bad + lines((3, "x"))
    options = FORMATS["json"].carry({"bad_rows_share": 0.6})
    world.dataset = replace(world.dataset, schema=SCHEMA, where="id > 1", generated=GENERATED, options=options)
    said = trial(world.spark, world.dataset, body)
    world.seal(batch, world.put({"a.json": body}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert said.reason == ending.error == "row 4: column total (CAST_INVALID_INPUT) of the route cannot be evaluated"


def test_a_generated_value_that_no_file_may_have_names_its_row(world: World) -> None:
    wanted = replace(
        world.dataset,
        schema="id bigint, twice bigint not null",
        where="id > 0",
        generated=(("twice", "nullif(id, 2)"),),
    )
    body = b"".join(json.dumps({"id": each}).encode() + b"\n" for each in (0, 1, 2))
    said = trial(world.spark, wanted, body)
    assert said.reason.startswith("row 3: column twice of the route ")


@pytest.mark.parametrize("where", ["idd > 1", "id >", "rand() > 0.5"])
def test_sql_that_no_job_takes_is_refused_before_a_file_is_read(world: World, where: str) -> None:
    wanted = replace(world.dataset, schema="id bigint", where=where)
    with pytest.raises(Hopeless, match="where of the route"):
        TriedSql(world.spark, wanted)
    assert isinstance(TriedSql(world.spark, replace(wanted, where="id > 1"))(pa.table({"id": [1, 2]})).lands, pa.Table)


ROUTE = """[[route]]
name = "a"
bucket = "events-landing"
format = "json"
table = "lake.raw.a"
schema = "id bigint, text string, twice bigint generated always as (id * 2), day date generated always as (text)"
where = "{where}"
"""


THESE = [{"id": each, "text": None, "twice": 2 * each, "day": None} for each in (1, 3)]


def try_it(folder: Path, where: str, *files: str, more: str = "") -> tuple[int, str, str]:
    """The verb as a process of its own, as a person runs it."""
    (folder / "tidegate.toml").write_text(ROUTE.format(where=where) + more)
    command = [Path(sys.executable).with_name("tidegate"), "try", "a", *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_try_shows_the_rows_that_land_and_refuses_sql_that_no_job_takes(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("".join(f'{{"id": {each}}}\n' for each in (1, 2, 3)))
    (tmp_path / "b.json").write_text("".join(f'{{"id": {each}}}\n' for each in (9_223_372_036_854_775_807, 1)))
    (tmp_path / "none.json").touch()
    code, said, wrong = try_it(tmp_path, "id <> 2", "a.json", "b.json", "none.json", "--json")
    one, two, none = json.loads(said)["files"]
    assert [each["name"] for each in json.loads(said)["columns"]] == ["id", "text", "twice", "day"]
    assert (code, wrong) == (Exit.FINDING, "")
    assert (one["rows"], one["left_out_rows"], one["first"]) == (2, 1, THESE)
    assert two["error"] == "row 1: column twice (ARITHMETIC_OVERFLOW) of the route cannot be evaluated"
    assert (none["rows"], none["left_out_rows"], none["error"]) == (0, 0, None)
    code, said, wrong = try_it(tmp_path, "idd <> 2", "a.json")
    assert (code, said) == (Exit.USAGE, "")
    assert wrong.startswith("error: route a: where of the route cannot be evaluated: ")
    assert "idd" in wrong
    assert wrong.count("\n") == 1, "PySpark's own log of it is hidden"
    (tmp_path / "c.json").write_text('{"id": 1, "text": "x"}\n')
    code, said, wrong = try_it(tmp_path, "id <> 2", "c.json")
    assert (code, wrong) == (Exit.FINDING, "")
    assert said.startswith("refused: c.json: row 1: column day (CAST_INVALID_INPUT) of the route cannot be evaluated\n")
    code, said, wrong = try_it(tmp_path, "id <> 2", "a.json")
    assert (code, wrong) == (Exit.OK, "")
    assert "2 rows: a.json (30 bytes)\n    left out: 1 of 3 rows\n" in said
    many = "".join('{"id": 1}\n{"id": "bad"}\n{"id": 3}\n' for _ in range(900))
    (tmp_path / "many.json").write_text(many)
    code, said, wrong = try_it(tmp_path, "id <> 2", "many.json", "--limit", "2", more="bad_rows_share = 0.6")
    assert (code, wrong) == (Exit.OK, "")
    assert "1,800 rows: many.json" in said
    assert "    left out: 0 of the first 1,000 rows\n" in said
    assert said.count("'bad'") <= 2 * 2, "as many bad rows as other rows are shown"

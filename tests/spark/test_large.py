"""Large files are staged while they are read. If one turns out bad, none of its rows lands, and its neighbours do."""

import gzip
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.world import World
from tests.support.streaming import LARGE, StreamingReader
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.routes import Dataset
from tidegate.flows.publish import run
from tidegate.sinks.iceberg.splits import Splits, survey

pytestmark = pytest.mark.spark

BAD = b'{"id": "bad"}\n'


@pytest.fixture(autouse=True)
def a_kilobyte_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.sinks.iceberg.sink.Reader", StreamingReader)


def lines(*ids: int) -> bytes:
    return b"".join(json.dumps({"id": each, "text": "x" * 50}).encode() + b"\n" for each in ids)


def test_a_bad_last_row_leaves_none_and_takes_no_neighbour_with_it(world: World, batch: str) -> None:
    files = {
        "in/bad.json": lines(*range(100, 200)) + BAD,
        "in/large.json": lines(*range(200, 300)),
        "in/small.json": lines(1),
        "in/small-bad.json": BAD,
        "in/bad-at-once.json": BAD + lines(*range(300, 400)),
    }
    assert len(files["in/bad.json"]) > LARGE
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0
    outcomes = world.outcomes(batch)
    assert outcomes.tally == Tally(committed=2, quarantined=3, rows=101)
    assert sorted(count for part in outcomes.rows for count in part)[:3] == [0, 0, 0]
    assert sum(sum(part) for part in outcomes.rows) == 101
    ended = {each.key: each for each in outcomes.endings}
    assert ended["in/bad.json"].outcome is Outcome.QUARANTINED
    assert "line 101: id = 'bad' is text, and the schema says " in ended["in/bad.json"].error
    assert ended["in/bad.json"].where == 'line 101: {"id": "bad"}'
    assert world.ids() == [1, *range(200, 300)]
    # two were staged, one is published, and no branch is left
    assert world.staged(batch) == 2
    assert len(world.published()) == 1
    assert world.branches() == []


def test_without_a_bad_file_it_is_staged_once_and_each_row_has_its_number(world: World, batch: str) -> None:
    files = {"in/a.json": lines(*range(150)), "in/b.json.gz": gzip.compress(lines(*range(1000, 5000)))}
    assert len(files["in/b.json.gz"]) > LARGE
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0
    assert world.staged(batch) == 1
    found = [(row._source_uri.rpartition("/")[2], row._source_row, row.id) for row in world.rows()]
    assert found == [
        *(("a.json", number, number) for number in range(150)),
        *(("b.json.gz", number, 1000 + number) for number in range(4000)),
    ]


def test_parquet_of_many_row_groups(world: World, batch: str) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, text string", "parquet")
    buffer = io.BytesIO()
    files = {}
    for name, last in (("good", 4999), ("bad", 2**63)):
        buffer = io.BytesIO()
        ids = pa.array([*range(4999), last], pa.uint64())
        pq.write_table(pa.table({"id": ids, "text": ["x"] * 5000}), buffer, row_group_size=700)
        files[f"in/{name}.parquet"] = buffer.getvalue()
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert (ending.key, ending.where) == ("in/bad.parquet", "row group 8, rows 4901 to 5000")
    assert world.staged(batch) == 2
    assert [(row.id, row._source_row) for row in world.rows()] == [(each, each) for each in range(5000)]


def test_a_batch_of_which_nothing_is_left(world: World, batch: str) -> None:
    world.seal(batch, world.put({"in/bad.json": lines(*range(100, 200)) + BAD}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    assert [ending.key for ending in world.outcomes(batch).endings] == ["in/bad.json"]
    assert world.ids() == []


def test_in_careful_mode_as_well(world: World, batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.flows.publish.reads_carefully", lambda *_, **__: True)
    files = {"in/bad.json": lines(*range(100, 200)) + BAD, "in/large.json": lines(*range(200, 300))}
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0
    assert [ending.key for ending in world.outcomes(batch).endings] == ["in/bad.json"]
    assert world.ids() == list(range(200, 300))


@pytest.fixture
def several_tasks_read_a_file(monkeypatch: pytest.MonkeyPatch) -> list[Splits]:
    """A task reads some 3,000 bytes of a file. The list receives what each survey finds."""
    found: list[Splits] = []

    def watched(*args: Any) -> Splits:
        found.append(survey(*args))
        return dict(found[-1])

    monkeypatch.setattr("tidegate.sinks.iceberg.shares.TASK_BYTES", 3_000)
    monkeypatch.setattr("tidegate.sinks.iceberg.sink.survey", watched)
    return found


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_several_tasks_read_a_file_and_each_row_has_its_number(
    world: World, batch: str, several_tasks_read_a_file: list[Splits], format: str
) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, text string", format)
    body = {"json": lines, "csv": csv_lines, "parquet": row_groups}[format](*range(500))
    few = {"json": lines, "csv": csv_lines, "parquet": row_groups}[format](*range(500, 505))
    world.seal(batch, world.put({f"in/large.{format}": body, f"in/small.{format}": few}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    assert world.staged(batch) == 1
    assert [(row.id, row._source_row) for row in world.rows()] == [(each, each % 500) for each in range(505)]
    assert world.outcomes(batch).tally.as_dict()["rows"] == 505
    ((splits,),) = (found.values() for found in several_tasks_read_a_file)
    assert len(splits) > 2


@pytest.mark.usefixtures("several_tasks_read_a_file")
def test_one_bad_split_and_the_file_is_quarantined_as_a_whole(world: World, batch: str) -> None:
    middle = lines(*range(200, 300)) + BAD + lines(*range(300, 400))
    files = {"in/bad.json": middle, "in/large.json": lines(*range(500, 700)), "in/small.json": lines(1)}
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert (ending.key, ending.where) == ("in/bad.json", 'line 101: {"id": "bad"}')
    assert world.staged(batch) == 2
    assert len(world.published()) == 1
    assert world.ids() == [1, *range(500, 700)]


@pytest.mark.usefixtures("several_tasks_read_a_file")
def test_a_file_that_only_looked_bad_in_splits_lands(world: World, batch: str) -> None:
    others = b'{"other": "%s"}\n' % (b"x" * 30)
    world.seal(batch, world.put({"in/half.json": lines(*range(100)) + others * 100}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    assert world.outcomes(batch).tally.as_dict()["rows"] == 200
    assert world.staged(batch) == 2
    assert sorted((row._source_row, row.id) for row in world.rows() if row.id is not None) == [
        (each, each) for each in range(100)
    ]


@pytest.mark.usefixtures("several_tasks_read_a_file")
def test_a_file_is_overwritten_between_survey_and_staging(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uploads = world.put({"in/large.json": lines(*range(200)), "in/small.json": lines(1000)})
    world.seal(batch, uploads)

    def overwritten(*args: Any) -> Splits:
        found = survey(*args)
        assert len(found) == 1
        world.put({"in/large.json": lines(*range(300, 500))})
        return found

    monkeypatch.setattr("tidegate.sinks.iceberg.sink.survey", overwritten)
    assert run(world.attempt(batch, 1), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert ending.outcome is Outcome.SUPERSEDED
    assert world.ids() == [1000]


@pytest.mark.usefixtures("several_tasks_read_a_file")
def test_a_file_that_is_too_large_for_its_route_is_refused_and_not_split(world: World, batch: str) -> None:
    world.dataset = Dataset(world.dataset.table, "id bigint, text string", "json", max_object_bytes=5_000)
    world.seal(batch, world.put({"in/large.json": lines(*range(200)), "in/small.json": lines(1000)}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert "at most 5000 (max_object_bytes)" in ending.error
    assert world.ids() == [1000]


def csv_lines(*ids: int) -> bytes:
    return b"text,id\n" + b"".join(b'"%d ""x"",\n",%d\n' % (each, each) for each in ids)


def row_groups(*ids: int) -> bytes:
    written = io.BytesIO()
    pq.write_table(pa.table({"id": ids, "text": [f"text {each}" for each in ids]}), written, row_group_size=70)
    return written.getvalue()

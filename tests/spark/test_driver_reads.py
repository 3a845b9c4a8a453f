"""A worker's driver reads a small batch itself; the table holds what it would hold if tasks had read it."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.spark.world import World
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Failure
from tidegate.flows.publish import Attempt, run
from tidegate.sinks.iceberg import shares
from tidegate.sinks.iceberg import sink as sinks

pytestmark = pytest.mark.spark

FILES = {
    "good.json": b'{"id": 1}\n{"id": 2}\n',
    "bad.json": b"no json",
    "empty.json": b"",
    "more.json": b"".join(json.dumps({"id": number}).encode() + b"\n" for number in range(100)),
}


def reading(world: World, batch: str, number: int = 1) -> Attempt:
    """The attempt of a worker."""
    attempt = world.attempt(batch, number)
    attempt.sink = replace(attempt.sink, reads=True)  # type: ignore[type-var]
    return attempt


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks Spark was asked for, each time."""
    asked: list[int] = []
    real = sinks.files_of_tasks

    def noted(spark: Any, tasks: Any, *arguments: Any) -> Any:
        asked.append(len(tasks))
        return real(spark, tasks, *arguments)

    monkeypatch.setattr(sinks, "files_of_tasks", noted)
    return asked


def plain(world: World) -> list[tuple[Any, ...]]:
    return [(each["id"], each["_source_uri"], each["_source_row"]) for each in world.rows()]


def test_the_driver_stages_what_tasks_would(world: World, batch: str, tasks: list[int]) -> None:
    world.seal(batch, world.put(FILES))
    assert run(reading(world, batch), "ingest") == 0
    assert tasks == []
    by_driver, rows = world.outcomes(batch), plain(world)
    assert len(rows) == by_driver.tally.rows == 102
    assert [(each.key, each.outcome) for each in by_driver.endings] == [("bad.json", Outcome.QUARANTINED)]
    again = f"{batch}again"
    world.seal(again, world.put(FILES))
    assert run(world.attempt(again, 1), "ingest") == 0
    assert len(tasks) == 1
    by_tasks = world.outcomes(again)
    assert (by_tasks.tally, by_tasks.rows) == (by_driver.tally, by_driver.rows)
    assert sorted(plain(world)) == sorted(rows * 2)


@pytest.mark.parametrize("limit", ["DRIVER_BYTES", "DRIVER_OBJECTS"])
def test_what_is_not_small_is_read_by_tasks(
    world: World, batch: str, tasks: list[int], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(shares, limit, 1)
    world.seal(batch, world.put(FILES))
    assert run(reading(world, batch), "ingest") == 0
    assert len(tasks) == 1
    assert len(plain(world)) == 102


def test_what_has_killed_a_reader_is_read_by_tasks(world: World, batch: str, tasks: list[int]) -> None:
    world.seal(batch, world.put(FILES))
    for number in (1, 2):
        died = Failure(number, "its reader died", hopeless=False, died=True)
        world.work.put(f"batches/{batch}/failures/{number}.json", died.encode())
    assert run(reading(world, batch, 3), "ingest") == 0
    assert len(tasks) == 1
    assert len(plain(world)) == 102


def test_rows_of_many_partitions_are_left_to_spark(world: World, batch: str, tasks: list[int]) -> None:
    world.dataset = replace(world.dataset, partition_by=("bucket(64, id)",))
    world.seal(batch, world.put(FILES))
    assert run(reading(world, batch), "ingest") == 0
    assert tasks == []
    assert len(plain(world)) == 102

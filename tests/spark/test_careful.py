"""A file that kills its reader is quarantined by name, and its neighbours land: with Spark's own worker processes."""

import json

import pytest

from tests.spark.world import World
from tests.support.deadly import DeadlyReader
from tidegate.core.outcomes import Outcome
from tidegate.flows.publish import run

pytestmark = pytest.mark.spark

DEADLY = "in/deadly.json"


def test_a_file_that_kills_its_worker_ends_by_itself_in_the_third_attempt(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.iceberg.sink.Reader", DeadlyReader)
    files = {f"in/{number}.json": json.dumps({"id": number}).encode() for number in range(4)}
    world.seal(batch, world.put({**files, DEADLY: json.dumps({"id": 9, "text": "crash"}).encode()}))
    for number in (1, 2):
        assert run(world.attempt(batch, number), "ingest") == 1
        failure = world.failure(batch, number)
        assert failure.died, failure
        assert not failure.hopeless
    assert world.receipt(batch) is None
    assert run(world.attempt(batch, 3), "ingest") == 0
    (ending,) = world.outcomes(batch).endings
    assert (ending.key, ending.outcome) == (DEADLY, Outcome.QUARANTINED)
    assert ending.error.endswith("alone in a process: SIGABRT")
    assert world.ids() == [0, 1, 2, 3]

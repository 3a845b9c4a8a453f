"""A batch that a rollback took from a real Iceberg table is fenced, and never lands again."""

import json

import pytest

from tests.spark.world import World
from tidegate.flows.fence_again import fence_again
from tidegate.flows.publish import run, run_verb
from tidegate.flows.sink import Hopeless

pytestmark = pytest.mark.spark


def ingested(world: World, batch: str, first: int) -> int:
    """The snapshot that published a batch of two files, with the ids `first` and the next one."""
    files = {f"in/{number}.json": json.dumps({"id": number}).encode() for number in (first, first + 1)}
    world.seal(batch, world.put(files))
    assert run(world.attempt(batch, 1), "ingest") == 0
    receipt = world.receipt(batch)
    assert receipt is not None
    return receipt.snapshot


def roll_back(world: World, to: int) -> None:
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {to})")


def fenced(world: World, batch: str) -> bool:
    assert run_verb(world.attempt(batch, 0), fence_again) == 0
    receipt = world.receipt(batch)
    return receipt is not None and receipt.fence


def test_batches_that_a_rollback_took_are_fenced_and_the_others_stay(world: World, batch: str) -> None:
    kept = ingested(world, f"{batch}1", 1)
    ingested(world, f"{batch}2", 3)
    ingested(world, f"{batch}3", 5)
    roll_back(world, kept)
    for _ in range(2):
        assert fenced(world, f"{batch}3")
        assert fenced(world, f"{batch}2")
    with pytest.raises(Hopeless, match="holds 2 of the 2 rows"):
        fence_again(world.attempt(f"{batch}1", 0))
    assert world.ids() == [1, 2]
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0, "it finds the fence"
    assert run(world.attempt(f"{batch}3", 2), "ingest") == 1, "its floor was cut off: it proves nothing"
    assert world.ids() == [1, 2]


def test_what_maintenance_has_deleted_since_is_fenced_too(world: World, batch: str) -> None:
    kept = ingested(world, f"{batch}1", 1)
    ingested(world, f"{batch}2", 3)
    roll_back(world, kept)
    world.expire()
    assert fenced(world, f"{batch}2")
    assert world.ids() == [1, 2]


def test_rows_that_somebody_deleted_are_no_rollback(world: World, batch: str) -> None:
    ingested(world, f"{batch}1", 1)
    world.sql("DELETE FROM {t}")
    with pytest.raises(Hopeless, match="was not rolled back past it"):
        fence_again(world.attempt(f"{batch}1", 0))
    assert world.ids() == []


def test_a_table_that_was_dropped_is_made_anew_and_fenced(world: World, batch: str) -> None:
    ingested(world, f"{batch}1", 1)
    world.sql("DROP TABLE {t}")
    assert fenced(world, f"{batch}1")
    assert world.ids() == []

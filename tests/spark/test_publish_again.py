"""A batch that a rollback took from a real Iceberg table lands again, once."""

import json

import pytest

from tests.spark.world import World
from tidegate.flows.publish import run, run_verb
from tidegate.flows.publish_again import publish_again
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


def test_of_two_batches_that_a_rollback_took_each_lands_again_once(world: World, batch: str) -> None:
    kept = ingested(world, f"{batch}1", 1)
    ingested(world, f"{batch}2", 3)
    ingested(world, f"{batch}3", 5)
    roll_back(world, kept)
    assert world.ids() == [1, 2]
    for _ in range(2):
        for number in (3, 2):
            run_verb(world.attempt(f"{batch}{number}", 0), publish_again)
        assert world.ids() == [1, 2, 3, 4, 5, 6]
    publish_again(world.attempt(f"{batch}1", 0))
    assert world.ids() == [1, 2, 3, 4, 5, 6]


def test_what_maintenance_has_deleted_since_is_read_again(world: World, batch: str) -> None:
    kept = ingested(world, f"{batch}1", 1)
    ingested(world, f"{batch}2", 3)
    roll_back(world, kept)
    world.expire()
    assert run_verb(world.attempt(f"{batch}2", 0), publish_again) == 0
    assert world.ids() == [1, 2, 3, 4]
    assert run_verb(world.attempt(f"{batch}2", 0), publish_again) == 0
    assert world.ids() == [1, 2, 3, 4]


def test_rows_that_somebody_deleted_do_not_publish_again(world: World, batch: str) -> None:
    ingested(world, f"{batch}1", 1)
    world.sql("DELETE FROM {t} WHERE id = 1")
    with pytest.raises(Hopeless, match="was not rolled back past it"):
        publish_again(world.attempt(f"{batch}1", 0))
    # its snapshot expires: the row that is left still shows it
    world.sql("DELETE FROM {t} WHERE id = 99")
    world.sql("INSERT INTO {t} SELECT * FROM {t} WHERE false")
    world.expire()
    with pytest.raises(Hopeless, match="holds 1 of the 2 rows"):
        publish_again(world.attempt(f"{batch}1", 0))
    assert world.ids() == [2]


def test_a_table_that_was_dropped_gets_its_batches_again(world: World, batch: str) -> None:
    ingested(world, f"{batch}1", 1)
    world.sql("DROP TABLE {t}")
    assert run_verb(world.attempt(f"{batch}1", 0), publish_again) == 0
    assert world.ids() == [1, 2]

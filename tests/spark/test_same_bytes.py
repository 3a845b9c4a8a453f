"""A route that skips the same bytes, on a real Spark and a real Iceberg: of versions with the same bytes, one after the
other, one has rows."""

import time
from dataclasses import replace

import pytest

from tests.spark.test_replace import endings, landed, put, sealed, staged
from tests.spark.test_replace import world as world_that_replaces
from tests.spark.world import World
from tidegate.core.publication import Published
from tidegate.flows.publish import run
from tidegate.flows.sink import StagedIsGone

pytestmark = pytest.mark.spark
replacing = world_that_replaces


@pytest.fixture
def world(replacing: World) -> World:
    replacing.dataset = replace(replacing.dataset, replaces=False, skips=True)
    return replacing


def test_the_same_bytes_bring_no_rows_and_others_do(world: World, batch: str) -> None:
    first, same, other, back = put(world, 1, 2), put(world, 1, 2), put(world, 3), put(world, 1, 2)
    landed(world, f"{batch}1", first)
    landed(world, f"{batch}2", same)
    assert world.ids() == [1, 2]
    (ended,) = world.outcomes(f"{batch}2").endings
    assert (ended.outcome, ended.error) == (
        "present",
        f"rows of batch {batch}1: its bytes are those of version {first.version}",
    )
    landed(world, f"{batch}3", other)
    landed(world, f"{batch}4", back)
    assert world.ids() == [1, 1, 2, 2, 3], "other bytes came between"


def test_the_later_one_comes_first(world: World, batch: str) -> None:
    first, same = put(world, 1), put(world, 1)
    landed(world, f"{batch}1", same)
    landed(world, f"{batch}2", first)
    assert world.ids() == [1]
    assert endings(world, f"{batch}2") == {first.version: "present"}


def test_in_one_batch_the_first_that_can_be_read_lands(world: World, batch: str) -> None:
    gone, first, same = put(world, 1, 2), put(world, 1, 2), put(world, 1, 2)
    world.s3.delete_object(Bucket=gone.bucket, Key=gone.key, VersionId=gone.version)
    landed(world, batch, same, gone, first, put(world, 9, key="in/b.json"))
    assert world.ids() == [1, 2, 9]
    assert endings(world, batch) == {gone.version: "vanished", same.version: "present"}
    receipt = world.receipt(batch)
    assert receipt is not None
    assert (receipt.tally.rows, receipt.tally.replaced) == (3, 0)


def test_a_deletion_comes_between(world: World, batch: str) -> None:
    first = put(world, 1)
    landed(world, f"{batch}1", first)
    # of a marker and a version of one second nobody can say which is later
    time.sleep(1.1)
    world.s3.delete_object(Bucket=first.bucket, Key=first.key)
    landed(world, f"{batch}2", put(world, 1))
    assert world.ids() == [1, 1]


def test_two_batches_at_once_leave_one(world: World, batch: str) -> None:
    """Both look before either has published. The second one is refused, and its next attempt finds the first one's."""
    landed(world, f"{batch}0", put(world, 9, key="in/b.json"))
    one, snapshot, floor = staged(world, f"{batch}1", put(world, 1))
    two, other, other_floor = staged(world, f"{batch}2", put(world, 1))
    assert isinstance(one.publish(snapshot, floor), Published)
    with pytest.raises(StagedIsGone, match="rows of the same objects"):
        two.publish(other, other_floor)
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    assert world.ids() == [1, 9]


def test_it_lands_when_it_is_sent_again_after_a_rollback(world: World, batch: str) -> None:
    landed(world, f"{batch}0", put(world, 9, key="in/b.json"))
    before = world.main()[0].id
    first, same = put(world, 1), put(world, 1)
    landed(world, f"{batch}1", first)
    landed(world, f"{batch}2", same)
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {before})")
    sealed(world, f"{batch}3", same)
    assert run(world.attempt(f"{batch}3", 1), "ingest") == 0
    assert world.ids() == [1, 9]

"""A route that removes what is deleted, on a real Spark and a real Iceberg: a deletion is a version without rows."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_replace import KEY, VERSIONED, endings, landed, put, staged
from tests.spark.test_replace import world as world_that_replaces
from tests.spark.world import World
from tidegate.core.publication import Published
from tidegate.core.uploads import Upload
from tidegate.flows.sink import StagedIsGone

pytestmark = pytest.mark.spark
replacing = world_that_replaces


@pytest.fixture
def world(replacing: World) -> World:
    replacing.dataset = replace(replacing.dataset, removes=True)
    return replacing


def delete(world: World, key: str = KEY) -> Upload:
    """The marker, as S3 announces it."""
    return Upload(VERSIONED, key, world.s3.delete_object(Bucket=VERSIONED, Key=key)["VersionId"], 0)


@pytest.mark.parametrize("key", [KEY, "in//a.json"], ids=["plain", "for_boto3"])
def test_what_is_deleted_leaves_the_table_in_one_commit(world: World, batch: str, key: str) -> None:
    landed(world, f"{batch}1", put(world, 1, 2, key=key), put(world, 10, key="in/b.json"))
    deletion, other = delete(world, key), put(world, 20, key="in/c.json")
    landed(world, f"{batch}2", deletion, other)
    assert world.ids() == [10, 20]
    receipt = world.receipt(f"{batch}2")
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.rows, receipt.tally.replaced) == (2, 1, 2)
    assert world.outcomes(f"{batch}2").deleted == (deletion.uri,)
    landed(world, f"{batch}3", put(world, 3, key=key))
    assert world.ids() == [3, 10, 20], "it was put again"


def test_an_earlier_version_that_comes_after_the_deletion_does_not_land(world: World, batch: str) -> None:
    first, deletion = put(world, 1), delete(world)
    landed(world, f"{batch}1", deletion)
    landed(world, f"{batch}2", first)
    assert world.ids() == []
    assert endings(world, f"{batch}2") == {first.version: "superseded"}


def test_a_deletion_that_comes_late_removes_nothing(world: World, batch: str) -> None:
    first, deletion, again = put(world, 1), delete(world), put(world, 2)
    landed(world, f"{batch}1", first)
    landed(world, f"{batch}2", again)
    landed(world, f"{batch}3", deletion)
    assert world.ids() == [2]
    assert endings(world, f"{batch}3") == {deletion.version: "superseded"}


def test_all_of_a_key_in_one_batch(world: World, batch: str) -> None:
    first, deletion, again, gone = put(world, 1), delete(world), put(world, 2), put(world, 3, key="in/b.json")
    marker = delete(world, "in/b.json")
    landed(world, batch, first, deletion, again, gone, marker)
    assert world.ids() == [2]


def test_a_marker_that_was_deleted_itself_removes_nothing(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    deletion = delete(world)
    world.s3.delete_object(Bucket=VERSIONED, Key=KEY, VersionId=deletion.version)
    landed(world, f"{batch}2", deletion)
    assert world.ids() == [1]
    assert endings(world, f"{batch}2") == {deletion.version: "vanished"}


def test_a_route_that_keeps_ends_a_deletion_as_vanished(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    deletion = delete(world)
    world.dataset = replace(world.dataset, removes=False)
    landed(world, f"{batch}2", deletion)
    assert world.ids() == [1]
    assert endings(world, f"{batch}2") == {deletion.version: "vanished"}


def test_a_deletion_that_lands_between_reading_and_publishing_counts(world: World, batch: str) -> None:
    """The deletion moves no row. Only its batch tells of it."""
    landed(world, f"{batch}0", put(world, 10, key="in/b.json"))
    attempt, snapshot, floor = staged(world, f"{batch}1", put(world, 1))
    landed(world, f"{batch}2", delete(world))
    with pytest.raises(StagedIsGone, match="a deletion of the same objects"):
        attempt.publish(snapshot, floor)
    again = world.attempt(f"{batch}1", 2)
    assert isinstance(again.publish(again.stage(), floor), Published)
    assert world.ids() == [10]


def test_a_deletion_that_lost_to_an_empty_file_counts_too(world: World, batch: str) -> None:
    """Neither leaves a row in the table."""
    landed(world, f"{batch}0", put(world, 10, key="in/b.json"))
    attempt, snapshot, floor = staged(world, f"{batch}1", put(world, 1))
    landed(world, f"{batch}2", delete(world), put(world))
    with pytest.raises(StagedIsGone, match="or an empty file"):
        attempt.publish(snapshot, floor)


def test_an_attempt_of_before_the_switch_is_refused_as_well(world: World, batch: str) -> None:
    landed(world, f"{batch}0", put(world, 10, key="in/b.json"))
    world.dataset = replace(world.dataset, removes=False)
    attempt, snapshot, floor = staged(world, f"{batch}1", put(world, 1))
    world.dataset = replace(world.dataset, removes=True)
    landed(world, f"{batch}2", delete(world))
    with pytest.raises(StagedIsGone, match="a deletion of the same objects"):
        attempt.publish(snapshot, floor)


def test_a_deletion_of_another_object_is_followed(world: World, batch: str) -> None:
    landed(world, f"{batch}0", put(world, 10, key="in/b.json"))
    attempt, snapshot, floor = staged(world, f"{batch}1", put(world, 1))
    put(world, 5, key="in/c.json")
    landed(world, f"{batch}2", delete(world, "in/c.json"))
    assert isinstance(attempt.publish(snapshot, floor), Published)
    assert world.ids() == [1, 10]


def test_a_large_file_whose_object_was_deleted_is_not_read_in_splits(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.iceberg.shares.TASK_BYTES", 200)
    first = put(world, *range(200))
    landed(world, f"{batch}1", delete(world))
    landed(world, f"{batch}2", first)
    assert world.ids() == []


def test_suspended_versioning_is_read_as_before(spark: SparkSession, world: World, batch: str) -> None:
    (upload,) = world.put({f"in/{batch}.json": b'{"id": 1}\n'})
    landed(world, batch, upload)
    assert world.ids() == [1]


def test_a_batch_of_which_nobody_can_tell_may_have_deleted(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    landed(world, f"{batch}0", put(world, 10, key="in/b.json"))
    attempt, snapshot, floor = staged(world, f"{batch}1", put(world, 1))
    landed(world, f"{batch}2", delete(world))
    monkeypatch.setattr("tidegate.flows.replacing.staged_outcomes", lambda *_: None)
    with pytest.raises(StagedIsGone, match="a deletion of the same objects"):
        attempt.publish(snapshot, floor)

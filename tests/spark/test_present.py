"""What came again and has rows in a real Iceberg table brings none; what has none lands."""

from collections.abc import Sequence

import pytest

from tests.spark.world import LANDING, World
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.uploads import Upload
from tidegate.flows.fence_again import fence_again
from tidegate.flows.publish import run
from tidegate.flows.sink import StagedIsGone, Undecided

pytestmark = pytest.mark.spark


def landed(world: World, batch: str, uploads: Sequence[Upload]) -> int:
    """The snapshot of the batch, whose uploads come for the first time."""
    world.seal(batch, uploads)
    assert run(world.attempt(batch, 1), "ingest") == 0
    return world.main()[0].id


def sent_again(world: World, batch: str, uploads: Sequence[Upload]) -> None:
    part = make_part("m" * 40, LANDING, uploads, again=True)
    world.work.put(batch_folder(batch) + part.name, part.body)
    sealed = Sealed(batch, "route", (part.name,), part.objects, part.size)
    world.work.put(batch_folder(batch) + "sealed.json", sealed.encode())


def endings(world: World, batch: str) -> dict[str, str]:
    return {each.key: str(each.outcome) for each in world.outcomes(batch).endings}


def files(world: World, *numbers: int) -> list[Upload]:
    return world.put({f"in/{number}.json": f'{{"id": {number}}}\n'.encode() for number in numbers})


def test_what_has_rows_brings_none_and_the_others_land(world: World, batch: str) -> None:
    first, second, third = files(world, 1, 2, 3)
    landed(world, f"{batch}1", [first, second])
    world.sql("DELETE FROM {t} WHERE id = 2")
    sent_again(world, f"{batch}2", [first, second, third])
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 0
    assert world.ids() == [1, 2, 3]
    assert endings(world, f"{batch}2") == {"in/1.json": "present"}
    assert [each.error for each in world.outcomes(f"{batch}2").endings] == [f"rows of batch {batch}1"]
    receipt = world.receipt(f"{batch}2")
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.present, receipt.tally.rows) == (2, 1, 2)


def test_all_of_a_batch_may_be_there(world: World, batch: str) -> None:
    both = files(world, 1, 2)
    landed(world, f"{batch}1", both)
    sent_again(world, f"{batch}2", both)
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 0
    assert world.ids() == [1, 2]
    assert set(endings(world, f"{batch}2").values()) == {"present"}


def test_another_version_of_the_object_is_another_upload(world: World, batch: str) -> None:
    landed(world, f"{batch}1", world.put({"in/1.json": b'{"id": 1}\n'}))
    sent_again(world, f"{batch}2", world.put({"in/1.json": b'{"id": 2}\n'}))
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 0
    assert world.ids() == [1, 2]


def test_a_rollback_after_the_look_is_refused_and_the_next_attempt_looks_again(world: World, batch: str) -> None:
    """Its rows were deleted after the batch's first attempt. A rollback to between these two brings them back."""
    uploads = files(world, 1)
    landed(world, f"{batch}1", uploads)
    sent_again(world, f"{batch}2", uploads)
    slow = world.attempt(f"{batch}2", 1)
    slow.sink.prepare()
    floor = slow.floor()
    world.sql("DELETE FROM {t}")
    staged = slow.stage()
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {floor.head})")
    assert world.ids() == [1]
    with pytest.raises(StagedIsGone, match="rolled back past version"):
        slow.publish(staged, floor)
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    assert world.ids() == [1]
    assert endings(world, f"{batch}2") == {"in/1.json": "present"}


def test_a_rollback_past_the_floor_is_for_a_person(world: World, batch: str) -> None:
    uploads = files(world, 1)
    before = landed(world, f"{batch}1", uploads)
    world.sql("DELETE FROM {t}")
    sent_again(world, f"{batch}2", uploads)
    slow = world.attempt(f"{batch}2", 1)
    slow.sink.prepare()
    floor = slow.floor()
    staged = slow.stage()
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {before})")
    with pytest.raises(Undecided, match="A person has to decide"):
        slow.publish(staged, floor)
    assert world.ids() == [1]


def test_a_driver_that_is_alive_publishes_after_the_floor(world: World, batch: str) -> None:
    """The first attempt was refused, because the batch that a rollback took has no fence. Then that is published."""
    landed(world, f"{batch}0", files(world, 3))
    before = world.main()[0].id
    uploads = files(world, 1, 2)
    landed(world, f"{batch}1", uploads)
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {before})")
    sent_again(world, f"{batch}2", uploads)
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 1
    assert run(world.attempt(f"{batch}1", 7), "ingest") == 0
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    assert world.ids() == [1, 2, 3]
    assert set(endings(world, f"{batch}2").values()) == {"present"}


def test_a_table_of_another_tool_had_no_lineage_at_the_floor(world: World, batch: str) -> None:
    world.sql("CREATE TABLE {t} (id bigint, text string) USING iceberg")
    world.sql("INSERT INTO {t} VALUES (7, 'theirs')")
    sent_again(world, f"{batch}1", files(world, 1))
    attempt = world.attempt(f"{batch}1", 1)
    attempt.floor()
    world.sql(
        "ALTER TABLE {t} ADD COLUMNS (_source_uri string, _source_version string, _source_row bigint,"
        " _batch_id string, _ingested_at timestamp)"
    )
    assert run(attempt, "ingest") == 0
    assert world.ids() == [1, 7]


def test_a_table_of_another_tool_says_at_once_all_that_it_lacks(world: World, batch: str) -> None:
    world.sql("CREATE TABLE {t} (id bigint) USING iceberg")
    world.sql("INSERT INTO {t} VALUES (7)")
    sent_again(world, batch, files(world, 1))
    assert run(world.attempt(batch, 1), "ingest") == 1
    _, _, statement = world.failure(batch, 1).reason.partition("Run: ")
    world.spark.sql(statement.partition(". ")[0])
    assert run(world.attempt(batch, 2), "ingest") == 0, world.failure(batch, 2)
    assert world.ids() == [1, 7]


def test_a_batch_that_a_rollback_took_is_fenced_before_what_it_had_lands_again(world: World, batch: str) -> None:
    """A driver of it is still alive. The fence is what `tidegate resend` has a job write."""
    uploads = files(world, 1, 2)
    landed(world, f"{batch}0", files(world, 3))
    before = world.main()[0].id
    world.seal(f"{batch}1", uploads)
    alive = world.attempt(f"{batch}1", 1)
    alive.sink.prepare()
    floor = alive.floor()
    staged = alive.stage()
    assert run(world.attempt(f"{batch}1", 2), "ingest") == 0
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {before})")
    assert alive.sink.rolled_back()[1] == {f"{batch}1"}
    sent_again(world, f"{batch}2", uploads)
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 1
    assert f"`tidegate resend {batch}1`" in world.failure(f"{batch}2", 1).reason
    assert fence_again(world.attempt(f"{batch}1", 2, driver="fence"))
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    alive.publish(staged, floor)
    assert world.ids() == [1, 2, 3]


def test_a_lineage_column_was_called_otherwise_at_the_floor(world: World, batch: str) -> None:
    """Somebody renamed it, something was written, and it was renamed back."""
    uploads = files(world, 1, 2)
    landed(world, f"{batch}1", uploads[:1])
    world.sql("ALTER TABLE {t} RENAME COLUMN _source_version TO version")
    world.sql("ALTER TABLE {t} RENAME COLUMN _batch_id TO batch")
    world.sql("DELETE FROM {t} WHERE id = 9")
    world.sql("INSERT INTO {t} SELECT * FROM {t} WHERE false")
    sent_again(world, f"{batch}2", uploads)
    attempt = world.attempt(f"{batch}2", 1)
    floor = attempt.floor()
    world.sql("ALTER TABLE {t} RENAME COLUMN version TO _source_version")
    world.sql("ALTER TABLE {t} RENAME COLUMN batch TO _batch_id")
    assert world.attempt(f"{batch}1", 9).sink.held(floor) == 1
    assert run(attempt, "ingest") == 0
    assert world.ids() == [1, 2]
    assert endings(world, f"{batch}2") == {"in/1.json": "present"}


def test_a_lineage_column_was_dropped_and_added_again(world: World, batch: str) -> None:
    """The snapshot still has it under its name."""
    uploads = files(world, 1, 2)
    landed(world, f"{batch}1", uploads[:1])
    world.sql("ALTER TABLE {t} DROP COLUMN _source_version")
    world.sql("ALTER TABLE {t} ADD COLUMN _source_version string")
    sent_again(world, f"{batch}2", uploads)
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 0
    assert world.ids() == [1, 2]

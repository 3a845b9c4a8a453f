"""What came again and has rows in a real Iceberg table at the floor brings none; what has none lands."""

from collections.abc import Sequence

import pytest

from tests.spark.world import LANDING, World
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.uploads import Upload
from tidegate.flows.publish import run

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


def test_it_is_looked_for_at_the_floor_and_a_rollback_past_it_is_refused(world: World, batch: str) -> None:
    """Its rows were deleted when the first attempt began. A rollback brings them back, and takes the floor away."""
    uploads = files(world, 1)
    before = landed(world, f"{batch}1", uploads)
    world.sql("DELETE FROM {t}")
    sent_again(world, f"{batch}2", uploads)
    slow = world.attempt(f"{batch}2", 1)
    slow.sink.prepare()
    floor = slow.floor()
    staged = slow.stage(floor)
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {before})")
    assert world.ids() == [1]
    with pytest.raises(Exception, match="A person has to decide"):
        slow.publish(staged, floor)
    assert world.ids() == [1]


def test_if_the_floor_has_expired_it_is_looked_for_now(world: World, batch: str) -> None:
    uploads = files(world, 1, 2)
    landed(world, f"{batch}1", uploads[:1])
    sent_again(world, f"{batch}2", uploads)
    attempt = world.attempt(f"{batch}2", 1)
    floor = attempt.floor()
    landed(world, f"{batch}3", files(world, 3))
    world.expire()
    assert attempt.sink.present([each for each in uploads], floor) == {uploads[0].identity}


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

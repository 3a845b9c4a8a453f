"""A reload, on a real Spark and a real Iceberg, of a route that appends: in one commit the rows of a file give way to
those that it gives today."""

import signal
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.test_publish import start_driver
from tests.spark.test_replace import published_at_once
from tests.spark.world import World
from tests.support.patience import HANGING
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.publication import Published
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.flows.publish import run
from tidegate.flows.sink import Hopeless, StagedIsGone

pytestmark = pytest.mark.spark


@pytest.fixture
def world(spark: SparkSession) -> World:
    table = f"lake.tests.l{uuid.uuid4().hex[:12]}"
    return World(Dataset(table, "id bigint", "json", max_object_bytes=1_000_000), spark)


def put(world: World, batch: str, name: str, *ids: int) -> Upload:
    body = b"".join(b'{"id": %d, "text": "t%d"}\n' % (each, each) for each in ids)
    return world.put({f"in/{batch}-{name}.json": body})[0]


def sealed(world: World, batch: str, *uploads: Upload, reloads: bool = False) -> None:
    part = make_part("n" * 40, uploads[0].bucket, uploads, again=reloads, reloads=reloads)
    world.work.put(batch_folder(batch) + part.name, part.body)
    listed = Sealed(batch, "route", (part.name,), part.objects, part.size)
    world.work.put(batch_folder(batch) + "sealed.json", listed.encode())


def landed(world: World, batch: str, *uploads: Upload, reloads: bool = False) -> None:
    sealed(world, batch, *uploads, reloads=reloads)
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)


def texts(world: World) -> list[tuple[int, str | None]]:
    return sorted((row.id, getattr(row, "text", None)) for row in world.rows())


def test_a_file_is_loaded_again_with_a_corrected_schema(world: World, batch: str) -> None:
    first, other = put(world, batch, "a", 1, 2), put(world, batch, "b", 3)
    landed(world, f"{batch}1", first, other)
    world.sql("ALTER TABLE {t} ADD COLUMN text string")
    world.dataset = replace(world.dataset, schema="id bigint, text string")
    landed(world, f"{batch}2", first, reloads=True)
    assert texts(world) == [(1, "t1"), (2, "t2"), (3, None)]
    # one commit did both
    assert [each.plain.publishes for each in world.main()[:2]] == [{f"{batch}2"}, {f"{batch}1"}]
    receipt = world.receipt(f"{batch}2")
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.rows, receipt.tally.replaced) == (1, 2, 2)
    (gone,) = world.outcomes(f"{batch}2").replaced
    assert (gone.uri, gone.version, gone.batch) == (first.uri, first.version, f"{batch}1")
    landed(world, f"{batch}3", first, other, reloads=True)
    assert texts(world) == [(1, "t1"), (2, "t2"), (3, "t3")]


def test_what_is_reloaded_beside_new_files_and_what_has_no_rows(world: World, batch: str) -> None:
    old, empty, new = put(world, batch, "a", 1), put(world, batch, "b"), put(world, batch, "c", 2)
    landed(world, f"{batch}1", old, empty)
    again = make_part("r" * 40, old.bucket, [old, empty], again=True, reloads=True)
    fresh = make_part("f" * 40, old.bucket, [new])
    for part in (again, fresh):
        world.work.put(batch_folder(f"{batch}2") + part.name, part.body)
    both = Sealed(f"{batch}2", "route", (again.name, fresh.name), 3, again.size + fresh.size)
    world.work.put(batch_folder(f"{batch}2") + "sealed.json", both.encode())
    assert run(world.attempt(f"{batch}2", 1), "ingest") == 0
    assert world.ids() == [1, 2]
    landed(world, f"{batch}3", empty, reloads=True)
    assert world.ids() == [1, 2]


def test_a_file_that_cannot_be_read_today_keeps_its_rows(world: World, batch: str) -> None:
    bad, good = put(world, batch, "a", 1), put(world, batch, "b", 2)
    landed(world, f"{batch}1", bad, good)
    world.sql("ALTER TABLE {t} ADD COLUMN text int")
    world.dataset = replace(world.dataset, schema="id bigint, text int")
    landed(world, f"{batch}2", bad, reloads=True)
    assert world.ids() == [1, 2]
    (ended,) = world.outcomes(f"{batch}2").endings
    assert str(ended.outcome) == "present"
    assert ended.error.startswith(f"rows of batch {batch}1: ")


@pytest.mark.parametrize("die_before", ["publish", "write_receipt"])
def test_a_driver_that_is_killed_leaves_the_rows_once(
    world: World, warehouse: Path, batch: str, die_before: str
) -> None:
    upload = put(world, batch, "a", 1, 2)
    landed(world, f"{batch}1", upload)
    sealed(world, f"{batch}2", upload, reloads=True)
    killed = start_driver(world, warehouse, f"{batch}2", 1, die_before=die_before)
    assert killed.wait(HANGING) == -signal.SIGKILL
    assert world.ids() == [1, 2]
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    assert world.ids() == [1, 2]
    assert {row._batch_id for row in world.rows()} == {f"{batch}2"}


def test_two_drivers_that_reload_a_file_leave_its_rows_once(
    world: World, warehouse: Path, batch: str, tmp_path: Path
) -> None:
    """Two batches, because the ledger had forgotten the first one's claim. Both have staged before either publishes."""
    upload = put(world, batch, "a", 1, 2)
    landed(world, f"{batch}0", upload)
    for number in (1, 2):
        sealed(world, f"{batch}{number}", upload, reloads=True)
    assert published_at_once(world, warehouse, f"{batch}1", f"{batch}2", gate=tmp_path) == [0, 1], "one looks again"
    assert world.ids() == [1, 2]
    for number in (1, 2):
        assert run(world.attempt(f"{batch}{number}", 2), "ingest") == 0
    assert world.ids() == [1, 2]


def test_a_zombie_of_the_batch_that_had_it_finds_itself_published(world: World, batch: str) -> None:
    upload = put(world, batch, "a", 1)
    sealed(world, f"{batch}1", upload)
    zombie = world.attempt(f"{batch}1", 1, "zombie")
    zombie.sink.prepare()
    floor, staged = zombie.floor(), zombie.stage()
    assert run(world.attempt(f"{batch}1", 2), "ingest") == 0
    landed(world, f"{batch}2", upload, reloads=True)
    assert isinstance(zombie.publish(staged, floor), Published)
    assert world.ids() == [1]
    assert {row._batch_id for row in world.rows()} == {f"{batch}2"}


def test_after_a_rollback_the_first_rows_are_there_and_a_fence_comes_before_the_next_reload(
    world: World, batch: str
) -> None:
    upload = put(world, batch, "a", 1)
    landed(world, f"{batch}1", upload)
    before = world.main()[0].id
    landed(world, f"{batch}2", upload, reloads=True)
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {before})")
    assert {row._batch_id for row in world.rows()} == {f"{batch}1"}
    sealed(world, f"{batch}3", upload, reloads=True)
    assert run(world.attempt(f"{batch}3", 1), "ingest") == 1
    assert f"`tidegate resend {batch}2` does that" in world.failure(f"{batch}3", 1).reason
    assert run(world.attempt(f"{batch}2", 2), "fence") == 0
    assert run(world.attempt(f"{batch}3", 2), "ingest") == 0
    assert world.ids() == [1]
    assert {row._batch_id for row in world.rows()} == {f"{batch}3"}


def test_rows_that_were_rewritten_meanwhile_are_staged_anew(world: World, batch: str) -> None:
    upload, other = put(world, batch, "a", 1), put(world, batch, "b", 10)
    landed(world, f"{batch}1", upload)
    landed(world, f"{batch}2", other)
    sealed(world, f"{batch}3", upload, reloads=True)
    attempt = world.attempt(f"{batch}3", 1)
    floor, staged = attempt.floor(), attempt.stage()
    world.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('min-input-files', '2'))")
    with pytest.raises(StagedIsGone, match="rewritten"):
        attempt.publish(staged, floor)
    assert run(world.attempt(f"{batch}3", 2), "ingest") == 0
    assert world.ids() == [1, 10]


def test_rows_that_lost_their_version_stop_it(world: World, batch: str) -> None:
    """Whether they are of this version cannot be told. To land beside them could double them."""
    upload = put(world, batch, "a", 1)
    landed(world, f"{batch}1", upload)
    world.sql("ALTER TABLE {t} ALTER COLUMN _source_version DROP NOT NULL")
    world.sql("UPDATE {t} SET _source_version = NULL")
    sealed(world, f"{batch}2", upload, reloads=True)
    with pytest.raises(Hopeless, match="without a _source_version"):
        world.attempt(f"{batch}2", 1).stage()
    assert world.ids() == [1]

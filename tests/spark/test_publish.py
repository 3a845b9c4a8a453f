"""Decision 3 on a real Spark and a real Iceberg: whatever dies or comes twice, a batch lands once or not at all."""

import datetime
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from tests.spark.world import World, asked
from tests.support.patience import HANGING, eventually
from tidegate.core.errors import Retryable
from tidegate.core.publication import NotPublished, Published
from tidegate.core.receipts import Receipt
from tidegate.core.routes import encode_dataset
from tidegate.flows.fence_again import fence_again
from tidegate.flows.publish import Attempt, run
from tidegate.flows.sink import Hopeless
from tidegate.sinks.iceberg import table as tables
from tidegate.sinks.iceberg.table import IcebergTable

pytestmark = pytest.mark.spark

FILES = {f"in/{name}.json": json.dumps({"id": name, "text": "x"}).encode() for name in range(8)}
IDS = list(range(8))


def sealed(world: World, batch: str) -> None:
    world.seal(batch, world.put(FILES))


def start_driver(
    world: World, warehouse: Path, batch: str, attempt: int, *, die_before: str = "-", gate: Path | None = None
) -> subprocess.Popen[bytes]:
    arguments = [str(warehouse), batch, str(attempt), encode_dataset(world.dataset), die_before]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.driver", *arguments, *([str(gate)] if gate else [])],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_batch_is_published_once_and_a_second_attempt_only_finds_it(world: World, batch: str) -> None:
    sealed(world, batch)
    assert run(world.attempt(batch, 1), "ingest") == 0
    first = world.receipt(batch)
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.receipt(batch) == first
    assert world.ids() == IDS
    assert len(world.published()) == 1
    assert world.branches() == [], "what was staged is not dropped"


@pytest.mark.parametrize("die_before", ["stage", "publish", "write_receipt"])
def test_a_worker_that_is_killed_at_its_third_batch_loses_none_of_the_three(
    world: World, warehouse: Path, batch: str, die_before: str
) -> None:
    earlier = {f"{batch}{number}": 100 + number for number in range(2)}
    for each, number in earlier.items():
        world.seal(each, world.put({f"in/{each}.json": b'{"id": %d}' % number}))
    sealed(world, batch)
    killed = start_driver(world, warehouse, ",".join([*earlier, batch]), 1, die_before=die_before)
    assert killed.wait(HANGING) == -signal.SIGKILL
    assert all(world.receipt(each) for each in earlier)
    assert world.receipt(batch) is None
    assert world.work.get(f"batches/{batch}/floor.json") is not None, "it died before it began"
    there_before = world.ids()
    assert there_before == [*(IDS if die_before == "write_receipt" else []), *earlier.values()]
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.ids() == [*IDS, *earlier.values()]
    receipt = world.receipt(batch)
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.rows, receipt.fence) == (8, 8, False)


def test_twin_drivers_that_publish_at_the_same_time(world: World, warehouse: Path, batch: str, tmp_path: Path) -> None:
    sealed(world, batch)
    world.attempt(batch, 1).sink.prepare()
    twins = [start_driver(world, warehouse, batch, 1, gate=tmp_path) for _ in range(2)]

    def waiting() -> int:
        assert all(twin.poll() is None for twin in twins), f"a twin ended too early: {world.failure(batch, 1)}"
        return len(list(tmp_path.glob("waiting-*")))

    eventually(waiting, lambda count: count == 2, waiting_for="both twins to be about to publish")
    (tmp_path / "open").touch()
    assert [twin.wait(HANGING) for twin in twins] == [0, 0], world.failure(batch, 1)
    assert world.ids() == IDS
    receipt = world.receipt(batch)
    assert receipt is not None
    assert world.staged(batch) >= 2, "both must have staged"


@pytest.mark.parametrize("round", range(5))
def test_twins_in_threads_agree_on_who_won(world: World, batch: str, round: int) -> None:
    sealed(world, batch)
    one, other = world.attempt(batch, 1, "one"), world.attempt(batch, 1, "other")
    one.sink.prepare()
    floor = one.floor()
    staged = {attempt.sink.driver: attempt.stage() for attempt in (one, other)}
    if round % 2:  # somebody else's commit in between makes both publish by rebase
        moved = f"{batch}x"
        world.seal(moved, world.put({"in/other.json": b'{"id": 100}'}))
        assert run(world.attempt(moved, 1), "ingest") == 0
    decided: dict[str, Published] = {}

    def publish(attempt: Attempt) -> None:
        decided[attempt.sink.driver] = attempt.publish(staged[attempt.sink.driver], floor)

    threads = [threading.Thread(target=publish, args=(attempt,)) for attempt in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert decided["one"] == decided["other"]
    assert decided["one"].staged in staged.values()
    assert one.write_receipt(decided["one"]) == other.write_receipt(decided["other"])
    assert world.ids() == IDS + ([100] if round % 2 else [])


def test_a_twin_that_stages_on_top_of_the_published_one_is_refused(world: World, batch: str) -> None:
    """Its parent is the head, so nothing is rebased: the check must not be skipped there."""
    sealed(world, batch)
    late, early = world.attempt(batch, 1, "late"), world.attempt(batch, 1, "early")
    early.sink.prepare()
    floor = late.floor()
    assert asked(late, floor) == NotPublished()  # it asks, then sleeps ...
    published = early.ingest()
    staged = late.stage()  # ... and wakes up to stage on top of what was published
    assert late.publish(staged, floor) == Published(published.snapshot, published.staged)
    assert world.ids() == IDS


def test_a_zombie_that_wakes_after_the_fence_publishes_nothing(world: World, batch: str) -> None:
    sealed(world, batch)
    zombie = world.attempt(batch, 1)
    zombie.sink.prepare()
    floor = zombie.floor()
    staged = zombie.stage()
    assert run(world.attempt(batch, 2), "fence") == 0
    fence = world.receipt(batch)
    assert fence is not None
    assert fence.fence
    decided = zombie.publish(staged, floor)
    assert zombie.write_receipt(decided) == fence
    assert world.ids() == []


def test_a_fence_on_a_moved_head_keeps_a_zombie_out_too(world: World, batch: str) -> None:
    sealed(world, batch)
    zombie, fence = world.attempt(batch, 1), world.attempt(batch, 2)
    zombie.sink.prepare()
    floor = zombie.floor()
    staged = zombie.stage()
    fence_staged = fence.stage_fence()
    moved = f"{batch}x"
    world.seal(moved, world.put({"in/other.json": b'{"id": 100}'}))
    assert run(world.attempt(moved, 1), "ingest") == 0
    decided = fence.publish(fence_staged, floor)
    assert decided.staged == fence_staged
    assert decided.snapshot != fence_staged
    assert zombie.publish(staged, floor) == decided
    assert world.ids() == [100]


def test_a_fence_that_comes_too_late_reports_the_rows_as_published(world: World, batch: str) -> None:
    sealed(world, batch)
    assert run(world.attempt(batch, 1), "ingest") == 0
    published = world.receipt(batch)
    assert run(world.attempt(batch, 2), "fence") == 0
    assert world.receipt(batch) == published
    assert isinstance(published, Receipt)
    assert not published.fence


def test_a_new_attempt_at_a_fenced_batch_publishes_nothing(world: World, batch: str) -> None:
    sealed(world, batch)
    world.attempt(batch, 1).sink.prepare()
    assert run(world.attempt(batch, 1), "fence") == 0
    assert run(world.attempt(batch, 2), "ingest") == 0
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.fence
    assert world.ids() == []


def test_a_lost_answer_to_the_publish_is_not_published_again(world: World, batch: str) -> None:
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    floor = attempt.floor()
    staged = attempt.stage()
    attempt.sink.publish(staged, floor)  # it landed; nobody heard
    assert attempt.publish(staged, floor).staged == staged
    assert world.ids() == IDS
    assert len(world.published()) == 1


class TestTheFloorIsGone:
    """The history cannot say any more whether the batch is in it: stop, publish nothing, ask a person."""

    def refused(self, world: World, batch: str, said: str) -> None:
        ids = world.ids()
        assert run(world.attempt(batch, 2), "ingest") == 1
        failure = world.failure(batch, 2)
        assert failure.hopeless
        assert said in failure.reason
        assert world.dataset.table in failure.reason
        assert world.receipt(batch) is None
        assert world.ids() == ids

    def publish_other(self, world: World, batch: str, name: str) -> None:
        other = f"{batch}{name}"
        world.seal(other, world.put({f"in/{name}.json": b'{"id": 100}'}))
        assert run(world.attempt(other, 1), "ingest") == 0

    def test_snapshots_were_expired(self, world: World, batch: str) -> None:
        sealed(world, batch)
        world.attempt(batch, 1).sink.prepare()
        self.publish_other(world, batch, "a")
        world.attempt(batch, 1).floor()
        self.publish_other(world, batch, "b")
        self.publish_other(world, batch, "c")
        world.expire()
        self.refused(world, batch, "snapshots were expired or the table was rolled back")

    def test_the_table_was_rolled_back(self, world: World, batch: str) -> None:
        sealed(world, batch)
        self.publish_other(world, batch, "a")
        earlier = world.main()[0].id
        self.publish_other(world, batch, "b")
        world.attempt(batch, 1).floor()
        assert world.spark is not None
        world.spark.sql(f"CALL lake.system.rollback_to_snapshot('{world.dataset.table}', {earlier})")
        self.refused(world, batch, "snapshots were expired or the table was rolled back")

    def test_the_table_was_replaced_under_its_name(self, world: World, batch: str) -> None:
        """`CREATE OR REPLACE` keeps the uuid, and begins a history of its own."""
        sealed(world, batch)
        one = world.attempt(batch, 1)
        one.sink.prepare()
        self.publish_other(world, batch, "a")
        floor = one.floor()
        staged = one.stage()
        world.sql("CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t}")
        with pytest.raises(Hopeless, match="This attempt published nothing"):
            one.publish(staged, floor)
        self.refused(world, batch, "snapshots were expired or the table was rolled back")

    def test_the_table_was_replaced_before_its_first_batch_was_settled(self, world: World, batch: str) -> None:
        """The floor of a table that was empty is a snapshot too: else any history without a parent would reach it."""
        sealed(world, batch)
        one = world.attempt(batch, 1)
        one.sink.prepare()
        floor = one.floor()
        assert floor.head is not None
        one.publish(one.stage(), floor)
        world.sql("CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t}")
        self.refused(world, batch, "snapshots were expired or the table was rolled back")

    def test_the_table_was_dropped_and_created_again(self, world: World, batch: str) -> None:
        sealed(world, batch)
        world.attempt(batch, 1).sink.prepare()
        world.attempt(batch, 1).floor()
        assert world.spark is not None
        world.spark.sql(f"DROP TABLE {world.dataset.table}")
        world.attempt(batch, 1).sink.prepare()
        self.refused(world, batch, "it was dropped and created again")


def publish_other(world: World, name: str, number: int = 100) -> None:
    """Another batch of one row lands."""
    world.seal(name, world.put({f"in/{name}.json": json.dumps({"id": number}).encode()}))
    assert run(world.attempt(name, 1), "ingest") == 0


def moment() -> str:
    """A time between what was done and what will be."""
    time.sleep(0.3)
    text = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    time.sleep(0.3)
    return text


class TestHistoryIsLostUnderWay:
    """The question whether the batch is in the table is part of the commit: what is lost after a driver asked, and
    before it publishes, is noticed."""

    def test_expiry_while_a_twin_reads_keeps_the_twin_out(self, world: World, batch: str) -> None:
        sealed(world, batch)
        one, twin = world.attempt(batch, 1, "one"), world.attempt(batch, 1, "twin")
        one.sink.prepare()
        floor = one.floor()
        assert asked(twin, floor) == NotPublished()  # the twin reads on for long ...
        decided = one.publish(one.stage(), floor)
        one.write_receipt(decided)
        cut = moment()
        staged = twin.stage()
        publish_other(world, f"{batch}x")
        world.expire(cut)  # ... until history between the floor and its own snapshot is gone
        with pytest.raises(Hopeless, match=r"This attempt published nothing\. A person has to decide") as told:
            twin.publish(staged, floor)
        assert "no longer among the ancestors" in str(told.value)
        assert world.ids() == [*IDS, 100]

    def test_a_driver_whose_floor_went_while_it_read_publishes_nothing(self, world: World, batch: str) -> None:
        one = world.attempt(batch, 1, "one")
        one.sink.prepare()
        publish_other(world, f"{batch}w", 99)
        sealed(world, batch)
        floor = one.floor()
        publish_other(world, f"{batch}x", 100)
        publish_other(world, f"{batch}y", 101)
        cut = moment()
        staged = one.stage()
        world.expire(cut)
        with pytest.raises(Hopeless, match="This attempt published nothing"):
            one.publish(staged, floor)
        assert world.ids() == [99, 100, 101]

    def test_a_driver_that_published_says_so_whatever_becomes_of_the_history(
        self, world: World, batch: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sealed(world, batch)
        one = world.attempt(batch, 1, "one")
        one.sink.prepare()
        publish_other(world, f"{batch}w", 99)
        publish = IcebergTable.publish

        def and_then_expire(self: IcebergTable, *arguments: Any) -> Any:
            told = publish(self, *arguments)
            monkeypatch.setattr(IcebergTable, "publish", publish)
            publish_other(world, f"{batch}x", 100)
            publish_other(world, f"{batch}y", 101)
            world.expire()
            return told

        floor = one.floor()
        staged = one.stage()
        monkeypatch.setattr(IcebergTable, "publish", and_then_expire)
        decided = one.publish(staged, floor)
        assert decided.staged == staged
        receipt = one.write_receipt(decided)
        assert (receipt.tally.rows, receipt.fence) == (8, False)
        assert world.ids() == [*IDS, 99, 100, 101]

    def test_a_driver_that_heard_no_answer_does_not_say_that_nothing_was_published(
        self, world: World, batch: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sealed(world, batch)
        one = world.attempt(batch, 1, "one")
        one.sink.prepare()
        publish_other(world, f"{batch}w", 99)
        publish = IcebergTable.publish

        def unheard(self: IcebergTable, *arguments: Any) -> Any:
            publish(self, *arguments)
            monkeypatch.setattr(IcebergTable, "publish", publish)
            publish_other(world, f"{batch}x", 100)
            publish_other(world, f"{batch}y", 101)
            world.expire()
            raise PySparkException("the connection was closed")

        floor = one.floor()
        staged = one.stage()
        monkeypatch.setattr(IcebergTable, "publish", unheard)
        with pytest.raises(Hopeless, match=f"Snapshot {staged}, which this attempt staged, may have been published"):
            one.publish(staged, floor)
        assert world.ids() == [*IDS, 99, 100, 101]


@pytest.mark.parametrize("value", ["false", "true"])
def test_staging_cannot_publish_whatever_the_tables_properties_say(world: World, batch: str, value: str) -> None:
    """A zombie stages after the batch was committed, and after `write.wap.enabled` was switched."""
    sealed(world, batch)
    zombie = world.attempt(batch, 1, "zombie")
    zombie.sink.prepare()
    floor = zombie.floor()
    assert asked(zombie, floor) == NotPublished()  # it sleeps here
    assert run(world.attempt(batch, 2), "ingest") == 0
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('write.wap.enabled'='{value}')")
    staged = zombie.stage()
    assert world.ids() == IDS
    receipt = world.receipt(batch)
    assert receipt is not None
    assert zombie.publish(staged, floor) == Published(receipt.snapshot, receipt.staged)
    assert world.ids() == IDS


def test_what_somebody_put_into_main_by_hand_is_never_joined_by_the_same_rows(world: World, batch: str) -> None:
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.sink.prepare()
    attempt.floor()
    attempt.stage()
    world.sql(f"CALL lake.system.fast_forward('{{t}}', 'main', '{attempt.sink.branch}')")
    for number, mode in ((2, "ingest"), (3, "fence")):
        assert run(world.attempt(batch, number), mode) == 1
        failure = world.failure(batch, number)
        assert failure.hopeless
        assert "went into the table past the check" in failure.reason
    assert world.ids() == IDS


BETWEEN = {
    "add partition field": ["ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)"],
    "drop column": ["ALTER TABLE {t} DROP COLUMN text"],
    "rename column": ["ALTER TABLE {t} RENAME COLUMN text TO words"],
    "drop and add again": ["ALTER TABLE {t} DROP COLUMN text", "ALTER TABLE {t} ADD COLUMN text string"],
    "delete rows": ["DELETE FROM {t} WHERE id = 50"],
    "compaction": [
        "CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all','true'))",
        "CALL lake.system.rewrite_manifests('{t}')",
    ],
    "format v3": ["ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')"],
}


@pytest.mark.parametrize("rebase", [False, True], ids=["", "rebased"])
@pytest.mark.parametrize("name", BETWEEN)
def test_whatever_becomes_of_the_table_between_stage_and_publish_no_row_lands_twice(
    world: World, batch: str, name: str, rebase: bool
) -> None:
    one = world.attempt(batch, 1, "one")
    one.sink.prepare()
    publish_other(world, f"{batch}w", 50)
    sealed(world, batch)
    floor = one.floor()
    staged = one.stage()
    if rebase:
        publish_other(world, f"{batch}x", 51)
    for statement in BETWEEN[name]:
        world.sql(statement)
    one.write_receipt(one.publish(staged, floor))
    once = world.ids()
    assert [number for number in once if number < 50] == IDS
    # a published batch is found, whatever its table looks like by now
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.ids() == once


def test_files_that_a_clean_up_finds_unused_are_not_those_of_main(world: World, batch: str) -> None:
    """What was staged and published is in two snapshots. Expiring the staged one must leave the rows where they are."""
    sealed(world, batch)
    assert run(world.attempt(batch, 1), "ingest") == 0
    publish_other(world, f"{batch}x", 100)
    table = IcebergTable(world.spark, world.dataset.table)._load()
    head = world.main()[0].id
    # the clean-up of the core library, which looks at snapshots one by one, not the action of Spark
    for row in world.sql(f"SELECT snapshot_id FROM {{t}}.snapshots WHERE snapshot_id != {head}"):
        table.expireSnapshots().expireSnapshotId(row.snapshot_id).commit()
    world.sql("REFRESH TABLE {t}")
    assert world.ids() == [*IDS, 100]


def test_a_fence_stands_also_where_no_table_was(world: World, batch: str) -> None:
    sealed(world, batch)
    assert run(world.attempt(batch, 1), "fence") == 0
    assert run(world.attempt(batch, 2), "ingest") == 0
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.fence
    assert world.ids() == []


def test_a_published_batch_is_settled_whatever_its_table_looks_like_by_now(world: World, batch: str) -> None:
    """The driver died before it wrote the receipt; then somebody renamed a column."""
    sealed(world, batch)
    one = world.attempt(batch, 1)
    one.sink.prepare()
    floor = one.floor()
    one.publish(one.stage(), floor)
    world.sql("ALTER TABLE {t} RENAME COLUMN text TO words")
    assert run(world.attempt(batch, 2), "ingest") == 0
    receipt = world.receipt(batch)
    assert receipt is not None
    assert (receipt.tally.rows, receipt.fence) == (8, False)


def test_a_batch_whose_table_is_gone_is_for_a_person_and_makes_no_other_table(world: World, batch: str) -> None:
    sealed(world, batch)
    one = world.attempt(batch, 1)
    one.sink.prepare()
    one.floor()
    world.sql("DROP TABLE {t}")
    for number, mode in ((2, "ingest"), (3, "fence")):
        assert run(world.attempt(batch, number), mode) == 1
        failure = world.failure(batch, number)
        assert failure.hopeless
        assert "the table is gone, and the batch was attempted before that" in failure.reason
    assert not one.sink.exists


class TestAPersonHasDecided:
    """`floors` counts how often a person said that the batch is not in the table."""

    def test_a_decision_that_was_not_used_is_used_up_all_the_same(self, world: World, batch: str) -> None:
        """The old floor answers after all; the attempt publishes and dies, and then history is cut."""
        sealed(world, batch)
        world.attempt(batch, 1).sink.prepare()
        publish_other(world, f"{batch}a", 100)
        world.attempt(batch, 1).floor()
        decided = world.attempt(batch, 2)
        decided.floors = 1
        found = decided.look()
        floor = decided.floor()
        assert found != floor or decided.known_floor(1) is not None
        decided.publish(decided.stage(), floor)  # dies before the receipt
        publish_other(world, f"{batch}b", 101)
        world.expire()
        later = world.attempt(batch, 3)
        later.floors = 1
        assert run(later, "ingest") == 1
        assert world.failure(batch, 3).undecided
        assert world.ids() == [*IDS, 100, 101]

    def test_a_driver_that_comes_before_the_decision_finds_no_floor_missing(self, world: World, batch: str) -> None:
        sealed(world, batch)
        decided = world.attempt(batch, 2)
        decided.floors = 1
        assert run(decided, "ingest") == 0
        assert run(world.attempt(batch, 1, "late"), "ingest") == 0
        assert world.ids() == IDS

    @pytest.mark.parametrize("mode", ["ingest", "fence"])
    def test_a_table_that_is_gone_is_made_again(self, world: World, batch: str, mode: str) -> None:
        sealed(world, batch)
        one = world.attempt(batch, 1)
        one.sink.prepare()
        one.floor()
        world.sql("DROP TABLE {t}")
        assert run(world.attempt(batch, 2), mode) == 1
        decided = world.attempt(batch, 3)
        decided.floors = 1
        assert run(decided, mode) == 0
        assert world.ids() == (IDS if mode == "ingest" else [])

    def test_a_batch_that_is_not_in_a_table_that_was_replaced_lands_once(self, world: World, batch: str) -> None:
        sealed(world, batch)
        zombie = world.attempt(batch, 1, "zombie")
        zombie.sink.prepare()
        floor = zombie.floor()
        staged = zombie.stage()
        world.sql("DROP TABLE {t}")
        zombie.sink.prepare()
        assert run(world.attempt(batch, 2), "ingest") == 1
        decided = world.attempt(batch, 3)
        decided.floors = 1
        assert run(decided, "ingest") == 0
        with pytest.raises((Hopeless, Retryable)):
            zombie.publish(staged, floor)
        assert world.ids() == IDS

    def test_a_floor_that_answers_after_all_outranks_the_person(self, world: World, batch: str) -> None:
        sealed(world, batch)
        one = world.attempt(batch, 1)
        one.sink.prepare()
        floor = one.floor()
        one.publish(one.stage(), floor)
        mistaken = world.attempt(batch, 2)
        mistaken.floors = 1
        assert run(mistaken, "ingest") == 0
        assert world.ids() == IDS

    def test_later_attempts_go_by_the_floor_that_was_decided(self, world: World, batch: str) -> None:
        sealed(world, batch)
        one = world.attempt(batch, 1)
        one.sink.prepare()
        publish_other(world, f"{batch}a", 100)
        one.floor()
        publish_other(world, f"{batch}b", 101)
        publish_other(world, f"{batch}c", 102)
        world.expire()
        assert run(world.attempt(batch, 2), "ingest") == 1
        for number in (3, 4):
            decided = world.attempt(batch, number)
            decided.floors = 1
            assert run(decided, "ingest") == 0
        assert world.ids() == [*IDS, 100, 101, 102]


def test_old_branches_of_other_drivers_go_and_those_of_people_stay(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_other(world, f"{batch}w", 100)
    world.sql("ALTER TABLE {t} CREATE TAG `tidegate_v1`")
    world.sql("ALTER TABLE {t} CREATE BRANCH `tidegate_whatif`")
    sealed = f"{batch}x"
    world.seal(sealed, world.put({"in/200.json": b'{"id": 200}'}))
    dies = world.attempt(sealed, 1, driver=uuid.uuid4().hex)
    dies.floor()
    dies.stage()
    month_later = SimpleNamespace(time=lambda: time.time() + 31 * 86_400)
    monkeypatch.setattr(tables, "time", month_later)
    # its own too, though a tag has the name of one
    own = f"{batch}y"
    world.sql(f"ALTER TABLE {{t}} CREATE TAG `tidegate_{own}_mine`")
    publish_other(world, own, 101)
    assert world.branches() == ["tidegate_whatif"]
    refs = {row.name for row in world.sql("SELECT name FROM {t}.refs WHERE type = 'TAG'")}
    assert refs == {"tidegate_v1", f"tidegate_{own}_mine"}
    assert world.ids() == [100, 101]


def test_a_column_that_somebody_renamed_is_told_with_its_way_back(world: World, batch: str) -> None:
    for column in ("_batch_id", "text"):
        publish_other(world, f"{batch}{column[1]}", 100 + len(column))
        world.sql(f"ALTER TABLE {{t}} RENAME COLUMN {column} TO `new-{column}`")
        with pytest.raises(Hopeless, match=f"It is called new-{column} now") as refused:
            world.attempt(batch, 1).sink.prepare()
        world.sql(str(refused.value).partition("un: ")[2])
        world.attempt(batch, 1).sink.prepare()
    assert world.ids() == [104, 109]


def test_what_has_lost_its_batch_is_not_fenced_again(world: World, batch: str) -> None:
    """Whoever drops the column and adds it takes from all rows what says whether a batch is there."""
    sealed(world, batch)
    assert run(world.attempt(batch, 1), "ingest") == 0
    publish_other(world, f"{batch}x", 106)
    world.sql("ALTER TABLE {t} DROP COLUMN _batch_id")
    with pytest.raises(Hopeless, match="It was dropped") as refused:
        world.attempt(batch, 1).sink.prepare()
    world.sql(str(refused.value).partition("run: ")[2])
    publish_other(world, f"{batch}y", 107)
    world.expire()
    with pytest.raises(Hopeless, match=r"has 9 rows with a _source_uri and without a _batch_id"):
        fence_again(world.attempt(batch, 0))
    assert world.ids() == [*IDS, 106, 107]


def test_a_column_that_differs_in_case_is_no_column_to_add(world: World, batch: str) -> None:
    world.attempt(batch, 1).sink.prepare()
    world.sql("ALTER TABLE {t} RENAME COLUMN text TO text_")
    world.sql("ALTER TABLE {t} RENAME COLUMN text_ TO Text")
    with pytest.raises(Hopeless, match="It has Text, and Spark does not tell these apart") as refused:
        world.attempt(batch, 1).sink.prepare()
    for statement in str(refused.value).partition("Run: ")[2].split("; "):
        world.sql(statement)
    world.attempt(batch, 1).sink.prepare()


def test_a_wider_type_is_told_with_its_statement(world: World, batch: str) -> None:
    narrow = replace(world, dataset=replace(world.dataset, schema="id int, f float, d decimal(9,2)"))
    narrow.attempt(batch, 1).sink.prepare()
    wide = replace(world, dataset=replace(world.dataset, schema="id bigint, f double, d decimal(12,2)"))
    with pytest.raises(Hopeless, match="Run: ALTER TABLE") as refused:
        wide.attempt(batch, 1).sink.prepare()
    for said in str(refused.value).split(". Besides, "):
        wide.sql(said.partition("Run: ")[2])
    wide.attempt(batch, 1).sink.prepare()


def test_a_field_that_a_nested_column_lacks_is_told_with_its_statement(world: World, batch: str) -> None:
    before = "id bigint, s struct<a: int, b: string>, l array<struct<x: int>>, m map<string, struct<k: int>>"
    after = (
        "id bigint, s struct<z: date, a: bigint, vip: boolean, b: string>, l array<struct<x: int, d: decimal(9,2)>>,"
        " m map<string, struct<k: int, deep: struct<n: array<int>>>>"
    )
    narrow = replace(world, dataset=replace(world.dataset, schema=before))
    narrow.attempt(batch, 1).sink.prepare()
    wide = replace(world, dataset=replace(world.dataset, schema=after))
    with pytest.raises(Hopeless, match="Run: ALTER TABLE") as refused:
        wide.attempt(batch, 1).sink.prepare()
    for said in str(refused.value).split(". Besides, "):
        for statement in said.partition("Run: ")[2].split("; "):
            wide.sql(statement)
    wide.attempt(batch, 1).sink.prepare()

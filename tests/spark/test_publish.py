"""Decision 3 on a real Spark and a real Iceberg: whatever dies or comes twice, a batch lands once or not at all."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.spark.world import World
from tidegate.core.publication import Published
from tidegate.core.receipts import Receipt
from tidegate.spark.job import Attempt, run

pytestmark = pytest.mark.spark

FILES = {f"in/{name}.json": json.dumps({"id": name, "text": "x"}).encode() for name in range(8)}
IDS = list(range(8))


def sealed(world: World, batch: str) -> None:
    world.seal(batch, world.put(FILES))


def start_driver(
    world: World, warehouse: Path, batch: str, attempt: int, *, die_before: str = "-", gate: Path | None = None
) -> subprocess.Popen[bytes]:
    arguments = [str(warehouse), batch, str(attempt), json.dumps(asdict(world.dataset)), die_before]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.driver", *arguments, *([str(gate)] if gate else [])],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def head_moves(world: World, attempt: Attempt) -> int:
    """How many snapshots are in main."""
    history = attempt.table.history()
    count, current = 0, history.head
    while current is not None:
        count, current = count + 1, history.snapshots[current].parent
    return count


def test_a_batch_is_published_once_and_a_second_attempt_only_finds_it(world: World, batch: str) -> None:
    sealed(world, batch)
    assert run(world.attempt(batch, 1), "ingest") == 0
    first = world.receipt(batch)
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.receipt(batch) == first
    assert world.ids() == IDS
    assert head_moves(world, world.attempt(batch, 3)) == 1


@pytest.mark.parametrize("die_before", ["stage", "publish", "write_receipt"])
def test_a_killed_driver_is_finished_by_the_next_attempt(
    world: World, warehouse: Path, batch: str, die_before: str
) -> None:
    sealed(world, batch)
    killed = start_driver(world, warehouse, batch, 1, die_before=die_before)
    assert killed.wait(120) == -signal.SIGKILL
    assert world.receipt(batch) is None
    assert world.work.get(f"batches/{batch}/floor.json") is not None, "it died before it began"
    there_before = world.ids()
    assert there_before == (IDS if die_before == "write_receipt" else [])
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.ids() == IDS
    receipt = world.receipt(batch)
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.rows, receipt.fence) == (8, 8, False)


def test_twin_drivers_that_publish_at_the_same_time(world: World, warehouse: Path, batch: str, tmp_path: Path) -> None:
    sealed(world, batch)
    world.attempt(batch, 1).prepare_table()
    twins = [start_driver(world, warehouse, batch, 1, gate=tmp_path) for _ in range(2)]
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("waiting-*"))) < 2:
        assert time.monotonic() < deadline
        assert all(twin.poll() is None for twin in twins), "a twin ended before both had staged"
        time.sleep(0.05)
    (tmp_path / "open").touch()
    assert [twin.wait(120) for twin in twins] == [0, 0]
    assert world.ids() == IDS
    receipt = world.receipt(batch)
    assert receipt is not None
    history = world.attempt(batch, 1).table.history()
    staged = [each for each in history.snapshots.values() if each.summary.get("wap.id") == batch]
    assert len(staged) >= 2, "both must have staged"


@pytest.mark.parametrize("round", range(5))
def test_twins_in_threads_agree_on_who_won(world: World, batch: str, round: int) -> None:
    sealed(world, batch)
    one, other = world.attempt(batch, 1, "one"), world.attempt(batch, 1, "other")
    one.prepare_table()
    floor = one.floor()
    staged = {attempt.driver: attempt.stage() for attempt in (one, other)}
    if round % 2:  # somebody else's commit in between makes both publish by rebase
        moved = f"{batch}x"
        world.seal(moved, world.put({"in/other.json": b'{"id": 100}'}))
        assert run(world.attempt(moved, 1), "ingest") == 0
    decided: dict[str, Published] = {}

    def publish(attempt: Attempt) -> None:
        decided[attempt.driver] = attempt.publish(staged[attempt.driver], floor)

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
    """Its parent is the head, so Iceberg could fast-forward to it: the check must not be skipped there."""
    sealed(world, batch)
    late, early = world.attempt(batch, 1, "late"), world.attempt(batch, 1, "early")
    early.prepare_table()
    floor = late.floor()
    assert late.ask(floor) is None  # it asks, then sleeps ...
    published = early.ingest()
    staged = late.stage()  # ... and wakes up to stage on top of what was published
    assert late.publish(staged, floor) == Published(published.snapshot, published.staged)
    assert world.ids() == IDS


def test_a_zombie_that_wakes_after_the_fence_publishes_nothing(world: World, batch: str) -> None:
    sealed(world, batch)
    zombie = world.attempt(batch, 1)
    zombie.prepare_table()
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
    """Then the fence itself is published by rebase, and carries only `published-wap-id`."""
    sealed(world, batch)
    zombie, fence = world.attempt(batch, 1), world.attempt(batch, 2)
    zombie.prepare_table()
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
    world.attempt(batch, 1).prepare_table()
    assert run(world.attempt(batch, 1), "fence") == 0
    assert run(world.attempt(batch, 2), "ingest") == 0
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.fence
    assert world.ids() == []


def test_a_lost_answer_to_the_publish_is_not_published_again(world: World, batch: str) -> None:
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.prepare_table()
    floor = attempt.floor()
    staged = attempt.stage()
    attempt.table.publish(staged)  # it landed; nobody heard
    assert attempt.publish(staged, floor).staged == staged
    assert world.ids() == IDS
    assert head_moves(world, attempt) == 1


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
        world.attempt(batch, 1).prepare_table()
        self.publish_other(world, batch, "a")
        world.attempt(batch, 1).floor()
        self.publish_other(world, batch, "b")
        self.publish_other(world, batch, "c")
        assert world.spark is not None
        world.spark.sql(
            f"CALL lake.system.expire_snapshots(table => '{world.dataset.table}', retain_last => 1,"
            " older_than => TIMESTAMP '2999-01-01 00:00:00')"
        )
        self.refused(world, batch, "snapshots were expired or the table was rolled back")

    def test_the_table_was_rolled_back(self, world: World, batch: str) -> None:
        sealed(world, batch)
        self.publish_other(world, batch, "a")
        earlier = world.attempt(batch, 1).table.history().head
        self.publish_other(world, batch, "b")
        world.attempt(batch, 1).floor()
        assert world.spark is not None
        world.spark.sql(f"CALL lake.system.rollback_to_snapshot('{world.dataset.table}', {earlier})")
        self.refused(world, batch, "snapshots were expired or the table was rolled back")

    def test_the_table_was_replaced(self, world: World, batch: str) -> None:
        sealed(world, batch)
        world.attempt(batch, 1).prepare_table()
        world.attempt(batch, 1).floor()
        assert world.spark is not None
        world.spark.sql(f"DROP TABLE {world.dataset.table}")
        world.attempt(batch, 1).prepare_table()
        self.refused(world, batch, "it was dropped and created again")


def test_a_table_without_staging_is_refused_before_anything_is_written(world: World, batch: str) -> None:
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.prepare_table()
    assert world.spark is not None
    world.spark.sql(f"ALTER TABLE {world.dataset.table} UNSET TBLPROPERTIES ('write.wap.enabled')")
    assert run(attempt, "ingest") == 1
    failure = world.failure(batch, 1)
    assert failure.hopeless
    assert f"ALTER TABLE {world.dataset.table} SET TBLPROPERTIES ('write.wap.enabled'='true')" in failure.reason
    assert world.rows() == []
    assert attempt.table.history().snapshots == {}
    # and the cure in the message is one
    world.spark.sql(f"ALTER TABLE {world.dataset.table} SET TBLPROPERTIES ('write.wap.enabled'='true')")
    assert run(world.attempt(batch, 2), "ingest") == 0
    assert world.ids() == IDS


def test_rows_that_went_straight_in_are_never_joined_by_the_same_rows(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody switches staging off between the check and the write, and on again before the next attempt."""
    sealed(world, batch)
    attempt = world.attempt(batch, 1)
    attempt.prepare_table()
    assert world.spark is not None
    switch = f"ALTER TABLE {world.dataset.table} SET TBLPROPERTIES ('write.wap.enabled'='%s')"
    stage = Attempt.stage

    def off(self: Attempt) -> int:
        assert self.spark is not None
        self.spark.sql(switch % "false")
        return stage(self)

    monkeypatch.setattr(Attempt, "stage", off)
    assert run(attempt, "ingest") == 1
    monkeypatch.undo()
    world.spark.sql(switch % "true")
    for mode in ("ingest", "fence"):
        number = 2 if mode == "ingest" else 3
        assert run(world.attempt(batch, number), mode) == 1
        failure = world.failure(batch, number)
        assert failure.hopeless
        assert "went straight into the table" in failure.reason
    assert world.ids() == IDS


def test_a_fence_stands_also_where_no_table_was(world: World, batch: str) -> None:
    sealed(world, batch)
    assert run(world.attempt(batch, 1), "fence") == 0
    assert run(world.attempt(batch, 2), "ingest") == 0
    receipt = world.receipt(batch)
    assert receipt is not None
    assert receipt.fence
    assert world.ids() == []

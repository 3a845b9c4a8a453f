"""One attempt at one batch, on a table that is not Iceberg: what of decision 3 is true of any format."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tenacity import wait_none

from tests.support.build import BUCKET, upload
from tests.support.fakes import Died, Life, MemoryWork, every_death
from tests.support.small_sink import ReadUpload, SmallSink, committed, conflict, lost_answer, nothing
from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload, Sealed, batch_folder, make_part, outcomes_name
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.publication import Floor
from tidegate.core.receipts import decode_failure, decode_outcomes, decode_receipt
from tidegate.flows import manifest, publish
from tidegate.flows.came_again import look_for
from tidegate.flows.fence_again import fence_again
from tidegate.flows.publish import Attempt, Undecided, run
from tidegate.flows.sink import StagedIsGone

BATCH = "01JD0000000000000000000000"
KEYS = [f"flights/{letter}.json" for letter in "abc"]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "wait_random_exponential", lambda *_, **__: wait_none())


class Table:
    """The table, the work bucket with a sealed batch, and attempts at it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "table.db"
        self.work = MemoryWork()
        part = make_part("n" * 40, BUCKET, [upload(key) for key in KEYS])
        self.work.put(batch_folder(BATCH) + part.name, part.body)
        sealed = Sealed(BATCH, "flights", (part.name,), part.objects, part.size)
        self.work.put(batch_folder(BATCH) + "sealed.json", sealed.encode())

    def sink(
        self, read: ReadUpload = committed, meanwhile: Callable[[str], None] = nothing, batch: str = BATCH
    ) -> SmallSink:
        return SmallSink(self.path, batch, read, meanwhile)

    def attempt(self, number: int = 1, sink: SmallSink | None = None, **about: Any) -> Attempt:
        return Attempt(sink or self.sink(), self.work, BATCH, number, **about)

    @property
    def rows(self) -> list[str]:
        return sorted(self.sink().rows)

    def file(self, name: str) -> bytes:
        body = self.work.get(batch_folder(BATCH) + name)
        assert body is not None, name
        return body


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_batch_is_published_once_however_often_it_is_attempted(table: Table):
    assert run(table.attempt(1), "ingest") == 0
    receipt = decode_receipt(table.file("receipt.json"))
    assert (receipt.fence, receipt.tally.committed, receipt.tally.rows) == (False, 3, 3)
    assert run(table.attempt(2), "ingest") == 0
    assert run(table.attempt(3), "fence") == 0
    assert table.rows == KEYS
    assert decode_receipt(table.file("receipt.json")) == receipt


def test_the_outcomes_say_how_many_rows_each_upload_brought(table: Table):
    def read(item: OwnedUpload) -> tuple[Read, list[Any]]:
        if item.upload.key == KEYS[1]:
            return Read(Outcome.VANISHED, error="deleted before it was read"), []
        count = "abcd".index(item.upload.key[8]) + 1
        return Read(Outcome.COMMITTED, rows=count), [item.upload.key] * count

    other = make_part("m" * 40, BUCKET, [upload("flights/d.json")])
    table.work.put(batch_folder(BATCH) + other.name, other.body)
    first = make_part("n" * 40, BUCKET, [upload(key) for key in KEYS])
    sealed = Sealed(BATCH, "flights", (other.name, first.name), 4, 40)
    table.work.put(batch_folder(BATCH) + "sealed.json", sealed.encode())
    assert run(table.attempt(sink=table.sink(read)), "ingest") == 0
    staged = decode_receipt(table.file("receipt.json")).staged
    assert decode_outcomes(table.file(f"outcomes/{staged}.jsonl.gz")).rows == ((4,), (1, 0, 3))


def test_what_did_not_land_is_in_the_outcomes(table: Table):
    def read(item: OwnedUpload) -> tuple[Read, list[Any]]:
        broken = item.upload.key == KEYS[0]
        return (Read(Outcome.QUARANTINED, error="no JSON"), []) if broken else committed(item)

    assert run(table.attempt(sink=table.sink(read)), "ingest") == 0
    receipt = decode_receipt(table.file("receipt.json"))
    (ending,) = decode_outcomes(table.file(f"outcomes/{receipt.staged}.jsonl.gz")).endings
    assert (ending.key, ending.outcome, ending.error) == (KEYS[0], "quarantined", "no JSON")
    assert table.rows == KEYS[1:]


def test_of_a_zombie_and_a_fence_the_first_to_commit_counts(table: Table):
    zombie, fence = table.attempt(1), table.attempt(2)
    zombie.sink.prepare()
    floor = zombie.floor()
    staged = zombie.stage()
    assert run(fence, "fence") == 0
    decided = zombie.publish(staged, floor)
    assert zombie.write_receipt(decided).fence
    assert table.rows == []


@pytest.mark.parametrize("trouble", [lost_answer, conflict])
def test_after_an_error_of_the_commit_the_history_is_asked(table: Table, trouble: Callable[[str], None]):
    troubles = [trouble]

    def once(moment: str) -> None:
        if troubles:
            try:
                troubles[0](moment)
            except Exception:
                troubles.clear()
                raise

    assert run(table.attempt(sink=table.sink(meanwhile=once)), "ingest") == 0
    assert not troubles
    assert table.rows == KEYS


T = TypeVar("T", bound=Table)


def after_each_death(folder: Path, make: Callable[[Path], T], mode: str) -> Iterator[T]:
    """A table for each request of a driver to the work bucket, before and after it: its driver died there."""
    life = Life()
    (folder / "counted").mkdir()
    counted = make(folder / "counted")
    attempt = counted.attempt()
    attempt.work = life.wrap(counted.work)
    assert run(attempt, mode) == 0
    for number, death in enumerate(every_death(life.made)):
        (folder / str(number)).mkdir()
        table = make(folder / str(number))
        dying = table.attempt()
        dying.work = Life(death.calls, death.after).wrap(table.work)
        with pytest.raises(Died):
            run(dying, mode)
        yield table


@pytest.mark.parametrize("mode", ["ingest", "fence"])
def test_whenever_a_driver_dies_the_next_one_ends_the_batch_once(tmp_path: Path, mode: str):
    for table in after_each_death(tmp_path, Table, mode):
        assert run(table.attempt(2), "ingest") == 0
        fenced = decode_receipt(table.file("receipt.json")).fence
        assert table.rows == ([] if fenced else KEYS)
        assert not fenced or mode == "fence"


def test_a_history_that_was_cut_is_for_a_person_and_what_he_says_is_used_once(table: Table):
    one = table.attempt()
    one.sink.prepare()
    one.floor()
    other = table.sink(batch="01JOTHER")
    staged = other.stage([]).id
    other.publish(staged, other.position())
    other.expire()
    assert run(table.attempt(1), "ingest") == 1
    failure = decode_failure(table.file("failures/1.json"))
    assert (failure.hopeless, failure.undecided) == (True, True)
    assert "This attempt published nothing" in failure.reason
    with pytest.raises(Undecided):
        table.attempt(2).ingest()
    assert run(table.attempt(3, floors=1), "ingest") == 0
    assert table.rows == KEYS


def test_a_table_that_counts_otherwise_publishes_nothing(table: Table):
    def lies(item: OwnedUpload) -> tuple[Read, list[Any]]:
        return Read(Outcome.COMMITTED, 2), [item.upload.key]

    with pytest.raises(Retryable, match=r"6 rows were read, 3 are in snapshot"):
        table.attempt(sink=table.sink(lies)).ingest()
    assert table.rows == []


MANY_PARTS = 5 * manifest.PARTS_AT_ONCE


class SlowWork(MemoryWork):
    """Counts its requests for parts, and how many it was asked at once. Later parts answer sooner."""

    def __init__(self, missing: str = "") -> None:
        super().__init__()
        self.missing = missing
        self.turn = threading.Lock()
        self.asked = self.at_once = self.most_at_once = 0

    def get(self, name: str) -> bytes | None:
        if "/parts/" not in name:
            return super().get(name)
        with self.turn:
            self.asked += 1
            self.at_once += 1
            self.most_at_once = max(self.at_once, self.most_at_once)
        time.sleep(0.01 if self.asked % 2 else 0.002)
        with self.turn:
            self.at_once -= 1
        return None if self.missing and self.missing in name else super().get(name)


def sealed_in(work: MemoryWork, count: int) -> list[OwnedUpload]:
    """Seal a batch of so many parts with one upload each. Returns these, in the order of the manifest."""
    items = [OwnedUpload(f"{number:040}", upload(f"flights/{number:04}")) for number in range(count)]
    parts = [make_part(item.notice, BUCKET, [item.upload]) for item in items]
    for part in parts:
        work.put(batch_folder(BATCH) + part.name, part.body)
    sealed = Sealed(BATCH, "flights", tuple(part.name for part in parts), count, sum(part.size for part in parts))
    work.put(batch_folder(BATCH) + "sealed.json", sealed.encode())
    return items


@pytest.mark.parametrize("count", [manifest.FEW_PARTS, manifest.FEW_PARTS + 1, MANY_PARTS])
def test_the_uploads_come_in_the_order_of_the_parts_however_many_are_read_at_once(table: Table, count: int):
    table.work = work = SlowWork()
    items = sealed_in(work, count)
    assert table.attempt().manifest() == items
    assert work.asked == count
    if count <= manifest.FEW_PARTS:
        assert work.most_at_once == 1
    else:
        assert 1 < work.most_at_once <= manifest.PARTS_AT_ONCE


@pytest.mark.parametrize("count", [3, MANY_PARTS])
def test_a_part_that_is_missing_ends_the_attempt_and_the_rest_is_not_asked_for(table: Table, count: int):
    table.work = work = SlowWork(missing=f"{1:040}")
    sealed_in(work, count)
    with pytest.raises(Retryable, match=f"parts/{1:040}-.* is missing in the work bucket"):
        table.attempt().manifest()
    assert work.asked < count


# ---- what came again


def other(table: Table, batch: str, *, again: bool = True) -> Attempt:
    """An attempt at another batch of the same uploads, which come again."""
    part = make_part("m" * 40, BUCKET, [upload(key) for key in KEYS], again=again)
    table.work.put(batch_folder(batch) + part.name, part.body)
    sealed = Sealed(batch, "flights", (part.name,), part.objects, part.size)
    table.work.put(batch_folder(batch) + "sealed.json", sealed.encode())
    return Attempt(table.sink(batch=batch), table.work, batch, 1)


def rolled_back_past_the_batch(table: Table) -> tuple[Attempt, int, Floor]:
    """A driver of the batch that is still alive, with what it has staged."""
    alive = table.attempt(1)
    alive.sink.prepare()
    floor = alive.floor()
    staged = alive.stage()
    assert run(table.attempt(2), "ingest") == 0
    assert floor.head is not None
    table.sink().roll_back(floor.head)
    return alive, staged, floor


def test_what_a_rollback_took_lands_again_only_beside_a_fence(table: Table):
    alive, staged, floor = rolled_back_past_the_batch(table)
    again = other(table, "B2")
    assert run(again, "ingest") == 1
    failure = decode_failure(table.work.objects[again.failure_name])
    assert (f"`tidegate resend {BATCH}`" in failure.reason, failure.hopeless) == (True, False)
    fence_again(table.attempt(2))
    assert run(again, "ingest") == 0
    assert alive.publish(staged, floor).staged != staged
    assert table.rows == KEYS


def test_what_a_driver_brings_back_meanwhile_is_present(table: Table):
    alive, staged, floor = rolled_back_past_the_batch(table)
    again = other(table, "B2")
    assert run(again, "ingest") == 1
    alive.publish(staged, floor)
    assert run(again, "ingest") == 0
    assert table.rows == KEYS
    outcomes = decode_outcomes(
        table.work.objects[
            outcomes_name(again.folder, decode_receipt(table.work.objects[again.folder + "receipt.json"]).staged)
        ]
    )
    assert {each.error for each in outcomes.endings} == {f"rows of batch {BATCH}"}


def test_a_rollback_after_the_look_has_it_looked_for_again(table: Table):
    """To between the floor and the look. What is there then has gone, or has come back."""
    again = other(table, "B2")
    again.sink.prepare()
    floor = again.floor()
    assert floor.head is not None
    assert run(table.attempt(1), "ingest") == 0
    staged = again.stage()
    table.sink().roll_back(floor.head)
    with pytest.raises(StagedIsGone):
        again.publish(staged, floor)
    assert table.rows == []


def test_the_first_time_nothing_is_looked_for(table: Table):
    rolled_back_past_the_batch(table)
    assert run(other(table, "B2", again=False), "ingest") == 0
    assert table.rows == KEYS


def test_what_is_reloaded_does_not_end_as_present(table: Table):
    assert run(table.attempt(1), "ingest") == 0
    again = [OwnedUpload("m", upload(key), again=True, reloads=key == KEYS[0]) for key in KEYS]
    _, there = look_for(again, table.sink(batch="B2"), table.work, batch="B2")
    assert there == {upload(key).identity: BATCH for key in KEYS[1:]}


def test_a_batch_that_was_rolled_back_past_does_not_wait_for_its_own_fence(table: Table):
    """Its driver died after the commit, without a receipt."""
    dead = other(table, "B2")
    dead.sink.prepare()
    floor = dead.floor()
    dead.publish(dead.stage(), floor)
    assert floor.head is not None
    table.sink().roll_back(floor.head)
    assert table.rows == []
    following = Attempt(table.sink(batch="B2"), table.work, "B2", 2)
    following.sink.prepare()
    following.stage()

"""Where two ways back meet. The tables are modelled with snapshots, so that a rollback takes fences, too."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from tests.functional.test_backfill import FOUND, LIMITS, put, run
from tests.support.build import BUCKET, upload, uploads
from tests.support.snapshots import Table, TableSink
from tests.support.world import small_world
from tidegate.core.audit import AuditFinding, Listed
from tidegate.core.batches import Batch, State
from tidegate.core.errors import Rejected, Retryable, TidegateError
from tidegate.core.manifests import batch_folder, floor_name
from tidegate.core.notices import Entry, pack
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.publication import Floor, NotPublished, Published, verdict
from tidegate.core.receipts import decode_failure, decode_floor
from tidegate.core.reconcile import TableDifference
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.flows.abort import abort
from tidegate.flows.decide import decide_unpublished
from tidegate.flows.fence_again import fence_again
from tidegate.flows.publish import Attempt, run_verb
from tidegate.flows.quarantine import EVERYTHING, quarantined
from tidegate.flows.rebuild import rebuild
from tidegate.flows.reconcile import Reconciled, reconcile
from tidegate.flows.resend import Resend, Resent, release, resend_batch, resend_object
from tidegate.flows.screen import judge_page
from tidegate.flows.send import send
from tidegate.flows.sink import Hopeless, Undecided
from tidegate.flows.status import status
from tidegate.settings import DAY

OLD, NEW = "lake.raw.flights", "lake.raw.flights_2"


class Refused(Exception):
    """A job has ended without a receipt: its reason."""


@dataclass
class Driver:
    """One that has staged, and goes on when the test says so."""

    attempt: Attempt
    staged: int
    floor: Floor

    def publish(self) -> Published:
        return self.attempt.publish(self.staged, self.floor)


class Lake:
    """A world, its tables, and what people and jobs do to them."""

    def __init__(self) -> None:
        self.world = small_world(max_wait=0)
        self.tables: dict[str, Table] = {OLD: Table(OLD), NEW: Table(NEW)}
        self.runs = 0

    def sync(self) -> None:
        for name, table in self.tables.items():
            self.world.lineage.tables[name] = list(table.rows)
            self.world.lineage.histories[name] = table.history

    def arrive(self, files: list[Upload], age: int = 0) -> None:
        put(self.world, *files, age=age)
        for notice in pack("flights", BUCKET, files):
            self.world.dispatch(notice)

    def deliver(self) -> None:
        while self.world.topic.published:
            sent, self.world.topic.published = list(self.world.topic.published), []
            for each in sent:
                self.world.dispatch(each)

    def deliver_and_land(self) -> None:
        """What is on its way lands, if there is something."""
        self.deliver()
        if self.world.record.open_batch:
            self.land()

    def seal(self) -> str:
        batch = self.world.record.open_batch
        assert batch, "nothing has gathered"
        assert self.world.seal_if_due()
        assert self.world.hand_off() == 1
        return batch

    def attempt(self, batch: str, ends: dict[str, tuple[Outcome, str]] | None = None) -> Attempt:
        header = self.world.batch(batch)

        def read(upload: Upload) -> Read:
            outcome, error = (ends or {}).get(upload.key, (Outcome.COMMITTED, ""))
            return Read(outcome, int(outcome is Outcome.COMMITTED), error)

        sink = TableSink(self.tables[header.table], batch, read)
        return Attempt(sink, self.world.work, batch, header.attempt, digest=header.manifest, floors=header.floors)

    def begin(self, batch: str) -> Driver:
        """A driver of the batch that has staged."""
        made = self.attempt(batch)
        found = made.look()
        assert not isinstance(found, Published)
        floor = made.floor()
        return Driver(made, made.stage(), found or floor)

    def publish(self, batch: str, ends: dict[str, tuple[Outcome, str]] | None = None) -> str:
        """A job of the batch, from its begin to its end, and settling."""
        world, made = self.world, self.attempt(batch, ends)
        failed = run_verb(made, Attempt.ingest)
        self.sync()
        world.jobs.end(batch, made.attempt)
        assert world.settle() == []
        if failed:
            raise Refused(decode_failure(world.work.objects[made.failure_name]).reason)
        assert world.batch(batch).state is State.COMMITTED
        return batch

    def again(self, batch: str) -> str:
        """The next attempt at a batch whose job was refused."""
        self.world.wait()
        assert self.world.settle() == []
        return self.publish(batch)

    def land(self, ends: dict[str, tuple[Outcome, str]] | None = None) -> str:
        return self.publish(self.seal(), ends)

    def give_up(self) -> str:
        """The open batch is aborted, and fenced in its table."""
        world = self.world
        batch = world.record.open_batch
        abort(batch, world.ports)
        assert world.settle() == []
        assert run_verb(self.attempt(batch), Attempt.fence) == 0
        world.jobs.end(batch, world.batch(batch).attempt)
        assert world.settle() == []
        assert world.batch(batch).state is State.ABANDONED
        self.sync()
        return batch

    # ---- people

    def moved(self, table: str) -> None:
        world = self.world
        world.flights = replace(world.flights, dataset=replace(world.flights.dataset, table=table))
        world.ledger.remember_route(world.flights)

    def delete(self, *keys: str, table: str = OLD) -> None:
        there = self.tables[table]
        there.commit(tuple(each for each in there.rows if keys and each.key not in keys))
        self.sync()

    def roll_back(self, to: int, table: str = OLD) -> None:
        assert to in self.tables[table].at
        self.tables[table].head = to
        self.sync()

    def head(self, table: str = OLD) -> int:
        return self.tables[table].head

    def backfill(self) -> Counter[FOUND]:
        self.runs += 1
        return run(self.world, identifier=f"b{self.runs}").found

    def resend(self, batch: str) -> Resend:
        self.runs += 1
        return resend_batch(batch, self.world.ports, run=f"r{self.runs}", fencer=Fencer(self))

    def release(self) -> Resend:
        self.runs += 1
        found = list(quarantined("flights", EVERYTHING, self.world.ports))
        return release(found, self.world.ports, run=f"q{self.runs}", configured=self.world.routes)

    def lose_ledger(self, oldest: str = "") -> object:
        self.world.store.items.clear()
        done = rebuild(self.world.ports, configured=self.world.routes, oldest=oldest, made_at=self.made_at)
        assert done.whole, done.troubles
        return done

    def made_at(self, batch: str) -> int:
        return self.world.clock()

    def audit(self, oldest: str = "") -> Reconciled:
        return reconcile(self.world.ports, configured=self.world.routes, oldest=oldest, made_at=self.made_at)

    def forget(self, days: int = 70) -> None:
        """Time passes, and DynamoDB deletes what has expired."""
        self.world.clock.advance(days * DAY)
        for key, item in list(self.world.store.items.items()):
            expires = item.get("expires_at")
            if isinstance(expires, int) and expires <= self.world.clock():
                del self.world.store.items[key]

    # ---- what there is to see

    def times(self, table: str = OLD) -> dict[str, int]:
        return dict(sorted(Counter(each.key for each in self.tables[table].rows).items()))

    def findings(self) -> dict[str, TableDifference]:
        return {each.batch: each.difference for each in self.audit().findings}

    @property
    def pending(self) -> int:
        (shown,) = status([self.world.flights], self.world.ports)
        assert shown.uploads.holds
        return shown.uploads.pending


@dataclass
class Fencer:
    """`flows.fence_again` on the model."""

    lake: Lake

    def fence(self, batch: Batch, dataset: Dataset, *, owner: str) -> None:
        sink = TableSink(self.lake.tables[dataset.table], batch.id, lambda upload: Read(Outcome.COMMITTED, 1))
        try:
            fence_again(Attempt(sink, self.lake.world.work, batch.id, 1, run="fence"))
        except Hopeless as error:
            raise Rejected(str(error)) from error
        self.lake.sync()


@pytest.fixture
def lake() -> Lake:
    return Lake()


ONCE = {each.key: 1 for each in uploads(3)}


def loaded_once_more(lake: Lake) -> tuple[str, int, str]:
    """Uploads have landed, their rows were deleted, and a backfill has loaded them once more. Returns both batches, and
    the snapshot before the deletion."""
    lake.arrive(uploads(3))
    first = lake.land()
    before = lake.head()
    lake.delete()
    assert lake.backfill() == {FOUND.REMOVED: 3}
    lake.deliver()
    second = lake.land()
    assert lake.times() == ONCE
    return first, before, second


# ---- the model itself


def test_the_model_plays_the_known_story(lake: Lake):
    _, before, second = loaded_once_more(lake)
    lake.roll_back(before)
    assert lake.findings() == {second: TableDifference.MISSING}
    assert lake.resend(second) == Resend(Resent.SENT, 3)
    lake.deliver()
    lake.land()
    assert lake.times() == ONCE
    assert lake.findings() == {}


# ---- 1. a batch that was under way when the ledger was rebuilt


def test_a_batch_that_was_sealed_when_the_ledger_was_lost_brings_no_rows_beside_those_of_an_earlier_one(lake: Lake):
    lake.arrive(uploads(3))
    lake.land()
    before = lake.head()
    lake.delete()
    assert lake.backfill() == {FOUND.REMOVED: 3}
    lake.deliver()
    second = lake.seal()  # its job runs
    lake.lose_ledger()
    assert lake.world.hand_off() == 1
    lake.publish(second)
    assert lake.times() == ONCE
    lake.roll_back(before)
    assert lake.times() == ONCE
    assert lake.findings() == {second: TableDifference.MISSING}
    lake.resend(second)  # as the audit says
    lake.deliver_and_land()
    assert lake.times() == ONCE


# ---- 2. the claim of the earlier batch has expired


def test_what_landed_before_the_ledgers_memory_is_not_loaded_beside_its_rows(lake: Lake):
    lake.arrive(uploads(3))
    lake.land()
    lake.forget()
    before = lake.head()
    lake.delete()
    assert lake.backfill() == {FOUND.MISSING: 3}
    lake.deliver()
    second = lake.land()
    lake.roll_back(before)
    assert lake.times() == ONCE
    assert lake.findings()[second] is TableDifference.MISSING
    lake.resend(second)
    lake.deliver_and_land()
    assert lake.times() == ONCE


@pytest.mark.parametrize("end", ["quarantined", "abandoned"])
@pytest.mark.parametrize("age", ["young", "older than claims"])
def test_what_ended_without_a_row_in_the_new_table_comes_back_to_the_former(lake: Lake, end: str, age: str):
    """A table is changed and changed back. No rollback."""
    lake.arrive(uploads(3))
    lake.land()
    if age != "young":
        lake.forget()
    lake.moved(NEW)
    assert sum(lake.backfill().values()) == 3
    lake.deliver()
    if end == "quarantined":
        lake.land({each.key: (Outcome.QUARANTINED, "bad") for each in uploads(3)})
        lake.moved(OLD)
        assert lake.release().sent == 3
    else:
        batch = lake.give_up()
        lake.moved(OLD)
        assert lake.resend(batch).sent == 3
    lake.deliver_and_land()
    assert lake.times() == ONCE


def test_what_the_rebuilt_ledger_does_not_remember_comes_back_to_the_former_table(lake: Lake):
    """As above, with a live claim, and a ledger that is lost: the earlier batch is older than what is rebuilt."""
    lake.arrive(uploads(3))
    lake.land()
    lake.moved(NEW)
    lake.backfill()
    lake.deliver()
    batch = lake.give_up()
    lake.lose_ledger(oldest=batch)
    lake.moved(OLD)
    assert lake.resend(batch).sent == 3
    lake.deliver_and_land()
    assert lake.times() == ONCE


# ---- 3. released from quarantine after a rollback to before the deletion


@pytest.mark.parametrize("how", ["quarantine", "object"])
def test_what_is_released_lands_beside_no_rows_that_a_rollback_brought_back(lake: Lake, how: str):
    """One file of three does not fit the corrected route; then the table is rolled back to before the deletion."""
    lake.arrive(uploads(3))
    lake.land()
    before = lake.head()
    lake.delete()
    lake.backfill()
    lake.deliver()
    bad = uploads(1)[0].key
    second = lake.land({bad: (Outcome.QUARANTINED, "no JSON")})
    lake.roll_back(before)
    assert lake.findings() == {second: TableDifference.MISSING}
    assert lake.resend(second).sent == 2
    lake.deliver()
    lake.land()
    assert lake.findings() == {}
    assert lake.times() == ONCE
    if how == "quarantine":
        lake.release()
    else:
        resend_object(BUCKET, bad, lake.world.ports, run="o", configured=lake.world.routes)
    lake.deliver_and_land()
    assert lake.times() == ONCE


# ---- 4. what was found there is gone later


def test_what_was_found_there_once_comes_back_after_the_next_rollback(lake: Lake):
    lake.arrive([upload("flights/other.json")])
    lake.land()
    start = lake.head()
    first, before, second = loaded_once_more_after(lake)
    lake.roll_back(before)
    assert lake.resend(second).sent == 3
    lake.deliver()
    lake.land()
    assert lake.times()[uploads(1)[0].key] == 1
    assert lake.findings() == {}
    lake.roll_back(start)  # past the first one, too
    told = lake.audit().findings
    assert first in {each.batch for each in told}
    assert second not in {each.batch for each in told}
    done = {each: lake.resend(each) for each in {each.batch for each in told}}  # all that the audit names
    lake.deliver_and_land()
    assert {key: lake.times().get(key) for key in ONCE} == ONCE, done


def loaded_once_more_after(lake: Lake) -> tuple[str, int, str]:
    lake.arrive(uploads(3))
    first = lake.land()
    before = lake.head()
    lake.delete(*(each.key for each in uploads(3)))
    # `delete` keeps what is not named
    assert lake.backfill()[FOUND.REMOVED] == 3
    lake.deliver()
    second = lake.land()
    return first, before, second


# ---- 5. the notice of a resend is lost


def test_the_audit_finds_a_resend_whose_notice_is_lost(lake: Lake):
    """It expired among the dead letters, say."""
    start = lake.head()
    lake.arrive(uploads(3))
    first = lake.land()
    lake.roll_back(start)
    assert lake.resend(first).sent == 3
    lake.world.topic.published.clear()
    assert lake.times() == {}
    lake.world.clock.advance(15 * DAY)
    listed = [Listed(each, lake.world.clock() - 15 * DAY) for each in uploads(3)]
    judged = judge_page(listed, LIMITS, lake.world.ledger, lake.world.clock()).values()
    assert {each.finding for each in judged} == {AuditFinding.LOST}
    entries = [Entry(each, takes_from=lake.world.claim(each.key).notice) for each in uploads(3)]
    send("flights", entries, lake.world.ports, origin="audit-1")
    lake.deliver()
    lake.land()
    assert lake.times() == ONCE


# ---- 6. two buckets in one batch


@pytest.mark.parametrize("second", ["archive", "landing-v2"])
def test_a_batch_of_two_buckets_is_resent(lake: Lake, second: str):
    """The route's bucket was changed. Both batches are rolled back and resent, into one; so is that one."""
    start = lake.head()
    lake.arrive(uploads(2))
    one = lake.land()
    lake.world.flights = replace(lake.world.flights, bucket=second)
    lake.world.ledger.remember_route(lake.world.flights)
    files = [upload(f"flights/new{number}.json", bucket=second) for number in range(2)]
    for notice in pack("flights", second, files):
        lake.world.dispatch(notice)
    two = lake.land()
    lake.roll_back(start)
    assert lake.resend(one).sent == 2
    assert lake.resend(two).sent == 2
    after_fences = lake.head()
    lake.deliver()
    three = lake.land()
    lake.roll_back(after_fences)
    assert lake.resend(three).sent == 4
    lake.deliver()
    lake.land()
    assert set(lake.times().values()) == {1}
    assert len(lake.times()) == 4


# ---- 7. ranks


@pytest.mark.parametrize("end", ["quarantined", "abandoned"])
def test_what_a_reload_left_without_a_row_is_known_to_a_rebuilt_ledger(lake: Lake, end: str):
    """Its rows were deleted, a backfill has sent it, it ended without a row; then the ledger is lost."""
    lake.arrive(uploads(3))
    lake.land()
    (gone, *_) = uploads(3)
    lake.delete(gone.key)
    assert lake.backfill()[FOUND.REMOVED] == 1
    lake.deliver()
    if end == "quarantined":
        lake.land({gone.key: (Outcome.QUARANTINED, "no JSON")})
    else:
        lake.give_up()
    assert lake.pending == (0 if end == "quarantined" else 1)
    seen = [each.key for each in quarantined("flights", EVERYTHING, lake.world.ports)]
    lake.lose_ledger()
    after = [each.key for each in quarantined("flights", EVERYTHING, lake.world.ports)]
    assert (after, lake.pending) == (seen, 0 if end == "quarantined" else 1)


# ---- 8. the table of today


def test_a_resend_to_the_table_of_today_looks_there(lake: Lake):
    """Rows were deleted in OLD, and loaded into NEW by a notice that was under way; the deletion is taken back by a
    rollback, the route goes back to OLD, and NEW is rolled back."""
    lake.arrive(uploads(3))
    lake.land()
    before, empty = lake.head(), lake.head(NEW)
    lake.delete()
    assert lake.backfill() == {FOUND.REMOVED: 3}
    lake.moved(NEW)
    lake.deliver()
    second = lake.land()
    assert lake.times(NEW) == ONCE
    lake.roll_back(before)
    lake.moved(OLD)
    lake.roll_back(empty, NEW)
    (told,) = lake.audit().findings
    assert (told.batch, told.difference) == (second, TableDifference.MISSING)
    assert OLD in told.advice
    lake.resend(second)
    lake.deliver_and_land()
    assert lake.times() == ONCE


def test_a_resend_to_the_former_table_of_what_the_ledger_has_forgotten(lake: Lake):
    """Landed in OLD before the ledger's memory; loaded into NEW; the route goes back, and NEW is dropped or rolled
    back. The audit advises to resend, to OLD."""
    lake.arrive(uploads(3))
    lake.land()
    lake.forget()
    empty = lake.head(NEW)
    lake.moved(NEW)
    assert lake.backfill() == {FOUND.MISSING: 3}
    lake.deliver()
    second = lake.land()
    lake.moved(OLD)
    lake.roll_back(empty, NEW)
    told = {each.batch: each for each in lake.audit().findings}
    assert OLD in told[second].advice
    lake.resend(second)
    lake.deliver_and_land()
    assert lake.times() == ONCE


@pytest.mark.parametrize("when", ["before its notice is delivered", "before its batch is sealed"])
@pytest.mark.parametrize("age", ["young", "older than claims"])
def test_a_table_that_is_changed_back_while_a_backfill_is_under_way(lake: Lake, when: str, age: str):
    """No rollback, no loss, nobody resends."""
    lake.arrive(uploads(3))
    lake.land()
    if age != "young":
        lake.forget()
    lake.moved(NEW)
    assert sum(lake.backfill().values()) == 3
    if when == "before its batch is sealed":
        lake.deliver()
    lake.moved(OLD)
    lake.deliver_and_land()
    assert lake.times() == ONCE


# ---- 9. a table that the route left and came back to is rolled back


def test_what_a_rollback_took_from_a_table_that_the_route_came_back_to_comes_back(lake: Lake):
    empty = lake.head()
    lake.arrive(uploads(3))
    first = lake.land()
    lake.moved(NEW)
    assert lake.backfill() == {FOUND.ELSEWHERE: 3}
    lake.deliver()
    second = lake.land()
    lake.moved(OLD)
    lake.roll_back(empty)
    told = {each.batch: each for each in lake.audit().findings}
    assert set(told) == {first}
    assert f"`tidegate resend {first}` sends its uploads again" in told[first].advice
    done = lake.resend(first)
    lake.deliver()
    findings, found = lake.findings(), lake.backfill()
    lake.deliver()
    try:
        again: object = lake.resend(second)  # what `audit s3://` advises: the batch that `trace` names
    except Rejected as error:
        again = error
    lake.deliver_and_land()
    assert lake.times() == ONCE, f"resend: {done}; audit --tables: {findings}; audit s3://: {found}; resend: {again}"


def test_and_also_if_the_new_table_is_rolled_back_as_well(lake: Lake):
    empty, empty_new = lake.head(), lake.head(NEW)
    lake.arrive(uploads(3))
    first = lake.land()
    lake.moved(NEW)
    lake.backfill()
    lake.deliver()
    second = lake.land()
    lake.moved(OLD)
    lake.roll_back(empty)
    lake.roll_back(empty_new, NEW)
    done = {}
    for _ in range(3):
        done |= {each: lake.resend(each) for each in (first, second)}
        found = lake.backfill()
        lake.deliver_and_land()
    assert lake.times() or lake.times(NEW), f"audit --tables: {lake.findings()}; resend: {done}; audit s3://: {found}"


# ---- 6, once more


@pytest.mark.parametrize("second", ["archive", "landing-v2"])
def test_rows_of_two_buckets_are_looked_for(lake: Lake, second: str):
    """A file of the route's former bucket is released from quarantine, beside one that a backfill loads once more; then
    the table is rolled back to before the deletion."""
    bad = upload("flights/bad.json")
    lake.arrive([bad])
    lake.land({bad.key: (Outcome.QUARANTINED, "no JSON")})
    lake.world.flights = replace(lake.world.flights, bucket=second)
    lake.world.ledger.remember_route(lake.world.flights)
    good = upload("flights/good.json", bucket=second)
    put(lake.world, good, age=0)
    for notice in pack("flights", second, [good]):
        lake.world.dispatch(notice)
    lake.land()
    before = lake.head()
    lake.delete()
    assert lake.backfill() == {FOUND.REMOVED: 1}
    assert lake.release().sent == 1
    lake.deliver()
    both = lake.land()
    assert lake.times() == {good.key: 1, bad.key: 1}
    lake.roll_back(before)
    assert lake.findings() == {both: TableDifference.MISSING}
    lake.resend(both)
    lake.deliver()
    lake.land()
    assert lake.times() == {good.key: 1, bad.key: 1}


# ---- 10. a batch that only its rows tell of


def test_some_rows_of_a_batch_without_a_floor_are_loaded_once_more(lake: Lake):
    """Work bucket and ledger were lost, and rebuilt from the rows. Some rows are deleted, to be loaded once more."""
    lake.arrive(uploads(3))
    first = lake.land()
    lake.world.work.objects.clear()
    lake.lose_ledger()
    gone = uploads(3)[0].key
    lake.delete(gone)
    found = lake.backfill()
    try:
        done: object = lake.resend(first)
    except Rejected as error:
        done = error
    lake.deliver_and_land()
    assert lake.times() == ONCE, f"backfill: {found}; resend: {done}"


# ---- 11. a driver of a batch that a rollback took is still alive


def goes_on_after_a_fence(lake: Lake, first: str, last: str) -> None:
    """The job of `last` refuses until `first` is fenced; then each upload lands once."""
    with pytest.raises(Refused, match=f"`tidegate resend {first}`"):
        lake.publish(last)
    assert lake.times() == {}
    lake.resend(first)
    lake.again(last)
    lake.deliver_and_land()
    assert lake.times() == ONCE
    floor = decode_floor(lake.world.work.objects[batch_folder(first) + floor_name(0)])
    assert not isinstance(verdict(lake.tables[OLD].history, first, floor), NotPublished)


def on_its_way_back(lake: Lake) -> str:
    """Uploads have landed, and joined a batch for another table, whose route got its table back before that was sealed.
    Returns the first batch."""
    lake.arrive(uploads(3))
    first = lake.land()
    lake.moved(NEW)
    assert lake.backfill() == {FOUND.ELSEWHERE: 3}
    lake.deliver()
    lake.moved(OLD)
    return first


def test_what_went_to_another_table_comes_back_only_once_the_first_batch_is_fenced(lake: Lake):
    empty = lake.head()
    first = on_its_way_back(lake)
    lake.roll_back(empty)
    goes_on_after_a_fence(lake, first, lake.seal())


def test_what_landed_in_another_table_comes_back_only_once_the_first_batch_is_fenced(lake: Lake):
    empty = lake.head()
    lake.arrive(uploads(3))
    first = lake.land()
    lake.moved(NEW)
    lake.backfill()
    lake.deliver()
    lake.land()
    lake.moved(OLD)
    lake.roll_back(empty)
    assert lake.backfill() == {FOUND.ELSEWHERE: 3}
    lake.deliver()
    goes_on_after_a_fence(lake, first, lake.seal())


def present_beside(lake: Lake) -> tuple[str, str]:
    """Uploads have landed; a backfill for another table has sent them, and they were found where they are. Returns both
    batches."""
    first = on_its_way_back(lake)
    return first, lake.land()


def test_what_was_present_is_sent_only_once_the_batch_that_has_its_rows_is_fenced(lake: Lake):
    empty = lake.head()
    first, second = present_beside(lake)
    assert {lake.world.claim(key).rows_of for key in ONCE} == {first}
    assert lake.backfill() == {FOUND.LANDED: 3}
    lake.roll_back(empty)
    assert lake.findings() == {first: TableDifference.MISSING}
    assert lake.backfill() == {FOUND.COMMITTED: 3}
    assert lake.resend(second).sent == 3  # it is safe, too: the job waits
    lake.deliver()
    goes_on_after_a_fence(lake, first, lake.seal())
    assert lake.findings() == {}


def test_what_was_present_and_is_fenced_may_be_loaded_again(lake: Lake):
    present_beside(lake)
    lake.delete()
    assert lake.backfill() == {FOUND.REMOVED: 3}
    lake.deliver_and_land()
    assert lake.times() == ONCE


# ---- 12. rows that a rollback brought back go again


def test_a_batch_that_was_sent_again_and_has_rows_of_what_is_present_is_missed(lake: Lake):
    """The first batch's snapshot has expired, so its resend looks at its rows only, which were deleted."""
    first, before, second = loaded_once_more(lake)
    lake.world.ledger.note_removed(first, sent=True)
    lake.roll_back(before)
    assert lake.findings() == {second: TableDifference.MISSING}
    assert lake.resend(second).sent == 3
    lake.deliver()
    lake.land()
    assert lake.times() == ONCE
    assert lake.findings() == {}
    lake.delete()
    assert lake.findings() == {first: TableDifference.MISSING}
    lake.tables[OLD].head = 10  # and the history is gone from before the first one on
    lake.sync()
    lake.resend(first)
    lake.deliver_and_land()
    assert lake.times() == ONCE
    assert lake.findings() == {}


# ---- 13. what is present is not without a row


def test_one_object_that_is_present_is_not_sent_again(lake: Lake):
    present_beside(lake)
    done = resend_object(BUCKET, uploads(1)[0].key, lake.world.ports, run="o", configured=lake.world.routes)
    assert done == Resend(Resent.NOTHING_LEFT, 0, 1)
    assert lake.world.topic.published == []


def test_the_same_bytes_put_again_are_a_duplicate_of_what_is_present(lake: Lake):
    present_beside(lake)
    for notice in pack("flights", BUCKET, [replace(each, sequencer="0" * 15 + "9") for each in uploads(3)]):
        lake.world.dispatch(notice)
    assert lake.world.topic.published == []
    lake.deliver_and_land()
    assert lake.times() == ONCE


# ---- 14. what a driver that is alive has staged, another attempt could not read


@pytest.mark.parametrize("end", [Outcome.QUARANTINED, Outcome.VANISHED])
@pytest.mark.parametrize("of", [1, 3])
def test_an_upload_without_a_row_is_in_what_a_driver_has_staged_that_is_alive(lake: Lake, end: Outcome, of: int):
    empty, files = lake.head(), uploads(of)
    lake.arrive(files)
    first = lake.seal()
    alive = lake.begin(first)
    lake.publish(first, {files[0].key: (end, "S3 refused it")})
    lake.roll_back(empty)
    resend_object(BUCKET, files[0].key, lake.world.ports, run="o", configured=lake.world.routes)
    lake.deliver()
    last = lake.seal()
    with pytest.raises(Refused, match=f"`tidegate resend {first}`"):
        lake.publish(last)
    lake.resend(first)
    lake.again(last)
    alive.publish()
    lake.sync()
    lake.deliver_and_land()
    assert lake.times() == {each.key: 1 for each in files}


def test_a_driver_that_comes_late_leaves_the_receipt_as_it_is(lake: Lake):
    """It published, the table was rolled back, and the next attempt found a file that it could not read."""
    empty, files = lake.head(), uploads(2)
    lake.arrive(files)
    batch = lake.seal()
    late = lake.begin(batch)
    decided = late.publish()
    lake.roll_back(empty)
    lake.publish(batch, {files[0].key: (Outcome.QUARANTINED, "S3 refused it")})
    late.attempt.end(decided)
    assert lake.release().sent == 1
    lake.deliver_and_land()
    assert lake.times() == {each.key: 1 for each in files}


# ---- 15. the fence that another batch waits for


def test_a_rebuilt_ledger_calls_it_abandoned_and_its_resend_fences_it(lake: Lake):
    empty = lake.head()
    lake.arrive(uploads(3))
    first = lake.land()
    lake.roll_back(empty)
    assert lake.resend(first).sent == 3
    lake.deliver()
    lake.lose_ledger()
    assert lake.world.batch(first).state is State.ABANDONED
    lake.roll_back(empty)
    lake.deliver()
    goes_on_after_a_fence(lake, first, lake.seal())


def test_a_batch_that_the_ledger_has_forgotten_is_fenced_by_its_resend(lake: Lake):
    empty = lake.head()
    lake.arrive(uploads(3))
    first = lake.land()
    lake.roll_back(empty)
    lake.forget()
    assert lake.backfill() == {FOUND.MISSING: 3}
    lake.deliver()
    assert lake.world.ledger.batch(first) is None
    goes_on_after_a_fence(lake, first, lake.seal())


def test_a_part_that_is_missing_is_no_reason_to_do_without_a_fence(lake: Lake):
    empty = lake.head()
    first = on_its_way_back(lake)
    lake.roll_back(empty)
    for name in list(lake.world.work.names(f"{batch_folder(first)}parts/")):
        del lake.world.work.objects[name]
    with pytest.raises(Refused, match=f"{first}, .+ parts/.+ is missing.+`tidegate resend {first}`"):
        lake.publish(lake.seal())


def looked_after_a_decision(lake: Lake) -> tuple[Attempt, int, int]:
    """A driver that has looked, after a person had said that the batch is not in the table. It has yet to write the
    floor for that. The table was rolled back past the batch: also returns where it stands, and where the batch is."""
    start = lake.head()
    lake.delete()
    lake.arrive(uploads(1))
    batch = lake.seal()
    lake.begin(batch).publish()
    landed = lake.head()
    lake.roll_back(start)
    with pytest.raises(Refused):
        lake.publish(batch)
    assert lake.world.batch(batch).undecided
    decide_unpublished(batch, lake.world.ports)
    assert lake.world.settle() == []
    slow = lake.attempt(batch)
    assert slow.look() is None
    return slow, start, landed


def test_a_floor_is_written_by_no_driver_once_its_batch_is_decided(lake: Lake):
    """It stalled before it wrote the floor. Meanwhile the table was rolled forward to where the batch is."""
    slow, start, landed = looked_after_a_decision(lake)
    batch = slow.batch
    lake.roll_back(landed)
    lake.publish(batch)
    lake.roll_back(start)
    with pytest.raises(Retryable, match="was decided meanwhile"):
        slow.floor()


def test_no_floor_is_written_above_what_a_table_that_is_rolled_forward_holds(lake: Lake):
    """Between the look of a driver and its floor."""
    slow, _, landed = looked_after_a_decision(lake)
    batch = slow.batch
    lake.roll_back(landed)
    with pytest.raises(Undecided, match=f"is in it as snapshot {landed}"):
        slow.floor()
    lake.publish(batch)
    assert lake.times() == {uploads(1)[0].key: 1}


@pytest.mark.parametrize("lost", ["sealed.json", floor_name(0)])
def test_what_the_work_bucket_has_lost_of_a_batch_is_no_reason_to_do_without_a_fence(lake: Lake, lost: str):
    empty, files = lake.head(), uploads(3)
    lake.arrive(files)
    first = lake.seal()
    alive = lake.begin(first)
    lake.publish(first)
    lake.moved(NEW)
    assert lake.backfill() == {FOUND.ELSEWHERE: 3}
    lake.deliver()
    lake.moved(OLD)
    lake.roll_back(empty)
    del lake.world.work.objects[batch_folder(first) + lost]
    last = lake.seal()
    with pytest.raises(Refused, match=f"`tidegate resend {first}`"):
        lake.publish(last)
    lake.resend(first)
    lake.again(last)
    with suppress(TidegateError):
        alive.publish()
    lake.sync()
    lake.deliver_and_land()
    assert lake.times() == ONCE


def test_a_batch_of_another_deployment_is_not_waited_for(lake: Lake):
    """A rollback took it, and its files are in another work bucket."""
    first = on_its_way_back(lake)
    table = lake.tables[OLD]
    head = lake.head()
    table.commit(table.rows, batch="01OFOTHERS")
    lake.roll_back(head)
    lake.publish(lake.seal())
    assert lake.times() == ONCE, first

"""A batch is sealed, attempted and halted, on every store."""

from collections.abc import Callable

import pytest

from tests.contract.lives import (
    ROUTE,
    Another,
    goes_on_by_itself,
    halted_batch,
    is_given_up,
    is_published,
    is_resumed,
    join,
    receipt,
    sealed_batches,
)
from tests.support.build import notice
from tests.support.ledgers import SettableClock, racing
from tidegate.core.batches import Batch, State
from tidegate.core.records import RouteRecord
from tidegate.flows.ledger import Ledger
from tidegate.flows.store import NewId

# ---- sealing


def test_a_sealed_batch_waits_in_its_route(ledger: Ledger, batch: Batch, clock: SettableClock):
    join(ledger, notice("a"), batch.id)
    clock.advance(60)
    assert ledger.seal(batch.id, ROUTE)
    found = ledger.batch(batch.id)
    assert (found.state, found.sealed_at, found.objects) == (State.SEALED, clock.now, 1)
    assert ledger.route(ROUTE) == RouteRecord(ROUTE, open_batch="", sealed=(batch.id,))


def test_an_empty_batch_is_not_sealed(ledger: Ledger, batch: Batch):
    assert not ledger.seal(batch.id, ROUTE)
    assert ledger.batch(batch.id).state is State.OPEN
    assert ledger.route(ROUTE).open_batch == batch.id


def test_a_batch_is_sealed_once(ledger: Ledger, batch: Batch, clock: SettableClock):
    join(ledger, notice("a"), batch.id)
    assert ledger.seal(batch.id, ROUTE)
    clock.advance(60)
    assert not ledger.seal(batch.id, ROUTE)
    assert ledger.batch(batch.id).sealed_at == clock.now - 60


def test_sealing_an_old_batch_again_leaves_the_new_one_open(ledger: Ledger, batch: Batch, new_id: NewId):
    join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE)
    newer = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice("b"), newer.id)
    assert not ledger.seal(batch.id, ROUTE)
    assert ledger.route(ROUTE).open_batch == newer.id


def test_a_batch_that_never_was_is_not_sealed(ledger: Ledger):
    assert not ledger.seal("01NEVER", ROUTE)
    assert ledger.batch("01NEVER") is None
    assert ledger.route(ROUTE) == RouteRecord(ROUTE)


def test_of_many_that_race_to_seal_one_did_it(another: Another, batch: Batch):
    join(another(), notice("a"), batch.id)
    answers = racing(*[lambda: another().seal(batch.id, ROUTE)] * 6)
    assert answers.count(True) == 1
    assert another().route(ROUTE).sealed == (batch.id,)


# ---- attempts


def test_a_sealed_batch_is_submitted(ledger: Ledger, new_id: NewId, clock: SettableClock):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    clock.advance(60)
    assert ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    found = ledger.batch(batch_id)
    assert (found.state, found.attempt, found.submitted_at, found.job_run) == (State.SUBMITTED, 1, clock.now, "")
    record = ledger.route(ROUTE)
    assert (record.sealed, record.running, record.jobs) == ((), (batch_id,), 1)


def test_an_open_batch_is_not_submitted(ledger: Ledger, batch: Batch):
    join(ledger, notice("a"), batch.id)
    assert not ledger.begin_attempt(batch.id, ROUTE, 1, in_flight=1)
    assert ledger.batch(batch.id).state is State.OPEN


def test_attempts_begin_one_after_the_other(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=9)
    assert ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=9)
    assert not ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=9)
    assert not ledger.begin_attempt(batch_id, ROUTE, 3, in_flight=9)
    assert ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=9)
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=9)
    assert ledger.batch(batch_id).attempt == 2
    assert ledger.route(ROUTE).jobs == 2


def test_the_next_attempt_has_no_job_yet_and_needs_no_further_slot(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    assert ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).job_run == ""
    assert ledger.route(ROUTE).running == (batch_id,)


def test_no_more_batches_are_submitted_than_there_are_slots(ledger: Ledger, new_id: NewId):
    one, two, three = sealed_batches(ledger, new_id, 3)
    assert ledger.begin_attempt(one, ROUTE, 1, in_flight=2)
    assert ledger.begin_attempt(two, ROUTE, 1, in_flight=2)
    assert not ledger.begin_attempt(three, ROUTE, 1, in_flight=2)
    assert ledger.batch(three).state is State.SEALED
    assert ledger.commit(one, ROUTE, receipt(one))
    assert ledger.begin_attempt(three, ROUTE, 1, in_flight=2)


@pytest.mark.parametrize("slots", [1, 2])
def test_slots_hold_in_a_race(another: Another, new_id: NewId, slots: int):
    waiting = sealed_batches(another(), new_id, 6)
    answers = racing(
        *(
            lambda batch_id=batch_id: another().begin_attempt(batch_id, ROUTE, 1, in_flight=slots)
            for batch_id in waiting
        )
    )
    assert answers.count(True) == slots
    record = another().route(ROUTE)
    assert (len(record.running), len(record.sealed), record.jobs) == (slots, 6 - slots, slots)
    for batch_id in waiting:
        expected = State.SUBMITTED if batch_id in record.running else State.SEALED
        assert another().batch(batch_id).state is expected


@pytest.mark.parametrize("attempt", [1, 2])
def test_of_many_that_race_to_begin_an_attempt_one_did_it(another: Another, new_id: NewId, attempt: int):
    (batch_id,) = sealed_batches(another(), new_id, 1)
    for earlier in range(1, attempt):
        assert another().begin_attempt(batch_id, ROUTE, earlier, in_flight=9)
    answers = racing(*[lambda: another().begin_attempt(batch_id, ROUTE, attempt, in_flight=9)] * 6)
    assert answers.count(True) == 1
    assert another().route(ROUTE).jobs == attempt


def test_a_halted_batch_gets_no_attempt(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, 1, "enough")
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).attempt == 1


def test_a_batch_that_has_ended_gets_no_attempt(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.commit(batch_id, ROUTE, receipt(batch_id))
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).state is State.COMMITTED


def test_the_first_job_run_of_an_attempt_is_the_one_on_record(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    ledger.record_job(batch_id, 1, "job-2")
    assert ledger.batch(batch_id).job_run == "job-1"


def test_the_job_run_of_another_attempt_is_not_recorded(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.record_job(batch_id, 1, "too early")
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    ledger.record_job(batch_id, 1, "too late")
    assert ledger.batch(batch_id).job_run == ""
    ledger.record_job(batch_id, 2, "job-2")
    assert ledger.batch(batch_id).job_run == "job-2"


def test_a_job_run_is_not_recorded_for_a_batch_that_never_was(ledger: Ledger):
    ledger.record_job("01NEVER", 1, "job")
    assert ledger.batch("01NEVER") is None


# ---- halting


def test_a_halted_batch_says_why_and_keeps_its_slot(ledger: Ledger, new_id: NewId):
    batch_id = halted_batch(ledger, new_id)
    found = ledger.batch(batch_id)
    assert (found.state, found.halted, found.attempt) == (State.SUBMITTED, "the table is gone", 1)
    assert ledger.route(ROUTE).running == (batch_id,)


def test_only_the_attempt_that_failed_halts_its_batch(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    ledger.halt(batch_id, 1, "of the attempt before")
    assert ledger.batch(batch_id).halted == ""


def test_a_batch_that_has_ended_is_not_halted(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.commit(batch_id, ROUTE, receipt(batch_id))
    ledger.halt(batch_id, 1, "too late")
    assert ledger.batch(batch_id).halted == ""


def test_a_reason_of_any_length_halts(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, 1, "😀" * 500_000)
    assert ledger.batch(batch_id).halted.startswith("😀" * 100)


@pytest.mark.parametrize("attempt", [0, 1], ids=["sealed", "submitted"])
def test_a_batch_has_halted_since_its_first_reason(ledger: Ledger, new_id: NewId, clock: SettableClock, attempt: int):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    if attempt:
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, attempt, "a part is missing")
    since = clock.now
    clock.advance(60)
    ledger.halt(batch_id, attempt, "another part is missing")
    found = ledger.batch(batch_id)
    assert (found.halted, found.halted_at) == ("another part is missing", since)


def test_who_must_decide_goes_with_the_reason(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, 1, "the table cannot say", undecided=True)
    assert ledger.batch(batch_id).undecided
    ledger.halt(batch_id, 1, "its files differ")
    assert not ledger.batch(batch_id).undecided
    ledger.halt(batch_id, 1, "the table cannot say", undecided=True)
    ledger.resume(batch_id, ROUTE, 2, fencing=False)
    assert not ledger.batch(batch_id).undecided


@pytest.mark.parametrize("over", [goes_on_by_itself, is_given_up, is_resumed, is_published])
def test_a_halt_that_is_over_leaves_no_time_behind(ledger: Ledger, new_id: NewId, over: Callable[[Ledger, str], bool]):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    attempt = 1 if over in (is_resumed, is_published) else 0
    if attempt:
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, attempt, "enough")
    assert ledger.batch(batch_id).halted_at
    assert over(ledger, batch_id)
    assert (ledger.batch(batch_id).halted, ledger.batch(batch_id).halted_at) == ("", 0)

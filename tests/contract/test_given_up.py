"""A halted batch steps aside, is resumed, or given up, on every store."""

from dataclasses import replace

import pytest

from tests.contract.lives import (
    ONE,
    ROUTE,
    Another,
    aside,
    halted_batch,
    join_new,
    receipt,
    sealed_batches,
)
from tests.support.ledgers import SettableClock, racing
from tidegate.core.batches import State
from tidegate.core.outcomes import Tally
from tidegate.core.records import RouteRecord
from tidegate.flows.ledger import Ledger
from tidegate.flows.store import NewId

# ---- stepping aside


def test_a_halted_batch_gives_up_its_slot_and_nothing_else(ledger: Ledger, new_id: NewId, clock: SettableClock):
    batch_id = halted_batch(ledger, new_id)
    (behind,) = sealed_batches(ledger, new_id, 1)
    before = ledger.batch(batch_id)
    assert not ledger.begin_attempt(behind, ROUTE, 1, in_flight=1)
    clock.advance(60)
    assert ledger.step_aside(batch_id, ROUTE, 1)
    assert ledger.batch(batch_id) == replace(before, aside_at=clock.now)
    record = ledger.route(ROUTE)
    assert (record.running, record.aside, record.sealed) == ((), (batch_id,), (behind,))
    assert record.unfinished == (behind, batch_id)
    assert ledger.begin_attempt(behind, ROUTE, 1, in_flight=1)
    assert ledger.route(ROUTE).submitted == (batch_id, behind)
    # and not twice
    clock.advance(60)
    assert not ledger.step_aside(batch_id, ROUTE, 1)
    assert ledger.batch(batch_id).aside_at == clock.now - 60


@pytest.mark.parametrize(
    "state", ["open", "sealed", "sealed, halted", "submitted", "resumed", "committed", "abandoned", "never was"]
)
def test_only_a_batch_that_was_submitted_and_has_halted_steps_aside(ledger: Ledger, new_id: NewId, state: str):
    batch_id = "01NEVER"
    if state == "open":
        batch_id = join_new(ledger, new_id)
    elif state == "resumed":
        batch_id = halted_batch(ledger, new_id)
        assert ledger.resume(batch_id, ROUTE, 2, fencing=False)
    elif state != "never was":
        (batch_id,) = sealed_batches(ledger, new_id, 1)
    if state == "sealed, halted":
        ledger.halt(batch_id, 0, "a part is missing")
    if state in ("submitted", "committed", "abandoned"):
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    if state in ("committed", "abandoned"):
        ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=state == "abandoned"))
    before = ledger.batch(batch_id), ledger.route(ROUTE)
    for attempt in (0, 1, 2):
        assert not ledger.step_aside(batch_id, ROUTE, attempt)
    assert (ledger.batch(batch_id), ledger.route(ROUTE)) == before


def test_the_halt_of_an_earlier_attempt_moves_nothing_aside(ledger: Ledger, new_id: NewId):
    batch_id = halted_batch(ledger, new_id)
    assert ledger.resume(batch_id, ROUTE, 2, fencing=False)
    ledger.halt(batch_id, 2, "again")
    assert not ledger.step_aside(batch_id, ROUTE, 1), "this attempt has just halted"
    assert ledger.step_aside(batch_id, ROUTE, 2)


@pytest.mark.parametrize("fencing", [False, True], ids=["publish", "fence"])
def test_a_batch_that_is_aside_is_taken_back_into_work_without_a_free_slot(
    ledger: Ledger, new_id: NewId, fencing: bool
):
    batch_id = aside(ledger, new_id)
    one, two = sealed_batches(ledger, new_id, 2)
    assert ledger.begin_attempt(one, ROUTE, 1, in_flight=1)
    assert ledger.resume(batch_id, ROUTE, 2, fencing=fencing)
    record = ledger.route(ROUTE)
    assert (record.running, record.aside) == ((batch_id, one), ())
    assert not ledger.begin_attempt(two, ROUTE, 1, in_flight=2), "it has a slot like any other"
    assert ledger.begin_attempt(batch_id, ROUTE, 3, in_flight=1)
    ledger.halt(batch_id, 3, "again")
    assert ledger.step_aside(batch_id, ROUTE, 3)
    assert ledger.route(ROUTE).aside == (batch_id,)


@pytest.mark.parametrize("fence", [False, True], ids=["published", "fenced"])
def test_a_batch_that_is_aside_ends_as_any_other(ledger: Ledger, new_id: NewId, fence: bool):
    batch_id = aside(ledger, new_id)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=fence, tally=Tally() if fence else ONE))
    assert ledger.batch(batch_id).state is (State.ABANDONED if fence else State.COMMITTED)
    sums = {"abandoned_batches": 1, "abandoned_objects": 1} if fence else {"committed_batches": 1, "tally": ONE}
    assert ledger.route(ROUTE) == RouteRecord(ROUTE, jobs=1, notified=1, **sums)
    assert not ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=ONE))
    assert ledger.route(ROUTE).notified == 1


def test_stepping_aside_resuming_and_settling_race_and_the_batch_is_in_one_place(another: Another, new_id: NewId):
    for _ in range(5):
        batch_id = halted_batch(another(), new_id)
        *stepped, resumed = racing(
            *[lambda: another().step_aside(batch_id, ROUTE, 1)] * 3,  # noqa: B023
            lambda: another().resume(batch_id, ROUTE, 2, fencing=False),  # noqa: B023
        )
        assert resumed
        assert stepped.count(True) <= 1
        assert (another().route(ROUTE).running, another().route(ROUTE).aside) == ((batch_id,), ())
        another().halt(batch_id, 2, "again")
        _, ended, twin = racing(
            lambda: another().step_aside(batch_id, ROUTE, 2),  # noqa: B023
            *[lambda: another().commit(batch_id, ROUTE, receipt(batch_id, tally=ONE))] * 2,  # noqa: B023
        )
        assert {ended, twin} == {True, False}
        assert another().route(ROUTE).submitted == ()
    assert (another().route(ROUTE).committed_batches, another().route(ROUTE).tally) == (5, Tally(committed=5))


# ---- resuming


@pytest.mark.parametrize("fencing", [False, True], ids=["publish", "fence"])
def test_a_halted_batch_is_resumed_with_its_next_attempt(ledger: Ledger, new_id: NewId, fencing: bool):
    batch_id = halted_batch(ledger, new_id)
    assert ledger.resume(batch_id, ROUTE, 2, fencing=fencing)
    found = ledger.batch(batch_id)
    assert (found.attempt, found.halted, found.job_run, found.fencing) == (2, "", "", fencing)
    assert found.floors == 0
    assert ledger.route(ROUTE).jobs == 2
    # and not twice
    assert not ledger.resume(batch_id, ROUTE, 2, fencing=fencing)
    assert not ledger.resume(batch_id, ROUTE, 4, fencing=fencing)


def test_a_batch_that_is_not_halted_is_not_resumed_to_be_published(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    assert not ledger.resume(batch_id, ROUTE, 2, fencing=False)
    assert ledger.batch(batch_id).attempt == 1


def test_a_batch_may_be_fenced_while_its_job_still_runs(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    assert ledger.resume(batch_id, ROUTE, 2, fencing=True)
    found = ledger.batch(batch_id)
    assert (found.attempt, found.fencing, found.job_run) == (2, True, "")


def test_the_next_attempt_of_a_batch_that_is_being_fenced_fences_it_too(ledger: Ledger, new_id: NewId):
    batch_id = halted_batch(ledger, new_id)
    ledger.resume(batch_id, ROUTE, 2, fencing=True)
    assert ledger.begin_attempt(batch_id, ROUTE, 3, in_flight=1)
    assert ledger.batch(batch_id).fencing


@pytest.mark.parametrize("fencing", [False, True], ids=["publish", "fence"])
@pytest.mark.parametrize("state", ["open", "sealed", "committed", "abandoned", "never was"])
def test_only_a_submitted_batch_is_resumed(ledger: Ledger, new_id: NewId, state: str, fencing: bool):
    batch_id = "01NEVER"
    if state == "open":
        batch_id = ledger.open_batch(ROUTE, new_id).id
    elif state != "never was":
        (batch_id,) = sealed_batches(ledger, new_id, 1)
    if state in ("committed", "abandoned"):
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
        ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=state == "abandoned"))
    before = ledger.batch(batch_id)
    for attempt in (1, 2):
        assert not ledger.resume(batch_id, ROUTE, attempt, fencing=fencing)
    assert ledger.batch(batch_id) == before


# ---- giving up before the first attempt


def test_a_sealed_batch_is_given_up_with_a_fence_as_its_first_attempt(
    ledger: Ledger, new_id: NewId, clock: SettableClock
):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.halt(batch_id, 0, "a part is missing")
    clock.advance(60)
    assert ledger.give_up(batch_id, ROUTE)
    found = ledger.batch(batch_id)
    assert (found.state, found.attempt, found.fencing) == (State.SUBMITTED, 1, True)
    assert (found.submitted_at, found.job_run, found.halted) == (clock.now, "", "")
    record = ledger.route(ROUTE)
    assert (record.sealed, record.running, record.jobs) == ((), (batch_id,), 1)
    # and not twice
    assert not ledger.give_up(batch_id, ROUTE)
    assert ledger.route(ROUTE).jobs == 1
    assert ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).fencing


def test_giving_up_needs_no_free_slot_and_leaves_none(ledger: Ledger, new_id: NewId):
    one, two, three = sealed_batches(ledger, new_id, 3)
    assert ledger.begin_attempt(one, ROUTE, 1, in_flight=1)
    assert ledger.give_up(two, ROUTE)
    assert ledger.route(ROUTE).running == (one, two)
    assert not ledger.begin_attempt(three, ROUTE, 1, in_flight=2)


@pytest.mark.parametrize("state", ["open", "submitted", "halted", "committed", "abandoned", "never was"])
def test_only_a_sealed_batch_is_given_up_before_its_first_attempt(ledger: Ledger, new_id: NewId, state: str):
    batch_id = "01NEVER"
    if state == "open":
        batch_id = ledger.open_batch(ROUTE, new_id).id
    elif state != "never was":
        (batch_id,) = sealed_batches(ledger, new_id, 1)
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    if state == "halted":
        ledger.halt(batch_id, 1, "enough")
    if state in ("committed", "abandoned"):
        ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=state == "abandoned"))
    before = ledger.batch(batch_id), ledger.route(ROUTE)
    assert not ledger.give_up(batch_id, ROUTE)
    assert (ledger.batch(batch_id), ledger.route(ROUTE)) == before


def test_a_hand_off_and_people_who_give_up_race_and_one_begins_the_attempt(another: Another, new_id: NewId):
    (batch_id,) = sealed_batches(another(), new_id, 1)
    answers = racing(
        *[lambda: another().begin_attempt(batch_id, ROUTE, 1, in_flight=9)] * 3,
        *[lambda: another().give_up(batch_id, ROUTE)] * 3,
    )
    assert answers.count(True) == 1
    found = another().batch(batch_id)
    assert (found.attempt, found.fencing) == (1, answers.index(True) >= 3)
    record = another().route(ROUTE)
    assert (record.sealed, record.running, record.jobs) == ((), (batch_id,), 1)

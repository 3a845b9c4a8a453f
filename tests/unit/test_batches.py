"""When a batch is due, and every next step there is."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.batches import (
    LONGEST_OPEN,
    LONGEST_RETRY_WAIT,
    MAX_NOTICES,
    Batch,
    BatchLimits,
    JobState,
    State,
    Step,
    gives_way,
    is_due,
    is_full,
    next_attempt_from,
    next_step,
    oldest_remembered,
    wait_before_next,
)
from tidegate.core.records import BATCH_OUTLIVES_NOTICE, DAY, NOTICE_OUTLIVES_CLAIM

NOW = 1_000_000
LIMITS = BatchLimits(max_wait=300, target_bytes=1000, target_objects=100, in_flight=1, attempts=3)


def opened(ago: int = 0, *, state: State = State.OPEN, objects: int = 1, size: int = 1, notices: int = 1) -> Batch:
    return Batch("b", "flights", state, opened_at=NOW - ago, objects=objects, bytes=size, notices=notices)


def due(batch: Batch, *, slot_free: bool = True, next_look: int = 60) -> bool:
    return is_due(batch, LIMITS, now=NOW, slot_free=slot_free, next_look=next_look)


def test_a_batch_of_ever_so_small_notices_is_full_before_its_manifest_takes_too_long():
    assert not is_full(opened(notices=MAX_NOTICES - 1), LIMITS)
    assert is_full(opened(notices=MAX_NOTICES), LIMITS)


@pytest.mark.parametrize(
    ("objects", "size", "full"),
    [(1, 1, False), (99, 999, False), (100, 1, True), (1, 1000, True), (101, 1001, True)],
)
def test_a_batch_is_full_of_objects_or_of_bytes(objects: int, size: int, full: bool):
    assert is_full(opened(objects=objects, size=size), LIMITS) == full


@pytest.mark.parametrize("slot_free", [True, False])
def test_a_full_batch_is_due_at_once_slot_or_not(slot_free: bool):
    assert due(opened(0, objects=100), slot_free=slot_free)
    assert due(opened(0, size=1000), slot_free=slot_free)


@pytest.mark.parametrize(("ago", "expected"), [(0, False), (239, False), (240, True), (300, True), (10_000, True)])
def test_an_old_batch_is_due_so_early_that_max_wait_holds_until_the_next_look(ago: int, expected: bool):
    assert due(opened(ago)) == expected


def test_an_old_batch_waits_while_no_slot_is_free():
    assert not due(opened(10_000), slot_free=False)


def test_a_look_that_comes_sooner_lets_the_batch_wait_longer():
    assert not due(opened(298), next_look=1)
    assert due(opened(299), next_look=1)


def test_an_empty_batch_is_never_due():
    assert not due(opened(10_000, notices=0, objects=0, size=0))


@pytest.mark.parametrize("state", [state for state in State if state is not State.OPEN])
def test_only_an_open_batch_is_due(state: State):
    assert not due(opened(10_000, state=state, objects=1000))


@given(ago=st.integers(0, 1000), look=st.integers(0, 60), objects=st.integers(1, 200), slot_free=st.booleans())
def test_a_batch_that_is_due_stays_due_until_it_is_sealed(ago: int, look: int, objects: int, slot_free: bool):
    batch = opened(ago, objects=objects)
    if is_due(batch, LIMITS, now=NOW, slot_free=slot_free, next_look=look):
        assert is_due(batch, LIMITS, now=NOW + look, slot_free=slot_free, next_look=look)


@given(arrival=st.integers(0, 200), wait=st.integers(60, 600))
def test_with_a_look_every_minute_no_upload_waits_longer_than_max_wait(arrival: int, wait: int):
    limits = BatchLimits(max_wait=wait)
    batch = Batch("b", "r", State.OPEN, opened_at=arrival, notices=1, objects=1)
    looks = itertools.count((arrival // 60 + 1) * 60, 60)
    sealed = next(look for look in looks if is_due(batch, limits, now=look, slot_free=True, next_look=60))
    assert sealed - arrival <= wait


# ---- the wait before the next attempt


def test_by_default_the_waits_outlive_an_outage_of_an_hour():
    limits = BatchLimits()
    waits = [wait_before_next(attempt, limits) for attempt in range(1, limits.attempts)]
    assert [wait // 60 for wait in waits] == [2, 8, 32, 60]
    # an outage that begins with the first attempt: the last one begins after it
    assert sum(waits) > 60 * 60


@given(retry_wait=st.integers(0, LONGEST_RETRY_WAIT), attempt=st.integers(1, 500))
def test_waits_never_shrink_and_are_an_hour_at_most(retry_wait: int, attempt: int):
    limits = BatchLimits(retry_wait=retry_wait)
    wait, following = (wait_before_next(each, limits) for each in (attempt, attempt + 1))
    assert wait <= following <= LONGEST_RETRY_WAIT
    assert wait_before_next(1, limits) == retry_wait


def test_a_short_first_wait_stays_short():
    """The others are 4, 16, 30 and 30 times as long: a stack for tests waits for seconds."""
    limits = BatchLimits(retry_wait=1)
    assert [wait_before_next(attempt, limits) for attempt in range(1, 6)] == [1, 4, 16, 30, 30]


@given(waits=st.integers(0, 10**6), begun=st.integers(1, 10**9), later=st.integers(0, 10**6))
def test_a_halted_batch_gives_way_after_its_time_and_no_other_does(waits: int, begun: int, later: int):
    limits = BatchLimits(step_aside=waits)
    batch = Batch("b", "r", State.SUBMITTED, 0, attempt=1, submitted_at=begun)
    halted = replace(batch, halted="why", halted_at=begun + later)
    now = halted.halted_at + waits
    assert gives_way(halted, limits, now=now)
    assert not gives_way(halted, limits, now=now - 1)
    assert not gives_way(batch, limits, now=now)
    assert not gives_way(replace(halted, state=State.SEALED, attempt=0), limits, now=now), "it has no slot"


@given(
    attempt=st.integers(1, 25),
    attempts=st.integers(1, 20),
    retry_wait=st.integers(1, LONGEST_RETRY_WAIT),
    submitted_at=st.integers(0, 10**9),
    later=st.integers(0, 10**6),
    hopeless=st.booleans(),
)
def test_a_failed_attempt_is_waited_after_and_then_followed_or_halts(
    attempt: int, attempts: int, retry_wait: int, submitted_at: int, later: int, hopeless: bool
):
    limits = BatchLimits(attempts=attempts, retry_wait=retry_wait)
    batch = Batch("b", "r", State.SUBMITTED, 0, attempt=attempt, job_run="j", submitted_at=submitted_at)

    def step_at(now: int) -> Step:
        return next_step(batch, JobState.ENDED, receipt=False, hopeless=hopeless, limits=limits, now=now)

    begins = submitted_at + wait_before_next(attempt, limits)
    if hopeless or attempt >= attempts:
        # waiting would cure nothing
        assert step_at(submitted_at) is step_at(begins + later) is Step.HALT
    else:
        assert step_at(submitted_at) is step_at(max(submitted_at, begins - 1 - later)) is Step.WAIT
        assert step_at(begins) is step_at(begins + later) is Step.NEXT_ATTEMPT
    assert next_attempt_from(batch, limits) == (None if attempt >= attempts else begins)


def test_a_receipt_and_a_missing_job_are_not_waited_for():
    batch = Batch("b", "r", State.SUBMITTED, 0, attempt=2, submitted_at=NOW)
    for job in (JobState.ENDED, JobState.UNKNOWN):
        assert next_step(batch, job, receipt=True, hopeless=False, limits=LIMITS, now=NOW) is Step.SETTLE
    assert next_step(batch, JobState.UNKNOWN, receipt=False, hopeless=False, limits=LIMITS, now=NOW) is Step.HAND_OFF


@given(stuck=st.booleans(), attempt=st.integers(1, 4))
def test_who_must_not_wait_for_a_worker_any_longer_has_its_next_attempt(stuck: bool, attempt: int):
    batch = Batch("b", "r", State.SUBMITTED, 0, attempt=attempt, submitted_at=NOW)
    step = next_step(batch, JobState.ACTIVE, receipt=False, hopeless=False, limits=LIMITS, now=NOW, stuck=stuck)
    follows = Step.NEXT_ATTEMPT if attempt < LIMITS.attempts else Step.HALT
    assert step is (follows if stuck else Step.WAIT)


# The whole of `next_step` once the wait is over: (receipt, halted, job, hopeless, attempt of 3) -> step.
# With a receipt nothing else matters; a halted batch without one is left alone; and so on down the list.
def expected_step(receipt: bool, halted: bool, job: JobState, hopeless: bool, attempt: int) -> Step:
    table = [
        (receipt, Step.SETTLE),
        (halted, Step.WAIT),
        (job is JobState.UNKNOWN, Step.HAND_OFF),
        (job is JobState.ACTIVE, Step.WAIT),
        (hopeless, Step.HALT),
        (attempt >= 3, Step.HALT),
        (True, Step.NEXT_ATTEMPT),
    ]
    return next(step for holds, step in table if holds)


@pytest.mark.parametrize("receipt", [True, False], ids=["receipt", "no receipt"])
@pytest.mark.parametrize("halted", [True, False], ids=["halted", "not halted"])
@pytest.mark.parametrize("job", JobState, ids=lambda job: job.name)
@pytest.mark.parametrize("hopeless", [True, False], ids=["hopeless", "hopeful"])
@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_next_step(receipt: bool, halted: bool, job: JobState, hopeless: bool, attempt: int):
    batch = Batch("b", "r", State.SUBMITTED, 0, attempt=attempt, halted="a reason" if halted else "")
    step = next_step(batch, job, receipt=receipt, hopeless=hopeless, limits=LIMITS, now=NOW)
    assert step is expected_step(receipt, halted, job, hopeless, attempt)


@pytest.mark.parametrize(
    ("batch", "job", "receipt", "hopeless", "step"),
    [
        # the sentences of the design, one by one
        (Batch("b", "r", State.SUBMITTED, 0, attempt=1), JobState.ACTIVE, True, False, Step.SETTLE),
        (Batch("b", "r", State.SUBMITTED, 0, attempt=3, halted="x"), JobState.ENDED, True, True, Step.SETTLE),
        (Batch("b", "r", State.SUBMITTED, 0, attempt=1), JobState.ENDED, False, False, Step.NEXT_ATTEMPT),
        (Batch("b", "r", State.SUBMITTED, 0, attempt=3), JobState.ENDED, False, False, Step.HALT),
        (Batch("b", "r", State.SUBMITTED, 0, attempt=1), JobState.ENDED, False, True, Step.HALT),
        (Batch("b", "r", State.SUBMITTED, 0, attempt=1), JobState.UNKNOWN, False, False, Step.HAND_OFF),
        # hopeless is what a job says while it gives up: until it has ended it may still publish
        (Batch("b", "r", State.SUBMITTED, 0, attempt=1), JobState.ACTIVE, False, True, Step.WAIT),
        (Batch("b", "r", State.SUBMITTED, 0, attempt=3, halted="x"), JobState.UNKNOWN, False, False, Step.WAIT),
    ],
)
def test_next_step_by_example(batch: Batch, job: JobState, receipt: bool, hopeless: bool, step: Step):
    assert next_step(batch, job, receipt=receipt, hopeless=hopeless, limits=LIMITS, now=NOW) is step


def test_a_batch_that_may_hold_an_upload_of_the_ledgers_memory_is_remembered():
    now, retention = 1_800_000_000, 60 * DAY
    # a batch opens before its uploads come, by a day at most
    assert oldest_remembered(now, retention) < now - retention - LONGEST_OPEN
    # and one that ended is kept for two days longer: it is found, and not counted again
    assert oldest_remembered(now, retention) > now - retention - NOTICE_OUTLIVES_CLAIM - BATCH_OUTLIVES_NOTICE

"""How a batch under way goes on, in words."""

from dataclasses import replace

import pytest

from tidegate.core.batches import Batch, BatchLimits, State
from tidegate.core.outlook import JOB_IS_LATE, gathering, is_delayed, outlook
from tidegate.schedule import SCHEDULE

TEN = 1_795_255_200
"""2026-11-21T10:00:00Z"""
BATCH = Batch("b", "flights", State.SUBMITTED, TEN, attempt=2, job_run="j", submitted_at=TEN)


def test_the_next_attempt_is_announced_with_its_time():
    assert outlook(BATCH, BatchLimits()) == (
        "attempt 2 began at 2026-11-21T10:00:00Z. If it fails, attempt 3 begins at 2026-11-21T10:08:00Z at the earliest"
    )


def test_the_last_attempt_is_announced_as_the_last():
    assert outlook(BATCH, BatchLimits(attempts=2)) == (
        "attempt 2 began at 2026-11-21T10:00:00Z. If it fails, the batch halts: it is the last"
    )


def test_an_attempt_without_a_job_is_no_attempt_that_can_fail():
    said = outlook(replace(BATCH, job_run=""), BatchLimits(attempts=2))
    assert "no job of it is on record yet: every minute settling looks for" in said
    assert "halts" not in said


@pytest.mark.parametrize(
    ("batch", "later", "delayed"),
    [
        (BATCH, 0, True),
        (replace(BATCH, attempt=1), 10**6, False),
        (replace(BATCH, attempt=1, job_run=""), JOB_IS_LATE - 1, False),
        (replace(BATCH, attempt=1, job_run=""), JOB_IS_LATE, True),
        (replace(BATCH, halted="a reason"), 10**6, False),
        (replace(BATCH, state=State.SEALED, attempt=0, job_run=""), 10**6, False),
        (replace(BATCH, state=State.COMMITTED), 10**6, False),
    ],
)
def test_what_is_delayed(batch: Batch, later: int, delayed: bool):
    assert is_delayed(batch, now=TEN + later) is delayed


GATHERS = Batch("b", "flights", State.OPEN, TEN, objects=3, bytes=30, notices=1)


@pytest.mark.parametrize(
    ("batch", "later", "slot_free", "paused", "said"),
    [
        (GATHERS, 10, True, False, "due in 80s at the latest, or when it is full"),
        (GATHERS, 90, True, False, "due now"),
        (GATHERS, 10, False, False, "due when a job of the route ends, or when it is full"),
        (GATHERS, 10, True, True, "its route is paused, and it gathers on"),
        (replace(GATHERS, objects=9), 10, False, True, "full, and due now"),
        (replace(GATHERS, notices=0, objects=0), 10, True, False, "no upload has come yet"),
    ],
)
def test_when_what_gathers_is_due(batch: Batch, later: int, slot_free: bool, paused: bool, said: str):
    limits = BatchLimits(max_wait=90, target_objects=9)
    assert gathering(batch, limits, now=TEN + later, slot_free=slot_free, paused=paused) == said


def test_what_gathers_for_less_than_a_minute_is_due_with_the_schedule():
    """`max_wait` is what a person has set, so it is what they are told."""
    for later, said in (
        (0, "due in 15s if uploads still come then, else by the schedule, in 60s at the latest"),
        (20, "due when the next upload comes, else by the schedule, in 40s at the latest"),
        (SCHEDULE, "due now"),
    ):
        limits = BatchLimits(max_wait=15)
        assert gathering(GATHERS, limits, now=TEN + later, slot_free=True, paused=False) == said

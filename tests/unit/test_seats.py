"""Seats: what is written in them, and who may get in line."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.batches import Batch, State
from tidegate.core.errors import Rejected
from tidegate.core.seats import (
    CLOSED,
    LARGE_PATIENCE,
    LATEST_IN,
    LONGEST_SHARED,
    MOST_IN_LINE,
    RIDER_PATIENCE,
    SMALL_BYTES,
    SMALL_OBJECTS,
    Seat,
    SharedJob,
    code_of_job,
    decode_seat,
    is_small,
    line_before,
    may_ride,
    patience,
    seat_name,
    shared_for,
    takes_along,
)

NOW = 1_000_000
SMALL = Batch("01A", "flights", State.SUBMITTED, NOW, objects=3, bytes=300, attempt=1, job_run="run", submitted_at=NOW)
LARGE = replace(SMALL, id="01L", bytes=SMALL_BYTES + 1)
JOB = SharedJob("01A", 1, "run", "code", started_at=NOW, until=NOW + 100, latest="01A")
TEXT = st.text(max_size=30)


@given(st.builds(Seat, TEXT, TEXT, st.booleans(), TEXT, TEXT, st.booleans(), st.lists(TEXT).map(tuple)))
def test_a_seat_is_read_as_it_was_written(seat: Seat):
    assert decode_seat(seat.encode()) == seat


def test_a_closed_seat_is_no_batch_and_newer_code_s_is_refused():
    assert decode_seat(CLOSED) is None
    with pytest.raises(Rejected, match="newer code"):
        decode_seat(b'{"v": 2}')


def test_seats_are_listed_in_the_order_of_their_numbers():
    names = [seat_name(JOB.seats, number) for number in (1, 2, 9, 10, 99, 100)]
    assert names == sorted(names)
    assert names[0] == "batches/01A/seats/1/000001.json"


def test_only_a_first_attempt_that_is_to_publish_and_is_not_the_last_rides_along():
    assert may_ride(SMALL, last=False)
    assert not may_ride(SMALL, last=True)
    assert not may_ride(replace(SMALL, attempt=2), last=False)
    assert not may_ride(replace(SMALL, fencing=True), last=False)


@pytest.mark.parametrize(
    ("batch", "small"),
    [
        (SMALL, True),
        (replace(SMALL, bytes=SMALL_BYTES, objects=SMALL_OBJECTS), True),
        (LARGE, False),
        (replace(SMALL, objects=SMALL_OBJECTS + 1), False),
    ],
)
def test_small_is_small_in_both(batch: Batch, small: bool):
    assert is_small(batch) is small


def test_a_job_takes_batches_along_for_a_while_if_it_runs_the_same_code():
    assert takes_along(JOB, "code", now=NOW)
    assert takes_along(JOB, "code", now=NOW + 99)
    assert not takes_along(JOB, "code", now=NOW + 100)
    assert not takes_along(JOB, "other code", now=NOW)


@pytest.mark.parametrize(("timeout", "seconds"), [(8 * 3_600, LONGEST_SHARED), (3_600, 1_800), (60, 30)])
def test_the_last_batch_has_as_long_as_the_first(timeout: int, seconds: int):
    assert shared_for(timeout) == seconds


def test_the_code_of_a_job_is_its_script_and_its_modules():
    codes = {code_of_job(entry, modules) for entry in ("s3://a/1.py", "s3://a/2.py") for modules in ("x", "y")}
    assert len(codes) == 4


ENDED = replace(SMALL, state=State.COMMITTED)
ELSEWHERE = replace(ENDED, attempt=2, job_run="another run")


@pytest.mark.parametrize(
    ("ahead", "now", "line"),
    [
        ([SMALL], NOW, ("01A",)),
        ([SMALL], NOW + LATEST_IN - 1, ("01A",)),
        ([SMALL], NOW + LATEST_IN, None),  # it may be stuck
        ([replace(SMALL, job_run="")], NOW, ("01A",)),  # its run is about to be recorded
        ([ENDED], NOW + LATEST_IN, ()),
        ([ENDED, SMALL, replace(SMALL, id="01B")], NOW, ("01A", "01B")),
        ([replace(SMALL, submitted_at=NOW - LATEST_IN), SMALL], NOW, None),  # what is first is stuck, not what is last
        ([ELSEWHERE], NOW, None),  # it was taken from this job
        ([replace(SMALL, attempt=2, job_run="another run"), SMALL], NOW, None),
        ([None], NOW, None),
        ([SMALL] * (MOST_IN_LINE - 1), NOW, ("01A",) * (MOST_IN_LINE - 1)),
        ([SMALL] * MOST_IN_LINE, NOW, None),
    ],
)
def test_nothing_gets_in_line_for_a_job_that_may_be_stuck(ahead, now: int, line):
    assert line_before(JOB, ahead, now=now) == line


def test_nobody_waits_for_ever():
    assert (patience(SMALL), patience(LARGE)) == (RIDER_PATIENCE, LARGE_PATIENCE)

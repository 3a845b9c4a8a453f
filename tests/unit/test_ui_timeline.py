"""Batches on a line of time, and how they go on in words."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import route
from tidegate.core.batches import Batch, State
from tidegate.core.outcomes import NO_TALLY, Conservation
from tidegate.core.times import iso
from tidegate.flows.status import RouteStatus
from tidegate.ui.timeline import LEAST, LEFT, MOST_TICKS, SHORTEST, WIDTH, phases, seconds, state, timeline
from tidegate.ui.words import what_next

NOW = 1_800_000_000


def batch(opened: int, sealed: int = 0, submitted: int = 0, ended: int = 0, **changed: Any) -> dict[str, Any]:
    """Its times are seconds before NOW; 0 for not yet."""
    times = {"opened_at": opened, "sealed_at": sealed, "submitted_at": submitted, "ended_at": ended}
    state = "COMMITTED" if ended else "SUBMITTED" if submitted else "SEALED" if sealed else "OPEN"
    return {
        "id": "01M7YWFZ0BH03GX8KYPA0JN379", "route": "flights", "state": state, "objects": 3, "bytes": 20,
        "attempt": int(bool(submitted)), "job_run": "j1" if submitted else None, "snapshot": None, "halted": None,
        "fencing": False, "wish": None, **{name: iso(NOW - ago) if ago else None for name, ago in times.items()},
        **changed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("given", "took"),
    [
        (batch(100), {"gathering": 100}),
        (batch(100, 40), {"gathering": 60, "waiting": 40}),
        (batch(100, 40, 30), {"gathering": 60, "waiting": 10, "running": 30}),
        (batch(100, 40, 30, 5), {"gathering": 60, "waiting": 10, "running": 25}),
        # the ledger rebuilt it, and knows only its end
        (batch(100, 0, 0, 5), {"gathering": 95}),
    ],
)
def test_a_batch_gathers_then_waits_then_runs(given: dict[str, Any], took: dict[str, int]):
    assert {phase: end - begin for phase, begin, end in phases(given, now=NOW)} == took
    (row,) = timeline([given], now=NOW).rows
    assert row.took == took


def test_clocks_that_differ_make_no_bar_that_goes_back():
    (row,) = timeline([batch(100, 120)], now=NOW).rows
    assert [span.seconds >= 0 and span.width >= LEAST for span in row.spans] == [True, True]


def test_bars_follow_each_other_from_left_to_right_and_the_line_has_all_of_them():
    found = timeline([batch(10), batch(4_000, 3_900, 3_800, 3_000)], now=NOW)
    assert (found.since, found.until) == (NOW - 4_000, NOW)
    for row in found.rows:
        assert row.spans[0].x >= LEFT
        assert row.end <= WIDTH + LEAST
        assert all(one.x <= other.x for one, other in zip(row.spans, row.spans[1:], strict=False))


@pytest.mark.parametrize("age", [1, 500, 5_000, 50_000, 500_000, 5_000_000])
def test_there_are_a_few_marks_however_long_the_line(age: int):
    found = timeline([batch(age)], now=NOW)
    assert 1 <= len(found.ticks) <= MOST_TICKS + 1
    assert found.until - found.since == max(age, SHORTEST)
    assert all(LEFT <= tick.x <= WIDTH for tick in found.ticks)


def test_no_batch_is_an_empty_line():
    assert timeline([], now=NOW).rows == ()


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (batch(9), "open"),
        (batch(9, 5, 3, 1), "committed"),
        (batch(9, 5, 3, halted="no such column"), "halted"),
        (batch(9, 5, 3, fencing=True), "being fenced"),
    ],
)
def test_the_word_for_a_batch(given: dict[str, Any], word: str):
    assert state(given) == word


GATHERS = Batch("01B", "flights", State.OPEN, NOW - 10, objects=3, bytes=20, notices=1)
SEALED = replace(GATHERS, state=State.SEALED, sealed_at=NOW - 5)
RUNS = replace(SEALED, state=State.SUBMITTED, submitted_at=NOW - 3, attempt=1, job_run="j1")


@pytest.mark.parametrize(
    ("given", "of", "words"),
    [
        (GATHERS, {}, "due in 4m at the latest, or when it is full"),
        (GATHERS, {"slots_taken": 1}, "due when a job of the route ends, or when it is full"),
        (GATHERS, {"paused": NOW}, "its route is paused, and it gathers on"),
        (SEALED, {}, "waits for a free slot"),
        (SEALED, {"paused": NOW}, "its route is paused"),
        (RUNS, {}, "attempt 1 is under way"),
        (replace(RUNS, job_run=""), {}, "attempt 1 has no job on record yet"),
        (replace(RUNS, halted="no such column"), {}, "waits for a person"),
        (replace(RUNS, fencing=True), {}, "attempt 1 gives it up"),
    ],
)
def test_how_a_batch_goes_on(given: Batch, of: dict[str, Any], words: str):
    uploads = Conservation(0, NO_TALLY, 0)
    status = RouteStatus(route("flights", max_wait=300), uploads, 0, 0, (given,), 0, 0, **of)
    assert what_next(given, status, now=NOW) == words


def test_times_are_read_as_they_are_written():
    assert seconds(iso(NOW)) == NOW

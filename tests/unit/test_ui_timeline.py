"""Batches on a line of time, and how they go on in words."""

from typing import Any

import pytest

from tidegate.core.times import iso
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


@pytest.mark.parametrize(
    ("given", "max_wait", "words"),
    [
        (batch(10), 300, "gathers for 4m at most"),
        (batch(280), 300, "due within 20s"),
        (batch(400), 300, "due: handed off when a slot is free"),
        (batch(400), None, "gathers"),
        (batch(9, 5), 60, "waits for a free slot"),
        (batch(9, 5, 3), 60, "attempt 1 is under way"),
        (batch(9, 5, 3, job_run=None), 60, "attempt 1, no job on record yet"),
        (batch(9, 5, 3, halted="no such column"), 60, "waits for a person"),
        (batch(9, 5, 3, fencing=True), 60, "attempt 1 gives it up"),
    ],
)
def test_how_a_batch_goes_on(given: dict[str, Any], max_wait: int | None, words: str):
    assert what_next(given, max_wait, now=NOW) == words


def test_times_are_read_as_they_are_written():
    assert seconds(iso(NOW)) == NOW

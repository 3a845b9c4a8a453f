"""The river: every upload is in it once, the smallest strand is seen, and the words say the same."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.ui.picture import (
    BOTTOM,
    DEPTH,
    FALLS,
    GATES,
    LEAST,
    TOP,
    WIDTH,
    Strand,
    Whereabouts,
    in_words,
    river,
    whereabouts,
)

PLACES = (*GATES, *FALLS, "committed")
NUMBERS = st.lists(st.integers(0, 10**7), min_size=len(PLACES), max_size=len(PLACES))


def there(*counts: int) -> Whereabouts:
    return Whereabouts(notified=sum(counts), **dict(zip(PLACES, counts, strict=True)))


def route(**changed: Any) -> dict[str, Any]:
    uploads = {
        "notified": 20, "committed": 10, "quarantined": 1, "superseded": 1, "vanished": 1, "dropped": 1, "pending": 6,
        "present": 0, "holds": True,
    }  # fmt: skip
    batches = [
        {"state": "OPEN", "halted": None, "objects": 1},
        {"state": "SEALED", "halted": None, "objects": 1},
        {"state": "SUBMITTED", "halted": None, "objects": 1},
        {"state": "SUBMITTED", "halted": "no such column", "objects": 1},
    ]
    return {"uploads": uploads, "unfinished": batches, **changed}


def test_every_upload_of_a_route_is_in_one_place():
    found = whereabouts(route())
    assert found == Whereabouts(20, 1, 1, 1, 1, 2, 1, 1, 1, 1, 10)
    assert sum(getattr(found, place) for place in PLACES) == found.notified
    assert found.moving == 3


def test_a_sealed_batch_that_has_halted_waits_for_a_person():
    halted = {"state": "SEALED", "halted": "its parts differ", "objects": 6}
    assert whereabouts(route(unfinished=[halted])).halted == 6


def test_sums_that_do_not_hold_stay_so_in_a_sum_of_routes():
    broken = whereabouts(route(uploads={**route()["uploads"], "pending": 2, "holds": False}))
    assert broken.abandoned == 0
    assert not (broken + there(*[1] * 10)).holds
    assert (there(*[1] * 10) + there(*[2] * 10)) == there(*[3] * 10)


@given(NUMBERS)
def test_a_strand_is_as_thick_as_its_share_and_none_is_too_thin_to_see(counts: list[int]):
    found = river(there(*counts))
    by_name = {strand.name: strand for strand in found.strands}
    assert by_name.keys() == {place for place, count in zip(PLACES, counts, strict=True) if count}
    for strand in found.strands:
        assert strand.thickness == max(LEAST, DEPTH * strand.count / sum(counts))
    assert found.depth <= DEPTH + LEAST * len(PLACES)


@given(NUMBERS)
def test_strands_lie_upon_each_other_and_leave_in_the_order_in_which_they_lie(counts: list[int]):
    found = river(there(*counts))
    tops = [float(re.match(r"M0 ([\d.]+)", strand.path)[1]) for strand in found.strands]  # type: ignore[index]
    assert tops == sorted(tops)
    assert not tops or tops[0] == TOP
    ends = [reach(strand) for strand in found.strands]
    assert ends == sorted(ends, reverse=True), "what lies lower leaves earlier, so nothing crosses"


def reach(strand: Strand) -> float:
    return {**GATES, **FALLS, "committed": WIDTH}[strand.name]


def test_what_falls_goes_down_and_what_is_committed_goes_through():
    found = {strand.name: strand.path for strand in river(there(*[5] * 10)).strands}
    assert f"H{WIDTH}V" in found["committed"]
    assert f"V{BOTTOM}" in found["quarantined"]
    assert "A" not in found["gathering"]


def test_the_numbers_stand_in_the_picture_also_where_nothing_is():
    found = river(there(0, 0, 3, 0, 0, 0, 0, 0, 0, 9))
    assert [(mark.name, mark.count) for mark in found.stages] == [
        ("notified", 12), ("gathering", 0), ("sealed", 0), ("submitted", 3), ("committed", 9),
    ]  # fmt: skip
    assert [mark.name for mark in found.falls] == list(FALLS)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((0, 0, 0, 0, 0, 0, 0, 0, 0, 0), "No upload was notified yet."),
        ((0, 0, 0, 0, 0, 0, 0, 0, 0, 7), "7 uploads notified: 7 committed."),
        (
            (2, 0, 1_000, 0, 0, 0, 0, 0, 1, 7),
            "1,010 uploads notified: 2 gathering, 1,000 submitted, 1 quarantined and 7 committed.",
        ),
    ],
)
def test_the_words_say_what_is_not_nothing(counts: tuple[int, ...], words: str):
    assert in_words(there(*counts)) == words
    assert river(there(*counts)).words == words

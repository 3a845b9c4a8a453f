"""What a job leaves behind, written and read."""

import gzip
import json

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ledgers import START
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.publication import Floor
from tidegate.core.receipts import (
    Ending,
    Failure,
    Outcomes,
    Receipt,
    decode_endings,
    decode_failure,
    decode_floor,
    decode_outcomes,
    decode_receipt,
    encode_floor,
    rows_by_part,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
COUNTS = st.integers(0, 2**60)
SNAPSHOTS = st.integers(-(2**63), 2**63 - 1)
TALLIES = st.builds(Tally, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
ROWS = st.lists(st.lists(st.integers(0, 2**60), min_size=1).map(tuple)).map(tuple)
ENDINGS = st.builds(Ending, TEXT, TEXT, TEXT, TEXT, st.sampled_from(Outcome), TEXT)


@given(SNAPSHOTS, st.booleans(), TALLIES, st.lists(ENDINGS), TEXT, ROWS)
def test_outcomes_survive_being_written_down(
    staged: int, fence: bool, tally: Tally, endings: list[Ending], manifest: str, rows: tuple[tuple[int, ...], ...]
):
    outcomes = Outcomes(staged, fence, tally, tuple(endings), manifest, rows)
    assert decode_outcomes(outcomes.encode()) == outcomes
    assert outcomes.encode() == Outcomes(staged, fence, tally, tuple(endings), manifest, rows).encode()


def test_the_rows_of_each_upload_are_no_ending_for_older_code():
    """It takes each line after the first for an ending, and of the first only the names that it knows."""
    ending = Ending("n", "b", "k", "v", Outcome.QUARANTINED, "no JSON")
    body = Outcomes(1, False, Tally(1, 1, rows=5), (ending,), "d", ((5, 0),)).encode()
    header, *lines = gzip.decompress(body).decode().splitlines()
    assert len(lines) == 1
    older = {"v", "staged", "fence", "tally", "manifest"}
    assert json.loads(header).keys() - older == {"rows"}
    assert json.loads(header)["v"] == 1


def test_rows_are_kept_by_part():
    assert rows_by_part([("n1", 3), ("n1", 0), ("n2", 7)]) == ((3, 0), (7,))
    assert rows_by_part([]) == ()


def test_the_rows_of_a_million_uploads_are_a_small_file():
    body = Outcomes(1, False, Tally(committed=1_000_000), rows=((1234,) * 1_000_000,)).encode()
    assert len(body) < 1_000_000
    assert decode_outcomes(body).rows[0][-1] == 1234


@given(st.builds(Receipt, TEXT, SNAPSHOTS, SNAPSHOTS, st.booleans(), TALLIES, TEXT))
def test_a_receipt_survives_being_written_down(receipt: Receipt):
    assert decode_receipt(receipt.encode()) == receipt


@given(st.builds(Failure, st.integers(1, 20), TEXT, st.booleans(), st.booleans()))
def test_a_failure_survives_being_written_down(failure: Failure):
    assert decode_failure(failure.encode()) == failure


@given(TEXT, SNAPSHOTS | st.none())
def test_a_floor_survives_being_written_down(uuid: str, head: int | None):
    assert decode_floor(encode_floor(Floor(uuid, head))) == Floor(uuid, head)


def test_the_floor_of_an_empty_table_is_not_that_of_snapshot_zero():
    assert decode_floor(encode_floor(Floor("u", None))) != decode_floor(encode_floor(Floor("u", 0)))


@pytest.mark.parametrize("error", ["line\nbreak", "separator\u2028", "next\x85line", "\x1c\x1d\x1e\x0b\x0c"])
def test_a_line_break_in_an_error_breaks_no_line(error: str):
    ending = Ending("n", "b", "k", "v", Outcome.QUARANTINED, error)
    body = Outcomes(1, False, Tally(quarantined=2), (ending, ending)).encode()
    assert decode_outcomes(body).endings == (ending, ending)
    assert len(gzip.decompress(body).decode().splitlines()) == 3


def test_outcomes_are_the_same_bytes_whenever_they_are_written():
    outcomes = Outcomes(1, False, Tally(committed=1))
    with time_machine.travel(START, tick=False) as time:
        written = outcomes.encode()
        time.shift(3600)
        assert outcomes.encode() == written


@pytest.mark.parametrize(("start", "size", "found"), [(0, 2, [2, 4, 5]), (3, 2, [5]), (4, 9, [5]), (5, 2, [])])
def test_endings_are_decoded_as_they_are_asked_for(start: int, size: int, found: list[int]):
    endings = tuple(Ending("n", "b", f"key-{number}", "v", Outcome.VANISHED, "") for number in range(5))
    body = Outcomes(1, False, Tally(vanished=5), endings).encode()
    portions = list(decode_endings(body, start, size))
    assert [done for done, _ in portions] == found
    assert tuple(each for _, portion in portions for each in portion) == endings[start:]


def test_outcomes_of_nothing_but_success_are_one_short_line():
    assert len(Outcomes(1, False, Tally(committed=1_000_000)).encode()) < 200

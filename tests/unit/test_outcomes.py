"""Tallies, and the invariant that they sum up to."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.outcomes import NO_TALLY, Conservation, Outcome, Tally
from tidegate.core.receipts import tally_of

COUNTS = st.integers(0, 10**9)
TALLIES = st.builds(Tally, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)


@given(TALLIES, TALLIES, TALLIES)
def test_tallies_add_up_in_any_order(one: Tally, two: Tally, three: Tally):
    assert one + two == two + one
    assert (one + two) + three == one + (two + three)
    assert one + NO_TALLY == one
    assert (one + two).uploads == one.uploads + two.uploads


@given(TALLIES)
def test_a_tally_survives_being_written_down(tally: Tally):
    assert Tally.from_dict(tally.as_dict()) == tally


def test_what_is_not_written_down_is_none():
    assert Tally.from_dict({}) == NO_TALLY
    assert Tally.from_dict({"committed": 3, "unknown": 5}) == Tally(committed=3)


def test_rows_are_no_uploads():
    assert Tally(1, 2, 3, 4, 5, 1000).uploads == 15


def test_every_outcome_has_its_place_in_the_tally():
    assert {outcome.value for outcome in Outcome} | {"rows", "rejected", "replaced", "left_out"} == set(
        NO_TALLY.as_dict()
    )


@given(st.lists(st.sampled_from(Outcome)), COUNTS)
def test_outcomes_are_counted(outcomes: list[Outcome], rows: int):
    tally = tally_of(outcomes, rows)
    assert tally.rows == rows
    assert tally.uploads == len(outcomes)
    for outcome in Outcome:
        assert tally.as_dict()[outcome] == outcomes.count(outcome)


@given(TALLIES, COUNTS)
def test_the_invariant_holds_exactly_when_every_upload_has_ended_or_is_pending(ended: Tally, pending: int):
    notified = ended.uploads + pending
    assert Conservation(notified, ended, pending).holds
    assert not Conservation(notified + 1, ended, pending).holds
    assert not Conservation(notified - 1, ended, pending).holds

"""What a table holds of a batch, judged against the ledger."""

import pytest

from tidegate.core.batches import Batch, State
from tidegate.core.outcomes import Tally
from tidegate.core.publication import Floor, History, Snapshot
from tidegate.core.reconcile import Holding, TableDifference, advice, is_fenced, judge_committed, judge_found


def batch(state: State, rows: int = 0) -> Batch:
    return Batch("01B", "flights", state, opened_at=1, tally=Tally(committed=1, rows=rows))


@pytest.mark.parametrize(
    ("committed", "held", "difference"),
    [
        (5, 5, None),
        # all its uploads were without rows, or ended otherwise
        (0, 0, None),
        (5, 0, TableDifference.MISSING),
        (5, 4, TableDifference.FEWER),
        (5, 6, TableDifference.MORE),
        (0, 1, TableDifference.MORE),
    ],
)
def test_a_committed_batch(committed, held, difference):
    assert judge_committed(committed, Holding(1, held)) is difference


@pytest.mark.parametrize(
    ("there", "remembered", "difference"),
    [
        (batch(State.OPEN), True, TableDifference.NOT_COMMITTED),
        (batch(State.SEALED), True, None),
        (batch(State.SUBMITTED), True, None),
        (batch(State.COMMITTED, rows=2), True, None),
        (batch(State.COMMITTED, rows=3), True, TableDifference.FEWER),
        (batch(State.ABANDONED), True, TableDifference.NOT_COMMITTED),
        (None, True, TableDifference.UNKNOWN),
        # the ledger has forgotten it, as it forgets every batch
        (None, False, None),
        (batch(State.ABANDONED), False, TableDifference.NOT_COMMITTED),
    ],
)
def test_a_batch_that_has_rows(there, remembered, difference):
    assert judge_found(there, Holding(1, 2), remembered=remembered) is difference


def test_holdings_add_up():
    assert Holding(1, 10) + Holding(2, 5) == Holding(3, 15)


def test_only_a_batch_without_any_row_may_be_rolled_back_and_landed_again():
    told = {each: advice(each, "01B", other="01C") for each in TableDifference}
    assert [each for each in told if "tidegate resend 01B" in told[each]] == [TableDifference.MISSING]
    assert all(told.values())
    assert len(set(told.values())) == len(TableDifference)
    assert "01C" in told[TableDifference.TWICE]


FENCED = History("u", (Snapshot(3, 2, frozenset({"01B"})), Snapshot(2, 1), Snapshot(1, None)))


@pytest.mark.parametrize(
    ("history", "floors", "fenced"),
    [
        (FENCED, [Floor("u", 1)], True),
        (History("u", FENCED.ancestors[1:]), [Floor("u", 1)], False),
        # the oldest floor is gone, a later one is not: a driver may use that
        (History("u", FENCED.ancestors[1:2]), [Floor("u", 0), Floor("u", 2)], False),
        # no driver publishes without its floor
        (History("u", FENCED.ancestors[1:2]), [Floor("u", 0)], True),
        (History("other", FENCED.ancestors[1:]), [Floor("u", 1)], True),
        (FENCED, [], True),
    ],
)
def test_a_fence(history, floors, fenced):
    assert is_fenced(history, "01B", floors) is fenced


@pytest.mark.parametrize(("held", "difference"), [(0, None), (1, TableDifference.FEWER), (6, TableDifference.MORE)])
def test_a_batch_that_was_sent_again_lacks_all_its_rows(held, difference):
    assert judge_committed(5, Holding(1, held), sent_again=True) is difference

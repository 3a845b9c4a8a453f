"""The outbox, on every store: what a committed batch leaves there, and how it is taken out."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.contract.test_ledger_faults import submitted
from tests.support.ledgers import SettableClock, racing
from tidegate.core.announcements import Announcement
from tidegate.core.batches import State
from tidegate.core.outcomes import Tally
from tidegate.core.receipts import Receipt
from tidegate.core.records import DAY
from tidegate.flows.ledger import Ledger

ROUTE = "flights"
TALLY = Tally(committed=1, rows=20)


def receipt(batch_id: str, *, fence: bool = False) -> Receipt:
    return Receipt(batch_id, 2**62, 76, fence, Tally() if fence else TALLY)


@pytest.fixture
def batch_id(ledger: Ledger) -> str:
    return submitted(ledger, lambda: "01B00001")


def test_a_committed_batch_is_in_the_outbox_with_what_its_event_says(
    ledger: Ledger, batch_id: str, clock: SettableClock
):
    assert ledger.outbox(10) == []
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id), announce=True)
    (event,) = ledger.outbox(10)
    assert event == Announcement(batch_id, ROUTE, "", 2**62, TALLY, clock.now)
    assert event.id == batch_id


@pytest.mark.parametrize(("fence", "announce"), [(True, True), (False, False)])
def test_a_fenced_batch_and_one_that_is_not_to_be_announced_are_not(
    ledger: Ledger, batch_id: str, fence: bool, announce: bool
):
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=fence), announce=announce)
    assert ledger.outbox(10) == []


def test_of_those_that_end_a_batch_at_once_one_writes_its_event(
    ledger: Ledger, another: Callable[[], Ledger], batch_id: str
):
    done = racing(*[lambda: another().commit(batch_id, ROUTE, receipt(batch_id), announce=True)] * 6)
    assert done.count(True) == 1
    assert len(ledger.outbox(10)) == 1


def test_what_was_announced_leaves_the_outbox_once_and_does_not_come_back(
    ledger: Ledger, another: Callable[[], Ledger], batch_id: str
):
    ledger.commit(batch_id, ROUTE, receipt(batch_id), announce=True)
    events = ledger.outbox(10)
    racing(*[lambda: another().note_announced(events)] * 4)
    assert ledger.outbox(10) == []
    # a late delivery of the same end writes nothing
    assert not another().commit(batch_id, ROUTE, receipt(batch_id), announce=True)
    assert ledger.outbox(10) == []
    batch = ledger.batch(batch_id)
    assert batch is not None
    assert batch.state is State.COMMITTED


def test_the_record_of_another_event_stays(ledger: Ledger, batch_id: str):
    ledger.commit(batch_id, ROUTE, receipt(batch_id), announce=True)
    (event,) = ledger.outbox(10)
    ledger.note_announced([replace(event, snapshot=5)])
    assert ledger.outbox(10) == [event]


def test_what_waits_does_not_expire(ledger: Ledger, batch_id: str, clock: SettableClock):
    ledger.commit(batch_id, ROUTE, receipt(batch_id), announce=True)
    clock.advance(1_000 * DAY)
    assert len(ledger.outbox(10)) == 1

"""The ledger's index is built: each record once, and the sums with the record of its batch."""

import pytest

from tests.support.build import BUCKET, upload
from tests.support.ledgers import racing
from tidegate.core import transitions
from tidegate.core.batches import Batch, State
from tidegate.core.items import Refused
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import ABANDONED, Outcome, Tally
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import WHOLE
from tidegate.core.transitions.index import whole_since
from tidegate.flows.ledger import Ledger

ROUTE = "flights"
ONE, OTHER = upload("flights/1.json"), upload("flights/2.json")
NOTICE = NoticeRecord("n1", ROUTE, "01B", "parts/n1-a.jsonl.gz", 2, 20, 0)
WAITS = Batch("01B", ROUTE, State.SEALED, 5, objects=2, bytes=20, notices=1, table="lake.t", manifest="d")
LANDED = Receipt("01B", 78, 76, False, Tally(committed=1, quarantined=1, rows=9), "d")
FENCED = Receipt("01B", 79, 79, True, Tally(), "d")


def ending(outcome: str = Outcome.QUARANTINED.value) -> Ending:
    return Ending("n1", BUCKET, ONE.key, ONE.version, outcome, "line 1")


def test_a_ledger_is_whole_when_somebody_says_so(ledger: Ledger):
    assert not ledger.is_whole()
    ledger.end_rebuild()
    ledger.end_rebuild()
    assert ledger.is_whole()
    ledger.begin_rebuild()
    assert not ledger.is_whole()


@pytest.mark.parametrize("was_whole", [False, True])
def test_a_request_to_begin_that_arrives_late_does_not_undo_the_end(ledger: Ledger, was_whole: bool):
    if was_whole:
        ledger.store.apply(transitions.end_rebuild(now=1))
    late = transitions.begin_rebuild(whole_since(ledger.store.get(WHOLE)))
    ledger.begin_rebuild()
    ledger.begin_rebuild()
    assert not ledger.is_whole()
    ledger.store.apply(transitions.end_rebuild(now=2))
    assert isinstance(ledger.store.apply(late), Refused)
    assert ledger.is_whole()


def test_a_notice_is_written_where_there_is_none(ledger: Ledger):
    other = NoticeRecord("n2", ROUTE, "01C", "parts/n2-a.jsonl.gz", 1, 10, 0)
    assert ledger.index_notices([NOTICE]) == {}
    there = ledger.index_notices([NoticeRecord("n1", ROUTE, "01C", "parts/n1-b.jsonl.gz", 1, 1, 0), other])
    assert {each: record.batch for each, record in there.items()} == {"n1": "01B"}
    found = ledger.notice("n1")
    assert found is not None
    assert (found.batch, found.part, found.objects, found.bytes) == ("01B", NOTICE.part, 2, 20)


def test_claims_are_written_with_their_endings_where_there_is_none(ledger: Ledger):
    assert ledger.index_claims("n1", [ONE], {ONE.identity: ending()}) == {}
    there = ledger.index_claims("n2", [ONE, OTHER], {})
    assert {each: claim.notice for each, claim in there.items()} == {ONE: "n1"}
    (claim,) = ledger.claims(BUCKET, ONE.key)
    assert (claim.outcome, claim.error, claim.sequencer) == ("quarantined", "line 1", ONE.sequencer)
    assert [each.outcome for each in ledger.claims(BUCKET, OTHER.key)] == [""]


def test_a_claim_moves_from_its_owner_only(ledger: Ledger):
    ledger.index_claims("n1", [ONE], {ONE.identity: ending()})
    assert not ledger.index_over("n3", ONE, None, owner="n2")
    assert ledger.index_over("n2", ONE, None, owner="n1")
    assert not ledger.index_over("n3", ONE, None, owner="n1")
    (claim,) = ledger.claims(BUCKET, ONE.key)
    assert (claim.notice, claim.outcome, claim.error) == ("n2", "", "")
    assert ledger.index_over("n3", ONE, ending(ABANDONED), owner="n2")
    (claim,) = ledger.claims(BUCKET, ONE.key)
    assert (claim.notice, claim.outcome) == ("n3", ABANDONED)


def test_a_batch_without_a_receipt_waits(ledger: Ledger):
    assert ledger.index_batch(WAITS, None, {})
    assert not ledger.index_batch(WAITS, LANDED, {})
    found, record = ledger.batch("01B"), ledger.route(ROUTE)
    assert found is not None
    assert (found.state, found.attempt, found.table, found.manifest) == (State.SEALED, 0, "lake.t", "d")
    assert (record.sealed, record.notified) == (("01B",), 0)
    assert ledger.begin_attempt("01B", ROUTE, 1, in_flight=1)


def test_a_batch_that_has_landed_is_counted_once_without_what_others_own(ledger: Ledger):
    assert ledger.index_batch(WAITS, LANDED, {"quarantined": 1}, announce=True)
    assert not ledger.index_batch(WAITS, LANDED, {"quarantined": 1}, announce=True)
    found, record = ledger.batch("01B"), ledger.route(ROUTE)
    assert found is not None
    assert (found.state, found.snapshot, found.tally) == (State.COMMITTED, 78, LANDED.tally)
    assert (record.unfinished, record.notified, record.tally, record.back) == ((), 2, LANDED.tally, {"quarantined": 1})
    assert record.quarantined_since == found.ended_at > 0
    assert [(each.batch, each.quarantined) for each in ledger.leftovers(ROUTE)] == [("01B", 1)]
    assert [each.batch for each in ledger.outbox(9)] == ["01B"]


def test_a_fenced_batch_is_abandoned_and_never_announced(ledger: Ledger):
    assert ledger.index_batch(WAITS, FENCED, {ABANDONED: 2}, announce=True)
    found, record = ledger.batch("01B"), ledger.route(ROUTE)
    assert found is not None
    assert found.state is State.ABANDONED
    assert (record.notified, record.abandoned_objects, record.back) == (2, 2, {ABANDONED: 2})
    assert [each.abandoned for each in ledger.leftovers(ROUTE)] == [2]
    assert ledger.outbox(9) == []


def test_of_two_at_once_one_counts(ledger: Ledger):
    done = racing(*[lambda: ledger.index_batch(WAITS, LANDED, {})] * 4)
    assert sorted(done) == [False, False, False, True]
    assert ledger.route(ROUTE).notified == 2

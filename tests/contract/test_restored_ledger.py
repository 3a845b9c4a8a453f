"""What every `flows.ports.Ledger` must do: put right what was forgotten, if it is still as it was read."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import notice, part_of, route, upload, uploads
from tests.support.ledgers import RETENTION, SettableClock, interrupted, racing
from tidegate.core.batches import Batch, State
from tidegate.core.manifests import Part
from tidegate.core.notices import Notice, NoticeRecord
from tidegate.core.outcomes import ABANDONED, Outcome
from tidegate.core.receipts import Ending
from tidegate.core.records import DAY
from tidegate.flows.ledger import Ledger, Registration
from tidegate.stores.memory import MemoryStore

ROUTE = "flights"
SEALED = Batch("01LOST", ROUTE, State.SEALED, 5, 3, 30, 2, sealed_at=6, table="lake.a.b", manifest="d")


@pytest.fixture
def batch(ledger: Ledger) -> Batch:
    numbers = itertools.count(1)
    return ledger.open_batch(ROUTE, lambda: f"01B{next(numbers):05}")


def join(ledger: Ledger, of: Notice, batch: Batch) -> Part:
    part = part_of(of)
    assert not ledger.claim(of).refused
    assert ledger.register(of, batch.id, part) is Registration.REGISTERED
    return part


def void(record: NoticeRecord) -> NoticeRecord:
    return NoticeRecord(record.id, record.route, "", "", 0, 0, 0)


def read(ledger: Ledger, notice_id: str) -> NoticeRecord:
    found = ledger.notice(notice_id)
    assert found is not None
    return found


# ---- claims


def test_the_claims_on_many_uploads_are_read_at_once(ledger: Ledger):
    many = uploads(130)
    ledger.claim(notice(*many))
    found = ledger.claims_on([*many, upload("flights/other.json")])
    assert found.keys() == {each.identity for each in many}
    assert {claim.notice for claim in found.values()} == {notice(*many).id}


def test_a_claim_that_is_missing_is_put_and_one_that_is_there_stays(ledger: Ledger):
    one, other = upload("flights/1.json"), upload("flights/2.json")
    ledger.claim(notice(one))
    refused = ledger.take_back("n-manifest", [one, other])
    assert [(each, claim.notice) for each, claim in refused] == [(one, notice(one).id)]
    assert ledger.claims_on([one, other])[other.identity].notice == "n-manifest"
    assert ledger.take_back("n-manifest", [other]) == ()


def test_a_claim_is_taken_from_an_owner_that_let_go(ledger: Ledger):
    one = upload("flights/1.json")
    ledger.claim(notice(one))
    assert ledger.void(notice(one).id, ROUTE)
    assert ledger.take_back("n-manifest", [one]) == ()
    assert ledger.claims_on([one])[one.identity].notice == "n-manifest"


def test_a_claim_is_not_taken_from_whoever_took_it_meanwhile(ledger: Ledger, another: Callable[[], Ledger]):
    one = upload("flights/1.json")
    first = notice(one)
    ledger.claim(first)
    assert ledger.void(first.id, ROUTE)
    taker = notice(one, origin="audit:1", takes_from=first.id)
    late = interrupted(ledger, lambda: another().claim(taker))
    assert [claim.notice for _, claim in late.take_back("n-manifest", [one])] == [taker.id]
    assert another().claims_on([one])[one.identity].notice == taker.id


def test_a_claim_of_its_own_stays_as_it_is_even_if_its_notice_is_void(ledger: Ledger, clock: SettableClock):
    one = upload("flights/1.json")
    ledger.claim(notice(one))
    ledger.void(notice(one).id, ROUTE)
    before = ledger.claims_on([one])
    clock.advance(60)
    assert ledger.take_back(notice(one).id, [one]) == ()
    assert ledger.claims_on([one]) == before


def test_an_ending_of_another_batch_goes_when_the_claim_is_taken_back(ledger: Ledger):
    one = upload("flights/1.json")
    ledger.claim(notice(one))
    ledger.record_endings([Ending(notice(one).id, one.bucket, one.key, one.version, ABANDONED, "")])
    assert ledger.take_back(notice(one).id, [one]) == ()
    assert ledger.claims_on([one])[one.identity].outcome == ""


def test_whether_an_owner_let_go_is_told(ledger: Ledger, batch: Batch):
    one = upload("flights/1.json")
    join(ledger, notice(one), batch)
    (claim,) = ledger.claims_on([one]).values()
    ended = replace(claim, outcome=Outcome.QUARANTINED)
    assert set(ledger.let_go([claim, ended])) == {ended}


# ---- notices


def test_a_forgotten_notice_is_registered_once(ledger: Ledger):
    record = NoticeRecord("n1", ROUTE, "01LOST", "parts/n1-a.jsonl.gz", 2, 20, 0)
    assert ledger.write_notice(record, None)
    assert not ledger.write_notice(replace(record, batch="01OTHER"), None)
    assert replace(read(ledger, "n1"), decided_at=0) == replace(record, uncounted=True)


def test_what_a_forgotten_notice_took_over_leaves_the_sums_once(ledger: Ledger, batch: Batch):
    first, other = notice("flights/1.json"), notice("flights/3.json")
    join(ledger, first, batch)
    one, two = upload("flights/1.json"), upload("flights/2.json")
    ledger.record_endings([Ending(first.id, one.bucket, one.key, one.version, ABANDONED, "")])
    record = NoticeRecord("n1", ROUTE, "01LOST", "parts/n1-a.jsonl.gz", 2, 20, 0)
    assert ledger.write_notice(record, None)
    assert not ledger.count_back("n1", [one, two]), "it has taken nothing over yet"
    assert ledger.take_back("n1", [one, two]) == ()
    assert ledger.count_back("n1", [one, two])
    assert not ledger.count_back("n1", [one, two])
    assert ledger.route(ROUTE).back == {ABANDONED: 1}
    # a notice that dispatch registered was counted then, and stays so if it is put right
    join(ledger, other, batch)
    there = read(ledger, other.id)
    assert ledger.write_notice(replace(there, batch="01LOST"), there)
    assert not read(ledger, other.id).uncounted
    # a void one was not
    assert ledger.write_notice(void(read(ledger, other.id)), read(ledger, other.id))
    assert not read(ledger, other.id).uncounted
    assert ledger.write_notice(there, read(ledger, other.id))
    assert read(ledger, other.id).uncounted


def test_a_notice_is_put_right_only_as_it_was_read(ledger: Ledger, batch: Batch):
    of = notice("flights/1.json")
    join(ledger, of, batch)
    there = read(ledger, of.id)
    assert not ledger.write_notice(void(there), replace(there, part="parts/another"))
    assert not ledger.write_notice(void(there), replace(there, batch="01OTHER"))
    assert ledger.write_notice(void(there), there)
    assert read(ledger, of.id).void
    assert not ledger.write_notice(void(there), there)
    assert ledger.write_notice(there, void(there))
    assert not ledger.write_notice(there, void(there))
    assert read(ledger, of.id).batch == batch.id


def test_when_a_notice_was_decided_stays_known(ledger: Ledger, batch: Batch, clock: SettableClock):
    of = notice("flights/1.json")
    join(ledger, of, batch)
    there = read(ledger, of.id)
    clock.advance(60)
    assert ledger.write_notice(replace(there, batch="01LOST"), there)
    assert read(ledger, of.id) == replace(there, batch="01LOST")


def test_a_notice_that_was_put_right_is_remembered_a_day_longer_than_its_claims(ledger: Ledger, clock: SettableClock):
    record = NoticeRecord("n1", ROUTE, "01LOST", "parts/n1-a.jsonl.gz", 2, 20, 0)
    assert ledger.write_notice(record, None)
    clock.advance(RETENTION + DAY - 1)
    assert set(ledger.notices(["n1"])) == {"n1"}
    clock.advance(1)
    assert ledger.notices(["n1"]) == {}


def test_an_open_batch_counts_a_withdrawn_notice_no_longer(ledger: Ledger, batch: Batch):
    kept, goes = notice("flights/1.json"), notice("flights/2.json", "flights/3.json")
    join(ledger, kept, batch)
    join(ledger, goes, batch)
    there = read(ledger, goes.id)
    assert ledger.write_notice(void(there), there, withdraw=True)
    found = ledger.batch(batch.id)
    assert found is not None
    assert (found.notices, found.objects, found.bytes) == (1, 1, 10)


def test_from_a_sealed_batch_nothing_is_withdrawn(ledger: Ledger, batch: Batch):
    of = notice("flights/1.json")
    join(ledger, of, batch)
    assert ledger.seal(batch.id, ROUTE)
    there = read(ledger, of.id)
    assert not ledger.write_notice(void(there), there, withdraw=True)
    assert read(ledger, of.id) == there


# ---- batches


def test_a_forgotten_batch_waits_for_its_slot_again(ledger: Ledger):
    assert ledger.restore_batch(SEALED, None)
    assert ledger.batch(SEALED.id) == SEALED
    assert ledger.route(ROUTE).sealed == (SEALED.id,)
    assert not ledger.restore_batch(SEALED, None)
    assert ledger.begin_attempt(SEALED.id, ROUTE, 1, in_flight=1)


def test_an_open_batch_becomes_sealed_and_its_route_is_free_for_another(ledger: Ledger, batch: Batch):
    join(ledger, notice("flights/1.json"), batch)
    there = ledger.batch(batch.id)
    assert there is not None
    becomes = replace(SEALED, id=batch.id)
    assert not ledger.restore_batch(becomes, batch), "somebody has joined since it was read"
    assert ledger.restore_batch(becomes, there)
    record = ledger.route(ROUTE)
    assert (record.open_batch, record.sealed, record.running) == ("", (batch.id,), ())
    assert ledger.open_batch(ROUTE, lambda: "01NEXT").id == "01NEXT"


@pytest.mark.parametrize(
    "changed", [{"state": State.SUBMITTED}, {"notices": 3}, {"objects": 4}], ids=lambda each: str(*each)
)
def test_a_batch_is_put_right_only_as_it_was_read(ledger: Ledger, changed: dict[str, Any]):
    assert ledger.restore_batch(SEALED, None)
    assert not ledger.restore_batch(replace(SEALED, manifest="other"), replace(SEALED, **changed))
    assert ledger.batch(SEALED.id) == SEALED


def test_a_submitted_batch_that_becomes_sealed_gives_its_slot_back(ledger: Ledger):
    running = replace(SEALED, state=State.SUBMITTED, attempt=1, submitted_at=7)
    assert ledger.restore_batch(running, None)
    assert ledger.restore_batch(SEALED, running)
    record = ledger.route(ROUTE)
    assert (record.sealed, record.running) == ((SEALED.id,), ())


def test_a_batch_with_a_receipt_is_submitted_whatever_it_was(ledger: Ledger):
    assert ledger.restore_batch(SEALED, None)
    becomes = replace(SEALED, state=State.SUBMITTED, attempt=1, submitted_at=7)
    assert ledger.restore_batch(becomes, SEALED)
    assert ledger.batch(SEALED.id) == becomes
    record = ledger.route(ROUTE)
    assert (record.open_batch, record.sealed, record.running) == ("", (), (SEALED.id,))


@pytest.mark.parametrize("becomes", [State.SEALED, State.SUBMITTED])
def test_a_batch_that_is_put_right_is_aside_no_more(ledger: Ledger, becomes: State):
    running = replace(SEALED, state=State.SUBMITTED, attempt=1, submitted_at=7)
    assert ledger.restore_batch(running, None)
    ledger.halt(SEALED.id, 1, "enough")
    assert ledger.step_aside(SEALED.id, ROUTE, 1)
    assert ledger.restore_batch(running if becomes is State.SUBMITTED else SEALED, running)
    found, record = ledger.batch(SEALED.id), ledger.route(ROUTE)
    assert found is not None
    assert (found.state, found.halted, found.halted_at, found.aside_at) == (becomes, "", 0, 0)
    assert (record.submitted, record.aside) == ((SEALED.id,) if becomes is State.SUBMITTED else (), ())


def test_another_open_batch_stays_open(ledger: Ledger, batch: Batch):
    assert ledger.restore_batch(SEALED, None)
    assert ledger.route(ROUTE).open_batch == batch.id


def test_of_two_that_restore_a_batch_one_does(ledger: Ledger):
    done = racing(lambda: ledger.restore_batch(SEALED, None), lambda: ledger.restore_batch(SEALED, None))
    assert sorted(done) == [False, True]
    assert ledger.route(ROUTE).sealed == (SEALED.id,)


# ---- versions


def test_every_record_says_which_version_wrote_it(clock: SettableClock):
    """A reader of older code stops instead of misreading it. Only a route's sums have none: updates alone make them."""
    store = MemoryStore()
    ledger = Ledger(store, clock, RETENTION)
    batch = ledger.open_batch(ROUTE, lambda: "01OPEN")
    ledger.claim(notice("flights/claimed.json"))
    ledger.register(notice("flights/1.json"), batch.id, part_of(notice("flights/1.json")))
    ledger.void("n-void", ROUTE)
    ledger.remember_route(route(ROUTE))
    ledger.take_back("n-manifest", [upload("flights/2.json")])
    ledger.write_notice(NoticeRecord("n1", ROUTE, "01LOST", "parts/n1-a.jsonl.gz", 2, 20, 0), None)
    ledger.restore_batch(SEALED, None)
    assert len(store.items) == 9
    assert [key.pk for key, item in store.items.items() if item.get("v") != 1] == [f"r#{ROUTE}"]

"""What is read of the ledger, and what becomes of uploads that were given up, on every store."""

from dataclasses import replace
from typing import Any

import pytest

from tests.contract.lives import (
    ROUTE,
    Another,
    abandoned_endings,
    given_up,
    join,
    join_new,
    keep_in_a_submitted_batch,
    let_go_by_dropping,
    owned_by,
    receipt,
    sealed_batches,
    submitted,
)
from tests.support.build import BUCKET, notice, part_of, upload
from tests.support.ledgers import RETENTION, SettableClock, racing
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import CountedAs
from tidegate.core.errors import Retryable
from tidegate.core.items import Transition, Update, Write
from tidegate.core.notices import Entry, make_notice
from tidegate.core.outcomes import DROPPED
from tidegate.core.records import DAY, RouteRecord, route_key
from tidegate.flows.ledger import Ledger
from tidegate.flows.store import NewId

# ---- reading


def test_what_is_unknown_is_absent(ledger: Ledger):
    assert ledger.notice("0" * 40) is None
    assert ledger.notices(["0" * 40]) == {}
    assert ledger.notices([]) == {}
    assert ledger.claims(BUCKET, "never uploaded") == []
    assert ledger.batch("01NEVER") is None
    assert ledger.route("new") == RouteRecord("new")


def test_more_than_a_hundred_notices_are_read_at_once(ledger: Ledger, batch: Batch):
    of = [notice(f"key{number}") for number in range(130)]
    for each in of[:120]:
        ledger.void(each.id, ROUTE)
    for each in of[120:125]:
        ledger.register(each, batch.id, part_of(each))
    found = ledger.notices([each.id for each in of] + [of[0].id])
    assert set(found) == {each.id for each in of[:125]}
    assert found[of[0].id].void
    assert found[of[120].id] == ledger.notice(of[120].id)


def test_a_notice_that_has_expired_is_absent_alone_and_among_others(ledger: Ledger, batch: Batch, clock: SettableClock):
    old = join(ledger, notice("old"), batch.id)
    clock.advance(RETENTION * 2)
    new = join(ledger, notice("new"), batch.id)
    assert ledger.notice(old.id) is None
    assert set(ledger.notices([old.id, new.id])) == {new.id}


def test_a_notice_is_remembered_longer_than_its_claims(ledger: Ledger, batch: Batch, clock: SettableClock):
    of = join(ledger, notice("a"), batch.id)
    clock.advance(RETENTION)
    assert ledger.claims(BUCKET, "a") == []
    assert ledger.notice(of.id).batch == batch.id


def test_that_a_notice_is_void_is_remembered_a_day_longer_than_its_claims(ledger: Ledger, clock: SettableClock):
    of = notice("a")
    ledger.claim(of)
    ledger.void(of.id, ROUTE)
    clock.advance(RETENTION + DAY - 1)
    assert ledger.claims(BUCKET, "a") == []
    assert ledger.notice(of.id).void
    clock.advance(1)
    assert ledger.notice(of.id) is None


def test_a_batch_is_remembered_longer_than_its_notices(ledger: Ledger, batch: Batch, clock: SettableClock):
    of = join(ledger, notice("a"), batch.id)
    submitted(ledger, batch.id)
    ledger.commit(batch.id, ROUTE, receipt(batch.id))
    while ledger.notice(of.id):
        clock.advance(12 * 3600)
    assert ledger.batch(batch.id).state is State.COMMITTED
    clock.advance(2 * RETENTION)
    assert ledger.batch(batch.id) is None


def test_a_batch_that_has_not_ended_is_never_forgotten(ledger: Ledger, batch: Batch, clock: SettableClock):
    join(ledger, notice("a"), batch.id)
    submitted(ledger, batch.id)
    clock.advance(100 * RETENTION)
    assert ledger.batch(batch.id).state is State.SUBMITTED


def test_refusals_are_counted_by_route(ledger: Ledger):
    ledger.refuse("one", 3)
    ledger.refuse("one", 4)
    ledger.refuse("two", 1)
    assert (ledger.route("one").refused, ledger.route("two").refused) == (7, 1)


def test_counting_refusals_races_and_loses_none(another: Another):
    racing(*[lambda: another().refuse(ROUTE, 2)] * 8)
    assert another().route(ROUTE).refused == 16


def test_a_route_lists_what_has_not_ended_by_age(ledger: Ledger, new_id: NewId):
    one, two, three = sealed_batches(ledger, new_id, 3)
    newest = join_new(ledger, new_id)
    ledger.begin_attempt(two, ROUTE, 1, in_flight=1)
    record = ledger.route(ROUTE)
    assert (record.open_batch, record.sealed, record.running) == (newest, (one, three), (two,))
    assert record.unfinished == (newest, one, three, two)


def test_a_notice_of_several_takeovers_keeps_them_apart(ledger: Ledger):
    first, second = notice("a"), notice("b")
    ledger.claim(first)
    ledger.claim(second)
    ledger.void(first.id, ROUTE)
    entries = [Entry(upload("a"), first.id), Entry(upload("b"), second.id), Entry(upload("c"))]
    claimed = ledger.claim(make_notice(ROUTE, BUCKET, "audit:1", entries))
    assert (claimed.owned, claimed.refused) == ((upload("a"), upload("c")), (upload("b"),))


# ---- what becomes of the uploads of an abandoned batch


def test_what_is_dropped_is_counted_once_with_its_route_and_its_leftover(
    ledger: Ledger, another: Another, new_id: NewId, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tidegate.core.transitions.MOST_DROPPED", 2)
    of = notice("a", "b", "c")
    ledger.claim(of)
    batch = given_up(ledger, of, new_id)
    assert ledger.drop(batch, ROUTE, owned_by(of)[:1]) == 1
    assert [process.drop(batch, ROUTE, owned_by(of)) for process in (ledger, another(), ledger)] == [2, 0, 0]
    assert ledger.route(ROUTE).dropped == 3
    assert [(each.batch, each.abandoned, each.dropped) for each in ledger.leftovers(ROUTE)] == [(batch, 3, 3)]
    assert {ledger.claims(BUCKET, key)[0].outcome for key in "abc"} == {DROPPED}


def test_only_what_is_abandoned_and_still_owned_is_dropped(ledger: Ledger, new_id: NewId, clock: SettableClock):
    of, free = notice("a", "b", "c", "d"), notice("e")
    for each in (of, free):
        ledger.claim(each)
    batch = given_up(ledger, of, new_id)
    taker = notice("b", origin="resend 1", takes_from=of.id)
    assert ledger.claim(taker).owned
    assert ledger.drop(batch, ROUTE, [*owned_by(of), *owned_by(free), *owned_by(notice("never"))]) == 3
    assert ledger.route(ROUTE).dropped == 3
    assert [ledger.claims(BUCKET, key)[0].outcome for key in "be"] == ["", ""]
    assert ledger.claims(BUCKET, "never") == []


def test_a_claim_that_has_expired_is_not_dropped_though_it_is_still_there(
    ledger: Ledger, new_id: NewId, clock: SettableClock
):
    of = notice("a")
    ledger.claim(of)
    batch = given_up(ledger, of, new_id)
    clock.advance(RETENTION)
    assert ledger.drop(batch, ROUTE, owned_by(of)) == 0
    assert ledger.route(ROUTE).dropped == 0


def test_a_slow_twin_of_settling_does_not_make_it_abandoned_again(ledger: Ledger, new_id: NewId):
    of = notice("a")
    ledger.claim(of)
    let_go_by_dropping(ledger, of, new_id)
    assert ledger.record_endings(abandoned_endings(of)) == ()
    assert ledger.claims(BUCKET, "a")[0].outcome == DROPPED


@pytest.mark.parametrize("_", range(6))
def test_dropping_and_taking_over_race_and_the_sums_know_which_was_first(another: Another, new_id: NewId, _: int):
    ledger = another()
    of = notice("a", "b", "c")
    ledger.claim(of)
    batch = given_up(ledger, of, new_id)
    taker = notice("a", "b", "c", origin="resend 1", takes_from=of.id)

    def take() -> None:
        process = another()
        for _ in range(5):
            try:
                process.claim(taker)
                return
            except Retryable:  # the message is delivered again
                pass

    racing(take, *[lambda: another().drop(batch, ROUTE, owned_by(of))] * 2)
    claimed = ledger.claim(taker)
    assert len(claimed.owned) == 3
    assert claimed.back.get(CountedAs(ROUTE, DROPPED), 0) == ledger.route(ROUTE).dropped
    assert sum(claimed.back.values()) == 3


def test_what_was_dropped_while_it_was_being_taken_over_is_tried_again(ledger: Ledger, another: Another, new_id: NewId):
    of = notice("a")
    ledger.claim(of)
    batch = given_up(ledger, of, new_id)
    taker = notice("a", origin="resend 1", takes_from=of.id)
    slow = another()
    real = slow.let_go

    def let_go(claims: Any, *arguments: Any, **named: Any) -> Any:
        found = real(claims, *arguments, **named)
        ledger.drop(batch, ROUTE, owned_by(of))
        return found

    object.__setattr__(slow, "let_go", let_go)
    with pytest.raises(Retryable, match="was dropped while it was being taken over"):
        slow.claim(taker)
    claimed = another().claim(taker)
    assert (len(claimed.owned), claimed.back) == (1, {CountedAs(ROUTE, DROPPED): 1})


def test_a_wish_is_noted_for_a_batch_that_is_given_up(ledger: Ledger, another: Another, new_id: NewId):
    of = notice("a")
    ledger.claim(of)
    batch = ledger.batch(given_up(ledger, of, new_id))
    assert batch is not None
    assert batch.wish is None
    for wish in (Wish.DROP, Wish.DROP, Wish.RESEND):
        assert ledger.wish(batch, wish)
        found = another().batch(batch.id)
        assert (found.wish, found.wished_parts) == (wish, 0)
        assert ledger.route(ROUTE).wished == (batch.id,)
        assert ledger.note_wish(batch.id, wish, 3)
        assert ledger.batch(batch.id).wished_parts == 3
    assert not ledger.note_wish(batch.id, Wish.DROP, 1), "there is another one by now"
    assert not ledger.end_wish(batch.id, ROUTE, Wish.DROP)
    assert not ledger.forget_wish(batch.id, ROUTE, there=True)
    assert ledger.route(ROUTE).wished == (batch.id,)
    assert ledger.end_wish(batch.id, ROUTE, Wish.RESEND)
    assert not ledger.end_wish(batch.id, ROUTE, Wish.RESEND)
    assert ledger.wish(batch, Wish.DROP, skips=True)
    assert ledger.batch(batch.id).skips
    assert not ledger.note_wish(batch.id, Wish.DROP, 1), "that one does not skip"
    assert not ledger.end_wish(batch.id, ROUTE, Wish.DROP)
    assert ledger.note_wish(batch.id, Wish.DROP, 1, skips=True)
    assert ledger.wish(batch, Wish.DROP)
    assert not ledger.batch(batch.id).skips
    assert not ledger.end_wish(batch.id, ROUTE, Wish.DROP, skips=True)
    assert ledger.wish(batch, Wish.DROP, skips=True)
    assert ledger.end_wish(batch.id, ROUTE, Wish.DROP, skips=True)
    assert not ledger.batch(batch.id).skips
    found = ledger.batch(batch.id)
    assert (found.wish, found.wished_parts, ledger.route(ROUTE).wished) == (None, 0, ())


@pytest.mark.parametrize("sealed", [True, False])
def test_a_fence_begins_with_its_wish(ledger: Ledger, new_id: NewId, sealed: bool):
    batch_id = join_new(ledger, new_id)
    assert ledger.seal(batch_id, ROUTE)
    if sealed:
        assert ledger.give_up(batch_id, ROUTE, Wish.DROP)
    else:
        assert ledger.begin_attempt(batch_id, ROUTE, 1, 1)
        assert ledger.resume(batch_id, ROUTE, 2, fencing=True, wish=Wish.DROP)
    batch = ledger.batch(batch_id)
    assert (batch.fencing, batch.wish, ledger.route(ROUTE).wished) == (True, Wish.DROP, (batch_id,))
    assert ledger.wish(batch, Wish.RESEND)
    ledger.halt(batch_id, batch.attempt, "no table")
    assert ledger.wish(batch, Wish.RESEND, skips=True)
    assert ledger.resume(batch_id, ROUTE, batch.attempt + 1, fencing=True)
    assert (ledger.batch(batch_id).wish, ledger.batch(batch_id).skips) == (Wish.RESEND, True), "it stays"
    ledger.halt(batch_id, batch.attempt + 1, "no table")
    assert ledger.resume(batch_id, ROUTE, batch.attempt + 2, fencing=True, wish=Wish.RESEND)
    assert not ledger.batch(batch_id).skips, "the last command counts"
    assert not ledger.wish(batch, Wish.DROP), "it has moved on"
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=True))
    assert (ledger.batch(batch_id).wish, ledger.route(ROUTE).wished) == (Wish.RESEND, (batch_id,))


@pytest.mark.parametrize("there", [True, False])
def test_a_wish_that_the_batch_does_not_have_is_forgotten(ledger: Ledger, new_id: NewId, there: bool):
    of = notice("a")
    ledger.claim(of)
    batch = ledger.batch(given_up(ledger, of, new_id))
    lost = batch if there else replace(batch, id="01GONE")
    ledger.store.apply(Transition("list", (Write(route_key(ROUTE), Update(joins={"wished": lost.id})),)))
    assert ledger.route(ROUTE).wished == (lost.id,)
    assert ledger.forget_wish(lost.id, ROUTE, there=there)
    assert ledger.route(ROUTE).wished == ()
    assert ledger.batch(batch.id) == batch
    assert ledger.batch("01GONE") is None


def test_that_rows_were_removed_is_noted_of_a_committed_batch(ledger: Ledger, another: Another, new_id: NewId):
    keep_in_a_submitted_batch(ledger, notice("a"), new_id)
    batch_id = ledger.route(ROUTE).running[0]
    assert not ledger.note_removed(batch_id), "it is not committed yet"
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id))
    before, sums = ledger.batch(batch_id), ledger.route(ROUTE)
    assert before is not None
    for _ in range(2):
        assert ledger.note_removed(batch_id)
        assert another().batch(batch_id) == replace(before, rows_removed=True)
        assert another().route(ROUTE) == sums
    assert ledger.note_removed(batch_id, sent=True)
    assert another().batch(batch_id) == replace(before, rows_removed=True, sent_again=True)
    assert not ledger.note_removed("01NONE")

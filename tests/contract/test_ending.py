"""A batch ends, and so do its uploads, on every store."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.contract.lives import (
    KEEPS,
    ROUTE,
    Another,
    Fate,
    abandoned,
    endings_of,
    ends_with,
    halted_batch,
    join,
    join_new,
    let_go_by_finding_it_gone,
    owner,
    receipt,
    sealed_batches,
    submitted,
    written,
)
from tests.support.build import BUCKET, ETAG, notice, upload, uploads
from tests.support.ledgers import RETENTION, SettableClock, racing
from tidegate.core.batches import Batch, State
from tidegate.core.notices import make_notice
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.receipts import Ending
from tidegate.core.records import DAY, Leftover, RouteRecord
from tidegate.core.unknown import UnknownNames
from tidegate.flows.ledger import Ledger
from tidegate.flows.store import NewId

# ---- ending


def test_a_committed_batch_leaves_its_sums_to_the_route(ledger: Ledger, new_id: NewId, clock: SettableClock):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    clock.advance(60)
    tally = Tally(committed=1, rows=1000)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=tally))
    found = ledger.batch(batch_id)
    assert (found.state, found.ended_at, found.snapshot, found.tally) == (State.COMMITTED, clock.now, 77, tally)
    assert ledger.route(ROUTE) == RouteRecord(ROUTE, jobs=1, notified=1, tally=tally, committed_batches=1)


def test_a_route_has_the_unknown_names_of_the_last_committed_batch_with_some(
    ledger: Ledger, new_id: NewId, clock: SettableClock
):
    """An abandoned batch says nothing of files."""
    odd = {"a.b[].é \"'`:#": 1, "...": 3}
    kept: list[Mapping[str, int]] = []
    for batch_id, names in zip(sealed_batches(ledger, new_id, 4), [odd, {}, {"coupon": 412}, None], strict=True):
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=9)
        ended = replace(receipt(batch_id, fence=names is None), unknown=UnknownNames(1, names or {}))
        assert ledger.commit(batch_id, ROUTE, ended)
        found = ledger.batch(batch_id)
        assert found is not None
        assert found.unknown == (names or {})
        kept.append(ledger.route(ROUTE).unknown)
    assert kept == [odd, odd, {"coupon": 412}, {"coupon": 412}]
    assert ledger.route(ROUTE).unknown_at == clock.now


def test_the_sums_of_batches_add_up(ledger: Ledger, new_id: NewId):
    tallies = [Tally(1, 2, 3, 4, 100), Tally(10, 0, 0, 0, 5), Tally(0, 0, 0, 1, 0)]
    for batch_id, tally in zip(sealed_batches(ledger, new_id, 3), tallies, strict=True):
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=9)
        assert ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=tally))
    record = ledger.route(ROUTE)
    assert record.tally == tallies[0] + tallies[1] + tallies[2]
    assert (record.notified, record.committed_batches, record.unfinished) == (3, 3, ())


def test_a_batch_is_committed_once(ledger: Ledger, another: Another, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    tally = Tally(committed=1, rows=10)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=tally))
    assert not ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=tally))
    assert not another().commit(batch_id, ROUTE, receipt(batch_id, fence=True))
    assert ledger.route(ROUTE).tally == tally
    assert ledger.batch(batch_id).state is State.COMMITTED


def test_of_many_that_race_to_commit_one_did_it(another: Another, new_id: NewId):
    (batch_id,) = sealed_batches(another(), new_id, 1)
    another().begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    tally = Tally(committed=1, rows=10)
    answers = racing(*[lambda: another().commit(batch_id, ROUTE, receipt(batch_id, tally=tally))] * 6)
    assert answers.count(True) == 1
    record = another().route(ROUTE)
    assert (record.tally, record.committed_batches, record.notified) == (tally, 1, 1)


def test_a_fence_abandons_its_batch_and_its_uploads_have_not_ended(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=True))
    assert ledger.batch(batch_id).state is State.ABANDONED
    expected = RouteRecord(ROUTE, jobs=1, notified=1, abandoned_batches=1, abandoned_objects=1)
    assert ledger.route(ROUTE) == expected


def test_a_halted_batch_that_was_published_after_all_is_committed(ledger: Ledger, new_id: NewId):
    batch_id = halted_batch(ledger, new_id)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=Tally(committed=1)))
    found = ledger.batch(batch_id)
    assert (found.state, found.halted) == (State.COMMITTED, "")


@pytest.mark.parametrize("state", ["open", "sealed", "never was"])
def test_only_a_submitted_batch_can_end(ledger: Ledger, new_id: NewId, state: str):
    batch_id = "01NEVER"
    if state == "open":
        batch_id = join_new(ledger, new_id)
    elif state == "sealed":
        (batch_id,) = sealed_batches(ledger, new_id, 1)
    before = ledger.batch(batch_id)
    assert not ledger.commit(batch_id, ROUTE, receipt(batch_id))
    assert ledger.batch(batch_id) == before


def test_a_batch_that_leaves_something_outside_is_found_by_its_leftover(
    ledger: Ledger, new_id: NewId, clock: SettableClock
):
    ended = {}
    for name, tally, fence in (
        ("whole", Tally(committed=1), False),
        ("bad", Tally(quarantined=1), False),
        ("gone", Tally(vanished=1), False),
        ("given up", Tally(), True),
    ):
        batch = ledger.open_batch(ROUTE, new_id)
        join(ledger, notice(name), batch.id)
        submitted(ledger, batch.id)
        assert ledger.commit(batch.id, ROUTE, receipt(batch.id, tally=tally, fence=fence))
        ended[name] = batch.id
    now = clock.now
    expected = [Leftover(ROUTE, ended["bad"], now, quarantined=1), Leftover(ROUTE, ended["given up"], now, abandoned=1)]
    assert ledger.leftovers(ROUTE) == expected
    assert ledger.leftovers("weather") == []
    clock.advance(RETENTION + DAY)
    assert ledger.leftovers(ROUTE) == expected, "as long as its batch"
    clock.advance(DAY)
    assert ledger.leftovers(ROUTE) == []


def test_the_first_batch_that_quarantines_something_says_since_when(
    ledger: Ledger, new_id: NewId, clock: SettableClock
):
    ends_with(ledger, new_id, "fine", Tally(committed=1))
    assert ledger.route(ROUTE).quarantined_since == 0
    ends_with(ledger, new_id, "bad", Tally(quarantined=1))
    first = clock.now
    clock.advance(60)
    ends_with(ledger, new_id, "worse", Tally(quarantined=1))
    assert (ledger.route(ROUTE).quarantined_since, ledger.route(ROUTE).quarantine_seen) == (first, -1)


def test_the_oldest_in_quarantine_moves_if_the_record_is_as_it_was_read(
    ledger: Ledger, new_id: NewId, clock: SettableClock
):
    ends_with(ledger, new_id, "bad", Tally(quarantined=1))
    read = ledger.route(ROUTE)
    assert ledger.note_oldest(read, read.quarantined_since + 60, 1)
    assert not ledger.note_oldest(read, read.quarantined_since + 90, 1), "a twin moved it"
    read = ledger.route(ROUTE)
    assert (read.quarantined_since, read.quarantine_seen) == (clock.now + 60, 1)
    # a batch ends meanwhile, and what it quarantined was not in what was read
    ends_with(ledger, new_id, "worse", Tally(quarantined=1))
    assert not ledger.note_oldest(read, 0, 2)
    # one that quarantines nothing is not in the way
    read = ledger.route(ROUTE)
    ends_with(ledger, new_id, "fine", Tally(committed=1))
    assert ledger.note_oldest(read, 0, 2)
    assert (ledger.route(ROUTE).quarantined_since, ledger.route(ROUTE).quarantine_seen) == (0, 2)
    assert not ledger.note_oldest(read, 5, 2), "a twin found that there is none"
    clock.advance(60)
    ends_with(ledger, new_id, "worst", Tally(quarantined=1))
    assert ledger.route(ROUTE).quarantined_since == clock.now
    read = replace(ledger.route(ROUTE), quarantined_since=0)
    assert not ledger.note_oldest(read, 5, 2), "what was read had none"


def test_a_batch_without_quarantine_any_more_is_noted_once_and_makes_no_leftover(ledger: Ledger, new_id: NewId):
    ends_with(ledger, new_id, "bad", Tally(quarantined=1))
    (left,) = ledger.leftovers(ROUTE)
    assert not left.emptied
    for _ in range(2):
        ledger.note_emptied(left)
        assert ledger.leftovers(ROUTE) == [replace(left, emptied=True)]
    ledger.note_emptied(replace(left, batch="01BNONE"))
    assert len(ledger.leftovers(ROUTE)) == 1


def test_a_paused_route_begins_no_batch_until_the_pause_ends(ledger: Ledger, another: Another, new_id: NewId):
    batch = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice("a"), batch.id)
    assert ledger.seal(batch.id, ROUTE)
    assert (ledger.pause(ROUTE), another().pause(ROUTE)) == (True, False)
    assert ledger.route(ROUTE).paused == ledger.clock()
    assert not another().begin_attempt(batch.id, ROUTE, 1, in_flight=10)
    assert (ledger.unpause(ROUTE), another().unpause(ROUTE)) == (True, False)
    assert not ledger.route(ROUTE).paused
    assert another().begin_attempt(batch.id, ROUTE, 1, in_flight=10)


def test_what_has_begun_goes_on_while_its_route_is_paused(ledger: Ledger, new_id: NewId):
    batch = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice("a"), batch.id)
    submitted(ledger, batch.id)
    assert ledger.pause(ROUTE)
    assert ledger.begin_attempt(batch.id, ROUTE, 2, in_flight=1)
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id, tally=Tally(committed=1)))


def test_commit_and_abort_race_and_the_batch_ends_once(another: Another, new_id: NewId):
    (batch_id,) = sealed_batches(another(), new_id, 1)
    another().begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    committed, fencing = racing(
        lambda: another().commit(batch_id, ROUTE, receipt(batch_id, tally=Tally(committed=1))),
        lambda: another().resume(batch_id, ROUTE, 2, fencing=True),
    )
    # a fence that is begun first may still find that a driver was faster: the table decides, and the receipt tells
    assert committed
    found = another().batch(batch_id)
    assert (found.state, found.fencing) == (State.COMMITTED, fencing)


# ---- endings


def test_how_an_upload_ended_is_written_into_its_claim(ledger: Ledger, batch: Batch):
    of = join(ledger, notice("bad", "gone", "good"), batch.id)
    submitted(ledger, batch.id)
    endings = [
        Ending(of.id, BUCKET, "bad", "v1", Outcome.QUARANTINED, "line 3 is no JSON"),
        Ending(of.id, BUCKET, "gone", "v1", Outcome.VANISHED, ""),
    ]
    assert ledger.record_endings(endings) == ()
    assert ledger.record_endings(endings) == ()
    found = {key: ledger.claims(BUCKET, key)[0] for key in ("bad", "gone", "good")}
    assert {key: (claim.outcome, claim.error) for key, claim in found.items()} == {
        "bad": ("quarantined", "line 3 is no JSON"),
        "gone": ("vanished", ""),
        "good": ("", ""),
    }
    assert {claim.notice for claim in found.values()} == {of.id}


def test_an_ending_is_written_only_for_the_owner(ledger: Ledger, batch: Batch):
    of = join(ledger, notice("a"), batch.id)
    ledger.record_endings([Ending("f" * 40, BUCKET, "a", "v1", Outcome.QUARANTINED, "another's")])
    assert ledger.claims(BUCKET, "a")[0].outcome == ""
    assert owner(ledger, upload("a")) == of.id


def test_an_ending_is_not_written_once_the_claim_was_taken_over(ledger: Ledger, batch: Batch):
    first = join(ledger, notice("a"), batch.id)
    abandoned(ledger, batch.id)
    taker = notice("a", origin="resend:1", takes_from=first.id)
    ledger.claim(taker)
    ledger.record_endings([Ending(first.id, BUCKET, "a", "v1", Outcome.QUARANTINED, "late")])
    (claim,) = ledger.claims(BUCKET, "a")
    assert (claim.notice, claim.outcome) == (taker.id, "")


def test_an_ending_makes_no_claim(ledger: Ledger):
    ledger.record_endings([Ending("f" * 40, BUCKET, "never claimed", "v1", Outcome.VANISHED, "")])
    assert ledger.batch("01B") is None
    assert ledger.claims(BUCKET, "never claimed") == []


def test_a_batch_that_has_ended_notes_no_more_endings(ledger: Ledger, batch: Batch):
    join(ledger, notice("a"), batch.id)
    submitted(ledger, batch.id)
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id))
    ledger.note_endings(batch.id, 7)
    assert ledger.batch(batch.id).endings == 0


def test_a_long_error_is_cut_between_two_characters(ledger: Ledger, batch: Batch):
    of = join(ledger, notice("a"), batch.id)
    ledger.record_endings([Ending(of.id, BUCKET, "a", "v1", Outcome.QUARANTINED, "x" + "é" * 500)])
    (claim,) = ledger.claims(BUCKET, "a")
    assert claim.error == "x" + "é" * 149  # of two bytes each; 300 are kept


def test_a_batch_notes_how_many_of_its_endings_are_written(ledger: Ledger, batch: Batch):
    join(ledger, notice("a", "b", "c"), batch.id)
    submitted(ledger, batch.id)
    assert ledger.batch(batch.id).endings == 0
    for done in (2, 2, 3):
        ledger.note_endings(batch.id, done)
        assert ledger.batch(batch.id).endings == done


@pytest.mark.parametrize("fate", KEEPS[:2], ids=lambda fate: fate.__name__)
def test_what_came_again_before_it_had_ended_is_told_to_whoever_records_that_it_did_not_land(
    ledger: Ledger, another: Another, new_id: NewId, fate: Fate
):
    first = notice(written("00A1"))
    ledger.claim(first)
    fate(ledger, first, new_id)
    for sequencer in ("00A3", "00A2", "00A3"):
        ledger.claim(notice(written(sequencer), origin=f"s3 {sequencer}"))
    ending = Ending(first.id, BUCKET, "a", f"etag:{ETAG}", Outcome.VANISHED, "")
    again = ledger.record_endings([ending])
    # the last of them, from the owner that lets go of it with this very write
    assert [(entry.upload.identity, entry.upload.sequencer, entry.takes_from) for entry in again] == [
        (written("").identity, "00A3", first.id)
    ]
    assert another().record_endings([ending]) == again
    made = make_notice(ROUTE, BUCKET, "again", again)
    assert ledger.claim(made).owned == (again[0].upload,)
    assert ledger.record_endings([ending]) == ()


def test_what_came_again_after_it_had_ended_is_nobody_elses_to_send(ledger: Ledger, new_id: NewId):
    first = notice(written("00A1"))
    ledger.claim(first)
    let_go_by_finding_it_gone(ledger, first, new_id)
    assert ledger.claim(notice(written("00A2"), origin="s3 again")).again != ()
    assert ledger.record_endings([Ending(first.id, BUCKET, "a", f"etag:{ETAG}", Outcome.VANISHED, "")]) == ()


def test_many_endings_are_written(ledger: Ledger):
    of = notice(*uploads(60))
    ledger.claim(of)
    ledger.record_endings(endings_of(of, Outcome.SUPERSEDED))
    assert all(ledger.claims(BUCKET, each.key)[0].outcome == "superseded" for each in uploads(60)[::7])

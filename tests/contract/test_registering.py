"""Decision 2, on every store: which batch a notice belongs to, or none."""

from dataclasses import replace

import pytest

from tests.contract.lives import ROUTE, Another, join, receipt, written
from tests.support.build import BUCKET, notice, part_of, route, upload
from tests.support.ledgers import RETENTION, SettableClock, interrupted, racing
from tidegate.core.batches import Batch, State
from tidegate.core.errors import Retryable
from tidegate.core.manifests import make_part
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Ending
from tidegate.flows.ledger import Ledger, Registration
from tidegate.flows.store import NewId

# ---- decision 2: registering


def test_a_notice_is_registered_and_counted_in_its_batch(ledger: Ledger, batch: Batch, clock: SettableClock):
    of = notice("a", "b")
    clock.advance(5)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    part = part_of(of)
    expected = NoticeRecord(of.id, ROUTE, batch.id, part.name, 2, 20, clock.now)
    assert ledger.notice(of.id) == expected
    assert not expected.void
    found = ledger.batch(batch.id)
    assert (found.objects, found.bytes, found.notices, found.state) == (2, 20, 1, State.OPEN)


def test_a_notice_that_owns_only_some_of_its_uploads_counts_those(ledger: Ledger, batch: Batch):
    of = notice(upload("a", size=3), upload("b", size=4))
    ledger.register(of, batch.id, make_part(of.id, BUCKET, [upload("b", size=4)]))
    found = ledger.batch(batch.id)
    assert (found.objects, found.bytes, found.notices) == (1, 4, 1)


def test_registering_the_same_again_is_registered_and_counts_once(ledger: Ledger, another: Another, batch: Batch):
    of = notice("a", "b")
    for process in (ledger, ledger, another()):
        assert process.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    assert (ledger.batch(batch.id).objects, ledger.batch(batch.id).notices) == (2, 1)


def test_registering_the_same_again_after_the_batch_was_sealed_is_still_registered(ledger: Ledger, batch: Batch):
    of = join(ledger, notice("a"), batch.id)
    assert ledger.seal(batch.id, ROUTE)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    assert ledger.batch(batch.id).notices == 1


def test_a_notice_registered_with_another_part_is_elsewhere(ledger: Ledger, batch: Batch):
    of = notice("a", "b")
    ledger.register(of, batch.id, part_of(of))
    smaller = part_of(of, [upload("a")])
    assert ledger.register(of, batch.id, smaller) is Registration.ELSEWHERE
    assert ledger.notice(of.id).part == part_of(of).name
    assert ledger.batch(batch.id).objects == 2


def test_a_notice_registered_in_another_batch_is_elsewhere(ledger: Ledger, batch: Batch, new_id: NewId):
    of = join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE)
    newer = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, newer.id, part_of(of)) is Registration.ELSEWHERE
    assert ledger.notice(of.id).batch == batch.id
    assert ledger.batch(newer.id).notices == 0


def test_a_void_notice_is_not_registered(ledger: Ledger, batch: Batch):
    of = notice("a")
    assert ledger.void(of.id, ROUTE)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.VOID
    assert ledger.notice(of.id).void
    assert ledger.batch(batch.id).notices == 0


@pytest.mark.parametrize("end", ["sealed", "submitted", "committed", "abandoned"])
def test_a_batch_that_is_not_open_takes_no_notice(ledger: Ledger, batch: Batch, end: str):
    join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE)
    if end != "sealed":
        ledger.begin_attempt(batch.id, ROUTE, 1, in_flight=1)
    if end in ("committed", "abandoned"):
        ledger.commit(batch.id, ROUTE, receipt(batch.id, fence=end == "abandoned"))
    late = notice("b")
    assert ledger.register(late, batch.id, part_of(late)) is Registration.BATCH_CLOSED
    assert ledger.notice(late.id) is None
    assert ledger.batch(batch.id).notices == 1


def test_a_batch_that_never_was_takes_no_notice(ledger: Ledger):
    of = notice("a")
    assert ledger.register(of, "01NEVER", part_of(of)) is Registration.BATCH_CLOSED
    assert ledger.batch("01NEVER") is None


def test_a_void_notice_is_void_whatever_became_of_the_batch(ledger: Ledger, batch: Batch):
    join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE)
    late = notice("b")
    ledger.void(late.id, ROUTE)
    assert ledger.register(late, batch.id, part_of(late)) is Registration.VOID


def test_a_notice_that_has_expired_can_be_registered_again(ledger: Ledger, batch: Batch, clock: SettableClock):
    of = join(ledger, notice("a"), batch.id)
    clock.advance(2 * RETENTION)
    assert ledger.notice(of.id) is None
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED


def test_twins_of_a_notice_that_race_register_once(another: Another, batch: Batch):
    of = notice("a", "b")
    answers = racing(*[lambda: another().register(of, batch.id, part_of(of))] * 6)
    assert set(answers) == {Registration.REGISTERED}
    assert (another().batch(batch.id).notices, another().batch(batch.id).objects) == (1, 2)


def test_twins_that_claimed_differently_and_race_register_once(another: Another, batch: Batch):
    of = notice("a", "b")
    parts = [part_of(of), part_of(of, [upload("a")])]
    answers = racing(*(lambda part=part: another().register(of, batch.id, part) for part in parts))
    assert sorted(answer.name for answer in answers) == ["ELSEWHERE", "REGISTERED"]
    winner = parts[answers.index(Registration.REGISTERED)]
    found = another().batch(batch.id)
    assert (found.notices, found.objects) == (1, winner.objects)
    assert another().notice(of.id).part == winner.name


@pytest.mark.parametrize("_", range(3))
def test_sealing_and_registering_race_and_the_header_counts_who_got_in(another: Another, batch: Batch, _: int):
    before = join(another(), notice("first"), batch.id)
    late = [notice(f"late{number}") for number in range(8)]
    *answers, sealed = racing(
        *(lambda of=of: another().register(of, batch.id, part_of(of)) for of in late),
        lambda: another().seal(batch.id, ROUTE),
    )
    assert sealed is True
    assert set(answers) <= {Registration.REGISTERED, Registration.BATCH_CLOSED}
    inside = [of for of, answer in zip(late, answers, strict=True) if answer is Registration.REGISTERED]
    found = another().batch(batch.id)
    assert (found.state, found.notices, found.objects) == (State.SEALED, 1 + len(inside), 1 + len(inside))
    records = another().notices([before.id, *(of.id for of in late)])
    assert set(records) == {before.id, *(of.id for of in inside)}


# ---- decision 2: voiding


def test_a_notice_that_is_undecided_can_be_voided_for_good(ledger: Ledger, another: Another, clock: SettableClock):
    of = notice("a")
    assert ledger.void(of.id, ROUTE)
    assert ledger.notice(of.id) == NoticeRecord(of.id, ROUTE, "", "", 0, 0, clock.now)
    clock.advance(60)
    assert another().void(of.id, ROUTE)
    assert ledger.notice(of.id).decided_at == clock.now - 60


def test_a_registered_notice_cannot_be_voided(ledger: Ledger, batch: Batch):
    of = join(ledger, notice("a"), batch.id)
    assert not ledger.void(of.id, ROUTE)
    assert ledger.notice(of.id).batch == batch.id


@pytest.mark.parametrize("_", range(3))
def test_voiding_and_registering_race_and_one_of_them_wins(another: Another, batch: Batch, _: int):
    of = [notice(f"key{number}") for number in range(6)]
    answers = racing(
        *(lambda each=each: another().register(each, batch.id, part_of(each)) for each in of),
        *(lambda each=each: another().void(each.id, ROUTE) for each in of),
    )
    registered = 0
    for each, registration, voided in zip(of, answers[:6], answers[6:], strict=True):
        assert registration in (Registration.REGISTERED, Registration.VOID)
        assert voided == (registration is Registration.VOID)
        assert another().notice(each.id).void == voided
        registered += not voided
    assert another().batch(batch.id).notices == registered


# ---- the open batch


def test_a_route_without_an_open_batch_gets_one(ledger: Ledger, another: Another, new_id: NewId, clock: SettableClock):
    batch = ledger.open_batch(ROUTE, new_id)
    assert batch == Batch("01B00001", ROUTE, State.OPEN, opened_at=clock.now)
    assert ledger.batch(batch.id) == batch
    assert ledger.route(ROUTE).open_batch == batch.id
    clock.advance(60)
    assert another().open_batch(ROUTE, new_id) == batch


def test_once_it_is_sealed_the_next_one_is_opened(ledger: Ledger, batch: Batch, new_id: NewId):
    join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE)
    assert ledger.route(ROUTE).open_batch == ""
    assert ledger.open_batch(ROUTE, new_id).id != batch.id


def test_each_route_has_an_open_batch_of_its_own(ledger: Ledger, new_id: NewId):
    assert ledger.open_batch("one", new_id).id != ledger.open_batch("two", new_id).id


@pytest.mark.parametrize("_", range(3))
def test_of_many_that_race_to_open_a_batch_one_wins_and_all_get_it(another: Another, new_id: NewId, _: int):
    batches = racing(*[lambda: another().open_batch(ROUTE, new_id)] * 8)
    assert len({batch.id for batch in batches}) == 1
    assert another().route(ROUTE).unfinished == (batches[0].id,)


def test_who_found_no_open_batch_and_is_overtaken_takes_the_one_that_was_opened(another: Another, new_id: NewId):
    """The same race, decided: the other one opens a batch after this one has read that there is none."""
    overtaken: list[Batch] = []

    def id_while_another_opens() -> str:
        if not overtaken:
            overtaken.append(another().open_batch(ROUTE, new_id))
        return new_id()

    assert another().open_batch(ROUTE, id_while_another_opens) == overtaken[0]
    assert another().route(ROUTE).unfinished == (overtaken[0].id,)


# ---- routes


def test_a_route_is_known_as_it_was_last_remembered(ledger: Ledger, another: Another):
    assert ledger.known_routes() == {}
    assert ledger.known_route(ROUTE) is None
    flights, weather = route(ROUTE), route("weather")
    for each in (flights, weather, flights):
        ledger.remember_route(each)
    changed = replace(flights, dataset=replace(flights.dataset, schema="id bigint, more string"))
    ledger.remember_route(changed)
    assert another().known_routes() == {ROUTE: changed, "weather": weather}
    assert another().known_route(ROUTE) == changed


def test_a_sealed_batch_keeps_its_table_and_its_manifest(ledger: Ledger, batch: Batch):
    join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE, "lake.raw.flights")
    assert ledger.note_manifest(batch.id, "digest")
    assert ledger.note_manifest(batch.id, "digest")
    assert not ledger.note_manifest(batch.id, "another")
    assert not ledger.note_manifest("01NOTHERE", "digest")
    found = ledger.batch(batch.id)
    assert found is not None
    assert (found.table, found.manifest) == ("lake.raw.flights", "digest")


def test_how_an_attempt_reads_is_fixed_once_and_anew_with_the_next_one(ledger: Ledger, batch: Batch):
    join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE)
    assert ledger.fix_dataset(batch.id, 0, "early") is None, "no attempt has begun"
    ledger.begin_attempt(batch.id, ROUTE, 1, 1)
    assert ledger.fix_dataset(batch.id, 1, "one") == "one"
    assert ledger.fix_dataset(batch.id, 1, "other") == "one"
    ledger.begin_attempt(batch.id, ROUTE, 2, 1)
    assert ledger.fix_dataset(batch.id, 1, "late") is None
    assert ledger.fix_dataset(batch.id, 2, "other") == "other"


# ---- what nobody may notice too late


def test_what_comes_again_after_its_ending_was_recorded_is_not_told_to_the_claim(ledger: Ledger, another: Another):
    """`later` written after the outcome would be read by nobody: whoever comes late must find the outcome instead."""
    first = notice(written("0001"))
    ledger.claim(first)
    again = notice(written("0002"))
    upload_again = again.entries[0].upload

    # another process records the ending after this one has looked, and before it writes
    def recorded() -> None:
        ending = Ending(first.id, BUCKET, upload_again.key, upload_again.version, Outcome.VANISHED, "gone")
        another().record_endings([ending])

    with pytest.raises(Retryable, match=f"{upload_again.key}.* changed while it was read; it will be tried again"):
        interrupted(ledger, recorded).claim(again)
    (claim,) = another().claims(BUCKET, upload_again.key)
    assert (claim.outcome, claim.later) == ("vanished", "")
    assert [entry.takes_from for entry in another().claim(again).again] == [first.id]


def test_what_comes_again_is_not_told_to_a_claim_that_was_taken_over_meanwhile(ledger: Ledger, another: Another):
    first, again = notice(written("0001")), notice(written("0002"))
    ledger.claim(first)
    taker = notice(written("0001"), origin="audit:1", takes_from=first.id)

    def taken() -> None:
        assert another().void(first.id, ROUTE)
        assert another().claim(taker).owned

    with pytest.raises(Retryable):
        interrupted(ledger, taken).claim(again)
    (claim,) = another().claims(BUCKET, written("0001").key)
    assert (claim.notice, claim.later) == (taker.id, "")


def test_a_claim_keeps_the_last_that_came_again_in_whatever_order_they_are_told(ledger: Ledger):
    ledger.claim(notice(written("0001")))
    for sequencer, later in (("0002", "0002"), ("0004", "0004"), ("0003", "0004"), ("0004", "0004")):
        assert ledger.claim(notice(written(sequencer))).refused
        (claim,) = ledger.claims(BUCKET, written("0001").key)
        assert (claim.sequencer, claim.later) == ("0001", later)


def test_of_a_take_over_the_answer_counts(ledger: Ledger, another: Another):
    """Two notices were made to take one upload over; the second one's put is refused, and it owns nothing."""
    first = notice("a")
    ledger.claim(first)
    ledger.void(first.id, ROUTE)
    one, other = (notice("a", origin=origin, takes_from=first.id) for origin in ("audit:1", "audit:2"))
    claimed = interrupted(ledger, lambda: another().claim(other)).claim(one)
    assert (claimed.owned, [each.key for each in claimed.refused]) == ((), ["a"])
    (claim,) = another().claims(BUCKET, "a")
    assert claim.notice == other.id

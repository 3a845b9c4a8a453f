"""Decision 1, on every store: which notice owns an upload, and who may take it over."""

from dataclasses import replace

import pytest

from tests.contract.lives import (
    AS_COUNTED,
    KEEPS,
    LETS_GO,
    ROUTE,
    Another,
    Fate,
    end_all,
    join,
    let_go_by_finding_it_gone,
    let_go_by_quarantining,
    owner,
    submitted,
    written,
)
from tests.support.build import BUCKET, notice, part_of, upload, uploads
from tests.support.ledgers import RETENTION, SettableClock, racing
from tidegate.core import transitions
from tidegate.core.batches import Batch
from tidegate.core.claims import CountedAs
from tidegate.core.items import Applied, Refused
from tidegate.core.notices import Entry, make_notice
from tidegate.core.outcomes import ABANDONED, Outcome
from tidegate.core.receipts import Ending
from tidegate.flows.ledger import Ledger, Registration
from tidegate.flows.store import NewId

# ---- decision 1: claiming


def test_a_new_upload_is_claimed(ledger: Ledger, clock: SettableClock):
    of = notice("a", "b")
    claimed = ledger.claim(of)
    assert claimed.owned == (upload("a"), upload("b"))
    assert claimed.refused == ()
    (claim,) = ledger.claims(BUCKET, "a")
    assert (claim.version, claim.notice, claim.outcome, claim.error) == ("v1", of.id, "", "")
    assert (claim.claimed_at, claim.expires_at) == (clock.now, clock.now + RETENTION)


def test_a_claim_that_names_my_notice_is_mine_again(ledger: Ledger, another: Another, clock: SettableClock):
    of = notice("a", "b")
    first = ledger.claim(of)
    clock.advance(3600)
    assert ledger.claim(of) == first
    assert another().claim(of) == first
    # and it is the first claim that stays
    assert ledger.claims(BUCKET, "a")[0].claimed_at == clock.now - 3600


def test_a_claim_that_names_another_notice_is_a_duplicate(ledger: Ledger):
    first, second = notice("a", "b"), notice("b", "c")
    ledger.claim(first)
    claimed = ledger.claim(second)
    assert (claimed.owned, claimed.refused) == ((upload("c"),), (upload("b"),))
    assert owner(ledger, upload("b")) == first.id


def test_the_versions_of_one_object_are_claimed_apart(ledger: Ledger):
    one, two = upload("a", "v1"), upload("a", "v2")
    ledger.claim(notice(one))
    assert ledger.claim(notice(one, two)).owned == (two,)
    assert {claim.version for claim in ledger.claims(BUCKET, "a")} == {"v1", "v2"}


def test_the_same_key_in_two_buckets_are_two_objects(ledger: Ledger):
    ledger.claim(notice(upload("a")))
    assert ledger.claim(notice(upload("a", bucket="elsewhere"))).refused == ()


def test_a_notice_of_many_uploads_is_claimed_whole_and_in_order(ledger: Ledger):
    of = notice(*uploads(150))
    assert ledger.claim(of).owned == tuple(entry.upload for entry in of.entries)


@pytest.mark.parametrize("key", ["k" * 1024, "😀" * 256, "a b+c%2B", "line\nbreak", "quote'\"", "nul\0"])
def test_any_key_can_be_claimed(ledger: Ledger, key: str):
    assert ledger.claim(notice(key)).owned == (upload(key),)
    assert len(ledger.claims(BUCKET, key)) == 1


def test_a_claim_that_has_expired_counts_as_absent_though_it_is_still_there(ledger: Ledger, clock: SettableClock):
    first, second = notice("a", origin="s3"), notice("a", origin="late")
    ledger.claim(first)
    clock.advance(RETENTION - 1)
    assert ledger.claim(second).refused == (upload("a"),)
    assert [claim.notice for claim in ledger.claims(BUCKET, "a")] == [first.id]
    clock.advance(1)
    assert ledger.claims(BUCKET, "a") == []
    assert ledger.claim(second).owned == (upload("a"),)
    assert owner(ledger, upload("a")) == second.id
    assert ledger.claim(first).refused == (upload("a"),)


def test_of_two_notices_that_race_for_an_upload_exactly_one_owns_it(another: Another):
    of = uploads(24)
    one, other = notice(*of, origin="one"), notice(*of, origin="other")
    first, second = racing(lambda: another().claim(one), lambda: another().claim(other))
    assert set(first.owned) | set(second.owned) == set(of)
    assert not set(first.owned) & set(second.owned)
    assert set(first.refused) == set(second.owned)
    assert set(second.refused) == set(first.owned)
    # and both still hold what they hold when they ask again
    assert another().claim(one) == first
    assert another().claim(other) == second


def test_two_deliveries_of_one_notice_that_race_both_own_everything(another: Another):
    of = notice(*uploads(24))
    first, second = racing(lambda: another().claim(of), lambda: another().claim(of))
    assert first == second
    assert first.refused == ()


# ---- decision 1: taking over


@pytest.mark.parametrize("fate", LETS_GO, ids=lambda fate: fate.__name__)
def test_a_notice_made_for_it_takes_over_from_an_owner_that_let_go(
    ledger: Ledger, another: Another, new_id: NewId, fate: Fate
):
    first = notice("a", "b")
    ledger.claim(first)
    fate(ledger, first, new_id)
    taker = notice("a", "b", origin="resend:1", takes_from=first.id)
    assert ledger.claim(taker).owned == (upload("a"), upload("b"))
    assert owner(ledger, upload("a")) == taker.id
    assert ledger.claims(BUCKET, "a")[0].outcome == ""  # how it ended for the first owner says nothing about the next
    # the taker's own retry, and a late delivery of the first
    assert another().claim(taker).refused == ()
    assert another().claim(first).owned == ()


@pytest.mark.parametrize("fate", KEEPS, ids=lambda fate: fate.__name__)
def test_no_notice_takes_over_from_an_owner_that_may_still_publish_or_has(ledger: Ledger, new_id: NewId, fate: Fate):
    first = notice("a", "b")
    ledger.claim(first)
    fate(ledger, first, new_id)
    taker = notice("a", "b", origin="resend:1", takes_from=first.id)
    assert ledger.claim(taker).refused == (upload("a"), upload("b"))
    assert owner(ledger, upload("a")) == first.id


@pytest.mark.parametrize("fate", LETS_GO, ids=lambda fate: fate.__name__)
def test_an_ordinary_notice_never_takes_over(ledger: Ledger, new_id: NewId, fate: Fate):
    first = notice("a", "b")
    ledger.claim(first)
    fate(ledger, first, new_id)
    assert ledger.claim(notice("a", "b", "c")).refused == (upload("a"), upload("b"))
    assert ledger.claim(notice("a", "b", origin="audit:1")).refused == (upload("a"), upload("b"))


def test_a_notice_takes_over_only_from_the_owner_that_it_names(ledger: Ledger):
    first = notice("a")
    ledger.claim(first)
    ledger.void(first.id, ROUTE)
    second = notice("a", origin="audit:1", takes_from=first.id)
    ledger.claim(second)
    ledger.void(second.id, ROUTE)
    # the first owner is void as well, but it is not the owner any more
    assert ledger.claim(notice("a", origin="audit:2", takes_from=first.id)).refused == (upload("a"),)
    assert ledger.claim(notice("a", origin="audit:2", takes_from=second.id)).owned == (upload("a"),)


def test_a_quarantined_upload_is_taken_over_and_its_neighbours_are_not(ledger: Ledger, batch: Batch):
    first = join(ledger, notice("bad", "good"), batch.id)
    submitted(ledger, batch.id)
    ledger.record_endings([Ending(first.id, BUCKET, "bad", "v1", Outcome.QUARANTINED, "no JSON")])
    taker = notice("bad", "good", origin="resend:1", takes_from=first.id)
    claimed = ledger.claim(taker)
    assert (claimed.owned, claimed.refused) == ((upload("bad"),), (upload("good"),))


def test_a_notice_that_would_take_over_claims_what_nobody_owns(ledger: Ledger):
    assert ledger.claim(notice("a", origin="audit:1", takes_from="f" * 40)).owned == (upload("a"),)


def test_of_two_notices_that_race_to_take_over_exactly_one_owns_each_upload(ledger: Ledger, another: Another):
    of = uploads(30)
    first = notice(*of)
    ledger.claim(first)
    ledger.void(first.id, ROUTE)
    one, other = (notice(*of, origin=origin, takes_from=first.id) for origin in ("audit:1", "audit:2"))
    claimed = racing(lambda: another().claim(one), lambda: another().claim(other))
    assert sorted(key for each in claimed for key in (found.key for found in each.owned)) == [each.key for each in of]
    for each in claimed:
        assert set(each.owned) | set(each.refused) == set(of)
    # the late original gets none of it back
    assert ledger.claim(first).owned == ()


def test_a_taker_and_a_twin_of_the_void_notice_never_both_own(ledger: Ledger, another: Another):
    of = uploads(30)
    first = notice(*of)
    ledger.claim(notice(*of[:15]))  # no: these belong to somebody else altogether
    ledger.claim(first)
    ledger.void(first.id, ROUTE)
    taker = notice(*of, origin="audit:1", takes_from=first.id)
    taken, late = racing(lambda: another().claim(taker), lambda: another().claim(first))
    # the void notice cannot be registered, so what it still believes to own does no harm; the taker owns for good
    assert set(taken.owned) == set(of[15:])
    assert set(late.owned) <= set(of[15:])
    assert all(owner(ledger, each) == taker.id for each in of[15:])


# ---- decision 1: the same bytes uploaded again


@pytest.mark.parametrize("fate", LETS_GO, ids=lambda fate: fate.__name__)
def test_the_same_bytes_that_came_again_later_are_for_a_notice_made_for_them(
    ledger: Ledger, another: Another, new_id: NewId, fate: Fate
):
    first = notice(written("00A1"))
    ledger.claim(first)
    fate(ledger, first, new_id)
    later = notice(written("00A2"), origin="s3 again")
    claimed = ledger.claim(later)
    # this very notice may not have it: of two twins one could come too early to see that the owner let go
    assert (claimed.owned, claimed.refused) == ((), ())
    assert claimed.again == (Entry(written("00A2"), takes_from=first.id),)
    assert another().claim(later) == claimed
    assert owner(ledger, written("00A1")) == first.id
    made = make_notice(ROUTE, BUCKET, "again", claimed.again)
    assert ledger.claim(made).owned == (written("00A2"),)
    (claim,) = ledger.claims(BUCKET, "a")
    assert (claim.notice, claim.sequencer, claim.outcome) == (made.id, "00A2", "")
    # from now on all of it is a duplicate
    assert ledger.claim(later).refused == (written("00A2"),)
    assert ledger.claim(first).refused == (written("00A1"),)


@pytest.mark.parametrize("fate", KEEPS, ids=lambda fate: fate.__name__)
def test_the_same_bytes_that_came_again_are_a_duplicate_while_the_first_may_land_or_has(
    ledger: Ledger, new_id: NewId, fate: Fate
):
    first = notice(written("00A1"))
    ledger.claim(first)
    fate(ledger, first, new_id)
    claimed = ledger.claim(notice(written("00A2"), origin="s3 again"))
    assert (claimed.refused, claimed.again) == ((written("00A2"),), ())


def test_the_same_bytes_that_came_again_are_a_duplicate_of_what_was_in_the_table(ledger: Ledger, new_id: NewId):
    """It ended as present, so its claim has an outcome, and yet nobody need send it again."""
    first = notice(written("00A1"))
    ledger.claim(first)
    end_all(ledger, first, new_id, Outcome.PRESENT)
    again = notice(written("00A2"), origin="s3 again")
    for _ in range(2):
        claimed = ledger.claim(again)
        assert (claimed.refused, claimed.again) == ((written("00A2"),), ())
    (claim,) = ledger.claims(BUCKET, "a")
    assert (claim.notice, claim.outcome, claim.later) == (first.id, "present", "00A2")


@pytest.mark.parametrize("outcome", [Outcome.QUARANTINED, Outcome.PRESENT])
def test_nothing_is_noted_in_a_claim_that_is_not_as_it_was_read(
    ledger: Ledger, another: Another, new_id: NewId, outcome: Outcome
):
    """Else settling would never read it, and nobody send the later upload."""
    first = notice(written("00A1"))
    ledger.claim(first)
    (before,) = ledger.claims(BUCKET, "a")
    end_all(ledger, first, new_id, outcome)
    (after,) = ledger.claims(BUCKET, "a")
    for read, told in ((before, Refused), (replace(after, outcome="vanished"), Refused), (after, Applied)):
        noted = transitions.note_again(read, written("00A2"), now=after.claimed_at, retention=RETENTION)
        (done,) = ledger.store.apply_each([noted])
        assert isinstance(done, told)


def test_a_claim_lives_on_while_its_bytes_come_again(ledger: Ledger, clock: SettableClock):
    ledger.claim(notice(written("00A1")))
    clock.advance(RETENTION - 10)
    again = notice(written("00A2"), origin="s3 again")
    assert ledger.claim(again).refused == (written("00A2"),)
    clock.advance(RETENTION - 10)
    # the notification of the second one is delivered once more, long after the first one would be forgotten
    assert ledger.claim(again).refused == (written("00A2"),)
    clock.advance(20)
    assert ledger.claim(again).owned == (written("00A2"),)


@pytest.mark.parametrize("sequencer", ["00A1", "00A0", "00a100", ""], ids=["same", "earlier", "same, longer", "none"])
def test_what_did_not_come_later_is_a_duplicate_even_of_what_was_let_go(ledger: Ledger, new_id: NewId, sequencer: str):
    first = notice(written("00A1"))
    ledger.claim(first)
    let_go_by_quarantining(ledger, first, new_id)
    claimed = ledger.claim(notice(written(sequencer), origin="s3 again"))
    assert (claimed.refused, claimed.again) == ((written(sequencer),), ())


def test_a_notice_may_own_refuse_and_pass_on_at_once(ledger: Ledger, new_id: NewId):
    first = notice(written("00A1", "gone"))
    ledger.claim(first)
    let_go_by_finding_it_gone(ledger, first, new_id)
    ledger.claim(notice(written("00A1", "theirs")))
    of = notice(written("00A2", "gone"), written("00A2", "theirs"), written("00A2", "new"))
    claimed = ledger.claim(of)
    assert claimed.owned == (written("00A2", "new"),)
    assert claimed.refused == (written("00A2", "theirs"),)
    assert claimed.again == (Entry(written("00A2", "gone"), takes_from=first.id),)


@pytest.mark.parametrize("fate", LETS_GO, ids=lambda fate: fate.__name__)
def test_what_is_taken_over_is_counted_as_come_back_once(ledger: Ledger, another: Another, new_id: NewId, fate: Fate):
    first = notice("a", "b")
    ledger.claim(first)
    fate(ledger, first, new_id)
    taker = notice("a", "b", "c", origin="resend 1", takes_from=first.id)
    expected = {AS_COUNTED[fate]: 2} if AS_COUNTED[fate] else {}
    for process in (ledger, another()):  # the second one finds its own claims
        assert process.claim(taker).back == expected
    batch = ledger.open_batch(ROUTE, new_id)
    for process in (ledger, ledger, another()):
        assert process.register(taker, batch.id, part_of(taker), expected) is Registration.REGISTERED
    assert dict(ledger.route(ROUTE).back) == {each.outcome: count for each, count in expected.items()}
    assert ledger.batch(batch.id).objects == 3


def test_what_a_void_notice_took_over_is_still_counted_as_before(ledger: Ledger, new_id: NewId):
    first = notice("a")
    ledger.claim(first)
    let_go_by_quarantining(ledger, first, new_id)
    second = notice("a", origin="resend 1", takes_from=first.id)
    ledger.claim(second)
    assert ledger.void(second.id, ROUTE)
    third = notice("a", origin="resend 2", takes_from=second.id)
    assert ledger.claim(third).back == {CountedAs(ROUTE, "quarantined"): 1}


def test_an_owner_that_is_forgotten_cannot_say_how_it_counted(
    ledger: Ledger, another: Another, new_id: NewId, clock: SettableClock
):
    first = notice(written("00A1"))
    ledger.claim(first)
    join(ledger, first, ledger.open_batch(ROUTE, new_id).id)
    clock.advance(RETENTION - 10)
    ledger.claim(notice(written("00A2"), origin="the same bytes"))  # the claim lives on, the notice does not
    clock.advance(RETENTION - 20)
    assert ledger.notice(first.id) is None
    ledger.record_endings([Ending(first.id, *written("").identity, Outcome.QUARANTINED, "")])
    taker = notice(written("00A2"), origin="resend 1", takes_from=first.id)
    claimed = ledger.claim(taker)
    assert (len(claimed.owned), claimed.back) == (1, {})


def test_uploads_of_several_routes_come_back_to_the_sums_that_they_left(ledger: Ledger, batch: Batch):
    of = notice("a", "b", "c")
    back = {CountedAs(ROUTE, "quarantined"): 1, CountedAs("weather", ABANDONED): 2}
    assert ledger.register(of, batch.id, part_of(of), back) is Registration.REGISTERED
    assert dict(ledger.route(ROUTE).back) == {"quarantined": 1}
    assert dict(ledger.route("weather").back) == {ABANDONED: 2}

"""What every `flows.ports.Ledger` must do, asked through the port and nothing else.

On moto it is quick to run everywhere; DynamoDB Local is what proves the races.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.build import BUCKET, ETAG, notice, part_of, route, upload, uploads
from tests.support.ledgers import RETENTION, SettableClock, interrupted, racing
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import CountedAs
from tidegate.core.errors import Retryable
from tidegate.core.items import Transition, Update, Write
from tidegate.core.manifests import OwnedUpload, make_part
from tidegate.core.notices import Entry, Notice, NoticeRecord, make_notice
from tidegate.core.outcomes import ABANDONED, DROPPED, NO_TALLY, Outcome, Tally
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import DAY, Leftover, RouteRecord, route_key
from tidegate.core.unknown import UnknownNames
from tidegate.core.uploads import Upload
from tidegate.flows.ledger import Ledger, Registration
from tidegate.flows.store import NewId

ROUTE = "flights"
Another = Callable[[], Ledger]


def ids() -> NewId:
    """Batch ids that sort by age, as ULIDs do."""
    numbers = itertools.count(1)
    return lambda: f"01B{next(numbers):05}"


@pytest.fixture
def new_id() -> NewId:
    return ids()


@pytest.fixture
def batch(ledger: Ledger, new_id: NewId) -> Batch:
    """The route's open batch, empty."""
    return ledger.open_batch(ROUTE, new_id)


def join(ledger: Ledger, of: Notice, batch_id: str) -> Notice:
    """The notice, having claimed everything and registered."""
    assert not ledger.claim(of).refused
    assert ledger.register(of, batch_id, part_of(of)) is Registration.REGISTERED
    return of


def submitted(ledger: Ledger, batch_id: str, *, attempts: int = 1) -> None:
    assert ledger.seal(batch_id, ROUTE)
    for attempt in range(1, attempts + 1):
        assert ledger.begin_attempt(batch_id, ROUTE, attempt, in_flight=10)


def receipt(batch_id: str, *, fence: bool = False, tally: Tally = NO_TALLY) -> Receipt:
    return Receipt(batch_id, snapshot=77, staged=76, fence=fence, tally=tally)


def abandoned(ledger: Ledger, batch_id: str) -> None:
    submitted(ledger, batch_id)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=True))


def owner(ledger: Ledger, of: Upload) -> str:
    """The notice that owns the upload."""
    (claim,) = (claim for claim in ledger.claims(of.bucket, of.key) if claim.version == of.version)
    return claim.notice


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


def let_go_by_voiding(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    assert ledger.void(of.id, ROUTE)


def let_go_by_abandoning(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    batch = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    abandoned(ledger, batch.id)


def end_all(ledger: Ledger, of: Notice, new_id: NewId, outcome: Outcome) -> None:
    batch = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    submitted(ledger, batch.id)
    ledger.record_endings(endings_of(of, outcome))
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id, tally=Tally(quarantined=len(of.entries))))


def endings_of(of: Notice, outcome: Outcome) -> list[Ending]:
    """All uploads of the notice ended so."""
    found = (entry.upload for entry in of.entries)
    return [Ending(of.id, each.bucket, each.key, each.version, outcome, "as told") for each in found]


def let_go_by_quarantining(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    end_all(ledger, of, new_id, Outcome.QUARANTINED)


def let_go_by_finding_it_gone(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    end_all(ledger, of, new_id, Outcome.VANISHED)


def let_go_by_finding_it_overwritten(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    end_all(ledger, of, new_id, Outcome.SUPERSEDED)


def given_up(ledger: Ledger, of: Notice, new_id: NewId) -> str:
    """The notice's batch is abandoned, and its claims say so."""
    batch = ledger.open_batch(ROUTE, new_id)
    assert ledger.register(of, batch.id, part_of(of)) is Registration.REGISTERED
    submitted(ledger, batch.id)
    ledger.record_endings(abandoned_endings(of))
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id, fence=True))
    return batch.id


def abandoned_endings(of: Notice) -> list[Ending]:
    return [replace(each, outcome=ABANDONED, error="") for each in endings_of(of, Outcome.VANISHED)]


def owned_by(of: Notice) -> list[OwnedUpload]:
    return [OwnedUpload(of.id, entry.upload) for entry in of.entries]


def let_go_by_dropping(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    batch = given_up(ledger, of, new_id)
    assert ledger.drop(batch, ROUTE, owned_by(of)) == len(of.entries)


def keep_undecided(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    pass


def keep_in_an_open_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    ledger.register(of, ledger.open_batch(ROUTE, new_id).id, part_of(of))


def keep_in_a_sealed_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_an_open_batch(ledger, of, new_id)
    assert ledger.seal(ledger.route(ROUTE).open_batch, ROUTE)


def keep_in_a_submitted_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_an_open_batch(ledger, of, new_id)
    submitted(ledger, ledger.route(ROUTE).open_batch)


def keep_in_a_halted_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_submitted_batch(ledger, of, new_id)
    ledger.halt(ledger.route(ROUTE).running[0], 1, "out of attempts")


def keep_in_a_batch_that_stepped_aside(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_halted_batch(ledger, of, new_id)
    assert ledger.step_aside(ledger.route(ROUTE).running[0], ROUTE, 1)


def keep_in_a_batch_being_fenced(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_halted_batch(ledger, of, new_id)
    assert ledger.resume(ledger.route(ROUTE).running[0], ROUTE, 2, fencing=True)


def keep_in_a_committed_batch(ledger: Ledger, of: Notice, new_id: NewId) -> None:
    keep_in_a_submitted_batch(ledger, of, new_id)
    batch_id = ledger.route(ROUTE).running[0]
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=Tally(committed=len(of.entries))))


LETS_GO = [
    let_go_by_voiding,
    let_go_by_abandoning,
    let_go_by_quarantining,
    let_go_by_finding_it_gone,
    let_go_by_finding_it_overwritten,
    let_go_by_dropping,
]
KEEPS = [
    keep_undecided,
    keep_in_an_open_batch,
    keep_in_a_sealed_batch,
    keep_in_a_submitted_batch,
    keep_in_a_halted_batch,
    keep_in_a_batch_that_stepped_aside,
    keep_in_a_batch_being_fenced,
    keep_in_a_committed_batch,
]
Fate = Callable[[Ledger, Notice, NewId], None]


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


def written(sequencer: str, key: str = "a") -> Upload:
    """An upload to an unversioned bucket: its bytes name it, its sequencer says when."""
    return Upload(BUCKET, key, f"etag:{ETAG}", 10, sequencer)


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


AS_COUNTED = {
    let_go_by_dropping: CountedAs(ROUTE, DROPPED),
    let_go_by_voiding: None,
    let_go_by_abandoning: CountedAs(ROUTE, ABANDONED),
    let_go_by_quarantining: CountedAs(ROUTE, "quarantined"),
    let_go_by_finding_it_gone: CountedAs(ROUTE, "vanished"),
    let_go_by_finding_it_overwritten: CountedAs(ROUTE, "superseded"),
}


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


# ---- sealing


def test_a_sealed_batch_waits_in_its_route(ledger: Ledger, batch: Batch, clock: SettableClock):
    join(ledger, notice("a"), batch.id)
    clock.advance(60)
    assert ledger.seal(batch.id, ROUTE)
    found = ledger.batch(batch.id)
    assert (found.state, found.sealed_at, found.objects) == (State.SEALED, clock.now, 1)
    assert ledger.route(ROUTE) == RouteRecord(ROUTE, open_batch="", sealed=(batch.id,))


def test_an_empty_batch_is_not_sealed(ledger: Ledger, batch: Batch):
    assert not ledger.seal(batch.id, ROUTE)
    assert ledger.batch(batch.id).state is State.OPEN
    assert ledger.route(ROUTE).open_batch == batch.id


def test_a_batch_is_sealed_once(ledger: Ledger, batch: Batch, clock: SettableClock):
    join(ledger, notice("a"), batch.id)
    assert ledger.seal(batch.id, ROUTE)
    clock.advance(60)
    assert not ledger.seal(batch.id, ROUTE)
    assert ledger.batch(batch.id).sealed_at == clock.now - 60


def test_sealing_an_old_batch_again_leaves_the_new_one_open(ledger: Ledger, batch: Batch, new_id: NewId):
    join(ledger, notice("a"), batch.id)
    ledger.seal(batch.id, ROUTE)
    newer = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice("b"), newer.id)
    assert not ledger.seal(batch.id, ROUTE)
    assert ledger.route(ROUTE).open_batch == newer.id


def test_a_batch_that_never_was_is_not_sealed(ledger: Ledger):
    assert not ledger.seal("01NEVER", ROUTE)
    assert ledger.batch("01NEVER") is None
    assert ledger.route(ROUTE) == RouteRecord(ROUTE)


def test_of_many_that_race_to_seal_one_did_it(another: Another, batch: Batch):
    join(another(), notice("a"), batch.id)
    answers = racing(*[lambda: another().seal(batch.id, ROUTE)] * 6)
    assert answers.count(True) == 1
    assert another().route(ROUTE).sealed == (batch.id,)


# ---- attempts


def sealed_batches(ledger: Ledger, new_id: NewId, count: int) -> list[str]:
    found = []
    for _ in range(count):
        batch = ledger.open_batch(ROUTE, new_id)
        join(ledger, notice(f"of {batch.id}"), batch.id)
        assert ledger.seal(batch.id, ROUTE)
        found.append(batch.id)
    return found


def test_a_sealed_batch_is_submitted(ledger: Ledger, new_id: NewId, clock: SettableClock):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    clock.advance(60)
    assert ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    found = ledger.batch(batch_id)
    assert (found.state, found.attempt, found.submitted_at, found.job_run) == (State.SUBMITTED, 1, clock.now, "")
    record = ledger.route(ROUTE)
    assert (record.sealed, record.running, record.jobs) == ((), (batch_id,), 1)


def test_an_open_batch_is_not_submitted(ledger: Ledger, batch: Batch):
    join(ledger, notice("a"), batch.id)
    assert not ledger.begin_attempt(batch.id, ROUTE, 1, in_flight=1)
    assert ledger.batch(batch.id).state is State.OPEN


def test_attempts_begin_one_after_the_other(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=9)
    assert ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=9)
    assert not ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=9)
    assert not ledger.begin_attempt(batch_id, ROUTE, 3, in_flight=9)
    assert ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=9)
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=9)
    assert ledger.batch(batch_id).attempt == 2
    assert ledger.route(ROUTE).jobs == 2


def test_the_next_attempt_has_no_job_yet_and_needs_no_further_slot(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    assert ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).job_run == ""
    assert ledger.route(ROUTE).running == (batch_id,)


def test_no_more_batches_are_submitted_than_there_are_slots(ledger: Ledger, new_id: NewId):
    one, two, three = sealed_batches(ledger, new_id, 3)
    assert ledger.begin_attempt(one, ROUTE, 1, in_flight=2)
    assert ledger.begin_attempt(two, ROUTE, 1, in_flight=2)
    assert not ledger.begin_attempt(three, ROUTE, 1, in_flight=2)
    assert ledger.batch(three).state is State.SEALED
    assert ledger.commit(one, ROUTE, receipt(one))
    assert ledger.begin_attempt(three, ROUTE, 1, in_flight=2)


@pytest.mark.parametrize("slots", [1, 2])
def test_slots_hold_in_a_race(another: Another, new_id: NewId, slots: int):
    waiting = sealed_batches(another(), new_id, 6)
    answers = racing(
        *(
            lambda batch_id=batch_id: another().begin_attempt(batch_id, ROUTE, 1, in_flight=slots)
            for batch_id in waiting
        )
    )
    assert answers.count(True) == slots
    record = another().route(ROUTE)
    assert (len(record.running), len(record.sealed), record.jobs) == (slots, 6 - slots, slots)
    for batch_id in waiting:
        expected = State.SUBMITTED if batch_id in record.running else State.SEALED
        assert another().batch(batch_id).state is expected


@pytest.mark.parametrize("attempt", [1, 2])
def test_of_many_that_race_to_begin_an_attempt_one_did_it(another: Another, new_id: NewId, attempt: int):
    (batch_id,) = sealed_batches(another(), new_id, 1)
    for earlier in range(1, attempt):
        assert another().begin_attempt(batch_id, ROUTE, earlier, in_flight=9)
    answers = racing(*[lambda: another().begin_attempt(batch_id, ROUTE, attempt, in_flight=9)] * 6)
    assert answers.count(True) == 1
    assert another().route(ROUTE).jobs == attempt


def test_a_halted_batch_gets_no_attempt(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, 1, "enough")
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).attempt == 1


def test_a_batch_that_has_ended_gets_no_attempt(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.commit(batch_id, ROUTE, receipt(batch_id))
    assert not ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).state is State.COMMITTED


def test_the_first_job_run_of_an_attempt_is_the_one_on_record(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    ledger.record_job(batch_id, 1, "job-2")
    assert ledger.batch(batch_id).job_run == "job-1"


def test_the_job_run_of_another_attempt_is_not_recorded(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.record_job(batch_id, 1, "too early")
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    ledger.record_job(batch_id, 1, "too late")
    assert ledger.batch(batch_id).job_run == ""
    ledger.record_job(batch_id, 2, "job-2")
    assert ledger.batch(batch_id).job_run == "job-2"


def test_a_job_run_is_not_recorded_for_a_batch_that_never_was(ledger: Ledger):
    ledger.record_job("01NEVER", 1, "job")
    assert ledger.batch("01NEVER") is None


# ---- halting


def halted_batch(ledger: Ledger, new_id: NewId) -> str:
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    ledger.halt(batch_id, 1, "the table is gone")
    return batch_id


def test_a_halted_batch_says_why_and_keeps_its_slot(ledger: Ledger, new_id: NewId):
    batch_id = halted_batch(ledger, new_id)
    found = ledger.batch(batch_id)
    assert (found.state, found.halted, found.attempt) == (State.SUBMITTED, "the table is gone", 1)
    assert ledger.route(ROUTE).running == (batch_id,)


def test_only_the_attempt_that_failed_halts_its_batch(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    ledger.halt(batch_id, 1, "of the attempt before")
    assert ledger.batch(batch_id).halted == ""


def test_a_batch_that_has_ended_is_not_halted(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.commit(batch_id, ROUTE, receipt(batch_id))
    ledger.halt(batch_id, 1, "too late")
    assert ledger.batch(batch_id).halted == ""


def test_a_reason_of_any_length_halts(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, 1, "😀" * 500_000)
    assert ledger.batch(batch_id).halted.startswith("😀" * 100)


@pytest.mark.parametrize("attempt", [0, 1], ids=["sealed", "submitted"])
def test_a_batch_has_halted_since_its_first_reason(ledger: Ledger, new_id: NewId, clock: SettableClock, attempt: int):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    if attempt:
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, attempt, "a part is missing")
    since = clock.now
    clock.advance(60)
    ledger.halt(batch_id, attempt, "another part is missing")
    found = ledger.batch(batch_id)
    assert (found.halted, found.halted_at) == ("another part is missing", since)


def test_who_must_decide_goes_with_the_reason(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, 1, "the table cannot say", undecided=True)
    assert ledger.batch(batch_id).undecided
    ledger.halt(batch_id, 1, "its files differ")
    assert not ledger.batch(batch_id).undecided
    ledger.halt(batch_id, 1, "the table cannot say", undecided=True)
    ledger.resume(batch_id, ROUTE, 2, fencing=False)
    assert not ledger.batch(batch_id).undecided


def goes_on_by_itself(ledger: Ledger, batch_id: str) -> bool:
    return ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)


def is_given_up(ledger: Ledger, batch_id: str) -> bool:
    return ledger.give_up(batch_id, ROUTE)


def is_resumed(ledger: Ledger, batch_id: str) -> bool:
    return ledger.resume(batch_id, ROUTE, 2, fencing=False)


def is_published(ledger: Ledger, batch_id: str) -> bool:
    return ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=Tally(committed=1)))


@pytest.mark.parametrize("over", [goes_on_by_itself, is_given_up, is_resumed, is_published])
def test_a_halt_that_is_over_leaves_no_time_behind(ledger: Ledger, new_id: NewId, over: Callable[[Ledger, str], bool]):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    attempt = 1 if over in (is_resumed, is_published) else 0
    if attempt:
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.halt(batch_id, attempt, "enough")
    assert ledger.batch(batch_id).halted_at
    assert over(ledger, batch_id)
    assert (ledger.batch(batch_id).halted, ledger.batch(batch_id).halted_at) == ("", 0)


# ---- stepping aside


def aside(ledger: Ledger, new_id: NewId) -> str:
    batch_id = halted_batch(ledger, new_id)
    assert ledger.step_aside(batch_id, ROUTE, 1)
    return batch_id


def test_a_halted_batch_gives_up_its_slot_and_nothing_else(ledger: Ledger, new_id: NewId, clock: SettableClock):
    batch_id = halted_batch(ledger, new_id)
    (behind,) = sealed_batches(ledger, new_id, 1)
    before = ledger.batch(batch_id)
    assert not ledger.begin_attempt(behind, ROUTE, 1, in_flight=1)
    clock.advance(60)
    assert ledger.step_aside(batch_id, ROUTE, 1)
    assert ledger.batch(batch_id) == replace(before, aside_at=clock.now)
    record = ledger.route(ROUTE)
    assert (record.running, record.aside, record.sealed) == ((), (batch_id,), (behind,))
    assert record.unfinished == (behind, batch_id)
    assert ledger.begin_attempt(behind, ROUTE, 1, in_flight=1)
    assert ledger.route(ROUTE).submitted == (batch_id, behind)
    # and not twice
    clock.advance(60)
    assert not ledger.step_aside(batch_id, ROUTE, 1)
    assert ledger.batch(batch_id).aside_at == clock.now - 60


@pytest.mark.parametrize(
    "state", ["open", "sealed", "sealed, halted", "submitted", "resumed", "committed", "abandoned", "never was"]
)
def test_only_a_batch_that_was_submitted_and_has_halted_steps_aside(ledger: Ledger, new_id: NewId, state: str):
    batch_id = "01NEVER"
    if state == "open":
        batch_id = join_new(ledger, new_id)
    elif state == "resumed":
        batch_id = halted_batch(ledger, new_id)
        assert ledger.resume(batch_id, ROUTE, 2, fencing=False)
    elif state != "never was":
        (batch_id,) = sealed_batches(ledger, new_id, 1)
    if state == "sealed, halted":
        ledger.halt(batch_id, 0, "a part is missing")
    if state in ("submitted", "committed", "abandoned"):
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    if state in ("committed", "abandoned"):
        ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=state == "abandoned"))
    before = ledger.batch(batch_id), ledger.route(ROUTE)
    for attempt in (0, 1, 2):
        assert not ledger.step_aside(batch_id, ROUTE, attempt)
    assert (ledger.batch(batch_id), ledger.route(ROUTE)) == before


def test_the_halt_of_an_earlier_attempt_moves_nothing_aside(ledger: Ledger, new_id: NewId):
    batch_id = halted_batch(ledger, new_id)
    assert ledger.resume(batch_id, ROUTE, 2, fencing=False)
    ledger.halt(batch_id, 2, "again")
    assert not ledger.step_aside(batch_id, ROUTE, 1), "this attempt has just halted"
    assert ledger.step_aside(batch_id, ROUTE, 2)


@pytest.mark.parametrize("fencing", [False, True], ids=["publish", "fence"])
def test_a_batch_that_is_aside_is_taken_back_into_work_without_a_free_slot(
    ledger: Ledger, new_id: NewId, fencing: bool
):
    batch_id = aside(ledger, new_id)
    one, two = sealed_batches(ledger, new_id, 2)
    assert ledger.begin_attempt(one, ROUTE, 1, in_flight=1)
    assert ledger.resume(batch_id, ROUTE, 2, fencing=fencing)
    record = ledger.route(ROUTE)
    assert (record.running, record.aside) == ((batch_id, one), ())
    assert not ledger.begin_attempt(two, ROUTE, 1, in_flight=2), "it has a slot like any other"
    assert ledger.begin_attempt(batch_id, ROUTE, 3, in_flight=1)
    ledger.halt(batch_id, 3, "again")
    assert ledger.step_aside(batch_id, ROUTE, 3)
    assert ledger.route(ROUTE).aside == (batch_id,)


@pytest.mark.parametrize("fence", [False, True], ids=["published", "fenced"])
def test_a_batch_that_is_aside_ends_as_any_other(ledger: Ledger, new_id: NewId, fence: bool):
    batch_id = aside(ledger, new_id)
    assert ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=fence, tally=Tally() if fence else ONE))
    assert ledger.batch(batch_id).state is (State.ABANDONED if fence else State.COMMITTED)
    sums = {"abandoned_batches": 1, "abandoned_objects": 1} if fence else {"committed_batches": 1, "tally": ONE}
    assert ledger.route(ROUTE) == RouteRecord(ROUTE, jobs=1, notified=1, **sums)
    assert not ledger.commit(batch_id, ROUTE, receipt(batch_id, tally=ONE))
    assert ledger.route(ROUTE).notified == 1


ONE = Tally(committed=1)


def test_stepping_aside_resuming_and_settling_race_and_the_batch_is_in_one_place(another: Another, new_id: NewId):
    for _ in range(5):
        batch_id = halted_batch(another(), new_id)
        *stepped, resumed = racing(
            *[lambda: another().step_aside(batch_id, ROUTE, 1)] * 3,  # noqa: B023
            lambda: another().resume(batch_id, ROUTE, 2, fencing=False),  # noqa: B023
        )
        assert resumed
        assert stepped.count(True) <= 1
        assert (another().route(ROUTE).running, another().route(ROUTE).aside) == ((batch_id,), ())
        another().halt(batch_id, 2, "again")
        _, ended, twin = racing(
            lambda: another().step_aside(batch_id, ROUTE, 2),  # noqa: B023
            *[lambda: another().commit(batch_id, ROUTE, receipt(batch_id, tally=ONE))] * 2,  # noqa: B023
        )
        assert {ended, twin} == {True, False}
        assert another().route(ROUTE).submitted == ()
    assert (another().route(ROUTE).committed_batches, another().route(ROUTE).tally) == (5, Tally(committed=5))


# ---- resuming


@pytest.mark.parametrize("fencing", [False, True], ids=["publish", "fence"])
def test_a_halted_batch_is_resumed_with_its_next_attempt(ledger: Ledger, new_id: NewId, fencing: bool):
    batch_id = halted_batch(ledger, new_id)
    assert ledger.resume(batch_id, ROUTE, 2, fencing=fencing)
    found = ledger.batch(batch_id)
    assert (found.attempt, found.halted, found.job_run, found.fencing) == (2, "", "", fencing)
    assert found.floors == 0
    assert ledger.route(ROUTE).jobs == 2
    # and not twice
    assert not ledger.resume(batch_id, ROUTE, 2, fencing=fencing)
    assert not ledger.resume(batch_id, ROUTE, 4, fencing=fencing)


def test_a_batch_that_is_not_halted_is_not_resumed_to_be_published(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    assert not ledger.resume(batch_id, ROUTE, 2, fencing=False)
    assert ledger.batch(batch_id).attempt == 1


def test_a_batch_may_be_fenced_while_its_job_still_runs(ledger: Ledger, new_id: NewId):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    ledger.record_job(batch_id, 1, "job-1")
    assert ledger.resume(batch_id, ROUTE, 2, fencing=True)
    found = ledger.batch(batch_id)
    assert (found.attempt, found.fencing, found.job_run) == (2, True, "")


def test_the_next_attempt_of_a_batch_that_is_being_fenced_fences_it_too(ledger: Ledger, new_id: NewId):
    batch_id = halted_batch(ledger, new_id)
    ledger.resume(batch_id, ROUTE, 2, fencing=True)
    assert ledger.begin_attempt(batch_id, ROUTE, 3, in_flight=1)
    assert ledger.batch(batch_id).fencing


@pytest.mark.parametrize("fencing", [False, True], ids=["publish", "fence"])
@pytest.mark.parametrize("state", ["open", "sealed", "committed", "abandoned", "never was"])
def test_only_a_submitted_batch_is_resumed(ledger: Ledger, new_id: NewId, state: str, fencing: bool):
    batch_id = "01NEVER"
    if state == "open":
        batch_id = ledger.open_batch(ROUTE, new_id).id
    elif state != "never was":
        (batch_id,) = sealed_batches(ledger, new_id, 1)
    if state in ("committed", "abandoned"):
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
        ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=state == "abandoned"))
    before = ledger.batch(batch_id)
    for attempt in (1, 2):
        assert not ledger.resume(batch_id, ROUTE, attempt, fencing=fencing)
    assert ledger.batch(batch_id) == before


# ---- giving up before the first attempt


def test_a_sealed_batch_is_given_up_with_a_fence_as_its_first_attempt(
    ledger: Ledger, new_id: NewId, clock: SettableClock
):
    (batch_id,) = sealed_batches(ledger, new_id, 1)
    ledger.halt(batch_id, 0, "a part is missing")
    clock.advance(60)
    assert ledger.give_up(batch_id, ROUTE)
    found = ledger.batch(batch_id)
    assert (found.state, found.attempt, found.fencing) == (State.SUBMITTED, 1, True)
    assert (found.submitted_at, found.job_run, found.halted) == (clock.now, "", "")
    record = ledger.route(ROUTE)
    assert (record.sealed, record.running, record.jobs) == ((), (batch_id,), 1)
    # and not twice
    assert not ledger.give_up(batch_id, ROUTE)
    assert ledger.route(ROUTE).jobs == 1
    assert ledger.begin_attempt(batch_id, ROUTE, 2, in_flight=1)
    assert ledger.batch(batch_id).fencing


def test_giving_up_needs_no_free_slot_and_leaves_none(ledger: Ledger, new_id: NewId):
    one, two, three = sealed_batches(ledger, new_id, 3)
    assert ledger.begin_attempt(one, ROUTE, 1, in_flight=1)
    assert ledger.give_up(two, ROUTE)
    assert ledger.route(ROUTE).running == (one, two)
    assert not ledger.begin_attempt(three, ROUTE, 1, in_flight=2)


@pytest.mark.parametrize("state", ["open", "submitted", "halted", "committed", "abandoned", "never was"])
def test_only_a_sealed_batch_is_given_up_before_its_first_attempt(ledger: Ledger, new_id: NewId, state: str):
    batch_id = "01NEVER"
    if state == "open":
        batch_id = ledger.open_batch(ROUTE, new_id).id
    elif state != "never was":
        (batch_id,) = sealed_batches(ledger, new_id, 1)
        ledger.begin_attempt(batch_id, ROUTE, 1, in_flight=1)
    if state == "halted":
        ledger.halt(batch_id, 1, "enough")
    if state in ("committed", "abandoned"):
        ledger.commit(batch_id, ROUTE, receipt(batch_id, fence=state == "abandoned"))
    before = ledger.batch(batch_id), ledger.route(ROUTE)
    assert not ledger.give_up(batch_id, ROUTE)
    assert (ledger.batch(batch_id), ledger.route(ROUTE)) == before


def test_a_hand_off_and_people_who_give_up_race_and_one_begins_the_attempt(another: Another, new_id: NewId):
    (batch_id,) = sealed_batches(another(), new_id, 1)
    answers = racing(
        *[lambda: another().begin_attempt(batch_id, ROUTE, 1, in_flight=9)] * 3,
        *[lambda: another().give_up(batch_id, ROUTE)] * 3,
    )
    assert answers.count(True) == 1
    found = another().batch(batch_id)
    assert (found.attempt, found.fencing) == (1, answers.index(True) >= 3)
    record = another().route(ROUTE)
    assert (record.sealed, record.running, record.jobs) == ((), (batch_id,), 1)


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


def join_new(ledger: Ledger, new_id: NewId) -> str:
    batch = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice("a"), batch.id)
    return batch.id


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


def ends_with(ledger: Ledger, new_id: NewId, name: str, tally: Tally) -> str:
    """A batch of one upload that is committed, and ends so."""
    batch = ledger.open_batch(ROUTE, new_id)
    join(ledger, notice(name), batch.id)
    submitted(ledger, batch.id)
    assert ledger.commit(batch.id, ROUTE, receipt(batch.id, tally=tally))
    return batch.id


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

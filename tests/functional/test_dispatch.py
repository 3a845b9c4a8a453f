"""Dispatch: a notice claims its uploads and joins the open batch, and dying anywhere on the way changes nothing."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.support.build import BUCKET, ETAG, notice, part_of, upload, uploads
from tests.support.fakes import Died, Life, every_death, play_publishing
from tests.support.ledgers import RETENTION
from tests.support.world import World, small_world
from tidegate.core.claims import MARGIN
from tidegate.core.errors import OutcomeUnknown, Rejected, Retryable
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import Entry, Notice, make_notice
from tidegate.core.outcomes import Outcome
from tidegate.core.records import DAY, claim_key
from tidegate.core.uploads import Upload
from tidegate.flows.dispatch import ROUNDS, dispatch, receive
from tidegate.flows.ledger import CLOCKS, Registration
from tidegate.metrics import Metric

KEYS = ["flights/a.json", "flights/b.json", "flights/c.json"]


def test_a_notice_joins_the_open_batch_with_a_part_of_what_it_owns(world: World):
    of = notice(*KEYS)
    assert world.dispatch(of) == world.flights
    batch = world.open
    assert (batch.notices, batch.objects, batch.bytes) == (1, 3, 30)
    record = world.ledger.notice(of.id)
    assert (record.batch, record.part) == (batch.id, part_of(of).name)
    assert world.parts(batch.id) == [record.part]
    assert world.keys_in(batch.id, record.part) == KEYS
    assert all(world.claim(key).notice == of.id for key in KEYS)
    assert world.count.of(Metric.UPLOADS_REGISTERED, "flights") == 3
    assert world.count[Metric.DUPLICATES_REFUSED] == 0


def test_notices_gather_in_one_batch(world: World):
    world.arrive(3, notices=4)
    assert (world.open.notices, world.open.objects) == (4, 12)
    assert len(world.parts(world.open.id)) == 4


def test_each_route_gathers_by_itself(world: World):
    world.dispatch(notice("flights/a.json"))
    world.dispatch(notice("weather/a.json", route="weather"))
    assert world.ledger.route("weather").open_batch not in ("", world.record.open_batch)


def test_a_notice_delivered_again_is_refused_by_one_read(world: World):
    of = notice(*KEYS)
    world.dispatch(of)
    life = Life()
    dispatch(
        of.encode(),
        life.over(world.ports),
        routes=world.routes,
    )
    assert (life.made, life.last) == (2, "refuse")  # the read, and the count of what it refused
    assert world.open.notices == 1
    assert world.count.of(Metric.DUPLICATES_REFUSED, "flights") == 3
    assert world.record.refused == 3


def test_what_other_notices_own_is_refused_and_the_rest_is_taken(world: World):
    world.dispatch(notice("flights/a.json"))
    late = notice(*KEYS)
    world.dispatch(late)
    assert (world.open.notices, world.open.objects) == (2, 3)
    assert world.keys_in(world.open.id, world.ledger.notice(late.id).part) == KEYS[1:]
    assert world.count[Metric.DUPLICATES_REFUSED] == 1
    assert world.count[Metric.UPLOADS_REGISTERED] == 3


def test_a_notice_that_owns_nothing_is_not_registered_and_leaves_no_part(world: World):
    world.dispatch(notice(*KEYS))
    late = notice(*KEYS[:2])
    world.dispatch(late)
    assert world.ledger.notice(late.id) is None
    assert len(world.parts(world.open.id)) == 1
    assert world.record.refused == 2


def test_a_duplicate_alone_opens_no_batch(world: World):
    batch = world.sealed()
    world.dispatch(notice(*uploads(3, "flights/0000-")[:2]))
    assert world.record.unfinished == (batch.id,)


def test_a_void_notice_is_not_registered_and_loses_no_upload(world: World):
    of = notice(*KEYS)
    world.ledger.void(of.id, "flights")
    world.dispatch(of)
    assert world.record.open_batch == ""
    assert world.claim(KEYS[0]).notice == of.id, "it claims what a slow twin could claim for it yet"
    assert world.count.of(Metric.NOTICES_VOID, "flights") == 1
    assert world.count[Metric.DUPLICATES_REFUSED] == 0
    (again,) = world.topic.published
    assert [(entry.upload.key, entry.takes_from) for entry in again.entries] == [(key, of.id) for key in KEYS]
    world.dispatch(again)
    assert (world.open.notices, world.open.objects) == (1, 3)


def test_a_void_notice_delivered_again_makes_the_same_notice(world: World):
    of = notice(*KEYS)
    world.ledger.void(of.id, "flights")
    world.dispatch(of)
    world.dispatch(of)
    first, second = world.topic.published
    assert first == second
    assert first.id != of.id
    world.dispatch(first)
    world.dispatch(of)
    assert world.topic.published == [first, second], "another notice owns all of it"
    assert world.count[Metric.DUPLICATES_REFUSED] == 3


def test_what_others_own_stays_theirs_when_a_notice_is_void(world: World):
    world.dispatch(notice(KEYS[0]))
    of = notice(*KEYS)
    world.ledger.claim(of)
    world.ledger.void(of.id, "flights")
    world.dispatch(of)
    (again,) = world.topic.published
    assert [entry.upload.key for entry in again.entries] == KEYS[1:]
    world.dispatch(again)
    assert (world.open.notices, world.open.objects) == (2, 3)
    assert world.count[Metric.DUPLICATES_REFUSED] == 1


def test_a_void_notice_that_was_to_take_over_passes_that_on(world: World):
    first = notice(*KEYS[:2])
    world.ledger.claim(first)
    world.ledger.void(first.id, "flights")
    second = notice(*KEYS[:2], origin="audit-1", takes_from=first.id)
    world.ledger.claim(second)
    # as if it had died between its two take-overs
    world.edit(claim_key(BUCKET, KEYS[1], "v1"), notice=first.id)
    world.ledger.void(second.id, "flights")
    world.dispatch(second)
    (again,) = world.topic.published
    assert [(entry.upload.key, entry.takes_from) for entry in again.entries] == [
        (KEYS[0], second.id),
        (KEYS[1], second.id),
    ]
    world.dispatch(again)
    assert (world.open.notices, world.open.objects) == (1, 2)


def test_a_slow_twin_that_was_to_take_over_for_a_void_notice_leaves_nothing_without_a_message(world: World):
    """Its message is acknowledged by the delivery that found the notice void."""
    first = notice(*KEYS)
    world.ledger.claim(first)
    world.ledger.void(first.id, "flights")
    second = notice(*KEYS, origin="resend 1", takes_from=first.id)
    store = world.store
    real, calls = store.apply_each, []

    def apply_each(transitions: Any) -> Any:
        calls.append(transitions)
        if len(calls) == 2:  # the twin is about to take over
            store.apply_each = real
            world.ledger.void(second.id, "flights")
            world.dispatch(second)
        return real(transitions)

    store.apply_each = apply_each  # type: ignore[method-assign]
    world.ledger.claim(second)  # the twin dies after this
    assert len(calls) == 2
    (again,) = world.topic.published
    world.dispatch(again)
    assert (world.open.notices, world.open.objects) == (1, 3)


def test_a_slow_twin_that_claims_for_a_void_notice_keeps_nothing(world: World):
    of = notice(*KEYS)
    world.ledger.void(of.id, "flights")
    world.dispatch(of)
    world.ledger.claim(of)  # by a twin that had read the notice before it was void
    (again,) = world.topic.published
    world.dispatch(again)
    assert world.open.objects == 3


def test_a_void_notice_is_given_back_while_the_topic_takes_nothing(world: World):
    of = notice(*KEYS)
    world.ledger.void(of.id, "flights")
    world.topic.broken = True
    with pytest.raises(Retryable):
        world.dispatch(of)


def test_a_notice_voided_after_it_claimed_is_not_registered(world: World):
    of = notice(*KEYS)

    class AuditedMeanwhile:
        """An audit finds the claims without a registration, just before it would have come."""

        def __getattr__(self, name: str) -> Any:
            if name == "open_batch":
                world.ledger.void(of.id, "flights")
            return getattr(world.ledger, name)

    run(world, of, ledger=AuditedMeanwhile())
    assert world.ledger.notice(of.id).void
    assert world.open.notices == 0
    assert world.count.of(Metric.NOTICES_VOID, "flights") == 1
    # what the audit made takes the uploads over, and so does what dispatch made: they land once
    (again,) = world.topic.published
    world.dispatch(notice(*KEYS, origin="audit:1", takes_from=of.id))
    world.dispatch(again)
    assert (world.open.notices, world.open.objects) == (1, 3)
    assert world.count[Metric.DUPLICATES_REFUSED] == 3


def test_a_batch_sealed_meanwhile_is_left_for_the_next(world: World):
    world.dispatch(notice("flights/first.json"))
    old = world.open.id
    of = notice(*KEYS)

    class SealedMeanwhile:
        def __getattr__(self, name: str) -> Any:
            if name == "register" and world.record.open_batch == old:
                assert world.ledger.seal(old, "flights")
            return getattr(world.ledger, name)

    run(world, of, ledger=SealedMeanwhile())
    assert world.open.id != old
    assert (world.open.notices, world.open.objects) == (1, 3)
    assert world.ledger.notice(of.id).batch == world.open.id
    # the part it had written for the old batch is nobody's
    assert len(world.parts(old)) == 2
    assert world.batch(old).notices == 1


def test_when_batch_after_batch_is_sealed_the_notice_is_given_back(world: World):
    of = notice(*KEYS)
    sealed = []

    class AlwaysClosed:
        def __getattr__(self, name: str) -> Any:
            if name == "register":
                sealed.append(name)
                return lambda *_: Registration.BATCH_CLOSED
            return getattr(world.ledger, name)

    with pytest.raises(Retryable, match=f"{of.id}: {ROUNDS} batches of route flights"):
        run(world, of, ledger=AlwaysClosed())
    assert len(sealed) == ROUNDS
    world.dispatch(of)
    assert world.open.objects == 3


def test_a_twin_that_registered_first_is_not_counted_twice(world: World):
    of = notice(*KEYS)

    class OvertakenByItsTwin:
        def __getattr__(self, name: str) -> Any:
            if name == "open_batch":
                batch = world.ledger.open_batch("flights", world.new_id)
                world.ledger.register(of, batch.id, part_of(of, [upload(KEYS[0])]))
            return getattr(world.ledger, name)

    run(world, of, ledger=OvertakenByItsTwin())
    assert world.open.notices == 1
    assert world.count[Metric.UPLOADS_REGISTERED] == 0
    assert world.count.of(Metric.DUPLICATES_REFUSED, "flights") == 3


def test_a_message_that_is_no_notice_is_rejected(world: World):
    with pytest.raises(Rejected, match="not a notice"):
        world.dispatch("garbage")


def test_a_notice_of_a_route_that_nobody_knows_is_given_back(world: World):
    """The route may be just being deployed: an earlier version of dispatch must not set its first notices aside."""
    of = notice("trains/a.json", route="trains")
    with pytest.raises(Retryable, match=f"{of.id} is of route 'trains'.*it is given back"):
        world.dispatch(of)
    assert world.ledger.claims(BUCKET, "trains/a.json") == []


@pytest.mark.parametrize("kind", [Retryable, OutcomeUnknown])
@pytest.mark.parametrize("port", ["notice", "claim", "open_batch", "put", "register"])
def test_trouble_anywhere_is_passed_on_and_cured_by_the_next_delivery(world: World, port: str, kind: type[Exception]):
    of = notice(*KEYS)

    class Troubled:
        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            if name == port:
                raise kind(f"could not {name}")
            return getattr(self.real, name)

    with pytest.raises(kind):
        run(world, of, ledger=Troubled(world.ledger), work=Troubled(world.work))
    world.dispatch(of)
    assert (world.open.notices, world.open.objects) == (1, 3)
    assert world.count[Metric.DUPLICATES_REFUSED] == 0


def test_a_refusal_that_cannot_be_counted_keeps_no_notice_from_being_registered(world: World):
    world.dispatch(notice("flights/a.json"))

    class CannotCount:
        def __getattr__(self, name: str) -> Any:
            if name == "refuse":
                raise Retryable("could not count")
            return getattr(world.ledger, name)

    run(world, notice(*KEYS), ledger=CannotCount())
    assert world.open.notices == 2


# ---- the same bytes again


def written(key: str, sequencer: str) -> Upload:
    """An upload to an unversioned bucket: its bytes name it, its sequencer says when."""
    return Upload(BUCKET, key, f"etag:{ETAG}", 10, sequencer)


def quarantined(world: World, *keys: str) -> Notice:
    """A notice whose uploads all ended without a row."""
    of = notice(*(written(key, "00A1") for key in keys))
    world.dispatch(of)
    batch_id = world.open.id
    assert world.ledger.seal(batch_id, "flights")
    world.hand_off()
    play_publishing(world.work, batch_id, dict.fromkeys(keys, (Outcome.QUARANTINED, "no JSON")))
    assert world.settle() == []
    return of


def test_bytes_that_ended_badly_and_came_again_travel_once_more_in_a_notice_of_their_own(world: World):
    first = quarantined(world, *KEYS[:2])
    world.dispatch(notice(*(written(key, "00A2") for key in KEYS)))
    assert world.open.objects == 1
    (made,) = world.topic.published
    assert (made.origin, made.route) == ("again", "flights")
    assert made.entries == tuple(Entry(written(key, "00A2"), takes_from=first.id) for key in KEYS[:2])
    assert world.count.of(Metric.UPLOADS_AGAIN, "flights") == 2
    assert world.count[Metric.DUPLICATES_REFUSED] == 0
    world.dispatch(made)
    assert (world.open.notices, world.open.objects) == (2, 3)


def test_the_very_same_notice_is_no_repeat_if_its_upload_came_again(world: World):
    """Alone in their notices, the old upload and the new one differ in nothing but the sequencer."""
    first = quarantined(world, KEYS[0])
    world.dispatch(notice(written(KEYS[0], "00A2")))
    (made,) = world.topic.published
    assert made.entries == (Entry(written(KEYS[0], "00A2"), takes_from=first.id),)
    world.dispatch(made)
    assert world.open.objects == 1


def test_bytes_that_a_listing_found_and_that_ended_badly_come_again_if_they_were_put_since(world: World):
    """A listing has no sequencer. What tells the two apart is when they were put."""
    of = notice(written(KEYS[0], ""))
    world.dispatch(of)
    batch_id = world.open.id
    late = replace(notice(written(KEYS[0], "00A1")), at=world.clock.now - 60)
    again = replace(notice(written(KEYS[0], "00A2")), at=world.clock.now + MARGIN + 1)
    assert world.ledger.seal(batch_id, "flights")
    world.hand_off()
    play_publishing(world.work, batch_id, {KEYS[0]: (Outcome.VANISHED, "deleted before it was read")})
    assert world.settle() == []
    world.dispatch(late)
    assert world.topic.published == []
    for _ in range(2):
        world.dispatch(again)
    assert {made.id for made in world.topic.published} == {world.topic.published[0].id}
    for made in world.topic.published:
        assert made.entries == (Entry(written(KEYS[0], "00A2"), takes_from=of.id),)
        world.dispatch(made)
    assert world.open.objects == 1


def test_bytes_that_came_again_land_once_however_often_both_notices_are_delivered(world: World):
    quarantined(world, *KEYS[:2])
    later = notice(*(written(key, "00A2") for key in KEYS))
    for _ in range(3):
        world.dispatch(later)
        for made in world.topic.published:
            world.dispatch(made)
    assert (world.open.notices, world.open.objects) == (2, 3)
    assert len({made.id for made in world.topic.published}) == 1


def test_when_the_topic_does_not_take_the_new_notice_the_old_one_is_given_back(world: World):
    quarantined(world, *KEYS[:2])
    later = notice(*(written(key, "00A2") for key in KEYS))
    world.topic.accepts = lambda made: False
    with pytest.raises(Retryable, match="did not take the notices of 2 uploads"):
        world.dispatch(later)
    world.topic.accepts = lambda made: True
    world.dispatch(later)
    assert len(world.topic.published) == 1
    assert world.open.objects == 1


# ---- dying


def run(world: World, of: Notice, *, ledger: Any = None, work: Any = None, topic: Any = None) -> None:
    dispatch(
        of.encode(),
        replace(world.ports, ledger=ledger or world.ledger, work=work or world.work, topic=topic or world.topic),
        routes=world.routes,
    )


def prepared(world: World) -> Notice:
    """A notice of which one upload is somebody else's, and one came again: dispatch takes every step there is."""
    world.dispatch(notice("flights/a.json"))
    quarantined(world, "flights/z.json")
    world.dispatch(notice("flights/first.json"))
    return notice(*KEYS, written("flights/z.json", "00A2"))


def deliver_again(world: World, of: Notice) -> None:
    """The notice, and whatever it made of what came again."""
    world.dispatch(of)
    for made in world.topic.published:
        world.dispatch(made)


def live(world: World, of: Notice, life: Life) -> None:
    run(
        world,
        of,
        ledger=life.wrap(world.ledger),
        work=life.wrap(world.work),
        topic=life.wrap(world.topic),
    )


def calls_of_a_whole_life() -> int:
    world = small_world()
    of = prepared(world)
    life = Life()
    live(world, of, life)
    return life.made


def landed(world: World) -> dict[str, list[str]]:
    """Every key that registered parts hold, with the notices that brought it; headers are checked on the way."""
    found: dict[str, list[str]] = {}
    for batch_id in world.record.unfinished:
        batch = world.batch(batch_id)
        sums = [0, 0]
        for part in world.parts(batch_id):
            registered = world.ledger.notice(part.removeprefix("parts/").split("-")[0])
            if registered is None or (registered.batch, registered.part) != (batch_id, part):
                continue
            keys = world.keys_in(batch_id, part)
            sums[0] += 1
            sums[1] += len(keys)
            for key in keys:
                found.setdefault(key, []).append(registered.id)
        assert sums == [batch.notices, batch.objects]
    return found


STEPS = ["notice", "may_have_forgotten", "claim", "refuse", "publish", "open_batch", "put", "register"]
DEATHS = every_death(len(STEPS))
at_every_death = pytest.mark.parametrize(
    "death", DEATHS, ids=lambda death: f"{'after' if death.after else 'before'} {STEPS[death.calls - 1]}"
)


def test_a_whole_life_takes_every_step():
    assert calls_of_a_whole_life() == len(STEPS)


@at_every_death
def test_dying_at_any_step_and_being_delivered_again_ends_the_same(world: World, death: Life):
    of = prepared(world)
    life = Life(death.calls, death.after)
    with pytest.raises(Died):
        live(world, of, life)
    deliver_again(world, of)
    (made,) = {each.id for each in world.topic.published}
    assert landed(world) == {
        "flights/first.json": [world.claim("flights/first.json").notice],
        "flights/b.json": [of.id],
        "flights/c.json": [of.id],
        "flights/z.json": [made],
    }
    assert world.open.notices == 3


@at_every_death
def test_dying_at_any_step_and_finding_the_batch_sealed_ends_the_same(world: World, death: Life):
    of = prepared(world)
    life = Life(death.calls, death.after)
    with pytest.raises(Died):
        live(world, of, life)
    assert world.ledger.seal(world.open.id, "flights")
    deliver_again(world, of)
    found = landed(world)
    assert sorted(found) == ["flights/b.json", "flights/c.json", "flights/first.json", "flights/z.json"]
    assert all(len(notices) == 1 for notices in found.values())


@at_every_death
def test_dying_twice_and_then_meeting_an_audit_lands_once(world: World, death: Life):
    of = prepared(world)
    for _ in range(2):
        with suppress(Died):
            live(world, of, Life(death.calls, death.after))
    voided = world.ledger.void(of.id, "flights")
    world.dispatch(notice(*KEYS[1:], origin="audit:1", takes_from=of.id))
    deliver_again(world, of)
    found = landed(world)
    assert {"flights/b.json", "flights/c.json"} <= set(found)
    assert all(len(notices) == 1 for notices in found.values())
    assert (found["flights/b.json"] != [of.id]) == voided


def test_twins_that_take_turns_land_once():
    """Two deliveries of one notice, one stopped after each of its steps while the other runs to its end."""
    for calls in range(1, 6):
        world = small_world()
        of = notice(*KEYS)
        _interrupt(world, of, calls, partial(run, world, of))
        found = landed(world)
        assert found == {key: [of.id] for key in KEYS}


def _interrupt(world: World, of: Notice, after: int, meanwhile: Callable[[], None]) -> None:
    made = 0

    class Interrupted:
        def __init__(self, real: Any) -> None:
            self.real = real

        def __getattr__(self, name: str) -> Any:
            found = getattr(self.real, name)

            def call(*arguments: Any, **named: Any) -> Any:
                nonlocal made
                answer = found(*arguments, **named)
                made += 1
                if made == after:
                    meanwhile()
                return answer

            return call

    run(world, of, ledger=Interrupted(world.ledger), work=Interrupted(world.work))


def test_the_part_is_in_place_before_the_registration_that_names_it(world: World):
    of = notice(*KEYS)

    class LooksWhileRegistering:
        def __getattr__(self, name: str) -> Any:
            if name == "register":
                batch = world.open
                assert world.work.get(batch_folder(batch.id) + part_of(of).name) == part_of(of).body
            return getattr(world.ledger, name)

    run(world, of, ledger=LooksWhileRegistering())
    assert world.open.notices == 1


# ---- older than the ledger's memory


def aged(world: World, seconds: int) -> Notice:
    return make_notice("flights", BUCKET, "s3", [Entry(upload("flights/old.json"))], at=world.clock.now - seconds)


def test_a_notice_older_than_the_ledgers_memory_is_set_aside_and_claims_nothing(world: World):
    of = aged(world, RETENTION)
    assert isinstance(receive(of.encode(), world.ports, routes=world.routes), Rejected)
    ((body, reason),) = world.dead_letters.letters
    assert body == of.encode()
    assert "longer ago than the ledger remembers" in reason
    assert "s3://landing/flights/old.json" in reason
    assert not world.ledger.claims(BUCKET, "flights/old.json")


def test_one_that_the_ledger_must_remember_is_new(world: World):
    world.dispatch(aged(world, RETENTION - CLOCKS - 1))
    assert world.open.objects == 1


def test_however_often_it_is_moved_back_an_upload_lands_once(world: World):
    of = aged(world, 0)
    for _ in range(20):
        receive(of.encode(), world.ports, routes=world.routes)
        world.clock.advance(RETENTION // 5)
    assert (world.open.notices, world.open.objects) == (1, 1)


def test_a_notice_that_was_decided_long_ago_is_acknowledged(world: World):
    of = aged(world, RETENTION - DAY)
    world.dispatch(of)
    world.clock.advance(DAY + 1)
    assert not isinstance(receive(of.encode(), world.ports, routes=world.routes), Rejected)
    assert not world.dead_letters.letters


def test_a_void_notice_that_is_too_old_sends_nothing_on(world: World):
    of = aged(world, RETENTION)
    assert world.ledger.void(of.id, "flights")
    assert isinstance(receive(of.encode(), world.ports, routes=world.routes), Rejected)
    assert not world.topic.published


# ---- what came again, in a notice that is void, or that travels for months


def with_what_came_again(world: World) -> tuple[Notice, Notice]:
    """A notice whose first upload has ended without a row, and a later one of the same bytes beside a new upload."""
    first = quarantined(world, KEYS[0])
    return first, notice(*(written(key, "00A2") for key in KEYS[:2]))


def test_a_void_notice_sends_what_came_again_with_what_it_owns(world: World):
    first, later = with_what_came_again(world)
    world.ledger.void(later.id, "flights")
    world.dispatch(later)
    (made,) = world.topic.published
    assert [(each.upload.key, each.takes_from) for each in made.entries] == [(KEYS[0], first.id), (KEYS[1], later.id)]
    world.dispatch(made)
    assert world.open.objects == 2


def test_a_void_notice_that_owns_nothing_sends_what_came_again(world: World):
    first, later = with_what_came_again(world)
    world.dispatch(notice(written(KEYS[1], "00A1")))
    world.ledger.void(later.id, "flights")
    world.dispatch(later)
    (made,) = world.topic.published
    assert made.entries == (Entry(written(KEYS[0], "00A2"), takes_from=first.id),)


def test_a_notice_voided_while_it_registers_sends_what_came_again(world: World):
    first, later = with_what_came_again(world)

    class AuditedMeanwhile:
        def __getattr__(self, name: str) -> Any:
            if name == "register":
                world.ledger.void(later.id, "flights")
            return getattr(world.ledger, name)

    world.topic.published.clear()
    run(world, later, ledger=AuditedMeanwhile())
    assert {(each.upload.key, each.takes_from) for made in world.topic.published for each in made.entries} == {
        (KEYS[0], first.id),
        (KEYS[1], later.id),
    }


def test_what_is_sent_again_is_of_now_and_is_set_aside_once_the_ledger_may_have_forgotten_it(world: World):
    _, later = with_what_came_again(world)
    world.clock.advance(1_000)
    world.dispatch(later)
    (made,) = world.topic.published
    assert made.at == world.clock.now
    world.clock.advance(RETENTION)
    assert isinstance(receive(made.encode(), world.ports, routes=world.routes), Rejected)
    assert not [each for each in world.ledger.claims(BUCKET, KEYS[0]) if each.notice == made.id]


def test_what_settling_sends_again_is_of_now(world: World):
    """The same bytes came again before the first ones had ended."""
    world.dispatch(notice(written(KEYS[0], "00A1")))
    batch_id = world.open.id
    assert world.ledger.seal(batch_id, "flights")
    world.hand_off()
    world.dispatch(notice(written(KEYS[0], "00A2")))
    world.clock.advance(1_000)
    play_publishing(world.work, batch_id, {KEYS[0]: (Outcome.QUARANTINED, "no JSON")})
    assert world.settle() == []
    (made,) = world.topic.published
    assert made.at == world.clock.now

"""Wishes: what a person says of an abandoned batch's uploads is done once, whoever dies, and the sums stay right."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.functional.test_resend import KEYS, NOBODY, deliver, land, sums, upload_of
from tests.support.build import BUCKET, notice
from tests.support.fakes import Died, Life, MemoryWork, every_death, play_fencing, play_giving_up, play_publishing
from tests.support.ledgers import RETENTION
from tests.support.world import World, small_world
from tidegate.core.batches import State, Wish
from tidegate.core.manifests import batch_folder
from tidegate.core.outcomes import DROPPED, Conservation, Tally
from tidegate.core.records import batch_key, claim_key
from tidegate.core.uploads import Upload
from tidegate.flows.abort import Aborted, abort
from tidegate.flows.ledger import Ledger
from tidegate.flows.missing import Missing, missing
from tidegate.flows.resend import Resend, Resent, resend_batch, resend_object
from tidegate.flows.settle import settle
from tidegate.flows.status import status
from tidegate.flows.trace import trace
from tidegate.flows.wishes import Droppable, carry_out, droppable
from tidegate.metrics import Metric
from tidegate.stores.memory import MemoryStore

ENDS = {
    Wish.DROP: Conservation(3, Tally(), 0, dropped=3),
    Wish.RESEND: Conservation(3, Tally(committed=3, rows=3), 0),
}
KEYS_OF_TWO = tuple(f"flights/{notice:04}-{number:05}.json" for notice in range(2) for number in range(2))
WISHES = pytest.mark.parametrize("wish", list(Wish))


def fenced(world: World, batch_id: str) -> None:
    """Settling starts the fence's job, and later finds its receipt."""
    world.settle()
    play_fencing(world.work, batch_id)
    world.settle()
    assert world.batch(batch_id).state is State.ABANDONED


def finish(world: World) -> None:
    """What is on its way is delivered, and lands."""
    deliver(world)
    if world.record.open_batch:
        land(world)


def open_batch(world: World) -> str:
    world.arrive()
    return world.open.id


def sealed(world: World) -> str:
    return world.sealed().id


def submitted(world: World) -> str:
    return world.submitted().id


def halted(world: World) -> str:
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "no such column", hopeless=True)
    world.jobs.end(batch.id, 1)
    world.settle()
    return batch.id


def being_fenced(world: World) -> str:
    batch = world.submitted()
    assert abort(batch.id, world.ports) is Aborted.FENCING
    world.settle()
    return batch.id


def abandoned(world: World) -> str:
    batch = being_fenced(world)
    fenced(world, batch)
    return batch


STATES = {
    open_batch: Aborted.FENCING,
    sealed: Aborted.FENCING,
    submitted: Aborted.FENCING,
    halted: Aborted.FENCING,
    being_fenced: Aborted.WISHED,
    abandoned: Aborted.WISHED,
}


@WISHES
@pytest.mark.parametrize("made", STATES, ids=lambda made: made.__name__)
def test_a_wish_is_carried_out_whatever_the_batch_was_doing(world: World, made: Callable[[World], str], wish: Wish):
    batch = made(world)
    for _ in range(2):  # a person may ask twice
        attempt = world.batch(batch).attempt
        assert abort(batch, world.ports, wish) in (STATES[made], Aborted.WISHED)
    assert world.batch(batch).attempt == attempt, "the second time a fence is under way, and one is enough"
    assert sums(world) == Conservation(3, Tally(), 3)
    if world.batch(batch).state is not State.ABANDONED:
        fenced(world, batch)
    assert world.settle() == []
    finish(world)
    assert sums(world) == ENDS[wish]
    assert (world.record.wished, world.batch(batch).wish, world.batch(batch).wished_parts) == ((), None, 0)
    assert world.count.of(Metric.UPLOADS_DROPPED, "flights") == (3 if wish is Wish.DROP else 0)


@WISHES
def test_nothing_becomes_of_a_wish_if_a_driver_publishes_first(world: World, wish: Wish):
    batch = submitted(world)
    abort(batch, world.ports, wish)
    world.settle()
    play_publishing(world.work, batch)
    world.settle()
    assert world.settle() == []
    assert sums(world) == Conservation(3, Tally(committed=3, rows=3), 0)
    assert (world.record.wished, world.batch(batch).wish, world.topic.published) == ((), None, [])


def wishful(wish: Wish) -> World:
    """An abandoned batch of two parts with a wish that nobody has looked at."""
    world = small_world(max_wait=0)
    world.arrive(2, notices=2)
    batch = world.open
    assert abort(batch.id, world.ports, wish) is Aborted.FENCING
    fenced_but_for_the_wish(world, batch.id)
    return world


def fenced_but_for_the_wish(world: World, batch_id: str) -> None:
    play_fencing(world.work, batch_id)
    life = Life()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.flows.settle.carry_out", lambda *of: False)
        settle(world.flights, life.over(world.ports))
    assert world.batch(batch_id).state is State.ABANDONED


@WISHES
def test_a_death_at_any_step_is_repeated_and_nothing_is_done_twice(wish: Wish):
    def carried(world: World, life: Life) -> None:
        """Each request to the store may be the last one, not only each verb of the ledger."""
        (batch,) = world.record.wished
        ledger = replace(world.ledger, store=life.wrap(world.store))
        ports = replace(world.ports, ledger=ledger, work=life.wrap(world.work), topic=life.wrap(world.topic))
        assert carry_out(batch, "flights", ports)

    whole = Life()
    carried(wishful(wish), whole)
    assert whole.made > 8
    for death in every_death(whole.made):
        world = wishful(wish)
        with pytest.raises(Died):
            carried(world, Life(death.calls, death.after))
        assert sums(world).notified == 4
        while world.record.wished:
            assert world.settle() == []
        finish(world)
        expected = Conservation(4, Tally(), 0, 4) if wish is Wish.DROP else Conservation(4, Tally(4, rows=4), 0)
        assert sums(world) == expected, death


@WISHES
def test_a_large_batch_takes_several_looks(monkeypatch: pytest.MonkeyPatch, wish: Wish):
    world = wishful(wish)
    (batch,) = world.record.wished
    monkeypatch.setattr("tidegate.flows.wishes.UPLOADS_PER_LOOK", 1)
    assert not carry_out(batch, "flights", world.ports)
    assert world.batch(batch).wished_parts == 1
    assert carry_out(batch, "flights", world.ports)
    finish(world)
    assert sums(world).pending == 0


def test_a_fence_that_halts_meanwhile_is_begun_again_and_no_wish_waits_for_it(world: World):
    batch = being_fenced(world)
    as_read = world.batch(batch)
    world.ports.ledger.halt(batch, as_read.attempt, "the table is not readable", undecided=False)
    assert not world.ports.ledger.wish(as_read, Wish.DROP)
    assert abort(batch, world.ports, Wish.DROP) is Aborted.FENCING
    fenced(world, batch)
    world.settle()
    assert sums(world) == ENDS[Wish.DROP]


def test_of_two_wishes_the_last_one_counts(world: World):
    batch = abandoned(world)
    abort(batch, world.ports, Wish.DROP)
    world.settle()
    assert sums(world) == ENDS[Wish.DROP]
    assert abort(batch, world.ports, Wish.RESEND) is Aborted.WISHED
    world.settle()
    finish(world)
    assert sums(world) == ENDS[Wish.RESEND]
    assert dict(world.record.back) == {DROPPED: 3}
    assert abort(batch, world.ports, Wish.DROP) is Aborted.WISHED
    world.settle()
    assert sums(world) == ENDS[Wish.RESEND], "what has landed is not dropped"


def test_a_later_wish_to_resend_makes_notices_of_its_own(world: World):
    """A rebuilt ledger may know the notices of an earlier wish, and name the batch as the owner again."""
    batch = sealed(world)
    made: list[set[str]] = []
    for _ in range(2):
        claims = copy.deepcopy({key: item for key, item in world.store.items.items() if key.pk.startswith("o#")})
        assert abort(batch, world.ports, Wish.RESEND) in (Aborted.FENCING, Aborted.WISHED)
        if not made:
            fenced(world, batch)
        world.settle()
        made.append({notice.id for notice in world.topic.published})
        deliver(world)
        world.store.items.update(claims)
        world.clock.advance(1)
    assert made[0]
    assert len(made[1] - made[0]) == len(made[0])


def test_a_wish_that_replaces_another_one_meanwhile_begins_with_the_first_part(world: World):
    world = wishful(Wish.DROP)
    (batch,) = world.record.wished
    life = Life(3, before=lambda: abort(batch, world.ports, Wish.RESEND))
    carry_out(batch, "flights", life.over(world.ports))
    assert world.record.wished == (batch,)
    assert (world.batch(batch).wish, world.batch(batch).wished_parts) == (Wish.RESEND, 0)
    world.settle()
    finish(world)
    assert sums(world) == Conservation(4, Tally(committed=4, rows=4), 0)


def test_a_person_who_names_it_brings_a_dropped_upload_back(world: World):
    batch = abandoned(world)
    abort(batch, world.ports, Wish.DROP)
    world.settle()
    assert resend_object(BUCKET, KEYS[0], world.ports, run="1").sent == 1
    deliver(world)
    assert sums(world) == Conservation(3, Tally(), 1, 2)
    assert resend_batch(batch, world.ports, run="2", fencer=NOBODY) == Resend(Resent.SENT, 2, elsewhere=1)
    finish(world)
    assert sums(world) == ENDS[Wish.RESEND]


def test_the_same_bytes_put_again_after_a_drop_are_an_upload_of_their_own(world: World):
    def put(sequencer: str) -> None:
        world.dispatch(notice(Upload(BUCKET, "flights/a.json", "etag:1", 1, sequencer)))

    put("01")
    abort(world.open.id, world.ports, Wish.DROP)
    fenced(world, world.record.running[0])
    world.settle()
    put("02")
    finish(world)
    assert sums(world) == Conservation(1, Tally(committed=1, rows=1), 0)


def test_a_resend_that_is_on_its_way_takes_what_was_dropped(world: World):
    batch = abandoned(world)
    assert resend_batch(batch, world.ports, run="1", fencer=NOBODY).sent == 3
    abort(batch, world.ports, Wish.DROP)
    world.settle()
    assert sums(world) == ENDS[Wish.DROP]
    finish(world)
    assert sums(world) == ENDS[Wish.RESEND]


def test_a_claim_that_has_expired_is_the_same_as_none(world: World):
    for absent in (True, False):
        world = small_world(max_wait=0)
        batch = abandoned(world)
        world.clock.advance(RETENTION)
        if absent:
            for key in [each for each in world.store.items if each.pk.startswith("o#")]:
                del world.store.items[key]
        abort(batch, world.ports, Wish.DROP)
        assert world.settle() == []
        assert sums(world) == Conservation(3, Tally(), 3)
        assert world.record.wished == ()
        assert resend_batch(batch, world.ports, run="1", fencer=NOBODY) == Resend(Resent.NOTHING_LEFT, expired=3)


def test_a_person_is_told_what_a_drop_finds(world: World):
    assert droppable("01BNONE", world.ports) is None
    batch = submitted(world)
    assert droppable(batch, world.ports) == Droppable(here=3), "once it is abandoned"
    abort(batch, world.ports)
    fenced(world, batch)
    resend_object(BUCKET, KEYS[0], world.ports, run="1")
    deliver(world)
    world.edit(claim_key(*upload_of(world, batch, KEYS[1]).identity), expires_at=0)
    assert droppable(batch, world.ports) == Droppable(here=1, elsewhere=1, forgotten=1)
    abort(batch, world.ports, Wish.DROP)
    world.settle()
    assert droppable(batch, world.ports) == Droppable(dropped=1, elsewhere=1, forgotten=1)
    world.clock.advance(RETENTION)
    assert droppable(batch, world.ports) == Droppable(forgotten=3)
    (part,) = world.parts(batch)
    del world.work.objects[batch_folder(batch) + part]
    assert droppable(batch, world.ports) is None


def test_a_batch_whose_record_was_put_right_or_has_expired_has_no_wish(world: World):
    batch = abandoned(world)
    abort(batch, world.ports, Wish.DROP)
    world.edit(batch_key(batch), wish=None)
    world.settle()
    assert world.record.wished == ()
    abort(batch, world.ports, Wish.DROP)
    del world.store.items[batch_key(batch)]
    world.settle()
    assert world.record.wished == ()


def test_a_part_that_is_missing_stops_the_wish_and_nothing_else(world: World):
    batch = abandoned(world)
    abort(batch, world.ports, Wish.DROP)
    (part,) = world.parts(batch)
    body = world.work.objects.pop(batch_folder(batch) + part)
    other = world.submitted(prefix="flights/other")
    play_publishing(world.work, other.id)
    (trouble,) = world.settle()
    assert f"{part} is missing in the work bucket" in str(trouble)
    assert world.batch(other.id).state is State.COMMITTED
    assert world.record.wished == (batch,)
    world.work.objects[batch_folder(batch) + part] = body
    assert world.settle() == []
    assert sums(world).dropped == 3


def lose(world: World, name: str) -> bytes:
    """Somebody deletes a file of the one batch that has a wish."""
    (batch,) = world.record.wished
    return world.work.objects.pop(batch_folder(batch) + name)


@WISHES
@pytest.mark.parametrize("manifest", [True, False], ids=["", "manifest"])
def test_a_person_may_go_on_without_a_part_that_is_missing(wish: Wish, manifest: bool):
    world = wishful(wish)
    (batch,) = world.record.wished
    gone, _ = world.parts(batch)
    lose(world, gone)
    if not manifest:
        lose(world, "sealed.json")
    (trouble,) = world.settle()
    assert f"`tidegate abort {batch} --{wish} --skip-missing`" in str(trouble)
    assert abort(batch, world.ports, wish) is Aborted.WISHED
    assert len(world.settle()) == 1, "to say the same again skips nothing"
    assert missing(world.batch(batch), world.ports) == Missing((gone,) if manifest else ("sealed.json",), 2)
    assert abort(batch, world.ports, wish, skip_missing=True) is Aborted.WISHED
    assert world.settle() == []
    assert (world.record.wished, world.batch(batch).wish, world.batch(batch).skips) == ((), None, False)
    finish(world)
    expected = Conservation(4, Tally(), 2, 2) if wish is Wish.DROP else Conservation(4, Tally(2, rows=2), 2)
    assert sums(world) == expected, "the uploads of the missing part stay pending"


@WISHES
def test_a_wish_that_waits_for_a_part_begins_anew_after_one_that_skipped_it(wish: Wish):
    """Another process is still at the wish that skips."""
    world = wishful(wish)
    (batch,) = world.record.wished
    gone, _ = world.parts(batch)
    body = lose(world, gone)
    abort(batch, world.ports, wish, skip_missing=True)
    items, files = copy.deepcopy(world.store.items), dict(world.work.objects)
    asked = 0
    for call in range(1, 12):
        later = wishful(wish)
        later.store, later.work = MemoryStore(copy.deepcopy(items)), MemoryWork(dict(files))

        def ask_again(later: World = later) -> None:
            nonlocal asked
            asked += 1
            assert abort(batch, later.ports, wish) is Aborted.WISHED
            later.work.objects[batch_folder(batch) + gone] = body

        before = asked
        carry_out(batch, "flights", Life(call, before=ask_again).over(later.ports))
        assert settle(later.flights, later.ports) == []
        finish(later)
        assert (later.record.wished, sums(later).pending) == ((), 0 if asked > before else 2), call
    assert asked > 5


def test_a_fence_whose_batch_misses_a_part_is_settled_once_a_person_says_to_skip_it(world: World):
    world.arrive(2, notices=2)
    batch = world.open.id
    abort(batch, world.ports, Wish.DROP)
    world.settle()
    gone, _ = world.parts(batch)
    lose(world, gone)
    play_fencing(world.work, batch)
    (trouble,) = world.settle()
    assert f"{gone} is missing in the work bucket" in str(trouble)
    assert world.batch(batch).halted
    assert abort(batch, world.ports, Wish.DROP, skip_missing=True) is Aborted.WISHED
    assert world.settle() == []
    assert world.batch(batch).state is State.ABANDONED
    assert world.settle() == []
    assert sums(world) == Conservation(4, Tally(), 2, 2)
    # what is missing can be named one by one: its claim knows the owner, and that has let go
    left = [key for key in KEYS_OF_TWO if world.claim(key).outcome != DROPPED]
    assert len(left) == 2
    assert resend_object(BUCKET, left[0], world.ports, run="1").sent == 1
    finish(world)
    assert sums(world) == Conservation(4, Tally(committed=1, rows=1), 1, 2)


def test_a_part_that_was_skipped_and_is_there_again_is_dropped_by_the_next_wish(world: World):
    batch = sealed_with_two_parts(world)
    abort(batch, world.ports, Wish.DROP)
    world.settle()
    part, _ = world.parts(batch)
    body = lose(world, part)
    play_fencing(world.work, batch)
    world.settle()
    abort(batch, world.ports, Wish.DROP, skip_missing=True)
    for _ in range(3):
        world.settle()
    assert (sums(world).pending, sums(world).dropped) == (2, 2)
    world.work.objects[batch_folder(batch) + part] = body  # its deleted version, as the runbook says
    abort(batch, world.ports, Wish.DROP)
    for _ in range(3):
        assert world.settle() == []
    assert (sums(world).pending, sums(world).dropped) == (0, 4)


def sealed_with_two_parts(world: World) -> str:
    world.arrive(2, notices=2)
    return world.open.id


def test_nothing_is_skipped_of_a_batch_that_was_not_given_up(world: World):
    batch = submitted(world)
    assert abort(batch, world.ports, Wish.DROP, skip_missing=True) is Aborted.NOT_GIVEN_UP
    assert (world.batch(batch).fencing, world.record.wished) == (False, ())


def test_status_and_trace_say_what_becomes_of_the_uploads(world: World):
    batch = abandoned(world)

    def said() -> str:
        (found,) = trace(BUCKET, KEYS[0], world.ports)
        return f"{found.outcome}: {found.explanation}"

    assert said() == f"pending: batch {batch} was abandoned: the upload waits for a resend"
    abort(batch, world.ports, Wish.RESEND)
    assert said() == f"pending: batch {batch} was abandoned: settling sends the upload again"
    abort(batch, world.ports, Wish.DROP)
    assert said() == f"pending: batch {batch} was abandoned: settling drops the upload"
    (found,) = status([world.flights], world.ports)
    assert found.wished == (batch,)
    world.settle()
    assert said() == (
        f"dropped: batch {batch} was abandoned, and its uploads were dropped: only a resend brings it back"
    )
    (found,) = status([world.flights], world.ports)
    assert found.wished == ()


def test_claims_that_change_all_the_time_are_left_to_the_next_look(world: World, monkeypatch: pytest.MonkeyPatch):
    batch = abandoned(world)
    abort(batch, world.ports, Wish.DROP)
    real = world.store.apply

    def refuse(transition):
        if transition.what.startswith("drop "):
            world.edit(claim_key(BUCKET, KEYS[0], world.claim(KEYS[0]).version), outcome=DROPPED)
            done = real(transition)
            world.edit(claim_key(BUCKET, KEYS[0], world.claim(KEYS[0]).version), outcome="abandoned")
            return done
        return real(transition)

    monkeypatch.setattr(world.store, "apply", refuse)
    (trouble,) = world.settle()
    assert "changed 5 times while they were dropped" in str(trouble)
    monkeypatch.undo()
    assert world.settle() == []
    assert sums(world) == ENDS[Wish.DROP]


def test_a_wish_for_a_batch_whose_fence_has_halted_begins_the_fence_again():
    """Noted only, nothing would ever carry it out."""
    world = small_world(max_wait=0)
    batch = world.submitted()
    assert abort(batch.id, world.ports) is Aborted.FENCING
    fenced = world.batch(batch.id)
    world.ledger.halt(batch.id, fenced.attempt, "no capacity")
    assert abort(batch.id, world.ports, Wish.DROP) is Aborted.FENCING
    again = world.batch(batch.id)
    assert (again.attempt, again.halted, again.wish) == (fenced.attempt + 1, "", Wish.DROP)


def test_once_another_wish_is_noted_no_further_part_is_sent(monkeypatch: pytest.MonkeyPatch):
    """What was sent before is not called back; what is left is dropped, as the person said last."""
    world = wishful(Wish.RESEND)
    (batch,) = world.record.wished
    note = Ledger.note_wish

    def meanwhile(self: Ledger, *arguments: object, **more: object) -> bool:
        monkeypatch.setattr(Ledger, "note_wish", note)
        assert abort(batch, world.ports, Wish.DROP) is Aborted.WISHED
        return note(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Ledger, "note_wish", meanwhile)
    world.topic.published.clear()
    assert not carry_out(batch, "flights", world.ports)
    assert len(world.topic.keys) == 2, "of the first part"
    finish(world)
    world.settle()
    assert sums(world) == Conservation(4, Tally(committed=2, rows=2), 0, dropped=2)

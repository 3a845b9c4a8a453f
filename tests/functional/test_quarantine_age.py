"""Since when uploads are in quarantine: never too late, and certain a minute after what was oldest has come back."""

from dataclasses import replace
from typing import Any

import pytest

from tests.functional.test_resend import deliver, land
from tests.support.build import BUCKET
from tests.support.fakes import Died, Life, every_death, play_publishing
from tests.support.ledgers import RETENTION
from tests.support.world import World, small_world
from tidegate.core.manifests import batch_folder
from tidegate.core.outcomes import Outcome
from tidegate.core.records import DAY, route_key
from tidegate.flows import quarantine_age
from tidegate.flows.quarantine import EVERYTHING, Selection, quarantined
from tidegate.flows.quarantine_age import look_for_oldest
from tidegate.flows.resend import release, resend_object
from tidegate.flows.settle import settle, settle_all
from tidegate.flows.status import everything, standing, status
from tidegate.metrics import Metric

BAD = (Outcome.QUARANTINED, "no JSON")


@pytest.fixture
def world() -> World:
    return small_world(max_wait=0, in_flight=5)


def ends(world: World, name: str, *bad: int) -> str:
    """A batch of three uploads that is committed, and has quarantined those with these numbers. A minute passes."""
    batch = world.submitted(prefix=f"flights/{name}/")
    play_publishing(world.work, batch.id, {key(name, number): BAD for number in bad})
    assert world.settle() == []
    world.clock.advance(60)
    return batch.id


def key(name: str, number: int) -> str:
    return f"flights/{name}/0000-{number:05}.json"


def ended_at(world: World, batch: str) -> int:
    return world.batch(batch).ended_at


def oldest_listed(world: World) -> int:
    """What `tidegate resend quarantine --dry-run` says."""
    return min((each.ended_at for each in quarantined("flights", EVERYTHING, world.ports)), default=0)


def comes_back(world: World, name: str, *numbers: int) -> None:
    for number in numbers:
        resend_object(BUCKET, key(name, number), world.ports, run=f"{name}-{number}")
    deliver(world)
    land(world)


def settled(world: World) -> int:
    assert world.settle() == []
    return world.record.quarantined_since


def test_the_oldest_counts_until_it_came_back(world: World):
    assert settled(world) == 0
    first, second = ends(world, "a", 0, 1), ends(world, "b", 2)
    assert settled(world) == ended_at(world, first)
    comes_back(world, "a", 0)
    assert settled(world) == ended_at(world, first), "one of two is still there"
    comes_back(world, "a", 1)
    assert settled(world) == ended_at(world, second) == oldest_listed(world)
    comes_back(world, "b", 2)
    assert settled(world) == 0
    third = ends(world, "c", 0)
    assert settled(world) == ended_at(world, third)


def test_what_came_back_and_was_quarantined_again_is_as_old_as_its_last_batch(world: World):
    ends(world, "a", 0)
    resend_object(BUCKET, key("a", 0), world.ports, run="1")
    deliver(world)
    batch = world.open.id
    world.settle()
    world.clock.advance(1_000)
    play_publishing(world.work, batch, {key("a", 0): BAD})
    world.settle()
    assert settled(world) == ended_at(world, batch) == oldest_listed(world)


def test_a_batch_that_ended_late_is_younger_than_one_that_began_after_it(world: World):
    slow = world.submitted(prefix="flights/slow/")
    fast = ends(world, "fast", 0)
    play_publishing(world.work, slow.id, {key("slow", 0): BAD})
    world.settle()
    assert settled(world) == ended_at(world, fast)
    comes_back(world, "fast", 0)
    assert settled(world) == ended_at(world, slow.id)


def test_what_is_forgotten_is_not_in_quarantine_and_needs_no_event(world: World):
    ends(world, "a", 0)
    second = ends(world, "b", 0)
    assert settled(world)
    world.clock.advance(ended_at(world, second) - world.clock() + RETENTION - 1)
    assert settled(world) == ended_at(world, second) == oldest_listed(world)
    world.clock.advance(1)
    assert settled(world) == oldest_listed(world) == 0


def asked(world: World) -> list[str]:
    """The ledger's verbs, and the files that were read, in one run of settling."""
    life = Life()
    settle_all({"flights": world.flights}, life.over(replace(world.ports, bus=None)))
    return life.names


def test_a_route_in_which_nothing_happens_costs_no_further_read(world: World):
    asked(world)
    idle = asked(world)
    ends(world, "a", 0)
    assert settled(world)
    assert asked(world) == idle
    comes_back(world, "a", 0)
    assert settled(world) == 0
    assert asked(world) == idle


def test_a_ledger_from_before_this_was_recorded_is_searched_once(world: World):
    first, second = ends(world, "a", 0), ends(world, "b", 0)
    world.edit(route_key("flights"), quarantined_since=None, quarantine_seen=None)
    ends(world, "c", 0)
    assert settled(world) == ended_at(world, first), "the batch that ended last cannot know of the others"
    assert ended_at(world, first) < ended_at(world, second)
    assert world.record.quarantine_seen == 0


@pytest.mark.parametrize("limit", ["BATCHES_PER_LOOK", "UPLOADS_PER_LOOK"])
def test_many_batches_take_several_looks_and_the_age_is_never_too_low(
    world: World, monkeypatch: pytest.MonkeyPatch, limit: str
):
    monkeypatch.setattr(quarantine_age, limit, 2)
    batches = {name: ends(world, name, 0) for name in "abcde"}
    settled(world)
    # all at once: the next run finds them gone
    found = quarantined("flights", Selection(until=ended_at(world, batches["e"])), world.ports)
    release(found, world.ports, configured=world.routes, run="1")
    deliver(world)
    assert oldest_listed(world) == ended_at(world, batches["e"])
    assert settled(world) == ended_at(world, batches["c"])
    assert not any(each.emptied for each in world.ledger.leftovers("flights")[2:])
    assert settled(world) == ended_at(world, batches["e"])
    assert settled(world) == ended_at(world, batches["e"])
    assert [each.emptied for each in world.ledger.leftovers("flights")] == [True] * 4 + [False]


def test_a_batch_whose_outcomes_are_missing_counts_until_it_is_forgotten(world: World):
    batch = ends(world, "a", 0)
    settled(world)
    folder = batch_folder(batch) + "outcomes/"
    resend_object(BUCKET, key("a", 0), world.ports, run="1")
    there = {name: world.work.objects.pop(name) for name in world.work.names(folder)}
    deliver(world)
    assert settled(world) == ended_at(world, batch)
    world.work.objects |= there
    assert settled(world) == ended_at(world, batch), "the look was certain"
    world.clock.advance(RETENTION)
    assert settled(world) == 0


def came_back(world: World) -> World:
    """Two batches had something in quarantine, and the older one has not any more; nobody has looked."""
    ends(world, "a", 0, 1)
    ends(world, "b", 0)
    settled(world)
    resend_object(BUCKET, key("a", 0), world.ports, run="1")
    resend_object(BUCKET, key("a", 1), world.ports, run="2")
    deliver(world)
    return world


def looks(world: World, life: Life) -> None:
    ledger = replace(world.ledger, store=life.wrap(world.store))
    look_for_oldest("flights", replace(world.ports, ledger=ledger, work=life.wrap(world.work)))


def test_a_death_at_any_step_is_repeated(world: World):
    whole = Life()
    looks(came_back(world), whole)
    assert whole.made > 5
    for death in every_death(whole.made):
        world = came_back(small_world(max_wait=0, in_flight=5))
        before = world.record.quarantined_since
        with pytest.raises(Died):
            looks(world, Life(death.calls, death.after))
        assert before <= world.record.quarantined_since <= oldest_listed(world)
        assert settled(world) == oldest_listed(world), death


def beside(act: Any) -> None:
    """Something happens before each step of a look. The time is never later than that of the oldest, and the next looks
    find it."""
    whole = Life()
    looks(came_back(small_world(max_wait=0, in_flight=5)), whole)
    for call in range(1, whole.made + 1):
        world = came_back(small_world(max_wait=0, in_flight=5))
        looks(world, Life(call, before=lambda there=world: act(there)))
        assert world.record.quarantined_since <= (oldest_listed(world) or 0), call
        world.settle()
        assert settled(world) == oldest_listed(world), call


def test_a_batch_that_ends_meanwhile_is_not_overlooked():
    def another_ends(world: World) -> None:
        # the clock of the process that ends it is behind
        world.clock.advance(-30)
        ends(world, "c", 0)

    beside(another_ends)


def test_the_last_one_that_comes_back_meanwhile_is_found_in_the_next_look():
    beside(lambda world: comes_back(world, "b", 0))


def test_a_twin_does_the_same():
    beside(lambda world: look_for_oldest("flights", world.ports))


def test_the_last_of_a_route_leaves_while_another_batch_ends(world: World):
    """A look that has found nothing does not hide what came after it has read."""
    ends(world, "a", 0)
    settled(world)
    resend_object(BUCKET, key("a", 0), world.ports, run="1")
    deliver(world)
    whole = Life()
    looks(world, Life(4, before=lambda: ends(world, "b", 0)))
    assert whole.made == 0
    assert settled(world) == oldest_listed(world) > 0


def test_trouble_in_a_look_stops_nothing_else(world: World, monkeypatch: pytest.MonkeyPatch):
    came_back(world)

    def fails(*_: Any) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("tidegate.flows.settle.look_for_oldest", fails)
    (trouble,) = settle(world.flights, world.ports)
    assert "looking for what route flights has in quarantine: RuntimeError: no" in str(trouble)


def test_settling_measures_how_many_and_for_how_long(world: World):
    ends(world, "a", 0, 1)
    world.clock.advance(1_000)
    found = standing(world.flights, world.record, world.ports)
    assert (found.quarantined, found.oldest_quarantined) == (2, 1_060)
    settle_all({"flights": world.flights}, world.ports)
    assert world.count.of(Metric.QUARANTINED_NOW, "flights") == 2
    assert world.count.of(Metric.OLDEST_QUARANTINED_SECONDS, "flights") == 1_060
    comes_back(world, "a", 0, 1)
    settled(world)
    found = standing(world.flights, world.record, world.ports)
    assert (found.quarantined, found.oldest_quarantined) == (0, 0)


def test_what_a_removed_route_has_in_quarantine_is_still_seen(world: World):
    """A renamed route: its files are in quarantine under the former name, and a person may release them."""
    ends(world, "a", 0, 1)
    world.ledger.remember_route(world.flights)
    others = {name: each for name, each in world.routes.items() if name != "flights"}
    assert settle_all(others, world.ports) == []
    assert world.count.of(Metric.QUARANTINED_NOW, "flights") == 2
    assert world.count.of(Metric.OLDEST_QUARANTINED_SECONDS, "flights") == 60
    (found,) = [each for each in everything(others, world.ports) if each.route.name == "flights"]
    assert (found.configured, found.uploads.ended.quarantined) == (False, 2)
    comes_back(world, "a", 0, 1)
    assert settle_all(others, world.ports) == []
    assert [each.route.name for each in everything(others, world.ports)] == ["weather"]


def test_of_several_batches_the_one_that_ended_first_counts_whenever_it_began(world: World):
    slow = world.submitted(prefix="flights/slow/")
    fast, third = ends(world, "fast", 0), ends(world, "third", 0)
    play_publishing(world.work, slow.id, {key("slow", 0): BAD})
    world.settle()
    assert slow.id < fast < third
    comes_back(world, "third", 0)
    assert settled(world) == ended_at(world, fast) == oldest_listed(world)


def test_what_is_registered_anew_while_a_look_goes_on_is_looked_for_in_the_next_one():
    """Nobody else looks meanwhile. Whichever call of the look that is before, in the end nothing is in quarantine."""

    def registered_anew(world: World) -> None:
        resend_object(BUCKET, key("b", 0), world.ports, run="b")
        deliver(world)

    whole = Life()
    looks(came_back(small_world(max_wait=0, in_flight=5)), whole)
    for call in range(1, whole.made + 2):
        world = came_back(small_world(max_wait=0, in_flight=5))
        looks(world, Life(call, before=lambda there=world: registered_anew(there)))
        registered_anew(world)
        assert look_for_oldest("flights", world.ports)
        assert world.record.quarantined_since == oldest_listed(world) == 0, call


def test_a_shorter_claims_takes_nothing_out_of_quarantine_whose_claim_lives_on(world: World):
    """The lists would never have it again: an empty batch stays empty."""
    first = ends(world, "a", 0)
    world.clock.advance(40 * DAY)
    ledger = world.ledger
    shorter = replace(world.ports, ledger=replace(ledger, claim_retention=30 * DAY))
    look_for_oldest("flights", shorter)
    assert shorter.ledger.route("flights").quarantined_since == ended_at(world, first)
    assert [each.key for each in quarantined("flights", EVERYTHING, shorter)] == [key("a", 0)]
    (shown,) = status([world.flights], shorter)
    assert shown.in_quarantine == 1

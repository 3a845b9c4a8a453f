"""Status: where a route stands, and that its sums hold at every moment of its life."""

from dataclasses import replace

from tests.support.build import notice, part_of
from tests.support.fakes import play_fencing, play_publishing
from tests.support.world import World
from tidegate.core.batches import State
from tidegate.core.outcomes import Conservation, Outcome, Tally
from tidegate.core.records import route_key
from tidegate.flows.status import RouteStatus, everything, status


def look(world: World) -> RouteStatus:
    (found,) = status([world.flights], world.ports)
    return found


def test_a_route_that_never_saw_an_upload(world: World):
    assert look(world) == RouteStatus(world.flights, Conservation(0, Tally(), 0), 0, 0, (), 0, 0)


def test_the_sums_hold_at_every_moment(world: World):
    def expect(notified: int, pending: int, ended: int) -> None:
        found = look(world).uploads
        assert (found.notified, found.pending, found.ended.uploads) == (notified, pending, ended)
        assert found.holds

    world.arrive()
    expect(3, 3, 0)
    batch_id = world.open.id
    world.ledger.seal(batch_id, "flights")
    expect(3, 3, 0)
    world.hand_off()
    world.arrive(2, prefix="flights/next-")
    expect(5, 5, 0)
    play_publishing(world.work, batch_id, {"flights/0000-00000.json": (Outcome.VANISHED, "")})
    world.settle()
    expect(5, 2, 3)
    world.clock.advance(1000)
    world.settle()
    (later,) = world.record.running
    play_fencing(world.work, later)
    world.settle()
    expect(5, 2, 3)
    found = look(world)
    assert (found.committed_batches, found.abandoned_batches, found.jobs, found.unfinished) == (1, 1, 2, ())


def test_a_receipt_that_lost_an_upload_would_show(world: World):
    assert not Conservation(notified=3, ended=Tally(committed=2), pending=0).holds
    world.arrive()
    assert look(world).uploads.holds


def test_every_batch_that_has_not_ended_is_listed(world: World):
    running = world.submitted(prefix="flights/a-")
    waiting = world.sealed(prefix="flights/b-")
    world.arrive(prefix="flights/c-")
    found = look(world).unfinished
    assert {batch.id: batch.state for batch in found} == {
        world.open.id: State.OPEN,
        waiting.id: State.SEALED,
        running.id: State.SUBMITTED,
    }


def test_halted_batches_stand_out(world: World):
    batch = world.submitted()
    assert look(world).halted == ()
    world.ledger.halt(batch.id, 1, "the floor is gone")
    (found,) = look(world).halted
    assert (found.id, found.halted) == (batch.id, "the floor is gone")


def test_a_route_that_the_configuration_has_lost_is_shown_until_its_uploads_have_ended(world: World):
    batch = world.submitted()
    weather = world.routes["weather"]

    def shown() -> list[tuple[str, bool, int]]:
        found = everything({"weather": weather}, world.ports)
        return [(each.route.name, each.configured, each.uploads.pending) for each in found]

    assert shown() == [("weather", True, 0), ("flights", False, 3)]
    play_publishing(world.work, batch.id)
    world.settle()
    assert shown() == [("weather", True, 0)]


def test_a_route_that_the_configuration_has_lost_is_shown_while_its_sums_do_not_hold(world: World):
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    world.settle()
    assert everything({}, world.ports) == []
    # an upload that was notified, has not ended, and is in no batch
    world.edit(route_key("flights"), notified=world.record.notified + 1)
    (found,) = everything({}, world.ports)
    assert (found.route.name, found.uploads.pending, found.uploads.holds) == ("flights", 0, False)


def test_lost_routes_come_after_the_configured_ones_by_name(world: World):
    for name in ("trains", "boats"):
        world.ledger.remember_route(replace(world.flights, name=name))
        batch = world.ledger.open_batch(name, world.new_id)
        of = notice("a.json", route=name)
        world.ledger.register(of, batch.id, part_of(of))
    found = everything(world.routes, world.ports)
    assert [each.route.name for each in found] == ["flights", "weather", "boats", "trains"]


def test_refusals_are_shown_and_are_no_part_of_the_sum(world: World):
    (sent,) = world.arrive()
    world.dispatch(sent)
    assert look(world).refused == 3
    assert look(world).uploads.notified == 3


def test_routes_are_told_apart_and_keep_their_order(world: World):
    world.arrive()
    first, second = status(world.routes.values(), world.ports)
    assert (first.route.name, first.uploads.notified) == ("flights", 3)
    assert (second.route.name, second.uploads.notified) == ("weather", 0)

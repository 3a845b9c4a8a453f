"""How often the ledger's store is asked, where there may be much to ask for."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.build import BUCKET, notice, upload
from tests.support.past import dated_world
from tests.support.world import World, small_world
from tidegate import wiring
from tidegate.core.batches import Wish
from tidegate.core.routes import Route
from tidegate.flows.batch_list import Wanted, batch_page
from tidegate.flows.hand_off import TOGETHER, hand_off_sealed
from tidegate.flows.ports import Ports
from tidegate.flows.seal import seal_if_due
from tidegate.flows.settle import advance, settle_all
from tidegate.flows.status import status
from tidegate.flows.store import Store
from tidegate.flows.trace import trace
from tidegate.schedule import SCHEDULE


@dataclass
class CountedStore:
    """A store that counts its verbs."""

    beneath: Store
    asked: Counter[str] = field(default_factory=Counter)

    def __getattr__(self, verb: str) -> Any:
        def ask(*arguments: Any) -> Any:
            self.asked[verb] += 1
            return getattr(self.beneath, verb)(*arguments)

        return ask


def counted(world: World) -> tuple[Ports, Counter[str]]:
    store = CountedStore(world.ledger.store)
    return replace(world.ports, ledger=replace(world.ledger, store=store)), store.asked


def test_a_trace_of_many_versions_reads_their_notices_and_batches_together(world: World):
    for number in range(12):
        world.dispatch(notice(upload("flights/a.json", f"v{number}")))
        if number % 4 == 3:
            world.ledger.seal(world.open.id, "flights")
    ports, asked = counted(world)
    assert len(trace(BUCKET, "flights/a.json", ports)) == 12
    assert asked == {"query": 1, "get_many": 2}


def routes_with_batches(world: World, many: int) -> list[Route]:
    """So many routes, each with an open batch."""
    routes = [replace(world.flights, name=f"route-{number}", prefix=f"r{number}/") for number in range(many)]
    for each in routes:
        world.ledger.remember_route(each)
        world.ledger.open_batch(each.name, world.new_id)
    return routes


def test_a_status_of_many_routes_reads_their_records_together_and_then_their_batches(world: World):
    routes = routes_with_batches(world, 20)
    ports, asked = counted(world)
    assert [len(each.unfinished) for each in status(routes, ports)] == [1] * 20
    assert asked == {"get_many": 2}


def test_a_status_reads_batches_with_a_wish_together_with_the_others(world: World):
    batch = world.sealed()
    world.ledger.give_up(batch.id, "flights", Wish.DROP)
    ports, asked = counted(world)
    (found,) = status([world.flights], ports)
    assert [each.id for each in found.wishes] == [batch.id]
    assert asked == {"get_many": 2}


def test_the_last_page_of_batches_reads_the_records_of_all_routes_together():
    world = dated_world()
    routes_with_batches(world, 20)
    ports, asked = counted(world)
    batch_page(ports, wiring.BATCH_IDS, Wanted(), limit=20)
    # the names of the routes, their records, their batches of which nothing is old enough
    assert asked == {"query": 1, "get_many": 1}


def backlog(batches: int, running: int, **limits: int) -> World:
    """A route with so many sealed batches, and as many submitted ones."""
    world = small_world(in_flight=10, **limits)
    for number in range(running):
        world.sealed(prefix=f"flights/running-{number}-")
    assert world.hand_off() == running
    for number in range(batches):
        world.sealed(prefix=f"flights/{number}-")
    return world


@pytest.mark.parametrize("next_look", [0, SCHEDULE])
def test_a_batch_that_waits_for_a_slot_costs_no_transaction(next_look: int):
    world = backlog(batches=7, running=10)
    hand_off_sealed(world.flights, world.ports)  # their manifests
    ports, asked = counted(world)
    advance(world.flights, ports, next_look=next_look)
    # the route's record twice, before and after what is due is sealed
    assert asked == {"get": 2, **({"get_many": 1} if next_look else {})}
    assert len(world.record.sealed) == 7


def test_a_paused_route_hands_nothing_off_and_tries_nothing():
    world = backlog(batches=7, running=0)
    world.ledger.pause("flights")
    hand_off_sealed(world.flights, world.ports)
    ports, asked = counted(world)
    assert hand_off_sealed(world.flights, ports) == 0
    assert asked == {"get": 1, "get_many": 1}


def test_of_a_long_backlog_a_dispatcher_reads_what_may_get_a_slot(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.hand_off.TOGETHER", 3)
    world = backlog(batches=14, running=8)
    ports, asked = counted(world)
    assert hand_off_sealed(world.flights, ports, patient=False) == 2
    # two slots are free: the oldest three are read, and each of the two that begin once more
    assert asked["get_many"] - 2 == 1  # each manifest asks for its registrations
    assert len(world.record.sealed) == 12
    assert TOGETHER > 3


def test_a_dispatcher_without_a_slot_leaves_the_manifests_to_the_schedule():
    world = backlog(batches=2, running=10)
    before = world.batch(world.record.sealed[0])
    assert hand_off_sealed(world.flights, world.ports, patient=False) == 0
    assert world.batch(before.id) == before
    assert not before.manifest
    assert hand_off_sealed(world.flights, world.ports) == 0
    assert world.batch(before.id).manifest


def test_an_idle_route_costs_one_read_a_look_removed_or_not(world: World):
    world.ledger.remember_route(world.flights)
    for configured in ({"flights": world.flights}, {}):
        ports, asked = counted(world)
        assert settle_all(configured, ports) == []
        # the list of the routes, and of what is to be announced; and the route's own record
        assert asked == {"query": 1 + (ports.bus is not None), "get": 1}


def test_whether_a_batch_is_due_is_asked_with_one_read_of_the_backlog():
    world = backlog(batches=9, running=8)
    world.dispatch(notice("flights/z.json"))
    ports, asked = counted(world)
    assert not seal_if_due(world.flights, ports, next_look=SCHEDULE)
    assert asked == {"get": 2, "get_many": 1}

"""Routes are renamed, split, moved and removed: what was asked for is found, and nothing else is sent."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.functional.test_audit import DAY, FILES, HOUR, LIMITS, audit, deliver, put, registered
from tests.support.build import notice, uploads
from tests.support.fakes import Died, Life, every_death
from tests.support.world import World, small_world
from tidegate.core.audit import AuditRun
from tidegate.core.routes import Route
from tidegate.metrics import Metric

IN_A, IN_B = uploads(2, "flights/a/x-"), uploads(2, "flights/b/x-")
SLACK = LIMITS.every + LIMITS.min_age


@pytest.fixture
def world() -> World:
    """The route `flights` was watched for three days."""
    made = small_world(max_wait=300)
    daily(made, [made.flights], 4)
    return made


def routes(world: World, **prefixes: str) -> list[Route]:
    return [replace(world.flights, name=name, prefix=prefix) for name, prefix in prefixes.items()]


def daily(world: World, of: Sequence[Route], days: int) -> None:
    for _ in range(days):
        audit(world, route=of[0], others=of[1:]) if of else audit_nothing(world)
        world.clock.advance(DAY)


def audit_nothing(world: World) -> None:
    audit(world, route=replace(world.flights, retired=True))


def sent(world: World) -> dict[str, list[str]]:
    """The keys that were sent, by route."""
    found: dict[str, list[str]] = {}
    for of in world.topic.published:
        found.setdefault(of.route, []).extend(entry.upload.key for entry in of.entries)
    return found


def keys(*of: Any) -> list[str]:
    return [each.key for each in of]


def watches(world: World) -> list[AuditRun]:
    return sorted(world.ledger.audits(), key=lambda run: (run.place, run.number))


# ---- what was asked for is found


@pytest.mark.parametrize(
    ("becomes", "goes_to"),
    [
        ({"arrivals": "flights/"}, {"arrivals": (*IN_A, *IN_B)}),
        ({"flights": "flights/a/", "b": "flights/b/"}, {"flights": IN_A, "b": IN_B}),
        ({"flights": "flights-v2/", "flights-raw": "flights/"}, {"flights-raw": (*IN_A, *IN_B)}),
        ({"b": "flights/b/"}, {"b": IN_B}),
        ({"all": ""}, {"all": (*IN_A, *IN_B)}),
    ],
    ids=["renamed", "split", "the former name is used again", "narrowed", "widened"],
)
def test_what_was_never_announced_goes_to_the_route_that_takes_it_today(
    world: World, becomes: dict[str, str], goes_to: dict[str, Sequence[Any]]
):
    put(world, [*IN_A, *IN_B])
    world.clock.advance(HOUR)
    daily(world, routes(world, **becomes), 1)
    assert sent(world) == {}, "they are too young"
    daily(world, routes(world, **becomes), 1)
    assert sent(world) == {name: keys(*of) for name, of in goes_to.items()}
    assert world.count[Metric.UPLOADS_FOUND_LOST] == sum(len(of) for of in goes_to.values())


def test_routes_that_become_one_leave_nothing_behind(world: World):
    split = routes(world, a="flights/a/", b="flights/b/")
    daily(world, split, 40)
    put(world, [*IN_A, *IN_B])
    world.clock.advance(HOUR)
    daily(world, routes(world, flights="flights/"), 2)
    assert sent(world) == {"flights": keys(*IN_A, *IN_B)}


def test_a_stale_notice_of_the_former_route_is_voided_and_each_upload_goes_where_it_belongs_today(world: World):
    of = notice(IN_A[0], IN_B[0])
    put(world, [IN_A[0], IN_B[0]])
    world.ledger.claim(of)
    world.clock.advance(HOUR)
    split = routes(world, a="flights/a/", b="flights/b/")
    daily(world, split, 2)
    assert sent(world) == {"a": keys(IN_A[0]), "b": keys(IN_B[0])}
    for each in split:
        world.ledger.remember_route(each)
    assert all(entry.takes_from == of.id for each in world.topic.published for entry in each.entries)
    deliver(world)
    world.dispatch(of)
    deliver(world)
    assert registered(world) == keys(IN_A[0], IN_B[0])


def test_what_no_route_takes_today_is_left_alone_and_counted(world: World):
    put(world, [*IN_A, *IN_B])
    world.clock.advance(HOUR)
    daily(world, routes(world, b="flights/b/"), 2)
    (former,) = [run for run in watches(world) if run.left_at]
    assert (former.counts.listed, former.counts.outside, former.counts.lost) == (4, 2, 2)
    assert former.counts.holds


def test_each_upload_of_a_place_that_was_left_is_looked_at_for_as_long_as_it_would_have_been(world: World):
    """Once is not enough: what the first look finds pending may be lost later."""
    put(world, IN_B)
    world.clock.advance(HOUR)
    split = routes(world, a="flights/a/", b="flights/b/")
    daily(world, split, LIMITS.max_age // DAY + 1)
    assert len(sent(world)["b"]) == 2 * 29, "nothing is delivered: each audit finds them"
    asked = len(world.listing.asked)
    daily(world, split, 1)
    assert [each[1] for each in world.listing.asked[asked:]] == ["flights/a/", "flights/b/"], "the former is done"


def test_a_place_that_was_left_is_forgotten_when_no_audit_may_look_at_it(world: World):
    split = routes(world, a="flights/a/", b="flights/b/")
    daily(world, split, LIMITS.horizon // DAY - 1)
    assert len(watches(world)) == 3
    daily(world, split, 1)
    assert [run.place for run in watches(world)] == [each.place for each in split]


def test_a_place_that_was_left_while_a_run_goes_on_is_listed_to_the_end(world: World):
    world.listing.size = 1
    put(world, [*IN_A, *IN_B])
    world.clock.advance(DAY)
    begun = audit(world, pages=1)
    assert begun is not None
    assert not begun.finished_at
    split = routes(world, a="flights/a/", b="flights/b/")
    audit(world, route=split[0], others=split[1:])
    (former,) = [run for run in watches(world) if run.left_at]
    assert (former.id, former.finished_at) == (begun.id, world.clock())
    assert sent(world) == {"flights": keys(IN_A[0]), "a": keys(IN_A[1]), "b": keys(*IN_B)}


# ---- what nobody asked for is left alone


def test_a_changed_prefix_is_watched_from_then_on(world: World):
    put(world, uploads(3, "archive/old-"))
    daily(world, [world.flights], 20)
    daily(world, routes(world, flights="archive/"), 3)
    assert sent(world) == {}


def test_a_route_that_was_removed_long_ago_asks_for_nothing(world: World):
    daily(world, [], 20)
    put(world, uploads(3, "flights/2026/old-"))
    daily(world, [], 5)
    daily(world, routes(world, new="flights/2026/"), 3)
    assert sent(world) == {}


def test_a_route_that_comes_back_asks_for_what_was_put_before_it_went_and_nothing_of_the_time_between(world: World):
    put(world, IN_A)
    world.clock.advance(HOUR)
    daily(world, [], 3)
    put(world, IN_B)
    world.clock.advance(DAY)
    later = uploads(1, "flights/c/x-")
    daily(world, [world.flights], 1)
    put(world, later)
    daily(world, [world.flights], 2)
    assert set(sent(world)["flights"]) == set(keys(*IN_A, *later))
    assert [(run.number, run.left_at > 0) for run in watches(world)] == [(1, True), (2, False)]


def test_a_place_that_nobody_takes_is_not_listed(world: World):
    """The audit may have lost the permission to list it."""
    asked = len(world.listing.asked)
    daily(world, [], 3)
    daily(world, routes(world, weather="weather/"), 3)
    assert {each[1] for each in world.listing.asked[asked:]} == {"weather/"}


# ---- two versions of a deployment, deaths and twins


def test_versions_that_take_turns_watch_the_places_of_both(world: World):
    split = routes(world, a="flights/a/", b="flights/b/")
    for _ in range(6):
        audit(world, route=split[0], others=split[1:])
        put(world, [IN_A[0]])
        world.clock.advance(HOUR)
        audit(world)
        put(world, [IN_B[0]])
        world.clock.advance(HOUR)
    daily(world, split, 3)
    assert {name: set(of) for name, of in sent(world).items()} == {"a": {IN_A[0].key}, "b": {IN_B[0].key}}
    assert [run.number for run in watches(world)] == [1, 1, 1]


@pytest.mark.parametrize(("away", "found"), [(SLACK, IN_B), (SLACK + 1, [])])
def test_a_deployment_that_is_rolled_back_forgets_nothing(world: World, away: int, found: list[Any]):
    audit(world, route=routes(world, a="flights/a/")[0])
    world.clock.advance(1)
    put(world, IN_B)
    world.clock.advance(away - 1)
    daily(world, [world.flights], 3)
    assert set(sent(world).get("flights", [])) == set(keys(*found))


def calls_of_a_change() -> int:
    world, life = small_world(max_wait=300), Life()
    daily(world, [world.flights], 2)
    change(world, life)
    return life.made


def change(world: World, life: Life | None = None) -> None:
    split = routes(world, a="flights/a/", b="flights/b/")
    audit(world, life.over(world.ports) if life else world.ports, route=split[0], others=split[1:])


@pytest.mark.parametrize("death", every_death(calls_of_a_change()), ids=lambda life: f"{life.calls}{'+' * life.after}")
def test_dying_at_any_step_of_a_change_leaves_no_time_unwatched(world: World, death: Life):
    """An upload comes right after the death, and an hour passes before the next invocation."""
    with pytest.raises(Died):
        change(world, Life(death.calls, death.after))
    world.clock.advance(1)
    put(world, [IN_A[0], IN_B[0]])
    world.clock.advance(HOUR)
    change(world)
    world.clock.advance(DAY)
    change(world)
    found = sent(world)
    assert (set(found["a"]), set(found["b"])) == ({IN_A[0].key}, {IN_B[0].key})


def test_a_twin_with_another_clock_leaves_no_time_unwatched():
    for calls in range(1, calls_of_a_change() + 1):
        for ahead in (0, 60, -60):
            world = small_world(max_wait=300)
            daily(world, [world.flights], 2)

            def twin(world: World = world, ahead: int = ahead) -> None:
                world.clock.advance(ahead)
                change(world)
                world.clock.advance(-ahead)

            change(world, Life(calls, before=twin))
            there = {run.place.prefix: run for run in watches(world)}
            left_at = there["flights/"].left_at
            for prefix in ("flights/a/", "flights/b/"):
                assert 0 < there[prefix].watched_since <= left_at, f"at call {calls}, {ahead} seconds ahead"


def test_one_of_two_records_of_one_place_is_left(world: World):
    """Two invocations may differ in whether the place was away for long."""
    daily(world, [], 2)
    (former,) = watches(world)
    audit(world)
    assert world.ledger.audit(world.flights.place, 2) is not None
    assert world.ledger.resume_watch(former)
    audit(world)
    assert [(run.number, run.left_at > 0) for run in watches(world)] == [(1, True), (2, False)]


def test_a_restored_ledger_watches_a_place_that_was_left_until_it_is_left_again(world: World):
    before = dict(world.store.items)
    split = routes(world, a="flights/a/", b="flights/b/")
    daily(world, split, 1)
    put(world, [IN_A[0]])
    world.clock.advance(HOUR)
    world.store.items = before
    daily(world, split, 2)
    assert sent(world) == {"a": keys(IN_A[0])}


def test_files_of_the_world_are_in_the_former_place():
    assert all(each.key.startswith("flights/") for each in (*FILES, *IN_A, *IN_B))

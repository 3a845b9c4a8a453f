"""What is in quarantine goes through the route that takes its key today, and lands once, in one table."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.functional.test_resend import KEYS, committed_with
from tests.support.build import BUCKET
from tests.support.fakes import play_publishing
from tests.support.world import World, small_world
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.core.outcomes import Conservation, Outcome, Tally
from tidegate.core.routes import Route
from tidegate.flows.dispatch import dispatch
from tidegate.flows.hand_off import hand_off_sealed
from tidegate.flows.quarantine import EVERYTHING, quarantined
from tidegate.flows.resend import release
from tidegate.flows.seal import seal
from tidegate.flows.settle import settle
from tidegate.flows.status import status

NEW_TABLE = "lake.raw.departures"


@pytest.fixture
def world() -> World:
    return small_world(max_wait=0)


def departures(world: World, **changed: Any) -> Route:
    """The route `flights` under another name, with another table and schema."""
    dataset = replace(world.flights.dataset, table=NEW_TABLE, schema="id bigint, note string")
    return replace(world.flights, name="departures", dataset=dataset, **changed)


def released(world: World, configured: dict[str, Route], run: str = "1") -> None:
    found = list(quarantined("flights", EVERYTHING, world.ports))
    release(found, world.ports, run=run, configured=configured)


def delivered(world: World, configured: dict[str, Route]) -> list[str]:
    """Dispatch what was sent, twice; the routes of the notices."""
    sent, world.topic.published = list(world.topic.published), []
    for each in (*sent, *sent):
        dispatch(each.encode(), world.ports, routes=configured)
    return [each.route for each in sent]


def landed(world: World, route: Route) -> str:
    """The route's open batch is handed off and published. Returns the table that its job got."""
    batch = world.ledger.route(route.name).open_batch
    assert seal(route, batch, world.ports)
    assert hand_off_sealed(route, world.ports) == 1
    dataset, *_ = world.jobs.told[-1]
    play_publishing(world.work, batch, snapshot=99)
    world.jobs.end(batch, 1)
    assert settle(route, world.ports) == []
    return dataset.table


def sums(world: World, *routes: Route) -> list[Conservation]:
    shown = status(list(routes), world.ports)
    assert all(each.uploads.holds for each in shown)
    return [each.uploads for each in shown]


@pytest.mark.parametrize("kept", [True, False], ids=["retired", "removed"])
def test_after_a_route_was_renamed_its_successor_reads_the_file(world: World, kept: bool):
    committed_with(world, KEYS[0])
    new = departures(world)
    configured = {"departures": new, **({"flights": replace(world.flights, retired=True)} if kept else {})}
    released(world, configured)
    assert delivered(world, configured) == ["departures"]
    assert landed(world, new) == NEW_TABLE
    former, today = sums(world, world.flights, new)
    assert (former.notified, former.ended.as_dict()["committed"], former.ended.as_dict()["quarantined"]) == (2, 2, 0)
    assert today == Conservation(1, Tally(committed=1, rows=1), 0)
    assert not list(quarantined("flights", EVERYTHING, world.ports))


@pytest.mark.parametrize("first", ["flights", "departures"])
def test_two_releases_through_two_routes_land_once(world: World, first: str):
    """One person works with the old `tidegate.toml`, one with the new one."""
    committed_with(world, KEYS[0])
    new = departures(world)
    old, today = {"flights": world.flights}, {"departures": new}
    for number, configured in enumerate((old, today) if first == "flights" else (today, old)):
        released(world, configured, run=str(number))
    both = {"flights": world.flights, "departures": new}
    assert set(delivered(world, both)) == {"flights", "departures"}
    claims = [world.claim(KEYS[0])]
    owner = world.ledger.notice(claims[0].notice)
    assert owner is not None
    assert owner.route == first
    open_ones = [each for each in both.values() if world.ledger.route(each.name).open_batch]
    assert [each.name for each in open_ones] == [first]
    landed(world, open_ones[0])
    total = [each.ended.as_dict() for each in sums(world, world.flights, new)]
    assert sum(each["committed"] for each in total) == 3
    assert sum(each["quarantined"] for each in total) == 0


def test_if_no_route_takes_the_key_the_former_one_reads_it(world: World):
    committed_with(world, KEYS[0])
    configured = {"departures": departures(world, prefix="departures/")}
    released(world, configured)
    assert delivered(world, configured) == ["flights"]
    assert landed(world, world.flights) == world.flights.dataset.table


def test_what_is_quarantined_again_is_in_the_quarantine_of_the_new_route(world: World):
    committed_with(world, KEYS[0])
    new = departures(world)
    released(world, {"departures": new})
    delivered(world, {"departures": new})
    batch = world.ledger.route("departures").open_batch
    assert seal(new, batch, world.ports)
    assert hand_off_sealed(new, world.ports) == 1
    play_publishing(world.work, batch, {KEYS[0]: (Outcome.QUARANTINED, "no")}, snapshot=99)
    world.jobs.end(batch, 1)
    assert settle(new, world.ports) == []
    (found,) = quarantined("departures", EVERYTHING, world.ports)
    assert (found.route, found.key) == ("departures", KEYS[0])
    former, today = sums(world, world.flights, new)
    assert (former.ended.as_dict()["quarantined"], today.ended.as_dict()["quarantined"]) == (0, 1)


# ---- what the command says before it sends


def said(world: World, monkeypatch: pytest.MonkeyPatch, configured: dict[str, Route], *options: str) -> str:
    found = SimpleNamespace(routes=configured, ports=lambda attempt="": world.ports)
    monkeypatch.setattr(deployment, "find", lambda folder: found)
    done = CliRunner().invoke(main.app, ["resend", "quarantine", *options], input="n\n", catch_exceptions=False)
    assert done.exit_code == (Exit.OK if options else Exit.FINDING)
    return " ".join(done.stderr.split())


@pytest.mark.parametrize("options", [(), ("--yes",)])
def test_a_release_says_through_which_route_it_goes(
    world: World, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
):
    committed_with(world, *KEYS[:2])
    text = said(world, monkeypatch, {"departures": departures(world)}, *options)
    assert "2 of them were of route flights. Route departures takes their keys today" in text
    assert f"they go to table {NEW_TABLE}" in text
    assert [each.route for each in world.topic.published] == (["departures"] if options else [])


def test_a_release_says_that_no_route_takes_the_keys(world: World, monkeypatch: pytest.MonkeyPatch):
    committed_with(world, *KEYS[:2])
    text = said(world, monkeypatch, {"departures": departures(world, prefix="departures/")})
    table = world.flights.dataset.table
    assert f"no route takes the keys of 2 of them today, e.g. s3://{BUCKET}/{KEYS[0]}" in text
    assert f"they are read as route flights was deployed last, and go to table {table}" in text
    retired = {"flights": replace(world.flights, retired=True)}
    assert "no route takes the keys of 2 of them" in said(world, monkeypatch, retired)


def test_an_ordinary_release_says_nothing_of_routes(world: World, monkeypatch: pytest.MonkeyPatch):
    committed_with(world, *KEYS[:2])
    assert "route" not in said(world, monkeypatch, world.routes)

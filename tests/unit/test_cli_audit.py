"""`tidegate audit`: which uploads it looks at, what it prints, how it ends. Nothing runs."""

import json
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.build import upload, uploads
from tests.support.fakes import play_screening
from tests.support.world import World, small_world
from tests.unit.test_cli import agree, documented, shape
from tests.unit.test_settings import GOOD
from tidegate import wiring
from tidegate.cli import deployment, main
from tidegate.cli.audit import SHOWN
from tidegate.cli.exits import Exit
from tidegate.core.audit import Window
from tidegate.core.routes import Route
from tidegate.core.screening import CompleteScreening
from tidegate.flows.suspects import screening_of
from tidegate.settings import DAY, HOUR, parse


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = small_world()
    attempts: list[str] = []
    application = SimpleNamespace(settings=parse(GOOD), ports=lambda attempt: attempts.append(attempt) or world.ports)
    monkeypatch.setattr(deployment, "find", lambda folder: application)
    monkeypatch.setattr(wiring, "clock", world.clock)
    monkeypatch.setattr(wiring, "paced", lambda rate: lambda sent: None)
    return world


def put(world: World, *ages: int) -> None:
    there = uploads(len(ages))
    world.listing.there |= {each: world.clock() - age for each, age in zip(there, ages, strict=True)}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["audit", *arguments], catch_exceptions=False)


def audited(*arguments: str) -> dict[str, int]:
    routes = json.loads(run("--json", *arguments).stdout)["routes"]
    return {each["route"]: each["lost"] for each in routes}


def test_what_is_lost_is_sent_if_that_is_asked(world: World):
    put(world, DAY, 2 * DAY)
    result = run("--send")
    assert result.exit_code == Exit.OK, "nothing is left to send"
    assert f"lost: {uploads(1)[0]}, of " in result.stdout
    (sent,) = world.topic.published
    assert [entry.upload for entry in sent.entries] == uploads(2)
    assert sent.origin.startswith("audit-by-hand-")


def test_nothing_lost_is_no_finding(world: World):
    result = run()
    assert result.exit_code == Exit.OK
    assert "route flights" in result.stdout
    assert "route weather" in result.stdout


def test_without_send_it_finds_and_sends_nothing(world: World):
    put(world, DAY)
    result = run()
    assert result.exit_code == Exit.FINDING
    assert "nothing was sent" in result.stdout
    assert world.topic.published == []


def test_the_window_is_that_of_the_settings_or_the_one_given(world: World):
    put(world, HOUR, 11 * HOUR, 13 * HOUR, 29 * DAY, 31 * DAY, 44 * DAY, 46 * DAY)
    assert audited()["flights"] == 2
    assert audited("--until", "1h")["flights"] == 4
    assert audited("--since", "45d")["flights"] == 4
    assert audited("--since", "12h", "--until", "2h")["flights"] == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--since", "46d"), "45d at most"),
        (("--since", "12h"), "longer ago than"),
        (("--until", "soon"), "neither an age"),
        (("--route", "trains"), "no route 'trains'"),
        (("--all-versions",), "--all-versions goes with s3://BUCKET/PREFIX"),
    ],
)
def test_a_window_or_route_that_cannot_be_is_refused(world: World, arguments: tuple[str, ...], why: str):
    result = run(*arguments)
    assert result.exit_code == Exit.USAGE
    assert why in " ".join(result.stderr.replace("│", " ").split())
    assert world.listing.asked == []


def test_one_route_is_enough(world: World):
    world.listing.there[upload("weather/a.csv")] = world.clock() - DAY
    assert audited("--route", "weather") == {"weather": 1}


def test_the_first_lost_uploads_are_printed_and_the_others_are_counted(world: World):
    put(world, *[DAY] * (SHOWN + 3))
    result = run()
    assert result.stdout.count("lost: ") == SHOWN
    assert "and 3 more" in result.stdout


# ---- by a job


@dataclass
class Screenings:
    """Jobs that find everything that is in the bucket suspect."""

    world: World
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    until: int = 2**40

    def screen(self, run: str, route: Route, source: str, window: Window) -> CompleteScreening:
        self.asked.append((run, route.name, source))
        there = [each for each in self.world.listing.there if route.takes(each)]
        play_screening(self.world.work, run, there, until=self.until)
        found = screening_of(run, self.world.work)
        assert found is not None
        return replace(found, remarks=("the journal begins late",))


@pytest.fixture
def screenings(world: World) -> Screenings:
    made = Screenings(world)
    deployment.find(None).screening = lambda tell: made  # type: ignore[attr-defined]
    return made


def test_a_job_compares_if_it_is_asked_for(world: World, screenings: Screenings):
    put(world, DAY, 2 * DAY)
    result = run("--route", "flights", "--job", "--send", "--json")
    assert result.exit_code == Exit.OK
    (route,) = json.loads(result.stdout)["routes"]
    assert (route["listed"], route["lost"], route["gone"]) == (2, 2, 0)
    assert "the journal begins late" in result.stderr
    ((name, of, source),) = screenings.asked
    assert (of, source) == ("flights", "listing")
    assert len(f"audit-{name}") <= 64, "it is EMR's client token"
    (sent,) = world.topic.published
    assert sent.origin == f"audit-{name}"


def test_a_route_that_has_an_inventory_is_compared_by_a_job_unless_that_is_not_wanted(
    world: World, screenings: Screenings, monkeypatch: pytest.MonkeyPatch
):
    settings = parse(GOOD.replace('prefix = "flights/"', 'prefix = "flights/"\naudit_from = "s3-metadata-inventory"'))
    monkeypatch.setattr(deployment.find(None), "settings", settings)
    put(world, DAY)
    assert audited() == {"flights": 1, "weather": 0}
    assert [each[1:] for each in screenings.asked] == [("flights", "s3-metadata-inventory")]
    assert audited("--no-job") == {"flights": 1, "weather": 0}
    assert len(screenings.asked) == 1


def test_what_an_inventory_does_not_know_yet_is_left_out(world: World, screenings: Screenings):
    put(world, DAY, 3 * DAY)
    screenings.until = world.clock() - 2 * DAY
    assert audited("--route", "flights", "--job") == {"flights": 1}


def test_json_is_what_the_page_shows(world: World):
    put(world, DAY)
    result = run("--json")
    assert result.exit_code == Exit.FINDING
    document = json.loads(result.stdout)
    page = documented("audit")
    page["routes"] *= 2
    assert agree(shape(document), shape(page))
    assert all(each["holds"] for each in document["routes"])
    (route,) = documented("audit")["routes"]
    route.pop("holds")
    route.pop("until")
    name, listed = route.pop("route"), route.pop("listed")
    assert name
    assert listed == sum(route.values()), "the page's example adds up"

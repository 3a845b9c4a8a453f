"""`tidegate audit s3://BUCKET/PREFIX`: what it looks at, what it asks, what it prints, how it ends. Nothing runs."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.build import upload, uploads
from tests.support.world import World, small_world
from tests.unit.test_cli import agree, documented, shape
from tests.unit.test_settings import GOOD
from tidegate import wiring
from tidegate.cli import deployment, main
from tidegate.cli.audit_table import SHOWN
from tidegate.cli.exits import Exit
from tidegate.core import times
from tidegate.core.notices import pack
from tidegate.core.uploads import Upload
from tidegate.settings import DAY, parse

TABLE = "lake.raw.flights"
FLIGHTS = "s3://landing/flights/"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = small_world()
    application = SimpleNamespace(
        settings=parse(GOOD), ports=lambda attempt: world.ports, lineage=lambda tell: world.lineage
    )
    monkeypatch.setattr(deployment, "find", lambda folder: application)
    monkeypatch.setattr(wiring, "clock", world.clock)
    monkeypatch.setattr(wiring, "paced", lambda rate: lambda sent: None)
    return world


def put(world: World, *of: Upload, age: int = 90 * DAY) -> None:
    world.listing.there |= dict.fromkeys(of, world.clock() - age)


def run(*arguments: str, answer: str = "") -> Any:
    return CliRunner().invoke(main.app, ["audit", *arguments], input=answer, catch_exceptions=False)


def missing(*arguments: str) -> dict[str, int]:
    routes = json.loads(run("--json", *arguments).stdout)["routes"]
    return {each["route"]: each["missing"] for each in routes}


def told(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


def test_what_is_missing_is_announced_and_sent(world: World):
    put(world, *uploads(3))
    result = run(FLIGHTS, "--send", "--yes")
    assert result.exit_code == Exit.OK
    assert f"route flights, {FLIGHTS}, table " in result.stderr
    assert "3 versions listed, 3 uploads of " in result.stderr
    assert "costs about $0.02 and 2 jobs or more" in result.stderr
    assert "What was deleted from this table on purpose lands again" in result.stderr
    assert "3 uploads are on their way" in result.stdout
    assert world.topic.keys == [each.key for each in uploads(3)]


def test_it_asks_before_a_job_is_started(world: World):
    put(world, *uploads(3))
    assert run(FLIGHTS, "--send", answer="n\n").exit_code != Exit.OK
    assert world.lineage.asked == []
    assert world.topic.published == []
    assert run(FLIGHTS, "--send", answer="y\n").exit_code == Exit.OK
    assert len(world.topic.keys) == 3


@pytest.mark.parametrize(("most", "said"), [(2, "\nand 1 more\n"), (3, "")])
def test_what_is_not_listed_is_counted(world: World, monkeypatch: pytest.MonkeyPatch, most: int, said: str):
    put(world, *uploads(3))
    monkeypatch.setattr("tidegate.cli.audit_table.SHOWN", most)
    shown = run(FLIGHTS).stdout
    assert shown.count("missing: ") == most
    assert shown.endswith(said) if said else "more" not in shown


def test_without_send_nothing_is_asked_and_nothing_sent(world: World):
    put(world, *uploads(SHOWN + 3))
    result = run(FLIGHTS)
    assert result.exit_code == Exit.FINDING
    assert "nothing was sent" in result.stdout
    assert result.stdout.count("missing: ") == SHOWN
    assert world.topic.published == []


def test_nothing_missing_is_no_finding(world: World):
    put(world, *uploads(2))
    (table,) = {each.dataset.table for each in parse(GOOD).core_routes() if each.name == "flights"}
    world.lineage.add(table, uploads(2))
    assert run(FLIGHTS).exit_code == Exit.OK
    assert run(FLIGHTS, "--send", "--yes").exit_code == Exit.OK
    assert world.topic.published == []


def test_what_is_left_for_a_person_is_a_finding_and_named(world: World):
    """It was claimed by a notice that is void."""
    (one,) = uploads(1)
    put(world, one)
    (notice,) = pack("flights", "landing", [one])
    world.ledger.claim(notice)
    world.ledger.void(notice.id, "flights")
    result = run(FLIGHTS, "--send", "--yes")
    assert result.exit_code == Exit.FINDING
    assert f"let_go: {one}, of " in told(result.stdout)
    assert "`tidegate resend` sends it again" in told(result.stdout)


def test_the_prefix_the_route_and_the_time_limit_it(world: World):
    put(world, upload("flights/a/1.json"), upload("flights/b/1.json"), upload("weather/a.csv"))
    put(world, upload("flights/b/2.json"), age=DAY)
    assert missing("s3://landing") == {"flights": 3, "weather": 1}
    assert missing("s3://landing/") == {"flights": 3, "weather": 1}
    assert missing("s3://landing/", "--route", "weather") == {"weather": 1}
    assert missing("s3://landing/flights/b/") == {"flights": 2}
    middle = times.iso(world.clock() - 30 * DAY)
    assert missing(FLIGHTS, "--since", middle) == {"flights": 1}
    assert missing(FLIGHTS, "--until", middle) == {"flights": 2}
    assert missing(FLIGHTS, "--since", "30d") == {"flights": 1}
    assert missing(FLIGHTS, "--until", "30d") == {"flights": 2}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("landing/flights/",), "is not s3://BUCKET/PREFIX"),
        (("s3://",), "is not s3://BUCKET/PREFIX"),
        ((FLIGHTS, "--job"), "--job and --no-job go without"),
        ((FLIGHTS, "--tables"), "not both"),
        (("s3://landing/trains/",), "no route takes s3://landing/trains/: flights takes s3://landing/flights/"),
        (("s3://elsewhere/flights/",), "no route takes s3://elsewhere/flights/"),
        ((FLIGHTS, "--route", "weather"), "route weather does not take s3://landing/flights/"),
        ((FLIGHTS, "--route", "trains"), "there is no route 'trains'"),
        ((FLIGHTS, "--since", "monday"), "'monday' is neither an age such as 2h"),
        ((FLIGHTS, "--since", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z"), "must be earlier"),
    ],
)
def test_what_cannot_be_compared_is_refused_and_nothing_is_read(world: World, arguments: tuple[str, ...], why: str):
    result = run(*arguments)
    assert result.exit_code == Exit.USAGE
    assert why in told(result.stderr)
    assert world.listing.asked == []


def reload(*arguments: str, answer: str = "") -> Any:
    return CliRunner().invoke(main.app, ["resend", "--reload", *arguments], input=answer, catch_exceptions=False)


def test_a_reload_counts_asks_and_sends_what_has_landed(world: World):
    there = uploads(3)
    put(world, *there)
    (table,) = {each.dataset.table for each in parse(GOOD).core_routes() if each.name == "flights"}
    world.lineage.add(table, there)
    shown = reload(FLIGHTS, "--dry-run")
    assert shown.exit_code == Exit.FINDING
    assert "3 uploads of " in shown.stderr
    assert "To load all of them again costs about $" in shown.stderr
    assert "nothing was sent; this was a rehearsal" in shown.stdout
    assert "reloaded: " in shown.stdout
    assert reload(FLIGHTS, answer="n\n").exit_code != Exit.OK
    assert world.topic.published == []
    done = reload(FLIGHTS, answer="y\n")
    assert done.exit_code == Exit.OK
    assert "3 uploads are on their way" in done.stdout
    assert world.topic.keys == [each.key for each in there]
    assert all(each.reloads for each in world.topic.published)


def test_a_reload_says_which_rows_stay_because_their_files_are_not_listed(world: World):
    there, gone, new = uploads(1), upload("flights/gone.json"), upload("flights/z.json")
    put(world, *there)
    (table,) = {each.dataset.table for each in parse(GOOD).core_routes() if each.name == "flights"}
    (notice,) = pack("flights", "landing", [new])
    world.ledger.claim(notice)
    world.lineage.add(table, [*there, gone, new])
    for arguments in (("--dry-run",), ("--yes",)):
        done = reload(FLIGHTS, *arguments)
        assert done.exit_code == Exit.FINDING
        assert f"gone: {gone}: it was not listed" in told(done.stdout)
        assert "z.json" not in done.stdout, "it was put after the listing"
    assert world.topic.keys == [each.key for each in there]
    assert "gone:" not in reload(FLIGHTS, "--since", "200d", "--dry-run").stdout


def test_what_is_expected_leaves_room_for_the_rest(world: World):
    there = uploads(SHOWN + 5)
    put(world, *there)
    (table,) = {each.dataset.table for each in parse(GOOD).core_routes() if each.name == "flights"}
    world.lineage.add(table, [*there, upload("flights/z.json")])
    shown = reload(FLIGHTS, "--dry-run").stdout
    assert (shown.count("reloaded: "), shown.count("gone: ")) == (SHOWN // 2, 1)
    assert f"and {SHOWN // 2 + 5} more" in shown


def test_a_reload_has_the_time_that_is_asked_for(world: World):
    put(world, upload("flights/old.json"))
    put(world, upload("flights/new.json"), age=DAY)
    (table,) = {each.dataset.table for each in parse(GOOD).core_routes() if each.name == "flights"}
    world.lineage.add(table, [upload("flights/old.json"), upload("flights/new.json")])
    for option, key in (("--until", "old"), ("--since", "new")):
        said = reload(FLIGHTS, option, "30d", "--dry-run").stdout
        assert f"flights/{key}.json" in said
        assert said.count("reloaded: ") == 1


def test_a_reload_of_nothing_says_so_and_runs_no_job(world: World):
    done = reload("s3://landing/flights/*.json", "--dry-run")
    assert done.exit_code == Exit.FINDING
    assert "s3://landing/flights/*.json has no upload of that time that a route takes" in done.stderr
    assert world.lineage.asked == []


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("quarantine",), "--reload goes with batches and s3://BUCKET/PREFIX"),
        (("quaratine",), "did you mean `quarantine`?"),
        ((FLIGHTS, "--key", "x"), "--reload goes with --route, --since and --until"),
        (("01B", "--since", "1d"), "and not with a batch"),
        (("s3://landing/trains/",), "no route takes s3://landing/trains/"),
        (("landing/flights/",), "landing/flights/ is no batch: a prefix is s3://BUCKET/PREFIX"),
    ],
)
def test_what_cannot_be_reloaded_is_refused(world: World, arguments: tuple[str, ...], why: str):
    result = reload(*arguments)
    assert result.exit_code == Exit.USAGE
    assert why in told(result.stderr)
    assert world.topic.published == []


def test_json_is_what_the_page_shows(world: World):
    put(world, *uploads(1))
    result = run(FLIGHTS, "--json")
    assert result.exit_code == Exit.FINDING
    assert agree(shape(json.loads(result.stdout)), shape(documented("audit prefix")))

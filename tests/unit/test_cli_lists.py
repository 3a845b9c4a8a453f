"""`tidegate files` and `tidegate files --batches`: what they print and how they end, on a deployment in memory."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.build import notice, upload
from tests.support.fakes import play_publishing
from tests.support.past import DatedWorld, dated_world
from tests.unit.test_cli import agree, documented, shape
from tidegate import wiring
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.cli.plugins import StackStopped
from tidegate.core.landed_files import LandedFile, LandedPage, landed_page
from tidegate.core.outcomes import Outcome
from tidegate.core.times import iso
from tidegate.core.unknown import UnknownNames
from tidegate.flows import batch_list as batch_list_flow
from tidegate.flows import files as files_flow

KEYS = [f"flights/0000-{number:05}.json" for number in range(3)]
BAD = (Outcome.QUARANTINED, "line 3: 'x' is no INT\nand more")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> DatedWorld:
    world = dated_world()
    found = SimpleNamespace(routes=world.routes, ports=lambda attempt="": world.ports)
    monkeypatch.setattr(deployment, "find", lambda folder: found)
    monkeypatch.setattr(wiring, "clock", world.clock)
    return world


def run(*arguments: str, **environment: str) -> Any:
    return CliRunner().invoke(main.app, list(arguments), env=environment, catch_exceptions=False)


# ---- files


def test_files_are_printed_by_batch_with_what_became_of_each(world: DatedWorld):
    batch = world.land(ends={KEYS[0]: BAD}, rows=1_234)
    assert run("files").stdout == (
        f"{batch}  flights  committed at {iso(world.clock.now)}\n"
        "  snapshot 77 of lake.raw.flights\n"
        f"  quarantined  s3://landing/{KEYS[0]}\n"
        "      line 3: 'x' is no INT\n"
        f"  committed    1,234 rows  s3://landing/{KEYS[1]}\n"
        f"  committed    1,234 rows  s3://landing/{KEYS[2]}\n"
    )


def test_files_name_an_object_that_has_landed_in_another_version_too(world: DatedWorld):
    world.land()
    world.clock.advance(60)
    world.dispatch(notice(upload(KEYS[0], "corrected")))
    batch = world.open.id
    world.ledger.seal(batch, "flights", "lake.raw.flights")
    world.hand_off()
    play_publishing(world.work, batch)
    world.settle()
    shown = run("files").stdout
    several = f"      2 versions of it have landed: tidegate trace s3://landing/{KEYS[0]}\n"
    # of both: each page says it by itself
    assert shown.count(several) == 2
    assert run("files", "--limit", "1").stdout.count(several) == 1
    found = json.loads(run("files", "--json").stdout)["files"]
    assert [each["landed_versions"] for each in found] == [2, 2, 1, 1]


def test_what_a_stopped_stack_has_left_tells_of_the_versions_too():
    one = LandedFile("s3://l/a", "v1", "lake.a", "01A", 1, 9)
    found = [one, replace(one, version="v2"), replace(one, batch="01B"), replace(one, table="lake.b")]
    page = landed_page(found, limit=9)
    assert {(each.table, each.versions) for each in page.files} == {("lake.a", 2), ("lake.b", 1)}
    # also if the other one is on another page
    assert landed_page(found, limit=1).files[0].versions == 2


def test_files_and_batches_until_a_time_are_those_that_began_before(world: DatedWorld):
    first = world.land()
    world.clock.advance(7_200)
    later = world.land("flights/later-")
    for more in ((), ("--batches",)):
        assert [each in run("files", *more, "--until", "1h").stdout for each in (first, later)] == [True, False]
        assert [each in run("files", *more, "--until", "1s").stdout for each in (first, later)] == [True, True]
    token = json.loads(run("files", "--until", "1h", "--limit", "1", "--json").stdout)["after"]
    assert first in run("files", "--until", "1h", "--after", token).stdout
    assert "must be earlier than --until" in run("files", "--since", "1h", "--until", "2h").output


def test_what_a_stopped_stack_has_left_may_be_of_before_a_time():
    found = [LandedFile("s3://l/a", "v1", "lake.a", "01A", 1, at) for at in (9, 10)]
    assert [each.ingested_at for each in landed_page(found, until=10, limit=9).files] == [9]


def test_files_that_have_not_ended_say_since_when(world: DatedWorld):
    world.arrive(1)
    opened = iso(world.clock.now)
    assert run("files").stdout == (
        f"{world.open.id}  flights  OPEN\n  pending      s3://landing/flights/0000-00000.json  since {opened}\n"
    )


def test_files_as_json_is_what_the_page_shows(world: DatedWorld):
    world.land(ends={KEYS[0]: BAD})
    document = json.loads(run("files", "--limit", "2", "--json").stdout)
    assert agree(shape(document), shape(documented("files")))
    rest = json.loads(run("files", "--after", document["after"], "--json").stdout)
    told = [(each["outcome"], each["rows"], each["error"]) for each in (*document["files"], *rest["files"])]
    assert told == [("quarantined", None, BAD[1]), ("committed", 1, None), ("committed", 1, None)]
    assert rest["after"] is None


def test_files_say_how_to_go_on(world: DatedWorld):
    world.land()
    first = run("files", "--limit", "2").stdout
    token = first.splitlines()[-1].removeprefix("there may be more: --after ")
    assert KEYS[2] not in first
    assert KEYS[2] in run("files", "--after", token).stdout


@pytest.mark.parametrize(
    "outcome", ["quarantined", "pending", "committed", "superseded", "vanished", "present", "dropped"]
)
def test_files_of_one_outcome(world: DatedWorld, outcome: str):
    world.land(ends={KEYS[0]: BAD})
    found = json.loads(run("files", "--state", outcome, "--json").stdout)["files"]
    assert {each["outcome"] for each in found} <= {outcome}
    assert len(found) == {"quarantined": 1, "committed": 2}.get(outcome, 0)


def test_nothing_of_what_was_asked_for_is_said(world: DatedWorld):
    nothing = run("files").stdout
    assert nothing.startswith("no upload: 0 batches looked at\n")
    assert "`tidegate status` counts them" in nothing
    opened = iso(world.clock.now)
    world.land()
    looked_at = f": 1 batch looked at, back to {opened}\n"
    assert run("files", "--key", "trains/*").stdout == (
        f"no upload with --key 'trains/*'{looked_at}"
        "  --key is a pattern of the whole key; `tidegate trace s3://BUCKET/KEY` finds one object, however old\n"
    )
    assert run("files", "--route", "flights", "--state", "pending").stdout == (
        f"no upload with --route flights --state pending{looked_at}"
    )
    assert run("files", "--batches", "--state", "abandoned").stdout == f"no batch with --state abandoned{looked_at}"


def test_an_empty_page_is_passed_over_and_a_far_one_says_where_to_go_on(
    world: DatedWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files_flow, "MOST_LOOKED_AT", 2)
    monkeypatch.setattr(batch_list_flow, "MOST_LOOKED_AT", 2)
    world.land("flights/old-")
    for number in range(9):
        world.clock.advance(60)
        world.land(f"flights/{number}-")
    assert "flights/old-" in run("files", "--key", "flights/old-*").stdout
    world.clock.advance(60)
    world.land("flights/last-")
    far = run("files", "--key", "flights/old-*").stdout
    assert far.startswith("no upload with --key 'flights/old-*': 10 batches looked at, back to ")
    assert "older batches were not looked at yet\n" in far
    token = far.splitlines()[-1].removeprefix("there may be more: --after ")
    assert "flights/old-" in run("files", "--key", "flights/old-*", "--after", token).stdout
    assert run("files", "--batches", "--state", "open").stdout.startswith(
        "no batch with --state open: 10 batches looked at"
    )


def test_batches_that_have_halted_are_found_by_that(world: DatedWorld):
    world.land()
    halted = world.submitted(prefix="flights/next-")
    world.ledger.halt(halted.id, 1, "no such column")
    world.clock.advance(60)
    world.sealed(prefix="flights/more-")
    found = json.loads(run("files", "--batches", "--state", "HALTED", "--json").stdout)["batches"]
    assert [each["id"] for each in found] == [halted.id]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["files", "--route", "nights"], "there is no route 'nights': there are flights, weather"),
        (
            ["files", "--state", "done"],
            "is none of quarantined, pending, committed, superseded, vanished, present, dropped",
        ),
        (["files", "--after", "nonsense"], "is not what a page of this deployment has printed"),
        (["files", "--after", "a:b"], "is not what a page of this deployment has printed"),
        (["files", "--since", "monday"], "is neither an age"),
        (["files", "--limit", "0"], "greater than or equal to 1"),
        (["files", "--batches", "--route", "nights"], "there is no route 'nights': there are flights, weather"),
        (["files", "--batches", "--state", "done"], "is none of open, sealed, submitted, committed, abandoned, halted"),
        (["files", "--batches", "--after", "nonsense"], "is not what a page of this deployment has printed"),
        (["files", "--batches", "--since", "2999-01-01"], "--since is in the future"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_named(world: DatedWorld, arguments: list[str], text: str):
    done = run(*arguments, COLUMNS="300")
    assert done.exit_code == Exit.USAGE
    assert text in " ".join(done.stderr.replace("│", " ").split())


def test_what_the_work_bucket_lacks_is_told(world: DatedWorld):
    batch = world.land()
    world.work.objects = {name: body for name, body in world.work.objects.items() if "/parts/" not in name}
    done = run("files")
    assert (done.exit_code, f"trouble: batch {batch}: parts/" in done.stdout) == (Exit.OK, True)


# ---- batches


def test_batches_are_printed_with_how_long_they_took(world: DatedWorld):
    done = world.land(ends={KEYS[0]: BAD}, rows=10)
    ended = iso(world.clock.now)
    world.clock.advance(600)
    halted = world.submitted(prefix="flights/next-")
    world.clock.advance(30)
    world.ledger.halt(halted.id, 1, "no such column")
    assert run("files", "--batches").stdout == (
        f"{halted.id}  flights  HALTED\n"
        "  3 uploads, 30 B, 1 attempt\n"
        "  gathered 0s, waited 0s, ran 30s\n"
        "  halted: no such column\n"
        f"{done}  flights  COMMITTED at {ended}\n"
        "  3 uploads, 30 B, 20 rows, 1 attempt\n"
        "  1 quarantined\n"
        "  gathered 0s, waited 0s, ran 60s\n"
        "  snapshot 77 of lake.raw.flights\n"
    )


def test_batches_name_the_columns_that_the_schema_lacks(world: DatedWorld):
    world.land(unknown=UnknownNames(3, {"coupon": 3, "customer.vip": 1}))
    assert "  not in the schema: coupon (3 uploads), customer.vip (1 upload)\n" in run("files", "--batches").stdout
    (batch,) = json.loads(run("files", "--batches", "--json").stdout)["batches"]
    assert batch["unknown"] == [{"name": "coupon", "uploads": 3}, {"name": "customer.vip", "uploads": 1}]


def test_batches_as_json_is_what_the_page_shows(world: DatedWorld):
    world.land()
    world.clock.advance(600)
    world.arrive(prefix="flights/next-")
    document = json.loads(run("files", "--batches", "--json").stdout)
    assert agree(shape(document), shape(documented("files batches")))
    gathering, done = document["batches"]
    assert (gathering["state"], gathering["waited_seconds"], gathering["ran_seconds"]) == ("OPEN", None, None)
    assert (done["rows"], done["uploads"]["committed"], done["ran_seconds"]) == (3, 3, 60)
    (first,) = json.loads(run("files", "--batches", "--limit", "1", "--json").stdout)["batches"]
    (second,) = json.loads(run("files", "--batches", "--limit", "1", "--after", first["id"], "--json").stdout)[
        "batches"
    ]
    assert [first["id"], second["id"]] == [gathering["id"], done["id"]]


@pytest.mark.parametrize("width", [72, 80])
def test_the_lists_fit_a_terminal(world: DatedWorld, width: int):
    world.land(ends={KEYS[0]: (Outcome.QUARANTINED, "a reason of many words, " * 9)})
    halted = world.submitted(prefix="flights/next-")
    world.ledger.halt(halted.id, 1, "a reason of many words, " * 9)
    for verb in ("files", "batches"):
        printed = run(verb, COLUMNS=str(width)).stdout
        assert [line for line in printed.splitlines() if len(line) > width] == []


# ---- after the stack has stopped

LANDED = [
    LandedFile("s3://landing/flights/a.json", "v1", "lake.raw.flights", "01A", 3, 1_800_000_000, 2**62),
    LandedFile("s3://landing/flights/b.json", "v1", "lake.raw.flights", "01B", 1, 1_800_000_060),
]


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def remains(**wanted: Any) -> LandedPage:
        return landed_page(LANDED, **wanted, unknown="the stack has stopped", troubles=("table x cannot be read",))

    def find(folder: Path | None) -> None:
        raise StackStopped("no stack runs in .tidegate", remains)

    monkeypatch.setattr(deployment, "find", find)


@pytest.mark.usefixtures("stopped")
def test_of_a_stack_that_has_stopped_its_tables_are_listed():
    done = run("files")
    assert done.exit_code == Exit.OK
    assert done.stdout == (
        "note: the stack has stopped\n"
        "01B  read at 2027-01-15T08:01:00Z\n"
        "  lake.raw.flights\n"
        "  committed    1 row  s3://landing/flights/b.json\n"
        "01A  read at 2027-01-15T08:00:00Z\n"
        f"  snapshot {2**62} of lake.raw.flights\n"
        "  committed    3 rows  s3://landing/flights/a.json\n"
        "trouble: table x cannot be read\n"
    )


@pytest.mark.usefixtures("stopped")
def test_what_is_left_has_the_shape_of_what_was():
    document = json.loads(run("files", "--limit", "1", "--json").stdout)
    assert agree(shape(document), shape(documented("files")))
    assert (document["source"], document["unknown"], document["after"]) == ("tables", "the stack has stopped", "1")
    (rest,) = json.loads(run("files", "--after", "1", "--state", "committed", "--json").stdout)["files"]
    assert (rest["uri"], rest["snapshot"]) == ("s3://landing/flights/a.json", str(2**62))
    (found,) = json.loads(run("files", "--key", "*/b.json", "--json").stdout)["files"]
    assert found["uri"].endswith("b.json")


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--state", "quarantined"], Exit.NO_STACK, "what was quarantined is not known any more"),
        (["--route", "flights"], Exit.NO_STACK, "its tables are left, and do not tell the routes"),
        (["--after", "01A:b:1"], Exit.USAGE, "is not what a page of this deployment has printed"),
    ],
)
def test_what_the_tables_do_not_tell_is_said(arguments: list[str], code: Exit, text: str):
    done = run("files", *arguments, COLUMNS="300")
    assert done.exit_code == code
    assert text in " ".join(done.stderr.replace("│", " ").lower().split())


@pytest.mark.usefixtures("stopped")
def test_other_verbs_say_that_no_stack_runs():
    done = run("files", "--batches")
    assert (done.exit_code, "no stack runs in .tidegate" in done.stderr) == (Exit.NO_STACK, True)

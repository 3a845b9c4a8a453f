"""`tidegate ledger recover`: from when on it looks, what it prints, how it ends. Nothing runs."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.fakes import MemoryLineage
from tests.support.world import memory_ports
from tests.unit.test_cli import agree, documented, shape
from tidegate import wiring
from tidegate.cli import deployment, ledger, main
from tidegate.cli.exits import Exit
from tidegate.core.batches import oldest_remembered
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import Ports
from tidegate.flows.rebuild import Rebuilt
from tidegate.flows.recover import Clash, Recovered, SilentTopic
from tidegate.settings import DAY
from tidegate.stores.memory import MemoryStore, Rehearsal
from tidegate.stores.rehearsed_work import RehearsedWork

NOW = 1_800_000_000  # 2027-01-15T08:00:00Z
LEDGER = Ledger(MemoryStore(), lambda: NOW, 60 * DAY)
PORTS = memory_ports(ledger=LEDGER)
DONE = Recovered(batches=4, claims=9, notices=3, withdrawn=1, sealed=1, submitted=2, sent=5)
FOUND = replace(
    DONE,
    clashes=[Clash("01A", "01B", 2, "s3://landing/flights/a.json (v1)")],
    unknown_routes={"weather": ["01C"]},
    troubles=["batch 01D: parts/x is missing"],
)

LINEAGE = MemoryLineage()
REBUILT = Rebuilt(DONE, {"lake.a": 10, "lake.b": 4}, before=21, strangers=22, written=23, uploads=24, ended=25)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What recovering was asked for; what it answers is under "answer"."""
    found: dict[str, Any] = {"answer": DONE}
    application = SimpleNamespace(
        routes={},
        settings=SimpleNamespace(retention=SimpleNamespace(claims=60 * DAY)),
        ports=lambda attempt: replace(PORTS, topic=f"the topic, {attempt}"),
        lineage=lambda tell: LINEAGE,
    )

    def recover(ports: Ports, **named: Any) -> Recovered:
        found.update(named, ports=ports)
        return found["answer"]

    monkeypatch.setattr(deployment, "find", lambda folder: application)
    monkeypatch.setattr(wiring, "clock", lambda: NOW)

    def rebuild(ports: Ports, **named: Any) -> Rebuilt:
        found.update(named, ports=ports)
        named["tell"]("a line of progress")
        return REBUILT if found["answer"] is DONE else replace(REBUILT, recovered=found["answer"])

    monkeypatch.setattr(ledger, "put_right", recover)
    monkeypatch.setattr(ledger, "write_again", rebuild)
    return found


def run(*arguments: str, verb: str = "recover") -> Any:
    return CliRunner().invoke(main.app, ["ledger", verb, *arguments], catch_exceptions=False)


def test_it_looks_back_as_far_as_the_ledger_remembers(asked):
    assert run().exit_code == Exit.OK
    assert wiring.made_at(asked["oldest"]) == NOW - 60 * DAY
    assert replace(asked["ports"], topic=PORTS.topic) == PORTS
    assert asked["ports"].topic.startswith("the topic, recover-")


def test_or_to_a_given_time_and_an_hour_more(asked):
    assert run("--since", "2027-01-15T07:00:00Z").exit_code == Exit.OK
    assert wiring.made_at(asked["oldest"]) == NOW - 2 * 60 * 60
    assert run("--since", "2027-01-15T08:00:00+01:00").exit_code == Exit.OK
    assert wiring.made_at(asked["oldest"]) == NOW - 2 * 60 * 60


def test_or_to_an_age_and_an_hour_more(asked):
    assert run("--since", "90m").exit_code == Exit.OK
    assert wiring.made_at(asked["oldest"]) == NOW - 150 * 60


def test_but_never_further_than_the_ledger_remembers(asked):
    run("--since", "2020-01-01T00:00:00Z")
    assert wiring.made_at(asked["oldest"]) == NOW - 60 * DAY


@pytest.mark.parametrize(
    ("time", "why"),
    [("monday", "is neither an age"), ("2027-01-15T07:00:00", "zone"), ("2027-01-16T00:00:00Z", "future")],
)
def test_a_time_that_is_none_is_refused(asked, time, why):
    result = run("--since", time)
    assert (result.exit_code, why in result.stderr) == (Exit.USAGE, True)
    assert "oldest" not in asked


def test_a_dry_run_writes_and_sends_nothing(asked):
    result = run("--dry-run")
    assert asked["ports"].ledger == replace(LEDGER, store=Rehearsal(LEDGER.store))
    assert isinstance(asked["ports"].topic, SilentTopic)
    assert "nothing was written" in result.stdout


def test_the_counts_are_printed(asked):
    result = run()
    assert result.exit_code == Exit.OK
    assert [int(each) for each in re.findall(r" (\d+)$", result.stdout, re.MULTILINE)] == [4, 1, 2, 9, 3, 1, 5]


def test_what_a_person_must_look_at_is_printed_and_is_a_finding(asked):
    asked["answer"] = FOUND
    result = run()
    assert result.exit_code == Exit.FINDING
    assert "2 uploads are in the manifest of batch 01A, and owned by 01B as well" in result.stdout
    assert "neither tidegate.toml nor the ledger has route weather" in result.stdout
    assert "batch 01D: parts/x is missing" in result.stdout


def test_json_is_what_the_page_shows(asked):
    asked["answer"] = FOUND
    result = run("--json")
    assert result.exit_code == Exit.FINDING
    document = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("ledger recover")))
    assert document["complete"] is False


def test_rebuilding_looks_at_all_that_the_ledger_cannot_have_forgotten(asked):
    result = run(verb="rebuild")
    assert result.exit_code == Exit.OK
    assert wiring.made_at(asked["oldest"]) == oldest_remembered(NOW, 60 * DAY)
    assert asked["ports"].lineage is LINEAGE
    assert replace(asked["ports"], topic=PORTS.topic, lineage=PORTS.lineage) == PORTS
    assert asked["ports"].topic.startswith("the topic, rebuild-")
    counts = [int(each) for each in re.findall(r" (\d+)$", result.stdout, re.MULTILINE)]
    assert sorted(counts) == [1, 1, 2, 3, 4, 5, 9, 14, 21, 22, 23, 24, 25]
    assert "a line of progress" in result.stderr


def test_a_rehearsal_of_rebuilding_writes_and_sends_nothing(asked):
    result = run("--dry-run", verb="rebuild")
    assert asked["ports"].ledger == replace(LEDGER, store=Rehearsal(LEDGER.store))
    assert asked["ports"].work == RehearsedWork(PORTS.work)
    assert isinstance(asked["ports"].topic, SilentTopic)
    assert "nothing was written" in result.stdout


def test_a_ledger_that_was_not_rebuilt_completely_is_a_finding_and_the_json_is_what_the_page_shows(asked):
    asked["answer"] = FOUND
    result = run("--json", verb="rebuild")
    assert result.exit_code == Exit.FINDING
    document = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("ledger rebuild")))
    assert document["complete"] is False


def test_ids_made_since_then_sort_after_the_smallest():
    made = wiring.new_id()
    assert wiring.smallest_id(wiring.made_at(made)) < made < wiring.smallest_id(wiring.made_at(made) + 1)
    assert wiring.made_at(wiring.smallest_id(NOW)) == NOW

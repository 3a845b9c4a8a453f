"""`tidegate ledger rebuild`: from when on it looks, what it prints, how it ends. Nothing runs."""

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
from tidegate.flows.from_rows import FromRows
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import Ports
from tidegate.flows.rebuild import Rebuilt, Twice
from tidegate.flows.send import Unsent
from tidegate.settings import DAY
from tidegate.stores.memory import MemoryStore, Rehearsal
from tidegate.stores.rehearsed_work import RehearsedWork

NOW = 1_800_000_000  # 2027-01-15T08:00:00Z
LEDGER = Ledger(MemoryStore(), lambda: NOW, 60 * DAY)
PORTS = memory_ports(ledger=LEDGER)
LINEAGE = MemoryLineage()
ROWS = FromRows({"lake.a": 10, "lake.b": 4}, before=21, strangers=22, written=23, uploads=24)
DONE = Rebuilt(ROWS, batches=4, claims=9, ended=25, waiting=2, sent=5, whole=True)
FOUND = replace(
    DONE,
    whole=False,
    twice=[Twice("01B", "01A", 2, "s3://landing/flights/a.json (v1)")],
    troubles=["batch 01D: parts/x is missing"],
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What rebuilding was asked for; what it answers is under "answer"."""
    found: dict[str, Any] = {"answer": DONE}

    def ports(attempt: str, *, guarded: bool) -> Ports:
        assert not guarded
        return replace(PORTS, topic=f"the topic, {attempt}")

    application = SimpleNamespace(
        routes={},
        settings=SimpleNamespace(retention=SimpleNamespace(claims=60 * DAY)),
        ports=ports,
        lineage=lambda tell: LINEAGE,
    )

    def rebuild(ports: Ports, **named: Any) -> Rebuilt:
        found.update(named, ports=ports)
        named["tell"]("a line of progress")
        return found["answer"]

    monkeypatch.setattr(deployment, "find", lambda folder: application)
    monkeypatch.setattr(wiring, "clock", lambda: NOW)
    monkeypatch.setattr(ledger, "build_anew", rebuild)
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["ledger", "rebuild", *arguments], catch_exceptions=False)


def test_rebuilding_looks_at_all_that_the_ledger_cannot_have_forgotten(asked):
    result = run()
    assert result.exit_code == Exit.OK
    assert wiring.made_at(asked["oldest"]) == oldest_remembered(NOW, 60 * DAY)
    assert asked["ports"].lineage is LINEAGE
    assert replace(asked["ports"], topic=PORTS.topic, lineage=PORTS.lineage) == PORTS
    assert asked["ports"].topic.startswith("the topic, rebuild-")
    counts = [int(each) for each in re.findall(r" (\d+)$", result.stdout, re.MULTILINE)]
    assert counts == [14, 21, 22, 23, 24, 4, 25, 2, 9, 5]
    assert "a line of progress" in result.stderr


def test_a_rehearsal_of_rebuilding_writes_and_sends_nothing(asked):
    result = run("--dry-run")
    assert asked["ports"].ledger == replace(LEDGER, store=Rehearsal(LEDGER.store))
    assert asked["ports"].work == RehearsedWork(PORTS.work)
    assert isinstance(asked["ports"].topic, Unsent)
    assert "nothing was written" in result.stdout


def test_what_a_person_must_look_at_is_printed_and_is_a_finding(asked):
    asked["answer"] = FOUND
    result = run()
    assert result.exit_code == Exit.FINDING
    assert "2 uploads of batch 01A, for example s3://landing/flights/a.json (v1): batch 01B has them" in result.stdout
    assert "batch 01D: parts/x is missing" in result.stdout
    assert "the ledger is not whole" in result.stdout


def test_a_ledger_that_was_not_rebuilt_completely_is_a_finding_and_the_json_is_what_the_page_shows(asked):
    asked["answer"] = FOUND
    result = run("--json")
    assert result.exit_code == Exit.FINDING
    document = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("ledger rebuild")))
    assert document["whole"] is False


def test_ids_made_since_then_sort_after_the_smallest():
    made = wiring.new_id()
    assert wiring.smallest_id(wiring.made_at(made)) < made < wiring.smallest_id(wiring.made_at(made) + 1)
    assert wiring.made_at(wiring.smallest_id(NOW)) == NOW


def test_routes_that_the_file_lacks_are_named_and_end_with_1(asked: dict[str, Any]) -> None:
    asked["answer"] = replace(DONE, unknown_routes={"weather"})
    result = run()
    assert result.exit_code == Exit.FINDING
    said = " ".join(result.stdout.split())
    assert "routes that tidegate.toml lacks: weather" in said
    assert "`retired = true` and deploy" in said
    assert "the ledger is not whole" not in said

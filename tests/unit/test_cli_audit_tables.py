"""`tidegate audit --tables`: what it compares, what it prints, how it ends. Nothing runs."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.build import route
from tests.support.fakes import MemoryLineage
from tests.support.world import memory_ports
from tests.unit.test_cli import agree, documented, shape
from tidegate import wiring
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.core.batches import oldest_remembered
from tidegate.core.reconcile import Holding, TableDifference
from tidegate.flows.ports import Ports
from tidegate.flows.reconcile import Reconciled, TableFinding
from tidegate.settings import DAY

NOW = 1_800_000_000
LINEAGE = MemoryLineage()
GOOD = Reconciled(11, 12, 13, 14, 15, 16, {"lake.a": Holding(2, 20), "lake.b": Holding(1, 1)})
MISSING = TableFinding(TableDifference.MISSING, "flights", "lake.a", "01A", ledger=Holding(3, 30))
TWICE = TableFinding(
    TableDifference.TWICE, "flights", "lake.a", "01A", table=Holding(2, 20), other="01B", example="s3://l/k (v1)"
)
NOT_FENCED = TableFinding(TableDifference.NOT_FENCED, "flights", "lake.a", "01A", attempts=3)
BAD = Reconciled(11, 12, 13, 14, 15, 16, {"lake.a": Holding(2, 20)}, [MISSING, TWICE, NOT_FENCED])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {"answer": GOOD}
    ports = memory_ports()
    ports.ledger.remember_route(route("gone"))
    application = SimpleNamespace(
        routes={"flights": route("flights")},
        settings=SimpleNamespace(retention=SimpleNamespace(claims=60 * DAY)),
        ports=lambda: ports,
        lineage=lambda tell: LINEAGE,
    )

    def compare(ports: Ports, **named: Any) -> Reconciled:
        found.update(named, ports=ports)
        named["tell"]("a line of progress")
        answer: Reconciled = found["answer"]
        return answer

    monkeypatch.setattr(deployment, "find", lambda folder: application)
    monkeypatch.setattr(wiring, "clock", lambda: NOW)
    monkeypatch.setattr("tidegate.cli.audit.reconcile", compare)
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["audit", "--tables", *arguments], catch_exceptions=False)


def test_a_table_that_holds_what_was_committed_is_no_finding(asked):
    result = run()
    assert result.exit_code == Exit.OK
    assert (asked["route"], asked["ports"].lineage) == (None, LINEAGE)
    assert wiring.made_at(asked["oldest"]) == oldest_remembered(NOW, 60 * DAY)
    assert [int(each) for each in re.findall(r" (\d+)$", result.stdout, re.MULTILINE)] == [
        11,
        12,
        13,
        14,
        15,
        16,
    ]
    assert "the tables hold what the ledger has committed" in result.stdout
    assert "a line of progress" in result.stderr


def test_a_difference_is_a_finding_with_both_numbers_and_what_to_do(asked):
    asked["answer"] = BAD
    result = run()
    assert result.exit_code == Exit.FINDING
    assert (
        "missing: batch 01A: table lake.a holds 0 rows of 0 uploads, the ledger has committed 30 of 3" in result.stdout
    )
    assert "`tidegate resend 01A`" in result.stdout
    assert (
        "twice: table lake.a holds 2 uploads in batch 01A and in batch 01B, for example s3://l/k (v1)" in result.stdout
    )
    assert "not fenced: batch 01A is abandoned, and its fence is not in the history of table lake.a" in result.stdout
    assert "flights-01A-1 to flights-01A-3" in result.stdout
    assert "the tables hold what" not in result.stdout


def test_objects_in_several_versions_are_told_and_are_no_difference(asked):
    asked["answer"] = replace(GOOD, several={"lake.a": 2, "lake.b": 1}, example="s3://l/k")
    result = run()
    assert result.exit_code == Exit.OK
    assert "    in several versions: 2 objects\n" in result.stdout
    assert "    in several versions: 1 object\nin several versions, for example s3://l/k: `tidegate" in result.stdout
    tables = json.loads(run("--json").stdout)["tables"]
    assert [each["objects_in_several_versions"] for each in tables] == [2, 1]


def test_json_is_what_the_page_shows(asked):
    asked["answer"] = BAD
    result = run("--json")
    assert result.exit_code == Exit.FINDING
    document = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("audit tables")))
    assert document["holds"] is False


@pytest.mark.parametrize("name", ["flights", "gone"])
def test_one_route_that_the_configuration_or_the_ledger_has(asked, name):
    assert run("--route", name).exit_code == Exit.OK
    assert asked["route"] == name


def test_a_route_that_nobody_knows_is_a_mistake(asked):
    result = run("--route", "nobody")
    assert result.exit_code == Exit.USAGE
    assert "nobody" in result.stderr


@pytest.mark.parametrize("more", [("--send",), ("--since", "2d"), ("--until", "2d"), ("--job",)])
def test_it_changes_nothing_and_has_no_window(asked, more):
    result = run(*more)
    assert result.exit_code == Exit.USAGE
    assert "--tables goes with none of" in " ".join(result.stderr.replace("│", " ").split())

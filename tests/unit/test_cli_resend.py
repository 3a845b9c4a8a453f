"""`tidegate resend` of batches that have landed: what it says before and after, and how it ends. Nothing runs."""

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.core.batches import Batch, State
from tidegate.core.errors import Rejected
from tidegate.core.outcomes import Tally
from tidegate.flows.resend import Resend, Resent

LANDED = Batch("01A", "flights", State.COMMITTED, 1, tally=Tally(committed=3, rows=1_200), table="lake.raw.flights")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    said: dict[str, Any] = {"sent": []}

    def send(batch_id: str, ports: Any, *, run: str, fencer: Any, on_sent: Any) -> Resend:
        said["sent"].append(batch_id)
        if batch_id in said.get("refused", ()):
            raise Rejected("its rows are there")
        answer: Resend = said.get("answer", Resend(Resent.SENT, 3))
        return answer

    ports = SimpleNamespace(ledger=SimpleNamespace(batch=lambda batch_id: LANDED), new_id=lambda: "1")
    found = SimpleNamespace(ports=lambda attempt: ports, fencer=lambda tell: None)
    monkeypatch.setattr(deployment, "find", lambda folder: found)
    monkeypatch.setattr("tidegate.cli.resend.resend_batch", send)
    return said


def run(*arguments: str, typed: str = "") -> Any:
    return CliRunner().invoke(main.app, ["resend", *arguments], input=typed)


def test_each_batch_is_sent_once(asked: dict[str, Any]) -> None:
    result = run("01A", "01A", "--yes")
    assert (result.exit_code, asked["sent"]) == (0, ["01A"])
    assert "batch 01A has landed: 1,200 rows, table lake.raw.flights" in result.stdout
    assert "3 uploads of batch 01A are sent again" in result.stdout


def test_it_asks_first(asked: dict[str, Any]) -> None:
    assert run("01A", typed="n\n").exit_code == 1
    assert asked["sent"] == []
    result = run("01A", typed="y\n")
    assert asked["sent"] == ["01A"]
    assert "Rows that were deleted on purpose" in result.output


def test_what_its_route_would_say_is_missing(asked: dict[str, Any]) -> None:
    asked["answer"] = Resend(Resent.NO_ROUTE)
    result = run("01A", "--yes")
    assert (result.exit_code, "no settings of its route" in result.stderr) == (Exit.FINDING, True)


@pytest.mark.parametrize("state", [State.COMMITTED, State.ABANDONED])
def test_what_to_do_without_a_file_that_is_missing_depends_on_the_batch(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    monkeypatch.setattr(sys.modules[__name__], "LANDED", replace(LANDED, state=state))
    asked["answer"] = Resend(Resent.MISSING, 2)
    said = " ".join(run("01A", "--yes").stderr.split())
    assert "2 uploads were sent. Restore it" in said
    assert ("--skip-missing" in said) == (state is State.ABANDONED)
    assert ("finds what the table lacks" in said) == (state is State.COMMITTED)


def test_a_batch_that_the_job_refuses_does_not_stop_the_others(asked: dict[str, Any]) -> None:
    asked["refused"] = ["01A"]
    result = run("01A", "01B", "--yes")
    assert (result.exit_code, asked["sent"]) == (Exit.FINDING, ["01A", "01B"])
    assert "batch 01A: its rows are there" in result.stderr


def test_a_dry_run_starts_no_job(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.resend.replace", lambda ports, **_: ports)
    result = run("01A", "--dry-run")
    assert (result.exit_code, asked["sent"]) == (0, [])
    assert "a job would look whether its table was rolled back past it" in result.stdout

"""`tidegate resend`: what it says before and after, and how it ends. Nothing runs."""

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.build import route
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.cli.resend import WHY_NOT
from tidegate.core.batches import Batch, State
from tidegate.core.errors import Rejected
from tidegate.core.outcomes import Tally
from tidegate.flows.republish import Republication, Republished

FOUND = (
    Batch("01A", "flights", State.COMMITTED, 1, tally=Tally(committed=3, rows=1_200)),
    route("flights").dataset,
    "",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    said: dict[str, Any] = {"landed": []}

    def bring_back(batch_id: str, ports: Any, republisher: Any, job_timeout: int) -> Republication:
        said["landed"].append(batch_id)
        if batch_id in said.get("refused", ()):
            raise Rejected("its rows are there")
        landing: Republication = said.get("answer", Republication(Republished.DONE, 1_200, 78, 77))
        return landing

    monkeypatch.setattr(
        deployment,
        "find",
        lambda folder: SimpleNamespace(
            ports=lambda attempt: SimpleNamespace(ledger=SimpleNamespace(batch=lambda batch_id: FOUND[0])),
            republisher=lambda tell: None,
            settings=SimpleNamespace(job_timeout=60),
        ),
    )
    monkeypatch.setattr(
        "tidegate.cli.resend.find_committed", lambda batch_id, ports, job_timeout: said.get(batch_id, FOUND)
    )
    monkeypatch.setattr("tidegate.cli.resend.republish", bring_back)
    return said


def run(*arguments: str, typed: str = "") -> Any:
    return CliRunner().invoke(main.app, ["resend", *arguments], input=typed)


def test_each_batch_lands_once(asked: dict[str, Any]) -> None:
    result = run("01A", "01A", "--yes")
    assert (result.exit_code, asked["landed"]) == (0, ["01A"])
    assert "batch 01A: 1,200 rows, table lake.raw.flights" in result.stdout
    assert "batch 01A: its 1,200 rows are in the table since snapshot 78" in result.stdout


def test_it_asks_first(asked: dict[str, Any]) -> None:
    assert run("01A", typed="n\n").exit_code == 1
    assert asked["landed"] == []
    result = run("01A", typed="y\n")
    assert asked["landed"] == ["01A"]
    assert "Rows that were deleted on purpose" in result.output


def test_rows_that_are_there_are_no_error(asked: dict[str, Any]) -> None:
    asked["answer"] = Republication(Republished.DONE, 1_200, 77, 77)
    result = run("01A", "--yes")
    assert result.exit_code == 0
    assert "are in the table and were before this command" in result.stdout


@pytest.mark.parametrize("why", WHY_NOT)
def test_a_batch_that_cannot_is_named_and_the_others_land(asked: dict[str, Any], why: Republished) -> None:
    asked["01B"] = why
    result = run("01B", "01A", "--yes")
    assert (result.exit_code, asked["landed"]) == (Exit.FINDING, ["01A"])
    assert f"batch 01B: {WHY_NOT[why]}" in result.stdout


def test_there_is_a_word_for_each_reason() -> None:
    assert set(WHY_NOT) == set(Republished) - {Republished.DONE}


def test_a_batch_that_the_job_refuses_does_not_stop_the_others(asked: dict[str, Any]) -> None:
    asked["refused"] = ["01A"]
    result = run("01A", "01B", "--yes")
    assert (result.exit_code, asked["landed"]) == (Exit.FINDING, ["01A", "01B"])
    assert "batch 01A: its rows are there" in result.stdout
    assert "batch 01B: its 1,200 rows are in the table" in result.stdout

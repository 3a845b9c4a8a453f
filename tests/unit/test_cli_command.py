"""The name by which printed commands call the command line."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.cli.command import as_called, this_command
from tidegate.cli.main import app


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A command line in a folder with a space, which the shell does not search."""
    script = tmp_path / "a venv" / "bin" / "tidegate"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\necho it runs\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script.with_name("python")))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return script


def test_it_is_the_full_path_unless_the_shell_finds_it(installed: Path, monkeypatch: pytest.MonkeyPatch):
    assert this_command() == shlex.quote(str(installed))
    done = subprocess.run(["sh", "-c", this_command()], capture_output=True, text=True, check=True)
    assert done.stdout == "it runs\n"
    monkeypatch.setenv("PATH", f"{installed.parent}:/usr/bin:/bin")
    assert this_command() == "tidegate"


def test_another_one_that_the_shell_finds_is_not_this_one(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = tmp_path / "bin" / "tidegate"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")
    assert this_command() == shlex.quote(str(installed))


def test_without_a_script_the_module_is_run(installed: Path):
    installed.unlink()
    assert this_command() == f"{shlex.quote(sys.executable)} -m tidegate.cli.main"


def test_it_is_printed_as_a_person_has_typed_it(installed: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["a venv/bin/tidegate", "status"])
    assert as_called() == "'a venv/bin/tidegate'"
    # a shell that searched for it hands over the full path, and another program runs it as a module
    for typed in (str(installed), "/x/tidegate/cli/main.py", "tidegate", "pytest", "some/pytest"):
        monkeypatch.setattr(sys, "argv", [typed])
        assert as_called() == this_command()


def test_what_a_verb_prints_calls_the_command_line_as_the_verb_was_called(
    installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", [".venv/bin/tidegate", "trace", "landing/x"])
    monkeypatch.setenv("TIDEGATE_CONFIG", "/nowhere/tidegate.toml")
    with pytest.raises(SystemExit):
        app(["check"])
    assert "(`.venv/bin/tidegate init` makes one of samples)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "said"),
    [(["ls"], "Did you mean `.venv/bin/tidegate files`?"), (["sql", "select", "1"], "as in .venv/bin/tidegate sql")],
)
def test_a_mistake_on_the_command_line_names_it_as_it_was_called(
    typed: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", [".venv/bin/tidegate", *typed])
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        app(typed)
    assert said in capsys.readouterr().err

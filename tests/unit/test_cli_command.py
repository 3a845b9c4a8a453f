"""The name by which printed commands call the command line."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.cli.command import this_command


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

"""A shell whose `tidegate` and `aws` are the real command lines, run in the process of the test.

There they meet the clock, the emulated services and the functions of the test, and each costs milliseconds instead of
seconds. bash itself is real: what it expands, loops over and passes on is what a person's would.
"""

import contextlib
import io
import os
import selectors
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from awscli.clidriver import create_clidriver
from typer.testing import CliRunner

from tests.support.patience import HANGING
from tidegate.cli.main import app

COMMANDS = ("tidegate", "aws")
WRAPPER = """#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{port}
{{ printf '%s\\0' "$#" {name} "$@"; env -0; printf '\\0'; }} >&3
read -r code <&3
cat {folder}/stdout
cat {folder}/stderr >&2
exit "$code"
"""
DONE = b"__done__ "


@dataclass(frozen=True, slots=True)
class Typed:
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str


class Shell:
    """One bash in `folder`, with the two commands in `.venv/bin`, as in the project's folder."""

    def __init__(self, folder: Path, aws: Any) -> None:
        self.folder = folder
        self._aws = aws
        self._answers = ""
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        binaries = folder / ".venv" / "bin"
        binaries.mkdir(parents=True)
        for name in COMMANDS:
            wrapper = binaries / name
            wrapper.write_text(WRAPPER.format(port=port, name=name, folder=folder))
            wrapper.chmod(0o755)
        self._errors = (folder / "errors").open("wb")
        self._bash = subprocess.Popen(
            [shutil.which("bash") or "bash", "--norc"],
            cwd=folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def close(self) -> None:
        self._bash.kill()
        self._bash.communicate()
        self._listener.close()
        self._errors.close()

    def type(self, command: str, answers: str = "") -> Typed:
        """Run one command of the page, with everything that it calls, and wait for it. `answers` are typed where
        `tidegate` asks."""
        self._answers = answers
        stdin, stdout = self._bash.stdin, self._bash.stdout
        assert stdin is not None
        assert stdout is not None
        said_before = (self.folder / "errors").stat().st_size
        stdin.write(f"{command}\nprintf '\\n__done__ %s\\n' \"$?\"\n".encode())
        stdin.flush()
        said = b""
        deadline = time.monotonic() + HANGING
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(stdout, selectors.EVENT_READ)
            while not said.rpartition(b"\n" + DONE)[1] or not said.endswith(b"\n"):
                assert time.monotonic() < deadline, f"this does not end: {command}"
                for key, _ in selector.select(1.0):
                    if key.fileobj is self._listener:
                        self._serve()
                    else:
                        read = os.read(stdout.fileno(), 65536)
                        assert read, f"the shell has ended over: {command}"
                        said += read
        output, _, code = said.rpartition(b"\n" + DONE)
        errors = (self.folder / "errors").read_bytes()[said_before:]
        return Typed(int(code), output.decode(), errors.decode())

    def _serve(self) -> None:
        """Run the command that a wrapper sends: a number, so many words and one, and the wrapper's environment."""
        connection, _ = self._listener.accept()
        with connection:
            received = b""
            while not received.endswith(b"\0\0"):
                received += connection.recv(65536)
            count, *words = received.decode().split("\0")
            name, arguments = words[0], words[1 : int(count) + 1]
            environment = dict(entry.partition("=")[::2] for entry in words[int(count) + 1 :] if entry)
            with _variables(environment):
                done = self._run_tidegate(arguments) if name == "tidegate" else self._run_aws(arguments)
            (self.folder / "stdout").write_text(done.stdout)
            (self.folder / "stderr").write_text(done.stderr)
            connection.sendall(f"{done.code}\n".encode())

    def _run_tidegate(self, arguments: list[str]) -> Typed:
        done = CliRunner().invoke(app, arguments, input=self._answers, catch_exceptions=False)
        return Typed(done.exit_code, done.stdout, done.stderr)

    def _run_aws(self, arguments: list[str]) -> Typed:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = self._aws.main(arguments)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Typed(code, out.getvalue(), err.getvalue())


def make_aws(serve_jobs: Callable[..., Any]) -> Any:
    """The AWS CLI. `serve_jobs` answers what it asks of EMR Serverless."""
    driver = create_clidriver()
    driver.session.get_component("event_emitter").register_first("before-send.emr-serverless", serve_jobs)
    return driver


@contextlib.contextmanager
def _variables(environment: Mapping[str, str]) -> Any:
    """What the shell has exported of the deployment's variables, for as long as a command runs."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("TIDEGATE_")}
    config = kept.get("TIDEGATE_CONFIG")
    try:
        for name in kept:
            del os.environ[name]
        if config:
            os.environ["TIDEGATE_CONFIG"] = config
        os.environ.update({name: value for name, value in environment.items() if name.startswith("TIDEGATE_")})
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("TIDEGATE_")]:
            del os.environ[name]
        os.environ.update(kept)

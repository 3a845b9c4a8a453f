"""`tidegate ui` as a process: what it prints, where it listens, how it ends."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from typer.testing import CliRunner

from tests.support.patience import HANGING, eventually
from tests.support.verbs import of_nobody
from tests.unit.test_cli import agree, documented, shape
from tidegate.cli import deployment, main, plugins
from tidegate.cli.exits import Exit

ROOT = Path(__file__).parents[2]
RUN = "from tidegate.cli.main import app; app()"


@dataclass
class Started:
    """A running verb, of a deployment that answers nobody, and what it printed as JSON."""

    process: "subprocess.Popen[str]"
    printed: dict[str, Any]

    def get(self, path: str, **headers: str) -> http.client.HTTPResponse:
        where = urlsplit(self.printed["address"])
        connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=HANGING)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def end(self) -> tuple[int, str, str]:
        """As Ctrl-C does. Returns the exit code, and what else it printed."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=HANGING)
        return self.process.returncode, out, err


@pytest.fixture
def started() -> Iterator[Started]:
    environment = of_nobody() | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-c", RUN, "ui", "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout
            document = ""
            for line in process.stdout:
                document += line
                if line == "}\n":
                    break
            yield Started(process, json.loads(document))
        finally:
            process.kill()


def test_it_prints_an_address_that_leads_in_and_listens_on_this_machine_only(started: Started):
    assert agree(shape(started.printed), shape(documented("ui")))
    where = urlsplit(started.printed["address"])
    assert (where.scheme, where.hostname, where.path) == ("http", "127.0.0.1", "/")
    listening = [each for each in psutil.Process(started.process.pid).net_connections() if each.status == "LISTEN"]
    assert [(each.laddr.ip, each.laddr.port) for each in listening] == [("127.0.0.1", where.port)]
    assert started.get("/").status == 403
    answer = started.get(f"/?{where.query}")
    assert answer.status == 200
    cookie = (answer.getheader("Set-Cookie") or "").partition(";")[0]
    assert cookie.startswith(f"tidegate-{where.port}=")
    # the deployment answers nobody: the page is there, and says what to do
    page = started.get("/", Cookie=cookie)
    assert page.status == 503
    said = page.read().decode()
    assert "The deployment did not answer" in said
    assert "tidegate local up" in said
    assert started.get("/static/style.css").status == 200


def test_ctrl_c_ends_it_and_it_has_logged_no_address(started: Started):
    query = urlsplit(started.printed["address"]).query
    assert started.get(f"/?{query}").status == 200
    code, out, err = started.end()
    assert (code, out) == (Exit.OK, "")
    assert query not in err
    assert "GET" not in err
    port = urlsplit(started.printed["address"]).port

    def closed() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    eventually(closed, waiting_for="the port to be closed")


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["ui", *arguments], catch_exceptions=False)


def test_without_a_stack_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("TIDEGATE_LEDGER", raising=False)
    done = run("--dir", str(tmp_path))
    assert (done.exit_code, f"start one with `tidegate local up --dir {tmp_path}`" in done.stderr) == (
        Exit.NO_STACK,
        True,
    )


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deployment, "find", lambda folder: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("--port", str(port))
    assert done.exit_code == Exit.NO_STACK
    assert f"port {port} of 127.0.0.1 cannot be used" in done.stderr
    assert "--port" in done.stderr


def test_without_its_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(plugins, "requires", lambda name: ["jinja2>=3.1 ; extra == 'ui'"])
    monkeypatch.setattr(plugins, "distribution", missing)
    done = run()
    assert done.exit_code == Exit.TOOL_MISSING
    assert "pip install 'tidegate[ui]'" in done.stderr

"""The functions in SAM's own containers, against a stack that `tidegate local up --docker` has started.

It takes the Docker and the SAM that are installed, and starts a Docker if none runs. Where something is missing, the
tests are skipped, and the reason says what.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.rie.conftest import CONFIG, ROOT, event, failures
from tests.support import containers
from tests.support.build import BUCKET
from tests.support.emf import emitted
from tests.support.patience import HANGING, eventually
from tidegate.core.notices import decode
from tidegate.flows.ledger import Ledger
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate_local import description
from tidegate_local.containers import VIRTUAL_HOST
from tidegate_local.environment import client
from tidegate_local.processes import python_module

MISLEADING = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "AWS_ACCESS_KEY_ID": "AKIA0000000000000000",
    "AWS_SECRET_ACCESS_KEY": "of an account",
    "AWS_SESSION_TOKEN": "of an account",
    "TIDEGATE_LEDGER": "another",
    "TIDEGATE_TOPIC": "another",
}
"""What a person's shell may have. None of it may reach a function."""


@dataclass(frozen=True)
class Invoked:
    answer: Any
    log: str


@dataclass(frozen=True)
class Stack:
    """A stack that containers reach, and the command that it printed."""

    folder: Path
    command: list[str]
    options: list[str]
    docker: Mapping[str, str]

    def invoke(self, function: str, name: str) -> Invoked:
        """As the printed command has it, with another function and event."""
        words = list(self.command)
        words[words.index("intake")] = function
        words[words.index("-e") + 1] = str(ROOT / "tests" / "events" / f"{name}.json")
        done = subprocess.run(
            [containers.sam(), *words[1:], *self.options],
            env={**os.environ, **MISLEADING, **self.docker, "SAM_CLI_TELEMETRY": "0"},
            capture_output=True,
            text=True,
            timeout=HANGING,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return Invoked(json.loads(done.stdout), done.stderr)

    @property
    def described(self) -> description.Description:
        return description.read(self.folder)

    @property
    def ledger(self) -> Ledger:
        described = self.described
        store = DynamoDbStore(client("dynamodb", described.environment), described.outputs["Ledger"])
        return Ledger(store, lambda: int(time.time()), 60 * 24 * 60 * 60)

    def claimed(self, key: str) -> bool:
        return bool(self.ledger.claims(BUCKET, key))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("sam")
    config = folder / "tidegate.toml"
    config.write_text(CONFIG.replace('max_wait = "60s"', 'max_wait = "1h"'))  # what is full is due, and nothing else
    try:
        containers.sam()
        with containers.docker(folder) as docker:
            options = containers.image_options(docker, os.uname().machine.replace("aarch64", "arm64"))
            yield from started(folder, config, docker, options)
    except containers.Unable as missing:
        pytest.skip(f"no function was run in SAM's container: {missing}")


def started(folder: Path, config: Path, docker: Mapping[str, str], options: list[str]) -> Iterator[Stack]:
    tidegate = python_module("tidegate.cli.main")
    where = ["--dir", str(folder / "stack")]
    up = subprocess.run(
        [*tidegate, "local", "up", "--detach", "--docker", "--config", str(config), *where],
        cwd=ROOT,
        env={**os.environ, **docker},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        assert up.returncode == 0, up.stderr
        (line,) = re.findall(r"^ *sam +(\S*sam local invoke .+)$", up.stdout, re.MULTILINE)
        yield Stack(folder / "stack", shlex.split(line), options, docker)
    finally:
        subprocess.run([*tidegate, "local", "down", *where], cwd=ROOT, check=True)


def test_intake_publishes_notices_that_the_stacks_own_dispatch_takes(stack: Stack):
    assert failures(stack.invoke("intake", "intake_s3").answer) == []
    for key in ("flights/2013/01 a+b.json", "weather/é.json"):
        eventually(lambda key=key: stack.claimed(key), waiting_for=f"{key} to be claimed")


def test_dispatch_sets_garbage_aside_and_gives_back_what_it_cannot_judge(stack: Stack):
    messages = event("dispatch_garbage")["Records"]
    assert failures(stack.invoke("dispatch", "dispatch_garbage").answer) == ["message-2"]
    sqs, queue = client("sqs", stack.described.environment), stack.described.outputs["NoticesDeadLetters"]
    aside = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert sorted(each["Body"] for each in aside) == sorted(each["body"] for each in messages[:2])


def test_dispatch_starts_a_job_for_a_full_batch(stack: Stack):
    done = stack.invoke("dispatch", "dispatch_two_groups")
    assert failures(done.answer) == []
    counted = {(each.name, each.route): each.value for each in emitted(done.log)}
    assert counted["JobsStarted", "weather"] == 1
    notices = [decode(each["body"]) for each in event("dispatch_two_groups")["Records"]]
    assert all(stack.claimed(entry.upload.key) for each in notices for entry in each.entries)


@pytest.mark.parametrize(("function", "answer"), [("settle", {"troubles": 0}), ("audit", {"lost": 0})])
def test_scheduled_functions_find_nothing_amiss(stack: Stack, function: str, answer: Any):
    assert stack.invoke(function, "settle_schedule").answer == answer


def test_only_what_the_functions_call_is_open_and_to_containers_only(stack: Stack):
    """This machine's own programs have the loopback, and are refused where containers are let in."""
    described = stack.described
    if described.containers == VIRTUAL_HOST:
        pytest.skip("this Docker needs no door: it leads containers to the loopback itself")
    called = {name: url for name, url in described.environment.items() if name.startswith("AWS_ENDPOINT_URL")}
    for url in called.values():
        with socket.create_connection((described.containers, urlsplit(url).port or 0), timeout=HANGING) as caller:
            assert caller.recv(1) == b"", "it was not hung up on"
    for url in (described.control, *described.invoke.values()):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((described.containers, urlsplit(url).port or 0), timeout=HANGING)

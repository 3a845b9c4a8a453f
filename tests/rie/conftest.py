"""The stack that the template describes, with each function in Lambda's emulator: built once, emptied for each test."""

import fcntl
import json
import os
import shutil
import stat
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra import bundling
from tests.rie.gate import Gate
from tests.support.patience import HANGING, eventually
from tests.support.rie import Emulator, function_environment, runtime_client
from tidegate.aws.work import S3Work
from tidegate.core.batches import Batch
from tidegate.core.notices import Notice, decode
from tidegate.core.records import batch_key
from tidegate.flows.ledger import Ledger
from tidegate.settings import HOUR
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate_local.description import Description, Function
from tidegate_local.emr.api import routes
from tidegate_local.emr.service import EmulatedEmr
from tidegate_local.emr.submit import Machine
from tidegate_local.endpoint import Endpoint
from tidegate_local.environment import client, local_environment, process_environment
from tidegate_local.loader import Assembly, load, read_assembly
from tidegate_local.processes import answers, listen, python_module, spawn, url_of
from tidegate_local.sandbox import InvocationResult
from tidegate_local.template import synthesize
from tidegate_local.worker import Poller, failed_ids

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "tests" / "events"

CONFIG = """
[deployment]
name = "tidegate"

[[route]]
name = "flights"
bucket = "landing"
prefix = "flights/"
suffix = ".json"
format = "json"
table = "lake.raw.flights"
schema = "id bigint"

[route.batch]
max_wait = "60s"

[[route]]
name = "weather"
bucket = "landing"
prefix = "weather/"
suffix = ".json"
format = "json"
table = "lake.raw.weather"
schema = "id bigint"

[route.batch]
max_wait = "60s"
target_bytes = 18
"""
"""A batch of weather is full with two uploads; one of flights is due at the next look of the schedule."""

# Stands in for spark-submit: a job that runs until a file in its folder says how it ends.
SUBMIT = """#!{python}
import pathlib, sys, time
end = pathlib.Path("end")
while not end.exists() or not end.read_text():
    time.sleep(0.05)
sys.exit(int(end.read_text()))
"""


def event(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return found


def failures(answer: dict[str, Any]) -> list[str]:
    """The messages that Lambda would leave in the queue, as the function put it."""
    assert set(answer) == {"batchItemFailures"}
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


@dataclass(frozen=True)
class Built:
    """What is made once for all tests, by whichever process comes first."""

    config: Path
    assembly: Assembly
    code: Path
    runtime: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The template, and the functions' bundle as the stack packs it, but for this machine."""
    if sys.platform != "linux":
        pytest.skip("these tests need Linux: Lambda's Runtime Interface Emulator is a Linux program")
    common = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        common = common.parent
    folder = common / "rie"
    folder.mkdir(exist_ok=True)
    config, code, runtime = folder / "tidegate.toml", folder / "task", folder / "runtime"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runtime.exists():
            config.write_text(CONFIG)
            synthesize(config, folder)
            with bundling.functions(ROOT, config, dependencies=True, target=bundling.THIS_MACHINE) as bundle:
                shutil.copytree(bundle, code)
            runtime_client(runtime)  # last: it tells that all is there
    return Built(config, read_assembly(folder / "cdk.out"), code, runtime)


@pytest.fixture(scope="session")
def deployed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator["Deployed"]:
    """The services, EMR Serverless, a gate before each, and one emulator for each function of the template."""
    folder = tmp_path_factory.mktemp("deployed")
    (folder / "jobs").mkdir()
    submit = folder / "spark-submit"
    submit.write_text(SUBMIT.format(python=sys.executable))
    submit.chmod(submit.stat().st_mode | stat.S_IXUSR)
    services, emr = listen(), listen()
    local = local_environment(folder, services=url_of(services), jobs=url_of(emr), events="", ambient={})
    environment = process_environment(os.environ, local)
    child = spawn(
        "services",
        python_module("tidegate_local.services"),
        log=folder / "services.log",
        environment=environment,
        folder=ROOT,
        listener=services,
    )
    machine = Machine(folder, ("lake",), environment, spark_submit=(str(submit),))
    jobs = EmulatedEmr(machine, lambda detail: None, concurrent_jobs=8)
    endpoint = Endpoint(emr, routes(jobs))
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    gates = {"services": Gate(services.getsockname()[1]), "emr": Gate(emr.getsockname()[1])}
    emulators: dict[str, Emulator] = {}
    try:
        while not answers(url_of(services), timeout=10):
            assert child.is_alive, child.death()
        description = load(built.assembly, local)
        through = {
            **local,
            "AWS_ENDPOINT_URL": gates["services"].url,
            "AWS_ENDPOINT_URL_EMR_SERVERLESS": gates["emr"].url,
        }
        for name, function in description.functions.items():
            given = function_environment(function, through, built.runtime, built.code)
            emulators[name] = Emulator(function, built.code, given, folder / f"{name}.log")
        for emulator in emulators.values():
            emulator.wait_until_it_listens()
        yield Deployed(built, local, description, jobs, gates["services"], gates["emr"], emulators)
    finally:
        for emulator in emulators.values():
            emulator.close()
        for gate in gates.values():
            gate.close()
        jobs.stop()
        endpoint.shutdown()
        child.stop(5)


@dataclass
class Deployed:
    """A deployment as a test sees it: functions to invoke, and everything that they have an effect on."""

    built: Built
    local: Mapping[str, str]
    description: Description
    jobs: EmulatedEmr
    services: Gate
    emr: Gate
    emulators: Mapping[str, Emulator]

    # ---- what Lambda does

    def invoke(self, function: str, said: Any) -> Any:
        return self.emulators[function].invoke(said)

    def deliver(self, function: str) -> list[str]:
        """Give the function what is in its queue, as Lambda does, until the queue is empty; what it failed with."""
        (source,) = self.function(function).sources
        left: list[str] = []

        def invoke(said: Any) -> InvocationResult:
            result = InvocationResult(json.dumps(self.invoke(function, said)))
            left.extend(failed_ids(result, {each["messageId"] for each in said["Records"]}, reports_failures=True))
            return result

        poller = Poller(source, client("sqs", self.local), invoke, threading.Event())
        while messages := poller.receive(10, 0):
            poller.deliver(messages)
        return left

    def function(self, name: str) -> Function:
        return self.description.functions[name]

    # ---- what there is to see

    def output(self, name: str) -> str:
        return self.description.outputs[name]

    @property
    def ledger(self) -> Ledger:
        store = DynamoDbStore(client("dynamodb", self.local), self.output("Ledger"))
        return Ledger(store, lambda: int(time.time()), 60 * 24 * 60 * 60)

    @property
    def work(self) -> S3Work:
        return S3Work(client("s3", self.local), self.output("Work"))

    def items(self) -> list[dict[str, Any]]:
        """Everything in the ledger."""
        pages = client("dynamodb", self.local).get_paginator("scan").paginate(TableName=self.output("Ledger"))
        return [item for page in pages for item in page["Items"]]

    def messages(self, queue: str) -> list[str]:
        """The bodies of the messages in a queue, which is empty then."""
        sqs = client("sqs", self.local)
        url, found = self.output(queue), []
        receive = {"QueueUrl": url, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0}
        while batch := sqs.receive_message(**receive).get("Messages"):
            for message in batch:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
                found.append(message["Body"])
        return found

    def notices(self) -> list[Notice]:
        return [decode(body) for body in self.messages("Notices")]

    def open_batch(self, route: str) -> Batch:
        return self.batch(self.ledger.route(route).open_batch)

    def batch(self, identifier: str) -> Batch:
        found = self.ledger.batch(identifier)
        assert found is not None
        return found

    def running(self, route: str) -> Batch:
        """The one batch of the route that was handed off."""
        (identifier,) = self.ledger.route(route).running
        return self.batch(identifier)

    def started(self) -> list[str]:
        """Batch and attempt of all jobs that ever ran, in order. Client tokens have a hash of the request, too."""
        with self.jobs.lock:
            return ["-".join(run.token.split("-")[:2]) for run in self.jobs.runs.values()]

    def end_job(self, run: str, code: int = 0) -> None:
        """Let a job end, and wait until EMR says so."""
        folder = self.jobs.machine.job_folder(run)
        eventually(folder.exists, waiting_for=f"{run} to start", every=0.02)
        (folder / "end").write_text(str(code))
        eventually(
            lambda: self.jobs.runs[run],
            lambda now: now.state in ("SUCCESS", "FAILED"),
            waiting_for=f"{run} to end",
            every=0.02,
        )

    def let_the_wait_pass(self, batch: str) -> None:
        """The attempt began an hour earlier, so that the next one may begin."""
        key = batch_key(batch)
        client("dynamodb", self.local).update_item(
            TableName=self.output("Ledger"),
            Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}},
            UpdateExpression="ADD submitted_at :back",
            ExpressionAttributeValues={":back": {"N": str(-HOUR)}},
        )

    # ---- between tests

    def empty(self) -> None:
        """Forget everything, as if the stack had just been deployed: the same names, nothing in them."""
        with self.jobs.lock:
            runs = [run.id for run in self.jobs.runs.values() if not run.ended_at]
        for run in runs:
            self.end_job(run)
        with self.jobs.lock:
            self.jobs.runs.clear()
        request = urllib.request.Request(f"{self.local['AWS_ENDPOINT_URL']}/moto-api/reset", method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(request, timeout=HANGING).read()
        again = load(self.built.assembly, self.local)
        assert again.outputs == self.description.outputs
        assert again.functions == self.description.functions


@pytest.fixture
def stack(deployed: Deployed) -> Deployed:
    deployed.empty()
    return deployed

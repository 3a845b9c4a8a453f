"""docs/operations.md, "A lost ledger": every command of it, in its order, by the real CLIs in an emulated account. What
rebuilds is typed in tests/functional/runbook, because it starts jobs; here the empty table is filled without them.

moto's CloudFormation leaves out TTL and point-in-time recovery: so both can only be there because the page set them.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from infra.sizing import DISPATCH, INTAKE, SETTLE_TIMEOUT
from tests.infra.test_deploy import DEPLOY, FIRST
from tests.support.build import notice
from tests.support.cloud import ENVIRONMENT, ROOT, Cloud, cloud
from tests.support.fakes import play_publishing
from tests.support.world import memory_ports
from tidegate import wiring
from tidegate.aws.work import S3Work
from tidegate.cli.deployment import deployed
from tidegate.core.batches import State
from tidegate.core.routes import Route
from tidegate.flows.dispatch import dispatch
from tidegate.flows.hand_off import hand_off_sealed
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import Ports
from tidegate.flows.rebuild import rebuild
from tidegate.settings import DAY, parse
from tidegate.stores.dynamodb import DynamoDbStore

# deploying takes half a minute, or several on a busy machine
pytestmark = pytest.mark.timeout(600)

SECTION = (ROOT / "docs" / "operations.md").read_text().partition("\n## A lost ledger\n")[2].partition("\n## ")[0]
DONE = "__done__"


def blocks(heading: str) -> list[str]:
    """The commands under this heading of the section; "" for what comes before the first."""
    parts = re.split(r"^### (.+)$", f"### \n{SECTION}" if not heading else SECTION, flags=re.MULTILINE)
    text = SECTION.partition("\n### ")[0] if not heading else parts[parts.index(heading) + 1]
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@dataclass
class Shell:
    """One shell for the whole procedure, as the page says."""

    process: "subprocess.Popen[str]"
    log: Path

    def run(self, block: str) -> str:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{block}\necho {DONE}\n")
        stdin.flush()
        return self._read(stdout, block)

    def _read(self, stdout: IO[str], block: str) -> str:
        said = []
        for line in stdout:
            if line.strip() == DONE:
                return "".join(said)
            said.append(line)
        pytest.fail(f"this ended with {self.process.wait()}:\n{block}\n{''.join(said)}\n{self.log.read_text()}")


@dataclass
class Deployment:
    """A deployed stack whose first batch is published."""

    cloud: Cloud
    folder: Path
    environment: dict[str, str]
    batch: str
    routes: dict[str, Route]

    @property
    def table(self) -> str:
        return self.environment["TIDEGATE_LEDGER"]

    def ledger(self) -> Ledger:
        client = self.cloud.client("dynamodb")
        return Ledger(DynamoDbStore(client, self.table), wiring.clock, 60 * DAY)

    def ports(self) -> Ports:
        work = S3Work(self.cloud.client("s3"), self.environment["TIDEGATE_WORK"])
        return memory_ports(ledger=self.ledger(), work=work, clock=wiring.clock, new_id=wiring.new_id)

    def states(self) -> tuple[set[str], set[str]]:
        """Of the event sources, and of the rules that invoke settle, the audit and maintain."""
        mappings = self.cloud.client("lambda").list_event_source_mappings()["EventSourceMappings"]
        rules = self.cloud.client("events").list_rules()["Rules"]
        assert len(mappings) == 2
        assert len(rules) == 5
        return {each["State"] for each in mappings}, {each["State"] for each in rules}

    def settings(self) -> tuple[Any, Any, Any]:
        """TTL, point-in-time recovery, deletion protection."""
        dynamodb = self.cloud.client("dynamodb")
        ttl = dynamodb.describe_time_to_live(TableName=self.table)["TimeToLiveDescription"]
        backups = dynamodb.describe_continuous_backups(TableName=self.table)["ContinuousBackupsDescription"]
        return (
            (ttl["TimeToLiveStatus"], ttl.get("AttributeName")),
            backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"],
            dynamodb.describe_table(TableName=self.table)["Table"]["DeletionProtectionEnabled"],
        )


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "tidegate.toml").write_text(FIRST)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    outputs = folder / "cdk.out" / "outputs.json"
    with cloud(tmp_path_factory.mktemp("cloud")) as running:
        running.cdk("bootstrap", ENVIRONMENT, folder=folder)
        running.cdk(
            *(*DEPLOY, "--output", str(folder / "cdk.out"), "--outputs-file", str(outputs)),
            *("--context", f"tidegate:config={folder / 'tidegate.toml'}", "--context", "tidegate:local=true"),
        )
        (route,) = parse(FIRST).core_routes()
        made = Deployment(running, folder, deployed(outputs), "", {route.name: route})
        publish_a_batch(made)
        yield made


def publish_a_batch(made: Deployment) -> None:
    (route,) = made.routes.values()
    ports = made.ports()
    for key in ("first", "second"):
        dispatch(notice(f"flights/{key}.json.gz").encode(), ports, routes=made.routes)
    made.batch = ports.ledger.route(route.name).open_batch
    assert ports.ledger.seal(made.batch, route.name, route.dataset.table)
    assert hand_off_sealed(route, ports) == 1
    play_publishing(ports.work, made.batch)


@pytest.fixture
def shell(deployment: Deployment, tmp_path: Path) -> Iterator[Shell]:
    log = tmp_path / "stderr"
    endpoint = deployment.cloud.endpoint.replace("localhost", "127.0.0.1")
    environment = {
        **deployment.cloud.environment,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_PAGER": "",
        "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.defpath}",
    }
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            [shutil.which("bash") or "bash", "-eu"],
            cwd=deployment.folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        ) as process,
    ):
        yield Shell(process, log)
        process.kill()


def test_the_page_waits_until_nothing_runs_any_more():
    """A look that Lambda was asked for asynchronously runs three times, with pauses of one and of two minutes."""
    longest = max(INTAKE.timeout, DISPATCH.timeout, SETTLE_TIMEOUT) // 60
    assert f"A function may run for {longest} minutes" in SECTION
    (waits,) = re.findall(r"^Wait (\d+) minutes", SECTION, re.MULTILINE)
    assert int(waits) >= longest + 1 + longest + 2 + longest


def test_every_command_of_the_page_is_in_a_section_that_is_run():
    sections = re.findall(r"^### (.+)$", SECTION, re.MULTILINE)
    assert sections == ["Switch off what writes", "Make an empty table", "Rebuild", "Switch on again"]
    assert all(blocks(each) for each in sections)
    assert SECTION.count("```sh\n") == sum(len(blocks(each)) for each in sections)


def test_the_procedure_works_as_it_is_written(deployment: Deployment, shell: Shell):
    assert deployment.states() == ({"Enabled"}, {"ENABLED"})
    off, jobs = blocks("Switch off what writes")
    shell.run(off)
    assert deployment.states() == ({"Disabled"}, {"DISABLED"})
    # not typed: moto's CloudFormation makes no application whose jobs it could list
    assert jobs.startswith('aws emr-serverless list-job-runs --application-id "$TIDEGATE_APPLICATION"')

    there, make = blocks("Make an empty table")
    shell.run(there)
    assert deployment.table not in deployment.cloud.client("dynamodb").list_tables()["TableNames"]
    shell.run(make)
    assert deployment.settings() == (("ENABLED", "expires_at"), "ENABLED", True)
    assert not deployment.ledger().is_whole()
    assert "the ledger is not whole" in shell.run(".venv/bin/tidegate status 2>&1 || true")

    done = rebuild(deployment.ports(), configured=deployment.routes, oldest="", made_at=wiring.made_at)
    assert (done.whole, done.ended) == (True, 1)
    batch = deployment.ledger().batch(deployment.batch)
    assert batch is not None
    assert (batch.state, batch.objects, batch.notices) == (State.COMMITTED, 2, 2)

    (on,) = blocks("Switch on again")
    shell.run(on)
    assert deployment.states() == ({"Enabled"}, {"ENABLED"})
    assert "the ledger is not whole" not in shell.run(".venv/bin/tidegate status 2>&1 || true")

"""The real template on this machine: made, loaded, detached, fed with an upload, and gone without a trace."""

import os
import signal
from pathlib import Path

import boto3
import pytest

from infra.roster import ROSTER, Schedule
from tests.support.patience import eventually
from tidegate.schedule import SCHEDULE
from tidegate.settings import parse
from tidegate_local import description, stack, supervisor
from tidegate_local.continuing import Past
from tidegate_local.errors import LocalError
from tidegate_local.guard import session_members
from tidegate_local.template import synthesize

CONFIG = Path(__file__).parents[2] / "tidegate.example.toml"


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "a stack"  # paths may hold spaces
    stack.down(tmp_path / "a stack")


def test_the_stack_of_the_template_takes_an_upload_and_leaves_nothing_when_it_is_killed(folder, monkeypatch):
    steps = []
    started = stack.detach(CONFIG, folder, on_progress=steps.append)
    assert len(steps) == 4
    assert started.past is Past.NONE
    assert stack.describe(folder) == started.environment

    loaded = description.read(folder)
    assert set(loaded.functions) == {row.name for row in ROSTER}
    assert [(source.batch_size, source.fifo) for source in loaded.functions["intake"].sources] == [(1000, False)]
    assert [(source.batch_size, source.fifo) for source in loaded.functions["dispatch"].sources] == [(10, True)]
    scheduled = {(row.started_by.every, (row.name,)) for row in ROSTER if isinstance(row.started_by, Schedule)}
    assert (SCHEDULE, ("settle",)) in scheduled
    assert {(rule.every, rule.targets) for rule in loaded.rules} == scheduled | {(0, ("settle",))}
    assert loaded.notes == ()  # all of the template means the same here, or is listed with a reason

    with monkeypatch.context() as nothing_runs:
        nothing_runs.setattr("subprocess.run", lambda *_, **__: pytest.fail("the template is made again"))
        synthesize(CONFIG, folder)

    with pytest.raises(LocalError, match=f"process {started.pid}"):
        stack.detach(CONFIG, folder, on_progress=steps.append)

    for name, value in started.environment.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").put_object(Bucket="landing", Key="flights/1.json.gz", Body=b"x")
    table = boto3.resource("dynamodb").Table(started.environment["TIDEGATE_LEDGER"])
    claims = eventually(
        lambda: [item for item in table.scan()["Items"] if item["pk"].startswith("o#")], waiting_for="the claim"
    )
    (version,) = boto3.client("s3").list_object_versions(Bucket="landing")["Versions"]
    assert [claim["sk"] for claim in claims] == [version["VersionId"]]

    children = list_children(started.pid)
    assert len(children) == len(ROSTER) + 3
    os.kill(started.pid, signal.SIGKILL)
    eventually(
        lambda: [member for child in children for member in session_members(child)],
        lambda left: not left,
        waiting_for="every process of the stack to end",
    )
    assert not stack.is_running(folder)
    assert stack.down(folder) is False


def list_children(pid):
    if not Path("/proc/self").exists():
        pytest.skip("processes are looked for in /proc")
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_a_stack_that_cannot_start_tells_whoever_asked(folder, tmp_path):
    config = tmp_path / "tidegate.toml"
    config.write_text("[[route]]\nname = 'x'\n")
    with pytest.raises(LocalError, match="required"):
        stack.detach(config, folder, on_progress=lambda step: None)
    assert not stack.is_running(folder)


@pytest.mark.parametrize(
    ("versioned", "environment", "expected"),
    [
        ("true", {}, False),
        ("false", {}, True),
        ("true", {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, True),
    ],
)
def test_the_ledger_is_rebuilt_if_an_upload_could_come_again(versioned, environment, expected):
    settings = parse(CONFIG.read_text().replace("[[route]]", f"[[route]]\nversioned = {versioned}"))
    assert supervisor.may_come_again(settings, environment) is expected

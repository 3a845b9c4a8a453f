"""The whole path on this machine: whatever is delivered twice or killed, every upload's rows are in the table once."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from tests.e2e.conftest import CONFIG, LocalStack
from tests.support.patience import HANGING, eventually
from tidegate.reading.reader import LINEAGE
from tidegate_local import stack as local_stack
from tidegate_local.continuing import Past
from tidegate_local.errors import LocalError

pytestmark = pytest.mark.e2e
MANY = 300
"""Uploads that gather while a job runs."""


def put(stack: LocalStack, bucket: str, key: str, body: bytes) -> dict[str, str]:
    answer: dict[str, str] = stack.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
    return answer


def lines(*ids: int) -> bytes:
    return b"".join(json.dumps({"id": number, "text": "x"}).encode() + b"\n" for number in ids)


def notification(bucket: str, key: str, answer: dict[str, str], size: int) -> str:
    """What S3 says of an upload; sending it again is what S3 does."""
    details = {"key": key, "size": size, "eTag": answer["ETag"].strip('"')}
    if "VersionId" in answer:
        details["versionId"] = answer["VersionId"]
    record = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": bucket}, "object": details}}
    return json.dumps({"Records": [record]})


@contextmanager
def unannounced(stack: LocalStack, bucket: str) -> Iterator[None]:
    """S3 announces nothing of what is put meanwhile."""
    s3 = stack.client("s3")
    there = s3.get_bucket_notification_configuration(Bucket=bucket)
    del there["ResponseMetadata"]
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    yield
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=there)


def settled(stack: LocalStack, route: str, notified: int) -> dict[str, object]:
    """The route's status once so many uploads were notified in all, and none is pending."""
    stack.once(
        lambda: stack.status(route),
        lambda now: now["uploads"]["notified"] == notified and now["uploads"]["pending"] == 0,
        waiting_for=f"{notified} uploads of route {route} to end",
    )
    return stack.status(route, printed=True)


def test_uploads_become_rows_and_repeats_do_not(stack: LocalStack) -> None:
    bucket = "landing-e2e"
    for number in range(20):
        put(stack, bucket, f"events/{number} +%.json", lines(number))
    sqs, buffer = stack.client("sqs"), stack.environment["TIDEGATE_BUFFER"]
    # one that comes four times, and things that are no uploads
    again = put(stack, bucket, "events/again.json", lines(100))
    for _ in range(3):
        sqs.send_message(QueueUrl=buffer, MessageBody=notification(bucket, "events/again.json", again, 10))
    sqs.send_message(QueueUrl=buffer, MessageBody="this is no JSON")
    sqs.send_message(QueueUrl=buffer, MessageBody=json.dumps({"Service": "Amazon S3", "Event": "s3:TestEvent"}))
    sqs.send_message(QueueUrl=buffer, MessageBody=notification("somebody-elses", "x.json", {"ETag": '"e"'}, 1))
    put(stack, bucket, "events/of-no-route.txt", b"?")
    status = settled(stack, "events", 21)
    assert stack.ids("e2e.events") == [*range(20), 100]
    assert status["uploads"] == {
        "notified": 21,
        "committed": 21,
        "quarantined": 0,
        "superseded": 0,
        "vanished": 0,
        "present": 0,
        "dropped": 0,
        "pending": 0,
        "holds": True,
    }
    # hours later, when every queue has forgotten it
    refused = stack.status("events")["duplicates_refused"]
    sqs.send_message(QueueUrl=buffer, MessageBody=notification(bucket, "events/again.json", again, 10))
    eventually(
        lambda: stack.status("events")["duplicates_refused"], lambda now: now == refused + 1, waiting_for="the refusal"
    )
    assert stack.ids("e2e.events") == [*range(20), 100]
    dead = sqs.receive_message(
        QueueUrl=stack.environment["TIDEGATE_DEAD_LETTERS"], MessageAttributeNames=["All"], WaitTimeSeconds=5
    )["Messages"]
    assert [message["Body"] for message in dead] == ["this is no JSON"]
    assert "not JSON" in dead[0]["MessageAttributes"]["reason"]["StringValue"]


def test_an_unversioned_bucket_tells_superseded_and_vanished(stack: LocalStack) -> None:
    s3 = stack.client("s3")
    put(stack, "landing-plain", "a.csv", b"id\n1\n")
    put(stack, "landing-plain", "a.csv", b"id\n2\n")
    put(stack, "landing-plain", "b.csv", b"id\n3\n")
    s3.delete_object(Bucket="landing-plain", Key="b.csv")
    put(stack, "landing-plain", "c.csv", b"id\nseven\n")
    put(stack, "landing-plain", "d.csv", b"id\n4\n")
    settled(stack, "plain", 5)
    assert stack.ids("e2e.plain") == [2, 4]
    outcomes = {}
    for key in "abcd":
        answer = json.loads(stack.cli("trace", f"s3://landing-plain/{key}.csv", "--json").stdout)
        outcomes[key] = sorted(version["outcome"] for version in answer["versions"])
    assert outcomes == {
        "a": ["committed", "superseded"],
        "b": ["vanished"],
        "c": ["quarantined"],
        "d": ["committed"],
    }
    listed = json.loads(stack.cli("files", "--route", "plain", "--json").stdout)["files"]
    assert sorted((each["uri"][-5:], each["outcome"], each["rows"]) for each in listed) == [
        ("a.csv", "committed", 1),
        ("a.csv", "superseded", None),
        ("b.csv", "vanished", None),
        ("c.csv", "quarantined", None),
        ("d.csv", "committed", 1),
    ]
    (broken,) = json.loads(stack.cli("files", "--route", "plain", "--state", "quarantined", "--json").stdout)["files"]
    assert "seven" in broken["error"]
    batches = json.loads(stack.cli("files", "--batches", "--route", "plain", "--json").stdout)["batches"]
    assert sum(each["rows"] for each in batches) == 2
    assert {each["batch"] for each in listed} == {each["id"] for each in batches}
    assert "landed: 1 row at " in stack.cli("trace", "s3://landing-plain/d.csv").stdout
    # the quarantined file needs a person
    assert stack.cli("status").stdout.rstrip().splitlines()[-1].startswith("needs a person: ")
    assert stack.cli("status", "--check", check=False).returncode == 1


def test_with_a_job_running_hundreds_of_uploads_become_one_batch(stack: LocalStack) -> None:
    bucket = "landing-e2e"
    before = stack.status("events")
    done = before["uploads"]["notified"]
    put(stack, bucket, "events/first.json", lines(1000))
    batch = stack.once(lambda: stack_batch(stack), waiting_for="the first upload's batch to be submitted")
    driver = eventually(lambda: pids(f"--batch={batch}"), waiting_for="its driver to start")
    # the job runs for as long as the test wants, however fast this machine is: also what it was just starting
    for _ in range(4):
        signal_all(driver, signal.SIGSTOP)
        time.sleep(0.3)
        driver = pids(f"--batch={batch}") or driver
    try:
        for number in range(MANY):
            put(stack, bucket, f"events/many{number}.json", lines(2000 + number))
        eventually(
            lambda: stack.status("events")["uploads"]["notified"],
            lambda now: now == done + MANY + 1,
            waiting_for="the notices",
        )
        stack.look()
        gathered = stack.status("events")
        assert gathered["jobs"] == before["jobs"] + 1, "the running job is the only one"
    finally:
        signal_all(driver, signal.SIGCONT)
    settled(stack, "events", done + MANY + 1)
    assert stack.status("events")["jobs"] == before["jobs"] + 2
    ids = stack.ids("e2e.events")
    assert len(ids) == len(set(ids)) == done + MANY + 1
    traced = [
        json.loads(stack.cli("trace", f"s3://{bucket}/events/many{number}.json", "--json").stdout)["versions"][0]
        for number in (0, MANY - 1)
    ]
    assert [version["batch"]["objects"] for version in traced] == [MANY, MANY]


def test_a_halted_batch_says_why_and_goes_on_when_a_person_has_acted(stack: LocalStack) -> None:
    """A table that somebody made without one of the route's columns: nothing is written to it until it has it."""
    catalog = stack.catalog
    catalog.create_namespace_if_not_exists("e2e")
    table = catalog.create_table("e2e.stuck", pa.schema([pa.field("note", pa.string()), *LINEAGE]))
    put(stack, "landing-stuck", "a.json", lines(1))
    halted = stack.once(
        lambda: [batch for batch in stack.status("stuck")["unfinished"] if batch["halted"]], waiting_for="the halt"
    )
    assert stack.cli("status", check=False).returncode == 1
    assert "ADD COLUMN id bigint" in halted[0]["halted"]
    assert stack.rows("e2e.stuck") == []
    with table.update_schema() as change:
        change.add_column("id", LongType())
    stack.cli("resume", halted[0]["id"])
    settled(stack, "stuck", 1)
    assert stack.ids("e2e.stuck") == [1]
    assert stack.status("stuck")["jobs"] == 2


def test_killed_functions_and_a_killed_job_change_nothing(stack: LocalStack) -> None:
    bucket = "landing-e2e"
    done = stack.status("events")["uploads"]["notified"]
    numbers = list(range(5000, 5060))
    for position, number in enumerate(numbers):
        put(stack, bucket, f"events/kill{number}.json", lines(number))
        if position in (15, 30, 45):
            kill_functions(stack)
    batch = stack.once(lambda: stack_batch(stack), waiting_for="the batch to be submitted")
    submitted = eventually(lambda: pids(f"--batch={batch}"), waiting_for="spark-submit to run")
    signal_all(submitted, signal.SIGKILL)
    settled(stack, "events", done + len(numbers))
    ids = stack.ids("e2e.events")
    assert len(ids) == len(set(ids))
    assert set(numbers) <= set(ids)


def stack_batch(stack: LocalStack) -> str:
    """The batch whose job runs now."""
    running = [batch["id"] for batch in stack.status("events")["unfinished"] if batch["state"] == "SUBMITTED"]
    return running[0] if running else ""


def pids(*arguments: str) -> list[int]:
    """The processes with these arguments on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(argument.encode() in words for argument in arguments):
                found.append(int(folder.name))
    return found


def signal_all(processes: list[int], number: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_functions(stack: LocalStack) -> None:
    """kill -9 of the pollers; the supervisor starts them again."""
    signal_all(pids("tidegate_local.worker", str(stack.folder)), signal.SIGKILL)


def test_everything_listens_on_this_machine_only(stack: LocalStack) -> None:
    endpoints = [value for value in stack.environment.values() if value.startswith("http://")]
    assert endpoints
    assert all(endpoint.startswith("http://127.0.0.1:") for endpoint in endpoints)
    listening = {
        line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:] if line.split()[3] == "0A"
    }
    ports = {f"{int(endpoint.split(':')[2].split('/')[0]):04X}" for endpoint in endpoints}
    assert {address.split(":")[0] for address in listening if address.split(":")[1] in ports} == {"0100007F"}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a configuration, for a stack of its own: its template is made once, for whoever starts it."""
    folder = tmp_path_factory.mktemp("beside")
    (folder / "tidegate.toml").write_text(CONFIG)
    return folder


def test_a_second_stack_runs_beside_it_and_its_ledger_is_rebuilt_from_tables(stack: LocalStack, beside: Path) -> None:
    config, folder = beside / "tidegate.toml", beside / "local"
    first = local_stack.detach(config, folder, on_progress=print)
    try:
        assert first.past is Past.NONE
        assert first.environment["AWS_ENDPOINT_URL"] != stack.environment["AWS_ENDPOINT_URL"]
        with pytest.raises(LocalError, match="already"):
            local_stack.detach(config, folder, on_progress=print)
        second = LocalStack(folder, dict(first.environment))
        put(second, "landing-plain", "a.csv", b"id\n1\n")
        settled(second, "plain", 1)
        assert second.ids("e2e.plain") == [1]
    finally:
        assert local_stack.down(folder)
    eventually(lambda: pids(str(folder)), lambda left: not left, waiting_for="the last process to end")
    left = json.loads(second.cli("files", "--dir", str(folder), "--json").stdout)
    assert [(each["uri"], each["rows"]) for each in left["files"]] == [("s3://landing-plain/a.csv", 1)]
    assert (left["source"], "did not land" in left["unknown"]) == ("tables", True)
    with pytest.raises(OSError, match=r"refused|reset"):
        urllib.request.urlopen(first.environment["AWS_ENDPOINT_URL"], timeout=5)
    shutil.rmtree(folder / "state")  # all but the tables is gone
    again = local_stack.detach(config, folder, on_progress=print)
    try:
        assert again.past is Past.LOST
        third = LocalStack(folder, dict(again.environment))
        assert third.ids("e2e.plain") == [1]
        # the same bytes: the same upload, whose claim was rebuilt from the table
        put(third, "landing-plain", "a.csv", b"id\n1\n")
        put(third, "landing-plain", "b.csv", b"id\n2\n")
        settled(third, "plain", 2)
        assert third.ids("e2e.plain") == [1, 2]
    finally:
        local_stack.down(folder)


def test_ctrl_c_leaves_no_process_behind(beside: Path) -> None:
    config, folder = beside / "tidegate.toml", beside / "local"
    local_stack.forget(folder)  # else the tables would be read first
    command = [
        str(Path(sys.executable).with_name("tidegate")),
        "local",
        "up",
        "--config",
        str(config),
        "--dir",
        str(folder),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        eventually(
            lambda: local_stack.is_running(folder) and pids("tidegate_local.worker", str(folder)),
            waiting_for="the workers",
        )
        eventually(lambda: (folder / "stack.json").exists(), waiting_for="the description")
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(HANGING) in (0, 130)
    finally:
        process.kill()
    assert not local_stack.is_running(folder)
    eventually(lambda: pids(str(folder)), lambda left: not left, waiting_for="the last process to end")

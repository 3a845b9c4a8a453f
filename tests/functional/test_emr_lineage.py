"""The lineage of a table through EMR Serverless: which job is started, what is read, and what is said if it fails."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.emr import APPLICATION, EmrService
from tests.support.fakes import MemoryWork, play_lineage
from tidegate.aws.jobs import SparkApplication
from tidegate.aws.lineage import EmrLineage
from tidegate.aws.waited import MISSED_LOOKS, WaitedJobs, log_of
from tidegate.core.errors import OutcomeUnknown, Rejected, Retryable
from tidegate.core.lineage import Landed
from tidegate.core.publication import History, Snapshot

TABLE = "lake.raw.flights"
PREFIX = "s3://landing/flights/"
FOUND = [Landed("landing", f"flights/{number}", "v1", "B", 2) for number in range(5)]


@dataclass
class Emr:
    """A job service whose job is played by `end` at the second look."""

    service: EmrService = field(default_factory=EmrService)
    work: MemoryWork = field(default_factory=MemoryWork)
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    end: Callable[[str], Any] = lambda run: None
    numbers: int = 0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        assert len(self.slept) < 100, "it waits for ever"
        for run, told in self.service.runs.items():
            if told["state"] == "RUNNING":
                self.end(run)

    def new_id(self) -> str:
        self.numbers += 1
        return str(self.numbers)

    def lineage(self) -> EmrLineage:
        client = boto3.client(
            "emr-serverless",
            region_name="us-east-1",
            aws_access_key_id="x",
            aws_secret_access_key="x",
            # whatever the environment says, which other tests change
            endpoint_url="https://emr-serverless.us-east-1.amazonaws.com",
        )
        self.service.attach(client)
        application = SparkApplication(
            client,
            id=APPLICATION,
            role="arn:aws:iam::123456789012:role/job",
            entry_point="s3://assets/entry.py",
            spark_parameters="--conf a=b",
            work="work-bucket",
            account="123456789012",
            timeout_minutes=60,
        )
        jobs = WaitedJobs(application, sleep=self.sleep, tell=self.said.append)
        return EmrLineage(jobs, self.work, self.new_id)

    def write(self, run: str, found: list[Landed], *, table: str = TABLE, prefix: str = PREFIX) -> None:
        play_lineage(self.work, run, found, table, prefix)

    def succeed(self, job_run: str) -> None:
        self.write(self.service.asked[-1]["name"], FOUND)
        self.service.end(job_run)


@pytest.fixture
def emr() -> Emr:
    return Emr()


def test_the_job_is_started_as_those_of_batches_are_and_its_files_are_read_in_order(emr: Emr):
    emr.end = emr.succeed
    assert list(emr.lineage().landed(TABLE, PREFIX)) == FOUND
    (asked,) = emr.service.asked
    assert asked["name"] == asked["tags"]["tidegate:lineage"] == "lineage-1"
    assert asked["clientToken"].startswith("lineage-1-")
    assert asked["executionRoleArn"] == "arn:aws:iam::123456789012:role/job"
    assert asked["executionTimeoutMinutes"] == 60
    assert asked["jobDriver"]["sparkSubmit"] == {
        "entryPoint": "s3://assets/entry.py",
        "entryPointArguments": [
            *("lineage", "--batch=lineage-1", "--attempt=1", f"--table={TABLE}", f"--prefix={PREFIX}"),
            *("--work=work-bucket", "--account=123456789012"),
        ],
        "sparkSubmitParameters": "--conf a=b",
    }
    assert emr.slept == [5.0]
    assert emr.said == [
        f"the lineage of {TABLE} is read by job run run-1 of application {APPLICATION}",
        "job run run-1 is RUNNING",
        "job run run-1 is SUCCESS",
    ]


def test_each_reading_is_a_run_of_its_own(emr: Emr):
    emr.end = emr.succeed
    lineage = emr.lineage()
    assert list(lineage.landed(TABLE, PREFIX)) == list(lineage.landed(TABLE, PREFIX)) == FOUND
    assert [asked["name"] for asked in emr.service.asked] == ["lineage-1", "lineage-2"]


def test_a_complete_run_is_read_again_without_a_job(emr: Emr):
    emr.write("mine", FOUND)
    assert list(emr.lineage().run("mine", TABLE, PREFIX)) == FOUND
    assert emr.service.asked == []


def test_who_goes_on_with_a_run_gets_its_job(emr: Emr):
    lineage = emr.lineage()
    emr.end = emr.succeed
    died = emr.lineage()
    died._complete = lambda run: None  # type: ignore[method-assign]
    with pytest.raises(Retryable):
        died.run("mine", TABLE, PREFIX)
    assert list(lineage.run("mine", TABLE, PREFIX)) == FOUND
    assert list(emr.service.runs) == ["run-1"]


@pytest.mark.parametrize(("table", "prefix"), [("lake.raw.other", PREFIX), (TABLE, "")])
def test_a_run_of_something_else_is_refused(emr: Emr, table: str, prefix: str):
    emr.write("mine", FOUND)
    with pytest.raises(Rejected, match=r"the lineage run mine is of table lake\.raw\.flights"):
        emr.lineage().run("mine", table, prefix)


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        ("https://emr-serverless.us-east-1.amazonaws.com", "EMR Studio"),
        ("https://vpce-1.emr-serverless.us-east-1.vpce.amazonaws.com", "EMR Studio"),
        ("http://127.0.0.1:4566", "jobs/00f1/ of the stack's folder"),
        ("http://localhost:4566/", "jobs/00f1/ of the stack's folder"),
    ],
)
def test_the_log_of_a_job_is_where_its_service_puts_it(endpoint: str, place: str):
    assert log_of("00f1", endpoint) == f"Its log is in {place}"


def test_a_job_that_failed_is_named_with_its_reason(emr: Emr):
    emr.end = lambda run: emr.service.end(run, "FAILED", "the driver ended with 1")
    with pytest.raises(
        Retryable, match=r"job run run-1 of application \S+ is FAILED: the driver ended with 1\. Its log"
    ):
        emr.lineage().landed(TABLE)
    emr.work.put("lineage/lineage-2/failure.json", json.dumps({"reason": "NoSuchTable: gone"}).encode())
    with pytest.raises(Retryable, match=r"job run run-2 of application \S+ is FAILED: NoSuchTable: gone"):
        emr.lineage().landed(TABLE)


def test_a_job_that_ended_well_and_wrote_nothing_has_failed(emr: Emr):
    emr.end = emr.service.end
    with pytest.raises(Retryable, match="is SUCCESS: EMR Serverless gives no reason"):
        emr.lineage().landed(TABLE)


def test_what_is_complete_counts_however_the_job_ended(emr: Emr):
    def fail_late(job_run: str) -> None:
        emr.succeed(job_run)
        emr.service.end(job_run, "FAILED", "the driver was killed")

    emr.end = fail_late
    assert list(emr.lineage().landed(TABLE, PREFIX)) == FOUND


def test_a_start_that_is_refused_is_told(emr: Emr):
    emr.service.refusal = (403, "AccessDeniedException")
    with pytest.raises(Retryable, match=f"could not start the job that reads the lineage of {TABLE}: AccessDenied"):
        emr.lineage().landed(TABLE)


@pytest.mark.parametrize(("missed", "ends"), [(MISSED_LOOKS - 1, True), (MISSED_LOOKS, False)])
def test_a_look_without_an_answer_is_repeated_for_a_minute(
    emr: Emr, monkeypatch: pytest.MonkeyPatch, missed: int, ends: bool
):
    lineage = emr.lineage()
    client = lineage._jobs._application.client
    asked, looks = client.get_job_run, iter(range(100))

    def get_job_run(**named: Any) -> Any:
        if next(looks) < missed:
            raise EndpointConnectionError(endpoint_url="https://emr")
        return asked(**named)

    monkeypatch.setattr(client, "get_job_run", get_job_run)
    emr.end = emr.succeed
    if ends:
        assert list(lineage.run("mine", TABLE, PREFIX)) == FOUND
    else:
        with pytest.raises(OutcomeUnknown, match="could not ask for job run run-1"):
            lineage.run("mine", TABLE, PREFIX)


@pytest.mark.parametrize("wrote", [True, False])
def test_a_run_that_emr_has_forgotten_has_ended(emr: Emr, wrote: bool):
    def forget(job_run: str) -> None:
        if wrote:
            emr.succeed(job_run)
        emr.service.runs.clear()

    emr.sleep = lambda seconds: forget("run-1")  # type: ignore[method-assign]
    if wrote:
        assert list(emr.lineage().landed(TABLE, PREFIX)) == FOUND
    else:
        with pytest.raises(Retryable, match=r"is not known any more: EMR Serverless gives no reason"):
            emr.lineage().landed(TABLE, PREFIX)


def test_a_file_that_is_missing_is_told(emr: Emr):
    emr.write("mine", FOUND)
    del emr.work.objects["lineage/mine/driver/000001-000000.jsonl.gz"]
    found = emr.lineage().run("mine", TABLE, PREFIX)
    assert [next(found) for _ in range(3)] == FOUND[:3]
    with pytest.raises(Rejected, match=r"lineage/mine/driver/000001-000000\.jsonl\.gz is missing in the work bucket"):
        next(found)


def test_the_history_ends_at_the_snapshot_that_was_read(emr: Emr):
    history = History("u", (Snapshot(7, 6, frozenset({"B"}), 5, "B"), Snapshot(6, None)))

    def succeed(job_run: str) -> None:
        play_lineage(emr.work, emr.service.asked[-1]["name"], FOUND, TABLE, "", history)
        emr.service.end(job_run)

    emr.end = succeed
    told, found = emr.lineage().with_history(TABLE)
    assert (told, list(found)) == (history, FOUND)

"""The self-test job (`tidegate.spark.selftest`): start it, wait for it, and judge its report."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.cli.account.ask import Absent, Account, Answer, Denied, Found, Unanswered, cannot_tell, fails
from tidegate.cli.account.examine import DEPLOY
from tidegate.cli.checks import Check, CheckState
from tidegate.core.manifests import batch_folder
from tidegate.core.quantities import duration
from tidegate.core.routes import Dataset, encode_dataset
from tidegate.wiring import Resources

LINE = "self-test"
ENDED = frozenset({"SUCCESS", "FAILED", "CANCELLED"})
EVERY = 5.0
"""Seconds between two polls; GetJobRun may be called ten times a second
(https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/endpoints-quotas.html)."""
VERSION = 1

START = ("emr-serverless:StartJobRun", "emr-serverless:TagResource", "iam:PassRole")
"""The permissions to start it: it is tagged at the start, and runs under the job role."""

_WAITS_FOR = {
    "SUBMITTED": "EMR to accept it",
    "PENDING": "EMR to look at it",
    "QUEUED": "a slot: other jobs run, or the application's capacity is used up",
    "SCHEDULED": "workers: the account's vCPU, or addresses in the subnets",
    "RUNNING": "the driver and its executors: read the job's log",
}


@dataclass(frozen=True, slots=True)
class JobClock:
    """The time, and a way to wait."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """One self-test of a deployment. `dataset` is a route's; the job tries a table in its namespace. `tables` are those
    of all routes."""

    resources: Resources
    dataset: Dataset
    account: Account
    identifier: str
    tables: Sequence[str] = ()

    def request(self, minutes: int) -> dict[str, Any]:
        """The StartJobRun of hand-off, except for the mode."""
        resources = self.resources
        return {
            "applicationId": resources.application,
            "clientToken": self.identifier,
            "executionRoleArn": resources.job_role,
            "name": self.identifier,
            "jobDriver": {
                "sparkSubmit": {
                    "entryPoint": resources.entry_point,
                    "entryPointArguments": [
                        "selftest",
                        f"--batch={self.identifier}",
                        "--attempt=1",
                        f"--work={resources.work}",
                        f"--account={resources.account}",
                        f"--dataset={encode_dataset(self.dataset)}",
                        f"--table={','.join(self.tables)}",
                    ],
                    "sparkSubmitParameters": resources.spark_parameters,
                }
            },
            # the command may stop waiting long before the job ends
            "executionTimeoutMinutes": minutes,
            "tags": {"tidegate:selftest": self.identifier},
        }

    def run(self, minutes: int, clock: JobClock, tell: Callable[[str], None]) -> Iterator[Check]:
        """Start it, wait for it, and judge its report. `tell` receives the progress."""
        started = self.account.ask("emr-serverless", "start_job_run", **self.request(minutes))
        self.account.needed.update(START)
        if isinstance(started, Denied):
            needs = Denied(", ".join(START))
            yield cannot_tell(LINE, "whether a job runs: it could not be started", needs)
            return
        if not isinstance(started, Found):
            advice = DEPLOY if isinstance(started, Absent) else "mend what it names, and run this again"
            yield fails(LINE, f"could not be started: {_why(started)}", advice)
            return
        run = started.body["jobRunId"]
        tell(f"the self-test is job run {run} of application {self.resources.application}")
        ended, state = self._wait(run, clock.now() + minutes * 60, clock, tell)
        if ended is None:
            yield fails(
                LINE,
                f"job run {run} has not ended after {duration(60 * minutes)}: it is {state}, so it waits for"
                f" {_WAITS_FOR.get(state, 'something that EMR does not report')}",
                f"open it in EMR Studio; cancel it: aws emr-serverless cancel-job-run"
                f" --application-id {self.resources.application} --job-run-id {run}",
            )
            return
        if not isinstance(ended, Found):
            yield cannot_tell(LINE, f"the state of job run {run}", ended)
            return
        yield from judge_run(ended.body["jobRun"], self._report(), self.where, self.account.region)

    def _wait(self, run: str, until: float, clock: JobClock, tell: Callable[[str], None]) -> tuple[Answer | None, str]:
        """The job run that has ended, or the answer in its place; None, and the last state, if the time is up."""
        state = "SUBMITTED"
        while True:
            answer = self.account.ask(
                "emr-serverless", "get_job_run", applicationId=self.resources.application, jobRunId=run
            )
            match answer:
                case Found(body):
                    if body["jobRun"]["state"] != state:
                        state = str(body["jobRun"]["state"])
                        tell(f"it is {state}")
                    if state in ENDED:
                        return answer, state
                case Denied() | Absent():
                    return answer, state
            if clock.now() >= until:
                return (answer if isinstance(answer, Unanswered) else None), state
            clock.sleep(min(EVERY, max(0.0, until - clock.now())))

    @property
    def key(self) -> str:
        return f"{batch_folder(self.identifier)}report.json"

    @property
    def where(self) -> str:
        return f"s3://{self.resources.work}/{self.key}"

    def _report(self) -> Answer:
        answer = self.account.ask(
            "s3",
            "get_object",
            Bucket=self.resources.work,
            Key=self.key,
            **({"ExpectedBucketOwner": self.resources.account} if self.resources.account else {}),
        )
        if isinstance(answer, Found):
            return Found({"bytes": answer.body["Body"].read()})
        return answer


def judge_run(run: dict[str, Any], report: Answer, where: str, region: str | None) -> list[Check]:
    """The lines about a job run that has ended, and about its report."""
    state, details = run["state"], run.get("stateDetails") or "EMR gives no reason"
    took = math.ceil(run.get("totalExecutionDurationSeconds") or 0)
    if state == "SUCCESS":
        first = Check(
            LINE, CheckState.OK, f"job run {run['jobRunId']} ended after {duration(took)}; its report is {where}"
        )
    else:
        first = fails(LINE, f"job run {run['jobRunId']} is {state}: {details}", "read the job's log in EMR Studio")
    match report:
        case Found(body):
            return [first, *judge_report(json.loads(body["bytes"]), region)]
        case Absent():
            missing = fails(f"{LINE} report", f"{where} is not there", "read the job's log in EMR Studio")
            return [first, missing] if state == "SUCCESS" else [first]
        case silence:
            return [first, cannot_tell(f"{LINE} report", "what is in it", silence)]


def judge_report(report: dict[str, Any], region: str | None) -> list[Check]:
    """The lines about a job's report; `region` is where it should have run."""
    if report["version"] != VERSION:
        finding = f"is of version {report['version']}, and this one reads {VERSION}"
        return [fails(f"{LINE} report", finding, "use the checkout that was deployed")]
    driver, executors = report["driver"], report["executors"]
    lines = [_where(driver, "driver", region)]
    lines += [_where(each, f"executor {number}", region) for number, each in enumerate(executors, 1)]
    lines.append(_versions(driver, executors))
    lines += [_step(step) for step in report["steps"]]
    return lines


def _where(process: dict[str, Any], which: str, region: str | None) -> Check:
    line = f"{LINE} {which}"
    tasks = f", {process['tasks']} tasks" if "tasks" in process else ""
    finding = (
        f"Python {process['python']} at {process['interpreter']} on {process['host']} ({process['machine']}){tasks};"
        f" modules from {process['modules_from']}"
    )
    if process["region"] is None:
        advice = "set AWS_DEFAULT_REGION for driver and executors: boto3 reads no other variable"
        return Check(line, CheckState.WARN, f"{finding}; boto3 finds no region", advice)
    if process["region"] != region:
        return fails(line, f"{finding}; region {process['region']}, not {region}", "correct the region of the job")
    return Check(line, CheckState.OK, f"{finding}; region {process['region']}")


def _versions(driver: dict[str, Any], executors: list[dict[str, Any]]) -> Check:
    """One line for the versions, and whether the executors have the driver's."""
    line = LINE + " versions"
    mine = {"python": driver["python"], **driver["modules"]}
    others = {
        f"{name} {version} on {each['host']}"
        for each in executors
        for name, version in {"python": each["python"], **each["modules"]}.items()
        if version != mine.get(name)
    }
    finding = ", ".join(f"{name} {version}" for name, version in mine.items() if not name.startswith("tidegate"))
    if others:
        advice = "driver and executors must have the same modules: deploy again"
        return fails(line, f"{finding}; but {', '.join(sorted(others))}", advice)
    return Check(line, CheckState.OK, finding)


def _step(step: dict[str, Any]) -> Check:
    line = f"{LINE} {step['name']}"
    match step["state"]:
        case "ok":
            return Check(line, CheckState.OK, step["said"])
        case "slow":
            advice = "take the setting out, unless you need what it asks for: Tidegate honours what it knows of these"
            return Check(line, CheckState.WARN, step["said"], advice)
        case "skipped":
            advice = "no fault: the job role may use the routes' tables only. The first batch shows the rest"
            return Check(line, CheckState.OK, f"skipped: {step['said']}", advice)
        case _:
            return fails(line, step["said"], "remove the cause: a batch would fail in the same way")


def _why(answer: Answer) -> str:
    match answer:
        case Unanswered(reason):
            return reason
        case _:
            return "EMR Serverless has no such application"

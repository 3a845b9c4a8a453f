"""A stack that is stopped, or killed as a whole, goes on where it was: nothing is lost, nothing lands twice."""

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.e2e.conftest import CONFIG, LocalStack
from tests.e2e.test_path import settled
from tests.support.patience import HANGING, eventually
from tidegate.reading.reader import LINEAGE
from tidegate_local import stack as local_stack
from tidegate_local.continuing import Past
from tidegate_local.environment import client

pytestmark = pytest.mark.e2e

LANDING = "landing-e2e"
PLAIN = "landing-plain"


class Uploader:
    """Puts one object after the other, each with an id of its own, whatever becomes of the stack meanwhile."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.s3 = client("s3", environment)
        self.answered: dict[str, str] = {}
        self.asked = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.asked += 1
            key = f"events/{self.asked}.json"
            try:
                put = self.s3.put_object(Bucket=LANDING, Key=key, Body=b'{"id": %d, "text": "x"}\n' % self.asked)
                self.answered[key] = put["VersionId"]
                self.s3.put_object(Bucket=PLAIN, Key=f"{self.asked}.csv", Body=b"id\n%d\n" % self.asked)
            except (ClientError, BotoCoreError):
                pass  # nobody answered: it may be there or not, once or twice
            self._stop.wait(0.05)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(HANGING)


def kill_everything(folder: Path) -> None:
    """kill -9 of the supervisor and of all that it started, jobs included, as a power cut would."""
    holder = local_stack.FolderLock(folder).holder()
    assert holder is not None
    supervisor = psutil.Process(holder)
    supervisor.suspend()  # else it would start again what dies first
    processes = [*supervisor.children(recursive=True), supervisor]
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGKILL)
    psutil.wait_procs(processes, timeout=HANGING)


def versions(stack: LocalStack, bucket: str) -> list[dict[str, Any]]:
    pages = stack.client("s3").get_paginator("list_object_versions").paginate(Bucket=bucket)
    return [each for page in pages for each in page.get("Versions", [])]


def ended(stack: LocalStack, route: str) -> dict[str, Any]:
    """The route's status once nothing is queued and nothing is pending."""
    sqs = stack.client("sqs")

    def queued() -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        urls = sqs.list_queues()["QueueUrls"]  # those of dead letters, too: there is none
        counts = [sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values() for url in urls]
        return sum(int(each) for count in counts for each in count)

    return stack.once(
        lambda: (queued(), stack.status(route)),
        lambda seen: seen[0] == 0 and seen[1]["uploads"]["pending"] == 0,
        waiting_for=f"all uploads of route {route} to end",
    )[1]


def test_killed_in_the_middle_of_uploads_and_jobs_it_loses_and_repeats_nothing(tmp_path: Path) -> None:
    config, folder = tmp_path / "tidegate.toml", tmp_path / "local"
    config.write_text(CONFIG)
    first = local_stack.detach(config, folder, on_progress=print)
    stack = LocalStack(folder, dict(first.environment))
    uploader = Uploader(stack.environment)
    try:
        for moment in ("uploads", "a job", "a job"):
            if moment == "a job":
                stack.once(
                    lambda: stack.status("events")["unfinished"],
                    lambda batches: any(batch["state"] == "SUBMITTED" for batch in batches),
                    waiting_for="a job",
                )
            else:
                eventually(lambda: uploader.answered, lambda done: len(done) > 10, waiting_for="uploads")
            kill_everything(folder)
            again = local_stack.detach(config, folder, on_progress=print)
            assert again.past is Past.KEPT
            assert again.environment == first.environment, "something listens elsewhere now"
            before = len(uploader.answered)
            eventually(
                lambda before=before: len(uploader.answered) > before + 5,  # type: ignore[misc]
                waiting_for="uploads after the start",
            )
        uploader.stop()

        events, plain = ended(stack, "events"), ended(stack, "plain")
        there = versions(stack, LANDING)
        assert {(each["Key"], each["VersionId"]) for each in there} >= set(uploader.answered.items())
        # each version was notified, counted once, and is in the table once: an id may have two versions, if the answer
        # to the first put was lost, and each of them is an upload
        assert events["uploads"]["notified"] == events["uploads"]["committed"] == len(there)
        assert stack.ids("e2e.events") == sorted(int(each["Key"][7:-5]) for each in there)
        kept = versions(stack, PLAIN)
        assert plain["uploads"]["notified"] == plain["uploads"]["committed"] == len(kept)
        assert stack.ids("e2e.plain") == sorted(int(each["Key"][:-4]) for each in kept)
        assert not events["unfinished"]
        assert not plain["unfinished"]

        # an ordinary end, and another start: nothing happens
        status = stack.status("events")
        assert local_stack.down(folder)
        local_stack.detach(config, folder, on_progress=print)
        body = b"id\n%d\n" % int(kept[0]["Key"][:-4])
        stack.client("s3").put_object(Bucket=PLAIN, Key=kept[0]["Key"], Body=body)  # the same upload, by its ETag
        refused = stack.once(
            lambda: stack.status("plain"),
            lambda now: now["duplicates_refused"] > plain["duplicates_refused"],
            waiting_for="the same bytes to be refused",
        )
        assert refused["uploads"] == plain["uploads"]
        assert stack.status("events") == status
        assert len(stack.ids("e2e.events")) == len(there)
    finally:
        uploader.stop()
        local_stack.down(folder)


def test_resume_runs_a_corrected_file_and_a_renamed_route_lands_all_that_it_took(tmp_path: Path) -> None:
    config, folder = tmp_path / "tidegate.toml", tmp_path / "local"
    config.write_text(CONFIG)
    started = local_stack.detach(config, folder, on_progress=print)
    stack = LocalStack(folder, dict(started.environment))
    s3 = stack.client("s3")
    try:
        # a table that the route's schema does not fit
        stack.catalog.create_namespace_if_not_exists("e2e")
        stack.catalog.create_table("e2e.stuck", pa.schema([pa.field("note", pa.string()), *LINEAGE]))
        s3.put_object(Bucket="landing-stuck", Key="a.json", Body=b'{"note": "x"}\n')
        s3.put_object(Bucket="landing-old", Key="a.json", Body=b'{"id": 1, "text": "x"}\n')
        halted = stack.once(
            lambda: [batch for batch in stack.status("stuck")["unfinished"] if batch["halted"]],
            waiting_for="the halt",
        )
        text = config.read_text()
        table = 'table = "lake.e2e.stuck"\nschema = '
        text = text.replace(f'{table}"id bigint"', f'{table}"note string"')
        config.write_text(text.replace('name = "old"', 'name = "renamed"'))
        resumed = stack.cli("resume", halted[0]["id"])
        assert f"{config} has changed: the stack in {folder} now runs by it" in resumed.stderr
        settled(stack, "stuck", 1)
        assert [row["note"] for row in stack.rows("e2e.stuck")] == ["x"]

        s3.put_object(Bucket="landing-old", Key="b.json", Body=b'{"id": 2, "text": "x"}\n')
        stack.once(
            lambda: stack.ids("e2e.old"),
            lambda ids: ids == [1, 2],
            waiting_for="both uploads to land",
        )
        # a reader sees the rows before the ledger has the outcomes
        stack.once(
            lambda: {each["route"]: each["uploads"] for each in stack.printed_statuses()["routes"]},
            lambda routes: routes["renamed"]["committed"] and not any(each["pending"] for each in routes.values()),
            waiting_for="the outcomes of both uploads",
        )
        # `local up` beside it finds that nothing has changed any more
        again = stack.cli("local", "up", "--dir", str(folder), "--config", str(config))
        assert f"nothing has changed in {config}" in " ".join(again.stdout.split())
        stack.cli("local", "down", "--forget", "--dir", str(folder))
        assert not folder.exists()
    finally:
        local_stack.down(folder)

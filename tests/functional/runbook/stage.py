"""A deployment that scenarios put into some state, and a shell in which they type what the runbook says.

The services are moto's, EMR Serverless is played by the test, and the functions are the real handlers, called as Lambda
calls them. What they log is in CloudWatch Logs, and what they measure is in `metrics`.
"""

import contextlib
import io
import json
import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import time_machine

from lambdas.audit.app import handler as audit_handler
from lambdas.dispatch.app import handler as dispatch_handler
from lambdas.intake.app import handler as intake_handler
from lambdas.maintain.app import handler as maintain_handler
from lambdas.settle.app import handler as settle_handler
from lambdas.shared import logger
from tests.functional.runbook.parts import StackParts
from tests.functional.runbook.played import PlayedTables
from tests.functional.runbook.shell import Shell, Typed
from tests.functional.test_handlers import Context, Deployment, event
from tests.support.build import BUCKET, s3_message, s3_record
from tests.support.emf import emitted
from tests.support.fakes import play_fencing, play_giving_up, play_publishing
from tests.support.pages import Section
from tidegate import wiring
from tidegate.core.batches import LONGEST_RETRY_WAIT, Batch
from tidegate.core.outcomes import Outcome
from tidegate.metrics import Metric
from tidegate.settings import parse

NOT_YET = re.compile("Not yet implemented|has not been implemented")
HANDLERS = {
    "intake": intake_handler,
    "dispatch": dispatch_handler,
    "settle": settle_handler,
    "audit": audit_handler,
    "maintain": maintain_handler,
}
ROUTE = "flights"
GAUGES = {metric.value.name for metric in Metric if metric.value.gauge}


@dataclass
class Stage:
    """What scenarios do, and what they see. `section` is the one that they follow."""

    deployment: Deployment
    shell: Shell
    section: Section
    parts: StackParts
    metrics: dict[tuple[str, str], float] = field(default_factory=dict)
    """The last value of each metric, by name and route ("" if it has none); a counter's since the last invocation."""
    typed: set[str] = field(default_factory=set)
    """The steps of the section that were typed."""

    def __post_init__(self) -> None:
        self.tables = PlayedTables(self.deployment)

    # ---- what is typed

    def types(self, part: str, *, ends: int = 0, moto_lacks: bool = False, answers: str = "", **words: str) -> str:
        """Type the step of the section that contains `part`, with `words` for its words in capitals. Of several steps
        the one that ends with it. Returns what it printed.

        It must end with this code. `answers` are typed where it asks. `moto_lacks`: the AWS CLI accepts it, and the
        emulator does not know the operation.
        """
        steps = dict.fromkeys(each for each in self.section.steps if part in each)
        if len(steps) > 1:
            steps = dict.fromkeys(each for each in steps if each.endswith(part))
        assert len(steps) == 1, f"{part!r} is in {len(steps)} steps of {self.section.heading}"
        (step,) = steps
        done = self._type(step, words, answers)
        told = f"{step}\nended with {done.code}:\n{done.stdout}{done.stderr}"
        if moto_lacks:
            assert NOT_YET.search(done.stderr), f"moto has it by now: {told}"
        else:
            assert done.code == ends, told
        self.typed.add(step)
        return done.stdout + done.stderr

    def prepares(self, before: Section) -> None:
        """Type what comes before everything else."""
        for step in before.steps:
            done = self.shell.type(step)
            assert done.code == 0, f"{step}\n{done.stderr}"

    def _type(self, step: str, words: dict[str, str], answers: str) -> Typed:
        for name, value in words.items():
            filled = re.sub(rf"(?<![\w$:{{'.]){name}(?![\w:])", lambda _, value=value: value, step)
            assert filled != step, f"{step} has no {name}"
            step = filled
        return self.shell.type(step, answers)

    # ---- what the functions do

    def invoke(self, name: str, event_: Any) -> Any:
        """Invoke a function as Lambda does: its log is kept, and so is what it measured. None if it raised."""
        out, lines = io.StringIO(), []
        keeper = logging.Handler()
        keeper.emit = lambda record: lines.append(logger.handlers[0].format(record))  # type: ignore[method-assign]
        logger.addHandler(keeper)
        try:
            with contextlib.redirect_stdout(out):
                answer = HANDLERS[name](event_, Context())
        except Exception as error:
            lines.append(f"[ERROR] {type(error).__name__}: {error}")
            answer = None
        finally:
            logger.removeHandler(keeper)
        self.parts.log(name, *lines)
        counted: dict[tuple[str, str], float] = {}
        for each in emitted(out.getvalue()):
            before = 0.0 if each.name in GAUGES else counted.get((each.name, each.route), 0.0)
            counted[each.name, each.route] = before + each.value
        self.metrics.update(counted)
        return answer

    def settle(self) -> None:
        """A minute passes, and settle runs."""
        self.deployment.clock.advance(60)
        self.invoke("settle", event("settle_schedule"))

    def audit(self) -> Any:
        return self.invoke("audit", event("settle_schedule"))

    def upload(self, *keys: str, announced: bool = True, bucket: str = BUCKET) -> Any:
        """Upload files, and let S3 announce them; intake's answer."""
        s3 = wiring._client("s3")
        with time_machine.travel(self.deployment.clock.now, tick=False):
            for key in keys:
                s3.put_object(Bucket=bucket, Key=key, Body=b'{"id": 1}')
        if not announced:
            return None
        etags = [s3.head_object(Bucket=bucket, Key=key)["ETag"].strip('"') for key in keys]
        records = [s3_record(key, etag=etag, bucket=bucket) for key, etag in zip(keys, etags, strict=True)]
        return self.invoke("intake", self.notifications(s3_message(*records)))

    def notifications(self, *bodies: str) -> dict[str, Any]:
        """An event for intake with these messages."""
        (record,) = event("intake_s3")["Records"]
        return {"Records": [record | {"body": body, "messageId": f"m-{n}"} for n, body in enumerate(bodies)]}

    def deliver(self) -> list[str]:
        """Let dispatch have the notices that wait in their queue; what it gave back."""
        given_back: list[str] = []
        for body in self.deployment.bodies(self.deployment.resources.notices):
            record = event("dispatch_two_groups")["Records"][0] | {"body": body}
            record["attributes"] = record["attributes"] | {"MessageGroupId": json.loads(body)["route"]}
            answer = self.invoke("dispatch", {"Records": [record]})
            given_back += [body] if answer is None or answer["batchItemFailures"] else []
        return given_back

    # ---- states

    def submitted(self, *keys: str) -> Batch:
        """A batch whose job runs."""
        self.upload(*(keys or ("flights/a.json", "flights/b.json")))
        self.deliver()
        for _ in range(6):
            self.settle()
        return self.running

    def halted(self, reason: str, **options: bool) -> Batch:
        """A batch that has halted after its first attempt."""
        batch = self.submitted()
        play_giving_up(self.deployment.work, batch.id, batch.attempt, reason, hopeless=True, **options)
        self.deployment.emr.end(batch.job_run, "FAILED")
        self.settle()
        assert self.batch(batch.id).halted == reason
        return self.batch(batch.id)

    def published(self, batch_id: str, ends: dict[str, tuple[Outcome, str]] | None = None) -> None:
        """The job of the batch publishes it and ends, and settling records that."""
        self.publishes(batch_id, ends)
        self.settle()

    def publishes(self, batch_id: str, ends: dict[str, tuple[Outcome, str]] | None = None) -> None:
        """The job of the batch publishes it and ends."""
        play_publishing(self.deployment.work, batch_id, ends)
        batch = self.batch(batch_id)
        self.tables.lands(batch)
        self.deployment.emr.end(batch.job_run)

    def fenced(self, batch_id: str) -> None:
        """The job of the batch fences it, and settling records that."""
        play_fencing(self.deployment.work, batch_id)
        self.settle()

    def attempt_ends(self, batch: Batch, reason: str = "") -> None:
        """The job ends without a receipt, and the wait for the next attempt passes."""
        if reason:
            play_giving_up(self.deployment.work, batch.id, batch.attempt, reason, hopeless=False)
        self.deployment.emr.end(batch.job_run, "FAILED")
        self.deployment.clock.advance(LONGEST_RETRY_WAIT)
        self.settle()

    def deploys(self, change: Callable[[str], str]) -> None:
        """Change `tidegate.toml` and deploy it."""
        file = wiring.settings_file(os.environ)
        changed = change(file.read_text())
        assert parse(changed)
        file.write_text(changed)
        wiring.this_deployment.cache_clear()

    # ---- what there is to see

    @property
    def running(self) -> Batch:
        (found,) = self.deployment.ledger.route(ROUTE).running
        return self.batch(found)

    def batch(self, batch_id: str) -> Batch:
        found = self.deployment.ledger.batch(batch_id)
        assert found is not None
        return found

    def sums(self) -> dict[str, int]:
        """How the route's uploads have ended, as `tidegate status` tells."""
        routes = json.loads(self.shell.type("tidegate status --json").stdout)["routes"]
        (found,) = [each["uploads"] for each in routes if each["route"] == ROUTE]
        return dict(found)

    def outcomes(self, key: str) -> list[str]:
        """How the versions of an object ended, by their claims."""
        return [str(claim.outcome) for claim in self.deployment.ledger.claims(BUCKET, key)]

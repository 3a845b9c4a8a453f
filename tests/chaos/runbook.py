"""An operator who does what the runbook says (docs/operations.md), with the command line, and is killed at it, too.

    he sees                                         he types
    `tidegate status`: a halted batch               tidegate resume BATCH; now and then tidegate abort BATCH
    the alarm's number: dead letters                tidegate resend dead-letters
    `tidegate status`: uploads in quarantine        once the settings are mended: tidegate resend quarantine;
                                                    what was corrected meanwhile: tidegate abort quarantine,
                                                    --until he looked: a job may still run by the settings of before
    a batch that he has given up has ended          tidegate resend BATCH, until nothing of it is left
    nothing in particular                           now and then tidegate abort BATCH, tidegate pause ROUTE
    `tidegate status`: a paused route               after a while tidegate pause ROUTE --end

`tidegate resend dead-letters` is never killed: what it has received is hidden for a quarter of an hour then, which is
longer than a run takes. tests/functional/test_letters.py has its deaths.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.chaos.processes import descendants, kill
from tests.chaos.traffic import MENDED
from tests.e2e.conftest import LocalStack
from tests.support.patience import HANGING
from tidegate.environment import DEPLOYED
from tidegate_local.environment import client

DEAD_LETTERS = {"TIDEGATE_BUFFER": "TIDEGATE_DEAD_LETTERS", "TIDEGATE_NOTICES": "TIDEGATE_NOTICES_DEAD_LETTERS"}

KILLED = 0.15
"""The share of commands that are killed, within so many seconds: about as long as one takes."""
KILLED_WITHIN = (0.3, 3.0)
GIVES_UP = 0.1
"""How often a round gives up a batch that has not halted."""
GIVES_UP_HALTED = 0.25
"""How often a halted batch is given up instead of resumed."""
PAUSES = 0.1
PAUSE_SECONDS = 15.0


@dataclass
class Operator:
    """Acts in rounds. Once he `may_mend` the settings he does, as soon as there is something in quarantine."""

    stack: LocalStack
    config: Path
    supervisor: int
    seed: int
    tell: Callable[[str], None]
    calm: bool = False
    """Nothing is killed any more: whatever fails from now on fails by itself."""
    may_mend: bool = False
    mended: bool = False
    typed: Counter[str] = field(default_factory=Counter)
    """How often each verb was typed."""
    killed: Counter[str] = field(default_factory=Counter)
    """How often a command was killed."""
    resumed_in_calm: set[str] = field(default_factory=set)
    halted_again: list[str] = field(default_factory=list)
    """Batches that halted once more although they were resumed in calm."""
    given_up: dict[str, str] = field(default_factory=dict)
    """Batches that he gave up, and how their resend stands: "" until nothing of them is left to send."""
    surprises: list[str] = field(default_factory=list)
    """Commands that ended in a way that no page tells of."""

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed} operator")
        self._sqs = client("sqs", self.stack.environment)
        self._paused: dict[str, float] = {}
        self._kept = 0

    @property
    def done(self) -> bool:
        """Whether nothing is left that he has begun."""
        return all(self.given_up.values())

    def round(self) -> None:
        """One look at everything, and what follows from it."""
        status = json.loads(self._type("status", "--json", may_be_killed=False).stdout)
        self._tend_halted(status)
        self._tend_dead_letters()
        self._tend_quarantine(status)
        self._tend_given_up(status)
        self._tend_pauses(status)
        if not self.calm:
            self._give_up_now_and_then(status)

    def queued(self) -> int:
        """Messages in the two queues, those that are being handled among them."""
        return sum(self._count(self.stack.environment[queue], handled=True) for queue in DEAD_LETTERS)

    def dead_letters(self) -> list[str]:
        """The bodies of all dead letters; they are deleted. Only at the end."""
        found = []
        for queue in DEAD_LETTERS.values():
            url = self.stack.environment[queue]
            while messages := self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
                found += [message["Body"] for message in messages]
                for message in messages:
                    self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return found

    # ---- what he tends to

    def _tend_halted(self, status: dict[str, Any]) -> None:
        for batch in _unfinished(status):
            if not batch["halted"]:
                continue
            name, reason = batch["id"], batch["halted"]
            if name in self.resumed_in_calm:
                self.halted_again.append(f"{name}: {reason}")
            elif not self.calm and self._random.random() < GIVES_UP_HALTED:
                self._give_up(name)
            else:
                self.tell(f"          batch {name} halted ({reason[:100]}): tidegate resume")
                # it may have gone on by itself meanwhile: then this ends with 1
                self._type("resume", name)
                if self.calm:
                    self.resumed_in_calm.add(name)

    def _tend_dead_letters(self) -> None:
        """What stayed the last time can never succeed, and was shown with the reason."""
        urls = [self.stack.environment[queue] for queue in DEAD_LETTERS.values()]
        if sum(map(self._count, urls)) != self._kept:
            self._type("resend", "dead-letters", may_be_killed=False)
            self._kept = sum(map(self._count, urls))

    def _tend_quarantine(self, status: dict[str, Any]) -> None:
        there = [route["route"] for route in status["routes"] if route["uploads"]["quarantined"]]
        if there and self.may_mend and not self.mended:
            self._mend()
        for route in there:
            if self.mended:
                too_large = ("--route", route, "--error", "too large", "--yes")
                looked = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
                released = self._type("resend", "quarantine", *too_large)
                if "left: a later version" in released.stdout and "sent again" not in released.stdout:
                    self._type("abort", "quarantine", *too_large, "--until", looked, "--reason", "corrected")

    def _tend_given_up(self, status: dict[str, Any]) -> None:
        unfinished = {batch["id"] for batch in _unfinished(status)}
        for batch, ended in list(self.given_up.items()):
            if not ended and batch not in unfinished:
                done = self._type("resend", batch)
                if "is left to send" in done.stderr:
                    self.given_up[batch] = "resent"
                elif "has landed" in done.stdout:
                    self.given_up[batch] = "published before it was fenced"

    def _tend_pauses(self, status: dict[str, Any]) -> None:
        now = time.monotonic()
        for route in status["routes"]:
            name = route["route"]
            if route["paused_at"]:
                if self.calm or now - self._paused.get(name, 0.0) > PAUSE_SECONDS:
                    self._type("pause", name, "--end")
            elif not self.calm and self._random.random() < PAUSES:
                self._paused[name] = now
                self._type("pause", name)

    def _give_up_now_and_then(self, status: dict[str, Any]) -> None:
        there = [batch["id"] for batch in _unfinished(status) if batch["objects"] and not batch["halted"]]
        if there and (not self.given_up or self._random.random() < GIVES_UP):
            self._give_up(self._random.choice(there))

    def _give_up(self, batch: str) -> None:
        self.tell(f"          tidegate abort {batch}")
        self._type("abort", batch, "--yes")
        # if the command was killed it may have come to nothing: then resend says that the batch is not abandoned
        self.given_up[batch] = ""

    # ---- how he does it

    def _mend(self) -> None:
        """Mend the settings and deploy them, as `tidegate local up` does, which starts everything anew: what the stack
        runs by, and functions that read it."""
        self.config.write_text(MENDED)
        (self.stack.folder / DEPLOYED).write_text(MENDED)
        for process in descendants(self.supervisor):
            if "tidegate_local.worker" in process.words:
                kill(process)
        self.mended = True
        self.tell("          the settings are mended and deployed")

    def _type(self, *words: str, may_be_killed: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command; now and then it is killed on its way, unless all is calm."""
        verb = " ".join(words[:2]) if words[0] == "quarantine" or words[-1] == "dead-letters" else words[0]
        self.typed[verb] += 1
        deadly = may_be_killed and not self.calm and self._random.random() < KILLED
        within = self._random.uniform(*KILLED_WITHIN)
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("tidegate")), *words],
            env={**os.environ, **self.stack.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=within if deadly else HANGING)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            if not deadly:
                raise
            self.killed[verb] += 1
        code = process.returncode
        if code not in (0, 1) and not (deadly and code < 0):
            self.surprises.append(f"tidegate {' '.join(words)} ended with {code}: {err[-300:]}")
        return subprocess.CompletedProcess(words, code, out, err)

    def _count(self, url: str, *, handled: bool = False) -> int:
        names = ["ApproximateNumberOfMessages", *(["ApproximateNumberOfMessagesNotVisible"] if handled else [])]
        answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
        return sum(int(value) for value in answer["Attributes"].values())


def _unfinished(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [batch for route in status["routes"] for batch in route["unfinished"]]

"""An operator who acts by the runbook (docs/operations.md), and the schedule, which here looks more often."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.conftest import LocalStack
from tidegate_local.environment import client

DEAD_LETTERS = {"TIDEGATE_BUFFER": "TIDEGATE_DEAD_LETTERS", "TIDEGATE_NOTICES": "TIDEGATE_NOTICES_DEAD_LETTERS"}


@dataclass
class Operator:
    """Resumes what halted, and moves back to its queue what a function died with five times."""

    stack: LocalStack
    tell: Callable[[str], None]
    calm: bool = False
    """Nothing is killed any more: whatever fails from now on fails by itself."""
    resumed: Counter[str] = field(default_factory=Counter)
    resumed_in_calm: set[str] = field(default_factory=set)
    halted_again: list[str] = field(default_factory=list)
    """Batches that halted once more although they were resumed in calm."""
    set_aside: list[str] = field(default_factory=list)
    """Messages that a function put among the dead letters itself, with its reason."""
    moved_back: int = 0
    looks_lost: int = 0

    def __post_init__(self) -> None:
        self._sqs = client("sqs", self.stack.environment)

    def tend(self) -> dict[str, Any]:
        """One round; what `tidegate status` says after it."""
        try:
            self.stack.look()  # on AWS the schedule does, once a minute
        except OSError:
            self.looks_lost += 1  # settle was killed meanwhile
        for queue in DEAD_LETTERS:
            self._move_back(queue)
        status = self.stack.statuses()
        for route in status["routes"]:
            for batch in route["unfinished"]:
                if batch["halted"]:
                    self._resume(batch["id"], batch["halted"])
        return status

    def queued(self) -> int:
        """Messages in the two queues, those that are being handled among them."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = 0
        for queue in DEAD_LETTERS:
            url = self.stack.environment[queue]
            answer = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
            counts += sum(int(value) for value in answer["Attributes"].values())
        return counts

    def _resume(self, batch: str, reason: str) -> None:
        if batch in self.resumed_in_calm:
            self.halted_again.append(f"{batch}: {reason}")
            return
        self.tell(f"          batch {batch} halted ({reason[:100]}): tidegate resume")
        # it may have gone on by itself meanwhile, which resume says with its exit code
        self.stack.cli("resume", batch, check=False)
        self.resumed[batch] += 1
        if self.calm:
            self.resumed_in_calm.add(batch)

    def _move_back(self, queue: str) -> None:
        dead = self.stack.environment[DEAD_LETTERS[queue]]
        answer = self._sqs.receive_message(
            QueueUrl=dead,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
        )
        for message in answer.get("Messages", []):
            if reason := message.get("MessageAttributes", {}).get("reason"):
                self.set_aside.append(f"{reason['StringValue']}: {message['Body']}")
            else:
                # under its old id the FIFO queue might take it for a repeat
                group = message["Attributes"].get("MessageGroupId")
                fifo = {"MessageGroupId": group, "MessageDeduplicationId": uuid.uuid4().hex} if group else {}
                self._sqs.send_message(QueueUrl=self.stack.environment[queue], MessageBody=message["Body"], **fifo)
                self.moved_back += 1
            self._sqs.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])

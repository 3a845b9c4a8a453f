"""SQS: standard and FIFO queues, visibility timeouts, deduplication, and dead letters."""

import itertools
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulation.world.kernel import Kernel
from simulation.world.wire import Refusal

DEDUPLICATION_SECONDS = 300
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html
It outlives the message's deletion."""


@dataclass
class Message:
    id: str
    body: str
    group: str
    sent_at: float
    receives: int = 0
    visible_at: float = 0.0
    receipt: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)


class Queue:
    """`visibility` in seconds; after `receives` deliveries a message goes to `dead_letters`."""

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        *,
        visibility: float = 30,
        receives: int = 0,
        dead_letters: "Queue | None" = None,
        retention: float = 14 * 86_400,
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.visibility = visibility
        self.receives = receives
        self.dead_letters = dead_letters
        self.retention = retention
        self.messages: dict[str, Message] = {}
        self.fifo = name.endswith(".fifo")
        """If a world sets this to False, the queue keeps neither order nor groups, and drops no repeat."""
        self.lost = 0
        """Messages that expired before they were handled."""
        self.on_message: Callable[[], None] = lambda: None
        """Called with every message that it accepts."""
        self._seen: dict[str, float] = {}
        self._order: deque[str] = deque()
        self._numbers = itertools.count(1)

    def send(self, body: str, *, group: str = "", deduplication: str = "", attributes: Any = None) -> bool:
        """False if a FIFO queue has seen this deduplication id in the last 5 minutes, and drops the message."""
        now = self.kernel.now
        if self.fifo:
            if now - self._seen.get(deduplication, float("-inf")) < DEDUPLICATION_SECONDS:
                return False
            self._seen[deduplication] = now
        number = next(self._numbers)
        message = Message(f"{self.name}-{number}", body, group, now, visible_at=now, attributes=attributes or {})
        self.messages[message.id] = message
        self._order.append(message.id)
        self.on_message()
        return True

    def receive(self, most: int, *, busy_groups: Sequence[str] = ()) -> list[Message]:
        """Up to `most` visible messages, hidden from now on. A FIFO queue returns a group's messages in order, and none
        while one of the group is in flight."""
        now, found, blocked = self.kernel.now, [], set(busy_groups)
        for message_id in list(self._order):
            message = self.messages.get(message_id)
            if message is None:
                self._order.remove(message_id)
                continue
            if now - message.sent_at > self.retention:
                del self.messages[message_id]
                self.lost += 1
                continue
            if self.fifo and message.group in blocked:
                continue
            if message.visible_at > now:
                blocked.add(message.group)
                continue
            if self.receives and message.receives >= self.receives:
                del self.messages[message_id]
                assert self.dead_letters is not None
                self.dead_letters.send(message.body, group=message.group, deduplication=f"{message.id}@{now}")
                continue
            message.receives += 1
            message.receipt += 1
            message.visible_at = now + self.visibility
            found.append(message)
            if len(found) == most:
                break
        return found

    def delete(self, message_id: str, receipt: int) -> None:
        """A standard queue accepts an old receipt handle, too. A FIFO queue does not, once the message was visible
        again."""
        message = self.messages.get(message_id)
        if message is None or (self.fifo and message.receipt != receipt):
            return
        del self.messages[message_id]

    def put_back(self, message: Message) -> None:
        """A standard queue delivers once more what was deleted
        (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/standard-queues-at-least-once-delivery.html)."""
        assert not self.fifo, "a FIFO queue does not"
        if message.id not in self.messages:
            message.visible_at = self.kernel.now
            self.messages[message.id] = message
            self._order.append(message.id)


class Sqs:
    """The queues, by name."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.queues: dict[str, Queue] = {}

    def add(self, queue: Queue) -> Queue:
        self.queues[queue.name] = queue
        return queue

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "SendMessage", f"SQS {operation} is not simulated"
        queue = self.queues.get(request["QueueUrl"].rsplit("/", 1)[1])
        if queue is None:
            raise Refusal(400, "QueueDoesNotExist", request["QueueUrl"])
        queue.send(
            request["MessageBody"],
            group=request.get("MessageGroupId", ""),
            deduplication=request.get("MessageDeduplicationId", ""),
            attributes=request.get("MessageAttributes"),
        )
        return {"MessageId": "sent", "MD5OfMessageBody": "unchecked"}

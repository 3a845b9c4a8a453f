"""SQS as AWS has it, where moto's differs: order, deduplication, and several callers at once.

What the product may rely on, and moto 5.2 does otherwise:

- Of a FIFO batch whose visibility timeout is over moto gives the last message only; here all of it, in order.
- moto forgets a deduplication id with the message that was deleted; here it lasts the five minutes.
- moto rebuilds a queue's list at each deletion without a lock and loses what is sent meanwhile; here nothing is lost,
  and a deletion does not become slower as the queue grows.
- moto counts a queue's messages three times for each one sent; here sending does not become slower either.
- A message that moves to a dead-letter queue is no new message: its deduplication id does not count again.
"""

from __future__ import annotations

import copy
import itertools
import threading
import time
from typing import Any

from moto.sqs.exceptions import InvalidParameterValue, ReceiptHandleIsInvalid
from moto.sqs.models import Message, Queue, SQSBackend, _filter_message_attributes

from tidegate_local.durable.changes import CHANGES
from tidegate_local.mends.patching import patch

DEDUPLICATION_SECONDS = 300
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html"""
LONGEST_VISIBILITY = 12 * 60 * 60
_LOOK_AGAIN = 0.2
"""Seconds after which a waiting receiver looks whether a visibility timeout or a delay is over."""

_sequence = itertools.count(time.time_ns())


class Mailbox:
    """The messages of one queue. Every method may be called by any thread."""

    def __init__(self, queue: str = "") -> None:
        self.queue = queue
        self.changed = threading.Condition()
        self._messages: dict[str, Message] = {}
        self._hidden: dict[str, Message] = {}  # in flight or delayed, when last looked at
        self._handles: dict[str, Message] = {}
        self._deleted: set[str] = set()
        self._seen: dict[tuple[str, str], float] = {}

    def snapshot(self) -> list[Message]:
        with self.changed:
            return list(self._messages.values())

    def message(self, identifier: str) -> Message | None:
        with self.changed:
            return self._messages.get(identifier)

    def clear(self) -> None:
        with self.changed:
            for identifier in self._messages:
                self._touch(identifier)
            self._messages.clear()
            self._hidden.clear()
            self._handles.clear()

    def count(self) -> tuple[int, int, int]:
        """How many messages can be received, are in flight, and are delayed."""
        with self.changed:
            for message in list(self._hidden.values()):
                if message.visible and not message.delayed:
                    del self._hidden[message.id]
            in_flight = sum(not message.visible for message in self._hidden.values())
            return len(self._messages) - len(self._hidden), in_flight, len(self._hidden) - in_flight

    def add(self, message: Message) -> None:
        with self.changed:
            self._touch(message.id)
            self._messages[message.id] = message
            if message.delayed_until:
                self._hidden[message.id] = message
            self.changed.notify_all()

    def put_back(self, message: Message) -> None:
        """A message as it was when this process began: it may be in flight or delayed."""
        with self.changed:
            self._messages[message.id] = message
            self._hidden[message.id] = message
            self._handles.update({str(each): message for each in message.all_receipt_handles if each})

    def drop_repeats(self, scope: str, deduplication_id: str, seconds: float) -> None:
        """Drop what is sent with this id, for so many seconds from now; the ids are told in the order of their end."""
        with self.changed:
            self._seen[scope, deduplication_id] = time.monotonic() + seconds

    def is_repeat(self, scope: str, deduplication_id: str) -> bool:
        """Whether this id was sent less than five minutes ago; if not, the five minutes begin now."""
        with self.changed:
            now = time.monotonic()
            while self._seen and next(iter(self._seen.values())) <= now:  # the first in is the first to expire
                del self._seen[next(iter(self._seen))]
            if (scope, deduplication_id) in self._seen:
                return True
            self._seen[scope, deduplication_id] = now + DEDUPLICATION_SECONDS
            CHANGES.touch("repeat", self.queue, scope, deduplication_id, value=DEDUPLICATION_SECONDS)
            return False

    def receive(
        self, count: int, visibility_timeout: int, *, fifo: bool, most_receives: int | None, oldest: float
    ) -> tuple[list[Message], list[Message]]:
        """At most `count` messages, and those that were received `most_receives` times and are removed for it.

        Messages sent before `oldest` (epoch milliseconds) have expired.
        """
        given: list[Message] = []
        dead: list[Message] = []
        with self.changed:
            blocked = {each.group_id for each in self._hidden.values() if not each.visible} if fifo else set()
            for message in list(self._messages.values()):
                if len(given) == count:
                    break
                if (message.sent_timestamp or 0) < oldest:
                    self._forget(message)
                elif not message.visible or message.delayed or message.group_id in blocked:
                    continue
                elif most_receives is not None and message.approximate_receive_count >= most_receives:
                    self._forget(message)
                    dead.append(message)
                else:
                    self._touch(message.id)
                    message.mark_received(visibility_timeout)
                    self._handles[str(message.receipt_handle)] = message
                    self._hidden[message.id] = message
                    given.append(copy.copy(message))
        return given, dead

    def delete(self, handle: str) -> None:
        with self.changed:
            if handle in self._deleted:
                return
            message = self._find(handle)
            self._deleted.update(str(each) for each in message.all_receipt_handles if each)
            self._forget(message)
            self.changed.notify_all()

    def change_visibility(self, handle: str, timeout: int) -> None:
        with self.changed:
            message = self._find(handle)
            age = time.time() - (message.sent_timestamp or 0) / 1000
            if timeout and age + timeout > LONGEST_VISIBILITY:
                raise InvalidParameterValue(
                    f"Value {timeout} for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for"
                    f" the message is beyond the limit [{LONGEST_VISIBILITY} seconds]"
                )
            if timeout:
                message.change_visibility(timeout)
                self._hidden[message.id] = message
            else:
                message.visible_at = 0.0
            self._touch(message.id)
            self.changed.notify_all()

    def _find(self, handle: str) -> Message:
        if handle not in self._handles:
            raise ReceiptHandleIsInvalid
        return self._handles[handle]

    def _touch(self, identifier: str) -> None:
        CHANGES.touch("message", self.queue, identifier)

    def _forget(self, message: Message) -> None:
        self._touch(message.id)
        self._messages.pop(message.id, None)
        self._hidden.pop(message.id, None)
        for handle in message.all_receipt_handles:
            self._handles.pop(str(handle), None)


def queues_keep_order_and_deduplication() -> None:
    """Put mailboxes under moto's queues; moto goes on to validate, to name and to answer.

    A batch of a FIFO queue comes again whole and in order
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/FIFO-queues-understanding-logic.html), a
    deduplication id lasts five minutes, whatever becomes of its message
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html),
    and what has expired is deleted and hides nothing behind it
    (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html).
    """
    patch(
        Queue,
        _messages=property(lambda queue: mailbox(queue).snapshot(), lambda queue, _: mailbox(queue).clear()),
        approximate_number_of_messages=property(lambda queue: mailbox(queue).count()[0]),
        approximate_number_of_messages_not_visible=property(lambda queue: mailbox(queue).count()[1]),
        approximate_number_of_messages_delayed=property(lambda queue: mailbox(queue).count()[2]),
        add_message=add_message,
        delete_message=lambda queue, receipt_handle: mailbox(queue).delete(receipt_handle),
    )
    patch(SQSBackend, receive_message=receive_message, change_message_visibility=change_message_visibility)


def mailbox(queue: Any) -> Mailbox:
    box: Mailbox = queue.__dict__.setdefault("mailbox", Mailbox(queue.name))
    return box


def number_from(least: int) -> None:
    """Number the messages of FIFO queues from `least` on, or from where the clock is, if that is later."""
    global _sequence
    _sequence = itertools.count(max(least, time.time_ns()))


def add_message(queue: Any, message: Message) -> None:
    if queue.fifo_queue:
        message.sequence_number = f"{next(_sequence):020d}"
        scope = str(message.group_id) if queue.deduplication_scope == "messageGroup" else ""
        if message.deduplication_id and mailbox(queue).is_repeat(scope, message.deduplication_id):
            return
    mailbox(queue).add(message)


def receive_message(
    backend: SQSBackend,
    queue_name: str,
    count: int,
    wait_seconds_timeout: int,
    visibility_timeout: int,
    message_attribute_names: list[str] | None = None,
) -> list[Message]:
    queue: Any = backend.get_queue(queue_name)
    box = mailbox(queue)
    deadline = time.monotonic() + wait_seconds_timeout
    while True:
        policy: dict[str, Any] = (queue.dead_letter_queue and queue.redrive_policy) or {}
        with CHANGES.step():  # and not while it waits
            messages, dead = box.receive(
                count,
                visibility_timeout,
                fifo=bool(queue.fifo_queue),
                most_receives=policy.get("maxReceiveCount"),
                oldest=(time.time() - int(queue.message_retention_period)) * 1000,
            )
            for message in dead:
                message.visible_at = 0.0
                message.receipt_handle, message._old_receipt_handles = None, []
                mailbox(queue.dead_letter_queue).add(message)
        remaining = deadline - time.monotonic()
        if messages or remaining <= 0:
            for message in messages:
                _filter_message_attributes(message, message_attribute_names or [])
            return messages
        with box.changed:
            box.changed.wait(min(remaining, _LOOK_AGAIN))


def change_message_visibility(
    backend: SQSBackend, queue_name: str, receipt_handle: str, visibility_timeout: int
) -> None:
    mailbox(backend.get_queue(queue_name)).change_visibility(receipt_handle, int(visibility_timeout))

"""Queues whose dead-letter queue is not there when they are made again: it comes later, or was deleted.

A queue may name a dead-letter queue that was deleted since. Then SQS leaves it as it is, and moves nothing. moto
refuses to make such a queue, and looks only at the queues that there are already: one that was deleted and made anew
comes after those that name it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.sqs.exceptions import SQSException
from moto.sqs.models import Queue

from tidegate_local.errors import LocalError
from tidegate_local.mends.patching import patch

_GONE = "AWS.SimpleQueueService.NonExistentQueue"


@contextmanager
def named_later() -> Iterator[list[str]]:
    """While queues are made again, one may name a dead-letter queue that is not there. At the end each is joined to its
    own. The list then says which are still missing, each in a sentence."""
    original, waiting, missing = Queue._setup_dlq, list[Queue](), list[str]()

    def joined(queue: Queue, policy: Any) -> None:
        queue.dead_letter_queue = None
        try:
            original(queue, policy)
        except SQSException as error:
            if error.code != _GONE:
                raise
            waiting.append(queue)

    patch(Queue, _setup_dlq=joined)
    try:
        yield missing
    finally:
        patch(Queue, _setup_dlq=original)
    for queue in dict.fromkeys(waiting):
        policy: dict[str, Any] | None = queue.redrive_policy
        if policy is None:  # a later request took it away
            continue
        try:
            original(queue, json.dumps(policy))
        except SQSException as error:
            if error.code != _GONE:
                raise LocalError(
                    f"queue {queue.name} cannot have the dead-letter queue that it names: {error}"
                ) from error
            gone = str(policy["deadLetterTargetArn"]).rpartition(":")[2]
            missing.append(
                f"queue {queue.name} names the dead-letter queue {gone}, which was deleted: what it gives up stays in"
                f" it. Make a queue {gone} and start again, or change its redrive policy"
            )

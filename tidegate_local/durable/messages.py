"""SQS's messages, in the order in which they came, with their receipts, and the latest deduplication ids."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from moto.sqs.models import Message, sqs_backends

from tidegate_local.durable.database import Database, Transaction
from tidegate_local.durable.text import dumps, loads
from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.mends.queues import mailbox, number_from

if TYPE_CHECKING:
    from moto.sqs.models import SQSBackend


def backend() -> SQSBackend:
    return sqs_backends[ACCOUNT][REGION]


class KeptMessages:
    """The rows of the messages."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def write_message(self, transaction: Transaction, queue: str, identifier: str) -> None:
        """What a queue has under this id now, which may be nothing."""
        found = backend().queues.get(queue)
        message = mailbox(found).message(identifier) if found is not None else None
        if message is None:
            transaction.say("DELETE FROM messages WHERE queue = ? AND message = ?", queue, identifier)
            return
        transaction.say(
            "INSERT INTO messages (queue, message, attributes) VALUES (?, ?, ?)"
            " ON CONFLICT (queue, message) DO UPDATE SET attributes = excluded.attributes",
            *(queue, identifier, dumps(vars(message))),
        )

    @staticmethod
    def write_repeat(transaction: Transaction, queue: str, scope: str, deduplication: str, seconds: float) -> None:
        """Repeats of this id are dropped for so many seconds from now."""
        now = time.time()
        transaction.say("DELETE FROM repeats WHERE until <= ?", now)
        transaction.say(
            "INSERT OR REPLACE INTO repeats VALUES (?, ?, ?, ?)", queue, scope, deduplication, now + seconds
        )

    def fill(self, *, receivers_are_gone: bool) -> int:
        """Put every message into its queue; the number of them.

        With `receivers_are_gone` those in flight can be received at once: nobody is left to delete them.
        """
        for queue in backend().queues.values():
            mailbox(queue).clear()
        count = last = 0
        for queue, attributes in self._database.rows("SELECT queue, attributes FROM messages ORDER BY id"):
            known = loads(attributes)
            message = Message(known["id"], known["body"])
            vars(message).update(known)
            if receivers_are_gone:
                message.visible_at = 0.0
            last = max(last, int(message.sequence_number or 0))
            mailbox(backend().queues[queue]).put_back(message)
            count += 1
        now = time.time()
        for queue, scope, deduplication, until in self._database.rows("SELECT * FROM repeats ORDER BY until"):
            mailbox(backend().queues[queue]).drop_repeats(scope, deduplication, until - now)
        number_from(last + 1)
        return count

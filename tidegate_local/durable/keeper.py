"""Writes what a request has changed, and fills moto at the start."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

from tidegate_local.durable import objects
from tidegate_local.durable.changes import CHANGES, Touched
from tidegate_local.durable.database import Database, Transaction, stop
from tidegate_local.durable.dead_letters import named_later
from tidegate_local.durable.definitions import KeptDefinitions, WsgiApplication, subscriptions_keep_their_names
from tidegate_local.durable.items import KeptItems
from tidegate_local.durable.messages import KeptMessages
from tidegate_local.durable.objects import KeptObjects
from tidegate_local.durable.requests import AskedRequest, Effect


class Keeper:
    """What the services of this process hold, in a file of `folder`. There can be one in a process, as moto is one."""

    def __init__(self, folder: Path) -> None:
        """Raises LocalError."""
        self._database = Database(folder)
        self._definitions = KeptDefinitions(self._database)
        self._objects = KeptObjects(self._database)
        self._messages = KeptMessages(self._database)
        self._items = KeptItems(self._database)
        objects.tell_changed_keys()
        subscriptions_keep_their_names()

    def fill(self, application: WsgiApplication, *, receivers_are_gone: bool) -> dict[str, int]:
        """Fill moto from the file, and keep what changes from now on. How much there was. Raises LocalError."""
        with named_later() as missing:
            definitions = self._definitions.make(application)
        for each in missing:
            print(each, file=sys.stderr, flush=True)
        counts = {
            "definitions": definitions,
            "versions": self._objects.fill(),
            "messages": self._messages.fill(receivers_are_gone=receivers_are_gone),
            "items": self._items.fill(),
        }
        CHANGES.keep = self._keep
        return counts

    @staticmethod
    def note(asked: AskedRequest, request: str, body: bytes) -> None:
        """Touch what moto does not tell of by itself: definitions, and what is said of an object."""
        if asked.effect in (Effect.MAKES, Effect.SETS, Effect.ENDS):
            CHANGES.touch("definition", value=(asked, request, body))
        elif asked.service == "s3" and asked.key:
            CHANGES.touch("description", asked.resource, asked.key)

    def wait(self) -> None:
        """Return when all that this thread's last step has seen is on the disk."""
        self._database.wait(CHANGES.ticket())

    def close(self) -> None:
        """Write what waits, and let go of the file."""
        with CHANGES.step():
            self._database.close()

    def _keep(self, touched: Touched) -> int:
        try:
            transaction = Transaction()
            for what, value in touched.items():
                self._write(transaction, what, value)
            return self._database.queue(transaction)
        except BaseException:
            # moto has changed, and nobody can say how
            traceback.print_exc()
            stop("what a request has changed could not be written down")

    def _write(self, transaction: Transaction, what: Any, value: Any) -> None:
        match what:
            case ("object", bucket, key):
                self._objects.write(transaction, bucket, key)
            case ("description", bucket, key):
                self._objects.describe_again(transaction, bucket, key)
            case ("message", queue, identifier):
                self._messages.write_message(transaction, queue, identifier)
            case ("repeat", queue, scope, deduplication):
                self._messages.write_repeat(transaction, queue, scope, deduplication, value)
            case ("item", table, hash_key, range_key):
                self._items.write(transaction, table, hash_key, range_key)
            case ("definition",):
                asked, request, body = value
                self._definitions.write(transaction, asked, request, body)
                if asked.effect is Effect.ENDS and asked.service == "sqs":
                    transaction.say("DELETE FROM messages WHERE queue = ?", asked.resource)
                    transaction.say("DELETE FROM repeats WHERE queue = ?", asked.resource)
                elif asked.effect is Effect.ENDS and asked.service == "dynamodb":
                    transaction.say("DELETE FROM items WHERE owner = ?", asked.resource)
            case _:
                raise AssertionError(what)

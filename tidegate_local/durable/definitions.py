"""Buckets, queues, topics, subscriptions and tables: kept as the requests that made them, and made again by these.

A request that makes something stays where it was first; one that sets something replaces the earlier one that set the
same, and comes last. So the number of requests does not grow with each start, and what a request refers to is there
when its turn comes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

from moto.sns.models import Subscription

from tidegate_local.callers import WsgiApplication
from tidegate_local.durable.database import Database, Transaction
from tidegate_local.durable.requests import AskedRequest, Effect, subscription_arn
from tidegate_local.errors import LocalError
from tidegate_local.mends.patching import patch

_SAID = (
    *("REQUEST_METHOD", "PATH_INFO", "RAW_URI", "REQUEST_URI", "QUERY_STRING", "CONTENT_TYPE", "SCRIPT_NAME"),
    *("SERVER_NAME", "SERVER_PORT", "SERVER_PROTOCOL", "wsgi.url_scheme"),
)
"""What of a request's environment says what it asks for, beside its headers."""


def subscriptions_keep_their_names() -> None:
    """Name each subscription after what it is, so that it has the same name when it is made again."""
    original = Subscription.__init__

    def made(subscription: Subscription, *arguments: Any, **options: Any) -> None:
        original(subscription, *arguments, **options)
        subscription.arn = subscription_arn(
            subscription.topic.arn, str(subscription.protocol), str(subscription.endpoint)
        )

    patch(Subscription, __init__=made)


class KeptDefinitions:
    """The rows of the definitions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @staticmethod
    def write(transaction: Transaction, asked: AskedRequest, request: str, body: bytes) -> None:
        """A request that was answered with success."""
        names = (asked.service, asked.resource, asked.part)
        match asked.effect:
            case Effect.MAKES:
                transaction.say(
                    "INSERT OR IGNORE INTO definitions (service, resource, part, label, request, body)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    *(*names, asked.label, request, body),
                )
            case Effect.SETS:
                # a row that is replaced gets the next number
                transaction.say(
                    "INSERT OR REPLACE INTO definitions (service, resource, part, label, request, body)"
                    " VALUES (?, ?, ?, ?, ?, ?)",
                    *(*names, asked.label, request, body),
                )
            case Effect.ENDS:
                whole = "" if asked.part else " OR ?3 = ''"
                transaction.say(
                    f"DELETE FROM definitions WHERE service = ?1 AND resource = ?2 AND (part = ?3{whole})", *names
                )

    def make(self, application: WsgiApplication) -> int:
        """Make everything again; the number of requests. Raises LocalError for one that is refused now."""
        count = 0
        for request, body in self._database.rows("SELECT request, body FROM definitions ORDER BY id"):
            environ: dict[str, Any] = json.loads(request)
            environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
            status: list[str] = []
            answer = b"".join(application(environ, lambda said, *_, status=status: status.append(said)))
            if not is_success(status[-1]):
                what = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']} {body[:200]!r}"
                raise LocalError(f"what was made before cannot be made again: {what}: {status[-1]} {answer[:500]!r}")
            count += 1
        return count


def said(environ: Mapping[str, Any]) -> str:
    """What is kept of a request: its line and its headers."""
    kept = {name: value for name, value in environ.items() if name in _SAID or name.startswith("HTTP_")}
    return json.dumps(kept)


def is_success(status: str) -> bool:
    return status.startswith("2")

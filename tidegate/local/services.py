"""The emulated AWS: moto's S3, SQS, SNS and DynamoDB behind one endpoint on 127.0.0.1.

    python -m tidegate.local.services

moto was made for one caller at a time and for small states. What the product relies on and moto does otherwise is
repaired here, at the edge, so that no line of the product knows of an emulator.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import quote_plus

# A web page must not be able to reach the endpoint through a browser, so moto's "allow every origin" has to go.
os.environ.setdefault("MOTO_DISABLE_GLOBAL_CORS", "true")

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.table import Table
from moto.moto_server.utilities import RegexConverter
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3 import notifications
from moto.s3.models import FakeDeleteMarker, FakeKey, Notification, S3Backend
from werkzeug.serving import make_server

from tidegate.local.processes import follow_lifeline, inherited_listener, listen, url_of
from tidegate.local.queues import patch, repair_queues

StartResponse = Callable[..., Any]

_UNENCODED = "/!-_.*'()"
"""What S3 leaves as it is in a notification's key (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html),
and in the values of a notification's filter."""


class OneAtATime:
    """A WSGI middleware: the requests of a service one after the other, except SQS's, which wait.

    moto reads, decides and writes without a lock, so two conditional writes at once could both succeed. With the
    interpreter's lock around everything there is nothing to gain from running them together anyway.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application
        self.locks: dict[str, threading.Lock] = {}

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("HTTP_ORIGIN"):
            start_response("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"requests from web pages are refused\n"]
        service = _service(environ)
        if service == "sqs":
            return self.application(environ, start_response)
        # a slow upload must not make the others wait
        if length := int(environ.get("CONTENT_LENGTH") or 0):
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with self.locks.setdefault(service, threading.Lock()):
            return list(self.application(environ, start_response))


def _service(environ: dict[str, Any]) -> str:
    """The service named in the signature's scope; S3 if there is none, as moto has it."""
    scope = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")[2].partition(",")[0].split("/")
    return scope[3] if len(scope) == 5 else "s3"


class Dispatcher(DomainDispatcherApplication):
    """moto lists its own folder for each request, to find out which services it has; once is enough."""

    def __init__(self) -> None:
        super().__init__(create_backend_app)
        self._known: dict[str | None, Any] = {}

    def get_backend_for_host(self, host: str | None) -> Any:
        if host not in self._known:
            self._known[host] = super().get_backend_for_host(host)
        return self._known[host]


class _RequestHandler(MotoRequestHandler):
    disable_nagle_algorithm = True

    def log_request(self, *args: Any) -> None:
        """Not logged: a line for each request would be most of the work."""


# --- S3: notifications as S3 sends them ---


def repair_notifications() -> None:
    """Add `versionId` and `sequencer`, which moto leaves out, encode keys as S3 does, tell a multipart upload once.

    Without the version the same upload would be known under two identities, one from its notification and one from
    a listing.
    """
    original = notifications._get_s3_event
    counter = itertools.count(time.time_ns() // 1000)

    def with_version(event_name: str, bucket: Any, key: Any, notification_id: str) -> dict[str, Any]:
        event: dict[str, Any] = original(event_name, bucket, key, notification_id)
        record = event["Records"][0]
        details = record["s3"]["object"]
        if bucket.is_versioned and key.version_id and key.version_id != "null":
            details["versionId"] = key.version_id
        details["key"] = quote_plus(key.name, safe=_UNENCODED)
        details["sequencer"] = f"{next(counter):018X}"
        record["responseElements"] = {
            "x-amz-request-id": f"{next(counter):016X}",
            "x-amz-id-2": f"local-{next(counter)}",
        }
        return event

    key_matches = Notification._key_matches

    def encoded_key_matches(notification: Any, key_name: str) -> bool:
        return bool(key_matches(notification, quote_plus(key_name, safe=_UNENCODED)))

    put_object = S3Backend.put_object

    def told_once(*arguments: Any, **options: Any) -> Any:
        # the upload is told when it completes
        quiet = options.get("disable_notification") or options.get("multipart") is not None
        return put_object(*arguments, **{**options, "disable_notification": quiet})

    notifications._get_s3_event = with_version
    patch(S3Backend, put_object=told_once)
    patch(Notification, _key_matches=encoded_key_matches)


def repair_keys() -> None:
    """moto's routes stop at a newline, which a key may contain: `.` has to match it."""
    original = RegexConverter.__init__

    def whole(converter: RegexConverter, url_map: Any, *items: Any) -> None:
        original(converter, url_map, *items)
        converter.regex = f"(?s:{converter.regex})"

    patch(RegexConverter, __init__=whole)


def repair_listings() -> None:
    """moto copies every object of a bucket, content included, to list a page of its versions. It sets one flag in the
    copy, which nothing but the listing reads."""
    for kind in (FakeKey, FakeDeleteMarker):
        setattr(kind, "__deepcopy__", _itself)  # noqa: B010


# --- DynamoDB: work whose price does not grow with the table ---


def repair_queries() -> None:
    """moto sorts the whole table to find the items of one partition."""
    query, all_items = Table.query, Table.all_items
    signature = inspect.signature(query)

    def query_partition(*arguments: Any, **options: Any) -> Any:
        asked = signature.bind(*arguments, **options).arguments
        table = asked["self"]
        if asked.get("index_name") is None and table.range_key_attr:
            table.partition = asked["hash_key"]
        try:
            return query(*arguments, **options)
        finally:
            table.partition = None

    def items(table: Any) -> list[Any]:
        if getattr(table, "partition", None) is None:
            return list(all_items(table))
        return list(table.items[table.partition].values()) if table.partition in table.items else []

    patch(Table, query=query_partition, all_items=items)


def repair_transactions() -> None:
    """moto copies every table it touches, whole, before each transaction; here only the items are copied."""
    original = DynamoDBBackend.transact_write_items

    def transact(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
        before = []
        for each in transact_items:
            (operation,) = each.values()
            with contextlib.suppress(Exception):  # moto reports what is wrong with it in its own words
                table = backend.get_table(operation["TableName"])
                hash_key, range_key = table_keys(table, operation.get("Key") or operation["Item"])
                before.append((table, hash_key, range_key, copy.deepcopy(table.get_item(hash_key, range_key))))
        try:
            original(backend, transact_items)
        except BaseException:
            for table, hash_key, range_key, item in before:
                put_back(table, hash_key, range_key, item)
            raise

    patch(DynamoDBBackend, transact_write_items=transact)
    # transactions are the only ones that copy a table here, and restore it by assigning the copy
    setattr(Table, "__deepcopy__", _itself)  # noqa: B010


def _itself(self: Any, memo: dict[int, Any]) -> Any:
    return self


def table_keys(table: Any, values: dict[str, Any]) -> tuple[Any, Any]:
    from moto.dynamodb.models.dynamo_type import DynamoType

    return (
        DynamoType(values[table.hash_key_attr]),
        DynamoType(values[table.range_key_attr]) if table.range_key_attr else None,
    )


def put_back(table: Any, hash_key: Any, range_key: Any, item: Any) -> None:
    if range_key is None:
        if item is None:
            table.items.pop(hash_key, None)
        else:
            table.items[hash_key] = item
    elif item is None:
        table.items[hash_key].pop(range_key, None)
        if not table.items[hash_key]:
            del table.items[hash_key]
    else:
        table.items[hash_key][range_key] = item


def repair() -> None:
    """Everything, once in a process."""
    repair_notifications()
    repair_keys()
    repair_listings()
    repair_queries()
    repair_transactions()
    repair_queues()


def main() -> int:
    listener = inherited_listener() or listen()
    follow_lifeline()
    repair()
    application = OneAtATime(Dispatcher())
    host, port = listener.getsockname()
    server = make_server(host, port, application, threaded=True, request_handler=_RequestHandler, fd=listener.fileno())
    print(json.dumps({"serving": url_of(listener)}), flush=True)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))  # there is nothing to save
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The emulated AWS: moto's S3, SQS, SNS and DynamoDB behind one endpoint on 127.0.0.1.

    python -m tidegate_local.services [--dir DIR]

With a folder, all that they hold is in it before a request is answered (`tidegate_local.durable`); without one it ends
with the process. moto was made for one caller at a time: here it gets one at a time (`OneAtATime`). What else it does
otherwise than AWS is mended in `tidegate_local.mends`.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

# A web page must not be able to reach the endpoint through a browser, so moto's "allow every origin" has to go.
os.environ.setdefault("MOTO_DISABLE_GLOBAL_CORS", "true")

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tidegate_local.callers import Programs
from tidegate_local.durable.changes import CHANGES
from tidegate_local.durable.database import FOLDER, RECEIVERS_ARE_GONE
from tidegate_local.durable.keeper import Keeper
from tidegate_local.errors import LocalError
from tidegate_local.mends import mend
from tidegate_local.mends.notifications import events_reach_the_bus
from tidegate_local.outages import Outages, StartResponse
from tidegate_local.processes import follow_lifeline, inherited_listener, listen, url_of

EVENTS = "AWS_ENDPOINT_URL_EVENTBRIDGE"
"""Where the bus of this machine is, if there is one."""
NOT_DEFINING = (
    *("Get", "List", "Describe", "Query", "Scan", "BatchGet", "TransactGet"),
    *("SendMessage", "ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "PurgeQueue", "Publish"),
    *("PutItem", "UpdateItem", "DeleteItem", "BatchWrite", "TransactWrite", "BatchExecute", "Execute"),
)
"""How operations begin that change none of the queues, topics, subscriptions and tables."""


class OneAtATime:
    """A WSGI middleware: the requests one after the other, except those that wait for messages.

    moto reads, decides and writes without a lock, so two conditional writes at once could both succeed. With the
    interpreter's lock around everything there is nothing to gain from running them together anyway. With a `keeper`
    each is answered once what it has changed, and what it has seen, is on the disk.
    """

    def __init__(self, application: Callable[..., Iterable[bytes]], keeper: Keeper | None = None) -> None:
        self.application = application
        self.keeper = keeper

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        # a slow upload must not make the others wait
        length = environ.get("CONTENT_LENGTH")
        # one without a length comes in pieces, or has no body
        whole = bool(length) or bool(environ.get("wsgi.input_terminated"))
        body: bytes = environ["wsgi.input"].read(*([int(length)] if length else [])) if whole else b""
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        operation = operation_of(environ, body)
        if operation == "ReceiveMessage":
            answer = list(self.application(environ, start_response))  # its steps are those between the waiting
        else:
            with CHANGES.step():
                touch(environ, operation)
                answer = list(self.application(environ, start_response))
        if self.keeper is not None:
            self.keeper.wait()
        return answer


def operation_of(environ: Mapping[str, Any], body: bytes) -> str:
    """The operation that a request asks for; none of S3, whose requests name none."""
    if target := str(environ.get("HTTP_X_AMZ_TARGET", "")):
        return target.rpartition(".")[2]
    if service_of(environ) == "s3":
        return ""
    asked = parse_qs(body.decode("utf-8", "replace")) or parse_qs(str(environ.get("QUERY_STRING", "")))
    return asked.get("Action", [""])[-1]


def touch(environ: Mapping[str, Any], operation: str) -> None:
    """Say what a request may change that moto does not tell of by itself: definitions, and what is said of an object.

    What is not known here is taken for something that defines: then too much is written, and nothing is lost.
    """
    if operation:
        if not operation.startswith(NOT_DEFINING):
            CHANGES.touch("definitions")
    elif environ.get("REQUEST_METHOD") not in ("GET", "HEAD", "OPTIONS"):
        path = unquote(str(environ.get("REQUEST_URI") or environ.get("PATH_INFO", "")).partition("?")[0])
        bucket, _, key = path.lstrip("/").partition("/")
        about = parse_qs(str(environ.get("QUERY_STRING", "")), keep_blank_values=True).keys()
        if key and about & {"acl", "legal-hold", "restore", "retention", "tagging"}:
            CHANGES.touch("description", bucket, key)
        elif not key and "delete" not in about:
            CHANGES.touch("definitions")


def service_of(environ: Mapping[str, Any]) -> str:
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate_local.services")
    parser.add_argument("--dir", type=Path, help="keep what the services hold in this folder")
    folder: Path | None = parser.parse_args().dir
    listener = inherited_listener() or listen()
    follow_lifeline()
    mend()
    if os.environ.get(EVENTS):
        events_reach_the_bus(dict(os.environ))
    dispatcher = Dispatcher()
    keeper = None
    if folder is not None:
        try:
            keeper = Keeper(folder / FOLDER)
            counts = keeper.fill(receivers_are_gone=bool(os.environ.get(RECEIVERS_ARE_GONE)))
        except (LocalError, pickle.UnpicklingError, sqlite3.Error) as error:
            print(f"what the services held cannot be read: {error}", file=sys.stderr)
            return 1
        print(json.dumps({"kept": counts}), flush=True)
    application = Programs(OneAtATime(Outages(dispatcher, service_of), keeper))
    host, port = listener.getsockname()
    server = make_server(host, port, application, threaded=True, request_handler=_RequestHandler, fd=listener.fileno())
    print(json.dumps({"serving": url_of(listener)}), flush=True)
    signal.signal(signal.SIGTERM, lambda number, frame: _end(keeper))
    server.serve_forever()
    return 0


def _end(keeper: Keeper | None) -> None:
    """End the process. What was answered is on the disk, so this only leaves the file tidy."""
    if keeper is not None:
        closing = threading.Thread(target=keeper.close, daemon=True)
        closing.start()
        closing.join(5)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

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
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

# A web page must not be able to reach the endpoint through a browser, so moto's "allow every origin" has to go.
os.environ.setdefault("MOTO_DISABLE_GLOBAL_CORS", "true")

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tidegate_local.callers import Programs
from tidegate_local.durable import items
from tidegate_local.durable.changes import CHANGES
from tidegate_local.durable.database import FOLDER, RECEIVERS_ARE_GONE
from tidegate_local.durable.definitions import is_success, said
from tidegate_local.durable.keeper import Keeper
from tidegate_local.durable.requests import SERVICES, AskedRequest, Effect, asked
from tidegate_local.errors import LocalError
from tidegate_local.mends import mend
from tidegate_local.outages import PATH, Outages, StartResponse
from tidegate_local.processes import follow_lifeline, inherited_listener, listen, url_of


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
        service = service_of(environ)
        if service not in SERVICES or environ.get("PATH_INFO") == PATH:
            with CHANGES.step():
                return list(self.application(environ, start_response))
        request = asked(environ, service, body)
        if request.effect is Effect.WAITS:
            answer = list(self.application(environ, start_response))
        elif self.keeper is None:
            with CHANGES.step():
                answer = list(self.application(environ, start_response))
        else:
            answer = self._kept(self.keeper, request, environ, body, start_response)
        if self.keeper is not None:
            self.keeper.wait()
        return answer

    def _kept(
        self, keeper: Keeper, request: AskedRequest, environ: dict[str, Any], body: bytes, start_response: StartResponse
    ) -> list[bytes]:
        try:
            if request.effect is Effect.UNKNOWN:
                raise ValueError(f"{request.operation} is not imitated on this machine: it would not be kept")
            writes = request.service == "dynamodb" and request.effect is Effect.WRITES
            names = list(items.named(request.operation, request.body)) if writes else []
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return refuse(request.service, f"{type(error).__name__}: {error}", start_response)
        line = said(environ)
        status: list[str] = []

        def start(code: str, headers: Any, *rest: Any) -> Any:
            status.append(code)
            return start_response(code, headers, *rest)

        with CHANGES.step():
            answer = list(self.application(environ, start))
            items.touch(names)
            if is_success(status[-1]):
                keeper.note(request, line, body)
        return answer


def refuse(service: str, why: str, start_response: StartResponse) -> list[bytes]:
    """Answer with an error that the SDKs can read, in the service's own words."""
    if service in ("sqs", "dynamodb"):
        start_response("400 Bad Request", [("Content-Type", "application/x-amz-json-1.0")])
        return [json.dumps({"__type": "UnsupportedOperation", "message": why}).encode()]
    error = f"<Error><Code>UnsupportedOperation</Code><Message>{escape(why)}</Message></Error>"
    start_response("400 Bad Request", [("Content-Type", "application/xml")])
    return [(error if service == "s3" else f"<ErrorResponse>{error}</ErrorResponse>").encode()]


def service_of(environ: dict[str, Any]) -> str:
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
    dispatcher = Dispatcher()
    keeper = None
    if folder is not None:
        try:
            keeper = Keeper(folder / FOLDER)
            counts = keeper.fill(dispatcher, receivers_are_gone=bool(os.environ.get(RECEIVERS_ARE_GONE)))
        except (LocalError, sqlite3.Error) as error:
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

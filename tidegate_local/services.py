"""The emulated AWS: moto's S3, SQS, SNS and DynamoDB behind one endpoint on 127.0.0.1.

    python -m tidegate_local.services

moto was made for one caller at a time: here it gets one at a time (`OneAtATime`). What else it does otherwise than AWS
is mended in `tidegate_local.mends`.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

# A web page must not be able to reach the endpoint through a browser, so moto's "allow every origin" has to go.
os.environ.setdefault("MOTO_DISABLE_GLOBAL_CORS", "true")

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tidegate_local.mends import mend
from tidegate_local.outages import Outages, StartResponse
from tidegate_local.processes import follow_lifeline, inherited_listener, listen, url_of


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
        service = service_of(environ)
        if service == "sqs":
            return self.application(environ, start_response)
        # a slow upload must not make the others wait
        if length := int(environ.get("CONTENT_LENGTH") or 0):
            environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with self.locks.setdefault(service, threading.Lock()):
            return list(self.application(environ, start_response))


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
    listener = inherited_listener() or listen()
    follow_lifeline()
    mend()
    application = OneAtATime(Outages(Dispatcher(), service_of))
    host, port = listener.getsockname()
    server = make_server(host, port, application, threaded=True, request_handler=_RequestHandler, fd=listener.fileno())
    print(json.dumps({"serving": url_of(listener)}), flush=True)
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))  # there is nothing to save
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A small JSON endpoint on 127.0.0.1, for the parts of AWS that this machine imitates itself."""

from __future__ import annotations

import json
import re
import socket
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


class Refusal(Exception):
    """An error as AWS answers it: the SDKs read `code` from a header and the text from the body."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: `path` holds the values of the route's placeholders, `headers` have names In-Title-Case."""

    path: tuple[str, ...]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        try:
            return json.loads(self.body or b"{}")
        except ValueError as error:
            raise Refusal(400, "SerializationException", f"the body is not JSON: {error}") from error

    def first(self, name: str) -> str:
        return self.query.get(name, [""])[0]


@dataclass(frozen=True, slots=True)
class Answer:
    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Answer]


class Endpoint:
    """Routes are written as botocore writes them: `("GET", "/applications/{applicationId}", handler)`."""

    def __init__(self, listener: socket.socket, routes: list[tuple[str, str, Handler]]) -> None:
        self.routes = [(method, _pattern(uri), handler) for method, uri, handler in routes]
        endpoint = self

        class Connection(_Connection):
            owner = endpoint

        self.server = _Server(listener.getsockname(), Connection, bind_and_activate=False)
        self.server.socket.close()
        self.server.socket = listener

    def serve_forever(self) -> None:
        self.server.serve_forever(poll_interval=0.2)

    def shutdown(self) -> None:
        self.server.shutdown()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if headers.get("Origin"):
            # AWS's SDKs send none. A page in a browser that guessed the port must not run code here.
            return _refused(Refusal(403, "AccessDeniedException", "requests from web pages are refused"))
        parts = urlsplit(target)
        for expected, pattern, handler in self.routes:
            if method == expected and (match := pattern.fullmatch(parts.path)):
                path = tuple(unquote(value) for value in match.groups())
                try:
                    return handler(Request(path, parse_qs(parts.query), headers, body))
                except Refusal as refusal:
                    return _refused(refusal)
                except Exception as error:
                    traceback.print_exc()
                    return _refused(Refusal(500, "InternalServerException", f"{type(error).__name__}: {error}"))
        return _refused(
            Refusal(404, "UnknownOperationException", f"{method} {parts.path} is not imitated on this machine")
        )


def _refused(refusal: Refusal) -> Answer:
    return Answer({"message": str(refusal)}, refusal.status, {"x-amzn-ErrorType": refusal.code})


def _pattern(uri: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\{[A-Za-z]+\\}", "([^/]+)", re.escape(uri)) + "/?")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is its own affair; anything else is told on stderr, as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    owner: Endpoint
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_one(self) -> None:
        headers = {name.title(): value for name, value in self.headers.items()}
        length = int(headers.get("Content-Length") or 0)
        answer = self.owner.answer(self.command, self.path, headers, self.rfile.read(length))
        body = b"" if answer.body is None else json.dumps(answer.body).encode()
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = handle_one  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged: what matters is logged by whoever handles them."""

"""A gate before an endpoint: every request goes through it, and a test may refuse one or hold one up."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.patience import HANGING
from tidegate_local.processes import HOST

HOP_BY_HOP = frozenset({"connection", "content-length", "date", "expect", "keep-alive", "server", "transfer-encoding"})
PATIENCE = HANGING
"""Seconds that a held request waits to be let go, so that a test that failed leaves nothing hanging."""


@dataclass
class Hold:
    """One request that is held up: before it reaches the endpoint, or with the endpoint's answer in hand. It is let go
    only to be dropped: whoever asked is to be dead by then."""

    words: tuple[str, ...]
    after: bool
    reached: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)


@dataclass
class Refusal:
    """What requests with all these words are answered instead."""

    words: tuple[str, ...]
    status: int
    body: bytes
    times: int = 0


class Gate:
    """Forwards to `port` of this machine, and listens on `self.port`.

    Words are looked for in a request's method and path, in the operation that an AWS SDK names in a header, and in its
    body.
    """

    def __init__(self, port: int) -> None:
        self._behind = port
        self._lock = threading.Lock()
        self._hold: Hold | None = None
        self._refusal: Refusal | None = None
        gate = self

        class Connection(_Connection):
            owner = gate

        self._server = _Server((HOST, 0), Connection)
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @contextmanager
    def holding(self, *words: str, after: bool) -> Iterator[Hold]:
        """Hold the next request with all these words until the block is left."""
        hold = Hold(words, after)
        with self._lock:
            self._hold = hold
        try:
            yield hold
        finally:
            hold.let_go.set()
            with self._lock:
                self._hold = None

    @contextmanager
    def refusing(self, *words: str, status: int, body: bytes) -> Iterator[Refusal]:
        """Answer requests with all these words like this."""
        refusal = Refusal(words, status, body)
        with self._lock:
            self._refusal = refusal
        try:
            yield refusal
        finally:
            with self._lock:
                self._refusal = None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    # ---- for a connection

    def serve(self, connection: "_Connection", body: bytes) -> None:
        headers = {name: value for name, value in connection.headers.items() if name.lower() not in HOP_BY_HOP}
        said = f"{connection.command} {connection.path}\n{headers.get('X-Amz-Target', '')}\n"
        said += body.decode(errors="replace")
        if refusal := self._refused(said):
            connection.answer(refusal.status, {"Content-Type": "application/x-amz-json-1.0"}, refusal.body)
            return
        hold = self._held(said)
        if hold and not hold.after:
            _wait(hold, connection)
            return
        status, answered, content = self._forward(connection.command, connection.path, headers, body)
        if hold:
            _wait(hold, connection)
            return
        connection.answer(status, answered, content)

    def _refused(self, said: str) -> Refusal | None:
        with self._lock:
            if self._refusal and all(word in said for word in self._refusal.words):
                self._refusal.times += 1
                return self._refusal
        return None

    def _held(self, said: str) -> Hold | None:
        with self._lock:
            found = self._hold
            if found and all(word in said for word in found.words):
                self._hold = None
                return found
        return None

    def _forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, str], bytes]:
        behind = http.client.HTTPConnection(HOST, self._behind, timeout=PATIENCE)
        try:
            behind.request(method, path, body, headers)
            answer = behind.getresponse()
            kept = {name: value for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP}
            return answer.status, kept, answer.read()
        finally:
            behind.close()


def _wait(hold: Hold, connection: "_Connection") -> None:
    hold.reached.set()
    hold.let_go.wait(PATIENCE)
    connection.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Those who ask are killed here: their broken connections are no news."""


class _Connection(BaseHTTPRequestHandler):
    owner: Gate
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_one(self) -> None:
        self.owner.serve(self, self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_GET = do_HEAD = do_POST = do_DELETE = do_PUT = handle_one  # noqa: N815

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Not logged."""

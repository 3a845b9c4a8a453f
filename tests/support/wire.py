"""A proxy between Spark and a catalog. A test can delay a request, or lose its answer.

It listens on 127.0.0.1 and forwards every request that no fault strikes.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.support.patience import HANGING

HELD_SECONDS = HANGING
NOT_HANDED_ON = frozenset({"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


Forward = Callable[[], Answer]


@dataclass
class Fault:
    """Strikes the first requests that match, `times` of them: `strike` returns the answer, or None to close the
    connection without one. `struck` holds what the catalog answered to each, and None for one that it never saw."""

    matches: Callable[[Request], bool]
    strike: Callable[[Fault, Forward], Answer | None]
    times: int
    struck: list[int | None] = field(default_factory=list)


@dataclass
class Held:
    """A request that was sent and has not arrived yet."""

    under_way: threading.Event = field(default_factory=threading.Event)
    may_arrive: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.under_way.wait(HELD_SECONDS), "no such request was sent"

    def let_arrive(self) -> None:
        self.may_arrive.set()


class Wire:
    """A proxy in front of `target`, and the faults that are on it now."""

    def __init__(self, target: str, is_commit: Callable[[Request], bool]) -> None:
        self.target = target
        self.is_commit = is_commit
        self.url = ""
        self.seen: list[Request] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def served(self) -> Iterator[Wire]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    # --- faults

    @contextlib.contextmanager
    def commit_answered_500(self) -> Iterator[Fault]:
        """The next commit is applied, and the answer is an internal error."""
        with self._fault(self.is_commit, _applied_and_then(_internal_error())) as fault:
            yield fault

    @contextlib.contextmanager
    def commit_cut_off(self) -> Iterator[Fault]:
        """The next commit is applied, and the connection closes before the answer."""
        with self._fault(self.is_commit, _applied_and_then(None)) as fault:
            yield fault

    @contextlib.contextmanager
    def commit_never_applied(self) -> Iterator[Fault]:
        """The next commit is answered with an internal error, and was not applied."""
        with self._fault(self.is_commit, _not_applied) as fault:
            yield fault

    @contextlib.contextmanager
    def outage_after_a_commit(self, requests: int) -> Iterator[Fault]:
        """The next commit is applied and answered with an internal error. The next `requests` requests, of any kind,
        are not applied and fail."""
        with (
            self._fault(self.is_commit, _applied_and_then(_internal_error())) as fault,
            self._fault(lambda _: bool(fault.struck), _not_applied, requests) as outage,
        ):
            yield outage

    @contextlib.contextmanager
    def commit_held(self) -> Iterator[Held]:
        """The next commit is sent and stays under way until the test lets it arrive."""
        held = Held()

        def hold(fault: Fault, forward: Forward) -> Answer:
            held.under_way.set()
            assert held.may_arrive.wait(HELD_SECONDS), "nobody let the request arrive"
            answer = forward()
            fault.struck.append(answer.status)
            return answer

        with self._fault(self.is_commit, hold):
            try:
                yield held
            finally:
                held.let_arrive()  # a test that failed must not leave a thread behind

    @contextlib.contextmanager
    def _fault(
        self,
        matches: Callable[[Request], bool],
        strike: Callable[[Fault, Forward], Answer | None],
        times: int = 1,
    ) -> Iterator[Fault]:
        fault = Fault(matches, strike, times)
        self._faults.append(fault)
        try:
            yield fault
        finally:
            self._faults.remove(fault)

    # --- the requests

    def answer(self, request: Request) -> Answer | None:
        with self._lock:
            self.seen.append(request)
            fault = next((each for each in self._faults if each.times and each.matches(request)), None)
            if fault:
                fault.times -= 1
        if fault is None:
            return self._forward(request)
        return fault.strike(fault, lambda: self._forward(request))

    def _forward(self, request: Request) -> Answer:
        target = urlsplit(self.target)
        connection = http.client.HTTPConnection(str(target.hostname), target.port, timeout=HANGING)
        try:
            connection.request(request.method, request.path, request.body, request.headers)
            answer = connection.getresponse()
            return Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()


def _applied_and_then(answer: Answer | None) -> Callable[[Fault, Forward], Answer | None]:
    def strike(fault: Fault, forward: Forward) -> Answer | None:
        fault.struck.append(forward().status)
        return answer

    return strike


def _not_applied(fault: Fault, forward: Forward) -> Answer:
    fault.struck.append(None)
    return _internal_error()


def _internal_error() -> Answer:
    """An error for both Iceberg's REST specification and AWS's JSON protocol: each client reads its own part."""
    message = "the test broke it"
    body = {
        "error": {"message": message, "type": "InternalServerError", "code": 500},
        "__type": "InternalServiceException",
        "Message": message,
    }
    return Answer(500, [("Content-Type", "application/json")], json.dumps(body).encode())


def _handler(wire: Wire) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            assert "Transfer-Encoding" not in self.headers, "this proxy reads no chunked requests"
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = wire.answer(Request(self.command, self.path, dict(self.headers.items()), body))
            if answer is None:
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers:
                if name.lower() not in NOT_HANDED_ON:
                    self.send_header(name, value)
            if answer.status not in (204, 304):
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

        do_GET = do_HEAD = do_POST = do_DELETE = do_PUT = handle_any  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            """Do not log requests."""

    return Handler

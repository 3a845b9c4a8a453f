"""A service of the emulator fails for as long as somebody asked for, and the others do not."""

import io
import json
from typing import Any

from tidegate_local.outages import PATH, Outages


class Edge:
    """Requests to a middleware that stands before an application which always answers."""

    def __init__(self) -> None:
        self.now = 100.0
        self.statuses: list[str] = []
        self.application = Outages(self._answer, lambda environ: environ["service"], lambda: self.now)

    def ask(self, service: str = "s3", path: str = "/", body: bytes = b"") -> str:
        environ = {"PATH_INFO": path, "service": service, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": len(body)}
        list(self.application(environ, lambda status, headers: self.statuses.append(status)))
        return self.statuses[-1]

    def fail(self, *services: str, seconds: float) -> str:
        return self.ask(path=PATH, body=json.dumps({"services": services, "seconds": seconds}).encode())

    def _answer(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b""]


def test_a_service_answers_503_for_as_long_as_it_was_told_and_the_others_answer():
    edge = Edge()
    assert edge.ask() == "200 OK"
    assert edge.fail("s3", "sns", seconds=5) == "204 No Content"
    assert [edge.ask(service) for service in ("s3", "sns", "dynamodb")] == [
        *["503 Service Unavailable"] * 2,
        "200 OK",
    ]
    edge.now += 4.9
    assert edge.ask() == "503 Service Unavailable"
    edge.now += 0.2
    assert edge.ask() == "200 OK"


def test_an_outage_can_be_ended_early():
    edge = Edge()
    edge.fail("s3", seconds=60)
    edge.fail("s3", seconds=0)
    assert edge.ask() == "200 OK"


def test_what_is_no_outage_is_refused():
    edge = Edge()
    for body in (b"", b"[]", b'{"services": ["s3"]}', b'{"services": 3, "seconds": 1}'):
        assert edge.ask(path=PATH, body=body) == "400 Bad Request"

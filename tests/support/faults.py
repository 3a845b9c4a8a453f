"""A network between a client and the service that fails at chosen calls, at the level of HTTP."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

ANSWERED = "x-answered-by-the-test"
"""Marks a request that got its answer, for moto: botocore asks every handler, even when one has answered."""


@dataclass
class Fault:
    """The operations that a fault has struck so far, in order."""

    struck: list[str] = field(default_factory=list)


@contextmanager
def lost_answers(
    client: Any, operation: str, *, times: int = 1, containing: str = "", token_forgotten: bool = False
) -> Iterator[Fault]:
    """Apply the first `times` calls of `operation` and lose their answers, so that the SDK retries.

    Only requests that contain `containing`. With `token_forgotten` the service does not recognise the request's token
    in the retry.
    """
    network = URLLib3Session(max_pool_connections=64)
    fault = Fault()

    def strike(event_name: str, request: AWSPreparedRequest, **_: Any) -> None:
        repeated = b"attempt=1;" not in request.headers["amz-sdk-request"]
        if repeated or containing.encode() not in bytes(request.body) or len(fault.struck) >= times:
            return
        fault.struck.append(operation)
        body = bytes(request.body)
        if token_forgotten:
            body, found = re.subn(rb'("ClientRequestToken": ")[^"]{4}', rb"\1gone", body)
            assert found, "this request has no token that could be forgotten"
        answer = network.send(AWSPreparedRequest(request.method, request.url, request.headers, body, False))
        assert answer.status_code == 200, answer.text
        raise ConnectionClosedError(endpoint_url=request.url)

    with _before_send(client, operation, strike):
        yield fault


@contextmanager
def answered(
    client: Any, operation: str, status: int, body: dict[str, Any], *, containing: str = "", times: int = 10**9
) -> Iterator[Fault]:
    """Answer `operation` with this error instead of calling the service; only requests that contain `containing`."""
    fault = Fault()

    def strike(event_name: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        if containing.encode() not in bytes(request.body or b"") or len(fault.struck) >= times:
            return None
        fault.struck.append(operation)
        request.headers[ANSWERED] = "yes"
        return answer(request.url, status, body)

    with _before_send(client, operation, strike):
        yield fault


def answer(url: str, status: int, body: dict[str, Any]) -> AWSResponse:
    """An answer in JSON as botocore would have read it from a socket."""
    return AWSResponse(url, status, {"Content-Type": "application/x-amz-json-1.0"}, Raw(json.dumps(body).encode()))


class Raw:
    """The body of an answer, as botocore reads it from a socket."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


@contextmanager
def _before_send(client: Any, operation: str, strike: Any) -> Iterator[None]:
    event = f"before-send.{client.meta.service_model.service_id.hyphenize()}.{operation}"
    client.meta.events.register_first(event, strike)
    try:
        yield
    finally:
        client.meta.events.unregister(event, strike)

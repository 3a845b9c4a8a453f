"""HTTP as botocore sends and reads it, so that a service can answer below the SDK's own retries."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse


@dataclass(frozen=True)
class HttpAnswer:
    """What a service answers."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """A service refuses a request: nothing happened. `more` are further members of the error."""

    def __init__(self, status: int, code: str, message: str = "", **more: Any) -> None:
        super().__init__(code, message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more


class _Raw:
    """An answer's body, as botocore reads it from a socket."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()

    def read(self, amount: int | None = None, **_: Any) -> bytes:
        end = len(self._content) if amount is None else self._at + amount
        piece, self._at = self._content[self._at : end], min(end, len(self._content))
        return piece

    def close(self) -> None:
        pass

    def release_conn(self) -> None:
        pass


def json_answer(body: Any) -> HttpAnswer:
    return HttpAnswer(200, json.dumps(body).encode(), {"Content-Type": "application/x-amz-json-1.0"})


def refusal_answer(protocol: str, refusal: Refusal) -> HttpAnswer:
    if protocol in ("s3", "sns"):
        inner = f"<Code>{refusal.code}</Code><Message>{refusal.message}</Message>"
        text = f"<Error>{inner}</Error>"
        if protocol == "sns":
            text = f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error><RequestId>r</RequestId></ErrorResponse>"
        headers = {"Content-Type": "text/xml", **refusal.more.get("headers", {})}
        return HttpAnswer(refusal.status, text.encode(), headers)
    body = {"__type": f"com.amazonaws#{refusal.code}", "message": refusal.message, **refusal.more}
    headers = {"Content-Type": "application/x-amz-json-1.0", "x-amzn-ErrorType": refusal.code}
    return HttpAnswer(refusal.status, json.dumps(body).encode(), headers)


def as_response(url: str, answer: HttpAnswer) -> AWSResponse:
    headers = {"Content-Length": str(len(answer.body)), **answer.headers}
    return AWSResponse(url, answer.status, headers, _Raw(answer.body))


def body_of(request: AWSPreparedRequest) -> bytes:
    """The request's body. Chunks, which the SDK sends with a checksum after them, are joined."""
    body: Any = request.body
    if body is None:
        return b""
    if hasattr(body, "read"):
        content: bytes = body.read()
        body.seek(0)
    else:
        content = body.encode() if isinstance(body, str) else bytes(body)
    encoding = request.headers.get("Content-Encoding", b"")
    if b"aws-chunked" in (encoding.encode() if isinstance(encoding, str) else encoding):
        content = _unchunked(content)
    return content


def _unchunked(content: bytes) -> bytes:
    pieces, at = [], 0
    while True:
        end = content.index(b"\r\n", at)
        size = int(content[at:end].split(b";")[0], 16)
        if not size:
            return b"".join(pieces)
        pieces.append(content[end + 2 : end + 2 + size])
        at = end + 2 + size + 2

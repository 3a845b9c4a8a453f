"""Two small servers, each in a process of its own: what answers as DynamoDB does after a fixed wait, and what hands out
the files of a folder as S3 does.

They answer the requests of the benches and no others, and take some 50 us of a processor for each: an emulator would
take milliseconds, and the bench would measure the emulator.
"""

import asyncio
import email.utils
import json
import multiprocessing
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from zlib import crc32

ServerAnswer = tuple[int, bytes, dict[str, str]]
"""Status, body, headers."""


class HttpConnection(asyncio.Protocol):
    """One connection that is kept open. `answer` gets (method, path, headers, body)."""

    def __init__(self, answer: Callable[[str, str, dict[str, str], bytes], ServerAnswer], wait: float) -> None:
        self._answer = answer
        self._wait = wait
        self._come = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._come += data
        while (end := self._come.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._come[:end].decode("latin-1").split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            length = int(headers.get("content-length", 0))
            if headers.get("expect"):
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                headers.pop("expect")
            if len(self._come) < end + 4 + length:
                return
            body, self._come = self._come[end + 4 : end + 4 + length], self._come[end + 4 + length :]
            method, target, _ = first.split(" ", 2)
            written = _written(method, *self._answer(method, target, headers, body))
            if self._wait:
                asyncio.get_running_loop().call_later(self._wait, self._transport.write, written)
            else:
                self._transport.write(written)


def _written(method: str, status: int, body: bytes, headers: dict[str, str]) -> bytes:
    headers = {"Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} said\r\n{lines}\r\n".encode("latin-1") + (b"" if method == "HEAD" else body)


class LedgerServer:
    """PutItem with a condition that the item is absent, inserts, GetItem and BatchGetItem, on items in memory."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[str, Any]] = {}

    def __call__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> ServerAnswer:
        operation = headers["x-amz-target"].partition(".")[2]
        status, said = self._said(operation, json.loads(body))
        written = json.dumps(said).encode()
        kind = {"Content-Type": "application/x-amz-json-1.0", "x-amz-crc32": str(crc32(written))}
        return status, written, kind

    def _said(self, operation: str, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        match operation:
            case "PutItem":
                key = (asked["Item"]["pk"]["S"], asked["Item"]["sk"]["S"])
                if key in self.items and asked.get("ConditionExpression"):
                    refused = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"
                    return 400, {"__type": refused, "message": "refused", "Item": self.items[key]}
                self.items[key] = asked["Item"]
                return 200, {}
            case "GetItem":
                found = self.items.get((asked["Key"]["pk"]["S"], asked["Key"]["sk"]["S"]))
                return 200, {"Item": found} if found else {}
            case "BatchGetItem":
                answers = {
                    table: [
                        self.items[key]
                        for each in wanted["Keys"]
                        if (key := (each["pk"]["S"], each["sk"]["S"])) in self.items
                    ]
                    for table, wanted in asked["RequestItems"].items()
                }
                return 200, {"Responses": answers, "UnprocessedKeys": {}}
            case "BatchExecuteStatement":
                return 200, {"Responses": [self._inserted(each) for each in asked["Statements"]]}
        return 400, {"__type": "UnknownOperationException", "message": f"the bench does not know {operation}"}

    def _inserted(self, asked: dict[str, Any]) -> dict[str, Any]:
        names = re.findall(r"'(\w+)': \?", asked["Statement"])
        item = dict(zip(names, asked["Parameters"], strict=True))
        key = (item["pk"]["S"], item["sk"]["S"])
        if key in self.items:
            return {"TableName": "ledger", "Error": {"Code": "DuplicateItem", "Message": "refused"}}
        self.items[key] = item
        return {"TableName": "ledger"}


class LandingServer:
    """GetObject and HeadObject of the files in a folder, path style. It holds every claimed version: an ETag that is
    asked for is the ETag that is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> ServerAnswer:
        path = self.folder / unquote(urlsplit(target).path).lstrip("/")
        if not path.is_file():
            return 404, b"<Error><Code>NoSuchKey</Code><Message>none</Message></Error>", {}
        size = path.stat().st_size
        etag = headers.get("if-match", '"0"')
        told = {"ETag": etag, "Last-Modified": email.utils.formatdate(1_800_000_000, usegmt=True)}
        wanted = headers.get("range", "")
        if wanted.startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or size), size - 1)
            told["Content-Range"] = f"bytes {begin}-{end}/{size}"
            return 206, _part(path, begin, end + 1), told
        return 200, _part(path, 0, size), told


def _part(path: Path, begin: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(begin)
        return file.read(end - begin)


@contextmanager
def serving(answer: Callable[[str, str, dict[str, str], bytes], ServerAnswer], wait: float = 0.0) -> Iterator[str]:
    """The endpoint of a server that answers after `wait` seconds, for as long as the context lasts."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(answer, wait, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield f"http://127.0.0.1:{mine.recv()}"
    finally:
        process.terminate()
        process.join()


def _serve(answer: Callable[[str, str, dict[str, str], bytes], ServerAnswer], wait: float, told: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began it ends it

    async def forever() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpConnection(answer, wait), "127.0.0.1", 0, backlog=256)
        told.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(forever())

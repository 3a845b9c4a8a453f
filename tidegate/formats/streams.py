"""Bytes that come in pieces: where they come from, without their compression, and how many they may become.

A file is decoded whole if it is small (`WHOLE_BYTES`), and else piece by piece (`formats.decode.streaming`). What a
piece needs in memory does not depend on the size of the file.
"""

import io
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from tidegate.formats.reasons import Oversized, Undecodable, check_unpacked, first_line
from tidegate.formats.recognize import HEAD_BYTES, not_packed

CHUNK = 1 << 20
STORED_BYTES = 64_000_000
"""A stored file of more bytes is decoded piece by piece."""
WHOLE_BYTES = 128_000_000
"""And so is one that becomes more bytes than this, unpacked or in memory."""
RANGE_BYTES = 8 << 20
"""How much of a file is asked for at a time, if it is read from its beginning to its end."""
PIECE_BYTES = 4 << 20
"""How much text is decoded at a time, as long as no record is longer."""
PIECE_MEMORY = 32_000_000
"""The most memory that the values of a piece need at least: a piece with more is divided."""
LONGEST_RECORD = 64_000_000
"""No record (a line of JSON, a row of CSV, a block of Avro, a footer of Parquet) of more bytes is taken from a file
that is decoded piece by piece."""
EXPANDS_FREELY = 1_000_000_000
EXPANDS = 200
"""A file that is decoded piece by piece may become `EXPANDS_FREELY` bytes, or so many times what is stored. Text
compresses to a tenth, at best to a hundredth. Without a limit, a few megabytes could keep a job busy until it is
cancelled, and with it all other files of its batch."""


class ByteSource(Protocol):
    """The bytes of one file. Whoever reads them gets any error that `read` raises: nothing takes it for an error of the
    content (`reading.ranges`)."""

    @property
    def size(self) -> int: ...

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`, which lie in the file: no fewer."""
        ...


@dataclass(frozen=True, slots=True)
class HeldBytes:
    """A file in memory, as a source."""

    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    def read(self, start: int, end: int) -> bytes:
        return self.body[start:end]


class RecentBlocks:
    """A source that keeps the blocks that were read last, for readers of many places side by side."""

    def __init__(self, source: ByteSource, block: int, most: int) -> None:
        self._source = source
        self._block = block
        self._most = max(1, most)
        self._held: OrderedDict[int, bytes] = OrderedDict()

    @property
    def size(self) -> int:
        return self._source.size

    def read(self, start: int, end: int) -> bytes:
        first, last = start // self._block, -(-end // self._block)
        found = b"".join(self._of_block(number) for number in range(first, last))
        return found[start - first * self._block : end - first * self._block]

    def _of_block(self, number: int) -> bytes:
        if number not in self._held:
            begin = number * self._block
            self._held[number] = self._source.read(begin, min(begin + self._block, self.size))
            if len(self._held) > self._most:
                self._held.popitem(last=False)
        self._held.move_to_end(number)
        return self._held[number]


@dataclass
class Allowance:
    """How many bytes a file may become, in all its pieces together: of decompressed text, of cells, of copies of a text
    that is in the file once."""

    limit: int
    why: str
    used: int = 0

    @classmethod
    def of(cls, stored: int, max_bytes: int) -> "Allowance":
        """That of a file of `stored` bytes on a route with `max_object_bytes`."""
        expanded = max(EXPANDS_FREELY, EXPANDS * stored)
        if expanded < max_bytes:
            return cls(expanded, f"{EXPANDS} times what is stored, and {EXPANDS_FREELY} bytes in any case, are taken")
        return cls(max_bytes, "max_object_bytes")

    def take(self, size: int) -> None:
        """Raises Oversized."""
        self.check(size)
        self.used += size

    def check(self, size: int) -> None:
        """As `take`, of bytes that may come. Raises Oversized."""
        if self.used + size > self.limit:
            raise Oversized(f"too large: more than {self.limit} bytes decompressed ({self.why})")


@dataclass(frozen=True)
class Stream:
    """A file that is decoded piece by piece. `codec` is Arrow's name of its compression; None if it has none."""

    source: ByteSource
    codec: str | None
    allowance: Allowance

    def pieces(self, size: int = PIECE_BYTES) -> Iterator[bytes]:
        """Its bytes without the compression, in order: `size` of them, or fewer, and never none. Raises Undecodable."""
        for piece in _plain(self.source, size) if self.codec is None else _unpacked(self.codec, self.source, size):
            self.allowance.take(len(piece))
            yield piece


def divided(table: pa.Table, size_of: Callable[[pa.Table], int], take: Callable[[int], None]) -> Iterator[pa.Table]:
    """The table, divided as long as what becomes of a part needs more than `PIECE_MEMORY`, by `size_of`. `take` is told
    of the whole once, and may refuse it."""
    size = size_of(table)
    take(size)
    # counting takes as long as copying: the whole is counted once
    parts = [(table, size)]
    while parts:
        part, size = parts.pop()
        if part.num_rows > 1 and size > PIECE_MEMORY:
            half = part.num_rows // 2
            parts += [(each, size_of(each)) for each in (part.slice(half), part.slice(0, half))]
        else:
            yield part


def stored(stream: Stream, article: str, called: str) -> ByteSource:
    """The bytes of a file of a format that is read at many places. Raises Undecodable if it is compressed."""
    if stream.codec is not None:
        raise Undecodable(
            f"too large: {article} {called} file that is compressed as a whole ({stream.codec}) is read whole, at most"
            f" {WHOLE_BYTES} bytes. {called} compresses by itself: upload it without"
        )
    return stream.source


def head_of(stream: Stream) -> bytes:
    """The first `HEAD_BYTES` of a file without its compression, to say what a refused file is: fewer if there are no
    more, or if it is damaged there."""
    source = stream.source
    if stream.codec is None or not source.size:
        return source.read(0, min(HEAD_BYTES, source.size)) if source.size else b""
    head = b""
    try:
        for piece in replace(stream, allowance=Allowance(1 << 62, "")).pieces():
            head += piece
            if len(head) >= HEAD_BYTES:
                break
    except Undecodable:
        pass
    return head[:HEAD_BYTES]


def ranges(source: ByteSource, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The bytes from `start` up to `end`, in order, each part with its place."""
    for begin in range(start, end, RANGE_BYTES):
        yield begin, source.read(begin, min(begin + RANGE_BYTES, end))


def _plain(source: ByteSource, size: int) -> Iterator[bytes]:
    for _, body in ranges(source, 0, source.size):
        for begin in range(0, len(body), size):
            yield body[begin : begin + size]


def _unpacked(codec: str, source: ByteSource, size: int) -> Iterator[bytes]:
    with _telling(codec, lambda: source.read(0, min(HEAD_BYTES, source.size)) if source.size else b""):
        yield from _parts(codec, pa.PythonFile(AsFile(source, RANGE_BYTES), "r"), size)


def _parts(codec: str, file: Any, size: int) -> Iterator[bytes]:
    with pa.CompressedInputStream(file, codec) as stream:
        while part := stream.read(size):
            yield part


class AsFile(io.RawIOBase):
    """A source as a file of Python's. Arrow passes errors of `read` on as they are. What is read is asked for in ranges
    of at least `ahead` bytes: Arrow decompresses 64 KB at a time."""

    def __init__(self, source: ByteSource, ahead: int = 0) -> None:
        self._source = source
        self._ahead = ahead
        self._place = 0
        self._begin = 0
        self._held = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._source.size}[whence]
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        """Fewer bytes than `size` only at the end of the file."""
        rest = max(0, self._source.size - self._place)
        wanted = rest if size is None or size < 0 else min(size, rest)
        if not wanted:
            return b""
        at = self._place - self._begin
        if not 0 <= at <= at + wanted <= len(self._held):
            self._held = self._source.read(self._place, self._place + max(wanted, min(self._ahead, rest)))
            self._begin, at = self._place, 0
        body = self._held[at : at + wanted]
        self._place += len(body)
        if not self._ahead:
            self._held = b""
        return body


def unpack(codec: str, body: bytes, max_bytes: int) -> bytes:
    """`body` without the compression that Arrow calls `codec`. Raises Undecodable, also past `max_bytes`."""
    pieces: list[bytes] = []
    size = 0
    with _telling(codec, lambda: body[:HEAD_BYTES]):
        for piece in _parts(codec, pa.BufferReader(body), CHUNK):
            size += len(piece)
            check_unpacked(size, max_bytes)
            pieces.append(piece)
    return b"".join(pieces)


@contextmanager
def _telling(codec: str, head: Callable[[], bytes]) -> Iterator[None]:
    """Arrow notices a stream that stops early, whatever the codec, and reads concatenated ones to their end. `head` are
    the first bytes as they are stored."""
    try:
        yield
    except (Oversized, MemoryError):
        raise
    except Undecodable as error:
        if other := not_packed(codec, head()):
            raise Undecodable(other) from error
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        why = f"broken {codec}: {first_line(error)}. It is damaged or cut off: upload all of it again"
        raise Undecodable(not_packed(codec, head()) or why) from error

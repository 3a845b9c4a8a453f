"""A decoder that one file kills, in a way that the file names. It stands for bugs of decoders that are not known yet.

It is a module of its own, because other processes import it.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidegate.formats.said import BadRow, Said, say
from tidegate.formats.streams import ByteSource
from tidegate.reading.decoding import Decoding, Larger, Refused
from tidegate.reading.reader import Reader

CRASH, EXIT, SPIN, SLEEP, GROW = b"crash", b"exit", b"spin", b"sleep", b"grow"


@dataclass(frozen=True)
class DeadlyDecoding(Decoding):
    def unpack(self, key: str, body: bytes) -> bytes | Refused:
        if CRASH in body:
            os.abort()
        if EXIT in body:
            os._exit(3)
        while SPIN in body:
            pass
        if SLEEP in body:
            time.sleep(3600)
        if GROW in body:
            _ = bytearray(1 << 33)
        return super().unpack(key, body)


class DeadlyReader(Reader):
    @property
    def decoding(self) -> Decoding:
        return DeadlyDecoding(self.dataset, self.schema)


def table_of(first: int, rows: int, bad: int = 0, unknown: str = "") -> pa.Table:
    """What a piece of a file may become: `rows` rows, numbered from `first`, after `bad` ones that do not fit."""
    said = tuple(BadRow(at, f"line {first + at + 1}", "x", "does not fit") for at in range(bad))
    table = pa.table({"id": pa.array(range(first + bad, first + bad + rows), pa.int64())})
    return say(table, Said({unknown: None} if unknown else {}, said))


def pieces() -> tuple[pa.Table, ...]:
    """Made when they are asked for: Arrow's memory pool reserves more than the limit of a process that decodes, and
    that imports this module."""
    return (
        table_of(0, 0, bad=2),
        table_of(2, 3),
        table_of(5, 0, unknown="colour"),
        table_of(5, 2, bad=1),
        table_of(8, 0, bad=1),
        table_of(9, 4, unknown="size"),
    )


def some_pieces() -> tuple[pa.Table, ...]:
    return pieces()[:2]


def other_pieces() -> tuple[pa.Table, ...]:
    return (say(pieces()[0], Said(bad=(BadRow(0, "line 1", "x", "why"),))), *pieces()[1:])


@dataclass(frozen=True)
class DiesMidway:
    """A file of `pieces`. Its first reader is killed after so many of them; `flag` is there afterwards. The second one
    finds `second`."""

    after: int
    flag: Path
    second: Callable[[], tuple[pa.Table, ...]] = pieces

    def __call__(self, key: str, body: bytes) -> pa.Table | Refused | Larger:
        return Larger()

    def streamed(self, key: str, source: ByteSource) -> Iterator[pa.Table]:
        if self.flag.exists():
            yield from self.second()
            return
        yield from pieces()[: self.after]
        self.flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)

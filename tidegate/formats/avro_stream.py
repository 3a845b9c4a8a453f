"""Avro object container files, block by block.

The blocks are read, unpacked and decoded as those of a whole file (`formats.avro`); some together make one
table. A block is held whole, as stored and unpacked: writers make blocks of some ten kilobytes to some megabytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa

from tidegate.formats.avro import (
    MAGIC,
    METADATA,
    OF_DAMAGE,
    ROWS,
    SYNC_BYTES,
    column_of,
    enough_of,
    in_block,
    rows_of_block,
    take,
    unpack_block,
)
from tidegate.formats.avro_schema import RowShape, row_of
from tidegate.formats.columns import conform, row_number
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import CELL_BYTES, Oversized, Undecodable, check_names, check_unpacked, first_line
from tidegate.formats.said import say
from tidegate.formats.streams import LONGEST_RECORD, PIECE_BYTES, Stream
from tidegate.formats.unknown import stated

OBJECTS = 16_000_000
"""The size for which `formats.avro` bounds the memory of the Python objects of rows."""


def make_streaming(schema: pa.Schema) -> Callable[[Stream], Iterator[pa.Table]]:
    return lambda stream: _tables(stream, schema)


def _tables(stream: Stream, schema: pa.Schema) -> Iterator[pa.Table]:
    try:
        file = _Bytes(stream.pieces())
        if file.read(len(MAGIC)) != MAGIC:
            raise Undecodable("not Avro: it does not begin as an object container file does")
        about = take(file, METADATA)
        sync = file.read(SYNC_BYTES)
        if "avro.schema" not in about:
            raise Undecodable("not Avro: it has no schema")
        codec = about.get("avro.codec", b"null").decode()
        yield from _of_blocks(file, stream, row_of(about["avro.schema"], schema), codec, sync, schema)
    except (Undecodable, MemoryError):
        raise
    except (*OF_DAMAGE, pa.ArrowException) as error:
        raise Undecodable(f"not Avro: {first_line(error)}") from error


def _of_blocks(
    file: "_Bytes", stream: Stream, row: RowShape, codec: str, sync: bytes, schema: pa.Schema
) -> Iterator[pa.Table]:
    waiting = _Waiting(row, schema)
    parsed, enough = fastavro.parse_schema(row.raw), enough_of(row, OBJECTS)
    for number, count, packed in _blocks(file, sync):
        if count and not waiting.done + waiting.rows:
            check_names(row.names, schema.names)
        # a row may take no bytes
        stream.allowance.take(count * CELL_BYTES * len(row.members))
        with in_block(number):
            data = _unpacked(codec, packed, number)
            stream.allowance.take(max(0, len(data) - len(packed)))
        waiting.begin(number, count, len(data))
        decoded = rows_of_block(number, count, data, parsed, enough)
        while True:
            with in_block(number):
                rows = next(decoded, None)
                if rows is None:
                    break
                waiting.add(rows)
            if waiting.rows >= ROWS:
                yield waiting.table()
        if waiting.size >= PIECE_BYTES:
            yield waiting.table()
    yield waiting.table()


def _unpacked(codec: str, packed: bytes, number: int) -> bytes:
    """No more than `LONGEST_RECORD` bytes. Raises Undecodable."""
    try:
        data = unpack_block(codec, packed, LONGEST_RECORD)
        check_unpacked(len(data), LONGEST_RECORD)
    except Oversized as error:
        raise Undecodable(
            f"too large: {run('block', number)} has more than {LONGEST_RECORD} bytes, unpacked"
        ) from error
    return data


def _blocks(file: "_Bytes", sync: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The number of each block, how many rows it has, and its bytes as they are packed."""
    number = 0
    while not file.at_its_end:
        count, size = take(file, "long"), take(file, "long")
        if size > LONGEST_RECORD:
            raise Undecodable(
                f"too large: {run('block', number)} has {size} bytes, at most {LONGEST_RECORD}",
                where=run("block", number),
            )
        packed = file.read(size) if size >= 0 else b""
        if count < 0 or len(packed) != size or file.read(SYNC_BYTES) != sync:
            raise Undecodable(f"not Avro: {run('block', number)} is damaged", where=run("block", number))
        yield number, count, packed
        number += 1


@dataclass
class _Waiting:
    """Rows of some blocks, which become one table."""

    row: RowShape
    schema: pa.Schema
    done: int = 0
    """How many rows were in earlier tables."""
    rows: int = 0
    size: int = 0
    begun: int = 0
    blocks: list[tuple[int, int, int]] = field(default_factory=list)
    """Of each block its number, its first row, and how many it has."""
    chunks: dict[str, list[pa.Array]] = field(default_factory=dict)

    def begin(self, number: int, count: int, size: int) -> None:
        self.blocks.append((number, self.begun, count))
        self.begun += count
        self.size += size

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for each in self.row.members:
            self.chunks.setdefault(each.name, []).append(column_of(each, rows))
        self.rows += len(rows)

    def table(self) -> pa.Table:
        columns = [pa.chunked_array(self.chunks.get(each.name, []), each.shape.kind) for each in self.row.members]
        names = [each.name for each in self.row.members]
        try:
            found = pa.Table.from_arrays(columns, names=names)
            done = conform(found, self.schema, texts=False, place=lambda row: row_number(self.done + row))
        except Undecodable as error:
            error.where = "" if error.row is None else self._where(self.done + error.row)
            raise
        self.done += self.rows
        self.rows = self.size = 0
        self.blocks = self.blocks[-1:]
        self.chunks = {}
        return say(done, stated(self.row.unknown))

    def _where(self, row: int) -> str:
        number, first, _ = self.blocks[0]
        return run_of("block", row, [count for _, _, count in self.blocks], number, first)


class _Bytes:
    """Bytes that come in pieces, read as a binary file from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""
        self._place = 0

    @property
    def at_its_end(self) -> bool:
        return not self._hold(1)

    def read(self, size: int) -> bytes:
        """Fewer bytes than `size` only at the end. Raises Undecodable for more than `LONGEST_RECORD`."""
        if size > LONGEST_RECORD:
            raise Undecodable(f"too large: one value of {size} bytes, at most {LONGEST_RECORD}")
        self._hold(size)
        found = self._held[self._place : self._place + size]
        self._place += len(found)
        return found

    def _hold(self, size: int) -> bool:
        """Whether there are so many bytes."""
        while len(self._held) - self._place < size:
            piece = next(self._pieces, b"")
            if not piece:
                return False
            self._held = self._held[self._place :] + piece
            self._place = 0
        return True

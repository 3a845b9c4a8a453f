"""Avro object container files.

This module reads the container, so that a block is unpacked within the limit, and has its rows and nothing else.
fastavro reads the rows.
"""

import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa

from tidegate.formats.avro_schema import Member, RowShape, densest, row_of
from tidegate.formats.blocks import inflate, unsnap
from tidegate.formats.columns import Unfit, conform
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import Undecodable, check_cells, check_names, check_text, check_unpacked, first_line
from tidegate.formats.said import say
from tidegate.formats.streams import unpack
from tidegate.formats.unknown import stated

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
METADATA = {"type": "map", "values": "bytes"}
OF_DAMAGE = (ArithmeticError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError)
ROWS = 10_000
"""How many rows are Python objects at a time, at the most."""
OBJECT_BYTES = 200
"""What a Python object takes that fastavro makes: the smallest dictionary with a member has 184 bytes."""
MEMORY = 8
"""How many times `max_bytes` the objects of several rows may take at a time."""
MOST_OBJECTS = 8
"""How many objects one byte of a file may become. Records in records have no bytes of their own."""


@dataclass(frozen=True, slots=True)
class Container:
    """A file's schema (JSON), and its blocks: how many rows each holds, and their bytes, as `codec` has packed them."""

    schema: bytes
    codec: str
    blocks: tuple[tuple[int, bytes], ...]

    @property
    def rows(self) -> int:
        return sum(count for count, _ in self.blocks)


def make_decoder(schema: pa.Schema, max_bytes: int) -> Callable[[bytes], pa.Table]:
    return partial(_read, schema=schema, max_bytes=max_bytes)


def _read(body: bytes, schema: pa.Schema, max_bytes: int) -> pa.Table:
    try:
        container = _open(body)
        row = row_of(container.schema, schema)
        if container.rows:
            check_names(row.names, schema.names)
        check_cells(container.rows, len(schema), max_bytes)
        chunks: dict[str, list[pa.Array]] = {each.name: [] for each in row.members}
        for number, some in _rows(container, row, max_bytes):
            for each in row.members:
                with in_block(number):
                    chunks[each.name].append(column_of(each, some))
        columns = [pa.chunked_array(chunks[each.name], each.shape.kind) for each in row.members]
        names = [each.name for each in row.members]
        try:
            done = conform(pa.Table.from_arrays(columns, names=names), schema, texts=False)
            return say(done, stated(row.unknown))
        except Undecodable as error:
            if error.row is not None:
                error.where = run_of("block", error.row, [count for count, _ in container.blocks])
            raise
    except (Undecodable, MemoryError):
        raise
    # fastavro raises many kinds of errors for a damaged file, and so does its schema as JSON
    except (*OF_DAMAGE, pa.ArrowException) as error:
        raise Undecodable(f"not Avro: {first_line(error)}") from error


def _open(body: bytes) -> Container:
    file = io.BytesIO(body)
    if file.read(len(MAGIC)) != MAGIC:
        raise Undecodable("not Avro: it does not begin as an object container file does")
    about = take(file, METADATA)
    sync = file.read(SYNC_BYTES)
    blocks: list[tuple[int, bytes]] = []
    while file.tell() < len(body):
        count, data = take(file, "long"), take(file, "bytes")
        if count < 0 or file.read(SYNC_BYTES) != sync:
            raise Undecodable(f"not Avro: {run('block', len(blocks))} is damaged", where=run("block", len(blocks)))
        blocks.append((count, data))
    if "avro.schema" not in about:
        raise Undecodable("not Avro: it has no schema")
    return Container(about["avro.schema"], about.get("avro.codec", b"null").decode(), tuple(blocks))


def take(file: Any, schema: Any) -> Any:
    """The next value of this schema in a binary file."""
    return fastavro.schemaless_reader(file, schema, None)


def _rows(container: Container, row: RowShape, max_bytes: int) -> Iterator[tuple[int, list[Mapping[str, Any]]]]:
    """The rows, as fastavro returns them, with the number of their block. As many at once as are `ROWS`, or take
    `MEMORY` times `max_bytes`; a single row may take more."""
    schema = fastavro.parse_schema(row.raw)
    enough = enough_of(row, max_bytes)
    size = 0
    for number, (count, packed) in enumerate(container.blocks):
        with in_block(number):
            data = unpack_block(container.codec, packed, max_bytes)
            size += len(data)
            check_unpacked(size, max_bytes)
            check_text(size)
            for rows in rows_of_block(number, count, data, schema, enough):
                yield number, rows


def enough_of(row: RowShape, max_bytes: int) -> float:
    """Of how many bytes the rows may be Python objects at a time. Raises Undecodable."""
    objects = densest(row.raw)
    if objects > MOST_OBJECTS:
        raise Undecodable(f"the file's schema nests records so that one byte becomes {int(objects)} of them")
    return MEMORY * max_bytes / (objects * OBJECT_BYTES)


def rows_of_block(
    number: int, count: int, data: bytes, schema: Any, enough: float
) -> Iterator[list[Mapping[str, Any]]]:
    """The rows of an unpacked block: as many at once as are `ROWS`, or have `enough` bytes; never none."""
    block = io.BytesIO(data)
    rows: list[Mapping[str, Any]] = []
    begun = 0
    for _ in range(count):
        rows.append(take(block, schema))
        if len(rows) == ROWS or block.tell() - begun >= enough:
            yield rows
            rows, begun = [], block.tell()
    if block.tell() != len(data):
        raise Undecodable(f"not Avro: {run('block', number)} says that it has {count} rows, and has more than them")
    if rows:
        yield rows


@contextmanager
def in_block(number: int) -> Iterator[None]:
    """What is raised within names the block."""
    try:
        yield
    except Undecodable as error:
        error.where = run("block", number)
        raise
    except MemoryError:
        raise
    except (*OF_DAMAGE, pa.ArrowException) as error:
        raise Undecodable(f"not Avro: {first_line(error)}", where=run("block", number)) from error


def column_of(member: Member, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    try:
        return pa.array(member.of_all(rows), member.shape.kind)
    except MemoryError:
        raise
    except (Unfit, pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise Undecodable(f"column {member.name}: {first_line(error)}") from error


# ---- codecs


def unpack_block(codec: str, packed: bytes, max_bytes: int) -> bytes:
    """A block's bytes, `max_bytes` or a little more at the most. Raises Undecodable."""
    if codec not in CODECS:
        raise Undecodable(f"its blocks are packed by {codec[:60]!r}, and only {', '.join(CODECS)} are read")
    return CODECS[codec](packed, max_bytes)


def _unsnap(packed: bytes, max_bytes: int) -> bytes:
    """Avro adds a checksum of the text."""
    data = unsnap(packed[:-4], max_bytes)
    if zlib.crc32(data) != int.from_bytes(packed[-4:], "big"):
        raise Undecodable("broken snappy: the checksum of a block is another one")
    return data


CODECS: Mapping[str, Callable[[bytes, int], bytes]] = {
    "null": lambda packed, _: packed,
    "deflate": inflate,
    "snappy": _unsnap,
    "zstandard": partial(unpack, "zstd"),
    "bzip2": partial(unpack, "bz2"),
}

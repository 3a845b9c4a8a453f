"""Avro object container files, block by block, whether a file is held whole or comes in pieces.

This module reads the container, so that a block is unpacked within the limit, and has its rows and nothing else.
fastavro reads the rows. A block is held whole, as stored and unpacked: writers make blocks of some ten kilobytes to
some megabytes. Some blocks together make one table.
"""

import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import fastavro
import pyarrow as pa

from tidegate.formats.avro_schema import Member, RowShape, kinds_of, row_of
from tidegate.formats.blocks import inflate, unsnap
from tidegate.formats.columns import conform, kinds_beyond
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import CELL_BYTES, Oversized, Undecodable, check_names, check_unpacked, first_line
from tidegate.formats.registry import KEEP, REPORT
from tidegate.formats.rest import portions
from tidegate.formats.said import concat, said_of, say
from tidegate.formats.streams import LONGEST_RECORD, PIECE_BYTES, Allowance, Stream, unpack
from tidegate.formats.unfit import Unfit
from tidegate.formats.unknown import beside, known, stated

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
METADATA = {"type": "map", "values": "bytes"}
OF_DAMAGE = (ArithmeticError, EOFError, LookupError, OSError, RecursionError, TypeError, ValueError)
ROWS = 10_000
"""How many rows are Python objects at a time, at the most."""
OBJECT_BYTES = 200
"""What a Python object takes that fastavro makes: the smallest dictionary with a member has 184 bytes."""
MOST_OBJECT_BYTES = 128_000_000
"""What the objects of several rows may take at a time; a single row may take more."""
MOST_OBJECTS = 8
"""How many objects one byte of a file may become. Records in records have no bytes of their own."""


@dataclass(frozen=True, slots=True)
class _Room:
    """What a file may become. `size`: its blocks, unpacked. `cells`: its values, which may take no bytes in it.
    `block`: the most bytes of one. What is too large for a file that is held `whole` may fit one in pieces."""

    size: Allowance
    cells: Allowance
    block: int
    whole: bool


def make_decoder(schema: pa.Schema, max_bytes: int, unknown: str = REPORT) -> Callable[[bytes], pa.Table]:
    def decode(body: bytes) -> pa.Table:
        size, cells = (Allowance(max_bytes, "max_object_bytes") for _ in range(2))
        file = _Bytes(iter([body]), len(body))
        return concat(list(_tables(file, schema, unknown, _Room(size, cells, max_bytes, whole=True))))

    return decode


def make_streaming(schema: pa.Schema, unknown: str = REPORT) -> Callable[[Stream], Iterator[pa.Table]]:
    def decode(stream: Stream) -> Iterator[pa.Table]:
        room = _Room(stream.allowance, stream.allowance, LONGEST_RECORD, whole=False)
        return _tables(_Bytes(stream.pieces(), LONGEST_RECORD), schema, unknown, room)

    return decode


def types_of(file: Any) -> dict[str, pa.DataType]:
    """The columns of a file, and their types. Raises Undecodable, and what is in `OF_DAMAGE`."""
    return kinds_of(_about(file)["avro.schema"])


def _about(file: Any) -> dict[str, bytes]:
    """What a file says of itself before its first block."""
    if file.read(len(MAGIC)) != MAGIC:
        raise Undecodable("not Avro: it does not begin as an object container file does")
    about: dict[str, bytes] = _take(file, METADATA)
    if "avro.schema" not in about:
        raise Undecodable("not Avro: it has no schema")
    return about


def _tables(file: "_Bytes", schema: pa.Schema, unknown: str, room: _Room) -> Iterator[pa.Table]:
    try:
        about = _about(file)
        sync = file.read(SYNC_BYTES)
        codec = about.get("avro.codec", b"null").decode()
        row = row_of(about["avro.schema"], known(schema, unknown), keeps=unknown == KEEP)
        fitted = partial(conform, schema=schema, texts=False, unknown=unknown)
        divided = partial(portions, schema=schema, unknown=unknown, take=room.size.take)
        yield from _of_blocks(file, room, row, codec, sync, _Waiting(row, fitted, divided))
    except (Undecodable, MemoryError):
        raise
    # fastavro raises many kinds of errors for a damaged file, and so does its schema as JSON
    except (*OF_DAMAGE, pa.ArrowException) as error:
        raise Undecodable(f"not Avro: {first_line(error)}") from error


def _of_blocks(
    file: "_Bytes", room: _Room, row: RowShape, codec: str, sync: bytes, waiting: "_Waiting"
) -> Iterator[pa.Table]:
    parsed, enough = fastavro.parse_schema(row.raw), _enough_of(row)
    # of a whole file the columns are held that it lacks, too
    columns = max(row.cells, len(row.wanted)) if room.whole else row.cells
    for number, count, packed in _blocks(file, sync):
        if count and not waiting.done + waiting.rows:
            check_names(row.names, row.wanted)
        room.cells.take(count * CELL_BYTES * columns)
        with _in_block(number):
            data = _unpacked(codec, packed, number, room)
        waiting.begin(number, count, len(data))
        decoded = _rows_of_block(number, count, data, parsed, enough)
        while True:
            with _in_block(number):
                rows = next(decoded, None)
                if rows is None:
                    break
                waiting.add(rows)
            if waiting.rows >= ROWS:
                yield from waiting.tables()
        if waiting.size >= PIECE_BYTES:
            yield from waiting.tables()
    yield from waiting.tables()


def _unpacked(codec: str, packed: bytes, number: int, room: _Room) -> bytes:
    """Raises Undecodable."""
    try:
        data = _unpack(codec, packed, room.block)
        check_unpacked(len(data), room.block)
    except Oversized as error:
        if room.whole:
            raise
        raise Undecodable(f"too large: {run('block', number)} has more than {room.block} bytes, unpacked") from error
    # the bytes of a file in pieces were counted when they came
    room.size.take(len(data) if room.whole else max(0, len(data) - len(packed)))
    return data


def _blocks(file: "_Bytes", sync: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The number of each block, how many rows it has, and its bytes as they are packed."""
    number = 0
    while not file.at_its_end:
        count, size = _take(file, "long"), _take(file, "long")
        if size > file.longest:
            raise Undecodable(
                f"too large: {run('block', number)} has {size} bytes, at most {file.longest}",
                where=run("block", number),
            )
        packed = file.read(size) if size >= 0 else b""
        if count < 0 or len(packed) != size or file.read(SYNC_BYTES) != sync:
            raise Undecodable(f"not Avro: {run('block', number)} is damaged", where=run("block", number))
        yield number, count, packed
        number += 1


def _take(file: Any, schema: Any) -> Any:
    """The next value of this schema in a binary file."""
    return fastavro.schemaless_reader(file, schema, None)


def _enough_of(row: RowShape) -> float:
    """Of how many bytes the rows may be Python objects at a time. Raises Undecodable."""
    objects = _densest(row.raw)
    if objects > MOST_OBJECTS:
        raise Undecodable(f"the file's schema nests records so that one byte becomes {int(objects)} of them")
    return MOST_OBJECT_BYTES / (objects * OBJECT_BYTES)


def _rows_of_block(
    number: int, count: int, data: bytes, schema: Any, enough: float
) -> Iterator[list[Mapping[str, Any]]]:
    """The rows of an unpacked block: as many at once as are `ROWS`, or have `enough` bytes; never none."""
    block = io.BytesIO(data)
    rows: list[Mapping[str, Any]] = []
    begun = 0
    for _ in range(count):
        rows.append(_take(block, schema))
        if len(rows) == ROWS or block.tell() - begun >= enough:
            yield rows
            rows, begun = [], block.tell()
    if block.tell() != len(data):
        raise Undecodable(f"not Avro: {run('block', number)} says that it has {count} rows, and has more than them")
    if rows:
        yield rows


@contextmanager
def _in_block(number: int) -> Iterator[None]:
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


def _column_of(member: Member, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    try:
        return pa.array(member.of_all(rows), member.shape.kind)
    except MemoryError:
        raise
    except (Unfit, pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise Undecodable(f"column {member.name}: {first_line(error)}") from error


@dataclass
class _Waiting:
    """Rows of some blocks, which become one table."""

    row: RowShape
    fitted: Callable[..., pa.Table]
    """Its tables as the schema has them (`conform`)."""
    divided: Callable[[pa.Table], Iterator[pa.Table]]
    """See `formats.rest.portions`."""
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
            self.chunks.setdefault(each.name, []).append(_column_of(each, rows))
        self.rows += len(rows)

    def tables(self) -> Iterator[pa.Table]:
        columns = [pa.chunked_array(self.chunks.get(each.name, []), each.shape.kind) for each in self.row.members]
        names = [each.name for each in self.row.members]
        try:
            for part in self.divided(pa.Table.from_arrays(columns, names=names)):
                yield self._said(self.fitted(part, before=self.done), part.schema)
                self.done += part.num_rows
        except Undecodable as error:
            error.where = "" if error.row is None else self._where(self.done + error.row)
            raise
        self.rows = self.size = 0
        self.blocks = self.blocks[-1:]
        self.chunks = {}

    def _said(self, table: pa.Table, there: pa.Schema) -> pa.Table:
        """What is said of all rows, and that a column beside the schema's does not fit, if that is said already."""
        filled = set(beside(table.schema).names) - said_of(table).unknown.keys()
        unknown = [name for name in self.row.unknown if name not in filled]
        return say(table, stated(unknown, kinds_beyond(there, table.schema)))

    def _where(self, row: int) -> str:
        number, first, _ = self.blocks[0]
        return run_of("block", row, [count for _, _, count in self.blocks], number, first)


class _Bytes:
    """Bytes that come in pieces, read as a binary file from its beginning to its end."""

    def __init__(self, pieces: Iterator[bytes], longest: int) -> None:
        self._pieces = pieces
        self.longest = longest
        self._held = b""
        self._place = 0

    @property
    def at_its_end(self) -> bool:
        return not self._hold(1)

    def read(self, size: int) -> bytes:
        """Fewer bytes than `size` only at the end. Raises Undecodable for more than `longest`."""
        if size > self.longest:
            raise Undecodable(f"too large: one value of {size} bytes, at most {self.longest}")
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


# ---- codecs


def _unpack(codec: str, packed: bytes, max_bytes: int) -> bytes:
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


def _densest(raw: Any) -> float:
    """How many Python objects one byte of a value of this schema (fastavro's) can become at most."""
    return _cost(raw)[2]


def _cost(raw: Any) -> tuple[int, int, float]:
    """Of one value, without the members of arrays and maps: its objects, its least bytes, and the most objects that a
    byte of it or of its members becomes."""
    match raw:
        case "null":
            return 1, 0, 1
        case str():
            return 1, 1, 1
        case list():
            parts = [_cost(each) for each in raw]
            objects, least = max(each[0] for each in parts), 1 + min(each[1] for each in parts)
        case {"type": "record", "fields": fields}:
            parts = [_cost(each["type"]) for each in fields]
            objects, least = 1 + sum(each[0] for each in parts), sum(each[1] for each in parts)
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            member = _cost(inner)
            # a key of a map, or the end of an array, is at least one byte more
            return 1, 1, max(member[2], 1 + member[0] / max(1, member[1]))
        case {"type": "fixed", "size": size}:
            return 1, size, 1
        case {"type": inner}:
            return _cost(inner)
        case _:
            raise AssertionError(f"no schema of fastavro's: {raw!r}")
    return objects, least, max([objects / max(1, least), *(each[2] for each in parts)])

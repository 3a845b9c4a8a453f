"""JSON lines, piece by piece: each piece is decoded as a file of its own.

A line is decoded by itself in whole files, too, so the rows are the same. Two things are known of the whole file only:

- the number of a line. The decoder of a piece counts from the piece's first line, and says so in `where`;
- whether any line has a field of the schema. A piece without one is no file of another kind, if another piece has one.
"""

import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from tidegate.formats.json_lines import make_decoder
from tidegate.formats.reasons import Misnamed, Undecodable, check_names
from tidegate.formats.records import RECORDS_OF_JSON, Lines, feeds, pieces, within_memory
from tidegate.formats.registry import REPORT
from tidegate.formats.said import said_of
from tidegate.formats.salvage import Fits, RowsOfText, salvaged
from tidegate.formats.streams import Stream

NO_LIMIT = 1 << 62
"""Of a piece: what its rows need is bounded where it is cut."""
MOST_NAMES = 10_000
"""Of so many names that are not the schema's the file is judged, if it has none that is."""
WHITE_SPACE = bytes(each for each in range(256) if bytes([each]).isspace())
LINE = re.compile(r"line ([0-9]+): ")


def make_streaming(schema: pa.Schema, unknown: str = REPORT) -> Callable[[Stream], Iterator[pa.Table]]:
    """Raises ValueError if JSON cannot hold such a column."""
    decode = make_decoder(schema, NO_LIMIT, unknown)
    return lambda stream: _tables(stream, schema, decode)


def make_salvaging(schema: pa.Schema, fits: Fits, unknown: str = REPORT) -> Callable[[Stream, int], Iterator[pa.Table]]:
    """As `make_streaming`, but for the lines that do not fit, if they are not too many: see `formats.salvage`."""
    strict = make_decoder(schema, NO_LIMIT, unknown)

    def decode(piece: bytes) -> pa.Table:
        table = strict(piece)
        fits(table)
        return table

    return lambda stream, most: _tables(stream, schema, decode, most)


def _tables(
    stream: Stream, schema: pa.Schema, decode: Callable[[bytes], pa.Table], most_bad: int | None = None
) -> Iterator[pa.Table]:
    lines = Lines(feeds=True)
    names = _Names()
    bad = 0

    def decoded(piece: bytes, before: int = 0) -> pa.Table:
        """`before` lines are between the end of the piece before and this one."""
        try:
            try:
                table = decode(piece)
                names.known = names.known or table.num_rows > 0
            except Misnamed:
                names.gather(piece)
                table = _nulls(piece, schema, decode)
        except Undecodable as error:
            raise _moved(error, lines.ended + before) from error
        return table

    for text in pieces(stream.pieces(), RECORDS_OF_JSON, ended=lambda: lines.ended):
        for piece in within_memory(text, RECORDS_OF_JSON, len(schema)):
            try:
                table = decoded(piece)
            except Undecodable:
                if most_bad is None:
                    raise
                table = salvaged(
                    RowsOfText.of(piece, ends := feeds(piece), ends, WHITE_SPACE),
                    lambda some: decoded(some.text, some.line),
                    lambda record: f"line {lines.ended + record.line + 1}",
                    schema.empty_table(),
                    most_bad,
                    bad,
                )
                bad += len(said_of(table).bad)
            lines.add(piece)
            yield table
    if not names.known and names.strange is not None:
        check_names(list(names.strange), schema.names)


@dataclass
class _Names:
    """Whether any line has a field of the schema; `strange` are names of lines without one, None if there is none."""

    known: bool = False
    strange: dict[str, None] | None = None

    def gather(self, piece: bytes) -> None:
        self.strange = self.strange or {}
        if not self.known:
            _gather(piece, self.strange)


def _nulls(piece: bytes, schema: pa.Schema, decode: Callable[[bytes], pa.Table]) -> pa.Table:
    """The rows of a piece in which no line has a field of the schema: all null, and the decoder has taken each. One
    line more has a field, and is cut off again."""
    name = next(field.name for field in schema if field.nullable)
    more = json.dumps({name: None}).encode()
    table = decode(piece + b"\n" + more)
    return table.slice(0, table.num_rows - 1)


def _gather(piece: bytes, names: dict[str, None]) -> None:
    objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
    for text in io.BytesIO(piece):
        if len(names) >= MOST_NAMES:
            return
        if not text.isspace():
            names.update(dict.fromkeys(objects.decode(text)))


def _moved(error: Undecodable, lines: int) -> Undecodable:
    """The error with the number of the line in the file. A reason that names a line begins with it."""
    found = LINE.match(error.where)
    if found is None:
        return error
    there, here = f"line {found[1]}", f"line {lines + int(found[1])}"
    reason = str(error)
    if reason.startswith(there):
        reason = here + reason[len(there) :]
    return Undecodable(reason, row=error.row, where=here + error.where[len(there) :])

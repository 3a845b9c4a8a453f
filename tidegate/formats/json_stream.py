"""JSON lines, piece by piece: each piece is decoded as a file of its own.

A line is decoded by itself in whole files, too, so the rows are the same. Two things are known of the whole file only:

- the number of a line. The decoder of a piece counts from the piece's first line, and says so in `where`;
- whether any line has a field of the schema. A piece without one is no file of another kind, if another piece has one.
"""

import io
import json
import re
from collections.abc import Callable, Iterator

import msgspec
import pyarrow as pa

from tidegate.formats.json_lines import make_decoder
from tidegate.formats.reasons import Misnamed, Undecodable, check_names
from tidegate.formats.records import RECORDS_OF_JSON, Lines, pieces, within_memory
from tidegate.formats.registry import REPORT
from tidegate.formats.streams import Stream

NO_LIMIT = 1 << 62
"""Of a piece: what its rows need is bounded where it is cut."""
MOST_NAMES = 10_000
"""Of so many names that are not the schema's the file is judged, if it has none that is."""
LINE = re.compile(r"line ([0-9]+): ")


def make_streaming(schema: pa.Schema, unknown: str = REPORT) -> Callable[[Stream], Iterator[pa.Table]]:
    """Raises ValueError if JSON cannot hold such a column."""
    decode = make_decoder(schema, NO_LIMIT, unknown)
    return lambda stream: _tables(stream, schema, decode)


def _tables(stream: Stream, schema: pa.Schema, decode: Callable[[bytes], pa.Table]) -> Iterator[pa.Table]:
    lines = Lines(feeds=True)
    known = False
    strange: dict[str, None] | None = None
    for text in pieces(stream.pieces(), RECORDS_OF_JSON, ended=lambda: lines.ended):
        for piece in within_memory(text, RECORDS_OF_JSON, len(schema)):
            try:
                try:
                    table = decode(piece)
                    known = known or table.num_rows > 0
                except Misnamed:
                    strange = strange or {}
                    if not known:
                        _gather(piece, strange)
                    table = _nulls(piece, schema, decode)
            except Undecodable as error:
                raise _moved(error, lines.ended) from error
            lines.add(piece)
            yield table
    if not known and strange is not None:
        check_names(list(strange), schema.names)


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

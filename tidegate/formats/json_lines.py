"""JSON lines: one object a line. An array of objects, or objects over several lines, are made into lines first
(`formats.json_layout`).

msgspec checks each line against the schema's types, strictly, and reports what fails where. (Arrow's own JSON reader
crashes the process if the first line is `null`, and makes a row of nulls of a later one: pyarrow 26.0.1.)

Where each line begins with `{` and ends with `}`, all lines are decoded in one call (`_in_one_call`). Else, and if that
call fails, they are decoded line by line, which finds the line that is refused.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.formats import places
from tidegate.formats.byte_counts import FEED, SMALL, count, may_have_blank_lines
from tidegate.formats.columns import conform
from tidegate.formats.json_layout import JsonLayout, as_lines, layout_of, with_layout
from tidegate.formats.json_refusals import refusal
from tidegate.formats.json_unknown import OBJECT, OF_LINES, LineTypes, SeenNames
from tidegate.formats.json_values import columns_of, maker, struct_type
from tidegate.formats.nesting import DEEPEST, first_deep_line
from tidegate.formats.pieces import Piece
from tidegate.formats.reasons import Undecodable, check_cells, check_names, check_text, first_line, fit_cells
from tidegate.formats.recognize import HEAD_BYTES
from tidegate.formats.records import RECORDS_OF_JSON, Before, Lines
from tidegate.formats.registry import IGNORE, KEEP, REFUSE, REPORT
from tidegate.formats.said import say
from tidegate.formats.salvage import Fits, all_fit
from tidegate.formats.splits import LineSurvey, Splitter, cut_lines, part
from tidegate.formats.streams import ByteSource, ranges
from tidegate.formats.text_files import TextDecoder, TextSplitter, tables
from tidegate.formats.unknown import known, of_line

OF_VALUES = (pa.ArrowException, ValueError, TypeError, OverflowError)

BLOCK_BYTES = 256_000
"""Lines become columns so many bytes at a time: the values of more do not fit into a processor's cache."""
WIDE, MORE = 20, 4
"""Lines of so many fields do so many times as many bytes at a time: each column of a block costs a call."""
LINE_END, OPENS, CLOSES = b"\n{}"
MOST_NAMES = 10_000
"""Of so many names that are not the schema's a file is judged, if it has none that is."""


def make_decoder(schema: pa.Schema, max_bytes: int, unknown: str = REPORT) -> Callable[[bytes], pa.Table]:
    """Raises ValueError if JSON cannot hold such a column."""
    decode = _LineDecoder(schema, unknown)

    def whole(body: bytes) -> pa.Table:
        check_text(len(body))
        layout, text = as_lines(body)
        check_cells(count(text, FEED) + 1, len(decode.known), max_bytes)
        return decode(_Text(text, decode.known, unit=layout.value), FieldNames(decode.known, whole=True))

    return whole


def make_streaming(schema: pa.Schema, fits: Fits = all_fit, unknown: str = REPORT) -> TextDecoder:
    decode = _LineDecoder(schema, unknown)
    return lambda stream, most=None: tables(stream.pieces(), JsonFile(schema, decode), most, fits)


def make_splitter(schema: pa.Schema, unknown: str = REPORT) -> Splitter:
    decode = make_streaming(schema, unknown=unknown)
    return TextSplitter(survey, cut_lines, lambda stream, split: decode(part(stream, split)))


def make_taker(schema: pa.Schema) -> Callable[[bytes], pa.Table]:
    """What reads the objects that were kept of rows, one a line: into these columns, and the rest of each. It raises
    Undecodable if any value does not fit."""
    decode = _LineDecoder(schema, KEEP)
    names = FieldNames(decode.known, whole=False)
    names.found()  # a row need not have any of them
    return lambda body: decode(_Text(body, decode.known), names)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of lines. `before` lines of its file come before it. `unit`: what they are in the file."""

    body: bytes
    schema: pa.Schema
    before: int = 0
    unit: str = JsonLayout.LINES.value

    def line(self, row: int) -> tuple[int, bytes]:
        """The number of the row's line, from 1, and its text: blank lines are no rows."""
        lines = ((number, text) for number, text in enumerate(io.BytesIO(self.body), start=1) if not text.isspace())
        number, text = next(islice(lines, row, None))
        return self.before + number, text

    def place(self, row: int) -> str:
        """Where the row is in the file, for its owner: its line, blank ones too."""
        return f"{self.unit} {self.line(row)[0]}"

    def where(self, row: int | None) -> str:
        """The line of a row, with what is in it."""
        if row is None:
            return ""
        number, text = self.line(row)
        return places.line(number, text.rstrip(b"\r\n"), self.unit)

    def refused(self, row: int, why: str) -> Undecodable:
        return Undecodable(why, row=row, where=self.where(row))

    def refused_for(self, row: int, error: Exception) -> Undecodable:
        return self.refused(row, refusal(*self.line(row), self.schema, error, self.unit))


class FieldNames:
    """Whether any line of a file has a field of the schema, which is known of the `whole` of it only."""

    def __init__(self, schema: pa.Schema, *, whole: bool) -> None:
        self._wanted = schema.names
        self._whole = whole
        self._known = False
        self._strange: dict[str, None] | None = None

    def found(self) -> None:
        """A line with a value has landed."""
        self._known = True

    def look(self, body: bytes) -> None:
        """Look for them in lines whose values are all null: only those are read again for that."""
        if self._known:
            return
        self._strange = self._strange or {}
        for text in io.BytesIO(body):
            if not text.isspace():
                names = OBJECT.decode(text)
                if not names.keys().isdisjoint(self._wanted):
                    self._known = True
                    return
                if len(self._strange) < MOST_NAMES:
                    self._strange.update(dict.fromkeys(names))
        if self._whole:
            self.check()

    def check(self) -> None:
        """Refuse a file without one: it is of another kind."""
        if not self._known and self._strange is not None:
            check_names(list(self._strange), self._wanted)


class JsonFile:
    """See `formats.text_files`. A line is decoded by itself in whole files, too."""

    records = RECORDS_OF_JSON
    blank = bytes(each for each in range(256) if bytes([each]).isspace())
    head: bytes | None = b""

    def __init__(self, schema: pa.Schema, decode: "_LineDecoder") -> None:
        self.schema = schema
        self.columns = len(schema)
        self.unit = JsonLayout.LINES.value
        self._decode = decode
        self._names = FieldNames(decode.known, whole=False)

    def text(self, parts: Iterator[bytes], lines: Lines) -> Iterator[bytes]:
        layout, text = with_layout(parts)
        self.unit = layout.value
        return text

    def begin(self, text: bytes, before: Before) -> tuple[pa.Table, int]:
        raise AssertionError("a file of lines has no head")

    def decode(self, piece: bytes, before: Before) -> pa.Table:
        return self._decode(_Text(piece, self._decode.known, before.lines, self.unit), self._names)

    def taken(self, table: pa.Table) -> None:
        if any(table[name].null_count < table.num_rows for name in self._decode.known.names):
            self._names.found()

    def check(self, piece: bytes, before: Before) -> None:
        """A line ends where it ends."""

    def end(self) -> None:
        self._names.check()


class _LineDecoder:
    """Raises ValueError if JSON cannot hold a column of the schema."""

    def __init__(self, schema: pa.Schema, unknown: str) -> None:
        self._schema = schema
        self._unknown = unknown
        self.known = known(schema, unknown)
        fields = list(self.known)
        self._line = msgspec.json.Decoder(struct_type(fields))
        keeps = unknown == KEEP
        self._types = None if unknown == IGNORE else LineTypes(self.known, partial(struct_type, fields), keeps=keeps)
        self._more = MORE if len(fields) >= WIDE else 1
        self._reading = [(field.name, maker(field.type)) for field in fields]

    def __call__(self, text: _Text, names: FieldNames) -> pa.Table:
        parts: list[list[pa.Array]] = [[make([])] for _, make in self._reading]
        total = 0
        seen = None if self._types is None else SeenNames(self._types)
        for block in _blocks(text.body, self._more * BLOCK_BYTES):
            rows = self._rows(block, text, total, seen)
            of_rows = columns_of(rows, len(parts))
            for columns, (name, make), values in zip(parts, self._reading, of_rows, strict=True):
                try:
                    columns.append(make(values))
                except MemoryError:
                    raise
                except OF_VALUES as error:
                    refused = _first_refused(values, make)
                    if refused is None:
                        raise Undecodable(f"column {name}: {first_line(error)}") from error
                    raise text.refused_for(total + refused, error) from error
            total += len(rows)
        done = [pa.concat_arrays(columns) for columns in parts]
        if total and all(column.null_count == total for column in done):
            names.look(text.body)
        try:
            table = pa.Table.from_arrays(done, names=self.known.names)
            table = conform(table, self.known, texts=True, place=text.place)
        except Undecodable as error:
            error.where = text.where(error.row)
            raise
        if seen is not None and self._unknown == KEEP:
            table = pa.Table.from_arrays([*table.columns, seen.rest], schema=self._schema)
        if seen is None or seen.first is None:
            return table
        if self._unknown == REFUSE:
            row, unknown = seen.first
            raise text.refused(row, of_line(text.place(row), unknown))
        return say(table, seen.said)

    def _rows(self, block: bytes, text: _Text, before: int, seen: SeenNames | None) -> list[Any]:
        """One row for each line of the block that is not blank. `before` rows of the text come before the block. `seen`
        gathers what the schema lacks."""
        if (deep := first_deep_line(block)) is not None:
            row = before + sum(not line.isspace() for line in islice(io.BytesIO(block), deep))
            why = f"{text.place(row)}: it nests deeper than {DEEPEST} levels: write the inner part as text"
            raise text.refused(row, why)
        at_once = _in_one_call(self._line if seen is None else seen.decoder, block)
        if at_once is None and seen is not None and seen.has_many:
            at_once = _in_one_call(self._line, block)
            if at_once is not None:
                seen.whole(block)
        rows = self._one_by_one(block, text, before, seen) if at_once is None else at_once
        if seen is not None:
            seen.block(rows, before)
        return rows

    def _one_by_one(self, block: bytes, text: _Text, before: int, seen: SeenNames | None) -> list[Any]:
        rows: list[Any] = []
        try:
            for line in io.BytesIO(block):
                if not line.isspace():
                    row = self._line.decode(line) if seen is None else seen.line(self._line, line, len(rows))
                    line.decode()  # msgspec does not look at what the schema lacks
                    rows.append(row)
        except OF_LINES as error:
            raise text.refused_for(before + len(rows), error) from error
        return rows


def make_piece(schema: pa.Schema, max_bytes: int, unknown: str = REPORT) -> Callable[[bytes], Piece | None]:
    """See `formats.pieces`. A row is a line that is not blank, and each is decoded without regard to the others. So the
    rows of several files are those of their lines one after the other."""

    columns = len(known(schema, unknown))

    def piece(body: bytes) -> Piece | None:
        try:
            _, text = as_lines(body)
        except Undecodable:
            return None
        if not fit_cells(count(text, FEED) + 1, columns, max_bytes):
            return None
        text = text if text.endswith(b"\n") or not text else text + b"\n"
        return Piece(b"", text, count_rows(text))

    return piece


def count_rows(text: bytes) -> int:
    """The lines that are not blank, of a text that ends with a line."""
    if len(text) < SMALL:
        # of a small file numpy's calls would take longer than the decoder
        rows = text.count(b"}\n{") + 1
        if rows == text.count(b"\n") and text.startswith(b"{"):
            return rows
    if not may_have_blank_lines(text):
        return count(text, FEED)
    return sum(not line.isspace() for line in io.BytesIO(text))


def survey(source: ByteSource, start: int, end: int) -> LineSurvey:
    """See `formats.splits`. A line ends at a line feed, whatever is in it. Raises Undecodable for a file that is no
    lines: it is read as a whole."""
    first: int | None = None
    last: int | None = None
    rows = 0
    head, line = False, False
    for begin, text in ranges(source, start, end):
        if not begin and layout_of(text[:HEAD_BYTES]) is not JsonLayout.LINES:
            raise Undecodable("its objects are no lines")
        if first is None:
            ended = text.find(b"\n") + 1
            head = head or not text[: ended or None].isspace()
            if not ended:
                continue
            begin += ended
            first = last = begin
            text = text[ended:]
        stop = text.rfind(b"\n") + 1
        if stop:
            ended = text.find(b"\n") + 1
            rows += (line or not text[:ended].isspace()) + count_rows(text[ended:stop])
            line = False
            last = begin + stop
        rest = text[stop:]
        line = line or not (rest.isspace() or not rest)
    return LineSurvey(first, last, rows, head, line)


def _first_refused(values: Sequence[Any], make: Callable[[Sequence[Any]], pa.Array]) -> int | None:
    """The row of the first value that Arrow does not take; only of a file that is refused."""
    for row, value in enumerate(values):
        try:
            make([value])
        except MemoryError:
            raise
        except OF_VALUES:
            return row
    return None


def _blocks(body: bytes, size: int) -> Iterator[bytes]:
    """The lines of a file, some `size` bytes at a time."""
    begin = 0
    while begin < len(body):
        end = body.find(b"\n", begin + size) + 1 or len(body)
        yield body[begin:end]
        begin = end


def _in_one_call(line: msgspec.json.Decoder, block: bytes) -> list[Any] | None:
    """The rows, if every line begins with `{` and ends with `}`, and is one object; else None.

    `decode_lines` decodes one object after the other, with any white space between them. It would take several on one
    line for several lines, and one on several lines for one. Neither can be here:

    - A line end in a string is refused, so a line end is between tokens. Between `}` and `{` an object has a comma. So
      each line end is between two objects, and each line has one or more objects, whole.
    - There are as many objects as lines. So each line has one.
    """
    if not block.startswith(b"{") or not block.endswith((b"}", b"}\n")):
        return None
    text = np.frombuffer(block, np.uint8)
    between = np.flatnonzero(text[:-1] == LINE_END)
    if (text[between - 1] != CLOSES).any() or (text[between + 1] != OPENS).any():
        return None
    try:
        rows: list[Any] = line.decode_lines(block)
        block.decode()
    except OF_LINES:
        return None
    return rows if len(rows) == len(between) + 1 else None

"""CSV with a header line."""

import csv
import io
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tidegate.formats.byte_counts import FEED, RETURN, count
from tidegate.formats.columns import conform, row_number
from tidegate.formats.csv_refusals import of_arrow, other_delimiter
from tidegate.formats.csv_survey import join, survey
from tidegate.formats.dialect import Dialect
from tidegate.formats.pieces import Piece
from tidegate.formats.places import first_record_of_csv, record_of_csv
from tidegate.formats.quotes import check_quotes, is_regular, quotes_in
from tidegate.formats.reasons import (
    CELL_BYTES,
    Misnamed,
    NoneKnown,
    Oversized,
    Undecodable,
    check_cells,
    check_names,
    check_text,
    check_unpacked,
    first_line,
    fit_cells,
)
from tidegate.formats.records import BEGINNING, Before, Lines, ends_of_lines, records_of_csv
from tidegate.formats.registry import KEEP, REPORT, REST, UTF_8
from tidegate.formats.rest import wanted_of
from tidegate.formats.salvage import Fits, all_fit
from tidegate.formats.splits import Splitter, part
from tidegate.formats.streams import Stream
from tidegate.formats.text_files import NO_LIMIT, TextDecoder, TextSplitter, tables
from tidegate.formats.transcode import in_utf8, is_of_bytes
from tidegate.formats.unknown import known

BOM = b"\xef\xbb\xbf"
LEAST_BLOCK = 1 << 20
LARGEST_BLOCK = (1 << 31) - 1
LINE_END = ord("\n")
LONGEST_NAME = 1 << 17
"""Characters of a name in the header. Nobody means a longer one: a quote was not closed where it should be."""
HEADER = -1
"""The header, as a row."""


def make_decoder(
    schema: pa.Schema, max_bytes: int, encoding: str = UTF_8, unknown: str = REPORT, **written: Any
) -> Callable[[bytes], pa.Table]:
    """`written` are the fields of a `Dialect`. Raises ValueError if CSV cannot hold such a column."""
    dialect = Dialect(**written)
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        raise ValueError(f"CSV files cannot hold the nested column {nested[0]}")
    head = made_header(schema, dialect, unknown)
    before = Before(0, -ends_of_lines(head))

    def decode(body: bytes) -> pa.Table:
        text = body if encoding == UTF_8 else b"".join(in_utf8([body], encoding))
        if encoding != UTF_8:
            check_unpacked(len(text), max_bytes)
        return read(head + without_mark(text) if head else text, schema, dialect, max_bytes, unknown, before)

    return decode


def make_streaming(
    schema: pa.Schema, fits: Fits = all_fit, encoding: str = UTF_8, unknown: str = REPORT, **written: Any
) -> TextDecoder:
    """A quote that is never closed refuses the file also if bad rows are left out, because it is not known where rows
    end."""
    make_decoder(schema, NO_LIMIT, **written)
    dialect = Dialect(**written)
    return lambda stream, most=None: _counted(
        stream, unknown, tables(_in_utf8(stream, encoding), CsvFile(schema, dialect, unknown), most, fits)
    )


def make_splitter(schema: pa.Schema, encoding: str = UTF_8, unknown: str = REPORT, **written: Any) -> Splitter | None:
    """None for an encoding in which a byte says nothing by itself, or a split is not as long as its text; and for files
    without a header, which each split would need."""
    dialect = Dialect(**written)
    if encoding != UTF_8 or not dialect.header:
        return None
    return TextSplitter(
        partial(survey, dialect.delimiter),
        join,
        lambda stream, split: _counted(
            stream,
            unknown,
            tables(part(stream, split).pieces(), CsvFile(schema, dialect, unknown, split.head or None)),
        ),
    )


def _counted(stream: Stream, unknown: str, found: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Names that are kept are in the file once, and in the text of each row."""
    for table in found:
        if unknown == KEEP:
            stream.allowance.take(table[REST].nbytes)
        yield table


def _in_utf8(stream: Stream, encoding: str) -> Iterator[bytes]:
    """The text in UTF-8, which may have more bytes than the file."""
    if encoding == UTF_8:
        yield from stream.pieces()
        return
    read = 0

    def counted() -> Iterator[bytes]:
        nonlocal read
        for piece in stream.pieces():
            read += len(piece)
            yield piece

    written = 0
    for text in in_utf8(counted(), encoding):
        written += len(text)
        if written > read:
            stream.allowance.take(written - read)
            read = written
        yield text


class CsvFile:
    """See `formats.text_files`. The header is checked once, and put before each piece."""

    unit = "line"

    def __init__(self, schema: pa.Schema, dialect: Dialect, unknown: str, head: bytes | None = None) -> None:
        self.schema = schema
        self._unknown = unknown
        self._dialect = dialect
        self.records = records_of_csv(dialect.delimiter)
        self._meet(head or b"")
        self.head = head

    def _meet(self, head: bytes) -> None:
        names = header(head, self._dialect.delimiter)
        self.columns = max(len(names), wanted_of(names, self.schema, self._unknown)[1], len(self.schema))
        # blank lines are no rows, unless rows have one field
        self.blank = b"\r\n" if len(names) > 1 else b""
        # with the line feed of a blank line, a return would be one line end
        self.head = head[:-1] + b"\n" if head.endswith(b"\r") else head
        self._lines = ends_of_lines(head)

    def text(self, parts: Iterator[bytes], lines: Lines) -> Iterator[bytes]:
        """Without a byte order mark, and blank lines; with a header, if the file has none."""
        if self.head is not None:
            yield from parts
            return
        if made := made_header(self.schema, self._dialect, self._unknown):
            lines.ended -= ends_of_lines(made)
            yield made
        beginning = b""
        for some in parts:
            beginning += some
            if len(beginning) >= 2 * len(BOM):
                break
        for some in itertools.chain([without_mark(beginning) if made else beginning.removeprefix(BOM)], parts):
            found = some.lstrip(b"\r\n")
            lines.add(some[: len(some) - len(found)])
            if found:
                yield found
                break
        yield from parts

    def begin(self, text: bytes, before: Before) -> tuple[pa.Table, int]:
        head = first_record_of_csv(text, self._dialect.delimiter)
        # refuses a header that does not fit, and one whose quotes are not regular. The mark stands for that of the
        # file: another one is refused
        empty = read(BOM + head, self.schema, self._dialect, NO_LIMIT, self._unknown, before)
        self._meet(head)
        return empty, len(head)

    def decode(self, piece: bytes, before: Before) -> pa.Table:
        text = (self.head or b"") + piece
        return read(text, self.schema, self._dialect, NO_LIMIT, self._unknown, self._before(before))

    def taken(self, table: pa.Table) -> None:
        """The header says which columns there are."""

    def check(self, piece: bytes, before: Before) -> None:
        check_quotes((self.head or b"") + piece, self._dialect.delimiter, self._before(before).lines)

    def _before(self, before: Before) -> Before:
        """Of a piece with the header before it."""
        return Before(before.rows, before.lines - self._lines)

    def end(self) -> None:
        """Each piece says all that is wrong with it."""


def made_header(schema: pa.Schema, dialect: Dialect, unknown: str) -> bytes:
    """The header that a file lacks, of the schema's columns in their order; empty if files have one."""
    if dialect.header:
        return b""
    line = io.StringIO()
    csv.writer(line, delimiter=dialect.delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(
        known(schema, unknown).names
    )
    return line.getvalue().encode()


def without_mark(text: bytes) -> bytes:
    """The beginning of a file without a header. A second byte order mark would be part of its first field."""
    text = text.removeprefix(BOM)
    if text.startswith(BOM):
        raise Undecodable("not CSV: the file begins with two byte order marks")
    return text


def make_piece(
    schema: pa.Schema, max_bytes: int, delimiter: str, encoding: str = UTF_8, unknown: str = REPORT, **written: Any
) -> Callable[[bytes], Piece | None]:
    """See `formats.pieces`. Only regular files are joined: lines end in one way, none is blank, the header is one line,
    each quote opens or closes a field. Then a file ends outside of quotes, and each line end outside of quotes ends a
    row. Columns are found by the header, so files are joined under the same one, byte for byte."""

    made = made_header(schema, Dialect(delimiter, **written), unknown)

    def piece(body: bytes) -> Piece | None:
        body = body.removeprefix(BOM) if encoding == UTF_8 else body
        if not body or body.startswith(BOM) or not is_of_bytes(encoding):
            return None
        end = b"\r\n" if b"\r" in body else b"\n"
        body = (made.replace(b"\n", end) if made else b"") + (body if body.endswith(b"\n") else body + end)
        head, _, text = body.partition(b"\n")
        head += b"\n"
        if _rows(head, delimiter) != 1 or not _has_regular_ends(body, end):
            return None
        cells = head.count(delimiter.encode()) + 1
        if unknown == KEEP:
            cells += len(head) // CELL_BYTES
        if not fit_cells(_lines(body), max(cells, len(schema)), max_bytes):
            return None
        rows = _rows(text, delimiter)
        # the decoder makes a header that files lack
        return None if rows is None else Piece(b"" if made else head, text, rows)

    return piece


def _has_regular_ends(body: bytes, end: bytes) -> bool:
    """Whether all lines end with `end`, and none is blank."""
    ends = count(body, FEED)
    same = end == b"\n" or (count(body, RETURN) == ends and body.count(end) == ends)
    return same and end + end not in body and not body.startswith(end)


def _rows(text: bytes, delimiter: str) -> int | None:
    """The line ends outside of quotes; None if the quotes are not regular."""
    if b'"' not in text:
        return count(text, FEED)
    quotes = quotes_in(text)
    if not is_regular(text, quotes, delimiter):
        return None
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == LINE_END)
    return int((np.searchsorted(quotes, ends) % 2 == 0).sum())


def read(
    body: bytes,
    schema: pa.Schema,
    dialect: Dialect,
    max_bytes: int,
    unknown: str = REPORT,
    before: Before = BEGINNING,
) -> pa.Table:
    """The rows of a text that begins with the header. `before` are lines of the file besides the header's. An empty
    field is null, also in a column of text, where "" is the empty text. Columns that the file lacks are null."""
    delimiter = dialect.delimiter
    check_text(len(body))
    body = body.removeprefix(BOM)
    if not body.strip(b"\r\n"):
        return schema.empty_table()
    try:
        check_quotes(body, delimiter, before.lines)
        return _table(body.lstrip(b"\r\n"), schema, dialect, max_bytes, unknown, before)
    except Oversized:
        raise
    except Undecodable as error:
        text, own = body.lstrip(b"\r\n"), known(schema, unknown)
        refused = _wrong_delimiter(text, own, delimiter) or _wrong_header(text, own, dialect, before, error) or error
        if refused.row is not None:
            # a row of one field may be blank; see `_table`
            blanks = len(header(body.lstrip(b"\r\n"), delimiter)) == 1 if refused.row != HEADER else False
            refused.where = record_of_csv(body, delimiter, refused.row - HEADER, blanks=blanks, lines=before.lines)
        if refused is error:
            raise
        raise refused from error


def _wrong_delimiter(body: bytes, schema: pa.Schema, delimiter: str) -> Undecodable | None:
    """Whether that is why a file is refused."""
    line = first_record_of_csv(body, delimiter)
    if line.startswith(BOM):
        return None
    why = other_delimiter(_cut(line, delimiter), schema.names, delimiter, lambda other: _cut(line, other))
    return Misnamed(why, row=HEADER) if why else None


def _wrong_header(
    body: bytes, schema: pa.Schema, dialect: Dialect, before: Before, error: Undecodable
) -> Undecodable | None:
    """Whether a file is refused because it has a header that it should not have, or lacks one."""
    first = first_record_of_csv(body, dialect.delimiter)
    if dialect.header:
        # two fields at least: any text may be the name of one
        if isinstance(error, NoneKnown) and 1 < len(_cut(first, dialect.delimiter)) == len(schema.names):
            return NoneKnown(f"{error}. If its first line is a row: header = false in the route", row=HEADER)
        return None
    names = _cut(first_record_of_csv(body[len(first) :], dialect.delimiter), dialect.delimiter)
    if before.rows or error.row != 0 or not names or not set(names) <= set(schema.names):
        return None
    return Undecodable(f"row 1 has the names of columns ({', '.join(names)}): set header = true in the route", row=0)


def _cut(line: bytes, delimiter: str) -> list[str]:
    """A header by any delimiter, also one with which its quotes are not regular."""
    try:
        return next(csv.reader([line.decode("utf-8", "replace").rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:
        return []


def _table(body: bytes, schema: pa.Schema, dialect: Dialect, max_bytes: int, unknown: str, before: Before) -> pa.Table:
    # the last line may lack its end, but Arrow needs one after a header without rows
    body = body if body.endswith((b"\n", b"\r")) else body + b"\n"
    if body.startswith(BOM):
        # Arrow would leave it out, and the name of the first column would have it
        raise Undecodable(
            "not CSV: a byte order mark is before the header, and not at the beginning of the file", row=HEADER
        )
    try:
        names = header(body, dialect.delimiter)
        check_names(names, known(schema, unknown).names)
    except Undecodable as error:
        error.row = HEADER
        raise
    wanted, cells = wanted_of(names, schema, unknown)
    check_cells(_lines(body), max(len(names), cells, len(known(schema, unknown))), max_bytes)
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(body),
            # one block, because a row must not be longer than a block
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=min(max(len(body) * 2, LEAST_BLOCK), LARGEST_BLOCK)
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                newlines_in_values=True,
                # a blank line is a row only if rows have one field
                ignore_empty_lines=len(names) > 1,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(wanted, pa.string()),
                include_columns=wanted,
                null_values=dialect.nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except MemoryError:
        raise
    except (pa.ArrowException, ValueError, KeyError) as error:
        place = partial(row_number, before.rows)
        why, row = of_arrow(first_line(error), names, dialect.delimiter, place, dialect.names_by)
        raise Undecodable(why, row=row) from error
    return conform(table, schema, texts=True, before=before.rows, names=names, dialect=dialect, unknown=unknown)


def _lines(body: bytes) -> int:
    """The most lines there can be: Arrow ends a line at a line feed, a carriage return, or both."""
    return ends_of_lines(body) + 1


def header(body: bytes, delimiter: str) -> list[str]:
    """The names in the header, read first: a file of another kind need not be decoded."""
    lines = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8", errors="replace", newline="")
    try:
        names = next(csv.reader(lines, delimiter=delimiter, strict=True), [])
    except csv.Error as error:
        raise Undecodable(f"not CSV: the header: {first_line(error)}") from error
    # the module's own limit is one setting of the process, which others may change
    if any(len(name) > LONGEST_NAME for name in names):
        raise Undecodable(f"not CSV: the header: field larger than field limit ({LONGEST_NAME})")
    return names

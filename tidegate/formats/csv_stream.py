"""CSV, piece by piece: each piece is decoded as a file of its own, with the header before it.

`formats.delimited` decodes a piece as it decodes a file, so the rows are those of the whole file. The header is checked
once, since it is the same for all pieces. A refusal names the row and the line of the file. Only the order differs: of
several faults the first in the file is found, where the decoder of whole files looks at all quotes first.
"""

import itertools
from collections.abc import Callable, Iterator

import pyarrow as pa

from tidegate.formats.delimited import BOM, Before, header, make_decoder, read
from tidegate.formats.dialect import Dialect
from tidegate.formats.places import first_record_of_csv
from tidegate.formats.quotes import check_quotes
from tidegate.formats.reasons import Undecodable
from tidegate.formats.records import Lines, ends_of_lines, feeds_and_returns, pieces, records_of_csv, within_memory
from tidegate.formats.registry import UTF_8
from tidegate.formats.said import said_of
from tidegate.formats.salvage import Fits, RowsOfText, TextRows, all_fit, rows_with_bad, salvaged
from tidegate.formats.streams import Stream
from tidegate.formats.transcode import in_utf8

NO_LIMIT = 1 << 62
"""Of a piece: what its rows need is bounded where it is cut."""


def make_streaming(schema: pa.Schema, encoding: str = UTF_8, **written: str) -> Callable[[Stream], Iterator[pa.Table]]:
    """`written` are the fields of a `Dialect`. Raises ValueError if CSV cannot hold such a column."""
    make_decoder(schema, NO_LIMIT, **written)
    return lambda stream: tables(_text(stream, encoding), schema, Dialect(**written))


def make_salvaging(
    schema: pa.Schema, fits: Fits, encoding: str = UTF_8, **written: str
) -> Callable[[Stream, int], Iterator[pa.Table]]:
    """As `make_streaming`, but for the rows that do not fit, if they are so many at the most: see `formats.salvage`. A
    quote that is never closed still refuses the file, because it is not known where rows end."""
    make_decoder(schema, NO_LIMIT, **written)
    return lambda stream, most: tables(_text(stream, encoding), schema, Dialect(**written), most_bad=most, fits=fits)


def _text(stream: Stream, encoding: str) -> Iterator[bytes]:
    """In UTF-8, which may have more bytes than the file."""
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


def tables(
    text_of_file: Iterator[bytes],
    schema: pa.Schema,
    dialect: Dialect,
    head: bytes = b"",
    *,
    most_bad: int | None = None,
    fits: Fits = all_fit,
) -> Iterator[pa.Table]:
    """The rows of a file, or of a part of one that lacks its header: then that is `head`, and rows and lines in a
    refusal count from the part's beginning. Raises Undecodable."""
    delimiter = dialect.delimiter
    records = records_of_csv(delimiter)
    lines = Lines()
    lines.add(head)
    columns = max(len(header(head, delimiter)), len(schema))
    rows = bad = 0
    begun = text_of_file if head else _from_header(text_of_file, lines)
    for text in pieces(begun, records, ended=lambda: lines.ended):
        if not head:
            head = first_record_of_csv(text, delimiter)
            # refuses a header that does not fit, and one whose quotes are not regular. The mark stands for that of the
            # file: another one is refused
            yield read(BOM + head, schema, dialect, NO_LIMIT, Before(0, lines.ended))
            columns = max(len(header(head, delimiter)), len(schema))
            lines.add(head)
            text = text[len(head) :]
            # with the line feed of a blank line, this return would be one line end
            head = head[:-1] + b"\n" if head.endswith(b"\r") else head
        for piece in within_memory(text, records, columns):
            # the lines of the file before the piece, less those of the header that is put before it
            before = Before(rows, lines.ended - ends_of_lines(head))
            try:
                table = read(head + piece, schema, dialect, NO_LIMIT, before)
                fits(table)
            except Undecodable:
                if most_bad is None:
                    raise
                table = _salvaged(piece, head, schema, dialect, before, most_bad, bad, fits)
                bad += len(said_of(table).bad)
            rows += rows_with_bad(table)
            lines.add(piece)
            yield table


def _salvaged(
    piece: bytes, head: bytes, schema: pa.Schema, dialect: Dialect, before: Before, most: int, bad: int, fits: Fits
) -> pa.Table:
    """`most` rows of the file may be bad, of which `bad` are in earlier pieces."""
    delimiter = dialect.delimiter
    check_quotes(head + piece, delimiter, before.lines)

    def decode(some: TextRows) -> pa.Table:
        moved = Before(before.rows + some.row, before.lines + some.line)
        table = read(head + some.text, schema, dialect, NO_LIMIT, moved)
        if table.num_rows != some.rows:
            raise Undecodable(f"{some.rows} records have {table.num_rows} rows")
        fits(table)
        return table

    first = before.lines + ends_of_lines(head) + 1
    # blank lines are no rows, unless rows have one field
    blank = b"\r\n" if len(header(head, delimiter)) > 1 else b""
    return salvaged(
        RowsOfText.of(piece, records_of_csv(delimiter).ends(piece), feeds_and_returns(piece), blank),
        decode,
        lambda record: f"line {first + record.line}",
        schema.empty_table(),
        most,
        bad,
    )


def _from_header(text: Iterator[bytes], lines: Lines) -> Iterator[bytes]:
    """The text without what may be before the header: a byte order mark, and blank lines, which are counted."""
    beginning = b""
    for part in text:
        beginning += part
        if len(beginning) >= len(BOM):
            break
    beginning = beginning.removeprefix(BOM)
    for part in itertools.chain([beginning], text):
        found = part.lstrip(b"\r\n")
        lines.add(part[: len(part) - len(found)])
        if found:
            yield found
            break
    yield from text

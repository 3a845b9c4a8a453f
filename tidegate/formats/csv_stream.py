"""CSV, piece by piece: each piece is decoded as a file of its own, with the header before it.

`formats.delimited` decodes a piece as it decodes a file, so the rows are those of the whole file. The header is checked
once, since it is the same for all pieces. A refusal names the row and the line of the file. Only the order differs: of
several faults the first in the file is found, where the decoder of whole files looks at all quotes first.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from tidegate.formats.delimited import BOM, Before, header, make_decoder, read
from tidegate.formats.places import first_record_of_csv
from tidegate.formats.quotes import check_quotes
from tidegate.formats.reasons import Undecodable
from tidegate.formats.records import Lines, ends_of_lines, pieces, records_of_csv, within_memory
from tidegate.formats.registry import UTF_8
from tidegate.formats.said import said_of
from tidegate.formats.salvage import TextRecord, rows_with_bad, salvaged
from tidegate.formats.streams import Stream
from tidegate.formats.transcode import in_utf8

NO_LIMIT = 1 << 62
"""Of a piece: what its rows need is bounded where it is cut."""


def make_streaming(schema: pa.Schema, delimiter: str, encoding: str = UTF_8) -> Callable[[Stream], Iterator[pa.Table]]:
    """Raises ValueError if CSV cannot hold such a column."""
    make_decoder(schema, NO_LIMIT, delimiter)
    return lambda stream: tables(_text(stream, encoding), schema, delimiter)


def make_salvaging(
    schema: pa.Schema, delimiter: str, encoding: str = UTF_8
) -> Callable[[Stream, int], Iterator[pa.Table]]:
    """As `make_streaming`, but for the rows that do not fit, if they are so many at the most: see `formats.salvage`. A
    quote that is never closed still refuses the file, because it is not known where rows end."""
    make_decoder(schema, NO_LIMIT, delimiter)
    return lambda stream, most: tables(_text(stream, encoding), schema, delimiter, most_bad=most)


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
    text_of_file: Iterator[bytes], schema: pa.Schema, delimiter: str, head: bytes = b"", *, most_bad: int | None = None
) -> Iterator[pa.Table]:
    """The rows of a file, or of a part of one that lacks its header: then that is `head`, and rows and lines in a
    refusal count from the part's beginning. Raises Undecodable."""
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
            yield read(BOM + head, schema, delimiter, NO_LIMIT, Before(0, lines.ended))
            columns = max(len(header(head, delimiter)), len(schema))
            lines.add(head)
            text = text[len(head) :]
            # with the line feed of a blank line, this return would be one line end
            head = head[:-1] + b"\n" if head.endswith(b"\r") else head
        for piece in within_memory(text, records, columns):
            # the lines of the file before the piece, less those of the header that is put before it
            before = Before(rows, lines.ended - ends_of_lines(head))
            try:
                table = read(head + piece, schema, delimiter, NO_LIMIT, before)
            except Undecodable:
                if most_bad is None:
                    raise
                table = _salvaged(piece, head, schema, delimiter, before, most_bad, bad)
                bad += len(said_of(table).bad)
            rows += rows_with_bad(table)
            lines.add(piece)
            yield table


def _salvaged(
    piece: bytes, head: bytes, schema: pa.Schema, delimiter: str, before: Before, most: int, bad: int
) -> pa.Table:
    """`most` rows of the file may be bad, of which `bad` are in earlier pieces."""
    check_quotes(head + piece, delimiter, before.lines)

    def decode(some: Sequence[TextRecord]) -> pa.Table:
        text = b"".join(each.text for each in some)
        moved = Before(before.rows + some[0].row, before.lines + some[0].line)
        table = read(head + text, schema, delimiter, NO_LIMIT, moved)
        if table.num_rows != len(some):
            raise Undecodable(f"{len(some)} records have {table.num_rows} rows")
        return table

    first = before.lines + ends_of_lines(head) + 1
    return salvaged(
        _records(piece, delimiter, one_field=len(header(head, delimiter)) == 1),
        decode,
        lambda record: f"line {first + record.line}",
        schema.empty_table(),
        most,
        bad,
    )


def _records(piece: bytes, delimiter: str, *, one_field: bool) -> list[TextRecord]:
    """Blank lines are no rows, unless rows have one field."""
    found: list[TextRecord] = []
    lines, begin = Lines(), 0
    ends = list(records_of_csv(delimiter).ends(piece))
    for end in [*ends, *([len(piece)] if not ends or ends[-1] < len(piece) else [])]:
        text = piece[begin:end]
        if text.strip(b"\r\n") or one_field:
            found.append(TextRecord(text, len(found), lines.ended))
        lines.add(text)
        begin = end
    return found


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

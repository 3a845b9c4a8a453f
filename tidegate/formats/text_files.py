"""Files of text in pieces, in splits, and without their bad rows: each piece is decoded as a file of its own.

A format says where its records end, and how a text of whole records becomes rows (`TextFile`). The rest is here, once.
The rows are those of the whole file, and a refusal names the row and the line of the file. Only the order differs: of
several faults the first in the file is found, where the decoder of whole files may look at all of them for one first.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from tidegate.formats.reasons import Undecodable
from tidegate.formats.records import Before, Lines, Records, pieces, within_memory
from tidegate.formats.said import said_of
from tidegate.formats.salvage import Fits, RowsOfText, TextRows, all_fit, rows_with_bad, salvaged
from tidegate.formats.splits import ByteRange, Split, even_ranges
from tidegate.formats.streams import ByteSource, Stream

NO_LIMIT = 1 << 62
"""Of a piece: what its rows need is bounded where it is cut."""


class TextDecoder(Protocol):
    """The rows of a file. Up to `most` of them are left out if they do not fit; with None, one refuses the file."""

    def __call__(self, stream: Stream, most: int | None = None) -> Iterator[pa.Table]: ...


class TextFile(Protocol):
    """One file, which is read from its beginning to its end. Its methods raise Undecodable."""

    schema: pa.Schema
    records: Records
    columns: int
    """How many values a record may have."""
    unit: str
    """What people count in it: lines."""
    blank: bytes
    """A record of these bytes only is no row."""
    head: bytes | None
    """What the file has once and each piece needs: the header of CSV. None until it is met."""

    def text(self, parts: Iterator[bytes], lines: Lines) -> Iterator[bytes]:
        """Without what may be before the first record. Lines in it are counted."""
        ...

    def begin(self, text: bytes, before: Before) -> tuple[pa.Table, int]:
        """Meet the head. With a table without rows, and how many bytes of the text the head has."""
        ...

    def decode(self, piece: bytes, before: Before) -> pa.Table:
        """The rows of whole records."""
        ...

    def taken(self, table: pa.Table) -> None:
        """These rows fit."""
        ...

    def check(self, piece: bytes, before: Before) -> None:
        """Refuse a piece of which it is not known where its records end."""
        ...

    def end(self) -> None:
        """Refuse what is known of the whole file only."""
        ...


def tables(
    parts: Iterator[bytes], file: TextFile, most_bad: int | None = None, fits: Fits = all_fit
) -> Iterator[pa.Table]:
    """The rows of a file, or of a part of one that lacks its head: then rows and lines in a refusal count from the
    part's beginning. Rows that do not fit are left out, if they are no more than `most_bad`; None: they refuse the
    file. Raises Undecodable."""
    lines = Lines(feeds=file.records.feeds)
    lines.add(file.head or b"")
    rows = bad = 0
    for text in pieces(file.text(parts, lines), file.records, ended=lambda: lines.ended):
        if file.head is None:
            empty, size = file.begin(text, Before(0, lines.ended))
            yield empty
            lines.add(text[:size])
            text = text[size:]
        for piece in within_memory(text, file.records, file.columns):
            before = Before(rows, lines.ended)
            try:
                table = _fitting(file, piece, before, fits)
            except Undecodable:
                if most_bad is None:
                    raise
                table = _salvaged(piece, file, before, most_bad, bad, fits)
                bad += len(said_of(table).bad)
            rows += rows_with_bad(table)
            lines.add(piece)
            yield table
    file.end()


def _fitting(file: TextFile, text: bytes, before: Before, fits: Fits) -> pa.Table:
    table = file.decode(text, before)
    fits(table)
    file.taken(table)
    return table


def _salvaged(piece: bytes, file: TextFile, before: Before, most: int, bad: int, fits: Fits) -> pa.Table:
    """`most` rows of the file may be bad, of which `bad` are in earlier pieces."""
    file.check(piece, before)

    def decode(some: TextRows) -> pa.Table:
        table = _fitting(file, some.text, Before(before.rows + some.row, before.lines + some.line), fits)
        if table.num_rows != some.rows:
            raise Undecodable(f"{some.rows} records have {table.num_rows} rows")
        return table

    rows = RowsOfText.of(piece, file.records.ends(piece), file.records.line_ends(piece), file.blank)
    none = file.schema.empty_table()
    return salvaged(rows, decode, lambda record: f"{file.unit} {before.lines + record.line + 1}", none, most, bad)


@dataclass(frozen=True, slots=True)
class TextSplitter:
    """The `Splitter` of a format of text. `join` makes splits of the surveys of a file of so many bytes."""

    survey: Callable[[ByteSource, int, int], Any]
    join: Callable[[Sequence[Any], int], list[Split]]
    tables: Callable[[Stream, Split], Iterator[pa.Table]]

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        return even_ranges(size, most)

    def weight(self, surveys: Sequence[Any], size: int) -> int:
        return size

    def cut(self, surveys: Sequence[Any], size: int, most: int) -> list[Split]:
        return self.join(surveys, size)

"""Rows that do not fit are left out of a piece of text, and the others are kept (`bad_rows_share`).

It begins with a piece that the decoder has refused. The row that the refusal names is decoded alone, and so are those
before and after it; or the records are decoded in halves, each half in halves again, down to those that are refused
alone. So a row is left out only if the strict decoder refuses it alone, and what is kept is what the strict decoder
makes of it.

What is wrong with a file as a whole is not asked of rows: its header, its names, its compression, quotes that are
never closed. That still refuses the file.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidegate.formats.reasons import Oversized, TooManyBad, Undecodable
from tidegate.formats.said import BadRow, concat, said_of, say

MOST_BAD = 1_000
"""So many rows of a file are set aside at the most, whatever the share. Finding one costs up to some fifteen decodings,
and nobody looks at more."""
TRUSTED = 8
"""Of so many bad rows of a piece the refusal says which they are. Of more it is cheaper to look for them in halves."""
LONGEST_TEXT = 4_000
"""Characters of a row's text that are kept."""


@dataclass(frozen=True, slots=True)
class TextRows:
    """So many `rows` that follow each other, as the file has them. `row` is the number of the first in the piece, and
    `line` that of its first line, both from 0."""

    text: bytes
    row: int
    line: int
    rows: int


@dataclass(frozen=True, slots=True)
class RowsOfText:
    """The rows of a piece, by where each begins and ends, and by its first line. What is between two is blank. A piece
    may have four million rows of a byte each: so they are three numbers each, and no objects."""

    text: bytes
    begins: np.ndarray
    ends: np.ndarray
    lines: np.ndarray

    @staticmethod
    def of(text: bytes, ends: np.ndarray, ends_of_lines: np.ndarray, blank: bytes) -> "RowsOfText":
        """`ends` are those of its records, but perhaps for the last one; a record of `blank` bytes is no row."""
        if len(text) and not (len(ends) and ends[-1] == len(text)):
            ends = np.append(ends, len(text))
        begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        if blank:
            says = np.ones(256, bool)
            says[list(blank)] = False
            there = np.flatnonzero(says[np.frombuffer(text, np.uint8)])
            rows = np.searchsorted(there, begins) < np.searchsorted(there, ends)
            begins, ends = begins[rows], ends[rows]
        lines = np.searchsorted(ends_of_lines, begins, "right")
        return RowsOfText(text, *(each.astype(np.int32) for each in (begins, ends, lines)))

    def __len__(self) -> int:
        return len(self.begins)

    def part(self, begin: int, end: int) -> TextRows:
        """The rows from `begin` up to `end`: one at least."""
        text = self.text[self.begins[begin] : self.ends[end - 1]]
        return TextRows(text, begin, int(self.lines[begin]), end - begin)


class NoneLeft(TooManyBad):
    """No row of the file fits: it is of another kind, and not one with bad rows."""


Fits = Callable[[pa.Table], None]
"""Raises Undecodable for the first row that cannot be written, though its values fit (`formats.paths`)."""


def all_fit(table: pa.Table) -> None:
    """`Fits` of a table without partitions."""


DecodeRows = Callable[[TextRows], pa.Table]
"""The rows of a text: as many as it has. Raises Undecodable."""


def salvaged(
    rows: RowsOfText,
    decode: DecodeRows,
    place: Callable[[TextRows], str],
    none: pa.Table,
    most: int = MOST_BAD,
    before: int = 0,
) -> pa.Table:
    """The rows of a piece that fit, with what is said of the others. `place` says where one is in the file; `none` is a
    table without rows. Raises TooManyBad if more than `most` of the file do not fit, of which `before` are in earlier
    pieces; and Oversized."""
    tables: list[pa.Table] = []
    bad: list[BadRow] = []
    waiting = [(0, len(rows))]
    while waiting:
        begin, end = waiting.pop()
        if begin == end:
            continue
        try:
            tables.append(decode(rows.part(begin, end)))
            continue
        except Oversized:
            raise
        except Undecodable as error:
            refused = error
        if end - begin > 1:
            waiting += _parts(begin, end, refused.row if len(bad) < TRUSTED else None)
            continue
        record = rows.part(begin, end)
        text = record.text.decode("utf-8", "replace").rstrip("\r\n")[:LONGEST_TEXT]
        bad.append(BadRow(record.row, place(record), text, str(refused)))
        if before + len(bad) > most:
            raise TooManyBad(_beyond(most), bad[0].error, bad[0].where)
    kept = concat(tables) if tables else none
    return say(kept, replace(said_of(kept), bad=tuple(bad)))


def _parts(begin: int, end: int, row: int | None) -> list[tuple[int, int]]:
    """What is decoded instead of these records, the last of them first. `row` is the one that the refusal names, from
    `begin`: it is decoded alone, and so are the others, which saves most of the halving. It is no more than a hint."""
    if row is None or not 0 <= row < end - begin:
        middle = (begin + end) // 2
        return [(middle, end), (begin, middle)]
    at = begin + row
    return [(at + 1, end), (at, at + 1), (begin, at)]


def rows_with_bad(table: pa.Table) -> int:
    """How many rows the file has where the table comes from: its own, and those that were left out."""
    return table.num_rows + len(said_of(table).bad)


def places_of(table: pa.Table) -> np.ndarray:
    """The number of each row of the table among the rows that it comes from, from 0."""
    bad = [each.row for each in said_of(table).bad]
    places = np.arange(table.num_rows + len(bad))
    return np.delete(places, bad) if bad else places


def allowed(rows: int, share: float) -> int:
    """How many of so many rows may be bad: 29 of 100 if the share is 0.29, which as a float is a little less."""
    return min(MOST_BAD, int(rows * share + 1e-9))


def limited(tables: Iterable[pa.Table], share: float) -> Iterator[pa.Table]:
    """The tables of a file, as they come. Raises TooManyBad after the last one, if more than `share` of all rows are
    bad, or none is left."""
    rows = bad = 0
    first: BadRow | None = None
    for table in tables:
        found = said_of(table).bad
        rows, bad = rows + table.num_rows, bad + len(found)
        first = first or next(iter(found), None)
        yield table
    if first and (not rows or bad > allowed(rows + bad, share)):
        how_many = f"{bad} of {rows + bad} rows {'does' if bad == 1 else 'do'} not fit"
        if not rows:
            raise NoneLeft(f"{how_many}, and no row is left", first.error, first.where)
        raise TooManyBad(f"{how_many}, and bad_rows_share of the route is {share:g}", first.error, first.where)


def _beyond(most: int) -> str:
    if not most:
        return "a row does not fit, and bad_rows_share allows none in a file of so few"
    rows = "1 row does" if most == 1 else f"{most} rows do"
    return f"more than {rows} not fit, which is the most that may be set aside of this file"

"""Rows that do not fit are left out of a piece of text, and the others are kept (`bad_rows = "set aside"`).

It begins with a piece that the decoder has refused. Its records are decoded in halves, each half in halves again, down
to the records that are refused alone. So a row is left out only if the strict decoder refuses it alone, and what is
kept is what the strict decoder makes of it.

What is wrong with a file as a whole is not asked of rows: its header, its names, its compression, quotes that are
never closed. That still refuses the file.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidegate.formats.reasons import Oversized, Undecodable
from tidegate.formats.said import BadRow, concat, said_of, say

MOST_BAD = 1_000
"""So many rows of a file are set aside at the most, whatever the share. Finding one costs some twenty decodings, and
nobody looks at more."""
LONGEST_TEXT = 4_000
"""Characters of a row's text that are kept."""


@dataclass(frozen=True, slots=True)
class TextRecord:
    """One row as the file has it. `row` is its number in the piece, and `line` that of its first line, both from 0."""

    text: bytes
    row: int
    line: int


class NoneLeft(Undecodable):
    """No row of the file fits: it is of another kind, and not one with bad rows."""


DecodeRecords = Callable[[Sequence[TextRecord]], pa.Table]
"""The rows of some records that follow each other: one for each. Raises Undecodable."""


def salvaged(
    records: Sequence[TextRecord], decode: DecodeRecords, place: Callable[[TextRecord], str], none: pa.Table
) -> pa.Table:
    """The rows of the records of a piece that fit, with what is said of the others. `place` says where a record is in
    the file; `none` is a table without rows. Raises Undecodable if more than `MOST_BAD` do not fit, and Oversized."""
    tables: list[pa.Table] = []
    bad: list[BadRow] = []
    first: Undecodable | None = None
    waiting = [(0, len(records))]
    while waiting:
        begin, end = waiting.pop()
        if begin == end:
            continue
        try:
            tables.append(decode(records[begin:end]))
            continue
        except Oversized:
            raise
        except Undecodable as error:
            refused = error
        if end - begin > 1:
            middle = (begin + end) // 2
            waiting += [(middle, end), (begin, middle)]
            continue
        first = first or refused
        if len(bad) == MOST_BAD:
            raise Undecodable(_too_many(f"more than {MOST_BAD} rows", "that is the most of a file", str(first)))
        record = records[begin]
        text = record.text.decode("utf-8", "replace").rstrip("\r\n")[:LONGEST_TEXT]
        bad.append(BadRow(record.row, place(record), text, str(refused)))
    kept = concat(tables) if tables else none
    return say(kept, replace(said_of(kept), bad=tuple(bad)))


def rows_with_bad(table: pa.Table) -> int:
    """How many rows the file has where the table comes from: its own, and those that were left out."""
    return table.num_rows + len(said_of(table).bad)


def places_of(table: pa.Table) -> np.ndarray:
    """The number of each row of the table among the rows that it comes from, from 0."""
    return np.delete(np.arange(rows_with_bad(table)), [each.row for each in said_of(table).bad])


def limited(tables: Iterable[pa.Table], share: float) -> Iterator[pa.Table]:
    """The tables of a file, as they come. Raises Undecodable as soon as too many rows are bad: after the last table, if
    they are more than `share` of all rows, or if no row is left."""
    rows = bad = 0
    first: BadRow | None = None
    for table in tables:
        found = said_of(table).bad
        rows, bad = rows + table.num_rows, bad + len(found)
        first = first or next(iter(found), None)
        if bad > MOST_BAD and first:
            raise Undecodable(_too_many(f"more than {MOST_BAD} rows", "that is the most of a file", first.error))
        yield table
    if first and (not rows or bad > share * (rows + bad)):
        how_many = f"{bad} of {rows + bad} rows"
        if not rows:
            raise NoneLeft(_too_many(how_many, "no row is left", first.error))
        raise Undecodable(_too_many(how_many, f"bad_rows_share of the route is {share:g}", first.error))


def _too_many(how_many: str, most: str, first: str) -> str:
    return f"{how_many} do not fit, and {most}: correct the file. The first: {first}"

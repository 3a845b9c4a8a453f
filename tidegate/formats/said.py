"""What a decoder says of a table beside its rows. It is in the metadata of the table's schema: so it goes wherever the
table goes, also through the pipe of careful mode.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tidegate.formats.places import quoted

KEY = b"tidegate.said"

RowRanges = tuple[tuple[int, int], ...]
"""Rows of a table as ranges, each from the first up to the one after the last; in order."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row of the file that is not among the table's: `row` is its number in the file, from 0, `place` where that is,
    `text` how the file has it (cut), `error` why it does not fit."""

    row: int
    place: str
    text: str
    error: str

    @property
    def where(self) -> str:
        """As `formats.places` says it."""
        return f"{self.place}: {quoted(self.text.encode())}"


@dataclass(frozen=True, slots=True)
class Said:
    """`unknown` are the names that are in the file and not in the schema, each with the rows of the table that have it;
    None if all have it. `bad` are the rows that do not fit, in order. `kinds`: the type of a column for each of these
    names that has a type in the file, as DDL has it."""

    unknown: Mapping[str, RowRanges | None] = field(default_factory=dict)
    bad: tuple[BadRow, ...] = ()
    kinds: Mapping[str, str] = field(default_factory=dict)


NOTHING = Said()


def say(table: pa.Table, said: Said) -> pa.Table:
    """The table, with nothing else said of it."""
    if said == NOTHING:
        return table.replace_schema_metadata(None) if table.schema.metadata else table
    told = {
        "unknown": said.unknown,
        "bad": [[each.row, each.place, each.text, each.error] for each in said.bad],
        "kinds": dict(said.kinds),
    }
    return table.replace_schema_metadata({KEY: json.dumps(told).encode()})


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """The tables of a file, which follow each other, as one: with what is said of them."""
    unknown: dict[str, RowRanges | None] = {}
    kinds: dict[str, str] = {}
    bad: list[BadRow] = []
    rows = 0
    for table in tables:
        said = said_of(table)
        unknown |= {name: _and(unknown.get(name, ()), ranges, rows) for name, ranges in said.unknown.items()}
        kinds |= said.kinds
        bad += [replace(each, row=rows + len(bad) + each.row) for each in said.bad]
        rows += table.num_rows
    return say(pa.concat_tables(tables), Said(unknown, tuple(bad), kinds))


def _and(before: RowRanges | None, more: RowRanges | None, rows: int) -> RowRanges | None:
    """`more` are ranges of a table before which there are `rows` rows."""
    if before is None or more is None:
        return None
    return (*before, *((begin + rows, end + rows) for begin, end in more))


def said_of(table: pa.Table) -> Said:
    found = (table.schema.metadata or {}).get(KEY)
    if found is None:
        return NOTHING
    told = json.loads(found)
    unknown = {
        name: None if rows is None else tuple((begin, end) for begin, end in rows)
        for name, rows in told["unknown"].items()
    }
    return Said(unknown, tuple(BadRow(*each) for each in told["bad"]), told["kinds"])

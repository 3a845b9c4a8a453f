"""Columns that a table has and the route's schema lacks (`unknown = "add"`): what becomes their values.

    JSON and CSV             what a row has beyond the schema is kept as JSON first (`formats.json_unknown`,
                             `formats.rest`). A member of that text that is called as such a column, and whose value
                             fits it, becomes its value
    Avro, ORC and Parquet    a column of the file becomes the table's, if all of its values that are decoded at a time
                             fit (`formats.columns.conform`): they have a type

Any other value stays in `_unknown`. So none is lost, and no row is refused for what the schema does not name.

Names that are no columns yet are noted, with the type that `tidegate init` would write for their values.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.formats.columns import conform
from tidegate.formats.dialect import Dialect, of_options
from tidegate.formats.guess_text import Digits, GuessedType, SeenValues, without_repeated
from tidegate.formats.json_lines import make_taker
from tidegate.formats.json_unknown import MOST_RANGES, OBJECT, ranges_of
from tidegate.formats.json_values import maker, python_type
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import DELIMITER, REST, Format
from tidegate.formats.said import RowRanges, said_of, say
from tidegate.formats.text_values import may_be, within
from tidegate.formats.type_names import is_text
from tidegate.formats.unfit import OF_VALUES

TEXT = pa.string()
NULL = b"null"
NESTED = b"{["
FILLED = ("boolean", "int", "bigint", "float", "double", "string", "date", "timestamp", "timestamp_ntz")
"""The types of columns beside the route's that are filled, and decimals. Of these the widest of a kind are added, so a
later file widens none."""
NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_ -]*[A-Za-z0-9_-])?")
"""Of a column that is filled."""
LONGEST = 100
"""Characters of the name of such a column."""
MOST_SEEN = 10_000
"""The type of a name is told by so many of its values in a task."""
MOST_LOOKED_AT = 200_000
"""So many values of names without a column are looked at in a task."""
ROWS = 16_384
"""So many rows are taken at a time: their members are objects of Python."""


FilledRows = tuple[list[pa.Array], pa.Array, dict[str, list[int]]]
"""Columns, what stays of the texts, and the rows for each column whose values stay."""


@dataclass(frozen=True)
class AddedColumns:
    """The columns of `schema` are those that the table has and the route's schema lacks: single values, nullable.
    `dialect` is that of CSV, which has every value as text; None for other formats."""

    schema: pa.Schema
    dialect: Dialect | None = None

    @staticmethod
    def of(schema: pa.Schema, format: Format, options: Mapping[str, Any]) -> "AddedColumns":
        return AddedColumns(pa.schema([field.remove_metadata() for field in schema]), dialect_of(format, options))

    def filled(self, table: pa.Table) -> pa.Table:
        """The table, whose last column is `_unknown`, with these columns. Their names are said of the rows whose
        values stay there."""
        columns, texts, stays = self.taken(table[REST])
        table_of_all = pa.Table.from_arrays(
            [*table.columns[:-1], texts, *columns], schema=pa.schema([*table.schema, *self.schema])
        )
        said = said_of(table)
        unknown = {name: rows for name, rows in said.unknown.items() if name not in self.schema.names}
        return say(table_of_all, replace(said, unknown={**unknown, **stays}))

    def taken(self, rest: pa.ChunkedArray) -> tuple[list[pa.Array], pa.Array, dict[str, RowRanges]]:
        """The columns for these texts, what stays of the texts, and which rows have a value of a column that stays."""
        columns: list[list[pa.Array]] = []
        texts: list[pa.Array] = []
        stay: dict[str, list[tuple[int, int]]] = {}
        for begin in range(0, max(1, len(rest)), ROWS):
            found, left, stays = self._of_some(rest.slice(begin, ROWS))
            columns.append(found)
            texts.append(left)
            for name, rows in stays.items():
                stay.setdefault(name, []).extend((begin + one, begin + end) for one, end in ranges_of(rows))
        return (
            [pa.concat_arrays(each) for each in zip(*columns, strict=True)],
            pa.concat_arrays(texts),
            {name: _few_ranges(ranges) for name, ranges in stay.items()},
        )

    @cached_property
    def _take(self) -> Callable[[bytes], pa.Table]:
        kinds = [pa.field(each.name, TEXT) for each in self.schema] if self.dialect else list(self.schema)
        return make_taker(pa.schema([*kinds, (REST, TEXT)]))

    def _of_some(self, rest: pa.ChunkedArray) -> FilledRows:
        valid = rest.drop_null()
        if not len(valid):
            return [pa.nulls(len(rest), each.type) for each in self.schema], pa.nulls(len(rest), TEXT), {}
        try:
            columns, left, odd = self._all(b"\n".join(valid.cast(pa.binary()).to_pylist()))
        except Undecodable:
            return self._one_by_one(rest)
        there = np.asarray(rest.is_valid())
        if len(valid) < len(rest):
            places = pa.array(np.cumsum(there) - 1, mask=~there)
            columns, left = [each.take(places) for each in columns], left.take(places)
        return columns, left, {name: np.flatnonzero(there)[rows].tolist() for name, rows in odd.items()}

    def _all(self, lines: bytes) -> tuple[list[pa.Array], pa.Array, dict[str, list[int]]]:
        """As `FilledRows`, of lines that are all there. Raises Undecodable if a value does not fit, unless all are
        texts, as those of CSV."""
        table = self._take(lines)
        columns, left = [column.combine_chunks() for column in table.columns[:-1]], table[REST].combine_chunks()
        odd: dict[str, list[int]] = {}
        if self.dialect:
            for number, field in enumerate(self.schema):
                columns[number], rows = self._of_texts(columns[number], field)
                odd |= {field.name: rows} if rows else {}
            left = _put_back(left, table, odd)
        return columns, left, odd

    def _of_texts(self, texts: pa.Array, field: pa.Field) -> tuple[pa.Array, list[int]]:
        """The column, and the rows whose texts do not fit it."""
        try:
            return self._conformed(texts, field), []
        except Undecodable:
            there = np.flatnonzero(np.asarray(texts.is_valid()))
            array, kept = self._fitting(texts.drop_null().to_pylist(), field)
            places = np.full(len(texts), -1)
            places[there[kept]] = np.arange(len(kept))
            odd = np.setdiff1d(there, there[kept])
            return array.take(pa.array(places, mask=places < 0)), odd.tolist()

    def _one_by_one(self, rest: pa.ChunkedArray) -> FilledRows:
        """Of JSON, if some values do not fit."""
        texts = rest.cast(pa.binary()).to_pylist()
        rows = [row for row, text in enumerate(texts) if text is not None]
        lines = OBJECT.decode_lines(b"\n".join(texts[row] for row in rows))
        sizes = [len(line) for line in lines]
        there: dict[str, list[tuple[int, msgspec.Raw]]] = {name: [] for name in self.schema.names}
        for number, line in enumerate(lines):
            for name in line.keys() & there.keys():
                there[name].append((number, line[name]))
        columns = [self._column(lines, rows, len(texts), each, there[each.name]) for each in self.schema]
        for row, line, size in zip(rows, lines, sizes, strict=True):
            if len(line) < size:
                texts[row] = msgspec.json.encode(line) if line else None
        stay = {name: [rows[number] for number, _ in found if name in lines[number]] for name, found in there.items()}
        return columns, pa.array(texts, pa.binary()).cast(TEXT), {name: each for name, each in stay.items() if each}

    def _column(
        self,
        lines: Sequence[dict[str, msgspec.Raw]],
        rows: Sequence[int],
        count: int,
        field: pa.Field,
        there: Sequence[tuple[int, msgspec.Raw]],
    ) -> pa.Array:
        """The values of a column, which leave the lines. `there` are the numbers of the lines that have one."""
        if not there:
            return pa.nulls(count, field.type)
        values = [(number, value) for number, value in _read(there, field.type) if value is not None]
        array, kept = self._fitting([value for _, value in values], field)
        places: list[int | None] = [None] * count
        for place, number in enumerate(kept):
            places[rows[values[number][0]]] = place
            del lines[values[number][0]][field.name]
        for number, raw in there:
            if bytes(raw) == NULL:
                del lines[number][field.name]
        return array.take(pa.array(places, pa.int64()))

    def _fitting(self, values: Sequence[Any], field: pa.Field) -> tuple[pa.Array, Sequence[int]]:
        """Those that fit, and their numbers. Found by halves: most values fit, or their neighbours do not either."""
        odd: set[Any] = set()
        kept: list[int] = []
        arrays = [pa.array([], field.type)]
        waiting = [self._likely(values, field.type)]
        while waiting:
            some = waiting.pop()
            if len(some) == 1 and values[some[0]] in odd:
                continue
            try:
                arrays.append(self._conformed(self._held([values[number] for number in some], field.type), field))
                kept += some
            except MemoryError:
                raise
            except (Undecodable, *OF_VALUES):
                if len(some) == 1:
                    odd.add(values[some[0]])
                else:
                    middle = len(some) // 2
                    waiting += [some[middle:], some[:middle]]
        return pa.concat_arrays(arrays), kept

    def _likely(self, values: Sequence[Any], kind: pa.DataType) -> Sequence[int]:
        """The numbers of the values that may fit: all that do."""
        there = range(len(values))
        if not self.dialect and python_type(kind) in (int, float):
            return [number for number, value in enumerate(values) if within(value, kind)]
        if is_text(kind) or not (self.dialect or python_type(kind) in (str, msgspec.Raw)):
            return there
        try:
            texts = self._held(values, kind)
        except OF_VALUES:
            return there
        plain = self.dialect.plain(texts, kind) if self.dialect else texts
        return np.flatnonzero(may_be(plain, kind)).tolist()

    def _conformed(self, held: pa.Array, field: pa.Field) -> pa.Array:
        """Raises Undecodable if one does not fit."""
        made = conform(pa.table({field.name: held}), pa.schema([field]), texts=True, dialect=self.dialect)
        return made.column(0).combine_chunks()

    def _held(self, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        """As Arrow has them before they are read. Raises `OF_VALUES`."""
        return pa.array(values, TEXT) if self.dialect else maker(kind)(values)


def _put_back(left: pa.Array, given: pa.Table, odd: Mapping[str, Sequence[int]]) -> pa.Array:
    """What stays of the texts, with the values of these rows that do not fit their columns."""
    if not odd:
        return left
    texts = left.cast(pa.binary()).to_pylist()
    members: dict[int, dict[str, Any]] = {}
    for name, rows in odd.items():
        for row, value in zip(rows, given[name].take(pa.array(rows)).to_pylist(), strict=True):
            members.setdefault(row, {})[name] = value
    for row, odd_ones in members.items():
        line = OBJECT.decode(texts[row]) if texts[row] else {}
        texts[row] = msgspec.json.encode(dict(sorted({**line, **odd_ones}.items())))
    return pa.array(texts, pa.binary()).cast(TEXT)


Numbered = list[tuple[int, Any]]


def _read(there: Sequence[tuple[int, msgspec.Raw]], kind: pa.DataType) -> Numbered:
    """The values of these numbers that JSON has as such a type. Null is among them."""
    wanted: Any = python_type(kind)
    if wanted is msgspec.Raw:
        # a number or a text, digit for digit
        return [(number, bytes(raw)) for number, raw in there if bytes(raw) != NULL and bytes(raw)[:1] not in NESTED]
    kind_of_all: Any = list[wanted | None]
    try:
        values = msgspec.json.decode(b"[" + b",".join(raw for _, raw in there) + b"]", type=kind_of_all)
        return [(number, value) for (number, _), value in zip(there, values, strict=True)]
    except msgspec.DecodeError:
        decode = msgspec.json.Decoder(wanted | None).decode
    found: Numbered = []
    for number, raw in there:
        try:
            found.append((number, decode(raw)))
        except msgspec.DecodeError:
            continue
    return found


def is_name(name: str) -> bool:
    """Whether a column that is filled may be called so. Spark puts the value of a setting or of a variable in place of
    `${...}`, also in a quoted name, and tells letters beyond ASCII apart otherwise than Python does. Names that begin
    with `_` are Tidegate's, or Iceberg's own: a table with a column `_pos` cannot be read
    (https://iceberg.apache.org/spec/#reserved-field-ids)."""
    return len(name) <= LONGEST and NAME.fullmatch(name) is not None


def _few_ranges(ranges: Sequence[tuple[int, int]]) -> RowRanges:
    """As in `formats.json_unknown`."""
    return tuple(ranges) if len(ranges) <= MOST_RANGES else ((ranges[0][0], ranges[-1][1]),)


def dialect_of(format: Format, options: Mapping[str, Any]) -> Dialect | None:
    """As in `AddedColumns`."""
    return of_options(dict(options)) if DELIMITER in format.options else None


@dataclass
class NewNames:
    """The names without a column that a task has met. `dialect` as in `AddedColumns`."""

    dialect: Dialect | None = None
    seen: dict[str, SeenValues] = field(default_factory=dict)
    nested: set[str] = field(default_factory=set)
    stated: dict[str, str] = field(default_factory=dict)
    """The types of those that files state themselves."""
    _looked_at: int = 0

    def note(self, table: pa.Table, *, of_text: bool) -> None:
        """What a table with the column `_unknown` has there. `of_text`: its format has no types."""
        if not of_text:
            self.stated = both(self.stated, said_of(table).kinds)
        elif self._looked_at < MOST_LOOKED_AT and (rest := table[REST]).null_count < len(rest):
            texts = rest.drop_null().cast(pa.binary()).to_pylist()
            self.see(OBJECT.decode_lines(b"\n".join(texts)))

    def see(self, lines: Sequence[Mapping[str, msgspec.Raw]]) -> None:
        for line in lines:
            for name, raw in line.items():
                if self._looked_at == MOST_LOOKED_AT:
                    return
                self._looked_at += 1
                known = self.seen.setdefault(name, SeenValues())
                if name not in self.nested and known.values < MOST_SEEN:
                    self._add(name, known, bytes(raw))

    def _add(self, name: str, known: SeenValues, raw: bytes) -> None:
        if raw[:1] in NESTED:
            self.nested.add(name)
            return
        value = json.loads(raw, parse_int=Digits, parse_float=Digits)
        if self.dialect is None or not isinstance(value, str):
            known.of_json(value)
        elif (plain := self.dialect.guessed_plain(value)) is not None:
            known.of_csv(plain, quoted=True)

    def types(self) -> dict[str, str]:
        """The type of the column that each name may become. A name with values of several kinds becomes none."""
        found = {name: self._type(each) for name, each in self.seen.items() if name not in self.nested and each.kinds}
        found |= {name: GuessedType(kind) for name, kind in self.stated.items()}
        kept, _ = without_repeated(found)
        return {name: each.ddl for name, each in kept.items() if each.ddl and is_filled(each.ddl) and is_name(name)}

    def _type(self, seen: SeenValues) -> GuessedType:
        return seen.json_type() if self.dialect is None else seen.csv_type()


def both(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """What two tasks have found, together. A name with values of several kinds becomes no column: its type is ""."""
    found = {**one, **other}
    for name in one.keys() & other.keys():
        if one[name] != other[name]:
            found[name] = "double" if {one[name], other[name]} == {"bigint", "double"} else ""
    return found


def is_filled(kind: str) -> bool:
    """Whether a column beside the route's is filled if it has this type."""
    return kind in FILLED or kind.startswith("decimal(")

"""The Arrow arrays of a reader become columns of exactly the schema, or a reason for refusal.

- Values that a format has as text (all of CSV; decimals, times, dates and bytes of JSON) are read here, by one grammar.
- Other values (all of Parquet; the rest of JSON) are cast, if they mean the same in the wanted type and each value
  fits.
- The result is checked once, at any depth: no number became infinite, no time or date is outside the years 0001 to
  9999, and nothing is null that must not be.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.complaints import of_text, of_types, of_value, shown
from tidegate.formats.dialect import Dialect
from tidegate.formats.reasons import Undecodable, first_line
from tidegate.formats.registry import KEEP, REPORT
from tidegate.formats.rest import rest_of
from tidegate.formats.said import say
from tidegate.formats.text_values import read_texts
from tidegate.formats.type_names import as_list, is_bytes, is_list, is_text, type_name, widest_type
from tidegate.formats.unfit import OF_VALUES, Unfit, first_refused, unfit_text, unfit_value
from tidegate.formats.unknown import beside, known, of_header, stated

types = pa.types

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31 as days since 1970: the range of Spark's types, and of ISO 8601 with four digits."""
FIRST_MICROSECOND, LAST_MICROSECOND = FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000 - 1


def check_type(kind: pa.DataType) -> None:
    """Raises ValueError if no file can hold such a column."""
    if types.is_struct(kind):
        for field in kind:
            check_type(field.type)
    elif is_list(kind):
        check_type(kind.value_type)
    elif types.is_map(kind):
        check_type(kind.key_type)
        check_type(kind.item_type)
    elif not (
        types.is_boolean(kind)
        or types.is_signed_integer(kind)
        or kind in (pa.float32(), pa.float64())
        or types.is_decimal128(kind)
        or is_text(kind)
        or is_bytes(kind)
        or (types.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"))
        or types.is_date32(kind)
    ):
        raise ValueError(f"files cannot hold a column of type {type_name(kind)}")


def row_number(before: int, row: int) -> str:
    """Where a row is, in formats that have no lines of their own. Whoever reads it counts from 1."""
    return f"row {before + row + 1}"


def conform(
    table: pa.Table,
    schema: pa.Schema,
    *,
    texts: bool,
    instants: frozenset[str] = frozenset(),
    before: int = 0,
    place: Callable[[int], str] | None = None,
    names: Sequence[str] | None = None,
    dialect: Dialect | None = None,
    unknown: str = REPORT,
) -> pa.Table:
    """`table` with exactly the columns of `schema`: missing ones null, none changed in meaning. Raises Undecodable.

    With `texts`, text is read where the schema has another type. `instants` names the columns whose times without a
    zone are instants in UTC. `before` rows of the file come before the table's; `place` says where a row is in a format
    that has lines. `names` are all columns of a file
    that states them once: what the schema lacks of them, also within nested columns, is said of the table. `dialect`
    says how its texts are written, if they are CSV's. If the `unknown` values are kept, `table` has those columns, too.
    A column beside the route's (`formats.unknown.beside`) is null if a value of the table's does not fit it: all of
    them are kept then.
    """
    place = place or partial(row_number, before)
    there_are = {name: number for number, name in enumerate(table.column_names)}

    def column(field: pa.Field) -> pa.ChunkedArray:
        number = there_are.get(field.name)
        there = pa.chunked_array([pa.nulls(table.num_rows, field.type)]) if number is None else table.column(number)
        if field.nullable and (number is None or (texts and there.type == field.type and _is_plain(field.type))):
            return there
        return _ColumnReading(texts, field.name in instants, place, dialect).column(there, field)

    given = known(schema, unknown)
    columns = [column(field) for field in given]
    lost: list[str] = []
    if unknown == KEEP:
        filled = []
        for field in beside(schema):
            try:
                filled.append(column(field))
            except Undecodable:
                filled.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
                lost.append(field.name)
        given = pa.schema([*given, *(field for field in beside(schema) if field.name not in lost)])
        columns += [rest_of(table, given, instants), *filled]
    done = pa.Table.from_arrays(columns, schema=schema)
    if names is None:
        return say(done, stated(lost)) if lost else done
    kinds = {} if texts else kinds_beyond(table.schema, schema, instants)
    return say(done, of_header(names, table.schema, given, kinds))


def kinds_beyond(there: pa.Schema, schema: pa.Schema, instants: frozenset[str] = frozenset()) -> dict[str, str]:
    """The types of the columns that may be made for those that the schema lacks, as `formats.said` has them."""
    found = {field.name: widest_type(field.type) for field in there if field.name not in schema.names}
    found |= {name: "timestamp" for name in instants & found.keys() if found[name] == "timestamp_ntz"}
    return {name: kind for name, kind in found.items() if kind is not None}


class _ColumnReading:
    """How the values of one column are read."""

    def __init__(
        self, texts: bool, instants: bool, place: Callable[[int], str], dialect: Dialect | None = None
    ) -> None:
        self.texts = texts
        self.instants = instants
        self.place = place
        self.dialect = dialect

    def column(self, column: Any, field: pa.Field) -> pa.ChunkedArray:
        done = []
        before = 0
        try:
            for chunk in column.chunks or [pa.array([], column.type)]:
                done.append(self._chunk(chunk, field))
                before += len(chunk)
        except Unfit as error:
            row = None if error.row is None else before + error.row
            raise self._refused(f"{field.name}{error.path}", row, error.value, first_line(error)) from error
        except MemoryError:
            raise
        except OF_VALUES as error:
            first = first_refused(chunk, lambda some: self._chunk(some, field))
            row = None if first is None else before + first
            raise self._refused(field.name, row, "", f"cannot be read: {first_line(error)}") from error
        return pa.chunked_array(done, field.type)

    def _chunk(self, chunk: pa.Array, field: pa.Field) -> pa.Array:
        if not self.texts:
            chunk.validate(full=True)
        return self._field(chunk, field)

    def _refused(self, path: str, row: int | None, value: str, why: str) -> Undecodable:
        """`line 3: total = 1.239 has ...`; of a type `column total: ...`."""
        if row is None:
            return Undecodable(f"column {path}: {why}")
        return Undecodable(f"{self.place(row)}: {path}{f' = {value}' if value else ''} {why}", row=row)

    def _field(self, array: pa.Array, field: pa.Field, absent: pa.Array | None = None) -> pa.Array:
        """`array` as the type of `field`; where `absent` is true, no value is required."""
        array = self._array(array, field.type)
        if not field.nullable and array.null_count:
            missing = pc.is_null(array)
            missing = missing if absent is None else pc.and_not(missing, absent)
            if (row := pc.index(missing, True).as_py()) >= 0:
                why = "is null or missing, and the schema says not null: give it a value, or take `not null` away"
                raise Unfit(why, row)
        return array

    def _array(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if types.is_null(array.type):
            return pa.nulls(len(array), kind)
        if types.is_struct(kind) and types.is_struct(array.type):
            return self._struct(array, kind)
        if (is_list(kind) and is_list(array.type)) or (types.is_map(kind) and types.is_map(array.type)):
            return self._list(array, kind)
        if types.is_nested(kind) or types.is_nested(array.type):
            raise Unfit(of_types(array.type, kind))
        try:
            return self._values(array, kind)
        except MemoryError:
            raise
        except OF_VALUES as error:
            raise self._explained(array, kind, error) from error

    def _values(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        """Those of an array without parts."""
        if self.texts and is_text(array.type) and not is_text(kind):
            values = self._read(array, kind)
        else:
            values = self._cast(array, kind)
        if types.is_temporal(kind):
            _check_years(values, kind)
        return values

    def _read(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """The values of texts, as they are written in this file."""
        if self.dialect is None:
            return read_texts(texts, kind)
        try:
            return read_texts(self.dialect.plain(texts, kind), kind)
        except Unfit as error:
            if error.row is None:
                raise
            raise self._unfit_text(texts[error.row].as_py(), error.row, kind) from error

    def _unfit_text(self, text: str, row: int, kind: pa.DataType) -> Unfit:
        if self.dialect is None:
            return unfit_text(text, row, kind)
        plain = self.dialect.plain(pa.array([text]), kind)[0].as_py()
        called, why = of_text(plain, kind)
        return Unfit(self.dialect.why(text, plain, kind, why), row, called.replace(plain, text))

    def _explained(self, array: pa.Array, kind: pa.DataType, error: Exception) -> Unfit:
        """The first value that Arrow refuses, and why: its own message names neither."""
        row = first_refused(array, lambda some: self._values(some, kind))
        if row is None or (types.is_integer(array.type) and types.is_decimal(kind)):
            # Arrow wants a decimal that holds every number of the type, not only those that are there
            return Unfit(of_types(array.type, kind))
        value = array.slice(row, 1)
        if self.texts and is_text(array.type) and not is_text(kind):
            return self._unfit_text(value[0].as_py(), row, kind)
        called, why = of_value(value, kind) or ("", f"cannot be read as {type_name(kind)}: {first_line(error)}")
        return Unfit(why, row, called)

    def _struct(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        there = [array.type.field(number).name for number in range(array.type.num_fields)]
        if repeated := [field.name for field in kind if there.count(field.name) > 1]:
            raise Unfit(f"several fields called {repeated[0]!r} in the file: rename one")
        if not any(field.name in there for field in kind):
            raise Unfit(f"they share no field: {of_types(array.type, kind)}")
        absent = pc.is_null(array)
        members = dict(zip(there, array.flatten(), strict=True))
        fields = []
        for field in kind:
            try:
                fields.append(self._field(members.get(field.name, pa.nulls(len(array), field.type)), field, absent))
            except Unfit as error:
                raise error.within(f".{field.name}") from None
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=absent)

    def _list(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        """A list, or a map, which Arrow keeps as a list of pairs."""
        array = as_list(array)
        values = array.flatten()
        try:
            if types.is_map(kind):
                keys, items = values.flatten()
                inner: tuple[pa.Array, ...] = (self._field(keys, kind.key_field), self._field(items, kind.item_field))
            else:
                inner = (self._field(values, kind.value_field),)
        except Unfit as error:
            if error.row is not None:
                error.row = pc.list_parent_indices(array)[error.row].as_py()
            raise error.within("[]") from None
        lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
        ends = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
        offsets = pa.array(ends, pa.int64() if types.is_large_list(kind) else pa.int32())
        make = pa.MapArray if types.is_map(kind) else pa.LargeListArray if types.is_large_list(kind) else pa.ListArray
        return make.from_arrays(offsets, *inner, type=kind, mask=pc.is_null(array))

    def _cast(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        """Values as values of another type, if they mean the same there."""
        there = array.type
        if types.is_timestamp(there) and types.is_timestamp(kind):
            zoned = there.tz is not None or self.instants
            if zoned and kind.tz is None:
                called = type_name(there) if there.tz else "INT96"
                raise Unfit(
                    f"{called} in the file, {type_name(kind)} in the schema: an instant is no local time. Make the"
                    " column a timestamp"
                )
            if kind.tz is not None and not zoned:
                raise Unfit(
                    f"{type_name(there)} in the file, {type_name(kind)} in the schema: a time without a zone is no"
                    " instant. Write the zone, or make the column a timestamp_ntz"
                )
        if there == kind:
            return array
        if not _fits(there, kind):
            raise Unfit(of_types(there, kind))
        values = array.cast(kind, safe=True)
        if types.is_decimal(there) and types.is_decimal(kind) and kind.scale > there.scale:
            # of more than 38 digits Arrow makes another number (pyarrow 26.0.1)
            same = pc.equal(values.cast(there, safe=False), array)
            if (row := pc.index(same, False).as_py()) >= 0:
                raise unfit_value(array, row, kind)
        if types.is_floating(kind):
            # a number that is too large for a smaller float becomes infinite, which Arrow takes for safe
            lost = pc.is_inf(values)
            lost = pc.and_not(lost, pc.is_inf(array)) if types.is_floating(there) else lost
            if (row := pc.index(lost, True).as_py()) >= 0:
                raise unfit_value(array, row, kind)
        return values


def _check_years(values: pa.Array, kind: pa.DataType) -> None:
    """Refuse times and dates that Spark and Iceberg cannot hold."""
    if types.is_date(kind):
        numbers, first, last = values.view(pa.int32()), FIRST_DAY, LAST_DAY
    else:
        numbers, first, last = values.view(pa.int64()), *(FIRST_MICROSECOND, LAST_MICROSECOND)
    met = pc.min_max(numbers)
    if met["min"].is_valid and (met["min"].as_py() < first or met["max"].as_py() > last):
        outside = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
        row = pc.index(outside, True).as_py()
        raise Unfit("is outside the years 0001 to 9999: correct it", row, _as_text(values, row))


def _as_text(values: pa.Array, row: int) -> str:
    """A time or a date that Python cannot hold."""
    try:
        return shown(values.slice(row, 1).cast(pa.string())[0].as_py())[1:-1]
    except pa.ArrowInvalid:
        return str(values.slice(row, 1).view(pa.int32() if types.is_date(values.type) else pa.int64())[0].as_py())


def _fits(there: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type mean the same in the other. A safe cast then checks that each value fits."""
    families = (
        (types.is_integer, (types.is_integer, types.is_floating, types.is_decimal)),
        (types.is_floating, (types.is_floating,)),
        (types.is_timestamp, (types.is_timestamp,)),
        (types.is_decimal, (types.is_decimal,)),
        (types.is_date, (types.is_date,)),
        (is_text, (is_text,)),
        (is_bytes, (is_bytes,)),
    )
    return any(of(there) and any(to(wanted) for to in into) for of, into in families)


def leaves(column: Any) -> Iterator[pa.Array]:
    """The arrays of values in a column, at any depth."""
    for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if types.is_struct(array.type):
            for member in array.flatten():
                yield from leaves(member)
        elif types.is_nested(array.type):
            yield from leaves(as_list(array).flatten())
        else:
            yield array


def _is_plain(kind: pa.DataType) -> bool:
    """Whether a column of this type from a reader of text needs no check."""
    return not types.is_nested(kind) and not types.is_temporal(kind)

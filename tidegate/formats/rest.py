"""What a file has beyond the schema, as JSON, one text for each row (`unknown = "keep"`): of formats that Arrow reads.
Of JSON it is `formats.json_unknown`.

A value is at the same path in the text as in the file: `{"coupon": "A", "customer": {"vip": true}}`. An item of a list
keeps its place: `{"lines": [null, {"colour": "red"}]}`. Names are in alphabetical order. What is null is left out.

    in the file                   in the text
    numbers, true and false       as they are, digit for digit; NaN and infinity as text
    dates and times               text as ISO 8601 has it, an instant in UTC with a Z
    durations                     a whole number of their unit
    bytes                         text, in base64
    structs, lists and maps       objects, arrays and objects

What has no such text is refused, and so is what a reader of JSON would lose: two fields of one name.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.reasons import CELL_BYTES, Undecodable, first_line
from tidegate.formats.registry import KEEP
from tidegate.formats.streams import divided
from tidegate.formats.type_names import as_list, is_bytes, is_list, is_text, type_name
from tidegate.formats.unfit import OF_VALUES
from tidegate.formats.unknown import known

types = pa.types

VALUE_BYTES, MARKS = 24, 4
"""About what the text of a number or a time has, and what is around a value."""
ROWS = 16_384
"""The texts of so many rows are made at a time."""
TO_ESCAPE = r'[\x00-\x1f"\\]'
ESCAPED = np.array([each < 0x20 or chr(each) in '"\\' for each in range(256)])
TEXT = pa.string()


def rest_of(table: pa.Table, schema: pa.Schema, instants: frozenset[str] = frozenset()) -> pa.ChunkedArray:
    """The column of texts of a table as its file has it; null where a row has nothing beyond `schema`. `instants` names
    the columns whose times without a zone are instants in UTC. Raises Undecodable."""
    batches = table.to_batches(max_chunksize=ROWS)
    return pa.chunked_array([_of_batch(each, schema, instants) for each in batches], TEXT)


def wanted_of(names: Sequence[str], schema: pa.Schema, unknown: str) -> tuple[list[str], int]:
    """Which columns of a file are read, and how many values a row of them counts for: a text of what is beyond the
    schema has the names, too."""
    if unknown != KEEP:
        wanted = [name for name in schema.names if name in names]
        return wanted, len(wanted)
    beyond = set(names) - set(known(schema, unknown).names)
    return list(dict.fromkeys(names)), len(names) + sum(map(len, beyond)) // CELL_BYTES


def portions(table: pa.Table, schema: pa.Schema, unknown: str, take: Callable[[int], None]) -> Iterator[pa.Table]:
    """The table as its file has it, divided as long as what is kept of it needs more than `PIECE_MEMORY`: a name is in
    the file once, and in the text of each value. `take` is told how many bytes that are, and may refuse them."""
    if unknown != KEEP:
        yield table
        return
    given = known(schema, unknown)
    yield from divided(table, lambda part: text_bytes(part, given), take)


def text_bytes(table: pa.Table, schema: pa.Schema) -> int:
    """About how many bytes the texts have of what is beyond the schema."""
    size = 0
    for name in table.column_names:
        known = schema.field(name).type if name in schema.names else None
        size += len(name) * table.num_rows if known is None else 0
        size += sum(_bytes_of(chunk, known) for chunk in table[name].chunks)
    return size


def _bytes_of(array: pa.Array, known: pa.DataType | None) -> int:
    """Of an array of which the schema knows this type, or nothing."""
    kind = array.type
    if types.is_dictionary(kind):
        # never unfolded to be counted: a text of many rows is there once
        lengths = pc.binary_length(array.dictionary) if is_text(kind.value_type) else pa.scalar(VALUE_BYTES)
        each = pc.max(lengths).as_py() or 0
        return 0 if known is not None else (each + MARKS) * len(array)
    if types.is_struct(kind):
        fields = {field.name: field.type for field in known} if known is not None and types.is_struct(known) else {}
        size = 0
        for field, member in zip(kind, array.flatten(), strict=True):
            if field.name not in fields:
                size += (len(field.name) + MARKS) * len(array) + _bytes_of(member, None)
            else:
                size += _bytes_of(member, fields[field.name])
        return size
    if types.is_nested(kind):
        inner = as_list(array).flatten()
        if types.is_map(kind):
            known = pa.struct([("value", known.item_type)]) if known is not None and types.is_map(known) else None
        elif known is not None:
            known = known.value_type if is_list(known) else None
        return _bytes_of(inner, known) + (MARKS * len(array) if known is None else 0)
    if known is not None:
        return 0
    return (array.nbytes * 4 // 3 if is_text(kind) or is_bytes(kind) else VALUE_BYTES * len(array)) + MARKS * len(array)


def _of_batch(batch: pa.RecordBatch, schema: pa.Schema, instants: frozenset[str]) -> pa.Array:
    members: dict[str, pa.Array | None] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            if name in schema.names:
                members[name] = beyond(column, schema.field(name).type, name in instants)
                continue
            column.validate(full=True)
            members[name] = json_of(column, name in instants)
        except MemoryError:
            raise
        except OF_VALUES as error:
            raise Undecodable(f'column {name} cannot be kept: {first_line(error)}: set unknown = "report"') from error
    return _object(members, batch.num_rows)


def beyond(array: pa.Array, wanted: pa.DataType, utc: bool = False) -> pa.Array | None:
    """What nested values have that the wanted type lacks, as JSON, null for values that have nothing; None if no value
    can have any. `utc`: times without a zone are instants."""
    there = array.type
    if types.is_struct(there) and types.is_struct(wanted):
        known = {field.name: field.type for field in wanted}
        found = {
            field.name: beyond(member, known[field.name], utc) if field.name in known else json_of(member, utc)
            for field, member in _members_of(array)
        }
        return _object(found, len(array)) if any(each is not None for each in found.values()) else None
    if types.is_map(there) and types.is_map(wanted):
        keys, items = as_list(array).flatten().flatten()
        rest = beyond(items, wanted.item_type, utc)
        return None if rest is None else _object_of_each(array, keys, rest)
    if is_list(there) and is_list(wanted):
        rest = beyond(array.flatten(), wanted.value_type, utc)
        if rest is None:
            return None
        some = _lengths(array, pc.is_valid(rest)) > 0
        return pc.if_else(pa.array(some), _array_of_each(array, rest), pa.scalar(None, TEXT))
    return None


def json_of(array: pa.Array, utc: bool = False) -> pa.Array:
    """Each value as JSON; null where it is null. `utc`: times without a zone are instants. Raises ValueError."""
    kind = array.type
    if types.is_dictionary(kind):
        return json_of(array.dictionary_decode(), utc)
    if types.is_struct(kind):
        members = {field.name: json_of(each, utc) for field, each in _members_of(array)}
        return _where(array, pc.coalesce(_object(members, len(array)), "{}"))
    if types.is_map(kind):
        keys, items = as_list(array).flatten().flatten()
        texts = pc.fill_null(json_of(items, utc), "null")
        return _where(array, pc.coalesce(_object_of_each(array, keys, texts), "{}"))
    if types.is_fixed_size_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return json_of(array.cast(pa.large_list(kind.value_type)), utc)
    if is_list(kind):
        return _where(array, _array_of_each(array, json_of(array.flatten(), utc)))
    text, bare = _text_of(array, utc)
    if types.is_floating(kind):
        return pc.if_else(pc.is_finite(array), text, _quoted(text))
    return text if bare else _quoted(text)


def _members_of(array: pa.Array) -> list[tuple[pa.Field, pa.Array]]:
    names = [field.name for field in array.type]
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"several fields are called {repeated!r}")
    return list(zip(array.type, array.flatten(), strict=True))


def _text_of(array: pa.Array, utc: bool = False) -> tuple[pa.Array, bool]:
    """The text of values without parts, and whether it is JSON as it is. Raises ValueError."""
    kind = array.type
    if types.is_null(kind):
        return pa.nulls(len(array), TEXT), True
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_decimal(kind):
        return array.cast(TEXT), True
    if types.is_floating(kind):
        return (array.cast(pa.float32()) if types.is_float16(kind) else array).cast(TEXT), True
    if types.is_duration(kind):
        return array.cast(pa.int64()).cast(TEXT), True
    if is_text(kind):
        return array.cast(TEXT), False
    if is_bytes(kind):
        values = (None if value is None else base64.b64encode(value).decode() for value in array.to_pylist())
        return pa.array(values, TEXT), False
    if types.is_timestamp(kind):
        array = array.cast(pa.timestamp(kind.unit, "UTC")) if kind.tz or utc else array
        return pc.replace_substring(_in_range(array.cast(TEXT)), " ", "T", max_replacements=1), False
    if types.is_date(kind) or types.is_time(kind):
        return _in_range(array.cast(TEXT)), False
    raise ValueError(f"{type_name(kind)} has no text in JSON")


def _in_range(texts: pa.Array) -> pa.Array:
    """What Arrow cannot write it writes as `<value out of range ...>` (pyarrow 26.0.1)."""
    if pc.any(pc.starts_with(texts, "<")).as_py():
        raise ValueError("a date or a time is out of range")
    return texts


def _quoted(texts: pa.Array) -> pa.Array:
    if _any_to_escape(texts):
        odd = pc.fill_null(pc.match_substring_regex(texts, TO_ESCAPE), False)
        escaped = [msgspec.json.encode(each).decode()[1:-1] for each in texts.filter(odd).to_pylist()]
        texts = pc.replace_with_mask(texts, odd, pa.array(escaped, TEXT))
    return _concat('"', texts, '"')


def _any_to_escape(texts: pa.Array) -> bool:
    """Looking at the bytes takes a tenth of what the expression takes."""
    _, places, data = texts.buffers()
    if data is None or not len(texts):
        return False
    ends = np.frombuffer(places, np.int32, len(texts) + 1, 4 * texts.offset)
    return bool(ESCAPED[np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]].any())


def _concat(*parts: Any) -> pa.Array:
    """One after the other; null where one is."""
    return pc.binary_join_element_wise(*parts, "")


def _where(array: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_valid(array), texts, pa.scalar(None, TEXT))


def _object(members: Mapping[str, pa.Array | None], rows: int) -> pa.Array:
    """An object for each row, of its members that are not null; null if it has none."""
    parts: list[Any] = []
    for name, text in sorted(members.items()):
        if text is not None and text.null_count < rows:
            whole = (f"{msgspec.json.encode(name).decode()}:", text, ",")
            # a name must go where its value is null
            parts += [_concat(*whole)] if text.null_count else whole
    if not parts:
        return pa.nulls(rows, TEXT)
    # of a row without a value Arrow would make no text at all (pyarrow 26.0.1)
    joined = pc.binary_join_element_wise(pa.repeat("{", rows), *parts, "", null_handling="skip")
    ended = _concat(pc.binary_slice(joined.cast(pa.binary()), 0, -1).cast(TEXT), "}")
    return pc.if_else(pc.equal(joined, "{"), pa.scalar(None, TEXT), ended)


def _object_of_each(maps: pa.Array, keys: pa.Array, texts: pa.Array) -> pa.Array:
    """An object for each map, of its `texts` that are not null; null if it has none."""
    text, _ = _text_of(keys.dictionary_decode() if types.is_dictionary(keys.type) else keys)  # nested keys have none
    pairs = _concat(_quoted(text), ":", texts)
    lengths = _lengths(maps, pc.is_valid(pairs))
    joined = pc.binary_join(_lists(lengths, pairs.drop_null()), ",")
    return pc.if_else(pa.array(lengths > 0), _concat("{", joined, "}"), pa.scalar(None, TEXT))


def _array_of_each(lists: pa.Array, texts: pa.Array) -> pa.Array:
    """An array for each list, with `null` for texts that are null."""
    joined = pc.binary_join(_lists(_lengths(lists), pc.fill_null(texts, "null")), ",")
    return _where(lists, _concat("[", joined, "]"))


def _lengths(lists: pa.Array, of: pa.Array | None = None) -> np.ndarray:
    """How many items each list has, or how many `of` its items."""
    lists = as_list(lists)
    if of is None:
        return np.asarray(pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64()))
    # not Arrow's own indices of the parents: those count what is in lists that are null
    parents = np.repeat(np.arange(len(lists)), _lengths(lists))
    return np.bincount(parents[np.asarray(of)], minlength=len(lists))


def _lists(lengths: np.ndarray, texts: pa.Array) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)

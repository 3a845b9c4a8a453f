"""How the values of JSON are read: the types against which msgspec checks them, and the columns of Arrow that they
become."""

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, islice
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.json_unknown import ABSENT
from tidegate.formats.type_names import type_name

MANY_FIELDS = 8
NULL_TEXT = b"null"
NULL = msgspec.Raw(NULL_TEXT)
QUOTE = ord('"')


def struct_type(fields: list[pa.Field], beside: Sequence[str] | None = None) -> Any:
    """The type for objects with these fields: f0, f1, ... with the fields' names as aliases, because msgspec 0.22.0
    does not find keys beyond ASCII in a TypedDict. Unless `beside` is None, an object has no names but those of the
    fields, at any depth, and these at its own level: g0, g1, ... (see `formats.json_unknown`)."""
    strict = beside is not None
    members: list[Any] = []
    for number, field in enumerate(fields):
        kind = _element(field, strict)
        absent = (NULL if kind is msgspec.Raw else None,) if field.nullable else ()
        members.append((f"f{number}", kind, *absent))
    # last, so that the fields have the same places without them (`columns_of`)
    members += [(f"g{number}", msgspec.Raw, ABSENT) for number in range(len(beside or ()))]
    names = {f"f{number}": field.name for number, field in enumerate(fields)}
    names |= {f"g{number}": name for number, name in enumerate(beside or ())}
    return msgspec.defstruct("object", members, rename=names, kw_only=True, gc=False, forbid_unknown_fields=strict)


def _element(field: pa.Field, strict: bool) -> Any:
    kind = python_type(field.type, strict)
    # what is raw may be null as it is; columns are checked for it
    return kind | None if field.nullable and kind is not msgspec.Raw else kind


def python_type(kind: pa.DataType, strict: bool = False) -> Any:
    """The Python type that msgspec checks a JSON value against. Raises ValueError if JSON has none."""
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        return int
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_decimal(kind):
        # a number or a text, digit for digit
        return msgspec.Raw
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise ValueError(f"JSON files cannot hold a {type_name(kind)}: the keys of an object are text")
        return dict[str, _element(kind.item_field, strict)]  # type: ignore[misc]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return list[_element(kind.value_field, strict)]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        return struct_type(list(kind), () if strict else None)
    return str


# ---- values for Arrow


Maker = Callable[[Sequence[Any]], pa.Array]
"""Makes the column of values that msgspec has decoded. What is nested is made column by column, too: Arrow takes a
structure at a time from dictionaries, in several times as long."""


def maker(kind: pa.DataType) -> Maker:
    if pa.types.is_decimal(kind):
        return _numbers
    if pa.types.is_map(kind):
        return partial(_map, maker(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return partial(_list, maker(kind.value_type))
    if pa.types.is_struct(kind):
        return partial(_struct, [field.name for field in kind], [maker(field.type) for field in kind])
    return partial(pa.array, type=_held(kind))


def _held(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of a JSON value without parts, before it is read as `kind`."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return kind
    # Arrow would make a number infinite that is too large for a smaller float
    return pa.float64() if pa.types.is_floating(kind) else pa.string()


def columns_of(rows: Sequence[Any], fields: int) -> Iterable[Sequence[Any]]:
    """The values of each of so many fields, from objects of `struct_type`. Of many fields all are taken at once, in two
    thirds of the time. Of few that would need more memory than the objects do."""
    if fields < MANY_FIELDS or not rows:
        return (list(map(operator.attrgetter(f"f{number}"), rows)) for number in range(fields))
    # what stands beside the fields comes after them, and a row need not have as much of it as the next one
    if len(set(map(type, rows))) > 1:
        return islice(zip(*map(msgspec.structs.astuple, rows), strict=False), fields)
    values = list(chain.from_iterable(map(msgspec.structs.astuple, rows)))
    width = len(values) // len(rows)
    return (values[number::width] for number in range(fields))


def _struct(names: Sequence[str], makers: Sequence[Maker], values: Sequence[Any]) -> pa.Array:
    there, mask = _without_nulls(values)
    columns = [make(column) for make, column in zip(makers, columns_of(there, len(names)), strict=True)]
    made = pa.StructArray.from_arrays(columns, names)
    return _with_nulls(made, mask)


def _list(make: Maker, values: Sequence[Any]) -> pa.Array:
    there, mask = _without_nulls(values)
    made = pa.ListArray.from_arrays(_offsets(there), make(list(chain.from_iterable(there))))
    return _with_nulls(made, mask)


def _map(make: Maker, values: Sequence[Any]) -> pa.Array:
    there, mask = _without_nulls(values)
    keys = pa.array(list(chain.from_iterable(there)), pa.string())
    items = make(list(chain.from_iterable(each.values() for each in there)))
    made = pa.MapArray.from_arrays(_offsets(there), keys, items)
    return _with_nulls(made, mask)


def _without_nulls(values: Sequence[Any]) -> tuple[Sequence[Any], Any]:
    """The values that are there, and where none is; None if all are."""
    if None not in values:
        return values, None
    return [each for each in values if each is not None], np.fromiter(map(_is_none, values), bool, len(values))


def _with_nulls(made: pa.Array, mask: Any) -> pa.Array:
    """The column of the values that are there, with the others as nulls in their places."""
    return made if mask is None else made.take(pa.array(np.cumsum(~mask) - 1, mask=mask))


_is_none = partial(operator.is_, None)


def _offsets(values: Sequence[Any]) -> pa.Array:
    return pa.array(np.cumsum([0, *map(len, values)], dtype=np.int32))


def _numbers(raws: Sequence[msgspec.Raw]) -> pa.Array:
    """The digits of JSON numbers, or of JSON texts, as a column of text, in a few calls. To read them as decimals
    refuses whatever else is there."""
    text = b"".join(raws)
    text.decode()  # refuses what is no UTF-8; every raw value begins and ends with a character of ASCII
    ends = np.cumsum([0, *map(len, raws)], dtype=np.int32)
    values = pa.StringArray.from_buffers(len(raws), pa.py_buffer(ends), pa.py_buffer(text))
    if NULL_TEXT in text:
        values = pc.if_else(pc.equal(values, "null"), None, values)
    if QUOTE in text:
        values = pc.if_else(pc.starts_with(values, '"'), pc.utf8_slice_codeunits(values, 1, -1), values)
    return values

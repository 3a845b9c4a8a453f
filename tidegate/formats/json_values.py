"""How the values of JSON are read: the types against which msgspec checks them, and the columns of Arrow that they
become."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.json_unknown import ABSENT
from tidegate.formats.type_names import type_name

NULL_TEXT = b"null"
NULL = msgspec.Raw(NULL_TEXT)
QUOTE = ord('"')


def struct_type(fields: list[pa.Field], beside: Sequence[str] | None = None) -> Any:
    """The type for objects with these fields: f0, f1, ... with the fields' names as aliases, because msgspec 0.22.0
    does not find keys beyond ASCII in a TypedDict. Unless `beside` is None, an object has no names but those of the
    fields, at any depth, and these at its own level: g0, g1, ... (see `formats.json_unknown`)."""
    strict = beside is not None
    members: list[Any] = [(f"g{number}", msgspec.Raw, ABSENT) for number in range(len(beside or ()))]
    for number, field in enumerate(fields):
        kind = _element(field, strict)
        absent = (NULL if kind is msgspec.Raw else None,) if field.nullable else ()
        members.append((f"f{number}", kind, *absent))
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


def maker(kind: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """The function that makes the column of the values that msgspec has decoded."""
    if pa.types.is_decimal(kind):
        return _numbers
    plain, held = _plain(kind), _held(kind)
    return lambda values: pa.array(values if plain is None else map(plain, values), held)


def _held(kind: pa.DataType) -> pa.DataType:
    """The Arrow type of the JSON value, before it is read as `kind`."""
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return kind
    if pa.types.is_floating(kind):
        # Arrow would make a number infinite that is too large for a smaller float
        return pa.float64()
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), _held(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_held(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _held(field.type)) for field in kind])
    return pa.string()


def _plain(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """The function that turns a decoded value into one for Arrow; None if none is needed. Structs become
    dictionaries."""
    if pa.types.is_decimal(kind):
        return _number
    if pa.types.is_struct(kind):
        members = [(field.name, f"f{number}", _plain(field.type) or _same) for number, field in enumerate(kind)]
        return _unless_null(lambda value: {name: plain(getattr(value, each)) for name, each, plain in members})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _plain(kind.value_type)
        return item and _unless_null(partial(_each_item, item))
    if pa.types.is_map(kind):
        item = _plain(kind.item_type)
        return item and _unless_null(partial(_each_value, item))
    return None


def _numbers(raws: Sequence[msgspec.Raw]) -> pa.Array:
    """`_number` of each, in a few calls: a column of text from the bytes as they are."""
    text = b"".join(raws)
    text.decode()  # refuses what is no UTF-8; every raw value begins and ends with a character of ASCII
    ends = np.cumsum([0, *map(len, raws)], dtype=np.int32)
    values = pa.StringArray.from_buffers(len(raws), pa.py_buffer(ends), pa.py_buffer(text))
    if NULL_TEXT in text:
        values = pc.if_else(pc.equal(values, "null"), None, values)
    if QUOTE in text:
        values = pc.if_else(pc.starts_with(values, '"'), pc.utf8_slice_codeunits(values, 1, -1), values)
    return values


def _number(raw: msgspec.Raw) -> str | None:
    """The digits of a JSON number, or of a JSON text. Whatever else it is, reading it as a decimal refuses."""
    text = bytes(raw).decode()
    return None if text == "null" else text[1:-1] if text.startswith('"') else text


def _unless_null(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def _each_item(plain: Callable[[Any], Any], values: list[Any]) -> list[Any]:
    return [plain(value) for value in values]


def _each_value(plain: Callable[[Any], Any], values: dict[str, Any]) -> dict[str, Any]:
    return {key: plain(value) for key, value in values.items()}


def _same(value: Any) -> Any:
    return value

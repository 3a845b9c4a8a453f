"""Types of columns by Spark's names, which are those of a route's schema. A file's owner need not know Arrow's.

The names of what a schema can hold are what Spark itself writes (`DataType.simpleString`, source of Spark 4.1 read).
Files have other types besides, and their names say what they are.
"""

from collections.abc import Mapping

import pyarrow as pa

types = pa.types

SIMPLE: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "unsigned tinyint",
    pa.uint16(): "unsigned smallint",
    pa.uint32(): "unsigned int",
    pa.uint64(): "unsigned bigint",
    pa.float16(): "half float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.null(): "void",
}
UNITS = {"s": " in seconds", "ms": " in milliseconds", "us": "", "ns": " in nanoseconds"}
WHOLE: Mapping[pa.DataType, str] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), "int"),
    **dict.fromkeys((pa.int64(), pa.uint32()), "bigint"),
    pa.uint64(): "decimal(20,0)",
}
"""The column for whole numbers of each type. Iceberg has none that is smaller than `int`
(https://iceberg.apache.org/spec/#primitive-types)."""
MOST_DIGITS = 38
"""Of a decimal of Spark and of Iceberg."""


def type_name(kind: pa.DataType) -> str:
    """What a type is called in messages."""
    if kind in SIMPLE:
        return SIMPLE[kind]
    if types.is_dictionary(kind):
        return type_name(kind.value_type)
    if is_text(kind):
        return "string"
    if is_bytes(kind):
        return "binary"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return f"{'timestamp' if kind.tz else 'timestamp_ntz'}{UNITS[kind.unit]}"
    if types.is_time(kind):
        return "time of day"
    if types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if types.is_struct(kind):
        return f"struct<{','.join(f'{quoted_name(field.name)}:{type_name(field.type)}' for field in kind)}>"
    if is_list(kind) or types.is_fixed_size_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if types.is_union(kind):
        return f"union of {' and '.join(type_name(field.type) for field in kind)}"
    if types.is_interval(kind):
        return "interval"
    return str(kind)


def column_type(kind: pa.DataType) -> str | None:
    """The type of the column that takes every value of a file's type, as a schema states it; None if there is none."""
    if kind in WHOLE:
        return WHOLE[kind]
    if types.is_dictionary(kind):
        return column_type(kind.value_type)
    if types.is_float16(kind):
        return "float"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return type_name(kind) if kind.precision <= MOST_DIGITS and 0 <= kind.scale <= kind.precision else None
    if types.is_map(kind):
        key, item = column_type(kind.key_type), column_type(kind.item_type)
        return None if key is None or item is None else f"map<{key},{item}>"
    if types.is_struct(kind):
        fields = [(field.name, column_type(field.type)) for field in kind]
        if not fields or any(inner is None for _, inner in fields):
            return None
        return f"struct<{','.join(f'{quoted_name(name)}:{inner}' for name, inner in fields)}>"
    if is_list(kind) or types.is_fixed_size_list(kind):
        inner = column_type(kind.value_type)
        return None if inner is None else f"array<{inner}>"
    simple = types.is_boolean(kind) or types.is_floating(kind) or types.is_date(kind)
    return type_name(kind) if simple or is_text(kind) or is_bytes(kind) else None


def widest_type(kind: pa.DataType) -> str | None:
    """The same, so wide that no later file has to widen it."""
    found = column_type(kind)
    if found is not None and types.is_decimal(kind):
        return f"decimal({MOST_DIGITS},{kind.scale})"
    return {"int": "bigint", "float": "double", "decimal(20,0)": "decimal(38,0)"}.get(found or "", found)


def quoted_name(name: str) -> str:
    """A name as DDL has it: other names than words are in backquotes."""
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def is_text(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    fixed = types.is_fixed_size_binary(kind) and not types.is_decimal(kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind) or fixed)


def is_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind))


def as_list(array: pa.Array) -> pa.Array:
    """A map as a list of pairs, because Arrow's functions for lists do not take maps; any other array as it is."""
    if not pa.types.is_map(array.type):
        return array
    pair = pa.struct([pa.field("key", array.type.key_type, nullable=False), ("value", array.type.item_type)])
    return array.cast(pa.list_(pair))

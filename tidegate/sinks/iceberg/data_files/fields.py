"""The columns of a table and those of its new rows: which is which. Iceberg tells columns apart by their ids."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

FIELD_ID = b"PARQUET:field_id"
"""Where Arrow has the id that it writes into Parquet
(https://arrow.apache.org/docs/cpp/parquet.html#roundtripping-arrow-types-and-schema)."""

_PRIMITIVES = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp",
}
"""Arrow's types, as Iceberg calls them (https://iceberg.apache.org/spec/#primitive-types)."""


class Mismatched(Exception):
    """The rows have a column that the table lacks, or has with another type."""


def with_field_ids(rows: pa.Schema, table: Mapping[str, Any]) -> pa.Schema:
    """The schema of the rows, with the table's ids of its columns. `table` is Iceberg's JSON of its schema. Columns
    that only the table has are left out. Raises Mismatched."""
    return pa.schema(_fields(rows, table, "column"))


def _fields(given: Any, struct: Mapping[str, Any], what: str) -> list[pa.Field]:
    there = {each["name"]: each for each in struct["fields"]}
    found = []
    for field in given:
        if field.name not in there:
            raise Mismatched(f"the table has no {what} {field.name}")
        known = there[field.name]
        kind = _typed(field.type, known["type"], f"{what} {field.name}")
        found.append(_numbered(field.with_type(kind), known["id"], known["required"], f"{what} {field.name}"))
    return found


def _typed(kind: pa.DataType, known: Any, what: str) -> pa.DataType:
    """The type, with the ids of what is nested in it."""
    nested = known["type"] if isinstance(known, Mapping) else None
    if pa.types.is_struct(kind) and nested == "struct":
        # fields of a struct that is null are, too, and Arrow writes no null where the file may have none. Readers take
        # a value that is always there for one that is demanded; `conform` has seen to it
        return pa.struct([each.with_nullable(True) for each in _fields(kind, known, f"field of {what}")])
    if pa.types.is_list(kind) and nested == "list":
        of, element = f"element of {what}", kind.value_field
        typed = element.with_type(_typed(element.type, known["element"], of))
        return pa.list_(_numbered(typed, known["element-id"], known["element-required"], of))
    if pa.types.is_map(kind) and nested == "map":
        of, key, item = f"value of {what}", kind.key_field, kind.item_field
        value = item.with_type(_typed(item.type, known["value"], of))
        return pa.map_(
            _numbered(key.with_type(_typed(key.type, known["key"], f"key of {what}")), known["key-id"]),
            _numbered(value, known["value-id"], known["value-required"], of),
        )
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if nested is not None or _name(plain) != known:
        raise Mismatched(f"{what} is {nested or known} in the table, and its values are {kind}")
    return kind


def _name(kind: pa.DataType) -> str | None:
    """What Iceberg calls it; None for what it has no name of."""
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return "timestamptz" if kind.unit == "us" else None
    return _PRIMITIVES.get(kind)


def _numbered(field: pa.Field, number: int, required: bool = False, what: str = "") -> pa.Field:
    if required and field.nullable:
        raise Mismatched(f"the table demands a value for {what}, which may be null in the route's schema")
    return field.with_metadata({FIELD_ID: str(number)})

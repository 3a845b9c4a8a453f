"""Values that the path of a data file cannot hold.

Iceberg writes the value of each partition field into the path, URL-encoded and in full (`PartitionSpec.partitionToPath`
and `Transform.toHumanString`, source of Iceberg 1.11 read), and so does Spark's writer, which is Iceberg's. S3 takes
keys of 1,024 bytes (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html), file systems names of 255.
One value beyond that fails the task that writes it, and with it the job: so the row does not fit, and is found here.
Only columns of text or bytes can have such values; the results of other transforms and types have some ten bytes at
most.
"""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.formats.type_names import is_bytes, is_text

COMPONENT_BYTES = 200
"""The longest `name=value`: a file system's 255, less room for what a catalog may add."""
PATH_BYTES = 500
"""The longest `name=value/name=value`: S3's 1,024, less the table's location and the name of the file."""

FIELD = re.compile(r"(?:truncate\((?P<width>[0-9]+), ?(?P<cut>[^()]+)\)|(?P<column>[^()]+?))(?: AS (?P<name>.+))?")


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the path: `name=` and the value of `column`, cut to `width` characters or bytes."""

    column: str
    name: str
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Misplaced:
    """The first row of a table that cannot be written under a path, from 0, and why."""

    row: int
    why: str


def in_path(partition_by: Sequence[str]) -> list[str]:
    """The columns whose values may be in the path."""
    return [each.column for each in map(_component, partition_by) if each]


def misplaced(table: pa.Table, partition_by: Sequence[str]) -> Misplaced | None:
    """None if all rows can be. `partition_by` are the fields of the table's partition as Spark's DDL has them, each
    perhaps with ` AS ` and its name (`ALTER TABLE ... ADD PARTITION FIELD`)."""
    components = [each for each in map(_component, partition_by) if each]
    columns = [(each, _column(table, each.column)) for each in components]
    found = [(each, column) for each, column in columns if column and (is_text(column.type) or is_bytes(column.type))]
    if not found:
        return None
    bounds = [_bound(each, column) for each, column in found]
    # few rows, if any: only their values are checked
    rows = np.flatnonzero((np.max(bounds, axis=0) > COMPONENT_BYTES) | (np.sum(bounds, axis=0) > PATH_BYTES))
    complaint = cache(lambda *values: _complaint([each for each, _ in found], values))
    for row, values in zip(
        rows, zip(*(column.take(rows).to_pylist() for _, column in found), strict=True), strict=True
    ):
        if why := complaint(*values):
            return Misplaced(int(row), why)
    return None


def unplaceable(table: pa.Table, partition_by: Sequence[str], before: int = 0) -> str:
    """The same, as the reason to refuse a file; empty if all rows can be. `before` rows of the file precede them."""
    found = misplaced(table, partition_by)
    return f"row {before + found.row + 1}: {found.why}" if found else ""


def _column(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """The column, also one within structs, without regard to case as in Spark; None if the table lacks it."""
    whole = {each.lower(): each for each in table.column_names}.get(name.lower())
    if whole is not None:
        return table[whole]
    outer, _, rest = name.partition(".")
    found = _column(table, outer) if rest else None
    if found is None or not pa.types.is_struct(found.type):
        return None
    # a struct that is null has fields that are
    fields = {field.name: pc.struct_field(found, [number]) for number, field in enumerate(found.type)}
    return _column(pa.table(fields), rest)


def escape(text: str) -> str:
    """The text as java.net.URLEncoder encodes it: letters, digits and `.-*_` stay, a space becomes a plus."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _component(field: str) -> Component | None:
    """The part of the path for a field, if its length depends on the value."""
    told = FIELD.fullmatch(field)
    if told is None:
        return None
    if told["cut"]:
        return Component(told["cut"], told["name"] or f"{told['cut']}_trunc", int(told["width"]))
    return Component(told["column"], told["name"] or told["column"])


def _bound(each: Component, column: pa.ChunkedArray) -> np.ndarray:
    """The most bytes of the path for each row, with the slash after it. An escaped byte of text becomes three
    characters. Three bytes become four characters of base64, each of which may be escaped."""
    size = pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()).to_numpy()
    return np.asarray(len(escape(each.name)) + 2 + 12 + 4 * size)


def _complaint(components: Sequence[Component], values: Sequence[str | bytes | None]) -> str:
    parts = [f"{escape(each.name)}={_encoded(each, value)}" for each, value in zip(components, values, strict=True)]
    for each, part in zip(components, parts, strict=True):
        if len(part) > COMPONENT_BYTES:
            return (
                f"the table is partitioned by column {each.column}, and {part[:60]}... has {len(part)} bytes, more than"
                f" the {COMPONENT_BYTES} that a part of a path may have here"
            )
    if len(path := "/".join(parts)) > PATH_BYTES:
        return (
            f"the table is partitioned by columns {', '.join(each.column for each in components)}, and {path[:60]}..."
            f" has {len(path)} bytes, more than the {PATH_BYTES} that a path may have here"
        )
    return ""


def _encoded(each: Component, value: str | bytes | None) -> str:
    if value is None:
        return "null"
    cut = value[: each.width]
    return escape(cut if isinstance(cut, str) else base64.b64encode(cut).decode())

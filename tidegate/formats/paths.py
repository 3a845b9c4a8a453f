"""Values that the path of a data file cannot hold.

Iceberg writes the value of each partition field into the path, URL-encoded (`PartitionSpec.partitionToPath` and
`Transform.toHumanString`, source of Iceberg 1.11 read). S3 takes keys of 1,024 bytes
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html), file systems names of 255. One value beyond
that fails the write of the whole batch, so its file is refused earlier. Only columns of text or bytes can have such
values; the results of other transforms and types have some ten bytes at most.
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

from tidegate.formats.columns import is_bytes, is_text

COMPONENT_BYTES = 200
"""The longest `name=value`: a file system's 255, less room for what a catalog may add."""
PATH_BYTES = 500
"""The longest `name=value/name=value`: S3's 1,024, less the table's location and the name of the file."""

TRUNCATE = re.compile(r"truncate\(([0-9]+), ?(\w+)\)")


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the path: `name=` and the value of `column`, cut to `width` characters or bytes."""

    column: str
    name: str
    width: int | None = None


def unplaceable(table: pa.Table, partition_by: Sequence[str], before: int = 0) -> str:
    """Why a row of `table` cannot be written under a path; empty if all can. `before` rows of the file precede it."""
    # Spark ignores the case of column names
    columns = {name.lower(): table[name] for name in table.column_names}
    components = [each for each in map(_component, partition_by) if each and each.column.lower() in columns]
    found = [(each, columns[each.column.lower()]) for each in components]
    found = [(each, column) for each, column in found if is_text(column.type) or is_bytes(column.type)]
    if not found:
        return ""
    bounds = [_bound(each, column) for each, column in found]
    # few rows, if any: only their values are checked
    rows = np.flatnonzero((np.max(bounds, axis=0) > COMPONENT_BYTES) | (np.sum(bounds, axis=0) > PATH_BYTES))
    complaint = cache(lambda *values: _complaint([each for each, _ in found], values))
    for row, values in zip(
        rows, zip(*(column.take(rows).to_pylist() for _, column in found), strict=True), strict=True
    ):
        if why := complaint(*values):
            return f"row {before + row + 1}: {why}"
    return ""


def escape(text: str) -> str:
    """The text as java.net.URLEncoder encodes it: letters, digits and `.-*_` stay, a space becomes a plus."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _component(transform: str) -> Component | None:
    """The part of the path for a transform, if its length depends on the value."""
    if cut := TRUNCATE.fullmatch(transform):
        return Component(cut[2], f"{cut[2]}_trunc", int(cut[1]))
    return Component(transform, transform) if "(" not in transform else None


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

"""Columns of which a file tells no least and no greatest value, because a reader that goes by them would miss rows.

- **NaN.** Arrow leaves it out of a column's bounds, and Parquet has no place to count it. Readers differ in where they
  order it: Spark above all numbers. Iceberg takes a NaN count that is not there for none, and deletes whole files by
  bounds. Spark's writer tells no bounds of such a column either.
- **Long texts.** Arrow tells no bounds of a column in a row group if one has more than 4,096 bytes, and those of the
  other groups. Iceberg takes these for the file's (`ParquetUtil.fileMetrics`, 1.11.0).

So rows of such values go to files without the statistics of these columns, and all others keep them.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

LONGEST = 4_096
"""Bytes of a value in Arrow's statistics (`ApplyStatSizeLimits`, Arrow C++)."""


def statistics(schema: pa.Schema, boundless: frozenset[str]) -> bool | list[str]:
    """What `ParquetWriter` takes: the Parquet columns with statistics, by their paths."""
    if not boundless:
        return True
    all_of_them = {path for field in schema for path, _ in _parts(field.name, pa.array([], field.type))}
    return sorted(all_of_them - boundless) or False


def boundless(rows: pa.Table) -> frozenset[str]:
    """The Parquet columns, by their paths, that get no statistics for the sake of these rows."""
    named = zip(rows.schema.names, rows.columns, strict=True)
    parts = (part for name, column in named for chunk in column.chunks for part in _parts(name, chunk))
    return frozenset(path for path, values in parts if _misleads(values))


def _misleads(values: pa.Array) -> bool:
    kind = values.type
    if pa.types.is_floating(kind):
        return bool(pc.any(pc.is_nan(values)).as_py())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return (pc.max(pc.binary_length(values)).as_py() or 0) > LONGEST
    return False


def _parts(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """The columns of plain values in a column. Values below a null may be among them."""
    kind = values.type
    if pa.types.is_struct(kind):
        for number, part in enumerate(values.flatten()):
            yield from _parts(f"{path}.{kind.field(number).name}", part)
    elif pa.types.is_list(kind):
        yield from _parts(f"{path}.list.element", values.flatten())
    elif pa.types.is_map(kind):
        yield from _parts(f"{path}.key_value.key", values.keys)
        yield from _parts(f"{path}.key_value.value", values.items)
    elif pa.types.is_dictionary(kind):
        yield path, values.dictionary
    else:
        yield path, values

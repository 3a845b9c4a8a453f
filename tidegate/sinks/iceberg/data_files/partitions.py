"""Which partition each row is in: for tables that are partitioned by time, and by nothing else.

Iceberg believes what it is told of a file's partition. A row in the wrong one is hidden from who filters by time. So
tests hold these four against Iceberg's own (https://iceberg.apache.org/spec/#partition-transforms).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa

from tidegate.sinks.iceberg.data_files.fields import FIELD_ID, Mismatched

_UNITS = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
"""numpy's units of time, which all count from 1970-01-01 00:00 UTC, and round down, as Iceberg does."""
_FIRST, _LAST = "0001-01-01T00", "9999-12-31T23:59:59.999999"
"""Times whose names have four digits for the year, and nothing else."""
_NULL = np.iinfo(np.int64).min
NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What Iceberg reads as null among the values of a partition (`Conversions.fromPartitionString`, 1.11.0)."""


class Scattered(Exception):
    """The rows of a task are in partitions that Spark has to make: too many, or of years before 1 or after 9999."""


@dataclass(frozen=True, slots=True)
class TimePartition:
    """A field of the partition: its name, the column that it is made of, and a transform of `_UNITS`."""

    name: str
    column: str
    transform: str

    def units_of(self, values: pa.ChunkedArray) -> np.ndarray:
        """The number of years, months, days or hours for each value since 1970; _NULL for null. Raises Scattered."""
        unit = "D" if pa.types.is_date32(values.type) else "us"
        stored = pa.int32() if unit == "D" else pa.int64()
        times = values.cast(stored).fill_null(0).to_numpy().astype(np.int64).view(f"datetime64[{unit}]")
        # not a number is less than all, and greater than none
        if not ((times >= np.datetime64(_FIRST)) & (times <= np.datetime64(_LAST))).all():
            raise Scattered
        units = times.astype(f"datetime64[{_UNITS[self.transform]}]").astype(np.int64)
        return np.where(values.is_null().to_numpy(), _NULL, units)

    def value(self, units: int) -> str:
        """As Iceberg parses it: days are dates, the others are numbers."""
        if units == _NULL:
            return NULL_VALUE
        return self._shown(units) if self.transform == "day" else str(units)

    def folder(self, units: int) -> str:
        """As Iceberg shows it: `placed_at_day=2026-11-23`, `at_hour=2026-11-23-10`."""
        shown = "null" if units == _NULL else self._shown(units).replace("T", "-")
        return f"{quote_plus(self.name)}={quote_plus(shown)}"

    def _shown(self, units: int) -> str:
        unit: Any = _UNITS[self.transform]
        return str(np.datetime64(units, unit))


@dataclass(frozen=True, slots=True)
class Partition:
    """The units of each field. Empty of a table without partitions."""

    fields: Sequence[TimePartition]
    units: tuple[int, ...]

    @property
    def values(self) -> list[str]:
        return [field.value(units) for field, units in zip(self.fields, self.units, strict=True)]

    @property
    def folder(self) -> str:
        """Below the table's data folder: empty, or it ends in a slash."""
        return "".join(f"{field.folder(units)}/" for field, units in zip(self.fields, self.units, strict=True))


def time_partitions(spec: Mapping[str, Any], rows: pa.Schema) -> tuple[TimePartition, ...]:
    """The fields of a partition spec, which is Iceberg's JSON; `rows` have the table's ids. Raises Mismatched for what
    is not by time, or by a column that the rows have not."""
    columns = {int(field.metadata[FIELD_ID]): field for field in rows}
    found = []
    for each in spec["fields"]:
        column = columns.get(each["source-id"])
        kind = None if column is None else column.type
        timed = kind is not None and (pa.types.is_timestamp(kind) or pa.types.is_date32(kind))
        if each["transform"] not in _UNITS or not timed:
            raise Mismatched(f"the table is partitioned by {each['transform']}: {each['name']}")
        assert column is not None
        found.append(TimePartition(each["name"], column.name, each["transform"]))
    return tuple(found)


def divided(rows: pa.Table, fields: Sequence[TimePartition]) -> Iterator[tuple[Partition, pa.Table]]:
    """The rows of each partition, in their order. Raises Scattered."""
    if not fields or not rows.num_rows:
        yield Partition(fields, ()), rows
        return
    units = np.column_stack([field.units_of(rows[field.column]) for field in fields])
    if (units == units[0]).all():  # most files have one time
        yield Partition(fields, tuple(map(int, units[0]))), rows
        return
    keys, places, counts = np.unique(units, axis=0, return_inverse=True, return_counts=True)
    # sorted once: to look for the rows of each partition would be to read all rows for each
    ordered = rows.take(pa.array(np.argsort(places.reshape(-1), kind="stable")))
    for key, end, count in zip(keys, np.cumsum(counts), counts, strict=True):
        yield Partition(fields, tuple(map(int, key))), ordered.slice(int(end - count), int(count))

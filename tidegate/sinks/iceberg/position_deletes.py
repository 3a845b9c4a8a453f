"""Rows that leave a table, marked by files of position deletes that the driver itself writes: Spark's DELETE takes
several times as long, and the look at the table has found already where the rows are.

    line                                     if the driver dies right after it     if a twin runs beside it
    1 put a file of positions for each       files that no table has               each has names of its own
      data file
    2 read their footers                     the same                              the same
    3 commit them to the branch, with marks  a branch that nobody publishes        each has a branch of its own

It leaves to Spark: a table of format 3, which has deletion vectors; rows of an upload that are not next to each other
in their file, after a compaction that sorts; very many files; a table whose data files Spark writes
(`data_files.layout`). The format is https://iceberg.apache.org/spec/#position-delete-files.
"""

import tempfile
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, functions

from tidegate.core.errors import Retryable
from tidegate.core.replacing import HeldRows, RowsPlace
from tidegate.sinks.iceberg.data_files.layout import Layout
from tidegate.sinks.iceberg.data_files.places import put
from tidegate.sinks.iceberg.data_files.write import try_to_remove
from tidegate.sinks.iceberg.removal import files_with

PLACES = ("_file", "_pos")
"""Where Iceberg says that a row is (https://iceberg.apache.org/docs/latest/spark-queries/#metadata-columns)."""
MOST_FILES = 100
"""Data files that lose rows. Of each Iceberg is asked some ten questions."""
MOST_ROWS = 2_000_000
"""Rows that leave: their positions are in the driver's memory."""
AT_ONCE = 16
DELETES = pa.schema(
    [
        pa.field(
            "file_path",
            pa.dictionary(pa.int32(), pa.string()),
            nullable=False,
            metadata={"PARQUET:field_id": "2147483546"},
        ),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)

NOWHERE = -1
"""The last position of rows of which nobody has asked where they are."""


@dataclass(frozen=True, slots=True)
class RowRange:
    """So many `rows` of one place, between two positions of a data file, both included."""

    file: str
    first: int
    last: int
    rows: int

    @property
    def whole(self) -> bool:
        """Whether no other rows are between them."""
        return self.last != NOWHERE and self.last - self.first + 1 == self.rows


@dataclass(frozen=True, slots=True)
class LocatedRows:
    """Where a `snapshot` has the rows of some objects, and which these are."""

    snapshot: int
    uris: Collection[str]
    of: Mapping[RowsPlace, Sequence[RowRange]]

    @property
    def held(self) -> list[HeldRows]:
        return [HeldRows(*place, sum(each.rows for each in ranges)) for place, ranges in self.of.items()]

    def ranges(self, gone: Collection[RowsPlace], staged: Any) -> dict[str, list[RowRange]] | None:
        """By data file, where these rows are under the snapshot `staged`; None if that is not known as a few ranges."""
        if staged.parentId() != self.snapshot or not all(place in self.of for place in gone):
            return None
        found: dict[str, list[RowRange]] = defaultdict(list)
        for place in gone:
            for each in self.of[place]:
                found[each.file].append(each)
        ranges = [each for there in found.values() for each in there]
        few = len(found) <= MOST_FILES and sum(each.rows for each in ranges) <= MOST_ROWS
        return found if few and all(each.whole for each in ranges) else None


NO_RANGES = LocatedRows(-1, (), {})


def ranges_of(
    rows: DataFrame, source: Sequence[str], snapshot: int, uris: Collection[str], *, located: bool
) -> LocatedRows:
    """Of rows with the columns `source` and, if they are `located`, `PLACES`."""
    ranges: dict[RowsPlace, list[RowRange]] = defaultdict(list)
    if located:
        file, position = PLACES
        counts = functions.min(position), functions.max(position), functions.count("*")
        found = [tuple(row) for row in rows.groupBy(*source, file).agg(*counts).collect()]
    else:
        found = [(*row[:-1], "", 0, NOWHERE, row[-1]) for row in rows.groupBy(*source).count().collect()]
    for uri, version, batch, *each in found:
        ranges[uri, version or "", batch or ""].append(RowRange(*each))
    return LocatedRows(snapshot, uris, ranges)


@dataclass(frozen=True)
class PositionDeletes:
    """Those of one driver, on its `branch` of a loaded table."""

    jvm: Any
    table: Any
    layout: Layout
    branch: str

    def mark(
        self, ranges: Mapping[str, Sequence[RowRange]], located: LocatedRows, properties: Mapping[str, str]
    ) -> None:
        """Commit the marks of these ranges to the branch. Raises Retryable if a file of them is not planned."""
        planned = files_with(self.jvm, self.table, located.snapshot, located.uris)
        files = {str(each.file().location()): each.file() for each in planned}
        if missing := ranges.keys() - files.keys():
            raise Retryable(f"{min(missing)} has rows that are to leave, and is no file of table {self.table.name()}")
        for name, some in ranges.items():
            if not all(each.first >= 0 and each.last < int(files[name].recordCount()) for each in some):
                raise Retryable(f"{name} has no rows at the positions that are to leave it: {some}")
        placed: dict[str, tuple[str, int]] = {}
        try:
            with tempfile.TemporaryDirectory(prefix="tidegate-") as scratch:
                for name, location, size in self._put(ranges, Path(scratch)):
                    placed[name] = location, size
            delta = self.table.newRowDelta().toBranch(self.branch)
            for key, value in properties.items():
                delta = delta.set(key, value)
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for found in pool.map(lambda name: self._found(files[name], *placed[name]), placed):
                    delta = delta.addDeletes(found)
        except BaseException:
            for there, _ in placed.values():
                try_to_remove(self.layout, there)
            raise
        delta.commit()

    def _put(self, ranges: Mapping[str, Sequence[RowRange]], scratch: Path) -> Iterator[tuple[str, str, int]]:
        """Of each data file where its deletes are, and their size."""
        unique = f"{self.branch}-{uuid.uuid4().hex}"
        for number, (name, there) in enumerate(sorted(ranges.items())):
            positions = np.concatenate([np.arange(each.first, each.last + 1, dtype=np.int64) for each in there])
            positions.sort()
            names = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [name])
            path = scratch / str(number)
            pq.write_table(
                pa.Table.from_arrays([names, pa.array(positions)], schema=DELETES),
                path,
                compression=self.layout.codec,
                compression_level=self.layout.level,
                store_schema=False,
            )
            size = path.stat().st_size
            location = f"{self.layout.folder}{unique}-{number:05}-deletes.parquet"
            put(self.layout, path, location)
            yield name, location, size

    def _found(self, data: Any, location: str, size: int) -> Any:
        iceberg = self.jvm.org.apache.iceberg
        stored = self.table.io().newInputFile(location, size)
        config = iceberg.MetricsConfig.forPositionDelete(self.table)
        spec = self.table.specs().get(data.specId())
        made = (
            iceberg.FileMetadata.deleteFileBuilder(spec)
            .ofPositionDeletes()
            .withPath(location)
            .withFormat("PARQUET")
            .withFileSizeInBytes(size)
            .withMetrics(iceberg.parquet.ParquetUtil.fileMetrics(stored, config))
            .withReferencedDataFile(data.location())
        )
        return (made.withPartition(data.partition()) if spec.isPartitioned() else made).build()

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


@dataclass(frozen=True, slots=True)
class Spot:
    """So many `rows` of one place, between two positions of a data file, both included."""

    file: str
    first: int
    last: int
    rows: int

    @property
    def whole(self) -> bool:
        return self.last - self.first + 1 == self.rows


@dataclass(frozen=True, slots=True)
class Spots:
    """Where a `snapshot` has the rows of some objects, and which these are."""

    snapshot: int
    uris: Collection[str]
    of: Mapping[RowsPlace, Sequence[Spot]]

    @property
    def held(self) -> list[HeldRows]:
        return [HeldRows(*place, sum(each.rows for each in spots)) for place, spots in self.of.items()]

    def ranges(self, gone: Collection[RowsPlace], staged: Any) -> dict[str, list[Spot]] | None:
        """By data file, where these rows are under the snapshot `staged`; None if that is not known as a few ranges."""
        if staged.parentId() != self.snapshot or not all(place in self.of for place in gone):
            return None
        found: dict[str, list[Spot]] = defaultdict(list)
        for place in gone:
            for spot in self.of[place]:
                found[spot.file].append(spot)
        spots = [spot for there in found.values() for spot in there]
        few = len(found) <= MOST_FILES and sum(spot.rows for spot in spots) <= MOST_ROWS
        return found if few and all(spot.whole for spot in spots) else None


NO_SPOTS = Spots(-1, (), {})


def spots_of(rows: DataFrame, source: Sequence[str], snapshot: int, uris: Collection[str]) -> Spots:
    """Of rows with the columns `source`, `_file` and `_pos`."""
    of_file = rows.groupBy(*source, "_file")
    found = of_file.agg(functions.min("_pos"), functions.max("_pos"), functions.count("*")).collect()
    spots: dict[RowsPlace, list[Spot]] = defaultdict(list)
    for uri, version, batch, *spot in found:
        spots[uri, version or "", batch or ""].append(Spot(*spot))
    return Spots(snapshot, uris, spots)


def mark(
    jvm: Any, table: Any, spots: Spots, ranges: Mapping[str, Sequence[Spot]], layout: Layout, branch: str,
    properties: Mapping[str, str],
) -> None:  # fmt: skip
    """Commit the marks to this branch of the table. Raises Retryable if Iceberg does not plan one of the files."""
    files = {str(file.location()): file for file in files_with(jvm, table, spots.snapshot, spots.uris)}
    if missing := ranges.keys() - files.keys():
        raise Retryable(
            f"{min(missing)} has rows that are to leave, and is not among the files of table {table.name()}"
        )
    placed: dict[str, tuple[str, int]] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-") as scratch:
            for name, location, size in _put(ranges, layout, Path(scratch), branch):
                placed[name] = (location, size)
        delta = table.newRowDelta().toBranch(branch)
        for key, value in properties.items():
            delta = delta.set(key, value)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for found in pool.map(lambda name: _delete_file(jvm, table, files[name], *placed[name]), placed):
                delta = delta.addDeletes(found)
    except BaseException:
        for location, _ in placed.values():
            try_to_remove(layout, location)
        raise
    delta.commit()


def _put(
    ranges: Mapping[str, Sequence[Spot]], layout: Layout, scratch: Path, branch: str
) -> Iterator[tuple[str, str, int]]:
    unique = f"{branch}-{uuid.uuid4().hex}"
    for number, (name, spots) in enumerate(sorted(ranges.items())):
        positions = np.concatenate([np.arange(spot.first, spot.last + 1, dtype=np.int64) for spot in spots])
        positions.sort()
        names = pa.DictionaryArray.from_arrays(np.zeros(len(positions), np.int32), [name])
        columns = [names, pa.array(positions)]
        path = scratch / str(number)
        pq.write_table(
            pa.Table.from_arrays(columns, schema=DELETES),
            path,
            compression=layout.codec,
            compression_level=layout.level,
            store_schema=False,
        )
        size = path.stat().st_size
        location = f"{layout.folder}{unique}-{number:05}-deletes.parquet"
        put(layout, path, location)
        yield name, location, size


def _delete_file(jvm: Any, table: Any, data: Any, location: str, size: int) -> Any:
    iceberg = jvm.org.apache.iceberg
    stored = table.io().newInputFile(location, size)
    spec = table.specs().get(data.specId())
    made = (
        iceberg.FileMetadata.deleteFileBuilder(spec)
        .ofPositionDeletes()
        .withPath(location)
        .withFormat("PARQUET")
        .withFileSizeInBytes(size)
        .withMetrics(iceberg.parquet.ParquetUtil.fileMetrics(stored, iceberg.MetricsConfig.forPositionDelete(table)))
        .withReferencedDataFile(data.location())
    )
    return (made.withPartition(data.partition()) if spec.isPartitioned() else made).build()

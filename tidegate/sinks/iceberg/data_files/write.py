"""A task writes its rows to data files.

    line                                  if the task dies right after it       if a twin runs beside it
    1 write a file on the local disk      nothing but a local file              each writes its own
    2 put it at its location, whole,      a file that no table has              each has names of its own
      some of them at once
    3 return the names, sizes and counts  Spark takes those of one task of      one's names are returned, the other's
                                          each number, or runs it again         files no table has

- Only names that a task returned get into a table, and only in the driver (`append`).
- A task that fails removes what it has put. What a killed one has put stays until the files that no table has are
  removed (`docs/operations.md`, Old tables). No name is used twice, so nothing can come to a name later.
"""

import logging
import os
import tempfile
import uuid
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.sinks.iceberg.data_files.bounds import boundless, statistics
from tidegate.sinks.iceberg.data_files.layout import Layout
from tidegate.sinks.iceberg.data_files.partitions import Partition, Scattered, divided
from tidegate.sinks.iceberg.data_files.places import PART_BYTES, put, remove

GROUP_BYTES = 64_000_000
"""Of rows in memory, as Arrow has them: a row group of Parquet. It is what a task holds of rows that wait."""
GROUP_ROWS = 1 << 20
PAGE_BYTES = 1 << 20

log = logging.getLogger("tidegate.sinks")

BATCH_FILES, TASK_PARTITIONS = 128, 8
"""So many files may the tasks of a batch write into partitions, and each task into so many partitions in any case. A
process may have 256 files open on some machines."""
FEW_GROUPS = 4
"""A task with more groups of rows writes into `TASK_PARTITIONS` only: each file that grows keeps memory for each of its
row groups, and is on the local disk."""
PUTS = 4
"""Small files that a task puts at once: those of one part, which S3's client holds in memory."""


def most_partitions(tasks: int) -> int:
    """In how many partitions each of so many tasks may write. Where rows are in more of them, a batch would have too
    many small files."""
    return max(TASK_PARTITIONS, BATCH_FILES // max(1, tasks))


WRITTEN = "location string, bytes bigint, rows bigint, offsets array<bigint>, partition array<string>"
"""What a task returns of each of its files, as Spark has it; one row without a location if its rows are scattered."""
_WRITTEN = pa.schema(
    [
        ("location", pa.string()),
        ("bytes", pa.int64()),
        ("rows", pa.int64()),
        ("offsets", pa.list_(pa.int64())),
        ("partition", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task has put. `offsets` are those of its row groups, in bytes; `partition` has the values as
    Iceberg parses them."""

    location: str
    bytes: int
    rows: int
    offsets: tuple[int, ...]
    partition: tuple[str, ...] = ()


def write(
    layout: Layout, name: str, batches: Iterator[pa.RecordBatch], most: int = TASK_PARTITIONS
) -> Iterator[pa.RecordBatch]:
    """Write the rows to data files that are called after `name`. Yields what was written (`WRITTEN`) at the end. A task
    whose rows are scattered over more than `most` partitions leaves no file, reads no further, and says so."""
    there: list[DataFile] = []
    unique = f"{name}-{uuid.uuid4().hex}"
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-", dir=_local_folder()) as scratch, _Puts(layout) as puts:
            for number, file in enumerate(_files(layout, Path(scratch), batches, most)):
                there.append(file.named(f"{layout.folder}{file.partition.folder}{unique}-{number:05}.parquet"))
                puts.begin(file.path, there[-1].location)
    except BaseException as error:
        for each in there:
            try_to_remove(layout, each.location)
        if not isinstance(error, Scattered):
            raise
        yield pa.RecordBatch.from_pylist([{}], schema=_WRITTEN)
        return
    yield pa.RecordBatch.from_pylist([asdict(each) for each in there], schema=_WRITTEN)


class _Puts:
    """Files on their way. Into many partitions go many small files, `PUTS` at once, and as many wait. A larger one is
    put before the next is written. At the end all are there, or what S3 or the file system raised is raised, as soon as
    it is known."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._pool = ThreadPoolExecutor(PUTS)
        self._begun: list[Future[None]] = []

    def __enter__(self) -> "_Puts":
        return self

    def begin(self, file: Path, location: str) -> None:
        self._wait_for(len(self._begun) - 2 * PUTS + 1)
        if file.stat().st_size > PART_BYTES:
            self._put(file, location)
        else:
            self._begun.append(self._pool.submit(self._put, file, location))

    def _wait_for(self, many: int) -> None:
        """Until so many of them are there, at least. Raises for one that failed."""
        left = list(self._begun)
        while True:
            left = [each for each in left if not each.done() or each.result()]
            if len(self._begun) - len(left) >= many:
                break
            wait(left, return_when=FIRST_COMPLETED)
        self._begun = left

    def _put(self, file: Path, location: str) -> None:
        put(self._layout, file, location)
        file.unlink(missing_ok=True)

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        try:
            if failed is None:
                self._wait_for(len(self._begun))
        finally:
            # whoever removes them must not be overtaken by one that is on its way
            self._pool.shutdown(cancel_futures=True)


@dataclass
class _Growing:
    """A file on the local disk, and what writes to it."""

    partition: Partition
    path: Path
    file: BinaryIO
    writer: pq.ParquetWriter

    def finished(self) -> "_Growing":
        self.writer.close()
        self.file.close()
        return self

    def named(self, location: str) -> DataFile:
        metadata = pq.read_metadata(self.path)
        offsets = map(_offset, (metadata.row_group(number) for number in range(metadata.num_row_groups)))
        values = tuple(self.partition.values)
        return DataFile(location, self.path.stat().st_size, metadata.num_rows, tuple(offsets), values)


def _offset(group: pq.RowGroupMetaData) -> int:
    first = group.column(0)
    # a dictionary comes before the pages that use it
    return int(min(first.data_page_offset, first.dictionary_page_offset or first.data_page_offset))


def _files(layout: Layout, scratch: Path, batches: Iterator[pa.RecordBatch], most: int) -> Iterator[_Growing]:
    """The rows as finished files, which exceed the size that the table wants by at most one row group. A file is of one
    partition, and of rows that mislead by the same columns. Raises Scattered."""
    growing: dict[tuple[tuple[int, ...], frozenset[str]], _Growing] = {}
    partitions: set[tuple[int, ...]] = set()
    for number, group in enumerate(_groups(batches)):
        allowed = most if number < FEW_GROUPS else min(most, TASK_PARTITIONS)
        for partition, rows in divided(group, layout.partitions):
            partitions.add(partition.units)
            without = boundless(rows)
            key = (partition.units, without)
            if len(partitions) > allowed or len(growing) + (key not in growing) > BATCH_FILES:
                raise Scattered
            file = growing[key] = growing.get(key) or _begun(layout, scratch, partition, without)
            file.writer.write_table(rows.cast(layout.schema), row_group_size=rows.num_rows)
            if file.file.tell() >= layout.target_bytes:
                yield growing.pop(key).finished()
    while growing:
        yield growing.popitem()[1].finished()


def _begun(layout: Layout, scratch: Path, partition: Partition, without: frozenset[str]) -> _Growing:
    path = scratch / uuid.uuid4().hex
    file = path.open("wb")
    return _Growing(partition, path, file, _writer(layout, file, without))


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    dictionaries: set[int] = set()
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        size += sum(_bytes(column, dictionaries) for column in batch.columns)
        rows += batch.num_rows
        if size >= GROUP_BYTES or rows >= GROUP_ROWS:
            yield _together(waiting)
            waiting, size, rows = [], 0, 0
            dictionaries.clear()
    if waiting:
        yield _together(waiting)


def _bytes(column: pa.Array, seen: set[int]) -> int:
    """What the column takes in memory. A dictionary that other batches share is counted once."""
    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    values = column.dictionary
    address = values.buffers()[1].address if len(values) else 0
    more = 0 if address in seen else int(values.nbytes)
    seen.add(address)
    return int(column.indices.nbytes) + more


def _local_folder() -> str | None:
    """A folder of Spark's, which is removed with its process, also if this one is killed. None outside of Spark."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0] or None


def _together(batches: list[pa.RecordBatch]) -> pa.Table:
    # Arrow writes a column as a dictionary only while the dictionary stays the same
    return pa.Table.from_batches(batches).unify_dictionaries()


def _writer(layout: Layout, file: Any, without: frozenset[str]) -> pq.ParquetWriter:
    """Statistics, pages and their index, dictionaries and decimals are as Iceberg's own writer makes them."""
    return pq.ParquetWriter(
        file,
        layout.schema,
        version="2.6",
        compression=layout.codec,
        compression_level=layout.level,
        data_page_size=PAGE_BYTES,
        write_page_index=True,
        write_statistics=statistics(layout.schema, without),
        store_decimal_as_integer=True,
        # Arrow's own schema would have readers ask for Arrow's types, and is as large as a small file
        store_schema=False,
    )


def try_to_remove(layout: Layout, location: str) -> None:
    """Remove a file that no table has and will have. What cannot be removed stays until the orphans are."""
    try:
        remove(layout, location)
    except Exception as error:
        log.warning("%s, which no table has, could not be removed: %s", location, type(error).__name__)

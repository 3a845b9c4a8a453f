"""Parquet files: row group by row group, whether they are held whole or read in ranges.

The footer is read first. It has the columns, their types, and where the row groups are. Then each row group is read. Of
a file in ranges that goes column by column in ranges of some megabytes, and some thousand rows are decoded at a time:
so the size of a row group does not matter. Texts are read as dictionaries there: a text of many rows is in the file
once, and its copies are counted before they are made. Of a file that is held whole a row group is decoded at once,
which takes half of the time.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.formats.columns import conform, leaves
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import CELL_BYTES, Undecodable, check_cells, check_names, check_unpacked, first_line
from tidegate.formats.registry import REPORT
from tidegate.formats.rest import portions, wanted_of
from tidegate.formats.said import concat
from tidegate.formats.splits import GroupSplitter, Splitter, StoredGroup
from tidegate.formats.streams import (
    LONGEST_RECORD,
    PIECE_MEMORY,
    Allowance,
    AsFile,
    ByteSource,
    HeldBytes,
    Stream,
    divided,
    stored,
)
from tidegate.formats.unknown import known

MAGIC = b"PAR1"
OF_DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError)
"""What Arrow raises of a damaged file: for names that are no UTF-8, types that do not exist."""
MOST_ROWS = 16_384
"""The most rows that are decoded at a time."""
BUFFERS = 64_000_000
"""The bytes of a row group that are held as stored, of all columns together."""
LEAST_BUFFER, LARGEST_BUFFER = 64 << 10, 8 << 20


def make_decoder(schema: pa.Schema, max_bytes: int, unknown: str = REPORT) -> Callable[[bytes], pa.Table]:
    def decode(body: bytes) -> pa.Table:
        stream = Stream(HeldBytes(body), None, Allowance(max_bytes, "max_object_bytes"))
        return concat(list(_tables(stream, schema, unknown, whole=body)))

    return decode


def make_streaming(schema: pa.Schema, unknown: str = REPORT) -> Callable[[Stream], Iterator[pa.Table]]:
    return lambda stream: _tables(stream, schema, unknown)


def make_splitter(schema: pa.Schema, unknown: str = REPORT) -> Splitter:
    """In splits of whole row groups."""
    return GroupSplitter(_row_groups, lambda stream, split: _tables(stream, schema, unknown, split.groups))


def _row_groups(source: ByteSource) -> Sequence[StoredGroup]:
    _check_footer(source)
    about = pq.read_metadata(pa.PythonFile(AsFile(source), "r"))
    # the columns of a group would say what is stored, and damaged ones end the process (pyarrow 26.0.1)
    found = (about.row_group(number) for number in range(about.num_row_groups))
    groups = [StoredGroup(group.num_rows, max(0, group.total_byte_size)) for group in found]
    if sum(group.rows for group in groups) != about.num_rows:
        raise Undecodable(f"the footer names {about.num_rows} rows, and other numbers for the row groups")
    return groups


def _tables(
    stream: Stream, schema: pa.Schema, unknown: str, groups: range | None = None, whole: bytes | None = None
) -> Iterator[pa.Table]:
    """The rows of the file, or of these row groups of it. `whole` are its bytes, if they are held. Raises
    Undecodable."""
    source = stored(stream, "a", "Parquet")
    try:
        yield from _of_groups(stream, schema, unknown, groups, whole)
    except (Undecodable, MemoryError):
        raise
    except OF_DAMAGE as error:
        if source.size < 2 * len(MAGIC):
            raise Undecodable(f"not Parquet: {first_line(error)}") from error
        begins, ends = source.read(0, len(MAGIC)), source.read(source.size - len(MAGIC), source.size)
        raise Undecodable(_damage(error, begins, ends)) from error


def _of_groups(
    stream: Stream, schema: pa.Schema, unknown: str, chosen: range | None, whole: bytes | None
) -> Iterator[pa.Table]:
    reading = _Reading(stream, schema, unknown, whole)
    about, names, wanted = reading.about, reading.names, reading.wanted
    counts = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
    groups = range(len(counts)) if chosen is None else chosen
    rows = sum(counts[: groups.start])
    told = rows + (about.num_rows if chosen is None else sum(counts[groups.start : groups.stop]))
    if about.num_rows:
        check_names(names, known(schema, unknown).names)
    if whole is None:
        stream.allowance.take((told - rows) * max(1, reading.cells) * CELL_BYTES)
    instants = instants_of(about, wanted)
    fitted = partial(conform, schema=schema, texts=False, instants=frozenset(instants), unknown=unknown)
    unsaid: Sequence[str] | None = names
    if whole is None or not groups:
        # types that do not fit are refused before any row is emitted, and in a file without rows
        yield fitted(reading.empty(), names=names)
        unsaid = None
    for group in groups:
        for table, exact in reading.tables(group, instants):
            if exact is not None:
                _check_nanoseconds(table.select(instants), exact)
            parts = (
                part
                for some in divided(table, _unfolded_bytes, stream.allowance.take)
                for part in portions(some, schema, unknown, stream.allowance.take)
            )
            for part in parts:
                try:
                    yield fitted(part, before=rows, names=unsaid)
                except Undecodable as error:
                    if error.row is not None:
                        error.where = run_of("row group", rows + error.row, counts)
                    raise
                rows, unsaid = rows + part.num_rows, None
    if rows != told:
        raise Undecodable(f"not Parquet: the footer names {told} rows, and the row groups have {rows}")


def _check_footer(source: ByteSource) -> None:
    """The footer is held whole, so its length is looked at before."""
    size = source.size
    tail = source.read(max(0, size - 8), size)
    if len(tail) == 8 and tail.endswith(MAGIC):
        (length,) = struct.unpack("<I", tail[:4])
        if LONGEST_RECORD < length < size:
            raise Undecodable(f"too large: a footer of {length} bytes, at most {LONGEST_RECORD}")


class _Reading:
    """How the row groups of one file are read."""

    def __init__(self, stream: Stream, schema: pa.Schema, unknown: str, whole: bytes | None) -> None:
        if whole is None:
            _check_footer(stream.source)
        self._source = stream.source
        self._whole = whole
        self._texts: list[str] = []
        self.about: Any = None
        self._buffer = LEAST_BUFFER
        self._micro = self._open("us")
        self.about = self._micro.metadata
        self.names: list[str] = self._micro.schema_arrow.names
        self.wanted, self.cells = wanted_of(self.names, schema, unknown)
        self._buffer = min(max(BUFFERS // max(1, len(self.wanted)), LEAST_BUFFER), LARGEST_BUFFER)
        if whole is None or _check_size(
            self.about, max(self.cells, len(known(schema, unknown))), stream.allowance.limit
        ):
            self._texts = _texts_of(self.about)
            self._micro = self._open("us")

    def empty(self) -> pa.Table:
        there = self._micro.schema_arrow
        return pa.schema([there.field(name) for name in self.wanted]).empty_table()

    def tables(self, group: int, instants: Sequence[str]) -> Iterator[tuple[pa.Table, pa.Table | None]]:
        """The rows of a row group, some at a time, and those of the columns `instants` in nanoseconds, if there are
        such columns. Raises Undecodable."""
        try:
            found = self._batches(self._micro, group, self.wanted)
            exact = self._batches(self._open("ns"), group, instants) if instants else None
            for batch in found:
                yield batch, None if exact is None else next(exact)
        except MemoryError:
            raise
        except (*OF_DAMAGE, StopIteration) as error:
            raise Undecodable(f"not Parquet: {first_line(error)}", where=run("row group", group)) from error

    def _batches(self, file: pq.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        if self._whole is not None:
            yield file.read_row_group(group, columns=list(columns), use_threads=False)
            return
        about = self.about.row_group(group)
        # by the columns that are wanted, so that both readings have the same rows
        each = max(CELL_BYTES * self.cells, about.total_byte_size // max(1, about.num_rows), 1)
        rows = int(min(max(PIECE_MEMORY // (2 * each), 1), MOST_ROWS))
        for batch in file.iter_batches(rows, row_groups=[group], columns=list(columns), use_threads=False):
            yield pa.Table.from_batches([batch])

    def _open(self, unit: str) -> pq.ParquetFile:
        held = self._whole is not None
        return pq.ParquetFile(
            pa.BufferReader(self._whole) if held else pa.PythonFile(AsFile(self._source), "r"),
            metadata=self.about,
            coerce_int96_timestamp_unit=unit,
            read_dictionary=self._texts,
            buffer_size=0 if held else self._buffer,
            pre_buffer=False,
        )


def _check_size(about: Any, columns: int, max_bytes: int) -> bool:
    """Refuse a file that is too large to be held whole, by its own figures. Whether all copies of its texts may be,
    too: then they are counted before they are made."""
    # the metadata of a row group's columns are not read, because pyarrow 26.0.1 ends the process if they are damaged
    size = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    check_unpacked(size, max_bytes)
    check_cells(about.num_rows, columns, max_bytes)
    return bool(size * about.num_rows > max_bytes)


def _damage(error: BaseException, begins: bytes, ends: bytes) -> str:
    """What is said of a damaged file, by its first and its last four bytes."""
    if begins == MAGIC != ends:
        return "not Parquet: it begins as Parquet does, and does not end so. It was cut off: upload all of it"
    return f"not Parquet: {first_line(error)}"


def _texts_of(about: Any) -> list[str]:
    columns = [about.schema.column(number) for number in range(about.num_columns)]
    return sorted({column.path for column in columns if column.physical_type == "BYTE_ARRAY"})


def _unfolded_bytes(table: pa.Table) -> int:
    """How many bytes the texts have that were read as dictionaries, once each row has its own copy."""
    size = 0
    for column in table.columns:
        for leaf in leaves(column):
            if pa.types.is_dictionary(leaf.type):
                lengths = pc.binary_length(leaf.dictionary)
                size += pc.sum(lengths.take(leaf.indices).cast(pa.int64())).as_py() or 0
    return size


def instants_of(about: Any, wanted: Sequence[str]) -> list[str]:
    """The columns of the old type INT96. It has no zone, and is in UTC by Spark's convention."""
    columns = [about.schema.column(number) for number in range(about.num_columns)]
    if all(column.physical_type != "INT96" for column in columns):
        return []
    found = []
    for name in wanted:
        inside = [column for column in columns if column.path == name or column.path.startswith(f"{name}.")]
        times = [column.physical_type for column in inside if column.logical_type.type == "TIMESTAMP"]
        if not times and any(column.physical_type == "INT96" for column in inside):
            found.append(name)
    return found


def _check_nanoseconds(micro: pa.Table, nano: pa.Table) -> None:
    """Arrow cuts INT96 to microseconds. So it is read as nanoseconds, too, which wrap beyond the year 2262: the product
    wraps as they do."""
    for name in micro.column_names:
        for one, other in zip(leaves(micro[name]), leaves(nano[name]), strict=True):
            if pa.types.is_timestamp(one.type):
                exact = pc.fill_null(one.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) * np.int64(1000)
                if (exact != pc.fill_null(other.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)).any():
                    raise Undecodable(f"column {name}: a time of INT96 has nanoseconds, and the schema microseconds")

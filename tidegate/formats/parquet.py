"""Parquet files.

A file in ranges: the footer is read first. It has the columns, their types, and where the row groups are. Then each row
group is read, column by column in ranges of some megabytes, and decoded some thousand rows at a time: so the size of a
row group does not matter. Texts are read as dictionaries: a text of many rows is in the file once, and its copies are
counted before they are made.

A file that is held whole is decoded in one call, because for a small file each call costs more than its bytes.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegate.formats.columns import conform, leaves
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import (
    CELL_BYTES,
    Oversized,
    Undecodable,
    check_cells,
    check_names,
    check_unpacked,
    first_line,
)
from tidegate.formats.splits import GroupSplitter, Splitter, StoredGroup
from tidegate.formats.streams import LONGEST_RECORD, PIECE_MEMORY, AsFile, ByteSource, Stream, stored

MAGIC = b"PAR1"
OF_DAMAGE = (pa.ArrowException, OSError, ValueError, TypeError, LookupError, OverflowError, RecursionError)
"""What Arrow raises of a damaged file: for names that are no UTF-8, types that do not exist."""
MOST_ROWS = 16_384
"""The most rows that are decoded at a time."""
BUFFERS = 64_000_000
"""The bytes of a row group that are held as stored, of all columns together."""
LEAST_BUFFER, LARGEST_BUFFER = 64 << 10, 8 << 20


def make_decoder(schema: pa.Schema, max_bytes: int) -> Callable[[bytes], pa.Table]:
    return lambda body: _read(body, schema, max_bytes)


def make_streaming(schema: pa.Schema) -> Callable[[Stream], Iterator[pa.Table]]:
    return lambda stream: _tables(stream, schema)


def make_splitter(schema: pa.Schema) -> Splitter:
    """In splits of whole row groups."""
    return GroupSplitter(_row_groups, lambda stream, split: _tables(stream, schema, split.groups))


def _row_groups(source: ByteSource) -> Sequence[StoredGroup]:
    about = _footer(source)
    # the columns of a group would say what is stored, and damaged ones end the process (pyarrow 26.0.1)
    found = (about.row_group(number) for number in range(about.num_row_groups))
    groups = [StoredGroup(group.num_rows, max(0, group.total_byte_size)) for group in found]
    if sum(group.rows for group in groups) != about.num_rows:
        raise Undecodable(f"the footer names {about.num_rows} rows, and other numbers for the row groups")
    return groups


# ---- whole


def _read(body: bytes, schema: pa.Schema, max_bytes: int) -> pa.Table:
    try:
        file = _open(body, None, "us")
        about = file.metadata
        size = _check_size(about, len(schema), max_bytes)
        # A text of many rows is in the file once. If all its copies may be too large, texts are read as dictionaries,
        # and counted before they are copied.
        if folded := _texts_of(about) if size * about.num_rows > max_bytes else []:
            file = _open(body, about, "us", folded)
        names = file.schema_arrow.names
        if about.num_rows:
            check_names(names, schema.names)
        wanted = [name for name in schema.names if name in names]
        table = _table(file, wanted)
        if wanted and table.num_rows != about.num_rows:
            raise Undecodable(
                f"not Parquet: the footer names {about.num_rows} rows, and the row groups have {table.num_rows}"
            )
        if folded:
            _check_unfolded(table, max_bytes)
        instants = instants_of(about, wanted)
        if instants:
            _check_nanoseconds(table.select(instants), _open(body, about, "ns").read(columns=instants))
        try:
            return conform(table, schema, texts=False, instants=frozenset(instants), names=names)
        except Undecodable as error:
            if error.row is not None:
                groups = [about.row_group(number).num_rows for number in range(about.num_row_groups)]
                error.where = run_of("row group", error.row, groups)
            raise
    except (Undecodable, MemoryError):
        raise
    except OF_DAMAGE as error:
        raise Undecodable(_damage(error, body[: len(MAGIC)], body[-len(MAGIC) :])) from error


def _table(file: pq.ParquetFile, wanted: Sequence[str]) -> pa.Table:
    try:
        return file.read(columns=wanted, use_threads=False)
    except MemoryError:
        raise
    except OF_DAMAGE as error:
        raise Undecodable(f"not Parquet: {first_line(error)}", where=_broken_group(file, wanted)) from error


def _broken_group(file: pq.ParquetFile, wanted: Sequence[str]) -> str:
    """The first row group that cannot be read by itself; empty if there is none."""
    for number in range(file.num_row_groups):
        try:
            file.read_row_group(number, columns=wanted, use_threads=False)
        except MemoryError:
            raise
        except OF_DAMAGE:
            return run("row group", number)
    return ""


def _check_size(about: Any, columns: int, max_bytes: int) -> int:
    """The file's own figure of its decompressed bytes, if that is not too large."""
    # the metadata of a row group's columns are not read, because pyarrow 26.0.1 ends the process if they are damaged
    size = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    check_unpacked(size, max_bytes)
    check_cells(about.num_rows, columns, max_bytes)
    return int(size)


def _open(body: bytes, about: Any, unit: str, folded: Sequence[str] = ()) -> pq.ParquetFile:
    return pq.ParquetFile(
        pa.BufferReader(body), metadata=about, coerce_int96_timestamp_unit=unit, read_dictionary=list(folded)
    )


def _check_unfolded(table: pa.Table, max_bytes: int) -> None:
    size = _unfolded_bytes(table)
    if size > max_bytes:
        raise Oversized(f"too large: its texts are {size} bytes, at most {max_bytes} (max_object_bytes)")


# ---- in ranges


def _tables(stream: Stream, schema: pa.Schema, groups: range | None = None) -> Iterator[pa.Table]:
    """The rows of the file, or of these row groups of it. Raises Undecodable."""
    source = stored(stream, "a", "Parquet")
    try:
        yield from _of_groups(stream, schema, groups)
    except (Undecodable, MemoryError):
        raise
    except OF_DAMAGE as error:
        if source.size < 2 * len(MAGIC):
            raise Undecodable(f"not Parquet: {first_line(error)}") from error
        begins, ends = source.read(0, len(MAGIC)), source.read(source.size - len(MAGIC), source.size)
        raise Undecodable(_damage(error, begins, ends)) from error


def _footer(source: ByteSource) -> Any:
    _check_footer(source)
    return pq.read_metadata(pa.PythonFile(AsFile(source), "r"))


def _rows_of_groups(about: Any, groups: range) -> int:
    """How many rows these row groups have, by the footer."""
    return sum(about.row_group(group).num_rows for group in groups)


def _of_groups(stream: Stream, schema: pa.Schema, chosen: range | None) -> Iterator[pa.Table]:
    about = _footer(stream.source)
    groups = range(about.num_row_groups) if chosen is None else chosen
    rows = _rows_of_groups(about, range(groups.start))
    told = rows + (about.num_rows if chosen is None else _rows_of_groups(about, groups))
    names = pq.ParquetFile(pa.PythonFile(AsFile(stream.source), "r"), metadata=about).schema_arrow.names
    if about.num_rows:
        check_names(names, schema.names)
    wanted = [name for name in schema.names if name in names]
    stream.allowance.take((told - rows) * max(1, len(wanted)) * CELL_BYTES)
    instants = instants_of(about, wanted)
    reading = _Reading(stream, about, wanted, _texts_of(about))
    # types that do not fit are refused before any row is emitted, and in a file without rows
    yield conform(reading.empty(), schema, texts=False, instants=frozenset(instants), names=names)
    for group in groups:
        first = rows
        for table, exact in reading.tables(group, instants):
            if exact is not None:
                _check_nanoseconds(table.select(instants), exact)
            for part in _within_memory(table, stream):
                try:
                    yield conform(part, schema, texts=False, instants=frozenset(instants), before=rows)
                except Undecodable as error:
                    if error.row is not None:
                        count = about.row_group(group).num_rows
                        error.where = run_of("row group", rows + error.row, [count], group, first)
                    raise
                rows += part.num_rows
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


def _within_memory(table: pa.Table, stream: Stream) -> Iterator[pa.Table]:
    """The table, divided as long as the copies of its texts need more than `PIECE_MEMORY`."""
    size = _unfolded_bytes(table)
    stream.allowance.take(size)
    # counting takes as long as copying the texts: the whole is counted once
    parts = [(table, size)]
    while parts:
        part, size = parts.pop()
        if part.num_rows > 1 and size > PIECE_MEMORY:
            half = part.num_rows // 2
            parts += [(each, _unfolded_bytes(each)) for each in (part.slice(half), part.slice(0, half))]
        else:
            yield part


class _Reading:
    """How the row groups of one file are read."""

    def __init__(self, stream: Stream, about: Any, wanted: Sequence[str], texts: Sequence[str]) -> None:
        self._stream = stream
        self._about = about
        self._wanted = list(wanted)
        self._texts = list(texts)
        self._buffer = min(max(BUFFERS // max(1, len(wanted)), LEAST_BUFFER), LARGEST_BUFFER)
        self._micro = self._open("us")

    def empty(self) -> pa.Table:
        there = self._micro.schema_arrow
        return pa.schema([there.field(name) for name in self._wanted]).empty_table()

    def tables(self, group: int, instants: Sequence[str]) -> Iterator[tuple[pa.Table, pa.Table | None]]:
        """The rows of a row group, some at a time, and those of the columns `instants` in nanoseconds, if there are
        such columns. Raises Undecodable."""
        try:
            found = self._batches(self._micro, group, self._wanted)
            exact = self._batches(self._open("ns"), group, instants) if instants else None
            for batch in found:
                yield batch, None if exact is None else next(exact)
        except MemoryError:
            raise
        except (*OF_DAMAGE, StopIteration) as error:
            raise Undecodable(f"not Parquet: {first_line(error)}", where=run("row group", group)) from error

    def _batches(self, file: pq.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        about = self._about.row_group(group)
        # by the columns that are wanted, so that both readings have the same rows
        each = max(CELL_BYTES * len(self._wanted), about.total_byte_size // max(1, about.num_rows), 1)
        rows = int(min(max(PIECE_MEMORY // (2 * each), 1), MOST_ROWS))
        for batch in file.iter_batches(rows, row_groups=[group], columns=list(columns), use_threads=False):
            yield pa.Table.from_batches([batch])

    def _open(self, unit: str) -> pq.ParquetFile:
        return pq.ParquetFile(
            pa.PythonFile(AsFile(self._stream.source), "r"),
            metadata=self._about,
            coerce_int96_timestamp_unit=unit,
            read_dictionary=self._texts,
            buffer_size=self._buffer,
            pre_buffer=False,
        )


# ---- both


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


def instants_of(about: Any, wanted: list[str]) -> list[str]:
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

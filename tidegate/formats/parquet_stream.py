"""Parquet, some rows at a time, in ranges of the file.

The footer is read first: it has the columns, their types, and where the row groups are. Then each row group is read,
column by column in ranges of some megabytes, and decoded some thousand rows at a time: so the size of a row group does
not matter. Texts are read as dictionaries: a text of many rows is in the file once, and its copies are counted before
they are made.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.formats.columns import conform, row_number
from tidegate.formats.parquet import (
    MAGIC,
    OF_DAMAGE,
    check_nanoseconds,
    damage,
    instants_of,
    texts_of,
    unfolded_bytes,
)
from tidegate.formats.places import run, run_of
from tidegate.formats.reasons import CELL_BYTES, Undecodable, check_names, first_line
from tidegate.formats.streams import LONGEST_RECORD, PIECE_MEMORY, WHOLE_BYTES, AsFile, ByteSource, Stream

MOST_ROWS = 16_384
"""The most rows that are decoded at a time."""
BUFFERS = 64_000_000
"""The bytes of a row group that are held as stored, of all columns together."""
LEAST_BUFFER, LARGEST_BUFFER = 64 << 10, 8 << 20


def make_streaming(schema: pa.Schema) -> Callable[[Stream], Iterator[pa.Table]]:
    return lambda stream: tables(stream, schema)


def tables(stream: Stream, schema: pa.Schema, groups: range | None = None) -> Iterator[pa.Table]:
    """The rows of the file, or of these row groups of it. Raises Undecodable."""
    if stream.codec is not None:
        raise Undecodable(
            f"too large: a Parquet file that is compressed as a whole ({stream.codec}) is read whole, at most"
            f" {WHOLE_BYTES} bytes. Parquet compresses by itself: upload it without"
        )
    try:
        yield from _of_groups(stream, schema, groups)
    except (Undecodable, MemoryError):
        raise
    except OF_DAMAGE as error:
        source = stream.source
        if source.size < 2 * len(MAGIC):
            raise Undecodable(f"not Parquet: {first_line(error)}") from error
        begins, ends = source.read(0, len(MAGIC)), source.read(source.size - len(MAGIC), source.size)
        raise Undecodable(damage(error, begins, ends)) from error


def footer(source: ByteSource) -> Any:
    check_footer(source)
    return pq.read_metadata(pa.PythonFile(AsFile(source), "r"))


def rows_of_groups(about: Any, groups: range) -> int:
    """How many rows these row groups have, by the footer."""
    return sum(about.row_group(group).num_rows for group in groups)


def _of_groups(stream: Stream, schema: pa.Schema, chosen: range | None) -> Iterator[pa.Table]:
    about = footer(stream.source)
    groups = range(about.num_row_groups) if chosen is None else chosen
    rows = rows_of_groups(about, range(groups.start))
    told = rows + (about.num_rows if chosen is None else rows_of_groups(about, groups))
    names = pq.ParquetFile(pa.PythonFile(AsFile(stream.source), "r"), metadata=about).schema_arrow.names
    if about.num_rows:
        check_names(names, schema.names)
    wanted = [name for name in schema.names if name in names]
    stream.allowance.take((told - rows) * max(1, len(wanted)) * CELL_BYTES)
    instants = instants_of(about, wanted)
    reading = _Reading(stream, about, wanted, texts_of(about))
    # types that do not fit are refused before any row is emitted, and in a file without rows
    yield conform(reading.empty(), schema, texts=False, instants=frozenset(instants), names=names)
    for group in groups:
        first = rows
        for table, exact in reading.tables(group, instants):
            if exact is not None:
                check_nanoseconds(table.select(instants), exact)
            for part in _within_memory(table, stream):
                place = partial(_row_after, rows)
                try:
                    yield conform(part, schema, texts=False, instants=frozenset(instants), place=place)
                except Undecodable as error:
                    if error.row is not None:
                        count = about.row_group(group).num_rows
                        error.where = run_of("row group", rows + error.row, [count], group, first)
                    raise
                rows += part.num_rows
    if rows != told:
        raise Undecodable(f"not Parquet: the footer names {told} rows, and the row groups have {rows}")


def _row_after(before: int, row: int) -> str:
    return row_number(before + row)


def check_footer(source: ByteSource) -> None:
    """The footer is held whole, so its length is looked at before."""
    size = source.size
    tail = source.read(max(0, size - 8), size)
    if len(tail) == 8 and tail.endswith(MAGIC):
        (length,) = struct.unpack("<I", tail[:4])
        if LONGEST_RECORD < length < size:
            raise Undecodable(f"too large: a footer of {length} bytes, at most {LONGEST_RECORD}")


def _within_memory(table: pa.Table, stream: Stream) -> Iterator[pa.Table]:
    """The table, divided as long as the copies of its texts need more than `PIECE_MEMORY`."""
    size = unfolded_bytes(table)
    stream.allowance.take(size)
    # counting takes as long as copying the texts: the whole is counted once
    parts = [(table, size)]
    while parts:
        part, size = parts.pop()
        if part.num_rows > 1 and size > PIECE_MEMORY:
            half = part.num_rows // 2
            parts += [(each, unfolded_bytes(each)) for each in (part.slice(half), part.slice(0, half))]
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

"""Parquet in splits: whole row groups. The footer says where they are, and how many rows each has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from tidegate.formats.parquet_stream import footer, tables
from tidegate.formats.reasons import Undecodable
from tidegate.formats.splits import ByteRange, Split, Splitter
from tidegate.formats.streams import ByteSource, Stream


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group, with the bytes of all its columns as they are stored."""

    rows: int
    size: int


def make_splitter(schema: pa.Schema) -> Splitter:
    return ParquetSplitter(schema)


@dataclass(frozen=True, slots=True)
class ParquetSplitter:
    schema: pa.Schema

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        """One: the footer speaks for all of the file."""
        return [(0, size)]

    def survey(self, source: ByteSource, start: int, end: int) -> tuple[RowGroup, ...]:
        about = footer(source)
        found = (about.row_group(number) for number in range(about.num_row_groups))
        groups = tuple(RowGroup(group.num_rows, _stored(group)) for group in found)
        if sum(group.rows for group in groups) != about.num_rows:
            raise Undecodable(f"the footer names {about.num_rows} rows, and other numbers for the row groups")
        return groups

    def cut(self, surveys: Sequence[tuple[RowGroup, ...]], size: int, most: int) -> list[Split]:
        (groups,) = surveys
        bounds = [0]
        held = 0
        for number, group in enumerate(groups):
            if held and held + group.size > most:
                bounds.append(number)
                held = 0
            held += group.size
        bounds.append(len(groups))
        if len(bounds) < 3:
            return []
        splits: list[Split] = []
        before = 0
        for start, end in pairwise(bounds):
            rows = sum(group.rows for group in groups[start:end])
            splits.append(Split(start, end, rows, before, len(bounds) - 1, size))
            before += rows
        return splits

    def tables(self, stream: Stream, split: Split) -> Iterator[pa.Table]:
        return tables(stream, self.schema, range(split.start, split.end))


def _stored(group: object) -> int:
    columns = (group.column(number) for number in range(group.num_columns))  # type: ignore[attr-defined]
    return sum(max(0, column.total_compressed_size) for column in columns)

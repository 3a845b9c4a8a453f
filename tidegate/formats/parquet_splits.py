"""Parquet in splits: whole row groups. The footer says how many rows each has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.formats.parquet_stream import footer, tables
from tidegate.formats.reasons import Undecodable
from tidegate.formats.splits import ByteRange, Split, Splitter, StoredGroup, cut_groups
from tidegate.formats.streams import ByteSource, Stream


def make_splitter(schema: pa.Schema) -> Splitter:
    return ParquetSplitter(schema)


@dataclass(frozen=True, slots=True)
class ParquetSplitter:
    schema: pa.Schema

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        """One: the footer speaks for all of the file."""
        return [(0, size)]

    def survey(self, source: ByteSource, start: int, end: int) -> tuple[StoredGroup, ...]:
        about = footer(source)
        # the columns of a group would say what is stored, and damaged ones end the process (pyarrow 26.0.1)
        found = (about.row_group(number) for number in range(about.num_row_groups))
        groups = tuple(StoredGroup(group.num_rows, max(0, group.total_byte_size)) for group in found)
        if sum(group.rows for group in groups) != about.num_rows:
            raise Undecodable(f"the footer names {about.num_rows} rows, and other numbers for the row groups")
        return groups

    def cut(self, surveys: Sequence[tuple[StoredGroup, ...]], size: int, most: int) -> list[Split]:
        (groups,) = surveys
        return cut_groups(groups, size, most)

    def tables(self, stream: Stream, split: Split) -> Iterator[pa.Table]:
        return tables(stream, self.schema, range(split.start, split.end))

"""ORC in splits: whole stripes. The footer says how many rows each has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.formats.orc import checked_tail, streamed_stripes
from tidegate.formats.splits import ByteRange, Split, Splitter, StoredGroup, cut_groups
from tidegate.formats.streams import ByteSource, Stream


def make_splitter(schema: pa.Schema) -> Splitter:
    return OrcSplitter(schema)


@dataclass(frozen=True, slots=True)
class OrcSplitter:
    schema: pa.Schema

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        """One: the footer speaks for all of the file."""
        return [(0, size)]

    def survey(self, source: ByteSource, start: int, end: int) -> tuple[StoredGroup, ...]:
        groups: list[StoredGroup] = []
        begin = 0
        for stripe in checked_tail(source).stripes:
            groups.append(StoredGroup(stripe.rows, max(0, stripe.end - begin)))
            begin = stripe.end
        return tuple(groups)

    def cut(self, surveys: Sequence[tuple[StoredGroup, ...]], size: int, most: int) -> list[Split]:
        (groups,) = surveys
        return cut_groups(groups, size, most)

    def tables(self, stream: Stream, split: Split) -> Iterator[pa.Table]:
        return streamed_stripes(stream, self.schema, range(split.start, split.end))

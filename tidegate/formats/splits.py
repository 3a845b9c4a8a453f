"""Splits of a large file: several tasks decode one each, to the rows and the row numbers of the whole file.

Nothing in a text says how many rows are before a byte, so its ranges are *surveyed* first: a survey counts, and decodes
nothing. Then the file is *cut*, and each split is decoded by itself, strictly.

A survey may be wrong, for example about a quote that is part of a field. That costs time and no row:

- The first split begins where the file does. Each of them begins at a line end. If that line end is within a quoted
  field, the split before it has a field that is never closed, and is refused. So if none is refused, each begins where
  a record does.
- A split that has not as many rows as it was counted to have is refused. So if none is refused, each row has its
  number.

A file of which any split is refused is read again as a whole, and only that says why, and in which line.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import pyarrow as pa

from tidegate.formats.streams import Allowance, ByteSource, Stream

ByteRange = tuple[int, int]
"""The first byte, and the one after the last."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a file: from `start` up to `end`, in bytes of a text, in row groups of Parquet, in stripes of ORC. It
    has `rows`, and `before` are in the splits before it. There are `of` splits. Its decoder asks for no byte from
    `reach` on. `head` is what the file has once and each split needs: the header of CSV."""

    start: int
    end: int
    rows: int
    before: int
    of: int
    reach: int
    head: bytes = b""

    @property
    def groups(self) -> range:
        """The row groups or stripes."""
        return range(self.start, self.end)


class Splitter(Protocol):
    """How files of one format are split."""

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        """The ranges to be surveyed of a file of `size` bytes. A split shall have at most some `most` bytes."""
        ...

    def survey(self, source: ByteSource, start: int, end: int) -> Any:
        """What `cut` needs to know of a range. It goes from one process to another. Any error means that the file is to
        be read as a whole."""
        ...

    def weight(self, surveys: Sequence[Any], size: int) -> int:
        """The bytes that all splits have together, of a file of `size` bytes."""
        ...

    def cut(self, surveys: Sequence[Any], size: int, most: int) -> list[Split]:
        """The splits, which together are the file, with some `most` bytes of its weight each; none if it is to be read
        as a whole."""
        ...

    def tables(self, stream: Stream, split: Split) -> Iterator[pa.Table]:
        """The rows of a split, whose file is `stream`. Raises Undecodable."""
        ...


@dataclass
class PartOf:
    """The bytes of a source from `start` up to `end`, as a source."""

    source: ByteSource
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def read(self, start: int, end: int) -> bytes:
        return self.source.read(self.start + start, self.start + end)


def part(stream: Stream, split: Split) -> Stream:
    """The split of a text, as a file of its own."""
    size = split.end - split.start
    return replace(
        stream, source=PartOf(stream.source, split.start, split.end), allowance=Allowance(size, "the size of a split")
    )


def even_ranges(size: int, most: int) -> list[ByteRange]:
    """Ranges of at most `most` bytes, about equally long."""
    count = max(1, -(-size // most))
    bounds = [size * number // count for number in range(count + 1)]
    return list(pairwise(bounds))


@dataclass(frozen=True, slots=True)
class LineSurvey:
    """The records of a range of text that begins at a byte, wherever that is. `first` and `last`: where the first and
    the last record end of those that end in the range, None if none does. `rows`: how many end after the first one.
    `head` and `tail`: whether the bytes up to `first`, and those after `last`, are something of a row. Without an end
    all of the range is its head."""

    first: int | None
    last: int | None
    rows: int
    head: bool
    tail: bool


def cut_lines(surveys: Sequence[LineSurvey], size: int, *, header: bytes = b"") -> list[Split]:
    """The splits between the first ends of the ranges. The header is no row, and is in the first split."""
    bounds: list[tuple[int, int]] = []
    """The end of each split, and how many rows are before it."""
    rows = -1 if header else 0
    unended = False
    for number, survey in enumerate(surveys):
        if survey.first is None:
            unended = unended or survey.head
            continue
        rows += unended or survey.head
        if number and survey.first < size:
            bounds.append((survey.first, rows))
        rows += survey.rows
        unended = survey.tail
    bounds.append((size, rows + unended))
    starts = [(0, 0), *bounds]
    if len(bounds) == 1:
        return []
    return [
        Split(start, end, after - before, before, len(bounds), end, header if start else b"")
        for (start, before), (end, after) in zip(starts, bounds, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """Rows that a file stores together, and says how many they are: a row group of Parquet, a stripe of ORC. `size` are
    its bytes, of Parquet before they are compressed."""

    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class GroupSplitter:
    """The `Splitter` of a format whose footer says which groups there are: `groups` reads it, and raises Undecodable.
    `tables` decodes those of a split."""

    groups: Callable[[ByteSource], Sequence[StoredGroup]]
    tables: Callable[[Stream, Split], Iterator[pa.Table]]

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        """One: the footer speaks for all of the file."""
        return [(0, size)]

    def survey(self, source: ByteSource, start: int, end: int) -> Sequence[StoredGroup]:
        return self.groups(source)

    def weight(self, surveys: Sequence[Sequence[StoredGroup]], size: int) -> int:
        (groups,) = surveys
        return sum(group.size for group in groups)

    def cut(self, surveys: Sequence[Sequence[StoredGroup]], size: int, most: int) -> list[Split]:
        (groups,) = surveys
        return _cut_groups(groups, size, most)


def _cut_groups(groups: Sequence[StoredGroup], size: int, most: int) -> list[Split]:
    """Splits of some groups each, of some `most` bytes, or of one group. They have about equally many bytes, because
    the largest one is waited for. Its decoder reads footers, so it may ask for any byte."""
    total = sum(group.size for group in groups)
    count = -(-total // most)
    bounds = [0]
    held = part = 0
    for number, group in enumerate(groups):
        # a group is of the part in which its middle is
        begins = (2 * held + group.size) * count // (2 * total) if total else 0
        if begins > part and number:
            bounds.append(number)
        part = begins
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

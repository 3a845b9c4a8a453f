"""CSV in splits. A line end within quotes ends no record, and whether a byte is within quotes depends on all quotes
before it. So a survey counts both cases. Which of them holds follows from the number of quotes in the ranges before.

What is rare is read as a whole: blank lines, line ends of a carriage return alone, and a header that does not end in
the first piece.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.formats import csv_stream
from tidegate.formats.delimited import BOM, LINE_END
from tidegate.formats.dialect import Dialect
from tidegate.formats.places import first_record_of_csv
from tidegate.formats.quotes import quotes_in
from tidegate.formats.reasons import Undecodable
from tidegate.formats.registry import UTF_8
from tidegate.formats.splits import ByteRange, LineSurvey, Split, Splitter, cut_lines, even_ranges, part
from tidegate.formats.streams import RANGE_BYTES, ByteSource, Stream

LEAST_LINE = 3
"""A line of fewer bytes, with its end, may be blank."""


@dataclass(frozen=True, slots=True)
class CsvSurvey:
    """A range of CSV. `outside` and `inside` are its lines if it begins outside and inside of quotes; None if a line of
    it may be blank."""

    quotes: int
    outside: LineSurvey | None
    inside: LineSurvey | None
    header: bytes


def make_splitter(schema: pa.Schema, encoding: str = UTF_8, **written: str) -> Splitter | None:
    """None for an encoding in which a byte says nothing by itself, or a split is not as long as its text."""
    return CsvSplitter(schema, Dialect(**written)) if encoding == UTF_8 else None


class CsvSplitter:
    def __init__(self, schema: pa.Schema, dialect: Dialect) -> None:
        self._schema, self._dialect = schema, dialect

    def ranges(self, size: int, most: int) -> list[ByteRange]:
        return even_ranges(size, most)

    def survey(self, source: ByteSource, start: int, end: int) -> CsvSurvey:
        cases = (_Lines(), _Lines())
        quotes = 0
        header, returned = b"", False
        for begin in range(start, end, RANGE_BYTES):
            text = source.read(begin, min(begin + RANGE_BYTES, end))
            _check_returns(text, after_return=returned)
            returned = text.endswith(b"\r")
            if begin == 0:
                header = first_record_of_csv(text.removeprefix(BOM), self._dialect.delimiter)
                if len(header) == len(text.removeprefix(BOM)):
                    raise Undecodable("the header does not end in the first piece")
                if header.isspace() or header.startswith(BOM):
                    raise Undecodable("a blank line or another mark is before the header")
            codes = np.frombuffer(text, np.uint8)
            ends = np.flatnonzero(codes == LINE_END) + begin + 1
            if b'"' in text:
                places = quotes_in(text)
                within = (np.searchsorted(places + begin, ends - 1) + quotes) % 2
                for case, lines in enumerate(cases):
                    lines.add(ends[within == case])
                quotes += len(places)
            else:
                cases[quotes % 2].add(ends)
        outside, inside = (lines.survey(end) for lines in cases)
        return CsvSurvey(quotes, outside, inside, header)

    def weight(self, surveys: Sequence[CsvSurvey], size: int) -> int:
        return size

    def cut(self, surveys: Sequence[CsvSurvey], size: int, most: int) -> list[Split]:
        chosen: list[LineSurvey] = []
        quotes = begun = 0
        for survey in surveys:
            lines = survey.inside if quotes % 2 else survey.outside
            if lines is None:
                return []
            if lines.first is not None and lines.last is not None:
                if lines.first - begun < LEAST_LINE:
                    return []
                begun = lines.last
            chosen.append(lines)
            quotes += survey.quotes
        return cut_lines(chosen, size, header=surveys[0].header)

    def tables(self, stream: Stream, split: Split) -> Iterator[pa.Table]:
        return csv_stream.tables(part(stream, split).pieces(), self._schema, self._dialect, split.head)


class _Lines:
    """The ends of the lines of a range, in one of the two cases."""

    def __init__(self) -> None:
        self._first: int | None = None
        self._last = 0
        self._rows = 0
        self._short = False

    def add(self, ends: np.ndarray) -> None:
        """Those of the next piece: each is the place after a line end."""
        if not len(ends):
            return
        if self._first is None:
            self._first = self._last = int(ends[0])
            ends = ends[1:]
        self._short = self._short or bool((np.diff(ends, prepend=self._last) < LEAST_LINE).any())
        self._rows += len(ends)
        self._last = int(ends[-1]) if len(ends) else self._last

    def survey(self, end: int) -> LineSurvey | None:
        if self._short:
            return None
        if self._first is None:
            return LineSurvey(None, None, 0, head=True, tail=False)
        return LineSurvey(self._first, self._last, self._rows, head=True, tail=self._last < end)


def _check_returns(text: bytes, *, after_return: bool) -> None:
    """Raises Undecodable for a carriage return that is no part of a line end of two."""
    alone = text.count(b"\r") - text.count(b"\r\n") - text.endswith(b"\r")
    if alone or (after_return and not text.startswith(b"\n")):
        raise Undecodable("a line may end at a carriage return alone")

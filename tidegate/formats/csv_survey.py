"""Where CSV can be split. A line end within quotes ends no record, and whether a byte is within quotes depends on all
quotes before it. So a survey counts both cases. Which of them holds follows from the number of quotes in the ranges
before.

What is rare is read as a whole: blank lines, line ends of a carriage return alone, and a header that does not end in
the first piece.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.formats.byte_counts import FEED
from tidegate.formats.places import first_record_of_csv
from tidegate.formats.quotes import quotes_in
from tidegate.formats.reasons import Undecodable
from tidegate.formats.splits import LineSurvey, Split, cut_lines
from tidegate.formats.streams import ByteSource, ranges
from tidegate.formats.transcode import MARK

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


def survey(delimiter: str, source: ByteSource, start: int, end: int) -> CsvSurvey:
    """Raises Undecodable if the file is to be read as a whole."""
    cases = (_Lines(), _Lines())
    quotes = 0
    header, returned = b"", False
    for begin, text in ranges(source, start, end):
        _check_returns(text, after_return=returned)
        returned = text.endswith(b"\r")
        if begin == 0:
            header = first_record_of_csv(text.removeprefix(MARK), delimiter)
            if len(header) == len(text.removeprefix(MARK)):
                raise Undecodable("the header does not end in the first piece")
            if header.isspace() or header.startswith(MARK):
                raise Undecodable("a blank line or another mark is before the header")
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == FEED) + begin + 1
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


def join(surveys: Sequence[CsvSurvey], size: int) -> list[Split]:
    """The splits of a file of so many bytes; none if it is to be read as a whole."""
    chosen: list[LineSurvey] = []
    quotes = begun = 0
    for each in surveys:
        lines = each.inside if quotes % 2 else each.outside
        if lines is None:
            return []
        if lines.first is not None and lines.last is not None:
            if lines.first - begun < LEAST_LINE:
                return []
            begun = lines.last
        chosen.append(lines)
        quotes += each.quotes
    return cut_lines(chosen, size, header=surveys[0].header)


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

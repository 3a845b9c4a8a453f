"""Text is cut into pieces of whole records, so that a large file is never held whole.

Every byte of the text is in one piece, in order. A piece ends where a record ends, and never within a line end. So the
pieces together have the records, the rows and the lines of the whole.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tidegate.formats.byte_counts import FEED, RETURN, count
from tidegate.formats.quotes import QUOTE, is_regular
from tidegate.formats.reasons import CELL_BYTES, Undecodable
from tidegate.formats.streams import LONGEST_RECORD, PIECE_MEMORY


@dataclass(frozen=True, slots=True)
class Before:
    """What of a file is before a text."""

    rows: int = 0
    lines: int = 0


BEGINNING = Before()


@dataclass(frozen=True, slots=True)
class Records:
    """Where the records of a text end, which begins with a record. `last_end` is the end of the last one that surely
    ends in a text of which more may follow, 0 if none does. `ends` are all ends, of the same text, and `line_ends`
    those of its lines. `feeds`: lines end at a line feed only."""

    last_end: Callable[[bytes], int]
    ends: Callable[[bytes], np.ndarray]
    line_ends: Callable[[bytes], np.ndarray]
    feeds: bool


class Lines:
    """Counts the lines that have ended in a text that comes in pieces: at a line feed, a carriage return, or both. In
    JSON (`feeds`) they end at a line feed only."""

    def __init__(self, *, feeds: bool = False) -> None:
        self.ended = 0
        self._feeds = feeds
        self._returned = False

    def add(self, text: bytes) -> None:
        if self._feeds:
            self.ended += count(text, FEED)
            return
        self.ended += ends_of_lines(text) - (self._returned and text.startswith(b"\n"))
        self._returned = text.endswith(b"\r") if text else self._returned


def ends_of_lines(text: bytes) -> int:
    returns = count(text, RETURN) - text.count(b"\r\n") if b"\r" in text else 0
    return count(text, FEED) + returns


def pieces(text: Iterable[bytes], records: Records, *, ended: Callable[[], int]) -> Iterator[bytes]:
    """The text in pieces of whole records: as many as the parts in which it comes, or fewer. `ended` is how many lines
    have ended in the pieces so far, for the message. Raises Undecodable for a record of more than
    `LONGEST_RECORD` bytes."""
    rest = b""
    for part in text:
        rest += part
        if end := records.last_end(rest):
            yield rest[:end]
            rest = rest[end:]
        if len(rest) > LONGEST_RECORD:
            raise Undecodable(
                f"too large: the record that begins in line {ended() + 1} has more than {LONGEST_RECORD} bytes"
            )
    if rest:
        yield rest


def within_memory(piece: bytes, records: Records, columns: int) -> Iterator[bytes]:
    """The piece, divided if the values of its records need more than `PIECE_MEMORY`: short records are many values."""
    most = max(1, PIECE_MEMORY // (columns * CELL_BYTES))
    begin = 0
    if ends_of_lines(piece) >= most:
        for end in records.ends(piece)[most - 1 :: most]:
            yield piece[begin:end]
            begin = end
    if begin < len(piece):
        yield piece[begin:]


def _feeds(text: bytes) -> np.ndarray:
    """Where the lines of a text end: after a line feed."""
    return np.flatnonzero(np.frombuffer(text, np.uint8) == FEED) + 1


def _feeds_and_returns(text: bytes) -> np.ndarray:
    """The same of CSV: after a line feed, a carriage return, or both."""
    codes = np.frombuffer(text, np.uint8)
    found = np.flatnonzero((codes == FEED) | (codes == RETURN)) + 1
    # the return of a line end of two is none by itself
    ends_there = (codes[found - 1] == FEED) | (np.append(codes, 0)[found] != FEED)
    return found[ends_there]


RECORDS_OF_JSON = Records(lambda text: text.rfind(b"\n") + 1, _feeds, _feeds, feeds=True)


def records_of_csv(delimiter: str) -> Records:
    """Quoted fields hold line ends: a record ends at a line end before which all quotes are closed."""
    pattern = _until_open(delimiter)

    def last_end(text: bytes) -> int:
        # the other half of this line end may follow
        stop = len(text) - text.endswith(b"\r")
        if b'"' not in text:
            return max(text.rfind(b"\n", 0, stop), text.rfind(b"\r", 0, stop)) + 1
        found = _by_number(text[:stop], delimiter)
        return found if 2 * found > len(text) else max(_by_walking(text, pattern), default=0)

    def ends(text: bytes) -> np.ndarray:
        return np.fromiter(_by_walking(text, pattern), np.int64)

    return Records(last_end, ends, _feeds_and_returns, feeds=False)


def _by_number(text: bytes, delimiter: str) -> int:
    """The last line end with an even number of quotes before it, if the quotes before it are regular: then it is in no
    field. 0 if that cannot be said."""
    codes = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(codes == QUOTE)
    ends = np.flatnonzero((codes == ord("\n")) | (codes == ord("\r")))
    # the return of a line end of two is none by itself
    ends = ends[~((codes[ends] == ord("\r")) & (codes[np.minimum(ends + 1, len(codes) - 1)] == ord("\n")))]
    before = np.searchsorted(places, ends)
    closed = np.flatnonzero(before % 2 == 0)
    if not len(closed):
        return 0
    end, quotes = int(ends[closed[-1]]) + 1, places[: before[closed[-1]]]
    return end if not len(quotes) or is_regular(text[:end], quotes, delimiter) else 0


def _by_walking(text: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    for found in pattern.finditer(text):
        if found["open"] is not None:
            return
        if found["end"] is not None:
            yield found.end()


def _until_open(delimiter: str) -> re.Pattern[bytes]:
    """Quoted fields, each in one piece; a quote that opens a field of which the end is not sure; the ends of lines
    outside of them."""
    before = rb"(?:\A|(?<=[" + re.escape(delimiter.encode()) + rb"\r\n]))"
    quoted = before + rb'"[^"]*+(?:""[^"]*+)*+"(?!\Z)'
    return re.compile(quoted + rb"|(?P<open>" + before + rb'")|(?P<end>\r\n|\r(?!\Z)|\n)')

"""JSON that is no lines: one array of objects a file, or objects over several lines. It becomes lines, an object each.

Nothing but white space between tokens changes, and what is around the objects of an array: what is no JSON stays so.
"""

import re
from collections.abc import Iterable, Iterator
from enum import Enum

import numpy as np

from tidegate.formats.reasons import Undecodable
from tidegate.formats.recognize import HEAD_BYTES, is_json_array

SPACES = np.zeros(256, bool)
SPACES[[9, 10, 13, 32]] = True
QUOTE, COMMA, FEED, SPACE, ESCAPE = b'",\n \\'
OPENS, CLOSES = b"{}"
PART_BYTES = 1 << 20
BRACKET = 0x20
"""What `{` and `[` differ by, and `}` and `]`."""


UNDECIDED = re.compile(rb"\s*(\{\s*|\[.*)?", re.DOTALL)
"""The beginning of a file that may have any layout."""


class JsonLayout(Enum):
    """How a file has its objects. The value is how people count them."""

    LINES = "line"
    ARRAY = "item"
    OBJECTS = "object"


def layout_of(head: bytes) -> JsonLayout:
    """By the first bytes of a file. A line of JSON lines is never `{` alone."""
    if is_json_array(head):
        return JsonLayout.ARRAY
    line, feed, _ = head.lstrip(b" \t\r\n").partition(b"\n")
    return JsonLayout.OBJECTS if feed and line.strip() == b"{" else JsonLayout.LINES


def with_layout(parts: Iterable[bytes]) -> tuple[JsonLayout, Iterator[bytes]]:
    """The layout of a text, and the text as lines."""
    coming, head = iter(parts), b""
    for part in coming:
        head += part
        if len(head) >= HEAD_BYTES or not UNDECIDED.fullmatch(head):
            break
    layout = layout_of(head[:HEAD_BYTES])
    return layout, _after(head, coming) if layout is JsonLayout.LINES else _lines(layout, _after(head, coming))


def as_lines(text: bytes) -> tuple[JsonLayout, bytes]:
    """As `with_layout`, of a whole text. Raises Undecodable."""
    layout = layout_of(text[:HEAD_BYTES])
    if layout is JsonLayout.LINES:
        return layout, text
    parts = (text[begin : begin + PART_BYTES] for begin in range(0, len(text), PART_BYTES))
    return layout, b"".join(_lines(layout, parts))


def _after(head: bytes, parts: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from parts


def _lines(layout: JsonLayout, parts: Iterable[bytes]) -> Iterator[bytes]:
    made = _LinesOfObjects(array=layout is JsonLayout.ARRAY)
    rest = b""
    for part in parts:
        text = rest + part
        # what white space is next to is known when something follows it
        whole = len(text.rstrip(b" \t\r\n"))
        rest = text[whole:]
        if whole:
            yield made.of(text[:whole])
    made.end()


class _LinesOfObjects:
    """Of a text that comes in parts, none of which ends in white space. A mark is what ends an object: its end; of an
    array a comma between two of them. So are its brackets."""

    def __init__(self, *, array: bool) -> None:
        self._array = array
        self._depth = 0
        self._in_string = self._escapes = False
        self._marks = 0
        self._since_mark = self._ended = False

    def of(self, text: bytes) -> bytes:
        codes = np.frombuffer(text, np.uint8)
        quotes = codes == QUOTE
        if self._escapes or b"\\" in text:
            quotes[self._escaped(codes)] = False
        in_string = np.logical_xor.accumulate(quotes) ^ self._in_string
        outside = ~(in_string | quotes)
        opens, closes = (outside & (codes | BRACKET == each) for each in (OPENS, CLOSES))
        depth = np.cumsum(opens.view(np.int8) - closes.view(np.int8), dtype=np.int32) + self._depth
        if depth.min() < 0:
            raise Undecodable("the file closes more objects and arrays than it opens")
        spaces = outside & SPACES[codes]
        end = marks = closes & (depth == 0)
        if self._array:
            end &= codes == CLOSES ^ BRACKET
            marks = end | ((depth == 1) & (opens | (outside & (codes == COMMA))))
        kept = np.ones(len(codes), bool)
        kept[self._next_to(marks, spaces)] = False
        self._look(marks, end, spaces)
        self._depth, self._in_string = int(depth[-1]), bool(in_string[-1])
        made = np.where(spaces, np.uint8(SPACE), codes)
        if self._array:
            made[marks] = FEED
            return made[kept & ~(marks & opens)].tobytes()
        return np.insert(made[kept], np.flatnonzero(end[kept]) + 1, FEED).tobytes()

    def _next_to(self, marks: np.ndarray, spaces: np.ndarray) -> np.ndarray:
        """Where the white space is that has a mark before or after it."""
        places = np.flatnonzero(spaces)
        begins = np.flatnonzero(np.diff(places, prepend=-2) > 1)
        lengths = np.diff(begins, append=len(places))
        first = places[begins]
        before = np.where(first == 0, not self._since_mark, marks[first - 1])
        after = marks[first + lengths]
        return places[np.repeat(before | after, lengths)]

    def _look(self, marks: np.ndarray, end: np.ndarray, spaces: np.ndarray) -> None:
        """Refuse an array with nothing between two commas, or with something after it."""
        seen = np.cumsum(~(spaces | marks), dtype=np.int32)
        places = np.flatnonzero(marks)
        last = int(seen[places[-1]]) if len(places) else 0
        if self._array:
            numbers = self._marks + np.arange(len(places))
            something = np.diff(seen[places], prepend=0) > 0
            something[:1] |= self._since_mark
            empty = (numbers == 1) & end[places]
            ends = np.flatnonzero(end[places])
            more = len(places) > ends[0] + 1 or seen[-1] > last if len(ends) else False
            if more or (self._ended and (len(places) or seen[-1])):
                raise Undecodable("the file has something after its array")
            if len(nothing := numbers[~something & (numbers > 0) & ~empty]):
                raise Undecodable(f"item {nothing[0]} of the array: there is nothing")
            self._ended = self._ended or bool(len(ends))
        self._since_mark = bool(seen[-1] > last) or (self._since_mark and not len(places))
        self._marks += len(places)

    def _escaped(self, codes: np.ndarray) -> np.ndarray:
        """Where the characters are that have an odd number of backslashes before them."""
        escapes = np.flatnonzero(codes == ESCAPE)
        found = np.zeros(0, np.int64)
        if len(escapes):
            first = escapes[np.diff(escapes, prepend=-2) > 1]
            last = escapes[np.diff(escapes, append=len(codes) + 1) > 1]
            odd = (last - first + 1 + (self._escapes & (first == 0))) % 2 == 1
            found = last[odd] + 1
        if self._escapes and codes[0] != ESCAPE:
            found = np.append(found, 0)
        self._escapes = bool((found == len(codes)).any())
        return found[found < len(codes)]

    def end(self) -> None:
        """Raises Undecodable if the file was cut off in its array."""
        if self._array and not self._ended:
            raise Undecodable("the file ends in the middle of its array: is it cut off?")

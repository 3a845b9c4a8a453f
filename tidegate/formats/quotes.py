"""Where quotes may stand in a CSV file.

Arrow's reader is lenient: after a closing quote it reads on, so a stray quote makes one field of all the rows up to the
next stray quote. `check_quotes` is as strict as RFC 4180 about quoted fields: a quote opens only at the beginning of a
field, and a delimiter, the end of the line or the end of the file follows the closing quote. A quote inside a field
that is not quoted (5" pipe) is an ordinary character, as in Arrow and in Python's csv module.
"""

import re

import numpy as np

from tidegate.formats.places import line, line_number
from tidegate.formats.reasons import Undecodable

QUOTE = ord('"')
LINE_ENDS = re.compile(rb"[\r\n]")


def check_quotes(body: bytes, delimiter: str, lines: int = 0) -> None:
    """Raises Undecodable if a quoted field does not end as it must. `lines` of the file are before this text. A file
    without quotes costs one search."""
    if b'"' not in body:
        return
    places = quotes_in(body)
    if not is_regular(body, places, delimiter):
        _walk(body, places.tolist(), delimiter, lines)


def quotes_in(body: bytes) -> np.ndarray:
    """The positions of the quotes."""
    return np.flatnonzero(np.frombuffer(body, np.uint8) == QUOTE)


def is_regular(body: bytes, places: np.ndarray, delimiter: str) -> bool:
    """Check each quote by its number: even ones open, odd ones close, unless the two are neighbours. That decides every
    file without a quote in an unquoted field."""
    if len(places) % 2:
        return False
    ends = np.zeros(256, bool)
    ends[list(b"\r\n" + delimiter.encode())] = True
    text = np.frombuffer(body, np.uint8)
    opening, closing = places[0::2], places[1::2]
    before = ends[text[opening - 1]]
    before[0] |= opening[0] == 0
    after = ends[text[np.minimum(closing + 1, len(text) - 1)]]
    after[-1] |= closing[-1] == len(text) - 1
    doubled = closing[:-1] + 1 == opening[1:]
    before[1:] |= doubled
    after[:-1] |= doubled
    return bool(before.all() and after.all())


def _walk(body: bytes, places: list[int], delimiter: str, lines: int) -> None:
    """Check quote after quote, for files with a quote in an unquoted field, and for files that are refused."""
    ends = b"\r\n" + delimiter.encode()
    number = 0
    while number < len(places):
        opened = places[number]
        if opened > 0 and body[opened - 1] not in ends:
            number += 1
            continue
        number += 1
        while number + 1 < len(places) and places[number + 1] == places[number] + 1:
            number += 2
        if number >= len(places):
            number = lines + line_number(body, opened)
            raise Undecodable(
                f"not CSV: the quote in line {number} is opened and never closed", where=_line_with(body, opened, lines)
            )
        closed = places[number]
        if closed + 1 < len(body) and body[closed + 1] not in ends:
            behind = LINE_ENDS.split(body[closed + 1 : closed + 11])[0].decode("utf-8", "replace")
            raise Undecodable(
                f"not CSV: the quote opened in line {lines + line_number(body, opened)} closes in line"
                f" {lines + line_number(body, closed)}, and {behind!r} comes behind it, where a delimiter or"
                " the end of the line must. A quote inside a quoted field is written twice",
                where=_line_with(body, closed, lines),
            )
        number += 1


def _line_with(body: bytes, place: int, lines: int) -> str:
    """The line that has this position."""
    begin = max(body.rfind(end, 0, place) for end in (b"\n", b"\r")) + 1
    ends = [found for end in (b"\n", b"\r") if (found := body.find(end, place)) >= 0]
    return line(lines + line_number(body, place), body[begin : min(ends, default=len(body))])

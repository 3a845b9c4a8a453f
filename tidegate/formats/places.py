"""Where in a file the thing is that is refused: the line itself for text, the row group or the block for the others.

It is for the file's owner, who has the file and an editor. It is bounded, because a batch may quarantine 100,000 files,
and what is said of each is kept in one file: `QUOTED` characters of a line, and a few more.
"""

import re
from collections.abc import Sequence

QUOTED = 200
"""The most characters of a line that are quoted, with what replaces its control characters."""
LONGEST_CHARACTER = 4
"""Bytes of a character in UTF-8."""


def quoted(text: bytes) -> str:
    """The beginning of a text, as a terminal can show it: what is not printable is escaped, bytes that are no UTF-8,
    too."""
    # so many bytes have more characters than are quoted, so no character that is shown is cut
    beginning = text[: LONGEST_CHARACTER * (QUOTED + 1)].decode("utf-8", "backslashreplace")
    shown = ""
    for character in beginning:
        more = character if character.isprintable() else character.encode("unicode_escape").decode()
        if len(shown) + len(more) > QUOTED:
            return f"{shown}..."
        shown += more
    return shown


def line(number: int, text: bytes, unit: str = "line") -> str:
    """`number` counts from 1, as an editor does. `text` is without its end. `unit`: what is counted."""
    return f"{unit} {number}: {quoted(text)}"


def line_number(body: bytes, place: int) -> int:
    """The line of a position, from 1."""
    return body.count(b"\n", 0, place) + body.count(b"\r", 0, place) - body.count(b"\r\n", 0, place) + 1


def run(what: str, number: int) -> str:
    """A run of rows by its number (from 0). Whoever reads it counts from 1, as rows and lines are counted."""
    return f"{what} {number + 1}"


def run_of(what: str, row: int, counts: Sequence[int], begin: int = 0, first: int = 0) -> str:
    """Which of the file's runs of rows has this row (from 0). `what` is how the format calls them, `counts` how many
    rows each has; the first of these is run `begin` of the file, and begins with row `first`. Empty if none has it."""
    for number, count in enumerate(counts, start=begin):
        if row < first + count:
            return f"{run(what, number)}, rows {first + 1} to {first + count}"
        first += count
    return ""


def record_of_csv(body: bytes, delimiter: str, number: int, *, blanks: bool, lines: int = 0) -> str:
    """A record of a CSV file whose quotes are regular (`formats.quotes`): 0 is the header, the others are rows. With
    `blanks`, a blank line after the header is a record. A record may have several lines: the first is named. `lines`
    of the file are before this text. Empty if there is no such record."""
    found = _record(body, delimiter, number, blanks)
    return line(lines + line_number(body, found[0]), body[found[0] : found[1]]) if found else ""


def first_record_of_csv(body: bytes, delimiter: str) -> bytes:
    """The header, with the end of its line."""
    ends = (found for found in _pieces(delimiter).finditer(body) if found["end"] is not None)
    found = next(ends, None)
    return body if found is None else body[: found.end()]


def _record(body: bytes, delimiter: str, number: int, blanks: bool) -> tuple[int, int] | None:
    """Where it begins and ends."""
    begin = count = 0
    for found in _pieces(delimiter).finditer(body):
        if found["end"] is None:
            continue
        if found.start() > begin or (blanks and count):
            if count == number:
                return begin, found.start()
            count += 1
        begin = found.end()
    return (begin, len(body)) if count == number and begin < len(body) else None


def _pieces(delimiter: str) -> re.Pattern[bytes]:
    """Quoted fields, each in one piece, and the ends of lines outside of them."""
    before = rb"(?:\A|(?<=[" + re.escape(delimiter.encode()) + rb"\r\n]))"
    return re.compile(before + rb'"[^"]*+(?:""[^"]*+)*+"|(?P<end>\r\n|\r|\n)')

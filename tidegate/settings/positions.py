"""Where each key and each value of a TOML text is.

TOML parsers for Python keep no positions. This reads a text that `tomllib` has accepted, so it need not find mistakes.
A test compares what it finds with what `tomllib` finds, for drawn texts.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tidegate.settings.words import Location, TomlPlace


@dataclass(slots=True)
class Positions:
    """Offsets into `source`: of keys and of section headers, of values, and of each character of texts."""

    source: str
    keys: dict[Location, tuple[int, int]] = field(default_factory=dict)
    values: dict[Location, tuple[int, int]] = field(default_factory=dict)
    texts: dict[Location, list[int]] = field(default_factory=dict)

    def of(self, location: Location, part: tuple[int, int] | None = None) -> TomlPlace | None:
        """The place of a value, of its section if it is not there, or None. `part`: only these characters of a text."""
        offsets = self.texts.get(location)
        if part is not None and offsets is not None:
            start = offsets[min(part[0], len(offsets) - 1)]
            return self._place(start, offsets[min(part[1], len(offsets) - 1)])
        if location in self.values:
            return self._place(*self.values[location])
        return self.of_key(location)

    def of_key(self, location: Location) -> TomlPlace | None:
        """The place of a key, or of the header of the section around it that is nearest, or None."""
        while location:
            if location in self.keys:
                return self._place(*self.keys[location])
            location = location[:-1]
        return None

    def _place(self, start: int, end: int) -> TomlPlace:
        line_start = self.source.rfind("\n", 0, start) + 1
        line_end = self.source.find("\n", start)
        line_end = len(self.source) if line_end < 0 else line_end
        length = max(1, min(end, line_end) - start)
        return TomlPlace(self.source.count("\n", 0, start) + 1, start - line_start + 1, length)


def positions(source: str) -> Positions:
    """Of a text that `tomllib` accepts. Line ends must be `\\n`."""
    scanner = _Scanner(source)
    scanner.document()
    return scanner.found


_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^,\]}#\n]+")
_STRINGS = (
    ('"""', re.compile(r'"""(?:\\.|[^\\])*?"{3,5}(?!")', re.DOTALL)),
    ("'''", re.compile(r"'''.*?'{3,5}(?!')", re.DOTALL)),
    ('"', re.compile(r'"(?:\\.|[^"\\])*"')),
    ("'", re.compile(r"'[^']*'")),
)
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[ \t]*\n[ \t\n]*|.)", re.DOTALL)


class _Scanner:
    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.found = Positions(source)
        self.lists: dict[Location, int] = {}
        """How many [[sections]] of a name there are so far."""

    def document(self) -> None:
        section: Location = ()
        self.space()
        while self.at < len(self.source):
            if self.source.startswith("[", self.at):
                section = self.header()
            else:
                self.pair(section)
            self.space()

    def space(self) -> None:
        self.at = _match(_SPACE, self.source, self.at).end()

    def header(self) -> Location:
        start = self.at
        of_list = self.source.startswith("[[", start)
        self.at += 2 if of_list else 1
        names = [name for name, _, _ in self.names()]
        self.at += 2 if of_list else 1
        location: Location = ()
        for number, name in enumerate(names, start=1):
            location = (*location, name)
            if of_list and number == len(names):
                self.lists[location] = self.lists.get(location, -1) + 1
            self.found.keys.setdefault(location, (start, self.at))
            if location in self.lists:
                location = (*location, self.lists[location])
        self.found.keys[location] = (start, self.at)
        return location

    def names(self) -> Sequence[tuple[str, int, int]]:
        """The parts of a key with dots, each with where it is."""
        parts = []
        while True:
            self.space()
            start = self.at
            if self.source[start] in "\"'":
                name, _ = self.text()
            else:
                name = _match(_BARE_KEY, self.source, start)[0]
                self.at += len(name)
            parts.append((name, start, self.at))
            self.space()
            if not self.source.startswith(".", self.at):
                return parts
            self.at += 1

    def pair(self, section: Location) -> None:
        location = section
        for name, start, end in self.names():
            location = (*location, name)
            self.found.keys.setdefault(location, (start, end))
        self.at += 1  # the equals sign
        self.value(location)

    def value(self, location: Location) -> None:
        self.space()
        start = self.at
        opens = self.source[start]
        if opens in "\"'":
            _, self.found.texts[location] = self.text()
        elif opens == "[":
            for number in self.members("]"):
                self.value((*location, number))
        elif opens == "{":
            for _ in self.members("}"):
                self.pair(location)
        else:
            self.at += len(_match(_BARE_VALUE, self.source, start)[0].rstrip())
        self.found.values[location] = (start, self.at)

    def members(self, closes: str) -> Iterator[int]:
        """Yield before each member of a list or an inline table."""
        self.at += 1
        number = 0
        while True:
            self.space()
            if self.source.startswith(closes, self.at):
                self.at += 1
                return
            yield number
            number += 1
            self.space()
            if self.source.startswith(",", self.at):
                self.at += 1

    def text(self) -> tuple[str, list[int]]:
        """A string, and the offset of each of its characters, and of its end."""
        quotes, pattern = next(each for each in _STRINGS if self.source.startswith(each[0], self.at))
        found = _match(pattern, self.source, self.at)
        at, end = self.at + len(quotes), found.end() - len(quotes)
        self.at = found.end()
        if len(quotes) == 3 and self.source.startswith("\n", at):
            at += 1
        characters: list[str] = []
        offsets: list[int] = []
        while at < end:
            escape = _ESCAPE.match(self.source, at) if quotes[0] == '"' else None
            said = _unescaped(escape[0]) if escape else self.source[at]
            characters.append(said)
            offsets.extend([at] * len(said))
            at = escape.end() if escape else at + 1
        return "".join(characters), [*offsets, end]


_SHORT = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}


def _unescaped(escape: str) -> str:
    if escape[1] in "uU":
        return chr(int(escape[2:], 16))
    return _SHORT.get(escape[1], "")  # else it is a line end that is left out


def _match(pattern: re.Pattern[str], source: str, at: int) -> re.Match[str]:
    found = pattern.match(source, at)
    assert found is not None, f"no {pattern.pattern!r} at {at}: this is no TOML"
    return found

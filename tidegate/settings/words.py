"""A mistake in `tidegate.toml`, as a person reads it: the place, the line, and what is allowed there."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic_core import PydanticCustomError

Location = tuple[int | str, ...]
"""The way to a value: names, and numbers from 0 in lists and in [[sections]]."""


@dataclass(frozen=True, slots=True)
class TomlPlace:
    """A part of a line. `line` and `column` count from 1, `length` in characters, 1 at least."""

    line: int
    column: int
    length: int


BEFORE, LONGEST = 100, 200
"""Characters: of a line that is longer, what is shown, and so many of them before the mark."""
MOST = 50
"""Mistakes that are told; whoever has more begins with these."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing that is wrong. `field` is the way to it, such as `route.1.schema`; empty if it is the file as a whole.
    `place` is None if the file has no such place. `warning`: the file can be used as it is."""

    field: str
    message: str
    place: TomlPlace | None
    warning: bool = False

    def text(self, file: str, lines: list[str]) -> str:
        """What a person reads: file, line, column, and the line with the place marked."""
        where = f"{file}:{self.place.line}:{self.place.column}" if self.place else file
        field = f"{self.field or 'the file'}: " if self.field or self.place is None else ""
        said = f"{where}: {'warning: ' if self.warning else ''}{field}{self.message}"
        if self.place is None or self.place.line > len(lines):
            return said
        number, shown = str(self.place.line), lines[self.place.line - 1]
        # of a long line, what is around the mark
        start = max(0, self.place.column - 1 - BEFORE) if len(shown) > LONGEST else 0
        part = shown[start : start + LONGEST]
        # tabs stay tabs, so that the mark is below what it marks
        before = "".join(each if each == "\t" else " " for each in shown[start : self.place.column - 1])
        mark = "^" * max(1, min(self.place.length, LONGEST - len(before)))
        return f"{said}\n  {number} | {part}\n  {' ' * len(number)} | {before}{mark}"


class SettingsError(Exception):
    """The configuration cannot be used. The text names the file, the line, and what is allowed. `mistakes` are those in
    it, none if the file could not be read at all."""

    def __init__(self, text: str, mistakes: tuple[Mistake, ...] = ()) -> None:
        super().__init__(text)
        self.mistakes = mistakes


def in_text(mistakes: Iterable[Mistake], file: str, source: str) -> str:
    """The mistakes in the order of the file, each as `Mistake.text`."""
    lines = source.replace("\r\n", "\n").split("\n")
    several = list(mistakes)
    told = [each.text(file, lines) for each in several[:MOST]]
    if len(several) > MOST:
        told.append(f"{file}: and {len(several) - MOST} more")
    return "\n".join(told)


def named(location: Location) -> str:
    """`route.1.schema`: routes and members of lists count from 1 for people."""
    return ".".join(str(step + 1) if isinstance(step, int) else step for step in location)


def misplaced(complaint: str, *place: int | str) -> PydanticCustomError:
    """The error of a validator of several fields. pydantic does not report which field is wrong; `place` does."""
    return PydanticCustomError("misplaced", "{complaint}", {"complaint": complaint, "place": place})

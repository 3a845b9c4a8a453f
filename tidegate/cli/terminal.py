"""What every verb prints with: a console, errors, progress, and quantities as people say them.

Whatever is printed for people goes through here, or through `printed.echo`: both show what others have written as it
is, and let none of it move the cursor or begin a line. A test looks for what prints around them.
"""

import os
import sys
import textwrap
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text as TextOfRich

from tidegate.cli.printed import in_prose, lines_of, visible
from tidegate.core.quantities import counted as counted
from tidegate.core.quantities import duration as duration

WIDTH_WITHOUT_TERMINAL = 140
"""Characters; a pipe has no width, and rich's 80 would break every row."""


class Text(TextOfRich):
    """A text that shows what rich would leave out, so that a name is shown whole."""

    def __init__(self, text: str = "", *style: Any, **options: Any) -> None:
        super().__init__(text.translate(_LEFT_OUT), *style, **options)

    def append(self, text: Any, style: Any = None) -> "Text":
        super().append(text.translate(_LEFT_OUT) if isinstance(text, str) else text, style)
        return self


_LEFT_OUT = {code: visible(chr(code)) for code in (7, 8, 11, 12, 13)}
"""Of `rich.control.STRIP_CONTROL_CODES`."""


class SafeConsole(Console):
    """A console that prints a text in one line, but for a line that it leaves empty before or after it, and shows what
    is not printable as an escape, in tables too."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*map(_one_line, objects), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            shown = text if control else "\n".join(map(visible, text.split("\n")))
            yield Segment(shown, style, control)


def _one_line(printed: Any) -> Any:
    if isinstance(printed, str):
        printed = Text(printed)  # and no markup
    if not isinstance(printed, TextOfRich) or "\n" not in printed.plain:
        return printed
    before, after = printed.plain.startswith("\n"), printed.plain.endswith("\n")
    inner = printed[int(before) : len(printed) - int(after)]
    line = Text(style=printed.style)
    line.append("\n" * before)
    for part in inner.divide([each for at, char in enumerate(inner.plain) if char == "\n" for each in (at, at + 1)]):
        line.append("\\n" if part.plain == "\n" else part)
    line.append("\n" * after)
    return line


def console(*, stderr: bool = False) -> Console:
    width = None if has_width(stderr=stderr) else WIDTH_WITHOUT_TERMINAL
    return SafeConsole(stderr=stderr, width=width, highlight=False)


def has_width(*, stderr: bool = False) -> bool:
    """Whether the output has a width: a terminal has one, and `COLUMNS` states one. Lines in a pipe are not broken, so
    that they can be searched."""
    return (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ


def say(out: Console, label: str, text: str = "", *, style: str = "", indent: int = 0) -> None:
    """Print a paragraph that begins with a label in this style. If the output has a width, the lines fit it, `indent`
    before those after the first. A word is never broken: it may be a command, or a name to copy."""
    label, text = visible(label), visible(text)
    lines = [label + text]
    if has_width():
        lines = textwrap.wrap(
            label + text,
            out.width,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    for number, line in enumerate(lines):
        printed = Text(line)
        if number == 0:
            printed.stylize(style, 0, len(label.rstrip()))
        out.print(printed, soft_wrap=True)


def error(text: str, advice: str = "") -> None:
    _paragraph("error: ", in_prose(text), "", "bold red")
    if advice:
        _paragraph("", in_prose(advice), "dim")


def warning(text: str) -> None:
    """To stderr. It may be of several lines."""
    _paragraph("", in_prose(text), "yellow")


def progress(text: str) -> None:
    """How far a long verb is, to stderr. It may be of several lines."""
    _paragraph("", in_prose(text), "dim")


def _paragraph(label: str, text: str, style: str, of_label: str = "") -> None:
    out = console(stderr=True)
    for line in lines_of(text):
        out.print(Text.assemble((label, of_label), (line, style)), soft_wrap=True)
        label = ""


def tell(text: str) -> None:
    """To stdout, in one line: what was done, and which command shows how it ends."""
    console().print(Text(in_prose(text)), soft_wrap=True)


def size(count: int) -> str:
    """Bytes in powers of ten, with the units of `tidegate.toml`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"

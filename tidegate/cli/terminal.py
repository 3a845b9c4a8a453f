"""What every verb prints with: a console, errors, progress, and quantities as people say them."""

import os
import sys
import textwrap

from rich.console import Console
from rich.text import Text

from tidegate.cli.printed import runnable

WIDTH_WITHOUT_TERMINAL = 140
"""Characters; a pipe has no width, and rich's 80 would break every row."""


def console(*, stderr: bool = False) -> Console:
    width = None if has_width(stderr=stderr) else WIDTH_WITHOUT_TERMINAL
    return Console(stderr=stderr, width=width, highlight=False)


def has_width(*, stderr: bool = False) -> bool:
    """Whether the output has a width: a terminal has one, and `COLUMNS` states one. Lines in a pipe are not broken, so
    that they can be searched."""
    return (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ


def say(out: Console, label: str, text: str = "", *, style: str = "", indent: int = 0) -> None:
    """Print a paragraph that begins with a label in this style. If the output has a width, the lines fit it, `indent`
    before those after the first. A word is never broken: it may be a command, or a name to copy."""
    label, text = runnable(label), runnable(text)
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
    out = console(stderr=True)
    out.print(Text.assemble(("error: ", "bold red"), runnable(text)), soft_wrap=True)
    if advice:
        out.print(Text(runnable(advice), style="dim"), soft_wrap=True)


def warning(text: str) -> None:
    """To stderr, as it is: it may be of several lines."""
    console(stderr=True).print(Text(runnable(text), "yellow"), soft_wrap=True)


def progress(text: str) -> None:
    """How far a long verb is."""
    console(stderr=True).print(Text(runnable(text), style="dim"), soft_wrap=True)


def tell(text: str) -> None:
    """To stdout, in one line: what was done, and which command shows how it ends."""
    console().print(Text(runnable(text)), soft_wrap=True)


def size(count: int) -> str:
    """Bytes in powers of ten, with the units of `tidegate.toml`."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def duration(seconds: int) -> str:
    """Seconds as "45s", "12m", "3h" or "2d 4h"; never negative, since two clocks may differ."""
    seconds = max(0, seconds)
    if seconds < 120:
        return f"{seconds}s"
    if seconds < 2 * 3600:
        return f"{seconds // 60}m"
    if seconds < 48 * 3600:
        return f"{seconds // 3600}h"
    return f"{seconds // 86400}d {seconds % 86400 // 3600}h"


def counted(count: int, one: str, many: str = "") -> str:
    """ "1 row", "1,234 rows"; `many` if that is not `one` with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"

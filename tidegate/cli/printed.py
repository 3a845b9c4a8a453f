"""Commands that a verb prints run as they stand: they call the command line as the verb was called, and name the stack
that it was told to work on.

Our own texts are written without that: `tidegate resume BATCH`, wherever they come from, a flow or a file of the work
bucket. What prints a command passes it through `runnable`; what prints a sentence with commands, through `in_prose`.
Text that others have written, keys and errors for example, is shown by `visible`, and no command in it is touched.
"""

import logging
import re
import shlex
from pathlib import Path
from typing import Any

import typer

WITH_DIR = frozenset(
    {
        *("status", "trace", "files", "ui", "sql", "doctor", "audit", "resend", "abort", "resume", "pause"),
        "maintain",
        *("ledger rebuild", "local up", "local down", "local env"),
    }
)
"""The verbs with the option `--dir`."""
WITH_CONFIG = frozenset({"check"})
"""The verbs that read `tidegate.toml` of no stack, and are named beside one."""

_IN_BACKTICKS = re.compile(r"`(tidegate [^`\n]*)`")
_COMMAND = re.compile(r"^tidegate (?:ledger |local |--)?[a-z]+(?![\w.-]*\w)")

_called = "tidegate"

_given: dict[frozenset[str], str] = {}
"""For the verbs of each kind, what is put behind their names. Of the process, because the threads of `ui` print too."""


def begin(called: str = "tidegate") -> None:
    """A verb begins: the command line was called so, and nothing was given."""
    global _called
    _called = called
    _given.clear()


def chose(folder: Path) -> None:
    """A person has named the folder of a stack."""
    _given[WITH_DIR] = f" --dir {shlex.quote(str(folder))}"


def reads(config: Path) -> None:
    """The stack runs by this file."""
    _given[WITH_CONFIG] = f" --config {shlex.quote(str(config))}"


def runnable(command: str) -> str:
    """The command called as this one was, with the options that were given, if its verb takes them and it has none.
    What is no command stays as it is; so does what stands in its arguments, the key of an object for example."""
    return _COMMAND.sub(_completed, command, count=1)


def in_prose(text: str) -> str:
    """A sentence of ours, with its commands as `runnable` has them. They stand in backticks. A name that others have
    given stands in it as `named`."""
    return _IN_BACKTICKS.sub(lambda found: f"`{runnable(found[1])}`", text)


def named(text: str) -> str:
    """A name that others have given, for a sentence of ours: it has no command."""
    return visible(text).replace("`", "\\x60")


def _completed(found: re.Match[str]) -> str:
    command, rest = found.group(), found.string[found.end() :]
    verb = command.removeprefix("tidegate ")
    for verbs, options in _given.items():
        if verb in verbs and options.split()[0] not in rest.split():
            return f"{_called} {verb}{options}"
    return f"{_called} {verb}"


# --- text of others ---


def visible(text: str) -> str:
    """The text in one line, and in its place: what would move the cursor, colour the line, end it or turn it round is
    shown as an escape of Python's."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def lines_of(text: str) -> list[str]:
    """The lines of a paragraph. Those after the first are indented: none of them looks like one that we begin."""
    first, *others = text.splitlines() or [""]
    return [visible(first), *(f"    {visible(line)}" for line in others)]


def echo(text: str, *, err: bool = False) -> None:
    """Print a paragraph without rich, which takes a tenth of a second to import."""
    for line in lines_of(text):
        typer.echo(line, err=err)


class OneLine(logging.Formatter):
    """A record of the log in one line, and its stack trace in lines of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # the name is logging's
        return visible(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        return "\n".join(map(visible, super().formatException(ei).split("\n")))

"""Commands that a verb prints run as they stand: they name the stack that the verb itself was told to work on.

Text is written without that: `tidegate resume BATCH`, wherever it comes from, a flow or a file of the work bucket. What
prints it passes it through `runnable`.
"""

import re
import shlex
from pathlib import Path

WITH_DIR = frozenset(
    {
        *("status", "trace", "files", "batches", "ui", "sql", "shell", "doctor", "redrive", "resume", "abort"),
        *("decide", "pause", "unpause", "audit", "backfill", "reconcile", "republish", "maintain"),
        *("quarantine ls", "quarantine show", "quarantine release", "ledger recover", "ledger rebuild"),
        *("local up", "local down", "local env"),
    }
)
"""The verbs with the option `--dir`."""
WITH_CONFIG = frozenset({"routes"})
"""The verbs that read `tidegate.toml` of no stack, and are named beside one."""

_COMMAND = re.compile(r"(?<![\w./-])tidegate (?:(?:quarantine|ledger|local) )?[a-z]+(?![\w.-]*\w)")
_REST = re.compile(r"[^`\n]*")

_given: dict[frozenset[str], str] = {}
"""For the verbs of each kind, what is put behind their names. Of the process, because the threads of `ui` print too."""


def forget() -> None:
    """Nothing was given: a verb begins."""
    _given.clear()


def chose(folder: Path) -> None:
    """A person has named the folder of a stack."""
    _given[WITH_DIR] = f" --dir {shlex.quote(str(folder))}"


def reads(config: Path) -> None:
    """The stack runs by this file."""
    _given[WITH_CONFIG] = f" --config {shlex.quote(str(config))}"


def runnable(text: str) -> str:
    """The text, with the options that were given behind each command that takes them and has none."""
    return _COMMAND.sub(_completed, text) if _given else text


def _completed(found: re.Match[str]) -> str:
    command, rest = found.group(), _REST.match(found.string, found.end())
    for verbs, options in _given.items():
        if command.removeprefix("tidegate ") in verbs and options.split()[0] not in (rest.group() if rest else ""):
            return command + options
    return command

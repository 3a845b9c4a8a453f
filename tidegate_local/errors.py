"""What can go wrong with the local stack."""

from __future__ import annotations

from pathlib import Path

from tidegate.cli.exits import Expected


class LocalError(Expected):
    """The local stack cannot do what was asked; the text says what happened, to what, and what to do."""


def log_tail(path: Path, lines: int = 15) -> str:
    """The end of a log, indented, for an error's text; says so if there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return f"  ({path} was not written)"
    last = text.splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in last) or f"  ({path} is empty)"

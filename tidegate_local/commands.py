"""Commands about the local stack for a person to type, as a shell runs them."""

from __future__ import annotations

import shlex
from pathlib import Path

from tidegate.cli.command import this_command


def command(*words: str, folder: Path) -> str:
    """A command about the stack in this folder, which runs wherever it is typed."""
    return f"{this_command()} {shlex.join(words)} --dir {shlex.quote(str(folder.absolute()))}"

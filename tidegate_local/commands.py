"""Commands for a person to type, as a shell runs them."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

NAME = "tidegate"


def program() -> str:
    """The CLI: its name if a shell finds it by that, else its path."""
    for place in (Path(sys.argv[0]), Path(sys.executable).with_name(NAME)):
        if place.name == NAME and place.exists():
            found = shutil.which(NAME)
            known = found is not None and Path(found).resolve() == place.resolve()
            return NAME if known else shlex.quote(str(place.absolute()))
    return NAME


def command(*words: str, folder: Path) -> str:
    """A command about the stack in this folder, which runs wherever it is typed."""
    return f"{program()} {shlex.join(words)} --dir {shlex.quote(str(folder.absolute()))}"

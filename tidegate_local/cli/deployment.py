"""The deployment that runs in a folder of this machine."""

import os
from pathlib import Path

import typer

from tidegate_local import stack
from tidegate_local.environment import process_environment


def enter(folder: Path, *, up_to_date: bool = False) -> None:
    """Make this process call the stack in this folder, and nothing else. Raises LocalError if none runs.

    With `up_to_date`, the stack first applies what has changed in the file that it was made from.
    """
    if up_to_date:
        config = Path(stack.describe(folder)["TIDEGATE_CONFIG"])
        if stack.apply(config, folder) is not None:
            typer.echo(f"{config} has changed: the stack in {folder} now runs by it", err=True)
    local = process_environment(os.environ, stack.describe(folder))
    os.environ.clear()
    os.environ.update(local)

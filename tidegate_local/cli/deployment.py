"""The deployment that runs in a folder of this machine."""

import os
from collections.abc import Mapping
from pathlib import Path

from tidegate.cli import printed
from tidegate.cli.plugins import StackStopped
from tidegate.environment import LOCAL_CONFIG
from tidegate_local import stack
from tidegate_local.environment import process_environment
from tidegate_local.errors import LocalError
from tidegate_local.remains import remains


def enter(folder: Path, *, up_to_date: bool = False) -> None:
    """Make this process call the stack in this folder, and nothing else. Raises LocalError if none runs;
    StackStopped if one ran there and has left tables.

    With `up_to_date`, the stack first applies what has changed in the file that it was made from.
    """
    described = _described(folder)
    if up_to_date:
        config = Path(described[LOCAL_CONFIG])
        if stack.apply(config, folder) is not None:
            printed.echo(f"{config} has changed: the stack in {folder} now runs by it", err=True)
            described = _described(folder)
    local = process_environment(os.environ, described)
    os.environ.clear()
    os.environ.update(local)


def _described(folder: Path) -> Mapping[str, str]:
    try:
        return stack.describe(folder)
    except LocalError as error:
        left = remains(folder)
        if left is None:
            raise
        raise StackStopped(str(error), left) from error

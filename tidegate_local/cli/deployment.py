"""The deployment that runs in a folder of this machine."""

import os
from pathlib import Path

from tidegate.cli.plugins import StackStopped
from tidegate_local import stack
from tidegate_local.environment import process_environment
from tidegate_local.errors import LocalError
from tidegate_local.remains import remains


def enter(folder: Path) -> None:
    """Make this process call the stack in this folder, and nothing else. Raises LocalError if none runs;
    StackStopped if one ran there and has left tables."""
    try:
        described = stack.describe(folder)
    except LocalError as error:
        left = remains(folder)
        if left is None:
            raise
        raise StackStopped(str(error), left) from error
    local = process_environment(os.environ, described)
    os.environ.clear()
    os.environ.update(local)

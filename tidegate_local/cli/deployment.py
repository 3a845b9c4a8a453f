"""The deployment that runs in a folder of this machine."""

import os
from pathlib import Path

from tidegate_local import stack
from tidegate_local.environment import process_environment


def enter(folder: Path) -> None:
    """Make this process call the stack in this folder, and nothing else. Raises LocalError if none runs."""
    local = process_environment(os.environ, stack.describe(folder))
    os.environ.clear()
    os.environ.update(local)

"""The warehouse in a folder of this machine, which is there whether or not a stack runs in it."""

from pathlib import Path

from tidegate.cli.command import this_command
from tidegate_local.environment import has_warehouse, warehouse_environment
from tidegate_local.errors import LocalError


def warehouse(folder: Path) -> dict[str, str]:
    """The variables that name the catalog and the tables in this folder. Raises LocalError if there are none."""
    folder = folder.resolve()
    if not has_warehouse(folder):
        command = this_command()
        raise LocalError(
            f"there are no tables in {folder}: no stack was ever started there. Name another folder with --dir, start a"
            f" stack with `{command} local up`, or name a deployment in AWS with"
            f' eval "$({command} --env OUTPUTS)"'
        )
    return warehouse_environment(folder)

"""The warehouse in a folder of this machine, which is there whether or not a stack runs in it."""

from pathlib import Path

from tidegate_local.environment import has_warehouse, warehouse_environment
from tidegate_local.errors import LocalError


def warehouse(folder: Path) -> dict[str, str]:
    """The variables that name the catalog and the tables in this folder. Raises LocalError if there are none."""
    folder = folder.resolve()
    if not has_warehouse(folder):
        raise LocalError(
            f"there are no tables in {folder}: no stack was ever started there. Name another folder with --dir, start a"
            ' stack with `tidegate local up`, or name a deployment in AWS with eval "$(tidegate env OUTPUTS)"'
        )
    return warehouse_environment(folder)

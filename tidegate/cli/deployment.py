"""Which deployment a verb is about: the one in the environment, or the local stack in a folder."""

import os
from collections.abc import Mapping
from pathlib import Path

from tidegate import wiring
from tidegate.environment import read_outputs
from tidegate.local import stack
from tidegate.local.environment import process_environment
from tidegate.settings import DEFAULT_FILE, SettingsError

MARK = "TIDEGATE_LEDGER"
"""What is set in the environment of every deployment."""


def find(folder: Path | None) -> wiring.Application:
    """The deployment that the environment describes, unless `folder` is given: then the stack running there.

    Raises SettingsError or LocalError.
    """
    if folder is not None or MARK not in os.environ:
        enter(stack.describe(folder or stack.DEFAULT_DIR))
    try:
        return wiring.application()
    except KeyError as missing:
        raise SettingsError(
            f"{MARK} is set and {missing.args[0]} is not: set all that the stack's outputs name, or none and use --dir"
        ) from None


def resources(environment: Mapping[str, str]) -> wiring.Resources:
    """What the deployment in this environment is made of. Raises SettingsError."""
    try:
        return wiring.Resources.from_environment(environment)
    except KeyError as missing:
        raise SettingsError(
            f"the deployment has no {missing.args[0]}: deploy it with this checkout, and name all of its outputs"
        ) from None


def deployed(outputs: Path) -> dict[str, str]:
    """The environment for the deployment whose outputs the CDK wrote into this file. Raises SettingsError."""
    try:
        return read_outputs(outputs.read_text())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{outputs} cannot be used: {error}. `npx cdk deploy --outputs-file {outputs}` writes it"
        ) from None


def enter(environment: dict[str, str]) -> None:
    """Make this process talk to the local stack with this environment, and to nothing else."""
    local = process_environment(os.environ, environment)
    os.environ.clear()
    os.environ.update(local)


def config_file(given: Path | None) -> Path:
    """`--config`, else `TIDEGATE_CONFIG`, else `tidegate.toml` here."""
    return given or Path(os.environ.get("TIDEGATE_CONFIG") or DEFAULT_FILE)

"""The deployment that a verb works on: the one in the environment, or the local stack in a folder.

What calls AWS, and the settings, are imported when a deployment is looked for: the help of a verb needs neither.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli import plugins, printed
from tidegate.environment import LEDGER, LOCAL_STACK, STACK_DIR, read_outputs

if TYPE_CHECKING:
    from tidegate.flows.ports import Ports
    from tidegate.wiring import Deployment, Resources

MARK = LEDGER
"""The variable that says that the environment names a deployment."""


def is_named() -> bool:
    """Whether the environment names a deployment. A variable that is set and empty names none."""
    return bool(os.environ.get(MARK))


def find(folder: Path | None, *, up_to_date: bool = False) -> "Deployment":
    """The deployment that the environment describes. If `folder` is given, the stack that runs there.

    With `up_to_date`, a stack of this machine first applies what has changed in its configuration. A deployment is
    what was deployed last. Raises SettingsError, or Expected if no stack runs there.
    """
    from tidegate.settings import DEFAULT_FILE, SettingsError

    if folder is not None or not is_named():
        plugins.local("enter")(folder or STACK_DIR, up_to_date=up_to_date)
        if (config := config_file(None)).resolve() != Path(DEFAULT_FILE).resolve():
            printed.reads(config)
    elif up_to_date and os.environ.get(LOCAL_STACK):
        plugins.local("enter")(Path(os.environ[LOCAL_STACK]), up_to_date=True)
    from tidegate import wiring

    try:
        return wiring.this_deployment()
    except KeyError as missing:
        raise SettingsError(
            f"{MARK} is set and {missing.args[0]} is not: set all that `tidegate env` prints, or none and use --dir"
        ) from None


def known_names(configured: Iterable[str], ports: "Ports") -> list[str]:
    """The names of the routes that the configuration or the ledger has."""
    return sorted({*configured, *ports.ledger.known_routes()})


def resources(environment: Mapping[str, str]) -> "Resources":
    """The resources of the deployment in this environment. Raises SettingsError."""
    from tidegate.settings import SettingsError
    from tidegate.wiring import Resources

    try:
        return Resources.from_environment(environment)
    except KeyError as missing:
        raise SettingsError(
            f"the deployment has no {missing.args[0]}: deploy it with this checkout, and give all of its outputs"
        ) from None


def deployed(outputs: Path) -> dict[str, str]:
    """The environment of the deployment whose outputs are in this file. Raises SettingsError."""
    from tidegate.settings import SettingsError

    try:
        return read_outputs(outputs.read_text())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"{outputs} cannot be used: {error}. `npx cdk deploy --outputs-file {outputs}` writes it"
        ) from None


def config_file(given: Path | None) -> Path:
    """`--config`, else `TIDEGATE_CONFIG`, else `tidegate.toml` here."""
    from tidegate.settings import DEFAULT_FILE

    return given or Path(os.environ.get("TIDEGATE_CONFIG") or DEFAULT_FILE)

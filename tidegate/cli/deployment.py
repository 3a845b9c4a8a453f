"""The deployment that a verb works on: the one in the environment, or the local stack in a folder.

What calls AWS, and the settings, are imported when a deployment is looked for: the help of a verb needs neither.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.cli import plugins, printed
from tidegate.environment import DEPLOYED, LEDGER, LOCAL_CONFIG, LOCAL_STACK, STACK_DIR, read_outputs

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
    what was deployed last: what a person has written since is told, and not used. Raises SettingsError, or Expected if
    no stack runs there.
    """
    from tidegate.settings import SettingsError

    if folder is not None or not is_named():
        plugins.local("enter")(folder or STACK_DIR, up_to_date=up_to_date)
    elif up_to_date and os.environ.get(LOCAL_STACK):
        plugins.local("enter")(Path(os.environ[LOCAL_STACK]), up_to_date=True)
    if os.environ.get(LOCAL_CONFIG):
        _compare(Path(os.environ[LOCAL_CONFIG]), Path(os.environ[LOCAL_STACK]))
    from tidegate import wiring

    try:
        return wiring.this_deployment()
    except KeyError as missing:
        raise SettingsError(
            f"{MARK} is set and {missing.args[0]} is not: set all that `tidegate --env OUTPUTS` prints, or none and use"
            " --dir"
        ) from None


def find_to_look(folder: Path | None) -> "Deployment":
    """As `find`, for a verb that only looks at the ledger: a mistake in `tidegate.toml` is told, and the routes are
    those that the ledger has."""
    from tidegate.settings import SettingsError

    try:
        return find(folder)
    except SettingsError as mistake:
        from tidegate import wiring
        from tidegate.cli import terminal

        try:
            found = wiring.known_deployment()
        except KeyError:
            raise mistake from None
        terminal.warning(
            f"{mistake}\nWithout that file, the routes are those that the ledger has, as they were deployed last, and"
            " the claims count as kept for the default time."
        )
        return found


def _compare(made_from: Path, stack: Path) -> None:
    """Say how the file that a stack of this machine was made from differs from what it runs by."""
    from tidegate.settings import DEFAULT_FILE, SettingsError, load

    if made_from.resolve() != DEFAULT_FILE.resolve():
        printed.reads(made_from)
    try:
        if made_from.read_bytes() == (stack / DEPLOYED).read_bytes():
            return
    except OSError:
        return  # it was moved, or nothing is deployed
    from tidegate.cli import terminal

    try:
        load(made_from)
    except SettingsError as mistake:
        terminal.warning(f"{mistake}\nThe stack runs on by what the file said before.")
    else:
        terminal.warning(f"{made_from} has changed, and the stack runs by what it said before: `tidegate local up`")


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
            f"{outputs} cannot be used: {error}. `npx cdk deploy --outputs-file cdk.out/outputs.json` writes such a"
            " file"
        ) from None


def config_file(given: Path | None) -> Path:
    """`--config`, else `TIDEGATE_CONFIG`, else `tidegate.toml` here."""
    from tidegate.settings import DEFAULT_FILE

    return given or Path(os.environ.get("TIDEGATE_CONFIG") or DEFAULT_FILE)

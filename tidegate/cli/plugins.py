"""What other packages add to the CLI. Their entry points name them; nothing here does.

    tidegate.cli          verbs: each a typer.Typer, under the verb's name
    tidegate.cli.local    what the CLI's own verbs need of this machine:
                          enter(folder)                    make this process call the stack that runs in the folder.
                                                           Raises StackStopped, with what is left, if one ran there
                          examine(config, folder, port)    what `doctor` finds
                          tried_sql(dataset)               a context in which `sinks.iceberg.sql_trial.TriedSql` of it
                                                           runs on a Spark of this process. Raises Hopeless
                          warehouse(folder)                the variables of the tables in the folder

A package that needs an extra calls `require` before it imports anything of the extra.
"""

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points, requires
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from tidegate.cli.exits import Exit, Expected

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from tidegate.core.landed_files import LandedPage

VERBS = "tidegate.cli"
LOCAL = "tidegate.cli.local"
_NAME = re.compile(r"^[\w.-]+")
"""Of a requirement: the package's name."""


class NotInstalled(Expected):
    """Packages of an extra are missing. The text names them, and how to install them."""

    code = Exit.TOOL_MISSING


class StackStopped(Expected):
    """No stack runs in the folder, and its tables are left. `remains` reads them: it takes what
    `core.landed_files.landed_page` takes, without what it finds."""

    def __init__(self, told: str, remains: "Callable[..., LandedPage]") -> None:
        super().__init__(told)
        self.remains = remains


def require(extra: str) -> None:
    """Raises NotInstalled unless every package of this extra is installed."""
    stated = requires("tidegate") or ()
    # to read markers takes a tenth of a second of each call, and is needed only if something may be missing
    if all(_is_installed(_NAME.findall(each)[0]) for each in stated if extra in each.partition(";")[2]):
        return
    from packaging.requirements import Requirement

    wanted = (Requirement(each) for each in stated)
    missing = [each.name for each in wanted if _is_of(each, extra) and not _is_installed(each.name)]
    if missing:
        raise NotInstalled(
            f"this needs the extra `{extra}`, of which {', '.join(missing)} cannot be found:"
            f" pip install 'tidegate[{extra}]', or `make setup` in a checkout"
        )


def verbs() -> dict[str, Any]:
    """The commands of other packages, by name. A command that lacks its extra is hidden, and fails when called."""
    return {point.name: _command(point) for point in entry_points(group=VERBS)}


def local(name: str) -> Callable[..., Any]:
    """What another package offers under this name of `tidegate.cli.local`. Raises NotInstalled."""
    (point,) = entry_points(group=LOCAL, name=name)
    hook: Callable[..., Any] = point.load()
    return hook


def _command(point: EntryPoint) -> Any:
    try:
        command = typer.main.get_command(point.load())
    except NotInstalled as missing:
        command = typer.main.get_command(_refusing(missing))
    command.name = point.name
    return command


def _refusing(missing: NotInstalled) -> typer.Typer:
    """A verb that takes any arguments, and raises."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(
        hidden=True, add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
    )
    def refuse() -> NoReturn:
        raise missing

    return app


def _is_of(requirement: "Requirement", extra: str) -> bool:
    marker = requirement.marker
    return marker is not None and marker.evaluate({"extra": extra}) and not marker.evaluate({"extra": ""})


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True

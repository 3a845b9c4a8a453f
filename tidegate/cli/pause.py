"""The verb `pause`."""

from typing import Annotated

import typer

from tidegate.cli import deployment, printed, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, check_route
from tidegate.flows.pause import PauseResult
from tidegate.flows.pause import pause as begin_pause
from tidegate.flows.pause import unpause as end_pause


def pause(
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="The route's name, as `check` prints it.")],
    end: Annotated[
        bool, typer.Option("--end", help="End the pause: what has gathered is handed off within a minute.")
    ] = False,
    folder: DeploymentOption = None,
) -> None:
    """Hand off no new batch of a route, for example while its table is changed. Uploads are still gathered."""
    deployed = deployment.find(folder)
    ports = deployed.ports()
    check_route(route, deployment.known_names(deployed.routes, ports))
    if end:
        done = end_pause(route, deployed.routes, ports)
        _tell_pause(route, done, "goes on: what has gathered is handed off within a minute", "is not paused")
    else:
        done = begin_pause(route, deployed.routes, ports)
        _tell_pause(route, done, "is paused: jobs that have begun go on, and uploads gather", "is paused already")


def _tell_pause(route: str, done: PauseResult, success: str, already: str) -> None:
    match done:
        case PauseResult.DONE:
            printed.echo(f"route {route} {success}")
            return
        case PauseResult.ALREADY:
            printed.echo(f"route {route} {already}")
            return
        case PauseResult.NO_SUCH_ROUTE:
            render.error(f"neither tidegate.toml nor the ledger has a route {route!r}: see `tidegate check`")
    raise typer.Exit(int(Exit.FINDING))

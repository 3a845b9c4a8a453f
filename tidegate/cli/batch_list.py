"""The verb `batches`: the batches of the past, newest first."""

from typing import Annotated

import typer

from tidegate.cli import deployment
from tidegate.cli.options import (
    SINCE_WHEN,
    WHEN,
    AfterOption,
    DeploymentOption,
    JsonOption,
    RouteOption,
    check_route,
    span,
)
from tidegate.core.batches import State
from tidegate.flows.batch_list import Wanted, batch_page

MOST = 1_000


def batches(
    route: RouteOption = None,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help="Only open, sealed, submitted, committed or abandoned."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar=WHEN, help=f"Only batches that gathered at or after: {SINCE_WHEN}.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="At most so many.")] = 20,
    after: AfterOption = "",
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the batches, newest first: state, uploads, rows, how long each gathered, waited and ran, and errors.

    A page costs a few requests, however long the history is. It goes as far back as the ledger remembers.
    """
    from tidegate import wiring  # what calls AWS: the help does not

    begin, _ = span(since, None, wiring.clock())
    wanted_state = _state(state)
    deployed = deployment.find(folder)
    ports = deployed.ports()
    check_route(route, deployment.known_names(deployed.routes, ports))
    wanted = Wanted(route or "", wanted_state, begin or 0)
    page = batch_page(ports, wiring.BATCH_IDS, wanted, after=_checked(after), limit=limit)
    if as_json:
        from tidegate.cli import json_output

        typer.echo(json_output.dumps(json_output.batches(page, ports.clock())))
    else:
        from tidegate.cli import render_lists

        render_lists.batches(page, now=ports.clock())


def _checked(after: str) -> str:
    from tidegate import wiring

    try:
        if after:
            wiring.BATCH_IDS.made_at(after)
        return after
    except ValueError:
        raise typer.BadParameter(f"--after {after!r} is no batch: give what the page before has printed") from None


def _state(given: str | None) -> State | None:
    if given is None:
        return None
    try:
        return State(given.upper())
    except ValueError:
        names = ", ".join(each.lower() for each in State)
        raise typer.BadParameter(f"--state {given!r} is none of {names}") from None

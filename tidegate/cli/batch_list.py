"""The verb `batches`: the batches of the past, newest first."""

from typing import Annotated

import typer

from tidegate.cli import deployment
from tidegate.cli.listing import (
    SHOWN,
    AfterOption,
    AskedPage,
    GatheredSinceOption,
    LimitOption,
    begin,
    ids,
    ports_of,
    token,
)
from tidegate.cli.options import DeploymentOption, JsonOption, RouteOption
from tidegate.core.batches import State
from tidegate.flows.batch_list import Wanted, batches_within

HALTED = "halted"
"""No state of its own: a halted batch is SEALED or SUBMITTED. It is what people look for."""


def batches(
    route: RouteOption = None,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help="Only open, sealed, submitted, halted, committed or abandoned."),
    ] = None,
    since: GatheredSinceOption = None,
    limit: LimitOption = SHOWN,
    after: AfterOption = "",
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the batches, newest first: state, uploads, rows, how long each gathered, waited and ran, and errors.

    A page costs a few requests, however long the history is. It goes as far back as the ledger remembers.
    """
    wanted = Wanted(route or "", _state(state), begin(since), halted=_is_halted(state))
    ports = ports_of(deployment.find_to_look(folder), route)
    page = batches_within(ports, ids(), wanted, after=token(after, _batch) or "", limit=limit)
    if as_json:
        from tidegate.cli import json_output

        typer.echo(json_output.dumps(json_output.batches(page, ports.clock())))
    else:
        from tidegate.cli import render_lists

        render_lists.batches(page, AskedPage(route, {"--state": state, "--since": since}), now=ports.clock())


def _batch(after: str) -> str:
    ids().made_at(after)
    return after


def _is_halted(given: str | None) -> bool:
    return given is not None and given.lower() == HALTED


def _state(given: str | None) -> State | None:
    if given is None or _is_halted(given):
        return None
    try:
        return State(given.upper())
    except ValueError:
        names = ", ".join([*(each.lower() for each in State), HALTED])
        raise typer.BadParameter(f"--state {given!r} is none of {names}") from None

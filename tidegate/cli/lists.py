"""The verb `files`: a page of the past, newest first, by upload or by batch."""

import math
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from tidegate.cli import deployment, plugins
from tidegate.cli.exits import Expected
from tidegate.cli.options import (
    SINCE_WHEN,
    WHEN,
    DeploymentOption,
    JsonOption,
    KeyOption,
    RouteOption,
    check_route,
    span,
)
from tidegate.core.batches import State
from tidegate.core.file_states import PENDING
from tidegate.core.landed_files import LandedPage
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.flows.batch_list import Wanted, batches_within
from tidegate.flows.files import FilesPage, Spot, WantedFiles, files_within, spot

if TYPE_CHECKING:
    from tidegate.flows.batch_list import BatchIds
    from tidegate.flows.ports import Ports
    from tidegate.wiring import Deployment

T = TypeVar("T")

SHOWN, MOST = 20, 1_000
"""On a page, if nothing is said, and at most."""
OF_FILES = (
    Outcome.QUARANTINED,
    PENDING,
    Outcome.COMMITTED,
    Outcome.SUPERSEDED,
    Outcome.VANISHED,
    Outcome.PRESENT,
    DROPPED,
)
HALTED = "halted"
"""No state of its own: a halted batch is SEALED or SUBMITTED. It is what people look for."""
OF_BATCHES = (*(each.lower() for each in State), HALTED)

GatheredSinceOption = Annotated[
    str | None,
    typer.Option("--since", metavar=WHEN, help=f"Only of batches that gathered at or after: {SINCE_WHEN}."),
]
GatheredUntilOption = Annotated[
    str | None, typer.Option("--until", metavar=WHEN, help="Only of batches that began to gather before this.")
]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="At most so many.")]
AfterOption = Annotated[
    str, typer.Option("--after", metavar="TOKEN", help="Go on where a page ended: what it printed as --after.")
]


class OnlyLanded(Expected):
    """The tables do not tell what was asked for, and nothing else is left."""


def files(
    by_batch: Annotated[
        bool, typer.Option("--batches", help="List the batches, with their times and errors, in place of the uploads.")
    ] = False,
    route: RouteOption = None,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help=f"Only what is {', '.join(OF_FILES)}: one of these. Of batches: {', '.join(OF_BATCHES)}.",
        ),
    ] = None,
    key: KeyOption = "",
    since: GatheredSinceOption = None,
    until: GatheredUntilOption = None,
    limit: LimitOption = SHOWN,
    after: AfterOption = "",
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the uploads, those of the newest batch first, and what became of each.

    A page costs a few requests, however many uploads there were. It goes as far back as the ledger remembers. Of a
    local stack that has stopped, it lists what its tables hold.
    """
    if by_batch:
        if key:
            raise typer.BadParameter("--key goes without --batches")
        _batches(route, state, (since, until), limit, after, folder, as_json=as_json)
        return
    outcome = _checked(state, OF_FILES)
    earliest, latest = _span(since, until)
    found: FilesPage | LandedPage
    try:
        deployed = deployment.find_to_look(folder)
    except plugins.StackStopped as stopped:
        _check_landed(stopped, route, outcome)
        skip = _token(after, int) or 0
        found = stopped.remains(key=key, since=earliest, until=latest or math.inf, skip=skip, limit=limit)
    else:
        wanted = WantedFiles(Wanted(route or "", since=earliest), outcome, key)
        begin = _token(after, _spot) or (Spot(_ids().smallest(latest)) if latest else None)
        found = files_within(_ports(deployed, route), _ids(), wanted, after=begin, limit=limit)
    if as_json:
        from tidegate.cli import json_output

        typer.echo(json_output.dumps(json_output.files(found)))
        return
    from tidegate.cli import render_lists

    if isinstance(found, LandedPage):
        render_lists.landed_files(found)
    else:
        typed = _typed(("--route", route), ("--state", state), ("--key", key), ("--since", since), ("--until", until))
        render_lists.files(found, typed)


def _batches(
    route: str | None,
    state: str | None,
    gathered: tuple[str | None, str | None],
    limit: int,
    after: str,
    folder: Path | None,
    *,
    as_json: bool,
) -> None:
    named = _checked(state, OF_BATCHES)
    of = State(named.upper()) if named not in ("", HALTED) else None
    since, latest = _span(*gathered)
    wanted = Wanted(route or "", of, since, halted=named == HALTED)
    ports = _ports(deployment.find_to_look(folder), route)
    begin = _token(after, _batch) or (_ids().smallest(latest) if latest else "")
    page = batches_within(ports, _ids(), wanted, after=begin, limit=limit)
    if as_json:
        from tidegate.cli import json_output

        typer.echo(json_output.dumps(json_output.batches(page, ports.clock())))
    else:
        from tidegate.cli import render_lists

        typed = _typed(("--route", route), ("--state", state), *zip(("--since", "--until"), gathered, strict=True))
        render_lists.batches(page, typed, now=ports.clock())


def _checked(given: str | None, there: Iterable[str]) -> str:
    """--state, "" if it is not given. Raises BadParameter."""
    if given is None:
        return ""
    if given.lower() not in (names := [*there]):
        raise typer.BadParameter(f"--state {given!r} is none of {', '.join(names)}")
    return given.lower()


def _typed(*options: tuple[str, str | None]) -> str:
    """The options that leave something out, as they were typed; "" if there are none."""
    return " ".join(f"{name} {shlex.quote(value)}" for name, value in options if value)


def _span(since: str | None, until: str | None) -> tuple[int, int]:
    """The moments of --since and --until (epoch seconds), 0 for one that is not given. Raises BadParameter."""
    from tidegate import wiring  # what calls AWS: the help does not

    begin, end = span(since, until, wiring.clock())
    return begin or 0, end or 0


def _ids() -> "BatchIds":
    from tidegate import wiring

    return wiring.BATCH_IDS


def _ports(deployed: "Deployment", route: str | None) -> "Ports":
    """The deployment's ports. Raises BadParameter if it has no such route."""
    ports = deployed.ports()
    check_route(route, deployment.known_names(deployed.routes, ports))
    return ports


def _token(after: str, parsed: Callable[[str], T]) -> T | None:
    """What --after says, None if it is not given. Raises BadParameter if `parsed` raises ValueError."""
    try:
        return parsed(after) if after else None
    except ValueError:
        raise typer.BadParameter(f"--after {after!r} is not what a page of this deployment has printed") from None


def _batch(after: str) -> str:
    _ids().made_at(after)
    return after


def _spot(after: str) -> Spot:
    found = spot(after)
    _ids().made_at(found.batch)
    return found


def _check_landed(stopped: plugins.StackStopped, route: str | None, outcome: str) -> None:
    """Raises OnlyLanded if the tables do not tell what was asked for."""
    if route is not None:
        raise OnlyLanded(f"{stopped}. Its tables are left, and do not tell the routes: leave --route out")
    if outcome not in ("", Outcome.COMMITTED):
        raise OnlyLanded(
            f"{stopped}. Its tables are left, and tell only what has landed: what was {outcome} is not known any more"
        )

"""The verb `files`: the uploads, and what became of them, newest first."""

from typing import Annotated

import typer

from tidegate.cli import deployment, plugins
from tidegate.cli.exits import Expected
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
from tidegate.core.file_states import PENDING
from tidegate.core.landed_files import LandedPage
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.flows.batch_list import Wanted
from tidegate.flows.files import FilesPage, Spot, WantedFiles, files_within, spot


class OnlyLanded(Expected):
    """The tables do not tell what was asked for, and nothing else is left."""


def files(
    route: RouteOption = None,
    quarantined: Annotated[bool, typer.Option("--quarantined", help="Only what is in quarantine.")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="Only what has not ended.")] = False,
    committed: Annotated[bool, typer.Option("--committed", help="Only what is in its table.")] = False,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Only what was overwritten before it was read.")
    ] = False,
    vanished: Annotated[bool, typer.Option("--vanished", help="Only what was deleted before it was read.")] = False,
    dropped: Annotated[bool, typer.Option("--dropped", help="Only what a person gave up.")] = False,
    key: Annotated[
        str,
        typer.Option("--key", metavar="PATTERN", help="Only keys that match, with *, ? and [abc]: 'flights/2026-*'."),
    ] = "",
    since: GatheredSinceOption = None,
    limit: LimitOption = SHOWN,
    after: AfterOption = "",
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the uploads, those of the newest batch first: outcome, rows, error, batch, snapshot, table, times.

    A page costs a few requests, however many uploads there were. It goes as far back as the ledger remembers. Of a
    local stack that has stopped, it lists what its tables hold.
    """
    outcome = _outcome(
        {
            Outcome.QUARANTINED.value: quarantined,
            PENDING: pending,
            Outcome.COMMITTED.value: committed,
            Outcome.SUPERSEDED.value: superseded,
            Outcome.VANISHED.value: vanished,
            DROPPED: dropped,
        }
    )
    earliest = begin(since)
    found: FilesPage | LandedPage
    try:
        deployed = deployment.find_to_look(folder)
    except plugins.StackStopped as stopped:
        _check_landed(stopped, route, outcome)
        found = stopped.remains(key=key, since=earliest, skip=token(after, int) or 0, limit=limit)
    else:
        wanted = WantedFiles(Wanted(route or "", since=earliest), outcome, key)
        found = files_within(ports_of(deployed, route), ids(), wanted, after=token(after, _spot), limit=limit)
    if as_json:
        from tidegate.cli import json_output

        shaped = json_output.files(found)
        typer.echo(json_output.dumps(shaped))
        return
    from tidegate.cli import render_lists

    if isinstance(found, LandedPage):
        render_lists.landed_files(found)
    else:
        asked = AskedPage(route, {f"--{outcome}": bool(outcome), "--key": key, "--since": since})
        render_lists.files(found, asked)


def _outcome(asked: dict[str, bool]) -> str:
    named = [name for name, wanted in asked.items() if wanted]
    if len(named) > 1:
        raise typer.BadParameter(f"give one of {', '.join(f'--{name}' for name in named)}: a file is one of them only")
    return named[0] if named else ""


def _spot(after: str) -> Spot:
    found = spot(after)
    ids().made_at(found.batch)
    return found


def _check_landed(stopped: plugins.StackStopped, route: str | None, outcome: str) -> None:
    """Raises OnlyLanded if the tables do not tell what was asked for."""
    if route is not None:
        raise OnlyLanded(f"{stopped}. Its tables are left, and do not tell the routes: leave --route out")
    if outcome not in ("", Outcome.COMMITTED):
        raise OnlyLanded(
            f"{stopped}. Its tables are left, and tell only what has landed: what was {outcome} is not known any more"
        )

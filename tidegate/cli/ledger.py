"""The verbs about the ledger as a whole."""

import datetime
import uuid
from pathlib import Path
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.flows.ports import RestoredLedger, Topic
from tidegate.flows.recover import recover as put_right
from tidegate.flows.rehearsal import Rehearsal, SilentTopic
from tidegate.local.stack import DEFAULT_DIR

MARGIN = 60 * 60
"""Batch ids are made by the clocks of functions, a restored table by DynamoDB's: seconds to look back further."""

app = typer.Typer(name="ledger", help="The table that remembers who owns which upload.", no_args_is_help=True)


@app.callback()
def verbs() -> None:
    """With it `recover` is a verb of this group, also while it is the only one."""


def since_when(given: str | None, now: int, retention: int) -> int:
    """The epoch second to look back to. Raises BadParameter."""
    oldest = now - retention
    if given is None:
        return oldest
    try:
        time = datetime.datetime.fromisoformat(given)
    except ValueError:
        raise typer.BadParameter(f"{given!r} is not a time as in 2026-11-21T10:21:00Z") from None
    if time.tzinfo is None:
        raise typer.BadParameter(f"{given!r} does not say in which time zone: end it with Z for UTC")
    if time.timestamp() > now:
        raise typer.BadParameter(f"{given!r} has not come yet")
    # what ended before that has expired from the ledger, rightly, and would be taken for forgotten
    return max(oldest, int(time.timestamp()) - MARGIN)


@app.command()
def recover(
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="To which time the ledger was restored, as 2026-11-21T10:21:00Z. Default: all it knew."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be done.")] = False,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            help=f"The folder of a local stack. Default: the deployment in the environment, else {DEFAULT_DIR}.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as docs/cli.md describes it.")] = False,
) -> None:
    """Tell a ledger that was restored to an earlier time again what the work bucket knows. It may be repeated.

    Switch off what writes to the ledger first: docs/operations.md has the commands. Ends with 1 if a person must look
    at something.
    """
    application = deployment.find(folder)
    oldest = wiring.smallest_id(since_when(since, wiring.clock(), application.settings.retention.claims))
    ledger: RestoredLedger = application.ledger()
    topic: Topic = application.topic(f"recover-{uuid.uuid4().hex}")
    if dry_run:
        ledger, topic = Rehearsal(ledger), SilentTopic()
    done = put_right(
        ledger=ledger,
        work=application.work(),
        topic=topic,
        configured=application.routes,
        oldest=oldest,
        made_at=wiring.made_at,
        clock=wiring.clock,
    )
    if as_json:
        typer.echo(json_output.dumps(json_output.recovered(done, dry_run=dry_run)))
    else:
        render.recovered(done, dry_run=dry_run)
    if not done.complete:
        raise typer.Exit(int(Exit.FINDING))

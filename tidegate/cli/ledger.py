"""The verbs for the ledger as a whole."""

import uuid
from dataclasses import replace
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import WHEN, DeploymentOption, JsonOption, moment
from tidegate.cli.verbs import group
from tidegate.core.batches import oldest_remembered
from tidegate.flows.rebuild import rebuild as write_again
from tidegate.flows.recover import SilentTopic
from tidegate.flows.recover import recover as put_right
from tidegate.stores.memory import Rehearsal
from tidegate.stores.rehearsed_work import RehearsedWork

MARGIN = 60 * 60
"""Seconds to look back further: batch ids come from the clocks of functions, the time of a restore from DynamoDB's."""

app = group("ledger", "The table of claims, notices and batches.")


def since_when(given: int | None, now: int, retention: int) -> int:
    """The epoch second to look back to."""
    oldest = now - retention
    if given is None:
        return oldest
    # what ended before `oldest` has expired, and must not be taken for lost
    return max(oldest, given - MARGIN)


@app.command()
def recover(
    since: Annotated[
        str | None,
        typer.Option(
            metavar=WHEN,
            help="The time of the restored ledger: 2026-11-21T10:21:00Z, or 2h for two hours ago. Default: all of"
            " `claims`.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be done.")] = False,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recover a ledger that was restored to an earlier time, from the work bucket. It may be repeated.

    Switch off what writes to the ledger first: docs/operations.md has the commands. Ends with 1 if a person must act.
    """
    now = wiring.clock()
    given = moment(since, now)
    if given is not None and given > now:
        raise typer.BadParameter(f"{since!r} is in the future")
    deployed = deployment.find(folder)
    oldest = wiring.smallest_id(since_when(given, now, deployed.settings.retention.claims))
    ports = deployed.ports(f"recover-{uuid.uuid4().hex}")
    if dry_run:
        rehearsed = replace(ports.ledger, store=Rehearsal(ports.ledger.store))
        ports = replace(ports, ledger=rehearsed, topic=SilentTopic())
    done = put_right(ports, configured=deployed.routes, oldest=oldest, made_at=wiring.made_at)
    if as_json:
        typer.echo(json_output.dumps(json_output.recovered(done, dry_run=dry_run)))
    else:
        render.recovered(done, dry_run=dry_run)
    if not done.complete:
        raise typer.Exit(int(Exit.FINDING))


@app.command()
def rebuild(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be done.")] = False,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rebuild a ledger that is lost as a whole, from the work bucket and from what the tables hold. It may be repeated.

    Switch off what writes to the ledger first: docs/operations.md has the commands. It starts a job for each table, and
    prints its progress. Ends with 1 if a person must act.
    """
    deployed = deployment.find(folder)
    oldest = wiring.smallest_id(max(0, oldest_remembered(wiring.clock(), deployed.settings.retention.claims)))
    tell = render.progress
    ports = replace(deployed.ports(f"rebuild-{uuid.uuid4().hex}"), lineage=deployed.lineage(tell))
    if dry_run:
        rehearsed = replace(ports.ledger, store=Rehearsal(ports.ledger.store))
        ports = replace(ports, ledger=rehearsed, topic=SilentTopic(), work=RehearsedWork(ports.work))
    done = write_again(ports, configured=deployed.routes, oldest=oldest, made_at=wiring.made_at, tell=tell)
    if as_json:
        typer.echo(json_output.dumps(json_output.rebuilt(done, dry_run=dry_run)))
    else:
        render.rebuilt(done, dry_run=dry_run)
    if not done.complete:
        raise typer.Exit(int(Exit.FINDING))

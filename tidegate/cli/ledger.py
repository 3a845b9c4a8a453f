"""The verb for the ledger as a whole."""

import uuid
from dataclasses import replace

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, DryRunOption, JsonOption
from tidegate.cli.verbs import group
from tidegate.core.batches import oldest_remembered
from tidegate.flows.rebuild import rebuild as build_anew
from tidegate.flows.send import Unsent
from tidegate.stores.memory import Rehearsal
from tidegate.stores.rehearsed_work import RehearsedWork

app = group("ledger", "The table of claims, notices and batches.")


@app.callback()
def one_verb() -> None:
    """Rebuild a ledger that is lost, damaged or restored."""


@app.command()
def rebuild(
    dry_run: DryRunOption = False,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Rebuild the ledger in an empty table, from the work bucket and from what the tables hold. It may be repeated.

    Until it is complete, every function and every other verb refuses to work. docs/operations.md has the steps before
    it. It starts a job for each table, and prints its progress. Ends with 1 if a person must act.
    """
    deployed = deployment.find(folder)
    oldest = wiring.smallest_id(max(0, oldest_remembered(wiring.clock(), deployed.settings.retention.claims)))
    tell = render.progress
    ports = replace(
        deployed.ports(f"rebuild-{uuid.uuid4().hex}", guarded=False),
        lineage=deployed.lineage(tell),
    )
    if dry_run:
        rehearsed = replace(ports.ledger, store=Rehearsal(ports.ledger.store))
        ports = replace(ports, ledger=rehearsed, topic=Unsent(), work=RehearsedWork(ports.work))
    done = build_anew(ports, configured=deployed.routes, oldest=oldest, made_at=wiring.made_at, tell=tell)
    if as_json:
        typer.echo(json_output.dumps(json_output.document(done, dry_run=dry_run)))
    else:
        render.rebuilt(done, dry_run=dry_run)
    if not done.whole or done.unknown_routes:
        raise typer.Exit(int(Exit.FINDING))

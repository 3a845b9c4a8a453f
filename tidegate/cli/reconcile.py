"""The verb `reconcile`: compare what the ledger has committed with what the tables hold."""

from dataclasses import replace

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, JsonOption, RouteOption, check_route
from tidegate.core.batches import oldest_remembered
from tidegate.flows.reconcile import reconcile as compare


def reconcile(route: RouteOption = None, folder: DeploymentOption = None, as_json: JsonOption = False) -> None:
    """Compare what the ledger has committed with what the tables hold, batch by batch. Ends with 1 if they differ.

    It changes nothing. It starts a job for each table, and prints its progress.
    """
    deployed = deployment.find(folder)
    ports = replace(deployed.ports(), lineage=deployed.lineage(render.progress))
    check_route(route, deployment.known_names(deployed.routes, ports))
    oldest = wiring.smallest_id(max(0, oldest_remembered(wiring.clock(), deployed.settings.retention.claims)))
    done = compare(
        ports, configured=deployed.routes, oldest=oldest, made_at=wiring.made_at, route=route, tell=render.progress
    )
    if as_json:
        typer.echo(json_output.dumps(json_output.reconciled(done)))
    else:
        render.reconciled(done)
    if not done.holds:
        raise typer.Exit(int(Exit.FINDING))

"""The verb `status`: what the ledger knows of every route."""

import time

import typer

from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, JsonOption
from tidegate.flows.announce import unannounced
from tidegate.flows.status import everything as ask_status
from tidegate.flows.status import hosts_of


def status(folder: DeploymentOption = None, as_json: JsonOption = False) -> None:
    """Print, for each route, the uploads notified and how they ended, duplicates refused, batches, jobs.

    Ends with 1 if a batch has halted or the sums do not hold.
    """
    deployed = deployment.find(folder)
    ports = deployed.ports()
    statuses, waiting = ask_status(deployed.routes, ports), unannounced(ports)
    hosts = hosts_of(statuses, ports)
    if as_json:
        typer.echo(json_output.dumps(json_output.status(deployed.resources.deployment, statuses, waiting, hosts)))
    else:
        render.status(statuses, waiting, hosts, now=int(time.time()))
    if any(each.halted or not each.uploads.holds for each in statuses):
        raise typer.Exit(int(Exit.FINDING))

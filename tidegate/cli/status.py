"""The verb `status`: what the ledger knows of every route, once or again and again."""

import time
from dataclasses import replace
from typing import Annotated

import typer

from tidegate.cli import deployment
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, JsonOption
from tidegate.flows.earlier_files import earlier_files
from tidegate.flows.needs import URGENT
from tidegate.flows.overview import overview

EVERY = 2.0
"""Seconds."""


def status(
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 if anything at all needs a person, dead letters too.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.5, help="How often, with --watch.")
    ] = EVERY,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print each route's sums, jobs and batches, and what needs a person.

    Each need comes with the next command. Ends with 1 if a batch has halted or the sums do not hold; with --check if
    anything needs a person.
    """
    if watch and (check or as_json):
        raise typer.BadParameter("--watch goes neither with --json nor with --check: it does not end by itself")
    deployed = deployment.find_to_look(folder)
    if watch:
        from tidegate.cli.watch import watch as keep_looking  # the plain status does not need it

        keep_looking(deployed, every)
        return
    ports = deployed.ports()
    found = overview(deployed.routes, ports, deployed.letters())
    found = replace(found, earlier=tuple(earlier_files(found.statuses, ports)))
    if as_json:
        from tidegate.cli import json_output  # what is printed for people does not need it

        typer.echo(json_output.dumps(json_output.status(deployed.resources.deployment, found)))
    else:
        from tidegate.cli import render_status  # and JSON needs no rich

        render_status.status(found, now=int(time.time()))
    if any(check or need.kind in URGENT for need in found.needs) or (check and found.uncounted):
        raise typer.Exit(int(Exit.FINDING))

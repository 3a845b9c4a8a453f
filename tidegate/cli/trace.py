"""The verb `trace`: what became of one object."""

import shlex
from typing import Annotated

import typer

from tidegate.cli import deployment
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, JsonOption, bucket_and_key
from tidegate.cli.printed import named, runnable
from tidegate.core.errors import TidegateError
from tidegate.core.routes import Route, route_of
from tidegate.core.uploads import Upload
from tidegate.flows.ports import Ports
from tidegate.flows.trace import trace as ask_trace


def trace(
    uri: Annotated[str, typer.Argument(metavar="s3://BUCKET/KEY", help="The object, its key not URL-encoded.")],
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what became of every version of one object, and what to do next.

    Ends with 1 if no upload of the object is known, or one of them is in a halted batch.
    """
    bucket, key = bucket_and_key(uri)
    deployed = deployment.find_to_look(folder)
    ports = deployed.ports()
    traces = ask_trace(bucket, key, ports)
    taken = route_of(Upload(bucket, key, version="", size=0), deployed.routes.values())
    near = _near(bucket, key, taken, ports) if taken and not traces else []
    if as_json:
        from tidegate.cli import json_output  # what is printed for people does not need it

        typer.echo(json_output.dumps(json_output.trace(uri, traces, near)))
    elif traces:
        from tidegate.cli import render_trace  # and JSON needs no rich

        render_trace.trace(uri, traces, replaces=taken is not None and taken.dataset.replaces)
    if not traces:
        _unknown(uri, key, taken, near)
    if not traces or any(each.batch and each.batch.halted for each in traces):
        raise typer.Exit(int(Exit.FINDING))


def _near(bucket: str, key: str, taken: Route, ports: Ports) -> list[str]:
    """The URIs of the nearest objects that are known. None if they cannot be looked for: whoever may read the ledger
    may not be allowed to read the work bucket, and that must not hide the answer."""
    from tidegate import wiring
    from tidegate.flows.nearest import nearest  # only an unknown object needs it

    try:
        return [f"s3://{bucket}/{each}" for each in nearest(bucket, key, taken.name, ports, wiring.BATCH_IDS)]
    except TidegateError:
        return []


def _unknown(uri: str, key: str, taken: Route | None, near: list[str]) -> None:
    from tidegate.cli import terminal

    if taken is None:
        terminal.error(f"no route takes {named(uri)}: see `tidegate check`")
        return
    folder = key.rpartition("/")[0]
    pattern = shlex.quote(f"{folder}/*" if folder else "*")
    advice = f"To look for it: {runnable(f'tidegate files --route {taken.name} --key {pattern}')}"
    if near:
        advice = f"Did you mean {', or '.join(map(named, near))}? {advice}"
    terminal.error(
        f"no upload of {named(uri)} is known: its notification has not arrived, or its claim has expired", advice
    )

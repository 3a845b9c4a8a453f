"""The verb `trace`: what became of one object."""

from typing import Annotated

import typer

from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, JsonOption, bucket_and_key
from tidegate.core.routes import route_of
from tidegate.core.uploads import Upload
from tidegate.flows.trace import trace as ask_trace


def trace(
    uri: Annotated[str, typer.Argument(metavar="s3://BUCKET/KEY", help="The object, its key not URL-encoded.")],
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what became of every version of one object: claim, notice, batch, attempt, snapshot, outcome.

    Ends with 1 if no upload of the object is known, or one of them is in a halted batch.
    """
    bucket, key = bucket_and_key(uri)
    deployed = deployment.find(folder)
    traces = ask_trace(bucket, key, deployed.ports())
    if as_json:
        typer.echo(json_output.dumps(json_output.trace(uri, traces)))
    elif traces:
        render.trace(uri, traces)
    if not traces:
        upload = Upload(bucket, key, version="", size=0)
        taken = route_of(upload, deployed.settings.core_routes())
        render.error(
            f"no upload of {uri} is known: its notification has not arrived, or its claim has expired"
            if taken
            else f"no route takes {uri}: see `tidegate routes`"
        )
    if not traces or any(each.batch and each.batch.halted for each in traces):
        raise typer.Exit(int(Exit.FINDING))

"""The verb `env`: the environment of a deployed stack, for a shell."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import deployment


def env(
    outputs: Annotated[
        Path, typer.Argument(metavar="OUTPUTS", help="The file of `cdk deploy --outputs-file OUTPUTS`.", dir_okay=False)
    ],
) -> None:
    """Print the environment variables of a deployed stack.

    For a shell: eval "$(tidegate env OUTPUTS)".
    """
    for name, value in sorted(deployment.deployed(outputs).items()):
        typer.echo(f"export {name}={shlex.quote(value)}")

"""`tidegate local`: the whole stack on this machine."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import render
from tidegate.cli.deployment import config_file
from tidegate.local import stack
from tidegate.local.environment import process_environment

app = typer.Typer(help="The whole stack on this machine, without Docker or an account.", no_args_is_help=True)

DirOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder of the stack.")]
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="For the emulated AWS services. Default: any free one."),
]


@app.command()
def up(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Default: $TIDEGATE_CONFIG, else tidegate.toml here."),
    ] = None,
    folder: DirOption = stack.DEFAULT_DIR,
    port: PortOption = None,
    detach: Annotated[bool, typer.Option("--detach", help="Return once it is up; `local down` stops it.")] = False,
) -> None:
    """Start the stack and, unless --detach, keep it until Ctrl-C. Everything listens on 127.0.0.1 only."""
    file = config_file(config)
    if detach:
        started = stack.detach(file, folder, port=port, on_progress=_say)
        render.stack_ready(
            folder,
            started.environment,
            existing_warehouse=started.existing_warehouse,
            notes=started.notes,
            detached=True,
        )
        return
    with stack.up(file, folder, port=port, on_progress=_say) as running:
        render.stack_ready(
            folder,
            running.environment,
            existing_warehouse=running.existing_warehouse,
            notes=running.notes,
            detached=False,
        )
        try:
            running.wait()
        except KeyboardInterrupt:
            _say("stopping")  # the way to end it, so no failure


@app.command()
def down(folder: DirOption = stack.DEFAULT_DIR) -> None:
    """Stop the stack in DIR. The warehouse stays; the emulated services forget everything."""
    if stack.down(folder):
        _say(f"stopped the stack in {folder}; the warehouse stays in {folder / 'warehouse'}")
    else:
        _say(f"no stack runs in {folder}")


@app.command()
def env(folder: DirOption = stack.DEFAULT_DIR) -> None:
    """Print what a shell needs to talk to the stack in DIR: eval "$(tidegate local env)"."""
    wanted = stack.describe(folder)
    # a profile or a session token of a real account would travel along, or come first
    for name in sorted(os.environ.keys() - process_environment(os.environ, wanted).keys()):
        typer.echo(f"unset {name}")
    for name, value in sorted(wanted.items()):
        typer.echo(f"export {name}={shlex.quote(value)}")


def _say(text: str) -> None:
    typer.echo(text, err=True)

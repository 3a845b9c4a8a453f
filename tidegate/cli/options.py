"""Options that several verbs have."""

from pathlib import Path
from typing import Annotated

import typer

from tidegate.environment import STACK_DIR

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON. docs/cli.md describes it.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Default: $TIDEGATE_CONFIG, else tidegate.toml here."),
]
DeploymentOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help=f"The folder of a local stack. Default: the deployment in the environment, else {STACK_DIR}.",
    ),
]
DirOption = Annotated[Path, typer.Option("--dir", metavar="DIR", help="The folder of the stack.")]
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="For the emulated AWS services. Default: any free one."),
]

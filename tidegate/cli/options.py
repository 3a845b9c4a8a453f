"""Options that several verbs have, and the values that they take."""

import datetime
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
RouteOption = Annotated[str | None, typer.Option("--route", metavar="ROUTE", help="Only this route. Default: all.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


def point_in_time(given: str | None) -> int | None:
    """The epoch second of an ISO 8601 time with a zone. Raises BadParameter."""
    if given is None:
        return None
    try:
        time = datetime.datetime.fromisoformat(given)
    except ValueError:
        raise typer.BadParameter(f"{given!r} is not a time such as 2026-11-21T10:21:00Z") from None
    if time.tzinfo is None:
        raise typer.BadParameter(f"{given!r} has no time zone: end it with Z for UTC")
    return int(time.timestamp())


def bucket_and_key(uri: str) -> tuple[str, str]:
    """The two parts of `s3://bucket/key`. Raises BadParameter."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise typer.BadParameter(f"{uri!r} is not s3://bucket/key; the key is taken as it is, not URL-encoded")
    return bucket, key

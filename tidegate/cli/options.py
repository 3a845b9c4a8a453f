"""Options that several verbs have, and the values that they take."""

import contextlib
import datetime
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import typer

from tidegate.cli import printed
from tidegate.cli.exits import Exit
from tidegate.environment import LEDGER, STACK_DIR


def _given(folder: Path | None) -> Path | None:
    """`--dir`, which the commands that are printed repeat. The default is what they look at without it."""
    if folder is not None and (folder != STACK_DIR or os.environ.get(LEDGER)):
        printed.chose(folder)
    return folder


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
        callback=_given,
        help=f"The folder of a local stack. Default: the deployment in the environment, else {STACK_DIR}.",
    ),
]
DirOption = Annotated[Path, typer.Option("--dir", metavar="DIR", callback=_given, help="The folder of the stack.")]
PortOption = Annotated[
    int | None,
    typer.Option("--port", min=1, max=65535, help="For the emulated AWS services. Default: any free one."),
]
RouteOption = Annotated[str | None, typer.Option("--route", metavar="ROUTE", help="Only this route. Default: all.")]
KeyOption = Annotated[
    str, typer.Option("--key", metavar="PATTERN", help="Only keys that match, with *, ? and [abc]: 'flights/2026-*'.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count and print. Change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]


WHEN = "AGE|TIME"
"""What `moment` takes, in the usage of a verb."""
SINCE_WHEN = "2h (ago; s, m, h, d, w), 2026-11-21T10:21:00Z, or 2026-11-21, today, yesterday, where they begin in UTC"
"""What `moment` takes, for the help."""


_DAYS = {"today": 0, "yesterday": 1}


def moment(given: str | None, now: int) -> int | None:
    """The epoch second of an age such as "2h", before `now`; of an ISO 8601 time with a zone; or at which a date,
    "today" or "yesterday" begins in UTC. Raises BadParameter."""
    if given is None:
        return None
    from tidegate.settings import DAY, duration  # the list of verbs needs these options, and reads no setting

    with contextlib.suppress(ValueError):
        if given.endswith("w"):
            return now - 7 * duration(f"{given[:-1]}d")
        return now - duration(given)
    if given in _DAYS:
        return now // DAY * DAY - _DAYS[given] * DAY
    with contextlib.suppress(ValueError):
        day = datetime.date.fromisoformat(given)
        return int(datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp())
    try:
        time = datetime.datetime.fromisoformat(given)
    except ValueError:
        raise typer.BadParameter(
            f"{given!r} is neither an age such as 2h, nor a time such as 2026-11-21T10:21:00Z, nor a date such as"
            " 2026-11-21"
        ) from None
    if time.tzinfo is None:
        raise typer.BadParameter(f"{given!r} has no time zone: end it with Z for UTC")
    return int(time.timestamp())


def span(since: str | None, until: str | None, now: int) -> tuple[int | None, int | None]:
    """The moments of --since and --until; None where one is not given. Raises BadParameter, also if nothing can be
    between them."""
    begin, end = moment(since, now), moment(until, now)
    if begin is not None and begin >= (now if end is None else end):
        raise typer.BadParameter("--since must be earlier than --until" if until else "--since is in the future")
    return begin, end


def confirm(question: str) -> None:
    """Ask, and go on if the answer is yes. Else the verb ends, and says which option does not ask."""
    try:
        if typer.confirm(printed.visible(question), err=True):
            return
        why = "that was not confirmed"
    except typer.Abort as ended:
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        printed.echo("", err=True)
        why = "nobody is there to confirm it"
    from tidegate.cli import terminal  # the list of verbs needs these options, and draws nothing

    terminal.error(f"{why}, so nothing was done", "--yes does it without asking")
    raise typer.Exit(int(Exit.FINDING))


def check_route(named: str | None, there: Iterable[str], *, retired: Collection[str] = ()) -> None:
    """Raises BadParameter if a route is named and is not among those that are `there`. Some verbs do not work on
    `retired` ones."""
    names = sorted(there)
    if named is None or named in names:
        return
    what = f"route {named!r} is retired and takes no uploads" if named in retired else f"there is no route {named!r}"
    raise typer.BadParameter(f"{what}: there are {', '.join(names)}" if names else f"{what}, nor any other one")


def bucket_and_key(uri: str) -> tuple[str, str]:
    """The two parts of `s3://bucket/key`. Raises BadParameter."""
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise typer.BadParameter(f"{uri!r} is not s3://bucket/key; the key is taken as it is, not URL-encoded")
    return bucket, key

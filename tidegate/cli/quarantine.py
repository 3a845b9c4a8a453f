"""The verbs for what ended without a row: list it, show it, send it again."""

import uuid
from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import typer

from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, JsonOption, RouteOption, YesOption, bucket_and_key, point_in_time
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import Quarantined, Selection, quarantined
from tidegate.flows.redrive import Redrive, Redriven, redrive_batch, redrive_object
from tidegate.flows.redrive import release as send_again
from tidegate.wiring import Deployment

app = typer.Typer(
    name="quarantine",
    help="The uploads that could not be decoded: list them, show one, release them.",
    no_args_is_help=True,
)

KeyOption = Annotated[
    str, typer.Option("--key", metavar="PATTERN", help="Only keys that match, with *, ? and [abc]: 'flights/2026-*'.")
]
ErrorOption = Annotated[
    str, typer.Option("--error", metavar="TEXT", help="Only errors that contain this, in any case.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only batches settled at or after: 2026-11-21T10:21:00Z.")
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only batches settled before this.")]


def _selection(key: str, error: str, since: str | None, until: str | None) -> Selection:
    return Selection(point_in_time(since) or 0, point_in_time(until), key, error)


def _found(deployed: Deployment, ports: Ports, route: str | None, selection: Selection) -> Iterator[Quarantined]:
    """Raises BadParameter for a route that neither the configuration nor the ledger has."""
    names = sorted({*deployed.routes, *ports.ledger.known_routes()})
    if route is not None and route not in names:
        raise typer.BadParameter(f"there is no route {route!r}: there are {', '.join(names)}")
    for name in [route] if route is not None else names:
        yield from quarantined(name, selection, ports)


@app.command("ls")
def list_(
    route: RouteOption = None,
    key: KeyOption = "",
    error: ErrorOption = "",
    since: SinceOption = None,
    until: UntilOption = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=0, help="At most so many; 0 for all.")] = 100,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what is in quarantine now, the oldest batch first: when, which object version, which batch, why."""
    selection = _selection(key, error, since, until)
    deployed = deployment.find(folder)
    coming = _found(deployed, deployed.ports(), route, selection)
    found = list(islice(coming, limit or None))
    more = next(coming, None) is not None
    if as_json:
        typer.echo(json_output.dumps(json_output.quarantine(found, more=more)))
    else:
        render.quarantine(found, more=more)


@app.command()
def show(
    uri: Annotated[str, typer.Argument(metavar="s3://BUCKET/KEY", help="The object, its key not URL-encoded.")],
    folder: DeploymentOption = None,
) -> None:
    """Show everything that is known of an object's versions in quarantine. Ends with 1 if there is none."""
    bucket, key = bucket_and_key(uri)
    deployed = deployment.find(folder)
    literal = "".join(f"[{each}]" if each in "*?[" else each for each in key)
    found = [each for each in _found(deployed, deployed.ports(), None, Selection(key=literal)) if each.bucket == bucket]
    if not found:
        render.error(f"no version of {uri} is in quarantine: see `tidegate trace {uri}`")
        raise typer.Exit(int(Exit.FINDING))
    for each in found:
        render.in_quarantine(each)


@app.command()
def release(
    route: RouteOption = None,
    key: KeyOption = "",
    error: ErrorOption = "",
    since: SinceOption = None,
    until: UntilOption = None,
    folder: DeploymentOption = None,
    yes: YesOption = False,
) -> None:
    """Read what is in quarantine again, after the schema or the route was mended. It may be repeated.

    Without --key, --error, --since, --until and --route this releases everything. What still cannot be decoded comes
    back into quarantine.
    """
    selection = _selection(key, error, since, until)
    deployed = deployment.find(folder)
    ports = deployed.ports(f"release-{uuid.uuid4().hex}")
    if not yes:
        count = sum(1 for _ in _found(deployed, ports, route, selection))
        typer.confirm(f"Release {count} uploads?", abort=True, err=True)
    found = _found(deployed, ports, route, selection)
    done = send_again(found, ports, run=ports.new_id(), on_sent=_progress)
    typer.echo(f"{done.sent} uploads are released: `tidegate status` shows how they end")


def redrive(
    what: Annotated[
        str, typer.Argument(metavar="BATCH_OR_URI", help="An abandoned batch, or one object, not URL-encoded.")
    ],
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="Of an object: only this version, as `trace` prints it.")
    ] = "",
    folder: DeploymentOption = None,
) -> None:
    """Send uploads that ended without a row again: of an abandoned batch, or the versions of one object.

    It may be repeated: an upload lands once. Ends with 1 if there was nothing to send.
    """
    is_object = what.startswith("s3://")
    if version and not is_object:
        raise typer.BadParameter("--version goes with s3://BUCKET/KEY")
    bucket, key = bucket_and_key(what) if is_object else ("", "")
    ports = deployment.find(folder).ports(f"redrive-{uuid.uuid4().hex}")
    run = ports.new_id()
    if is_object:
        done = redrive_object(bucket, key, ports, run=run, version=version)
    else:
        done = redrive_batch(what, ports, run=run, on_sent=_progress)
    _tell(what, done)


def _progress(sent: int) -> None:
    typer.echo(f"  {sent} uploads sent", err=True)


def _tell(what: str, done: Redrive) -> None:
    name = what if what.startswith("s3://") else f"batch {what}"
    elsewhere = f"; {done.elsewhere} landed, are pending, or belong to a later upload" if done.elsewhere else ""
    match done.ended:
        case Redriven.SENT:
            typer.echo(f"{done.sent} uploads of {name} are sent again{elsewhere}: `tidegate status` shows how they end")
            return
        case Redriven.NOTHING_LEFT:
            render.error(f"nothing of {name} is left to send{elsewhere}")
        case Redriven.NO_SUCH_BATCH:
            render.error(f"there is no batch {what}: a batch is remembered for the setting `claims` after it has ended")
        case Redriven.NOT_ABANDONED:
            render.error(
                f"batch {what} is not abandoned, so its rows are in the table or may yet be. `tidegate abort {what}`"
                " gives it up; wait until `tidegate status` counts it as abandoned"
            )
        case Redriven.MISSING:
            render.error(
                f"the manifest or a part of batch {what} is missing in the work bucket: {done.sent} uploads were sent."
                " Restore the missing version of the object there, then run this again"
            )
        case Redriven.UNKNOWN:
            render.error(f"the ledger knows no such upload of {name}: see `tidegate trace {what}`")
    raise typer.Exit(int(Exit.FINDING))

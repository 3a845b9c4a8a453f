"""The verbs for what is in quarantine: list it, show it, release it, give it up."""

import shlex
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, printed, render, terminal
from tidegate.cli.exits import Exit
from tidegate.cli.options import (
    SINCE_WHEN,
    WHEN,
    DeploymentOption,
    JsonOption,
    KeyOption,
    RouteOption,
    YesOption,
    bucket_and_key,
    check_route,
    confirm,
    span,
)
from tidegate.cli.verbs import group
from tidegate.core.quantities import counted
from tidegate.core.routes import route_of
from tidegate.core.uploads import Upload
from tidegate.flows.drop_quarantined import drop_quarantined
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import Quarantined, Selection, quarantined, quarantined_object
from tidegate.flows.redrive import release as send_again
from tidegate.wiring import Deployment

app = group("quarantine", "The uploads that could not be decoded: list them, show one, release them, give them up.")

COUNTED = 10_000
"""How many uploads are counted, and kept in memory, before the question whether to go on."""

ErrorOption = Annotated[
    str, typer.Option("--error", metavar="TEXT", help="Only errors that contain this, in any case.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar=WHEN, help=f"Only batches settled at or after: {SINCE_WHEN}.")
]
UntilOption = Annotated[str | None, typer.Option("--until", metavar=WHEN, help="Only batches settled before this.")]


def _selection(key: str, error: str, since: str | None, until: str | None) -> Selection:
    begin, end = span(since, until, wiring.clock())
    return Selection(begin or 0, end, key, error)


def _confirm(what: str, first: Sequence[Quarantined]) -> None:
    """Ask whether to do `what` to these, and to those that follow if they are more than `COUNTED`."""
    more = "more than " if len(first) > COUNTED else ""
    confirm(f"{what} {more}{counted(min(len(first), COUNTED), 'upload')}?")


def found_in(deployed: Deployment, ports: Ports, route: str | None, selection: Selection) -> Iterator[Quarantined]:
    """Raises BadParameter for a route that neither the configuration nor the ledger has."""
    names = deployment.known_names(deployed.routes, ports)
    check_route(route, names)
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
    coming = found_in(deployed, deployed.ports(), route, selection)
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
    found = list(quarantined_object(bucket, key, deployed.ports()))
    if not found:
        render.error(f"no version of {printed.named(uri)} is in quarantine: see `tidegate trace {shlex.quote(uri)}`")
        raise typer.Exit(int(Exit.FINDING))
    for each in found:
        route = deployed.routes.get(each.route)
        render.in_quarantine(each, route.dataset.table if route else "")


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
    back into quarantine. Each upload goes through the route that takes its key today; if none does, through its former
    one, as that was deployed last.
    """
    selection = _selection(key, error, since, until)
    deployed = deployment.find(folder)
    ports = deployed.ports(f"release-{uuid.uuid4().hex}")
    began, coming = ports.clock(), found_in(deployed, ports, route, selection)
    first = list(islice(coming, COUNTED + 1))
    for said in other_ways(first, deployed, ports):
        printed.echo(said, err=True)
    if first and not yes:
        _confirm("Release", first)
    # what was counted was read before the question: it is sent as of then
    done = send_again(
        chain(first, coming),
        ports,
        run=ports.new_id(),
        configured=deployed.routes,
        on_sent=sent_so_far,
        began=began,
    )
    if done.corrected:
        are = counted(done.corrected, "upload is", "uploads are")
        terminal.tell(
            f"{are} left: a later version of the object has landed, and the older rows would land beside its rows."
            " Settling gives them up; `tidegate redrive s3://BUCKET/KEY --version VERSION` sends one all the same"
        )
    if done.sent:
        are = counted(done.sent, "upload is", "uploads are")
        terminal.tell(f"{are} released: `tidegate status` shows how they end")
    elif not done.corrected:
        terminal.tell("nothing of this is in quarantine, so nothing is released: `tidegate quarantine ls` has what is")


@app.command("drop")
def drop_(
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why. `tidegate trace` shows it.")],
    route: RouteOption = None,
    key: KeyOption = "",
    error: ErrorOption = "",
    since: SinceOption = None,
    until: UntilOption = None,
    folder: DeploymentOption = None,
    yes: YesOption = False,
) -> None:
    """Give up what is in quarantine, because nobody needs it any more. It waits for nobody from then on.

    Without --key, --error, --since, --until and --route this gives up everything. What a later version of the same
    object has corrected needs no command: settling gives it up within an hour after that version has landed.
    """
    if not reason.strip():
        raise typer.BadParameter("say why: `tidegate trace` shows it to whoever looks for the file later")
    selection = _selection(key, error, since, until)
    deployed = deployment.find(folder)
    ports = deployed.ports(f"drop-{uuid.uuid4().hex}")
    coming = found_in(deployed, ports, route, selection)
    first = list(islice(coming, COUNTED + 1))
    if first and not yes:
        _confirm("Give up", first)
    dropped = drop_quarantined(chain(first, coming), reason.strip(), ports)
    if dropped:
        are = counted(dropped, "upload is", "uploads are")
        terminal.tell(f"{are} given up: `tidegate redrive s3://BUCKET/KEY` would bring one back")
    else:
        terminal.tell("nothing of this is in quarantine, so nothing is given up: `tidegate quarantine ls` has what is")


def other_ways(found: Sequence[Quarantined], deployed: Deployment, ports: Ports) -> Iterator[str]:
    """What a person may not expect of the routes that these go through, before they are sent."""
    moved: Counter[tuple[str, str]] = Counter()
    stranded: dict[str, list[Quarantined]] = defaultdict(list)
    for each in found:
        taker = route_of(Upload(each.bucket, each.key, each.version, 0), deployed.routes.values())
        if taker is None:
            stranded[each.route].append(each)
        elif taker.name != each.route:
            moved[each.route, taker.name] += 1
    for (former, today), count in sorted(moved.items()):
        table = deployed.routes[today].dataset.table
        yield f"{count} of them were of route {former}. Route {today} takes their keys today: they go to table {table}"
    for former, left in sorted(stranded.items()):
        route = deployed.routes.get(former) or ports.ledger.known_route(former)
        how = (
            f"they are read as route {former} was deployed last, and go to table {route.dataset.table}"
            if route
            else f"nobody knows how route {former} was: their notices wait until there is one of that name"
        )
        yield (
            f"no route takes the keys of {len(left)} of them today, e.g. s3://{left[0].bucket}/{left[0].key}: {how}."
            " Deploy a route that takes them, if you want something else"
        )


def sent_so_far(sent: int) -> None:
    printed.echo(f"  {counted(sent, 'upload')} sent", err=True)

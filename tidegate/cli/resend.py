"""The verb `resend`: send again what ended without a row, what a rollback took out, or the dead letters."""

import shlex
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, printed, render, terminal
from tidegate.cli.exits import Exit
from tidegate.cli.options import (
    DeploymentOption,
    DryRunOption,
    KeyOption,
    RouteOption,
    YesOption,
    bucket_and_key,
    confirm,
    span,
)
from tidegate.cli.printed import named
from tidegate.cli.reload import load_again
from tidegate.cli.selecting import (
    LETTERS,
    QUARANTINE,
    ErrorOption,
    Selected,
    SinceOption,
    UntilOption,
    find,
    refuse_misspelt,
    selected,
)
from tidegate.core.batches import State
from tidegate.core.errors import Rejected
from tidegate.core.letters import judge_notice, judge_notification
from tidegate.core.outcomes import Outcome
from tidegate.core.quantities import counted
from tidegate.core.routes import route_of
from tidegate.core.uploads import Upload
from tidegate.flows.letters import move_back_letters
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import Quarantined
from tidegate.flows.resend import Resend, Resent, release, resend_batch, resend_object
from tidegate.flows.send import Unsent
from tidegate.flows.trace import trace as ask_trace
from tidegate.wiring import Deployment


def resend(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="WHAT...",
            help="Batches; s3://BUCKET/KEY, its key not URL-encoded; `quarantine`; or `dead-letters`.",
        ),
    ],
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="Of an object: only this version, as `trace` prints it.")
    ] = "",
    route: RouteOption = None,
    key: KeyOption = "",
    error: ErrorOption = "",
    since: SinceOption = None,
    until: UntilOption = None,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload",
            help="Load what has landed again, of batches or of s3://BUCKET/PREFIX: its rows are replaced by what the"
            " files give under the route's settings of today.",
        ),
    ] = False,
    dry_run: DryRunOption = False,
    folder: DeploymentOption = None,
    yes: YesOption = False,
) -> None:
    """Send again: the uploads of a batch, the versions of one object that ended without a row, what is in quarantine,
    or the dead letters of both queues. With --reload also what has landed.

    It may be repeated: an upload lands once. A batch that was given up is sent in new notices. Of a batch that has
    landed, a job looks first whether its table was rolled back past it. What is in quarantine is read again, through
    the route that takes its key today, and comes back if it still cannot be decoded. Dead letters that can never
    succeed stay, and are shown with the reason. Ends with 1 if there was nothing to send, or if something stays.
    """
    if reload:
        if key or error or version:
            raise typer.BadParameter("--reload goes with --route, --since and --until, and with none of the others")
        begin, end = span(since, until, wiring.clock())
        if load_again(what, route, begin, end, deployment.find(folder), dry_run=dry_run, yes=yes):
            raise typer.Exit(int(Exit.FINDING))
        return
    wanted = selected(route, key, error, since, until)
    for each in what:
        refuse_misspelt(each, [LETTERS, QUARANTINE])
    if not wanted.all and QUARANTINE not in what:
        raise typer.BadParameter("--route, --key, --error, --since and --until go with quarantine")
    if version and not (len(what) == 1 and what[0].startswith("s3:")):
        raise typer.BadParameter("--version goes with one s3://BUCKET/KEY")
    asked = list(dict.fromkeys(what))
    objects = {each: bucket_and_key(each) for each in asked if each.startswith("s3:")}
    deployed = deployment.find(folder)
    ports = deployed.ports(f"resend-{uuid.uuid4().hex}")
    if dry_run:
        ports = replace(ports, topic=Unsent(), measure=lambda *_: None)
    else:
        _confirm_landed([each for each in asked if each not in (LETTERS, QUARANTINE, *objects)], ports, yes=yes)
    left = False
    for each in asked:
        if each == LETTERS:
            left |= _letters(deployed, ports, dry_run=dry_run)
        elif each == QUARANTINE:
            left |= _quarantine(wanted, deployed, ports, dry_run=dry_run, yes=yes)
        elif each in objects:
            left |= _object(each, objects[each], version, deployed, ports, dry_run=dry_run)
        else:
            left |= _batch(each, deployed, ports, dry_run=dry_run)
    if left:
        raise typer.Exit(int(Exit.FINDING))


# --- dead letters ---


def _letters(deployed: Deployment, ports: Ports, *, dry_run: bool) -> bool:
    """Move back what can succeed. Whether something stays."""
    routes, run = deployed.routes, uuid.uuid4().hex
    known = {name: routes[name].lanes if name in routes else 1 for name in deployment.known_names(routes, ports)}
    notifications, notices = deployed.letters()
    kept = 0
    for name, box, judge in (
        (
            "notifications",
            notifications,
            lambda body: judge_notification(body, tuple(routes.values()), ports.ledger.may_have_forgotten),
        ),
        ("notices", notices, lambda body: judge_notice(body, known, ports.ledger.may_have_forgotten)),
    ):
        done = move_back_letters(box, judge, run=run, dry_run=dry_run)
        render.letters(name, done, dry_run=dry_run)
        kept += done.kept
    return bool(kept)


# --- quarantine ---


def _quarantine(wanted: Selected, deployed: Deployment, ports: Ports, *, dry_run: bool, yes: bool) -> bool:
    """Release what was selected. Whether something of it stays."""
    began = ports.clock()
    found = find(wanted, deployed, ports)
    if dry_run:
        render.quarantine(found.first, found.counted)
    for said in other_ways(found.first, deployed, ports):
        printed.echo(said, err=True)
    if found.first and not (yes or dry_run):
        found.confirm("Release")
    # what was counted was read before the question: it is sent as of then
    done = release(
        found.each,
        ports,
        run=ports.new_id(),
        configured=deployed.routes,
        on_sent=_nothing_is_sent if dry_run else _sent_so_far,
        began=began,
    )
    if done.corrected:
        are = counted(done.corrected, "upload is", "uploads are")
        terminal.tell(
            f"{are} left: a later version of the object has landed."
            " Settling gives them up; `tidegate resend s3://BUCKET/KEY --version VERSION` sends one all the same"
        )
    if done.sent:
        ends = "" if dry_run else ": `tidegate status` shows how they end"
        terminal.tell(f"{_are(done.sent, dry_run=dry_run)}{ends}")
    elif not done.corrected:
        terminal.tell(
            "nothing of this is in quarantine, so nothing is sent: `tidegate files --state quarantined` has what is"
        )
    return bool(done.corrected)


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


# --- an object ---


def _object(
    uri: str, place: tuple[str, str], version: str, deployed: Deployment, ports: Ports, *, dry_run: bool
) -> bool:
    done = resend_object(*place, ports, run=ports.new_id(), configured=deployed.routes, version=version)
    landed = deleted = 0
    if done.elsewhere:
        versions = (each for each in ask_trace(*place, ports) if version in ("", each.claim.version))
        ended = [each for each in versions if each.outcome in (Outcome.COMMITTED, Outcome.PRESENT)]
        deleted = sum(each.deletion or each.deleted for each in ended)
        landed = sum(not (each.claim.same_as or each.deletion or each.deleted) for each in ended)
    return _tell(uri, done, landed, dry_run=dry_run, deleted=deleted)


# --- a batch ---


def _confirm_landed(batches: list[str], ports: Ports, *, yes: bool) -> None:
    """Print those that have landed, and ask whether to go on."""
    landed = [each for each in map(ports.ledger.batch, batches) if each and each.state is State.COMMITTED]
    for each in landed:
        printed.echo(f"batch {each.id} has landed: {counted(each.tally.rows, 'row')}, table {each.table}")
    if landed and not yes:
        printed.echo("Rows that were deleted on purpose, and whose snapshot has expired, come back as well.", err=True)
        confirm("Send again what their tables lack as a whole?")


def _batch(batch_id: str, deployed: Deployment, ports: Ports, *, dry_run: bool) -> bool:
    """Whether nothing was sent."""
    there = ports.ledger.batch(batch_id)
    if dry_run and there is not None and there.state is State.COMMITTED:
        printed.echo(
            f"batch {batch_id} has landed: a job would look whether its table was rolled back past it, and then its"
            " uploads would be sent"
        )
        return False
    try:
        fencer = deployed.fencer(render.progress)
        done = resend_batch(
            batch_id, ports, run=ports.new_id(), fencer=fencer, on_sent=_nothing_is_sent if dry_run else _sent_so_far
        )
    except Rejected as error:
        render.error(f"batch {batch_id}: {error}")
        return True
    ended = there is not None and there.state is State.COMMITTED
    return _tell(batch_id, done, 0, dry_run=dry_run, has_landed=ended)


def _tell(what: str, done: Resend, landed: int, *, dry_run: bool, has_landed: bool = False, deleted: int = 0) -> bool:
    """Whether nothing was sent. `landed`: how many versions of an object did. Of a batch nobody asks each upload for
    that. `has_landed`: it is a batch that did. `deleted`: so many versions of the object are its deletions, or have
    lost their rows by one."""
    name = named(what) if what.startswith("s3://") else f"batch {what}"
    have = counted(landed, "version has landed", "versions have landed")
    elsewhere = f"; {have}: `tidegate resend {shlex.quote(what)} --reload` replaces the rows" if landed else ""
    if deleted:
        elsewhere += (
            f"; {counted(deleted, 'version was', 'versions were')} deleted with the object: put the file again, or"
            f" delete the marker in S3 and run `tidegate audit {shlex.quote(what)} --send`"
        )
    if others := done.elsewhere - landed - deleted:
        elsewhere += (
            f"; {counted(others, 'upload belongs', 'uploads belong')} to another notice by now, and landed with it or"
            " will: unless it was lost after its claim (`tidegate trace` says that it is not registered). Then"
            " `tidegate audit --send` sends what it claimed"
        )
    if done.expired:
        elsewhere += (
            f"; of {done.expired} the ledger has forgotten the claims (setting `claims`), and a"
            " backfill finds them: `tidegate audit s3://BUCKET/PREFIX --send`"
        )
    match done.ended:
        case Resent.SENT:
            ends = "" if dry_run else ": `tidegate status` shows how they end"
            terminal.tell(f"{_are(done.sent, f' of {name}', dry_run=dry_run)}{elsewhere}{ends}")
            return False
        case Resent.NOTHING_LEFT:
            render.error(f"nothing of {name} is left to send{elsewhere}")
        case Resent.NO_SUCH_BATCH:
            render.error(f"there is no batch {what}: a batch is remembered for the setting `claims` after it has ended")
        case Resent.NO_ROUTE:
            render.error(f"batch {what}: the ledger has no settings of its route. Deploy it once more")
        case Resent.NOT_ENDED:
            render.error(
                f"batch {what} has not ended, so its rows may yet land. `tidegate abort {what}` gives it up; wait until"
                " `tidegate status` counts it as abandoned"
            )
        case Resent.MISSING:
            render.error(
                f"the manifest or a part of batch {what} is missing in the work bucket:"
                f" {counted(done.sent, 'upload was', 'uploads were')} sent. Restore it (docs/operations.md,"
                " `A file of the work bucket is missing`), then run this again"
                + (
                    ". Without it, `tidegate audit` of the files' prefix finds what the table lacks"
                    if has_landed
                    else f"; or send what is there: `tidegate abort {what} --resend --skip-missing`"
                )
            )
        case Resent.UNKNOWN:
            advice = f"see `tidegate trace {shlex.quote(what)}`"
            if what.endswith("/"):
                advice = f"what is below it is sent again by `tidegate resend {shlex.quote(what)} --reload`"
            render.error(f"the ledger knows no such upload of {name}: {advice}")
    return True


def _are(sent: int, of: str = "", *, dry_run: bool) -> str:
    one, more = ("would be sent", "would be sent") if dry_run else ("is sent again", "are sent again")
    return counted(sent, f"upload{of} {one}", f"uploads{of} {more}")


def _sent_so_far(sent: int) -> None:
    printed.echo(f"  {counted(sent, 'upload')} sent", err=True)


def _nothing_is_sent(found: int) -> None:
    """A dry run makes no progress."""

"""The verb `abort`: give up a batch, or what is in quarantine."""

import uuid
from typing import Annotated

import typer

from tidegate.cli import deployment, render, terminal
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, KeyOption, RouteOption, YesOption, confirm
from tidegate.cli.render_status import DONE_AS_WISHED
from tidegate.cli.selecting import (
    QUARANTINE,
    ErrorOption,
    Selected,
    SinceOption,
    UntilOption,
    find,
    refuse_misspelt,
    selected,
)
from tidegate.core.batches import State, Wish
from tidegate.core.quantities import counted
from tidegate.flows.abort import Aborted, refused
from tidegate.flows.abort import abort as ask_abort
from tidegate.flows.drop_quarantined import drop_quarantined
from tidegate.flows.missing import NOTHING_MISSING, missing
from tidegate.flows.ports import Ports
from tidegate.flows.wishes import droppable
from tidegate.wiring import Deployment

_BECOMES = {
    None: "Its uploads stay out of the table until you resend it",
    Wish.DROP: "Its uploads stay out of the table for good. Only a resend would bring them back",
    Wish.RESEND: "Its uploads are sent again, and land with another batch",
}
"""What becomes of the uploads, in the question before."""


def abort(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A batch, as `status` prints it; or `quarantine`.")],
    drop: Annotated[
        bool, typer.Option("--drop", help="Give its uploads up as well: they end as dropped, and nothing sends them.")
    ] = False,
    resend: Annotated[
        bool, typer.Option("--resend", help="Send its uploads again, as soon as it is abandoned.")
    ] = False,
    skip_missing: Annotated[
        bool,
        typer.Option(
            "--skip-missing",
            help="With --drop or --resend, of a batch that was given up before: go on without the parts that are"
            " missing in the work bucket. Their uploads stay pending.",
        ),
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Of quarantine: why. `tidegate trace` shows it.")
    ] = "",
    route: RouteOption = None,
    key: KeyOption = "",
    error: ErrorOption = "",
    since: SinceOption = None,
    until: UntilOption = None,
    folder: DeploymentOption = None,
    yes: YesOption = False,
) -> None:
    """Give up an unfinished batch, or what is in quarantine, for good: it stays out of the table, unless a job was
    faster.

    An open batch is sealed first. Settling starts the job that fences the batch within a minute. With --drop or
    --resend the batch may also be one that is abandoned already.

    `tidegate abort quarantine` gives up what waits there, because nobody needs it any more. What a later version of the
    same object has corrected needs no command: settling gives it up within an hour after that version has landed.
    """
    wanted = selected(route, key, error, since, until)
    refuse_misspelt(what, [QUARANTINE])
    if what == QUARANTINE:
        if drop or resend or skip_missing:
            raise typer.BadParameter("--drop, --resend and --skip-missing go with a batch")
        if not reason.strip():
            raise typer.BadParameter(
                "give --reason: `tidegate trace s3://BUCKET/KEY` shows it to whoever looks for the file later"
            )
        deployed = deployment.find(folder)
        _quarantine(wanted, reason.strip(), deployed, deployed.ports(f"abort-{uuid.uuid4().hex}"), yes=yes)
        return
    if reason or not wanted.all:
        raise typer.BadParameter("--reason, --route, --key, --error, --since and --until go with quarantine")
    if drop and resend:
        raise typer.BadParameter("give --drop or --resend, not both")
    wish = Wish.DROP if drop else Wish.RESEND if resend else None
    if skip_missing and not wish:
        raise typer.BadParameter("--skip-missing goes with --drop or --resend")
    _batch(what, wish, deployment.find(folder).ports(), skip_missing=skip_missing, yes=yes)


def _quarantine(wanted: Selected, reason: str, deployed: Deployment, ports: Ports, *, yes: bool) -> None:
    found = find(wanted, deployed, ports)
    if found.first and not yes:
        found.confirm("Give up")
    dropped = drop_quarantined(found.each, reason, ports)
    if dropped:
        are = counted(dropped, "upload is", "uploads are")
        terminal.tell(f"{are} given up: `tidegate resend s3://BUCKET/KEY` would bring one back")
    else:
        terminal.tell(
            "nothing of this is in quarantine, so nothing is given up: `tidegate files --state quarantined` has what is"
        )


def _batch(batch: str, wish: Wish | None, ports: Ports, *, skip_missing: bool, yes: bool) -> None:
    there = ports.ledger.batch(batch)
    refusal = refused(there, wish, skip_missing=skip_missing)
    if not refusal and not yes:
        confirm(f"Give up batch {batch}? {_BECOMES[wish]}")
    given_up = there is not None and (there.fencing or there.state is State.ABANDONED)
    lacks = missing(there, ports) if there and given_up and not refusal else NOTHING_MISSING
    match refusal or ask_abort(batch, ports, wish, skip_missing=skip_missing):
        case Aborted.FENCING:
            then = f", then its uploads are {DONE_AS_WISHED[wish]}" if wish else ""
            terminal.tell(f"batch {batch} is being fenced{then}: `tidegate status` shows how it ends")
            if wish is Wish.DROP:
                render.droppable(droppable(batch, ports))
            return
        case Aborted.WISHED if wish:
            terminal.tell(
                f"batch {batch} was given up before. Within a minute after it is abandoned its uploads are"
                f" {DONE_AS_WISHED[wish]}: see `tidegate status`"
            )
            if wish is Wish.DROP:
                render.droppable(droppable(batch, ports))
            if lacks.files and skip_missing:
                terminal.tell(f"{render.lacking(batch, lacks)}. These uploads stay pending")
            elif lacks.files:
                render.error(
                    f"{render.lacking(batch, lacks)}. Nothing becomes of them before the files are there",
                    "restore them: docs/operations.md, `A file of the work bucket is missing`; or go on without them:"
                    f" `tidegate abort {batch} --{wish} --skip-missing`",
                )
                raise typer.Exit(int(Exit.FINDING))
            return
        case Aborted.NO_SUCH_BATCH:
            render.error(f"there is no batch {batch}: `tidegate status` lists the unfinished ones")
        case Aborted.EMPTY:
            render.error(f"batch {batch} is open and has no uploads yet, so there is nothing to abort")
        case Aborted.COMMITTED:
            render.error(f"batch {batch} has ended: it is committed, so its rows are in the table")
        case Aborted.ABANDONED:
            render.error(
                f"batch {batch} has ended: it is abandoned. `tidegate resend {batch}` sends its uploads again,"
                f" `tidegate abort {batch} --drop` gives them up for good"
            )
        case Aborted.FILES_DIFFER:
            render.error(
                f"batch {batch} cannot be given up: its files in the work bucket differ from what the ledger has"
                " registered, and it may be in the table. `tidegate status` shows how they differ; remove the cause,"
                " then abort again"
            )
        case Aborted.NOT_GIVEN_UP:
            render.error(
                f"batch {batch} was not given up yet, so nothing of it is skipped: abort it without --skip-missing. If"
                " it then waits for missing files, repeat this"
            )
        case Aborted.MOVED_ON:
            render.error(f"batch {batch} changed just now: run `tidegate status`, then abort again")
    raise typer.Exit(int(Exit.FINDING))

"""The verbs for one batch: `resume`, `abort`, `decide`."""

from typing import Annotated

import typer

from tidegate.cli import deployment, printed, render, terminal
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, YesOption, confirm
from tidegate.core.batches import State, Wish
from tidegate.core.quantities import counted
from tidegate.flows.abort import Aborted, refused
from tidegate.flows.abort import abort as ask_abort
from tidegate.flows.decide import Decided, Decision, decide_published, decide_unpublished
from tidegate.flows.missing import NOTHING_MISSING, missing
from tidegate.flows.resume import Resumed
from tidegate.flows.resume import resume as ask_resume
from tidegate.flows.wishes import droppable

BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's id, as `status` prints it.")]


def resume(batch: BatchArgument, folder: DeploymentOption = None) -> None:
    """Give a halted batch one more attempt. Remove the cause first. Settling starts the attempt within a minute.

    The local stack applies a changed tidegate.toml before.

    A batch that waits between two attempts gets the next one now.
    """
    match ask_resume(batch, deployment.find(folder, up_to_date=True).ports()):
        case Resumed.DONE:
            terminal.tell(f"batch {batch} goes on: its next attempt starts within a minute")
            return
        case Resumed.NO_SUCH_BATCH:
            render.error(f"there is no batch {batch}: `tidegate status` lists the unfinished ones")
        case Resumed.NOT_HALTED:
            render.error(
                f"batch {batch} has not halted, and does not wait for its next attempt, so there is nothing to resume:"
                " see `tidegate status`"
            )
        case Resumed.MOVED_ON:
            render.error(f"batch {batch} changed just now: run `tidegate status` again")
    raise typer.Exit(int(Exit.FINDING))


_BECOMES = {
    None: "Its uploads stay out of the table until you redrive it",
    Wish.DROP: "Its uploads stay out of the table for good. Only a redrive would bring them back",
    Wish.REDRIVE: "Its uploads are sent again, and land with another batch",
}
"""What becomes of the uploads, in the question before."""
_DONE = {Wish.DROP: "dropped", Wish.REDRIVE: "sent again"}


def abort(
    batch: BatchArgument,
    drop: Annotated[
        bool, typer.Option("--drop", help="Give its uploads up as well: they end as dropped, and nothing sends them.")
    ] = False,
    redrive: Annotated[
        bool, typer.Option("--redrive", help="Send its uploads again, as soon as it is abandoned.")
    ] = False,
    skip_missing: Annotated[
        bool,
        typer.Option(
            "--skip-missing",
            help="With --drop or --redrive, of a batch that was given up before: go on without the parts that are"
            " missing in the work bucket. Their uploads stay pending.",
        ),
    ] = False,
    folder: DeploymentOption = None,
    yes: YesOption = False,
) -> None:
    """Give an unfinished batch up for good: its uploads stay out of the table, unless a job was faster.

    An open batch is sealed first. Settling starts the job that fences the batch within a minute. With --drop or
    --redrive the batch may also be one that is abandoned already.
    """
    if drop and redrive:
        raise typer.BadParameter("give --drop or --redrive, not both")
    wish = Wish.DROP if drop else Wish.REDRIVE if redrive else None
    if skip_missing and not wish:
        raise typer.BadParameter("--skip-missing goes with --drop or --redrive")
    ports = deployment.find(folder).ports()
    there = ports.ledger.batch(batch)
    refusal = refused(there, wish, skip_missing=skip_missing)
    if not refusal and not yes:
        confirm(f"Give up batch {batch}? {_BECOMES[wish]}")
    given_up = there is not None and (there.fencing or there.state is State.ABANDONED)
    lacks = missing(there, ports) if there and given_up and not refusal else NOTHING_MISSING
    match refusal or ask_abort(batch, ports, wish, skip_missing=skip_missing):
        case Aborted.FENCING:
            then = f", then its uploads are {_DONE[wish]}" if wish else ""
            terminal.tell(f"batch {batch} is being fenced{then}: `tidegate status` shows how it ends")
            if wish is Wish.DROP:
                render.droppable(droppable(batch, ports))
            return
        case Aborted.WISHED if wish:
            terminal.tell(
                f"batch {batch} was given up before. Within a minute after it is abandoned its uploads are"
                f" {_DONE[wish]}: see `tidegate status`"
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
                f"batch {batch} has ended: it is abandoned. `tidegate redrive {batch}` sends its uploads again,"
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


def decide(
    batch: BatchArgument,
    published: Annotated[bool, typer.Option("--published", help="The batch's rows are in the table.")] = False,
    not_published: Annotated[bool, typer.Option("--not-published", help="They are not.")] = False,
    staged: Annotated[
        int | None,
        typer.Option("--staged", metavar="SNAPSHOT", help="With --published: the staged snapshot in the table."),
    ] = None,
    rejected_done: Annotated[
        bool,
        typer.Option(
            "--rejected-done", help="With --published: its rejected rows are in their table, too, or are not wanted."
        ),
    ] = False,
    folder: DeploymentOption = None,
    yes: YesOption = False,
) -> None:
    """Record whether a halted batch is in the table, if the table's history cannot prove it.

    Check first: SELECT count(*) FROM the route's table WHERE _batch_id = 'BATCH'. Rows prove that the batch was
    published. No rows prove that it was not, but only if nobody deleted them or rolled the table back. If you are
    wrong, the batch's rows land twice, or not at all.
    """
    if published is not_published:
        raise typer.BadParameter("give --published or --not-published, one of the two")
    if staged is not None and not published:
        raise typer.BadParameter("--staged goes with --published")
    if rejected_done and not published:
        raise typer.BadParameter("--rejected-done goes with --published")
    deployed = deployment.find(folder)
    if not yes:
        said = "is in the table" if published else "is NOT in the table, and may be written now"
        confirm(f"Are you sure that batch {batch} {said}?")
    if published:
        decision = decide_published(batch, staged, deployed.ports(), rejected_done=rejected_done)
    else:
        decision = decide_unpublished(batch, deployed.ports())
    _tell_decision(batch, decision, published)


def _tell_decision(batch: str, decision: Decision, published: bool) -> None:
    match decision.ended:
        case Decided.DONE:
            then = "is settled as published" if published else "goes on: its next attempt starts"
            terminal.tell(f"batch {batch} {then} within a minute")
            return
        case Decided.NO_SUCH_BATCH:
            render.error(f"there is no batch {batch}: `tidegate status` lists the unfinished ones")
        case Decided.NOT_HALTED:
            render.error(f"batch {batch} has not halted, so there is nothing to decide: see `tidegate status`")
        case Decided.MOVED_ON:
            render.error(f"batch {batch} changed just now: run `tidegate status` again")
        case Decided.NOT_ASKED:
            render.error(
                f"batch {batch} has halted for a reason other than the table's history: see `tidegate status`, remove"
                f" the cause, then `tidegate resume {batch}`"
            )
        case Decided.RECEIPT:
            render.error(
                f"batch {batch} has a receipt, so the table has decided. It has halted for another reason: see"
                " `tidegate status` and docs/operations.md"
            )
        case Decided.NOT_STAGED:
            render.error(f"nothing was ever written for batch {batch}, so it cannot be in the table")
        case Decided.REJECTED:
            rows = decision.rejected
            which = f"{counted(rows.rows, 'row')} of batch {batch}" if rows else f"Rows of batch {batch}"
            table = rows.table if rows else "the table of rejected rows"
            command = printed.runnable(f"tidegate decide {batch} --published --rejected-done")
            render.error(
                f"{which} belong in {table}, because they do not fit. Look there: SELECT count(*) FROM {table} WHERE"
                f" _batch_id = '{batch}'. If they are there, or you can do without them:"
                f" {command}. Their files keep them in any case"
            )
        case Decided.WHICH:
            staged = ", ".join(map(str, decision.staged))
            render.error(
                f"several drivers wrote rows for batch {batch}, as snapshots {staged}: name the one whose rows are in"
                " the table with --staged. The number of rows tells them apart: outcomes/ in the work bucket has it"
            )
    raise typer.Exit(int(Exit.FINDING))

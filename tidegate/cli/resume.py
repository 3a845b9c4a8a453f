"""The verb `resume`: a halted batch goes on, by one more attempt or by what a person knows of its table."""

from typing import Annotated

import typer

from tidegate.cli import deployment, printed, render, terminal
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, YesOption, confirm
from tidegate.core.quantities import counted
from tidegate.flows.decide import Decided, Decision, decide_published, decide_unpublished
from tidegate.flows.resume import Resumed
from tidegate.flows.resume import resume as ask_resume


def resume(
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="The batch's id, as `status` prints it.")],
    published: Annotated[bool, typer.Option("--published", help="You know that its rows are in the table.")] = False,
    not_published: Annotated[bool, typer.Option("--not-published", help="You know that they are not.")] = False,
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
    """Give a halted batch one more attempt. Remove the cause first. Settling starts the attempt within a minute.

    The local stack applies a changed tidegate.toml before. A batch that waits between two attempts gets the next one
    now.

    With --published or --not-published you decide what the table's history cannot prove, if that is why the batch has
    halted. Check first: SELECT count(*) FROM the route's table WHERE _batch_id = 'BATCH'. Rows prove that the batch was
    published. No rows prove that it was not, but only if nobody deleted them or rolled the table back. If you are
    wrong, the batch's rows land twice, or not at all.
    """
    if published and not_published:
        raise typer.BadParameter("give --published or --not-published, not both")
    if staged is not None and not published:
        raise typer.BadParameter("--staged goes with --published")
    if rejected_done and not published:
        raise typer.BadParameter("--rejected-done goes with --published")
    decides = published or not_published
    deployed = deployment.find(folder, up_to_date=not decides)
    if not decides:
        _tell(batch, ask_resume(batch, deployed.ports()))
        return
    if not yes:
        said = "is in the table" if published else "is NOT in the table, and may be written now"
        confirm(f"Are you sure that batch {batch} {said}?")
    if published:
        decision = decide_published(batch, staged, deployed.ports(), rejected_done=rejected_done)
    else:
        decision = decide_unpublished(batch, deployed.ports())
    _tell_decision(batch, decision, published)


def _tell(batch: str, done: Resumed) -> None:
    match done:
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
            command = printed.runnable(f"tidegate resume {batch} --published --rejected-done")
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

"""The verb `republish`: bring back the rows of committed batches that a rollback took out of their table."""

from typing import Annotated

import typer

from tidegate.cli import deployment, printed, render, terminal
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, YesOption, confirm
from tidegate.core.errors import Rejected
from tidegate.flows.republish import Republished, find
from tidegate.flows.republish import republish as bring_back

WHY_NOT = {
    Republished.NO_SUCH_BATCH: (
        "the ledger has no such batch: `tidegate reconcile` names those that can land again, `tidegate trace"
        " s3://BUCKET/KEY` the batch of an object"
    ),
    Republished.NOT_COMMITTED: "it is not committed: only what has landed can land again",
    Republished.NO_ROUTE: "the ledger has no settings of its route: deploy it once more",
    Republished.REMOVED: (
        "a backfill has found rows of it deleted from its table, and sends their uploads again. What else the table"
        " lacks of it, `tidegate backfill` finds and sends, too"
    ),
    Republished.FILES_MISSING: (
        "its outcomes or one of its parts are gone from the work bucket, so nobody knows which of its uploads have"
        " rows. Restore them (docs/operations.md, `A file of the work bucket is missing`). If they are lost,"
        " `tidegate backfill` brings back what the table lacks when the claims have expired"
    ),
    Republished.NOT_ITS_OWN: (
        "the claims of its uploads have expired, will within a day, or belong to a later batch: `tidegate backfill`"
        " brings back what the table lacks"
    ),
}


def republish(
    batches: Annotated[list[str], typer.Argument(metavar="BATCH...", help="As `tidegate reconcile` names them.")],
    folder: DeploymentOption = None,
    yes: YesOption = False,
) -> None:
    """Publish committed batches again whose table was rolled back past them. A job does it for each batch.

    It may be repeated: the rows of a batch are in the table once. A batch of which any row is there is refused. Ends
    with 1 if a batch cannot land again.
    """
    deployed = deployment.find(folder)
    ports = deployed.ports()
    timeout = deployed.settings.job_timeout
    ready, refused = [], 0
    for batch_id in dict.fromkeys(batches):
        found = find(batch_id, ports, timeout)
        if isinstance(found, Republished):
            refused += 1
            terminal.tell(f"batch {batch_id}: {WHY_NOT[found]}")
        else:
            batch, dataset, _ = found
            ready.append(batch_id)
            printed.echo(f"batch {batch_id}: {render.counted(batch.tally.rows, 'row')}, table {dataset.table}")
    if ready and not yes:
        printed.echo("Rows that were deleted on purpose, and whose snapshot has expired, come back as well.", err=True)
        confirm("Publish them again?")
    republisher = deployed.republisher(render.progress)
    for batch_id in ready:
        try:
            done = bring_back(batch_id, ports, republisher, timeout)
        except Rejected as error:
            refused += 1
            printed.echo(f"batch {batch_id}: {error}")
            continue
        since = f"since snapshot {done.snapshot}" if done.snapshot != done.before else "and were before this command"
        printed.echo(f"batch {batch_id}: its {render.counted(done.rows, 'row is', 'rows are')} in the table {since}")
    if refused:
        raise typer.Exit(int(Exit.FINDING))

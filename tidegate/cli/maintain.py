"""The verb `maintain`: maintain the tables now, by a job, and say what was done."""

from typing import Annotated

import typer

from tidegate import wiring
from tidegate.cli import deployment, json_output, render
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, DryRunOption, JsonOption
from tidegate.core.errors import Retryable
from tidegate.flows.maintain import maintain_now, request_maintenance


def maintain(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="catalog.namespace.table. Default: all that are maintained.")
    ] = None,
    dry_run: DryRunOption = False,
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compact small files, expire old snapshots, and delete orphan files of the tables, within the limits of one run.

    A job does it. What batches need that have not ended stays. It may be repeated, also while the scheduled job runs.
    Ends with 1 if a table could not be maintained, and with 3 if the job failed as a whole.
    """
    deployed = deployment.find(folder)
    settings = deployed.settings
    tables = _tables(table, settings.maintained_tables(), {table for each in settings.routes for table in each.tables})
    ports = deployed.ports()
    request = request_maintenance(
        tables,
        settings.maintain_limits(),
        ports,
        routes=deployed.routes,
        asked_for=settings.tables_asked_for(),
        dry_run=dry_run,
    )
    waited = deployed.waited_maintenance(render.progress)
    look = maintain_now(request, f"by-hand-{wiring.new_id()}", ports, waited)
    if look.done is None:
        raise Retryable(f"the tables were not maintained by {look.job}: {look.failure}. {waited.log}")
    if as_json:
        typer.echo(json_output.dumps(json_output.document(look.done, dry_run=dry_run)))
    else:
        render.maintained(look.done, dry_run=dry_run)
    if look.done.troubled:
        raise typer.Exit(int(Exit.FINDING))


def _tables(named: str | None, maintained: tuple[str, ...], known: set[str]) -> tuple[str, ...]:
    if named is None:
        if not maintained:
            raise typer.BadParameter("no table is maintained: see `maintain` of the routes")
        return maintained
    if named not in known:
        raise typer.BadParameter(f"no route has table {named!r}: there are {', '.join(sorted(known))}")
    if named not in maintained:
        raise typer.BadParameter(f"table {named} is not maintained: see `maintain` of its routes")
    return (named,)

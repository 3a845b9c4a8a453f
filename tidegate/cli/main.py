"""The verbs. Each parses its arguments, calls one function and hands the result to rendering."""

import importlib.metadata
import logging
import shlex
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from botocore.exceptions import BotoCoreError
from typer.core import TyperGroup

from tidegate.cli import deployment, json_output, plugins, render
from tidegate.cli.audit import audit
from tidegate.cli.backfill import backfill
from tidegate.cli.checks import verdict
from tidegate.cli.cost import cost
from tidegate.cli.exits import EXPECTED, Exit, advice_for, code_of
from tidegate.cli.ledger import app as ledger_app
from tidegate.cli.maintain import maintain
from tidegate.cli.options import (
    ConfigOption,
    DeploymentOption,
    DirOption,
    JsonOption,
    PortOption,
    YesOption,
    bucket_and_key,
    check_route,
    confirm,
)
from tidegate.cli.quarantine import app as quarantine_app
from tidegate.cli.reconcile import reconcile
from tidegate.cli.redrive import redrive
from tidegate.cli.republish import republish
from tidegate.core.batches import State, Wish
from tidegate.core.routes import route_of
from tidegate.core.uploads import Upload
from tidegate.environment import STACK_DIR
from tidegate.flows.abort import Aborted, refused
from tidegate.flows.abort import abort as ask_abort
from tidegate.flows.announce import unannounced
from tidegate.flows.decide import Decided, Decision, decide_published, decide_unpublished
from tidegate.flows.missing import NOTHING_MISSING, missing
from tidegate.flows.pause import PauseResult
from tidegate.flows.pause import pause as ask_pause
from tidegate.flows.pause import unpause as ask_unpause
from tidegate.flows.resume import Resumed
from tidegate.flows.resume import resume as ask_resume
from tidegate.flows.status import everything as ask_status
from tidegate.flows.trace import trace as ask_trace
from tidegate.flows.wishes import droppable
from tidegate.settings import load


class Verbs(TyperGroup):
    """Expected errors become one message and an exit code; anything else is a bug and keeps its stack trace."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update(plugins.verbs())

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            render.error(str(error), advice_for(error))
            _exit(code_of(error))
        except BotoCoreError as error:
            # raised where a client is made, if the profile or the region is missing
            render.error(f"AWS cannot be called: {error}", "Check AWS_PROFILE, AWS_DEFAULT_REGION and ~/.aws.")
            _exit(Exit.NO_STACK)
        except KeyboardInterrupt:
            render.error("interrupted")
            _exit(Exit.INTERRUPTED)


app = typer.Typer(
    cls=Verbs,
    name="tidegate",
    help="S3 uploads become Iceberg rows exactly once.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.add_typer(ledger_app, name="ledger")
app.add_typer(quarantine_app, name="quarantine")
app.command()(redrive)
app.command()(audit)
app.command()(backfill)
app.command()(reconcile)
app.command()(republish)
app.command()(maintain)
app.command()(cost)


def _exit(code: Exit) -> NoReturn:
    raise typer.Exit(int(code))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(importlib.metadata.version("tidegate"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    logging.basicConfig(level=logging.WARNING, format="%(message)s")


@app.command()
def env(
    outputs: Annotated[
        Path, typer.Argument(metavar="OUTPUTS", help="The file of `cdk deploy --outputs-file OUTPUTS`.", dir_okay=False)
    ],
) -> None:
    """Print the environment variables of a deployed stack: eval "$(tidegate env OUTPUTS)"."""
    for name, value in sorted(deployment.deployed(outputs).items()):
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def status(folder: DeploymentOption = None, as_json: JsonOption = False) -> None:
    """Print, for each route, the uploads notified and how they ended, duplicates refused, batches, jobs.

    Ends with 1 if a batch has halted or the sums do not hold.
    """
    deployed = deployment.find(folder)
    ports = deployed.ports()
    statuses, waiting = ask_status(deployed.routes, ports), unannounced(ports)
    if as_json:
        typer.echo(json_output.dumps(json_output.status(deployed.resources.deployment, statuses, waiting)))
    else:
        render.status(statuses, waiting, now=int(time.time()))
    if any(each.halted or not each.uploads.holds for each in statuses):
        _exit(Exit.FINDING)


@app.command()
def trace(
    uri: Annotated[str, typer.Argument(metavar="s3://BUCKET/KEY", help="The object, its key not URL-encoded.")],
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print what became of every version of one object: claim, notice, batch, attempt, snapshot, outcome.

    Ends with 1 if no upload of the object is known, or one of them is in a halted batch.
    """
    bucket, key = bucket_and_key(uri)
    deployed = deployment.find(folder)
    traces = ask_trace(bucket, key, deployed.ports())
    if as_json:
        typer.echo(json_output.dumps(json_output.trace(uri, traces)))
    elif traces:
        render.trace(uri, traces)
    if not traces:
        upload = Upload(bucket, key, version="", size=0)
        taken = route_of(upload, deployed.settings.core_routes())
        render.error(
            f"no upload of {uri} is known: its notification has not arrived, or its claim has expired"
            if taken
            else f"no route takes {uri}: see `tidegate routes`"
        )
    if not traces or any(each.batch and each.batch.halted for each in traces):
        _exit(Exit.FINDING)


BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's id, as `status` prints it.")]


@app.command()
def resume(batch: BatchArgument, folder: DeploymentOption = None) -> None:
    """Give a halted batch one more attempt. Remove the cause first. Settling starts the attempt within a minute.

    A batch that waits between two attempts gets the next one now.
    """
    match ask_resume(batch, deployment.find(folder).ports()):
        case Resumed.DONE:
            typer.echo(f"batch {batch} goes on: its next attempt starts within a minute")
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
    _exit(Exit.FINDING)


RouteArgument = Annotated[str, typer.Argument(metavar="ROUTE", help="The route's name, as `routes` prints it.")]


@app.command()
def pause(route: RouteArgument, folder: DeploymentOption = None) -> None:
    """Hand off no new batch of a route, for example while its table is changed. Uploads are still gathered."""
    deployed = deployment.find(folder)
    ports = deployed.ports()
    check_route(route, deployment.known_names(deployed.routes, ports))
    done = ask_pause(route, deployed.routes, ports)
    _tell_pause(route, done, "is paused: jobs that have begun go on, and uploads gather", "is paused already")


@app.command()
def unpause(route: RouteArgument, folder: DeploymentOption = None) -> None:
    """End a route's pause. Settling hands off what has gathered within a minute."""
    deployed = deployment.find(folder)
    ports = deployed.ports()
    check_route(route, deployment.known_names(deployed.routes, ports))
    done = ask_unpause(route, deployed.routes, ports)
    _tell_pause(route, done, "goes on: what has gathered is handed off within a minute", "is not paused")


def _tell_pause(route: str, done: PauseResult, success: str, already: str) -> None:
    match done:
        case PauseResult.DONE:
            typer.echo(f"route {route} {success}")
            return
        case PauseResult.ALREADY:
            typer.echo(f"route {route} {already}")
            return
        case PauseResult.NO_SUCH_ROUTE:
            render.error(f"neither tidegate.toml nor the ledger has a route {route!r}: see `tidegate routes`")
    _exit(Exit.FINDING)


_BECOMES = {
    None: "Its uploads stay out of the table until you redrive it",
    Wish.DROP: "Its uploads stay out of the table for good. Only a redrive would bring them back",
    Wish.REDRIVE: "Its uploads are sent again, and land with another batch",
}
"""What becomes of the uploads, in the question before."""
_DONE = {Wish.DROP: "dropped", Wish.REDRIVE: "sent again"}


@app.command()
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
            typer.echo(f"batch {batch} is being fenced{then}: `tidegate status` shows how it ends")
            if wish is Wish.DROP:
                render.droppable(droppable(batch, ports))
            return
        case Aborted.WISHED if wish:
            typer.echo(
                f"batch {batch} was given up before. Within a minute after it is abandoned its uploads are"
                f" {_DONE[wish]}: see `tidegate status`"
            )
            if wish is Wish.DROP:
                render.droppable(droppable(batch, ports))
            if lacks.files and skip_missing:
                typer.echo(f"{render.lacking(batch, lacks)}. These uploads stay pending")
            elif lacks.files:
                render.error(
                    f"{render.lacking(batch, lacks)}. Nothing becomes of them before the files are there",
                    "restore them: docs/operations.md, `A file of the work bucket is missing`; or go on without them:"
                    f" `tidegate abort {batch} --{wish} --skip-missing`",
                )
                _exit(Exit.FINDING)
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
    _exit(Exit.FINDING)


@app.command()
def decide(
    batch: BatchArgument,
    published: Annotated[bool, typer.Option("--published", help="The batch's rows are in the table.")] = False,
    not_published: Annotated[bool, typer.Option("--not-published", help="They are not.")] = False,
    staged: Annotated[
        int | None,
        typer.Option("--staged", metavar="SNAPSHOT", help="With --published: the staged snapshot in the table."),
    ] = None,
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
    deployed = deployment.find(folder)
    if not yes:
        said = "is in the table" if published else "is NOT in the table, and may be written now"
        confirm(f"Are you sure that batch {batch} {said}?")
    if published:
        decision = decide_published(batch, staged, deployed.ports())
    else:
        decision = decide_unpublished(batch, deployed.ports())
    _tell_decision(batch, decision, published)


def _tell_decision(batch: str, decision: Decision, published: bool) -> None:
    match decision.ended:
        case Decided.DONE:
            then = "is settled as published" if published else "goes on: its next attempt starts"
            typer.echo(f"batch {batch} {then} within a minute")
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
        case Decided.WHICH:
            staged = ", ".join(map(str, decision.staged))
            render.error(
                f"several drivers wrote rows for batch {batch}, as snapshots {staged}: name the one whose rows are in"
                " the table with --staged. The number of rows tells them apart: outcomes/ in the work bucket has it"
            )
    _exit(Exit.FINDING)


@app.command()
def routes(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print which uploads become rows of which table, by the configuration."""
    file = deployment.config_file(config)
    settings = load(file)
    found, maintained = settings.core_routes(), settings.maintained_tables()
    if as_json:
        typer.echo(json_output.dumps(json_output.routes(file, found, maintained)))
    else:
        render.routes(file, found, maintained)


@app.command()
def doctor(
    config: ConfigOption = None,
    folder: DirOption = STACK_DIR,
    port: PortOption = None,
    aws: Annotated[
        bool, typer.Option("--aws", help="Check the AWS account instead, before or after the deployment.")
    ] = False,
    outputs: Annotated[
        Path | None,
        typer.Option(
            "--outputs",
            metavar="OUTPUTS",
            dir_okay=False,
            help="With --aws: the file of `cdk deploy --outputs-file OUTPUTS`. Default: the environment's deployment.",
        ),
    ] = None,
    job: Annotated[
        bool, typer.Option("--job", help="With --aws: start a self-test job as well, and wait for it. It costs cents.")
    ] = False,
    wait: Annotated[
        int, typer.Option("--wait", metavar="MINUTES", min=1, max=720, help="How long to wait for the self-test job.")
    ] = 15,
    as_json: JsonOption = False,
) -> None:
    """Check that this machine has what the local stack needs, or with --aws an account what a deployment needs."""
    if aws:
        from tidegate.cli.account import visit  # the check of this machine does not need it

        settings = load(deployment.config_file(config))
        checks = visit.visit(
            settings,
            visit.named(outputs),
            job_minutes=wait if job else None,
            tell=lambda text: typer.echo(text, err=True),
        )
    elif outputs or job:
        raise typer.BadParameter("--outputs and --job go with --aws")
    else:
        checks = plugins.local("examine")(deployment.config_file(config), folder, port)
    if as_json:
        typer.echo(json_output.dumps(json_output.doctor(checks)))
    else:
        render.doctor(checks)
    _exit(verdict(checks))


if __name__ == "__main__":
    app()

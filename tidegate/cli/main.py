"""The verbs. Each parses its arguments, calls one function and hands the result to rendering."""

import importlib.metadata
import logging
import shlex
import time
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tidegate.cli import deployment, json_output, render
from tidegate.cli import doctor as examination
from tidegate.cli.exits import EXPECTED, Exit, advice_for, code_of
from tidegate.cli.ledger import app as ledger_app
from tidegate.cli.local import DirOption, PortOption
from tidegate.cli.local import app as local_app
from tidegate.core.routes import route_of
from tidegate.core.uploads import Upload
from tidegate.flows.abort import abort as ask_abort
from tidegate.flows.resume import Resumed
from tidegate.flows.resume import resume as ask_resume
from tidegate.flows.status import status as ask_status
from tidegate.flows.trace import trace as ask_trace
from tidegate.local.stack import DEFAULT_DIR
from tidegate.settings import load


class Verbs(TyperGroup):
    """Expected errors become one message and an exit code; anything else is a bug and keeps its stack trace."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except EXPECTED as error:
            render.error(str(error), advice_for(error))
            _exit(code_of(error))
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
app.add_typer(local_app, name="local")
app.add_typer(ledger_app, name="ledger")

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, as docs/cli.md describes it.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Default: $TIDEGATE_CONFIG, else tidegate.toml here."),
]
DeploymentOption = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help=f"The folder of a local stack. Default: the deployment in the environment, else {DEFAULT_DIR}.",
    ),
]


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
        Path, typer.Argument(metavar="OUTPUTS", help="What `cdk deploy --outputs-file OUTPUTS` wrote.", dir_okay=False)
    ],
) -> None:
    """Print what a shell needs to talk to a deployed stack: eval "$(tidegate env OUTPUTS)"."""
    for name, value in sorted(deployment.deployed(outputs).items()):
        typer.echo(f"export {name}={shlex.quote(value)}")


@app.command()
def status(folder: DeploymentOption = None, as_json: JsonOption = False) -> None:
    """Where each route stands: uploads notified and how they ended, duplicates refused, batches, jobs.

    Ends with 1 if a batch has halted or the sums do not hold.
    """
    application = deployment.find(folder)
    statuses = ask_status(application.routes.values(), ledger=application.ledger())
    if as_json:
        typer.echo(json_output.dumps(json_output.status(application.resources.deployment, statuses)))
    else:
        render.status(statuses, now=int(time.time()))
    if any(each.halted or not each.uploads.holds for each in statuses):
        _exit(Exit.FINDING)


def _bucket_and_key(uri: str) -> tuple[str, str]:
    scheme, _, rest = uri.partition("://")
    bucket, _, key = rest.partition("/")
    if scheme != "s3" or not bucket or not key:
        raise typer.BadParameter(f"{uri!r} is not s3://bucket/key; the key is taken as it is, not URL-encoded")
    return bucket, key


@app.command()
def trace(
    uri: Annotated[str, typer.Argument(metavar="s3://BUCKET/KEY", help="The object, its key not URL-encoded.")],
    folder: DeploymentOption = None,
    as_json: JsonOption = False,
) -> None:
    """What became of every version of one object: claim, notice, batch, attempt, snapshot, outcome.

    Ends with 1 if no upload of it is known, or one of them is in a halted batch.
    """
    bucket, key = _bucket_and_key(uri)
    application = deployment.find(folder)
    traces = ask_trace(bucket, key, ledger=application.ledger())
    if as_json:
        typer.echo(json_output.dumps(json_output.trace(uri, traces)))
    elif traces:
        render.trace(uri, traces)
    if not traces:
        upload = Upload(bucket, key, version="", size=0)
        taken = route_of(upload, application.settings.core_routes())
        render.error(
            f"no upload of {uri} is known: its notification has not arrived, or is older than the ledger remembers"
            if taken
            else f"no route takes {uri}: see `tidegate routes`"
        )
    if not traces or any(each.batch and each.batch.halted for each in traces):
        _exit(Exit.FINDING)


BatchArgument = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's id, as `status` prints it.")]


@app.command()
def resume(batch: BatchArgument, folder: DeploymentOption = None) -> None:
    """Give a halted batch one more attempt, once the cause is removed. Settling starts it within a minute."""
    done = ask_resume(batch, ledger=deployment.find(folder).ledger())
    _tell(
        batch, done, "goes on: its next attempt starts within a minute", "has not halted, so there is nothing to resume"
    )


@app.command()
def abort(
    batch: BatchArgument,
    folder: DeploymentOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask whether you mean it.")] = False,
) -> None:
    """Give a submitted batch up for good: its uploads stay out of the table, unless a job was faster."""
    application = deployment.find(folder)
    if not yes:
        typer.confirm(f"Give up batch {batch}? Its uploads will have to be uploaded again", abort=True, err=True)
    done = ask_abort(batch, ledger=application.ledger())
    _tell(
        batch,
        done,
        "is being fenced: `tidegate status` says how it ended",
        "is not submitted, so there is nothing to abort",
    )


def _tell(batch: str, done: Resumed, success: str, not_now: str) -> None:
    match done:
        case Resumed.DONE:
            typer.echo(f"batch {batch} {success}")
            return
        case Resumed.NO_SUCH_BATCH:
            render.error(f"there is no batch {batch}: `tidegate status` names those under way")
        case Resumed.NOT_HALTED:
            render.error(f"batch {batch} {not_now}: see `tidegate status`")
        case Resumed.MOVED_ON:
            render.error(f"batch {batch} changed just now: look at `tidegate status` again")
    _exit(Exit.FINDING)


@app.command()
def routes(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Which uploads become rows of which table, as the configuration says."""
    file = deployment.config_file(config)
    found = load(file).core_routes()
    if as_json:
        typer.echo(json_output.dumps(json_output.routes(file, found)))
    else:
        render.routes(file, found)


@app.command()
def doctor(
    config: ConfigOption = None,
    folder: DirOption = DEFAULT_DIR,
    port: PortOption = None,
    as_json: JsonOption = False,
) -> None:
    """Whether this machine has what the local stack needs, and what to do if not."""
    checks = examination.examine(deployment.config_file(config), folder, port)
    if as_json:
        typer.echo(json_output.dumps(json_output.doctor(checks)))
    else:
        render.doctor(checks)
    _exit(examination.verdict(checks))


@app.command()
def demo(
    config: ConfigOption = None,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="A fresh folder. Default: .tidegate/demo-<time>."),
    ] = None,
    objects: Annotated[int, typer.Option(min=100, max=19_000, help="How many objects to upload.")] = 2_000,
    seed: Annotated[int, typer.Option(help="Which uploads the mischief happens to.")] = 13,
) -> None:
    """Run real data through the whole path on this machine, with duplicates and worse, and check the table.

    Ends with 0 only if every expected row is in the table once and no other is.
    """
    from tidegate.cli.narrator import Narrator
    from tidegate.demo import run  # pandas, PyIceberg: a second that the other verbs need not wait for

    with Narrator() as narrator:
        passed = run.demo(
            config or deployment.config_file(None), folder or run.fresh_folder(), narrator, objects=objects, seed=seed
        )
    if not passed:
        _exit(Exit.FINDING)


if __name__ == "__main__":
    app()

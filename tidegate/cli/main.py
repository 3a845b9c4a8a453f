"""The command line. Each verb parses its arguments, calls one function and hands the result to rendering."""

import importlib.metadata
import logging
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from tidegate.cli import printed
from tidegate.cli.verbs import Verb, Verbs

VERBS = (
    Verb("status", "tidegate.cli.status:status", "Print each route's sums, jobs and batches, and what needs a person."),
    Verb("trace", "tidegate.cli.trace:trace", "Print what became of every version of one object, and what to do next."),
    Verb(
        "files",
        "tidegate.cli.lists:files",
        "List the uploads, those of the newest batch first, and what became of each.",
    ),
    Verb("ui", "tidegate.ui.verb:ui", "Serve a page that shows where the uploads are, live, until Ctrl-C."),
    Verb("sql", "tidegate.cli.sql:sql", "Ask the tables by SQL, or list them if there is no query."),
    Verb(
        "init", "tidegate.cli.sampling.init:init", "Write a commented tidegate.toml for files that there are already."
    ),
    Verb("try", "tidegate.cli.sampling.try_files:try_files", "Decode files as a route's job would, and print rows."),
    Verb("check", "tidegate.cli.check:check", "Find the mistakes in tidegate.toml, and print its routes."),
    Verb("cost", "tidegate.cli.cost:cost", "Print what so many uploads cost in a month, and what a longer wait saves."),
    Verb("doctor", "tidegate.cli.doctor:doctor", "Check this machine for the local stack, or an account with --aws."),
    Verb(
        "audit",
        "tidegate.cli.audit:audit",
        "Compare the buckets with the ledger: which uploads has S3 never announced? Nothing is changed without --send.",
    ),
    Verb(
        "resend",
        "tidegate.cli.resend:resend",
        "Send again: the uploads of a batch, the versions of one object that ended without a row, what is in"
        " quarantine, or the dead letters of both queues.",
    ),
    Verb(
        "abort",
        "tidegate.cli.abort:abort",
        "Give up an unfinished batch, or what is in quarantine, for good: it stays out of the table, unless a job was"
        " faster.",
    ),
    Verb("resume", "tidegate.cli.resume:resume", "Give a halted batch one more attempt."),
    Verb(
        "pause", "tidegate.cli.pause:pause", "Hand off no new batch of a route, for example while its table is changed."
    ),
    Verb(
        "maintain",
        "tidegate.cli.maintain:maintain",
        "Compact small files, expire old snapshots, and delete orphan files of the tables, within the limits of one"
        " run.",
    ),
    Verb("ledger", "tidegate.cli.ledger:app", "The table of claims, notices and batches."),
)
"""In the order of the list: to look, to begin, to compare, to mend, to restore."""


class Tidegate(Verbs):
    """The verbs of this package, and those that are plugged in."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update({str(verb.name): verb for verb in VERBS})


app = typer.Typer(
    cls=Tidegate,
    name="tidegate",
    help="S3 uploads become Iceberg rows exactly once.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},  # verbs inherit them
    pretty_exceptions_show_locals=False,
    # the boxes and colours that rich draws cost as much processor time as everything else that `--help` does
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        printed.echo(importlib.metadata.version("tidegate"))
        raise typer.Exit


def _environment(outputs: Path | None) -> None:
    if outputs is None:
        return
    from tidegate.cli import deployment, failures  # only this option needs them

    try:
        found = deployment.deployed(outputs)
    except Exception as error:
        # the options are read before any verb is there to tell of it
        code = failures.tell(error)
        if code is None:
            raise
        raise typer.Exit(int(code)) from error
    for name, value in sorted(found.items()):
        typer.echo(f"export {name}={shlex.quote(value)}")
    raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    environment: Annotated[
        Path | None,
        typer.Option(
            "--env",
            metavar="OUTPUTS",
            dir_okay=False,
            callback=_environment,
            is_eager=True,
            help="Print the environment variables of the stack that `cdk deploy --outputs-file OUTPUTS` deployed, and"
            ' exit. For a shell: eval "$(tidegate --env OUTPUTS)".',
        ),
    ] = None,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(printed.OneLine("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


if __name__ == "__main__":
    app()

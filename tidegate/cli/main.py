"""The command line. Each verb parses its arguments, calls one function and hands the result to rendering."""

import importlib.metadata
import logging
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
    Verb("batches", "tidegate.cli.lists:batches", "List the batches, newest first, with their times and errors."),
    Verb("ui", "tidegate.ui.verb:ui", "Serve a page that shows where the uploads are, live, until Ctrl-C."),
    Verb("sql", "tidegate.cli.sql:sql", "Ask the tables by SQL, or list them if there is no query."),
    Verb(
        "init", "tidegate.cli.sampling.init:init", "Write a commented tidegate.toml for files that there are already."
    ),
    Verb("try", "tidegate.cli.sampling.try_files:try_files", "Decode files as a route's job would, and print rows."),
    Verb("check", "tidegate.cli.check:check", "Find the mistakes in tidegate.toml, and print its routes."),
    Verb("cost", "tidegate.cli.cost:cost", "Print what so many uploads cost in a month, and what a longer wait saves."),
    Verb("doctor", "tidegate.cli.doctor:doctor", "Check this machine for the local stack, or an account with --aws."),
    Verb("env", "tidegate.cli.env:env", "Print the environment variables of a deployed stack."),
    Verb(
        "quarantine",
        "tidegate.cli.quarantine:app",
        "The uploads that could not be decoded: list them, show one, release them, give them up.",
    ),
    Verb(
        "redrive",
        "tidegate.cli.redrive:redrive",
        "Send again: the uploads of an abandoned batch, the versions of one object that ended without a row, or the"
        " dead letters of both queues.",
    ),
    Verb("resume", "tidegate.cli.batches:resume", "Give a halted batch one more attempt."),
    Verb(
        "abort",
        "tidegate.cli.batches:abort",
        "Give an unfinished batch up for good: its uploads stay out of the table, unless a job was faster.",
    ),
    Verb(
        "decide",
        "tidegate.cli.batches:decide",
        "Record whether a halted batch is in the table, if the table's history cannot prove it.",
    ),
    Verb(
        "pause", "tidegate.cli.pause:pause", "Hand off no new batch of a route, for example while its table is changed."
    ),
    Verb("unpause", "tidegate.cli.pause:unpause", "End a route's pause."),
    Verb(
        "audit",
        "tidegate.cli.audit:audit",
        "Compare the buckets with the ledger, and send the uploads that S3 never announced.",
    ),
    Verb(
        "backfill",
        "tidegate.cli.backfill:backfill",
        "Compare a bucket with the table itself, and send what is missing there.",
    ),
    Verb(
        "reconcile",
        "tidegate.cli.reconcile:reconcile",
        "Compare what the ledger has committed with what the tables hold, batch by batch.",
    ),
    Verb(
        "republish",
        "tidegate.cli.republish:republish",
        "Publish committed batches again whose table was rolled back past them.",
    ),
    Verb(
        "maintain",
        "tidegate.cli.maintain:maintain",
        "Compact small files, expire old snapshots, and delete orphan files of the tables, within the limits of one"
        " run.",
    ),
    Verb("ledger", "tidegate.cli.ledger:app", "The table of claims, notices and batches."),
)
"""In the order of the list: to look, to mend, to compare, to restore."""


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


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(printed.OneLine("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


if __name__ == "__main__":
    app()

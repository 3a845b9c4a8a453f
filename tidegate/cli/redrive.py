"""`tidegate redrive`: send again what ended without a row, or what is among the dead letters."""

import difflib
import shlex
import uuid
from typing import Annotated

import typer

from tidegate.cli import deployment, render, terminal
from tidegate.cli.exits import Exit
from tidegate.cli.options import DeploymentOption, bucket_and_key
from tidegate.cli.printed import named
from tidegate.cli.quarantine import sent_so_far
from tidegate.core.letters import judge_notice, judge_notification
from tidegate.core.outcomes import Outcome
from tidegate.core.quantities import counted
from tidegate.flows.letters import redrive_letters
from tidegate.flows.redrive import Redrive, Redriven, redrive_batch, redrive_object
from tidegate.flows.trace import trace as ask_trace
from tidegate.wiring import Deployment

LETTERS = "dead-letters"


def redrive(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="An abandoned batch, s3://BUCKET/KEY (the key not URL-encoded), or `dead-letters`."
        ),
    ],
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="Of an object: only this version, as `trace` prints it.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Of dead letters: only judge them, and leave them where they are.")
    ] = False,
    folder: DeploymentOption = None,
) -> None:
    """Send again: the uploads of an abandoned batch, the versions of one object that ended without a row, or the dead
    letters of both queues.

    It may be repeated: an upload lands once. Dead letters that can never succeed stay where they are, and are shown
    with the reason. Ends with 1 if there was nothing to send, or if dead letters stay.
    """
    if what != LETTERS and difflib.get_close_matches(what.lower(), [LETTERS], cutoff=0.7):
        raise typer.BadParameter(f"{what!r} is no batch: did you mean `{LETTERS}`?")
    is_object = what.startswith("s3:")
    if version and not is_object:
        raise typer.BadParameter("--version goes with s3://BUCKET/KEY")
    if dry_run and what != LETTERS:
        raise typer.BadParameter("--dry-run goes with dead-letters")
    if what == LETTERS:
        _move_back(deployment.find(folder), dry_run=dry_run)
        return
    bucket, key = bucket_and_key(what) if is_object else ("", "")
    deployed = deployment.find(folder)
    ports = deployed.ports(f"redrive-{uuid.uuid4().hex}")
    run = ports.new_id()
    landed = 0
    if is_object:
        done = redrive_object(bucket, key, ports, run=run, configured=deployed.routes, version=version)
        if done.elsewhere:
            versions = (each for each in ask_trace(bucket, key, ports) if version in ("", each.claim.version))
            landed = sum(each.outcome == Outcome.COMMITTED for each in versions)
    else:
        done = redrive_batch(what, ports, run=run, on_sent=sent_so_far)
    _tell(what, done, landed)


def _move_back(deployed: Deployment, *, dry_run: bool) -> None:
    ports, routes, run = deployed.ports(), deployed.routes, uuid.uuid4().hex
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
        done = redrive_letters(box, judge, run=run, dry_run=dry_run)
        render.letters(name, done, dry_run=dry_run)
        kept += done.kept
    if kept:
        raise typer.Exit(int(Exit.FINDING))


def _tell(what: str, done: Redrive, landed: int) -> None:
    """`landed`: how many versions of an object did. Of a batch nobody asks each upload for that."""
    name = named(what) if what.startswith("s3://") else f"batch {what}"
    elsewhere = f"; {counted(landed, 'version has landed', 'versions have landed')}" if landed else ""
    if others := done.elsewhere - landed:
        elsewhere += (
            f"; {counted(others, 'upload belongs', 'uploads belong')} to another notice by now, and landed with it or"
            " will: unless it was lost after its claim (`tidegate trace` says that it is not registered). Then"
            " `tidegate audit` sends what it claimed"
        )
    if done.expired:
        elsewhere += (
            f"; of {done.expired} the ledger has forgotten the claims (setting `claims`), and nobody can send them:"
            " upload them again"
        )
    match done.ended:
        case Redriven.SENT:
            terminal.tell(
                f"{counted(done.sent, f'upload of {name} is', f'uploads of {name} are')} sent again{elsewhere}:"
                " `tidegate status` shows how they end"
            )
            return
        case Redriven.NOTHING_LEFT:
            render.error(f"nothing of {name} is left to send{elsewhere}")
        case Redriven.NO_SUCH_BATCH:
            render.error(f"there is no batch {what}: a batch is remembered for the setting `claims` after it has ended")
        case Redriven.NOT_ABANDONED:
            render.error(
                f"batch {what} is not abandoned, so its rows are in the table or may yet be. `tidegate abort {what}`"
                " gives it up; wait until `tidegate status` counts it as abandoned"
            )
        case Redriven.MISSING:
            render.error(
                f"the manifest or a part of batch {what} is missing in the work bucket:"
                f" {counted(done.sent, 'upload was', 'uploads were')} sent. Restore it (docs/operations.md,"
                " `A file of the work bucket is missing`), then run this again; or send"
                f" what is there: `tidegate abort {what} --redrive --skip-missing`"
            )
        case Redriven.UNKNOWN:
            render.error(f"the ledger knows no such upload of {name}: see `tidegate trace {shlex.quote(what)}`")
    raise typer.Exit(int(Exit.FINDING))

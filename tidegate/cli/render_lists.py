"""What `files` prints for people. Nothing here decides anything or makes a call."""

import shlex
from collections.abc import Iterator
from itertools import groupby

from rich.console import Console

from tidegate.cli.printed import in_prose
from tidegate.cli.render_status import next_step, state_of
from tidegate.cli.render_trace import OUTCOME_STYLE
from tidegate.cli.render_unknown import of_batch
from tidegate.cli.terminal import Text, console, counted, duration, say, size
from tidegate.core.batches import Batch, State
from tidegate.core.landed_files import LandedFile, LandedPage
from tidegate.core.outcomes import Outcome
from tidegate.core.spans import spans
from tidegate.core.times import iso
from tidegate.flows.batch_list import BatchPage, PastBatch
from tidegate.flows.files import FilesPage, KnownFile
from tidegate.flows.needs import NextStep

OUTCOME_WIDTH = 13


def files(page: FilesPage, typed: str) -> None:
    """By batch, because the uploads of a batch have their snapshot and their times in common."""
    out = console()
    for _, group in groupby(page.files, key=lambda each: each.batch.id):
        found = list(group)
        _of_batch(out, found[0].batch)
        for each in found:
            _file(out, each)
    for trouble in page.troubles:
        say(out, "trouble: ", trouble, style="bold red", indent=4)
    if not page.files:
        _nothing(out, "upload", page.looked_at, page.back_to, typed)
        for advice in _what_to_do(page, typed):
            say(out, "  ", in_prose(advice), indent=4)
    _more(out, str(page.after) if page.after else "")


def _nothing(out: Console, what: str, looked_at: int, back_to: int, typed: str) -> None:
    narrowing = f" with {typed}" if typed else ""
    back = f", back to {iso(back_to)}" if back_to else ""
    say(out, f"no {what}{narrowing}", f": {counted(looked_at, 'batch', 'batches')} looked at{back}", indent=4)


def _what_to_do(page: FilesPage, typed: str) -> Iterator[str]:
    if page.after:
        yield "older batches were not looked at yet"
    elif not typed:
        yield "an upload is listed once it is in a batch: `tidegate status` counts them, `tidegate check` has the keys"
    elif not page.looked_at:
        yield "there is no batch that this could be in: `tidegate files --batches` lists those that there are"
    if "--key" in typed:
        yield "--key is a pattern of the whole key; `tidegate trace s3://BUCKET/KEY` finds one object, however old"


def _of_batch(out: Console, batch: Batch) -> None:
    ended = f"{batch.state.lower()} at {iso(batch.ended_at)}" if batch.ended_at else state_of(batch).plain
    say(out, f"{batch.id}  {batch.route}", f"  {ended}", style="bold", indent=4)
    if batch.state is State.COMMITTED:
        _snapshot(out, batch)


def _file(out: Console, each: KnownFile) -> None:
    outcome = each.state.outcome
    bad = f" ({each.rejected:,} rejected)" if each.rejected else ""
    rows = f"{counted(each.rows, 'row')}{bad}  " if each.rows is not None else ""
    if each.deletion:
        rows = "a deletion  "
    claimed = "" if each.batch.ended_at or not each.claimed_at else f"  since {iso(each.claimed_at)}"
    _line(out, outcome, f"{rows}{each.upload.uri}{claimed}")
    if each.state.error:
        say(out, "      ", each.state.error.splitlines()[0], indent=6)
    if each.replaced:
        say(out, "", f"      {counted(each.replaced, 'row')} left the table for it", indent=6)
    if each.left:
        when = f" at {iso(each.left.at)}," if each.left.at else ""
        why = "when the object was deleted" if each.left.deleted else f"for those of version {each.left.version}"
        told = f"version {each.left.version} came after it" if each.deletion else f"its rows left the table{when} {why}"
        say(out, "", f"      {told}", indent=6)
    if each.versions and each.versions > 1:
        told = f"    {counted(each.versions, 'version')} of it have landed"
        next_step(out, NextStep(told, f"tidegate trace {shlex.quote(each.upload.uri)}"))


def landed_files(page: LandedPage) -> None:
    out = console()
    say(out, "note: ", in_prose(page.unknown), style="bold yellow", indent=4)
    for (table, batch), group in groupby(page.files, key=lambda each: (each.table, each.batch)):
        found = list(group)
        say(out, batch, f"  read at {iso(found[0].ingested_at)}", style="bold", indent=4)
        snapshot = f"snapshot {found[0].snapshot} of " if found[0].snapshot else ""
        say(out, "", f"  {snapshot}{table}", indent=4)
        for each in found:
            _landed(out, each)
    for trouble in page.troubles:
        say(out, "trouble: ", trouble, style="bold red", indent=4)
    if not page.files:
        out.print("no table has a row of what was asked for")
    _more(out, page.after)


def _landed(out: Console, each: LandedFile) -> None:
    _line(out, Outcome.COMMITTED.value, f"{counted(each.rows, 'row')}  {each.uri}")
    if each.versions > 1:
        # no verb tells more: the ledger is not there
        say(out, "", f"      {counted(each.versions, 'version')} of it have rows in {each.table}", indent=6)


def _line(out: Console, outcome: str, told: str) -> None:
    say(out, f"  {outcome:<{OUTCOME_WIDTH}}", told, style=OUTCOME_STYLE[outcome], indent=2 + OUTCOME_WIDTH)


def batches(page: BatchPage, typed: str, *, now: int) -> None:
    out = console()
    for each in page.batches:
        _batch(out, each, now)
    if not page.batches:
        _nothing(out, "batch", page.looked_at, page.back_to, typed)
    _more(out, page.after)


def _batch(out: Console, each: PastBatch, now: int) -> None:
    batch, took = each.batch, spans(each.batch, now)
    at = f" at {iso(batch.ended_at)}" if batch.ended_at else ""
    say(out, f"{batch.id}  {batch.route}", f"  {state_of(batch).plain}{at}", style="bold", indent=4)
    attempts = f", {counted(batch.attempt, 'attempt')}" if batch.attempt else ""
    rows = f", {counted(batch.tally.rows, 'row')}" if batch.state is State.COMMITTED else ""
    say(out, "", f"  {counted(batch.objects, 'upload')}, {size(batch.bytes)}{rows}{attempts}", indent=4)
    tally = batch.tally.as_dict()
    exceptions = [f"{tally[name]:,} {name}" for name in Outcome if tally[name] and name is not Outcome.COMMITTED]
    exceptions += [f"{counted(batch.tally.rejected, 'row')} rejected"] if batch.tally.rejected else []
    exceptions += [f"{counted(batch.tally.replaced, 'row')} replaced"] if batch.tally.replaced else []
    if exceptions:
        say(out, "", f"  {', '.join(exceptions)}", indent=4)
    times = [f"gathered {duration(took.gathered)}"]
    times += [] if took.waited is None else [f"waited {duration(took.waited)}"]
    times += [] if took.ran is None else [f"ran {duration(took.ran)}"]
    say(out, "", f"  {', '.join(times)}", indent=4)
    _snapshot(out, batch)
    if batch.unknown:
        say(out, "", f"  {of_batch(batch.unknown)}", style="yellow", indent=4)
    if each.error:
        label = "halted" if batch.halted else f"attempt {batch.attempt - 1} gave up"
        say(out, f"  {label}: ", each.error, style="red", indent=4)


def _snapshot(out: Console, batch: Batch) -> None:
    if batch.snapshot:
        say(out, "", f"  snapshot {batch.snapshot}{f' of {batch.table}' if batch.table else ''}", indent=4)


def _more(out: Console, after: str) -> None:
    if after:
        out.print(Text(f"there may be more: --after {after}", "bold"), soft_wrap=True)

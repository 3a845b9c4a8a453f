"""What `status` prints for people. Nothing here decides anything or makes a call."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from tidegate.cli.printed import runnable
from tidegate.cli.render_unknown import of_route, way_out
from tidegate.cli.terminal import Text, console, counted, duration, has_width, say, size
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.file_states import PENDING
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.outlook import is_delayed, outlook
from tidegate.core.times import iso
from tidegate.flows.earlier_files import EarlierFiles
from tidegate.flows.needs import URGENT, Need, NeedKind, NextStep
from tidegate.flows.overview import Overview
from tidegate.flows.status import RouteStatus

ROUTES_ABREAST = 4
"""Routes in one table at most; more would not fit an ordinary terminal."""
NAMES, A_ROUTE = 20, 15
"""Columns of the terminal: for the names of the rows, and for each route."""
TABLE_OF_BATCHES = 110
"""The width from which on the unfinished batches are a table."""
INDENT = 4
"""Of the lines of a paragraph after the first: nothing that we begin stands so far to the right."""


def status(found: Overview, *, now: int) -> None:
    out = console()
    statuses = found.statuses
    abreast = min(ROUTES_ABREAST, max(1, (out.width - NAMES) // A_ROUTE))
    for start in range(0, len(statuses), abreast):
        out.print(conservation(statuses[start : start + abreast]))
    unfinished = [batch for each in statuses for batch in each.unfinished]
    if unfinished:
        _unfinished(out, unfinished, now)
    notes_and_needs(out, found, now)


def notes_and_needs(out: Console, found: Overview, now: int) -> None:
    """What goes on beside the batches, and what needs a person, with the next commands."""
    for each in found.statuses:
        _notes(out, each, now)
    waiting = found.waiting
    if waiting.batches:
        what = (
            f"{'more than ' if waiting.more else ''}"
            f"{counted(waiting.batches, 'committed batch waits', 'committed batches wait')} to be announced, since"
            f" {iso(waiting.since)}"
        )
        _note(out, "not announced", what)
    if idle := found.waiting_workers:
        until = iso(max(each.until for each in idle))
        say(
            out,
            f"{counted(len(idle), 'worker waits', 'workers wait')} for uploads, until {until} at most",
            indent=INDENT,
        )
    if found.uncounted:
        _note(out, "dead letters", f"they could not be counted: {found.uncounted}")
    for earlier in found.earlier:
        _earlier(out, earlier)
    for need in found.needs:
        _need(out, need, now)
    _summary(out, found.needs)


def _summary(out: Console, found: Sequence[Need]) -> None:
    """One line: whether a person has to do anything."""
    if not found:
        out.print(Text("nothing needs a person", "green"))
        return
    kinds = Counter(each.kind for each in found)
    told = ", ".join(f"{kind.value} ({count})" if count > 1 else kind.value for kind, count in kinds.items())
    style = "bold red" if URGENT & kinds.keys() else "bold yellow"
    say(out, "needs a person: ", told, style=style, indent=INDENT)


def _notes(out: Console, each: RouteStatus, now: int) -> None:
    for batch in each.unfinished:
        if is_delayed(batch, now=now):
            what = f"batch {batch.id} of route {batch.route}: {outlook(batch, each.route.limits)}"
            _note(out, "delayed", what)
            if batch.attempt > 1:
                why = f"tidegate files --batches --route {batch.route}"
                next_step(out, NextStep("why the attempt before failed", why))
    for batch in each.unfinished:
        if batch.fencing:
            left = "" if batch.wish else ". Its uploads stay pending until they are resent or dropped"
            what = f"batch {batch.id} of route {batch.route}: attempt {batch.attempt} gives it up{left}"
            _note(out, "being fenced", what)
    for batch in each.wishes:
        if batch.wish:
            _note(out, "wish", f"batch {batch.id} of route {batch.route}: {_wished(batch, batch.wish)}")
    if each.unknown:
        _note(out, "unknown columns", of_route(each.route.name, each.unknown))
        next_step(out, NextStep(way_out(each.route.dataset)))
    if not each.configured:
        what = (
            f"route {each.route.name} is not in the configuration any more. Its unfinished batches go on by its"
            " last settings. If the job may no longer read its files or write its table, put the route back with"
            " `retired = true`"
        )
        _note(out, "not configured", what)


def _earlier(out: Console, found: EarlierFiles) -> None:
    place = f"s3://{found.route.bucket}/{found.route.prefix}"
    if found.trouble:
        _note(out, "earlier files", f"nobody knows if route {found.route.name} has some: {found.trouble}")
        return
    count = f"{found.count} or more" if found.more else str(found.count)
    what = f"route {found.route.name} has taken no upload yet, and {count} of its files are under {place}"
    _note(out, "earlier files", what)
    why = "if they were there before the route, load them"
    next_step(out, NextStep(why, f"tidegate audit {shlex.quote(place)} --route {found.route.name}"))


def _note(out: Console, label: str, what: str) -> None:
    say(out, f"{label}: ", what, style="bold yellow", indent=INDENT)


def _need(out: Console, need: Need, now: int) -> None:
    what = need.what
    if need.kind is NeedKind.QUARANTINED:
        what += f", the oldest for {duration(now - need.since)}, since {iso(need.since)}"
    say(out, f"{need.kind.value}: ", what, style="bold red" if need.kind in URGENT else "bold yellow", indent=INDENT)
    for step in need.next:
        next_step(out, step)


def next_step(out: Console, step: NextStep) -> None:
    """A command on one line, or on a line of its own if that is too long: it is copied."""
    if not step.command:
        say(out, f"  {step.why}", indent=INDENT)
        return
    command = runnable(step.command)
    line = f"  {step.why}: {command}"
    if has_width() and len(line) > out.width:
        out.print(Text(f"  {step.why}:"), soft_wrap=True)
        line = f"    {command}"
    out.print(Text(line), soft_wrap=True)


DONE_AS_WISHED = {Wish.DROP: "dropped", Wish.RESEND: "sent again"}


def _wished(batch: Batch, wish: Wish) -> str:
    """What becomes of its uploads, and how far that is."""
    uploads_are = counted(batch.objects, "upload is", "uploads are")
    if batch.state is not State.ABANDONED:
        return f"once it is abandoned, its {uploads_are} {DONE_AS_WISHED[wish]}"
    parts = f", {batch.wished_parts} of its parts are done" if batch.wished_parts else ""
    return f"it is abandoned, and its {uploads_are} being {DONE_AS_WISHED[wish]}{parts}"


def conservation(statuses: Sequence[RouteStatus]) -> Table:
    """The sum of the uploads, a column for each route; below it what the sum does not count."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for each in statuses:
        table.add_column(each.route.name, justify="right", overflow="fold")
    ended = [each.uploads.ended for each in statuses]
    table.add_row("uploads notified", *(str(each.uploads.notified) for each in statuses))
    for sign, name in zip("=++++", Outcome, strict=True):
        table.add_row(f"  {sign} {name}", *(str(getattr(tally, name)) for tally in ended))
    table.add_row(f"  + {DROPPED}", *(str(each.uploads.dropped) for each in statuses))
    table.add_row(f"  + {PENDING}", *(str(each.uploads.pending) for each in statuses))
    table.add_row("  the sum", *(_holds(each) for each in statuses), end_section=True)
    table.add_row("rows committed", *(str(tally.rows) for tally in ended))
    if any(tally.rejected for tally in ended):
        table.add_row("rows rejected", *(str(tally.rejected) for tally in ended))
    if any(tally.replaced for tally in ended):
        table.add_row("rows replaced", *(str(tally.replaced) for tally in ended))
    if any(tally.left_out for tally in ended):
        table.add_row("rows left out", *(str(tally.left_out) for tally in ended))
    table.add_row("duplicates refused", *(str(each.refused) for each in statuses))
    table.add_row("attempts begun", *(str(each.jobs) for each in statuses))
    table.add_row("batches", *(_batches(each) for each in statuses))
    if any(each.paused for each in statuses):
        table.add_row("paused since", *(iso(each.paused) if each.paused else "" for each in statuses))
    return table


def _holds(each: RouteStatus) -> Text:
    return Text("holds", "green") if each.uploads.holds else Text("DOES NOT HOLD", "bold red")


def _batches(each: RouteStatus) -> str:
    """How many batches in which state, those that have ended last: "1 open, 2 committed"."""
    unfinished = Counter("halted" if batch.halted else batch.state.lower() for batch in each.unfinished)
    counts = {**unfinished, "committed": each.committed_batches, "abandoned": each.abandoned_batches}
    return ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "none"


def _unfinished(out: Console, batches: Iterable[Batch], now: int) -> None:
    if out.width < TABLE_OF_BATCHES:
        out.print(Text("unfinished batches", "italic"))
        for batch in batches:
            for line in standing(batch, now):
                say(out, line, indent=4)
        out.print()
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="unfinished batches", title_justify="left")
    table.add_column("batch", no_wrap=True)
    table.add_column("route")
    table.add_column("state")
    for name in ("attempt", "objects", "bytes", "age"):
        table.add_column(name, justify="right")
    table.add_column("job run", overflow="fold")
    for batch in batches:
        table.add_row(
            batch.id,
            batch.route,
            state_of(batch),
            str(batch.attempt or ""),
            str(batch.objects),
            size(batch.bytes),
            duration(now - batch.opened_at),
            batch.job_run,
        )
    out.print(table)


def standing(batch: Batch, now: int) -> list[str]:
    """Where an unfinished batch stands, in lines for a narrow terminal."""
    attempt = f", attempt {batch.attempt}" if batch.attempt else ""
    lines = [
        f"  {batch.id}  {state_of(batch).plain}{attempt}",
        f"    of {batch.route}: {counted(batch.objects, 'upload')}, {size(batch.bytes)},"
        f" for {duration(now - batch.opened_at)}",
    ]
    if batch.job_run:
        lines.append(f"    job {batch.job_run}")
    return lines


def state_of(batch: Batch) -> Text:
    if batch.halted:
        return Text("HALTED", "bold red")
    fenced = batch.fencing and batch.state is State.SUBMITTED
    return Text("being fenced", "yellow") if fenced else Text(batch.state.value)

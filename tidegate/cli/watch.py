"""`status --watch`: the status again and again, with what has happened since it began."""

import time
from collections.abc import Sequence

from rich.console import Console

from tidegate.cli.printed import in_prose
from tidegate.cli.render_status import notes_and_needs, standing
from tidegate.cli.terminal import Text, console, counted, duration, progress, say
from tidegate.core.batches import State
from tidegate.core.errors import Retryable
from tidegate.core.outlook import gathering
from tidegate.core.times import iso
from tidegate.flows.overview import Overview, overview
from tidegate.flows.status import RouteStatus
from tidegate.flows.throughput import Throughput, throughput
from tidegate.wiring import Deployment

MOST_WAITING = 100
"""Announcements that are counted at each look."""

sleep = time.sleep


def watch(deployed: Deployment, every: float) -> None:
    """Show the status every so many seconds. Ctrl-C ends it, and that is no failure."""
    routes, ports, boxes = deployed.routes, deployed.ports(), deployed.letters()
    began, first = time.time(), None
    try:
        while True:
            try:
                found = overview(routes, ports, boxes, most_waiting=MOST_WAITING)
            except Retryable as error:
                if first is None:
                    raise
                progress(f"{error}; it looks again")
                sleep(every)
                continue
            now = time.time()
            first = first or found.statuses
            show(found, throughput(first, found.statuses, int(now - began)), now=int(now))
            sleep(every)
    except KeyboardInterrupt:
        return


def show(found: Overview, since: Throughput, *, now: int) -> None:
    """What needs a person first, then the routes. On a terminal in the place of what was there, and as much as it has
    lines for; in a pipe below it, with an empty line after it."""
    out = console()
    with out.capture() as captured:
        say(out, f"{iso(now)}  ", told(since), indent=4)
        say(out, "", f"{counted(len(found.jobs), 'job')} under way, as the ledger has it", indent=4)
        notes_and_needs(out, found, now)
        for each in found.statuses:
            _route(out, each, found, now)
    lines = captured.get().splitlines()
    if out.is_terminal:
        out.clear()
        room = out.height - 1  # the cursor stands below
        if len(lines) > room:
            more = in_prose(f"and {counted(len(lines) - room + 1, 'line')} more: `tidegate status` shows all")
            lines = [*lines[: room - 1], more]
    else:
        lines.append("")
    out.file.write("".join(f"{line}\n" for line in lines))
    out.file.flush()


def told(since: Throughput) -> str:
    """What has happened since it began, in one sentence."""
    if not since.seconds:
        return "watching from now on"
    return (
        f"in {duration(since.seconds)}: {counted(since.uploads, 'upload')} ended, {counted(since.rows, 'row')} landed;"
        f" a second {since.a_second(since.uploads):.1f} and {since.a_second(since.rows):.1f}"
    )


def _route(out: Console, each: RouteStatus, found: Overview, now: int) -> None:
    ended = each.uploads.ended
    out.print(Text(f"\n{each.route.name}", "bold"), soft_wrap=True)
    say(
        out,
        "",
        f"  {counted(each.uploads.pending, 'upload')} pending, {ended.committed:,} committed with"
        f" {counted(ended.rows, 'row')}, {ended.quarantined:,} quarantined",
        indent=4,
    )
    for line in _batches(each, found, now):
        say(out, "", line, indent=4)


def _batches(each: RouteStatus, found: Overview, now: int) -> Sequence[str]:
    lines: list[str] = []
    for batch in each.unfinished:
        lines += standing(batch, now)
        if batch.state is State.OPEN:
            slot_free = each.slots_taken < each.route.limits.in_flight
            told = gathering(batch, each.route.limits, now=now, slot_free=slot_free, paused=bool(each.paused))
            lines.append(f"    {told}")
    return lines or ["  nothing gathers, and no batch is under way"]

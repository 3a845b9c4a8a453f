"""`status --watch`: the status again and again, with what has happened since it began."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

from rich.console import Console

from tidegate.cli.fitting import cut, fitted
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
    """On a terminal in the place of what was there, and as much as it has lines for; in a pipe below it, with an empty
    line after it."""
    out = console()
    head = _lines(out, partial(_head, out, since, now))
    routes = [_lines(out, partial(_route, out, each, found, now)) for each in found.statuses]
    needed = {need.route for need in found.needs}
    urgent = [each.route.name in needed for each in found.statuses]
    foot: Sequence[str] = _lines(out, partial(_foot, out, found, now))
    if not out.is_terminal:
        _put(out, [*head, *chain.from_iterable(routes), *foot, ""])
        return
    room = out.height - 1  # the cursor stands below
    foot, cut_off = cut(foot, max(room // 2, room - len(head) - sum(map(len, routes))))
    if cut_off:
        more = in_prose(f"and {counted(cut_off, 'line')} more: `tidegate status` shows all")
        foot = [*foot[:-1], more, foot[-1]]
    shown, left = fitted(routes, urgent, room - len(head) - len(foot))
    out.clear()
    _put(out, [*head, *shown, *([f"and {left} more"] if left else []), *foot])


def _lines(out: Console, printing: Callable[[], None]) -> list[str]:
    """What is printed, in lines, with its colours."""
    with out.capture() as captured:
        printing()
    return captured.get().splitlines()


def _put(out: Console, lines: Iterable[str]) -> None:
    out.file.write("".join(f"{line}\n" for line in lines))
    out.file.flush()


def _head(out: Console, since: Throughput, now: int) -> None:
    say(out, f"{iso(now)}  ", told(since), indent=4)
    out.print()


def _foot(out: Console, found: Overview, now: int) -> None:
    out.print()
    say(out, "", f"{counted(len(found.jobs), 'job')} under way, as the ledger has it", indent=4)
    notes_and_needs(out, found, now)


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
    out.print(Text(each.route.name, "bold"), soft_wrap=True)
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
        lines += standing(batch, found.hosts.get(batch.id), now)
        if batch.state is State.OPEN:
            slot_free = each.slots_taken < each.route.limits.in_flight
            told = gathering(batch, each.route.limits, now=now, slot_free=slot_free, paused=bool(each.paused))
            lines.append(f"    {told}")
    return lines or ["  nothing gathers, and no batch is under way"]

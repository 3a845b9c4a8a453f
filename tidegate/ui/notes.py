"""What is worth knowing of a deployment, and needs nobody. What does is in `flows.needs`."""

from collections.abc import Iterator

from tidegate.cli.printed import in_prose
from tidegate.cli.render_status import DONE_AS_WISHED
from tidegate.cli.render_unknown import of_route, way_out
from tidegate.cli.terminal import counted
from tidegate.core.outlook import is_delayed, outlook
from tidegate.core.times import iso
from tidegate.flows.overview import Overview
from tidegate.flows.status import RouteStatus


def notes(found: Overview, now: int, *, route: str = "") -> list[str]:
    """Sentences, of one route or of all."""
    told = [note for each in found.statuses if route in ("", each.route.name) for note in _of(each, now)]
    return told if route else [*told, *_of_all(found)]


def _of(each: RouteStatus, now: int) -> Iterator[str]:
    name = each.route.name
    for batch in each.unfinished:
        if is_delayed(batch, now=now):
            yield f"Batch {batch.id} of route {name} is delayed: {outlook(batch, each.route.limits)}."
        if batch.fencing and not batch.halted:
            yield f"Batch {batch.id} of route {name} is given up by attempt {batch.attempt}."
    for batch in each.wishes:
        if batch.wish:
            done = DONE_AS_WISHED[batch.wish]
            yield f"The {counted(batch.objects, 'upload')} of batch {batch.id} of route {name} are to be {done}."
    if each.paused:
        yield in_prose(f"Route {name} is paused since {iso(each.paused)}: `tidegate pause {name} --end` ends that.")
    if each.unknown:
        yield f"Unknown columns: {of_route(name, each.unknown)}. What to do: {way_out(each.route.dataset)}."
    if not each.configured:
        yield (f"Route {name} is not in the configuration any more. Its unfinished batches go on by its last settings.")


def _of_all(found: Overview) -> Iterator[str]:
    waiting = found.waiting
    if waiting.batches:
        more = "more than " if waiting.more else ""
        batches = counted(waiting.batches, "committed batch", "committed batches")
        yield f"{more}{batches} wait to be announced, since {iso(waiting.since)}."
    if found.uncounted:
        yield f"The dead letters could not be counted: {found.uncounted}"

"""Which places are watched: what the scheduled audit does first at each invocation (`tidegate.flows.audit`).

A *place* is what a route takes: the keys of a bucket with a prefix and a suffix. Routes are renamed, split, merged and
removed, and their names are used again. A place stays what it is. So the ledger records by place, not by route, since
when it is watched, and when it was left: from when on no route takes exactly it. What was put in between was asked for,
and an audit looks at it, whoever takes its key today.

    step                                    if the process dies right after it
    1 read how all places are watched       nothing has happened
    2 begin to watch each place that a      the place is watched from then on. Those that routes have left are not
      route takes, or watch it on           marked yet, and are watched, too
    3 mark each place that was left         the others are marked by the next invocation, with a later time

2 comes before 3, and a place is not left before those that follow it are watched. So of a key that a route took before
and another takes now no time is between two watches. A place is left at the time of 3, which is up to an hour after the
deployment that left it; those that follow are watched since 2. Both have the time between.

Each write names what was read. Twins: one of two writes succeeds. Whoever is refused in 2 does not know since when the
other watches, and leaves 3 to the other.

What else may happen:

- Two versions of a deployment take turns: each marks what only the other one has, and watches its own on. A place that
  comes back within `every` and `min_age` is watched as if it had not been left. So all places of both are watched while
  that lasts, and after it one version's places are left.
- Two invocations have clocks that differ: a place is not left earlier than any other one is watched.
- A place comes back later than that: it is watched anew, in a record of its own, and what was put meanwhile nobody has
  asked for. What was put before it was left is still looked at, by the former record.
- A route is retired: its place is left. A route that has another name and the same place: nothing happens here.
- The audit was switched off while a place was left and came back: nobody has seen that, and the place was not left.
- The ledger was rebuilt: every place that a route takes is watched since now, and one that was left is forgotten.
  `tidegate audit` looks at what was put in between.
"""

from collections.abc import Iterable
from dataclasses import replace

from tidegate.core.audit import AuditLimits, AuditRun, first_run, was_never_left, watch_of
from tidegate.core.routes import Place, Route
from tidegate.flows.ports import Ports


def watch_places(routes: Iterable[Route], limits: AuditLimits, ports: Ports) -> list[AuditRun]:
    """Watch the places that these routes take, and note which ones were left. Returns how all of them are watched.

    It makes one query, and one write for each place that is new, left or back. Raises Retryable or OutcomeUnknown."""
    there = ports.ledger.audits()
    taken = sorted({route.place for route in routes if not route.retired})
    watched = [_watch(place, watch_of(place, there), limits, ports) for place in taken]
    kept = [run for run in watched if run]
    others = {(run.place, run.number): run for run in there}
    for run in kept:
        others.pop((run.place, run.number), None)
    if len(kept) == len(watched):
        # not before anything that follows is watched, whatever the clock says
        left_at = max([ports.clock(), *(run.watched_since for run in (*kept, *there))])
        return kept + [_leave(run, left_at, limits, ports) for run in others.values()]
    return kept + list(others.values())


def _watch(place: Place, last: AuditRun | None, limits: AuditLimits, ports: Ports) -> AuditRun | None:
    """How the place is watched from now on. None if a twin has just changed that."""
    if last and not last.left_at:
        return last
    if last and was_never_left(last, limits, now=ports.clock()):
        return replace(last, left_at=0) if ports.ledger.resume_watch(last) else None
    begun = first_run(place, last, limits, run_id=ports.new_id(), now=ports.clock())
    return begun if ports.ledger.begin_watch(begun) else None


def _leave(run: AuditRun, at: int, limits: AuditLimits, ports: Ports) -> AuditRun:
    if not run.left_at:
        ports.ledger.end_watch(run, at, limits.horizon)
    return replace(run, left_at=run.left_at or at)

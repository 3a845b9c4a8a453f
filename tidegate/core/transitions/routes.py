"""The transitions of a route's record, and what decides nothing."""

from tidegate.core.items import Has, Is, IsNot, Lacks, Transition, Update, Write
from tidegate.core.records import VERSION, Leftover, RouteRecord, leftover_key, route_key, settings_key
from tidegate.core.routes import Route, encode_route
from tidegate.core.transitions.common import single


def pause(route: str, *, now: int) -> Transition:
    return single(f"pause route {route}", Write(route_key(route), Update(sets={"paused": now}), (Lacks("paused"),)))


def unpause(route: str) -> Transition:
    change = Update(removes=("paused",))
    return single(f"end the pause of route {route}", Write(route_key(route), change, (Has("paused"),)))


def note_emptied(left: Leftover) -> Transition:
    """No upload of the batch is in quarantine any more. That is final: no transition gives a claim back to an owner
    that has lost it. So two processes may both find it."""
    return single(
        f"note that nothing of batch {left.batch} is in quarantine",
        Write(leftover_key(left.route, left.batch), Update(sets={"emptied": True}), (Is("ended_at", left.ended_at),)),
    )


def note_oldest(there: RouteRecord, since: int, seen: int) -> Transition:
    """Move the time since which the route has had uploads in quarantine: from what the record `there` says to `since`
    (epoch seconds; 0 if there are none any more). `seen` as in `RouteRecord.quarantine_seen`.

    beside it                     what happens
    a twin                        the field is as it was read, so one of two that found different times is refused
    `end_batch` that quarantines  it adds to the sum `quarantined`. If it is first, this is refused: its leftover may be
                                  missing in what was read. If it is second, it sets the field if there is none; else
                                  what is there is older
    `end_batch` that does not     the sum stays as it was read, and so does what is in quarantine
    `register` of what came back  it adds to `back_quarantined`. `seen` was read before the claims, so the record is
                                  behind again, and is looked at again
    """
    change = Update(
        sets={"quarantine_seen": seen, **({"quarantined_since": since} if since else {})},
        removes=() if since else ("quarantined_since",),
    )
    as_read = (
        Is("quarantined", there.tally.quarantined),
        Is("quarantined_since", there.quarantined_since) if there.quarantined_since else Lacks("quarantined_since"),
    )
    return single(
        f"note since when route {there.name} has uploads in quarantine", Write(route_key(there.name), change, as_read)
    )


def remember_route(route: Route) -> Transition:
    settings = encode_route(route)
    return single(
        f"remember route {route.name}",
        Write(
            settings_key(route.name),
            Update(sets={"settings": settings, "v": VERSION}),
            (IsNot("settings", settings),),
        ),
    )


def count_refused(route: str, count: int) -> Transition:
    return single(f"count duplicates of route {route}", Write(route_key(route), Update(adds={"refused": count})))

"""Mistakes about since when a route has uploads in quarantine."""

from dataclasses import replace
from typing import Any

from simulation.checker.planting import Bug, replaced
from tidegate.core.items import Is, Transition, Update, Write


def _without_since(real: Any) -> Any:
    def end_batch(*arguments: Any, **named: Any) -> Transition:
        whole: Transition = real(*arguments, **named)
        return replace(whole, writes=tuple(map(_unnoted, whole.writes)))

    return end_batch


def _unnoted(write: Write) -> Write:
    if not isinstance(write.change, Update) or "quarantined_since" not in write.change.sets_once:
        return write
    return replace(write, change=replace(write.change, sets_once={}))


def _whatever_was_quarantined(real: Any) -> Any:
    def note_oldest(*arguments: Any) -> Transition:
        whole: Transition = real(*arguments)
        (write,) = whole.writes
        left = tuple(each for each in write.requires if not (isinstance(each, Is) and each.name == "quarantined"))
        return replace(whole, writes=(replace(write, requires=left),))

    return note_oldest


def _in_quarantine_still(real: Any) -> Any:
    def drop_quarantined(*arguments: Any, **named: Any) -> Transition:
        whole: Transition = real(*arguments, **named)
        *claims, route = whole.writes
        assert isinstance(route.change, Update)
        adds = {name: count for name, count in route.change.adds.items() if name != "back_quarantined"}
        return replace(whole, writes=(*claims, replace(route, change=replace(route.change, adds=adds))))

    return drop_quarantined


BUGS = (
    Bug(
        "corrected by an earlier version",
        "An upload in quarantine is given up because an earlier version of its object has landed.",
        (replaced("tidegate.flows.drop_quarantined:_is_after", lambda real: lambda claim, other: True),),
        "corrected",
    ),
    Bug(
        "corrected, and not counted",
        "An upload in quarantine is given up, and stays in the sum of those in quarantine.",
        (replaced("tidegate.core.transitions:drop_quarantined", _in_quarantine_still),),
        "corrected",
    ),
    Bug(
        "a look asks about no upload",
        "A look for the oldest upload in quarantine takes each batch for one that has none any more.",
        (replaced("tidegate.flows.quarantine_age:_is_empty", lambda real: lambda *of: True),),
        "outcomes",
    ),
    Bug(
        "the end of a batch hides what it quarantines",
        "The end of a batch does not note since when its route has uploads in quarantine.",
        (replaced("tidegate.core.transitions:end_batch", _without_since),),
        "released",
    ),
)

UNSEEN = (
    Bug(
        "a look hides what came meanwhile",
        "A look for the oldest upload in quarantine overwrites what a batch has noted meanwhile.",
        (replaced("tidegate.core.transitions:note_oldest", _whatever_was_quarantined),),
        because="the batch has to end between two requests of one look: the model shows it, and none of 400 seeds did",
    ),
)

"""Needs: what of a deployment waits for a person, and which command comes next. Only from what status has read.

An upload that no route takes is not among them, because nothing records it: intake counts it as the metric
`UploadsOfNoRoute`, and logs an example.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.core.batches import Batch, State
from tidegate.core.quantities import counted
from tidegate.core.times import iso
from tidegate.flows.status import RouteStatus
from tidegate.flows.waiting_letters import LettersWaiting


class NeedKind(StrEnum):
    """In the order in which they are told."""

    HALTED = "halted"
    SUMS = "the sums do not hold"
    QUARANTINED = "quarantined"
    ABANDONED = "abandoned"
    LETTERS = "dead letters"


@dataclass(frozen=True, slots=True)
class NextStep:
    """A command, and what it is for: "why", or on which condition it comes next. Without a command, a sentence."""

    why: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that waits for a person. `route` and `batch` are "" where there is none. `count` is how many uploads
    wait, or messages; `since` when it began (epoch seconds, 0 if that is not known)."""

    kind: NeedKind
    what: str
    next: tuple[NextStep, ...]
    route: str = ""
    batch: str = ""
    count: int = 0
    since: int = 0


URGENT = frozenset({NeedKind.HALTED, NeedKind.SUMS})
"""What `tidegate status` ends with 1 for, whether or not it was asked to check the others."""


def needs(statuses: Sequence[RouteStatus], letters: LettersWaiting | None = None) -> list[Need]:
    """What waits for a person. `letters` is None if nobody has counted them."""
    found = [need for each in statuses for need in _of_route(each)]
    if letters is not None:
        found += _of_letters(letters)
    order = list(NeedKind)
    return sorted(found, key=lambda each: order.index(each.kind))


def _of_route(each: RouteStatus) -> Iterable[Need]:
    name = each.route.name
    for batch in each.halted:
        aside = f", aside since {iso(batch.aside_at)}" if batch.id in each.aside else ""
        what = f"batch {batch.id} of route {name} after attempt {batch.attempt}{aside}: {batch.halted}"
        yield Need(NeedKind.HALTED, what, ways_out(batch), name, batch.id, batch.objects, batch.halted_at)
    if not each.uploads.holds:
        yield Need(NeedKind.SUMS, sums(each), (NextStep("what differs", "tidegate audit --tables"),), name)
    if count := each.in_quarantine:
        steps: tuple[NextStep, ...] = (
            NextStep("why", f"tidegate files --route {name} --state quarantined"),
            NextStep("when the cause is removed", f"tidegate resend quarantine --route {name}"),
            NextStep("if nobody needs them", f"tidegate abort quarantine --route {name} --reason WHY"),
        )
        yield Need(
            NeedKind.QUARANTINED,
            f"{counted(count, 'upload')} of route {name}",
            steps,
            name,
            "",
            count,
            each.quarantined_since,
        )
    if each.waiting_for_resend > 0:
        steps = (
            NextStep("which batches", f"tidegate files --batches --route {name} --state abandoned"),
            NextStep("to send their uploads again", "tidegate resend BATCH"),
            NextStep("to give them up", "tidegate abort BATCH --drop"),
        )
        waiting = counted(each.waiting_for_resend, "upload")
        what = f"{waiting} of route {name} in abandoned batches, waiting for a resend"
        yield Need(NeedKind.ABANDONED, what, steps, name, "", each.waiting_for_resend)


def _of_letters(letters: LettersWaiting) -> Iterable[Need]:
    if letters.together:
        what = f"{letters.notifications} of notifications, {letters.notices} of notices"
        steps = (
            NextStep("why", "tidegate resend dead-letters --dry-run"),
            NextStep("when the cause is removed", "tidegate resend dead-letters"),
        )
        yield Need(NeedKind.LETTERS, what, steps, count=letters.together)


def ways_out(batch: Batch) -> tuple[NextStep, ...]:
    """What a person does about a halted batch, once the cause of the halt is removed."""
    if batch.state is State.SEALED:
        return (NextStep("when the cause is removed, it goes on by itself"),)
    if batch.undecided:
        return (
            NextStep("see", "tidegate resume --help"),
            NextStep("then", f"tidegate resume {batch.id} --not-published, or --published"),
        )
    return (NextStep("when the cause is removed", f"tidegate resume {batch.id}"),)


def sums(each: RouteStatus) -> str:
    """The conservation of one route as an equation."""
    ended = each.uploads.ended
    return (
        f"{each.uploads.notified} notified, but {ended.committed} committed + {ended.quarantined} quarantined"
        f" + {ended.superseded} superseded + {ended.vanished} vanished + {ended.present} present"
        f" + {each.uploads.dropped} dropped + {each.uploads.pending} pending"
        f" = {ended.uploads + each.uploads.dropped + each.uploads.pending}"
        f" (route {each.route.name})"
    )

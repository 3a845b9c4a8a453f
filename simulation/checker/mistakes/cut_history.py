"""Mistakes with a cut history."""

from dataclasses import replace
from typing import Any

from simulation.checker.planting import Bug, Strike, replaced
from simulation.world.faults import Kind
from tidegate.core.publication import NotPublished, Unprovable
from tidegate.flows.decide import Decision


def _the_last_one(real: Any) -> Any:
    def decide_published(batch: str, staged: int | None, ports: Any, **said: Any) -> Decision:
        decision: Decision = real(batch, staged, ports, **said)
        return real(batch, decision.staged[-1], ports, **said) if decision.staged else decision

    return decide_published


def _the_floor_itself(real: Any) -> Any:
    def verdict(history: Any, batch: str, floor: Any) -> Any:
        found = real(history, batch, floor)
        there = any(each.id == floor.head for each in history.ancestors)
        return found if there or not isinstance(found, NotPublished) else Unprovable("the floor is not there")

    return verdict


def _undecided(real: Any) -> Any:
    return lambda body: replace(real(body), undecided=True)


BUGS = (
    Bug(
        "the last staged snapshot is taken",
        "A decision that names no staged snapshot takes the last of several as the published one.",
        (replaced("tidegate.flows.decide:decide_published", _the_last_one),),
        "decided_in_vain",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 6),),
    ),
    Bug(
        "the floor must be there itself",
        "A history that begins right after the floor counts as not reaching it: a person has to decide.",
        (replaced("tidegate.core.publication:verdict", _the_floor_itself),),
        "expired_to_the_floor",
    ),
    Bug(
        "decided unasked",
        "A person may decide about any halted batch, whatever its last attempt reported.",
        (replaced("tidegate.core.receipts:decode_failure", _undecided, within="tidegate.flows.decide"),),
        "decided_unasked",
    ),
)

"""How an unfinished batch goes on, in a few words."""

from tidegate.core.batches import Batch, State
from tidegate.core.outlook import gathering
from tidegate.flows.status import RouteStatus


def what_next(batch: Batch, of: RouteStatus, *, now: int) -> str:
    """`of` is its route's status."""
    if batch.halted:
        return "waits for a person"
    if batch.fencing:
        return f"attempt {batch.attempt} gives it up"
    limits, paused = of.route.limits, bool(of.paused)
    if batch.state is State.OPEN:
        return gathering(batch, limits, now=now, slot_free=of.slots_taken < limits.in_flight, paused=paused)
    if batch.state is State.SEALED:
        return "its route is paused" if paused else "waits for a free slot"
    job = "is under way" if batch.job_run else "has no job on record yet"
    return f"attempt {batch.attempt} {job}"

"""Outlook: how a batch under way goes on, in words. Only from its record: no job is asked, and no file is read."""

from tidegate.core.batches import Batch, BatchLimits, State, is_full, next_attempt_from
from tidegate.core.quantities import duration
from tidegate.core.times import iso
from tidegate.schedule import SCHEDULE

JOB_IS_LATE = 120
"""Seconds from the beginning of an attempt. By then settling has tried to start its job once more."""


def outlook(batch: Batch, limits: BatchLimits) -> str:
    """What becomes of the current attempt of a batch that is SUBMITTED and has not halted.

    The record does not say whether the attempt's job still runs. So the sentence holds in either case.
    """
    attempt, begun = f"attempt {batch.attempt}", f"began at {iso(batch.submitted_at)}"
    if not batch.job_run:
        return (
            f"{attempt} {begun}, and no job of it is on record yet: every minute settling looks for the one that"
            " takes it, or tries to start one, and logs why if it cannot"
        )
    following = next_attempt_from(batch, limits)
    if following is None:
        return f"{attempt} {begun}. If it fails, the batch halts: it is the last"
    return f"{attempt} {begun}. If it fails, attempt {batch.attempt + 1} begins at {iso(following)} at the earliest"


def is_delayed(batch: Batch, *, now: int) -> bool:
    """Whether a batch under way has failed before, or lacks a job for longer than a start takes."""
    if batch.state is not State.SUBMITTED or batch.halted:
        return False
    return batch.attempt > 1 or (not batch.job_run and now - batch.submitted_at >= JOB_IS_LATE)


def gathering(batch: Batch, limits: BatchLimits, *, now: int, slot_free: bool, paused: bool) -> str:
    """When a batch that is OPEN is sealed, as `core.batches.is_due` decides it. It is at the latest: the schedule looks
    once in `SCHEDULE` seconds, and a batch that a worker waits for is sealed earlier."""
    if not batch.notices:
        return "no upload has come yet"
    if is_full(batch, limits):
        return "full, and due now"
    if paused:
        return "its route is paused, and it gathers on"
    if not slot_free:
        return "due when a job of the route ends, or when it is full"
    soon = batch.opened_at + limits.max_wait - now
    latest = batch.opened_at + max(limits.max_wait, SCHEDULE) - now
    if latest <= 0:
        return "due now"
    if soon == latest:
        return f"due in {duration(latest)} at the latest, or when it is full"
    first = f"in {duration(soon)} if uploads still come then" if soon > 0 else "when the next upload comes"
    return f"due {first}, else by the schedule, in {duration(latest)} at the latest"

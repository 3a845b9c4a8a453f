"""How long a batch gathered, waited and ran. Only from its record."""

from dataclasses import dataclass

from tidegate.core.batches import Batch


@dataclass(frozen=True, slots=True)
class Spans:
    """In seconds, up to now for what has not ended; None for what has not begun.

    `gathered`  while it was open
    `waited`    from when it was sealed until its last attempt began: for a slot, and over earlier attempts
    `ran`       from when its last attempt began until settling recorded the end
    """

    gathered: int
    waited: int | None = None
    ran: int | None = None


def spans(batch: Batch, now: int) -> Spans:
    """None of them is negative, because the times are of several clocks."""
    gathered = _between(batch.opened_at, batch.sealed_at or now)
    if not batch.sealed_at:
        return Spans(gathered)
    waited = _between(batch.sealed_at, batch.submitted_at or now)
    if not batch.submitted_at:
        return Spans(gathered, waited)
    return Spans(gathered, waited, _between(batch.submitted_at, batch.ended_at or now))


def _between(begin: int, end: int) -> int:
    return max(0, end - begin)

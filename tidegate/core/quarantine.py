"""Since when a route has had uploads in quarantine, and whether its record may be behind."""

from tidegate.core.outcomes import Outcome
from tidegate.core.records import Leftover, RouteRecord


def is_behind(record: RouteRecord, *, now: int, retention: int) -> bool:
    """Whether `quarantined_since` may name a time whose uploads have left quarantine.

    They leave it in two ways. They come back, which the record counts. Or their claims expire (`retention`, seconds),
    which is a matter of time: a claim is made before its batch ends. `now` is in epoch seconds. Nothing but the record
    is needed, so a route in which nothing happens costs no further read.
    """
    if not record.tally.quarantined:
        return False
    back = record.back.get(Outcome.QUARANTINED.value, 0)
    return record.quarantine_seen != back or _is_forgotten(record.quarantined_since, now, retention)


def has_expired(left: Leftover, *, now: int, retention: int) -> bool:
    """Whether the claims on all uploads of the batch have expired."""
    return _is_forgotten(left.ended_at, now, retention)


def _is_forgotten(ended_at: int, now: int, retention: int) -> bool:
    return bool(ended_at) and now >= ended_at + retention

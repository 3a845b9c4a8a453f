"""How an unfinished batch goes on, in a few words, by its document."""

from collections.abc import Mapping
from typing import Any

from tidegate.cli.render import duration
from tidegate.schedule import SCHEDULE
from tidegate.ui.timeline import seconds


def what_next(batch: Mapping[str, Any], max_wait: int | None, *, now: int) -> str:
    """`max_wait` is its route's, in seconds; None if the route is not in the configuration any more."""
    if batch["halted"]:
        return "waits for a person"
    if batch["fencing"]:
        return f"attempt {batch['attempt']} gives it up"
    match batch["state"]:
        case "OPEN":
            return _when_due(seconds(batch["opened_at"]), max_wait, now)
        case "SEALED":
            return "waits for a free slot"
    if not batch["job_run"]:
        return f"attempt {batch['attempt']}, no job on record yet"
    return f"attempt {batch['attempt']} is under way"


def _when_due(opened: int, max_wait: int | None, now: int) -> str:
    """A batch is sealed up to one look of settling before its `max_wait` is over (`core.batches.is_due`)."""
    if max_wait is None:
        return "gathers"
    left = opened + max_wait - now
    if left <= 0:
        return "due: handed off when a slot is free"
    if left <= SCHEDULE:
        return f"due within {duration(left)}"
    return f"gathers for {duration(left)} at most"

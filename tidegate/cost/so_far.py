"""What uploads have cost so far, from what the ledger has counted of a route.

The ledger counts uploads, batches and attempts. It does not count notices, and not the bytes of batches that have
ended. Where it does not know, this takes the larger number: so many notices as windows of intake fit into the gathering
of each batch, and a job of its own for each attempt.
"""

import math
from dataclasses import dataclass, replace

from tidegate.cost.bill import (
    Bill,
    BillLine,
    DailyTraffic,
    Gathering,
    bill,
    job_seconds,
    quantities_of,
)
from tidegate.cost.counted import PER_BATCH, PER_NOTICE, PER_UPLOAD
from tidegate.cost.prices import PRICES
from tidegate.schedule import intake_window


@dataclass(frozen=True, slots=True)
class CountedSoFar:
    """What the ledger has counted of a route. `size`: bytes of an upload, 0 leaves the time to read out. `max_wait` in
    seconds."""

    uploads: int
    batches: int
    attempts: int
    max_wait: float
    size: float = 0.0


def notices(done: CountedSoFar) -> int:
    """How many notices at most have carried these uploads, if none came again."""
    in_a_batch = math.ceil(done.max_wait / intake_window(done.max_wait))
    return min(done.uploads, done.batches * in_a_batch)


def so_far(title: str, done: CountedSoFar) -> Bill:
    """List prices of what the uploads have caused. Not in it: what costs by the month (`standing`), and what a minute
    without uploads asks for."""
    used = PER_UPLOAD * done.uploads + PER_NOTICE * notices(done) + PER_BATCH * done.batches
    each = job_seconds(done.uploads / done.attempts, done.size) if done.attempts else 0.0
    amounts = quantities_of(replace(used, starts=done.attempts), done.attempts, each)
    lines = tuple(
        BillLine(name, amounts[name], price.of(amounts[name])) for name, price in PRICES.items() if amounts.get(name)
    )
    return Bill(title, done.uploads, done.attempts, each, lines)


def standing() -> Bill:
    """A month in which nothing is uploaded: alarms, metrics, settling once a minute, Lambda's polling."""
    return replace(bill(DailyTraffic(0, 0), Gathering()), title="a month without uploads")

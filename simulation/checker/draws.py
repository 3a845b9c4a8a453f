"""What a seed draws: the knobs of its world, and where faults strike.

All knobs are drawn, each independently. A knob or fault that is left out later changes nothing else, so that a failure
can be replayed in a plainer world, or with fewer faults.
"""

import itertools
import math
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from simulation.world.faults import LATE_SECONDS, SLOW_SECONDS, Kind, Lateness
from simulation.world.knobs import PLAIN, Knobs


def first_of_today() -> int:
    """The first of a thousand seeds that belong to this day (UTC). Other seeds each day: else the product is tuned to
    some, and what breaks on the rest is never seen."""
    return 1_000 * int(time.time() // 86_400)


# ---- the kind of world

DAY = 86_400.0
CLAIMS_LIVE = 60 * DAY
"""The default of the setting `retention.claims`."""
FOR_GOOD = math.inf

# A new knob goes to the end: `drawn` draws in this order, and the seeds that others are known by must stay what they
# are. If it can cost nobody time, add it to `bounds.HARMLESS`: else the bounds are not checked.
CHOICES: dict[str, tuple[float, tuple[Any, ...]]] = {
    "latency": (0.9, ((0.002, 0.005, 0.02, 0.2), (0.005, 0.3, 2.0, 8.0))),
    "delivery": (0.9, ((0.02, 0.1, 3.0), (0.02, 40.0))),
    "startup": (0.9, ((20.0, 45.0, 90.0), (30.0, 600.0), (45.0, 2_500.0))),
    "missed_looks": (0.5, (0.05, 0.5)),
    "unordered": (0.3, (True,)),
    "behind": (0.5, (1.0, 5.0)),
    "held_back": (0.3, (0.3,)),
    "page": (0.3, (1, 2)),
    "refused_notices": (0.15, (0.2,)),
    "conflicts": (0.15, (0.2,)),
    "forgotten_tokens": (0.4, (0.3, 1.0)),
    "twins": (0.3, (0.3, 1.0)),
    "cancelled": (0.15, (0.3, 0.6)),
    "outlived": (0.6, (True,)),
    "forgotten_runs": (0.1, (0.5,)),
    "skew": (0.3, ((0.0, 60.0), (0.0, -150.0, 200.0))),
    "expiry_at_once": (0.5, (True,)),
    "suspended": (0.1, (True,)),
    "refused_objects": (0.15, (FOR_GOOD, 400.0, 1_500.0)),
    "closed_bucket": (0.1, ("AccessDenied", "NoSuchBucket")),
    "in_flight": (0.3, (2, 3)),
    "attempts": (0.3, (1, 2, 5)),
    "max_wait": (0.2, (1, 300)),
    "one_table": (0.3, (True,)),
    "small": (0.3, (True,)),
    "two_versions": (0.15, (True,)),
    "foreign": (0.35, (1, 3, 8, 15)),
    "aborts": (0.3, (1, 3, 6)),
    "resumes": (0.3, (1, 3, 6)),
    "away": (0.2, (True,)),
    "horizon": (0.15, (1 * DAY, 20 * DAY, CLAIMS_LIVE - 0.2 * DAY)),
    "bundled": (0.3, (True,)),
    "receives": (0.2, (1,)),
    "cut": (0.15, (0.3, 0.7)),
    "cut_undone": (0.5, (True,)),
    "lost": (0.15, (20.0, 100.0, 400.0, 2_000.0)),
    "resends": (0.5, (True,)),
    "releases": (0.25, (1, 3, 6)),
    "audit": (0.2, (1.0, 120.0, 1_800.0, 2 * 3_600.0)),
    "audits": (0.5, (1, 3, 8)),
    "announced": (0.25, (True,)),
    "drops": (0.15, (1, 3, 6)),
    "step_aside": (0.3, (60.0, 1_800.0)),
    "backfills": (0.15, (1, 3)),
    "screened": (0.5, (True,)),
    "stay": (0.3, (3, 20)),
    "inserted": (0.3, (True,)),
    "failed_inserts": (0.5, (0.3,)),
    "lanes": (0.3, (2, 4)),
    "replayed": (0.6, (0.3, 1.0)),
    "strange": (0.2, (0.3,)),
    "replaces": (0.3, (True,)),
    "removes": (0.5, (True,)),
    "reloads": (0.15, (1, 3, 6)),
    "skips": (0.25, (True,)),
    "expires": (0.5, (3, 12)),
    "where": (0.15, ("id % 10 <> 1",)),
}
"""The share of the seeds that use each knob, and the values."""


def drawn(seed: int, without: Iterable[str] = ()) -> Knobs:
    """The knobs of a seed. Those in `without` keep their defaults, and nothing else changes, so that a failure can be
    replayed in a plainer world."""
    chance = random.Random(seed * 2 + 7_919)
    turned = {}
    for name, (share, values) in CHOICES.items():
        draws = chance.random() < share, chance.choice(values)
        if draws[0]:
            turned[name] = draws[1]
    return replace(PLAIN, **turned).without(without)


# ---- where faults strike

SLOWNESS = (8.0, 30.0, 50.0, 80.0, SLOW_SECONDS)
"""Where chance decides."""


DELAYS = (2.0, 45.0, 400.0, LATE_SECONDS, 4_000.0)
"""Where chance decides."""


@dataclass
class Chance(Lateness):
    """At most `most` random faults, about `spread` calls apart, from their own seed. `only` keeps the faults at these
    calls and changes nothing else, so that a failure can be replayed with fewer faults."""

    seed: int
    most: int = 4
    spread: int = 60
    only: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        chance = random.Random(self.seed * 2 + 1)
        numbers = list(itertools.accumulate(1 + chance.randrange(self.spread) for _ in range(self.most)))
        # drawn in advance, so that leaving one out does not change the others
        self._faults = {
            number - 1: (chance.random(), chance.choice(DELAYS), chance.choice(SLOWNESS)) for number in numbers
        }

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        if number not in self._faults or (self.only is not None and number not in self.only):
            return None
        drawn, self._delay, self._slowness = self._faults[number]
        return kinds[int(drawn * len(kinds))]

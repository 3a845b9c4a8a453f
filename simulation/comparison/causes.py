"""The causes that schedules are compared under: every kind of fault at once, or one group of kinds."""

import itertools
import random
from dataclasses import dataclass

from simulation.checker.draws import DELAYS, SLOWNESS, Chance
from simulation.comparison.schedule import Announcing
from simulation.world.faults import At, Kind, Lateness, Plan

MOST = 4
CALLS = 60
"""About every 30th call of a process is struck, four at most. The rate is the same for every scheme, so a scheme with
fewer calls meets fewer faults."""

DELIVERIES = 8


@dataclass
class Few(Lateness):
    """Up to `MOST` faults of these kinds, drawn by the seed, at sites whose names end in one of `sites`."""

    seed: int
    kinds: tuple[Kind, ...]
    sites: tuple[str, ...]
    spread: int

    def __post_init__(self) -> None:
        chance = random.Random(f"faults-{self.seed}")
        numbers = itertools.accumulate(1 + chance.randrange(self.spread) for _ in range(MOST))
        self._faults = {
            number - 1: (chance.choice(self.kinds), chance.choice(DELAYS), chance.choice(SLOWNESS))
            for number in numbers
        }
        self._met = 0

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        if not site.endswith(self.sites) or not set(self.kinds) & set(kinds):
            return None
        here = self._met
        self._met += 1
        if here not in self._faults:
            return None
        kind, self._delay, self._slowness = self._faults[here]
        return kind if kind in kinds else None


@dataclass(frozen=True)
class Cause:
    """`kinds` strike at `sites` (ends of their names), at about every `spread / 2`-th call."""

    title: str
    announcing: Announcing
    kinds: tuple[Kind, ...] = tuple(Kind)
    sites: tuple[str, ...] = ("",)
    spread: int = CALLS

    def plan(self, seed: int) -> Plan:
        if not self.kinds:
            return At()
        if self.kinds == tuple(Kind):
            return Chance(seed, MOST, CALLS)
        return Few(seed, self.kinds, self.sites, self.spread)


ONCE = Announcing()
NOTIFICATION = ("s3 notification",)

EVERYTHING = "everything"
SILENCE = "silence"
CAUSES = {
    EVERYTHING: Cause("everything", Announcing(never=1, once=12, twice=5, thrice=1, late=True)),
    "calm": Cause("nothing", ONCE, ()),
    "duplicates": Cause(
        "notified again", Announcing(once=2, twice=2, thrice=1), (Kind.TWICE,), NOTIFICATION, DELIVERIES
    ),
    "redelivery": Cause(
        "delivered again, or not acknowledged", ONCE, (Kind.DROP, Kind.TWICE), ("receive", "delete"), DELIVERIES
    ),
    "crashes": Cause("process dies", ONCE, (Kind.DIE_BEFORE, Kind.DIE_AFTER)),
    "answers": Cause("answer lost", ONCE, (Kind.LOSE, Kind.MUTE, Kind.BREAK)),
    "zombies": Cause("process or request is late", ONCE, (Kind.LATE, Kind.ECHO, Kind.PAUSE, Kind.SLOW)),
    "refusals": Cause("refused", ONCE, (Kind.THROTTLE, Kind.FAIL)),
    SILENCE: Cause("never notified", Announcing(never=1, once=3), (Kind.DROP,), NOTIFICATION, DELIVERIES),
}
"""By a short name. Under `everything` any fault may strike any call. Else S3 notifies of each upload once, in time,
unless notifications are the cause."""

SINGLE = tuple(name for name in CAUSES if name != EVERYTHING)

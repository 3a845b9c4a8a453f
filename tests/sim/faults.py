"""What can go wrong at a call, and the plans that say where it does."""

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Kind(StrEnum):
    """One fault at one call. The last two strike what the platform does, the others calls of a process."""

    DIE_BEFORE = "die-before"  # the process dies, the request is never sent
    DIE_AFTER = "die-after"  # the request is applied, and the process dies
    LOSE = "lose"  # applied, the answer is lost once: the SDK repeats the request
    MUTE = "mute"  # applied, and every answer to this call is lost, the SDK's repetitions included
    THROTTLE = "throttle"  # refused as too much, however often the SDK repeats it
    BREAK = "break"  # applied, and answered as an internal error, however often the SDK repeats it
    FAIL = "fail"  # refused for good
    LATE = "late"  # the process dies; the request is applied long after somebody else has taken over
    ECHO = "echo"  # the request hangs, the SDK repeats it with success; later the first one is applied, too
    PAUSE = "pause"  # the process is frozen before the call, and wakes up long after it was given up
    SLOW = "slow"  # it takes long, and the process lives to see the answer
    DROP = "drop"  # a delivery, an acknowledgement or an event is lost
    TWICE = "twice"  # it happens twice


PLATFORM_KINDS = (Kind.DROP, Kind.TWICE)
CALL_KINDS = tuple(kind for kind in Kind if kind not in PLATFORM_KINDS)
SEEN_BY_THE_SDK = frozenset({Kind.LOSE, Kind.MUTE, Kind.THROTTLE, Kind.BREAK, Kind.ECHO})
"""After these the SDK repeats a request by itself."""

LATE_SECONDS = 1_500.0
"""Longer than any visibility timeout, so that a successor has acted."""


SLOW_SECONDS = 100.0
"""Below the timeout of all functions but intake, and far above what a call takes: others act in the meantime."""
SLOWNESS = (8.0, 30.0, 50.0, 80.0, SLOW_SECONDS)
"""Where chance decides."""


DELAYS = (2.0, 45.0, 400.0, LATE_SECONDS, 4_000.0)
"""Where chance decides."""


class Plan(Protocol):
    """Where faults strike. `number` counts the calls of a world, `kinds` are those that can strike this one."""

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None: ...

    def delay(self) -> float:
        """How long what is late is late, in seconds."""
        ...

    def slowness(self) -> float:
        """How long a slow call takes, in seconds."""
        ...


@dataclass
class At:
    """Faults at calls with these numbers; strikes that do not fit the call are reported in `misfits`."""

    faults: Mapping[int, Kind] = field(default_factory=dict)
    misfits: list[int] = field(default_factory=list)

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        kind = self.faults.get(number)
        if kind is not None and kind not in kinds:
            self.misfits.append(number)
            return None
        return kind

    def delay(self) -> float:
        return LATE_SECONDS

    def slowness(self) -> float:
        return SLOW_SECONDS


@dataclass
class Chance:
    """At most `most` faults by chance, `spread` calls apart or so, from a seed of its own. `only` leaves out all but
    the faults at these calls, and nothing else changes, so that a failure can be replayed with fewer of them."""

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
        self._delay, self._slowness = LATE_SECONDS, SLOW_SECONDS

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        if number not in self._faults or (self.only is not None and number not in self.only):
            return None
        drawn, self._delay, self._slowness = self._faults[number]
        return kinds[int(drawn * len(kinds))]

    def delay(self) -> float:
        return self._delay

    def slowness(self) -> float:
        return self._slowness

"""The faults that can strike a call, and the plans of where they strike."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class Kind(StrEnum):
    """One fault at one call. The last two strike actions of the platform, the others calls of a process."""

    DIE_BEFORE = "die-before"  # the process dies, the request is never sent
    DIE_AFTER = "die-after"  # the request is applied, then the process dies
    LOSE = "lose"  # applied, but the answer is lost once; the SDK repeats the request
    MUTE = "mute"  # applied, but every answer is lost, those to the SDK's retries too
    THROTTLE = "throttle"  # refused by a rate limit, the SDK's retries too
    BREAK = "break"  # applied, but answered with an internal error, the SDK's retries too
    FAIL = "fail"  # refused, not to be retried
    LATE = "late"  # the process dies; the request is applied long after another process has taken over
    ECHO = "echo"  # the request hangs, the SDK's retry succeeds; later the first request is applied, too
    PAUSE = "pause"  # the process is frozen before the call, and goes on long after it was given up
    SLOW = "slow"  # the call takes long, and the process gets the answer
    DROP = "drop"  # a delivery, an acknowledgement or an event is lost
    TWICE = "twice"  # it happens twice


PLATFORM_KINDS = (Kind.DROP, Kind.TWICE)
CALL_KINDS = tuple(kind for kind in Kind if kind not in PLATFORM_KINDS)
SEEN_BY_THE_SDK = frozenset({Kind.LOSE, Kind.MUTE, Kind.THROTTLE, Kind.BREAK, Kind.ECHO})
"""The SDK retries the request after these."""

LATE_SECONDS = 1_500.0
"""Longer than any visibility timeout, so that a successor has acted."""
SLOW_SECONDS = 100.0
"""Shorter than the timeout of all functions but intake, and far longer than a call: others act in the meantime."""


class Plan(Protocol):
    """Where faults strike. `number` counts the calls of a world, `kinds` are those that can strike this one."""

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None: ...

    def delay(self) -> float:
        """The delay of a late call, in seconds."""
        ...

    def slowness(self) -> float:
        """The duration of a slow call, in seconds."""
        ...


class Lateness:
    """The part of a plan that says how long what is late takes."""

    _delay, _slowness = LATE_SECONDS, SLOW_SECONDS

    def delay(self) -> float:
        return self._delay

    def slowness(self) -> float:
        return self._slowness


@dataclass
class At(Lateness):
    """Faults at the calls with these numbers. `misfits` are the numbers whose fault cannot strike that call."""

    faults: Mapping[int, Kind] = field(default_factory=dict)
    misfits: list[int] = field(default_factory=list)

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        kind = self.faults.get(number)
        if kind is not None and kind not in kinds:
            self.misfits.append(number)
            return None
        return kind

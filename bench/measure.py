"""Measuring peers side by side on a machine that does other things too.

Peers take turns (A B C, then C B A, and so on), so that a slow minute strikes all of them. A ratio is taken pair by
pair, of runs of the same round, and the median of the pairs counts.
"""

import gc
import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Peers = Mapping[str, Callable[[], Any]]


@dataclass(frozen=True, slots=True)
class Timed:
    """One run: its seconds, and the processor seconds of this process and of its ended children."""

    seconds: float
    processor: float


@dataclass
class Rounds:
    """The runs of each peer, in the order of the rounds."""

    runs: dict[str, list[Timed]] = field(default_factory=dict)

    def seconds(self, peer: str) -> float:
        return median(run.seconds for run in self.runs[peer])

    def processor(self, peer: str) -> float:
        return median(run.processor for run in self.runs[peer])

    def ratio(self, mine: str, other: str) -> float:
        """How many times as long `mine` took."""
        pairs = zip(self.runs[mine], self.runs[other], strict=True)
        return median(one.seconds / two.seconds for one, two in pairs)

    def processor_ratio(self, mine: str, other: str) -> float:
        pairs = zip(self.runs[mine], self.runs[other], strict=True)
        return median(one.processor / two.processor for one, two in pairs)

    def more(self, mine: str, other: str) -> float:
        """How many seconds longer `mine` took: the median of the pairs."""
        return median(one.seconds - two.seconds for one, two in zip(self.runs[mine], self.runs[other], strict=True))


def take_turns(peers: Peers, rounds: int, check: Callable[[str, Any], None] = lambda peer, answer: None) -> Rounds:
    """Run every peer once in each round. `check` gets each answer, outside of the time."""
    found = Rounds({peer: [] for peer in peers})
    for number in range(rounds):
        order = list(peers) if number % 2 == 0 else list(reversed(peers))
        for peer in order:
            timed, answer = once(peers[peer])
            check(peer, answer)
            found.runs[peer].append(timed)
    return found


def once(call: Callable[[], Any]) -> tuple[Timed, Any]:
    gc.collect()
    processor, began = processor_seconds(), time.perf_counter()
    answer = call()
    return Timed(time.perf_counter() - began, processor_seconds() - processor), answer


def processor_seconds() -> float:
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


def peak_megabytes() -> float:
    """The most memory that this process ever had. Linux counts in kilobytes, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if os.uname().sysname == "Darwin" else peak / 1e3

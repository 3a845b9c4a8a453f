"""Whom a strike hits, and when: drawn from a seed, before anything runs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is struck."""

    FUNCTION = "function"
    SPARK_SUBMIT = "spark-submit"  # the JVM of the driver
    DRIVER = "driver in Python"
    WORKER = "Python worker"


class Manner(StrEnum):
    """When it is struck."""

    ANY_TIME = "at any time"
    AT_WORK = "in an invocation"
    WROTE = "after a commit to the table"
    TASK = "in a task"


FUNCTION_EVERY = (1.0, 5.0)
"""Seconds between two strikes at functions. A new sandbox takes some three seconds to begin."""
AT_WORK = 0.7
"""The share of strikes at functions that wait for an invocation to begin; the others do not look."""
INVOCATION = {"intake": 0.05, "dispatch": 0.15, "settle": 0.25, "audit": 0.25}
"""Seconds from the beginning of an invocation within which such a strike falls: about as long as one takes."""

JOB_FATES: tuple[tuple[Kind, Manner], ...] = (
    (Kind.SPARK_SUBMIT, Manner.ANY_TIME),
    (Kind.DRIVER, Manner.ANY_TIME),
    (Kind.SPARK_SUBMIT, Manner.WROTE),
    (Kind.DRIVER, Manner.WROTE),
    (Kind.WORKER, Manner.TASK),
)
"""What befalls jobs, in turn and in shuffled order."""
SPARED = 2
"""So many jobs more of each turn are spared, or little would ever end; of the first turn not the first two."""
JOB_SECONDS = 20.0
WITHIN = {
    Manner.ANY_TIME: JOB_SECONDS,
    # from publishing to the receipt a driver takes little longer
    Manner.WROTE: 0.1,
    Manner.TASK: 0.4,
}
"""Seconds within which a strike at a job falls, from when the job began, or from what the strike waits for."""


@dataclass(frozen=True, slots=True)
class FunctionFate:
    """A strike at a function, `pause` seconds after the one before, and `delay` after an invocation begins."""

    function: str
    manner: Manner
    pause: float
    delay: float


@dataclass(frozen=True, slots=True)
class JobFate:
    """A strike at a job, or none (`kind`), `delay` seconds after it began, or wrote its `commits`th commit, or a task
    began, as `manner` says."""

    kind: Kind | None
    manner: Manner
    delay: float
    commits: int


def function_fates(chosen: random.Random) -> Iterator[FunctionFate]:
    """One after the other; each turn has all functions."""
    while True:
        for function in chosen.sample(list(INVOCATION), len(INVOCATION)):
            yield FunctionFate(
                function,
                Manner.AT_WORK if chosen.random() < AT_WORK else Manner.ANY_TIME,
                chosen.uniform(*FUNCTION_EVERY),
                chosen.uniform(0, INVOCATION[function]),
            )


def job_fates(chosen: random.Random) -> Iterator[JobFate]:
    """One for each job."""
    sure = 2
    while True:
        strikes: list[tuple[Kind | None, Manner]] = chosen.sample(JOB_FATES, len(JOB_FATES))
        others = strikes[sure:] + [(None, Manner.ANY_TIME)] * SPARED
        chosen.shuffle(others)
        for kind, manner in strikes[:sure] + others:
            # a batch is two commits: one stages, one publishes
            yield JobFate(kind, manner, chosen.uniform(0, WITHIN[manner]), chosen.choice((1, 2, 2)))
        sure = 0

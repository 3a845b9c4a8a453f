"""A batch: what one Spark job publishes in one snapshot, and when it goes from one state to the next.

    OPEN -> SEALED -> SUBMITTED(attempt 1, 2, ...) -> COMMITTED
                                                  `-> ABANDONED   (only once its fence is in the table)

A batch that ran out of attempts is *halted*: still SUBMITTED, because a zombie may yet publish it, but
nothing more is started until a person has looked.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from tidegate.core.outcomes import NO_TALLY, Tally


class State(StrEnum):
    OPEN = "OPEN"
    SEALED = "SEALED"
    SUBMITTED = "SUBMITTED"
    COMMITTED = "COMMITTED"
    ABANDONED = "ABANDONED"


@dataclass(frozen=True, slots=True)
class Limits:
    """When a batch is handed off. `max_wait` in seconds; `in_flight` jobs of a route at once."""

    max_wait: int = 60
    target_bytes: int = 256_000_000
    target_objects: int = 100_000
    in_flight: int = 1
    attempts: int = 3


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a batch as the ledger holds it; times in epoch seconds, 0 for "not yet".

    `endings` is how many endings have been written into their claims; of a fenced batch, those of how many parts.
    `table` was decided when the batch was sealed: a route that is pointed at another table takes no batch with it;
    `sealed_for` (JSON, see `core.routes`) is how its files were to be read then. `manifest` is the digest of the
    registered parts, once the manifest has been written. `dataset` (JSON, see `core.routes`) is how the current attempt
    reads the files, decided when its job is first started, so that its twins read alike. `floors` counts how often a
    person has decided that the batch is not in the table.
    """

    id: str
    route: str
    state: State
    opened_at: int
    objects: int = 0
    bytes: int = 0
    notices: int = 0
    attempt: int = 0
    job_run: str = ""
    sealed_at: int = 0
    submitted_at: int = 0
    ended_at: int = 0
    halted: str = ""
    snapshot: int = 0
    tally: Tally = NO_TALLY
    fencing: bool = False
    endings: int = 0
    table: str = ""
    manifest: str = ""
    dataset: str = ""
    floors: int = 0
    sealed_for: str = ""


MAX_NOTICES = 50_000
"""Whoever writes the manifest reads a record for each, and must be done before a function's time is up."""


LONGEST_OPEN = 24 * 60 * 60
"""Seconds. A batch that gathers behind a halted one is sealed after a day, slot or not: its manifest is made of the
notices' records, which expire."""


def is_full(batch: Batch, limits: Limits) -> bool:
    return batch.bytes >= limits.target_bytes or batch.objects >= limits.target_objects or batch.notices >= MAX_NOTICES


def is_due(batch: Batch, limits: Limits, *, now: int, slot_free: bool, next_look: int) -> bool:
    """Whether the open batch must be sealed now.

    A full one always: it must not grow past what a job can hold while it waits for a slot. One that is
    merely older than `max_wait` only if a job could start: until then arrivals gather in it, which makes jobs few.
    `next_look` (seconds until somebody is sure to ask again) makes `max_wait` a bound, not an average.
    """
    if batch.state is not State.OPEN or not batch.notices:
        return False
    age = now - batch.opened_at
    return is_full(batch, limits) or (slot_free and age + next_look >= limits.max_wait) or age >= LONGEST_OPEN


class JobState(Enum):
    """What EMR Serverless says of a job run, as far as settling cares."""

    ACTIVE = auto()
    ENDED = auto()
    UNKNOWN = auto()  # no such run, or none recorded


class Step(Enum):
    """What settling does next with a submitted batch."""

    WAIT = auto()
    SETTLE = auto()  # a receipt: the table has decided, record it
    HAND_OFF = auto()  # the attempt has no job on record: start it (again, under the same token)
    NEXT_ATTEMPT = auto()
    HALT = auto()


def next_step(batch: Batch, job: JobState, *, receipt: bool, hopeless: bool, limits: Limits) -> Step:
    """What to do with a batch that is SUBMITTED.

    `job` must have been asked for *before* the receipt was looked for: a job writes its receipt and then
    ends, so "ended, and no receipt" seen in the other order may be a job that did both in between.
    `hopeless` says that the attempt itself reported that another one could not succeed.
    """
    if receipt:
        return Step.SETTLE
    if batch.halted:
        return Step.WAIT
    if job is JobState.UNKNOWN:
        return Step.HAND_OFF
    if job is JobState.ACTIVE:
        return Step.WAIT
    if hopeless or batch.attempt >= limits.attempts:
        return Step.HALT
    return Step.NEXT_ATTEMPT

"""A batch: the uploads that one Spark job publishes in one snapshot. Its states, and when it changes state.

    OPEN -> SEALED -> SUBMITTED(attempt 1, 2, ...) -> COMMITTED
                                                  `-> ABANDONED   (only once its fence is in the table)

A batch that ran out of attempts is *halted*. It is still SUBMITTED, because a zombie may yet publish it. No job is
started for it until a person acts. After a while it steps *aside*: it gives up its slot, and the route goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto

from tidegate.core.outcomes import NO_TALLY, Tally


class State(StrEnum):
    OPEN = "OPEN"
    SEALED = "SEALED"
    SUBMITTED = "SUBMITTED"
    COMMITTED = "COMMITTED"
    ABANDONED = "ABANDONED"


class Wish(StrEnum):
    """What a person wants done with the uploads of a batch once it is abandoned. Settling carries it out."""

    DROP = "drop"  # give them up for good
    RESEND = "resend"  # send them again


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch is handed off, and how often it is attempted. `in_flight` is how many jobs of a route may run at
    once. `max_wait`, `retry_wait` and `step_aside` are in seconds; see `wait_before_next` and `gives_way`."""

    max_wait: int = 60
    target_bytes: int = 256_000_000
    target_objects: int = 100_000
    in_flight: int = 1
    attempts: int = 5
    retry_wait: int = 120
    step_aside: int = 60 * 60


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a batch as the ledger holds it. Times are in epoch seconds, 0 for "not yet".

    `endings`      how many endings are written into their claims; of a fenced batch, of how many parts
    `table`        decided when the batch was sealed; a later change of the route's table does not move the batch
    `sealed_for`   how its files were to be read when its table was decided (JSON, see `core.routes`)
    `manifest`     the digest of the registered parts, once the manifest is written
    `dataset`      how the current attempt reads the files (JSON, see `core.routes`); decided when its job is first
                   started, so that its twins read alike
    `floors`       how often a person has decided that the batch is not in the table
    `undecided`    it halted because a person must decide whether it is in the table
    `halted_at`    when it halted
    `aside_at`     when it last gave up its slot. It stays when the batch is resumed: the route's record says whether it
                   is aside now
    `wish`         what a person wants done with its uploads once it is abandoned; None if nobody said, or if it is done
    `wished_at`    when that was noted
    `wished_parts` for how many of its parts the wish is carried out
    `skips`        a person said to go on without the parts that are missing in the work bucket
    `unknown`      the names in its files that the schema lacks, with how many committed uploads have each
                   (`core.unknown`)
    `rows_removed` rows of it are not in its table any more, and it can never bring them again
    `sent_again`   all that it landed was sent again, because a rollback took it
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
    halted_at: int = 0
    aside_at: int = 0
    wish: Wish | None = None
    wished_at: int = 0
    wished_parts: int = 0
    skips: bool = False
    undecided: bool = False
    unknown: Mapping[str, int] = field(default_factory=dict)
    rows_removed: bool = False
    sent_again: bool = False


MAX_NOTICES = 50_000
"""The function that writes the manifest reads a record for each notice, within its timeout."""


LONGEST_OPEN = 24 * 60 * 60
"""Seconds. A batch that gathers behind a halted one is sealed after a day, even without a free slot: its manifest is
made from the notices' records, and these expire."""

CLOCKS = 60 * 60
"""Seconds by which the clock of a function, which makes a batch's id, may differ from another one."""


def oldest_remembered(now: int, retention: int) -> int:
    """The time (epoch seconds) from which on the ledger has each batch that it ever had: a batch that was made later
    cannot have expired, because it is kept for two days longer than `retention` after it has ended. An upload that the
    ledger remembers is in a batch that was made later, because a batch is made before its uploads come, by
    `LONGEST_OPEN` at most."""
    return now - retention - LONGEST_OPEN - CLOCKS


def is_full(batch: Batch, limits: BatchLimits) -> bool:
    return batch.bytes >= limits.target_bytes or batch.objects >= limits.target_objects or batch.notices >= MAX_NOTICES


def is_due(batch: Batch, limits: BatchLimits, *, now: int, slot_free: bool, next_look: int) -> bool:
    """Whether the open batch must be sealed now.

    A full batch is always sealed: it must not outgrow a job while it waits for a slot. A batch that is only older than
    `max_wait` is sealed if a job could start. Until then it gathers more uploads, so there are fewer jobs.
    `next_look` (seconds until the next check is sure to come) makes `max_wait` a bound, not an average.
    """
    if batch.state is not State.OPEN or not batch.notices:
        return False
    age = now - batch.opened_at
    return is_full(batch, limits) or (slot_free and age + next_look >= limits.max_wait) or age >= LONGEST_OPEN


LONGEST_RETRY_WAIT = 60 * 60
"""Seconds. Longer waits would only delay a batch after an outage that is over."""

MOST_TIMES = 30
"""How many times as long as the first wait the others become. With the default of 2 minutes that is an hour."""


def wait_before_next(attempt: int, limits: BatchLimits) -> int:
    """Seconds from the beginning of this attempt until the next one may begin: `retry_wait`, and four times as long
    after each further attempt, up to `MOST_TIMES`, and to an hour.

    With the default settings these are 2, 8, 32 and 60 minutes. So the five attempts outlive the outage of a service
    for an hour.
    """
    times: int = min(4 ** (attempt - 1), MOST_TIMES)
    return min(limits.retry_wait * times, LONGEST_RETRY_WAIT)


def next_attempt_from(batch: Batch, limits: BatchLimits) -> int | None:
    """The time (epoch seconds) from which on the next attempt may begin if the current one fails; None if the batch
    then halts."""
    if batch.attempt >= limits.attempts:
        return None
    return batch.submitted_at + wait_before_next(batch.attempt, limits)


def gives_way(batch: Batch, limits: BatchLimits, *, now: int) -> bool:
    """Whether a batch has been halted for so long that its route goes on without it.

    Only a submitted batch has a slot to give up. The slot saves money and nothing rests on it, so a wrong clock, or a
    setting that changes meanwhile, frees it too early or too late and does no other harm.
    """
    if batch.state is not State.SUBMITTED or not batch.halted:
        return False
    return now - batch.halted_at >= limits.step_aside


def job_name(route: str, batch_id: str, attempt: int) -> str:
    """What the job run of an attempt is called, for people."""
    return f"{route}-{batch_id}-{attempt}"


class JobState(Enum):
    """The state of a job run that EMR Serverless reports, as far as settling needs it."""

    ACTIVE = auto()
    ENDED = auto()
    UNKNOWN = auto()  # no such run, or none recorded


class Step(Enum):
    """What settling does next with a submitted batch."""

    WAIT = auto()
    SETTLE = auto()  # there is a receipt: record what the table decided
    HAND_OFF = auto()  # no job is recorded for the attempt: start it (again, under the same token)
    NEXT_ATTEMPT = auto()
    HALT = auto()


def next_step(
    batch: Batch,
    job: JobState,
    *,
    receipt: bool,
    hopeless: bool,
    limits: BatchLimits,
    now: int,
    stuck: bool = False,
) -> Step:
    """What to do with a batch that is SUBMITTED.

    The caller must read the job's state *before* the receipt. A job writes its receipt and then ends. In the other
    order, a job that does both between the two reads would appear to have ended without a receipt.
    `hopeless`: the attempt reported that another one could not succeed. `stuck`: it must not wait
    for its worker any longer (`core.workers.is_stuck`). `now` is in epoch seconds: the next attempt begins only after a
    while, because what failed this one may pass. What waiting cannot cure halts at once.
    """
    if receipt:
        return Step.SETTLE
    if batch.halted:
        return Step.WAIT
    if job is JobState.UNKNOWN:
        return Step.HAND_OFF
    begins = next_attempt_from(batch, limits)
    if job is JobState.ACTIVE and not stuck:
        return Step.WAIT
    if hopeless or begins is None:
        return Step.HALT
    return Step.NEXT_ATTEMPT if stuck or now >= begins else Step.WAIT

"""The functions, one row each, with everything in which they differ.

The stack, the alarms, the dashboard and the tests of permissions read these rows. The handler of a function is
`lambdas/<name>/app.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from infra.sizing import AUDIT_TIMEOUT, DISPATCH, INTAKE, MAINTAIN_TIMEOUT, MEMORY_MB, SETTLE_TIMEOUT, Source
from tidegate.schedule import AUDIT_SCHEDULE, MAINTAIN_SCHEDULE, SCHEDULE
from tidegate.settings import Settings


class FeedQueue(Enum):
    """The queues that can feed a function."""

    BUFFER = auto()
    NOTICES = auto()


class Event(Enum):
    """The events that can invoke a function, besides its queue or schedule."""

    JOB_ENDED = auto()
    BATCH_DECIDED = auto()


class May(Enum):
    """The permissions that a function can have, besides writing its log and reading its queue."""

    SET_NOTIFICATIONS_ASIDE = auto()
    SET_NOTICES_ASIDE = auto()
    PUBLISH_NOTICES = auto()
    USE_LEDGER = auto()
    CLAIM_UPLOADS = auto()
    QUERY_LEDGER = auto()
    USE_WORK = auto()
    START_JOBS = auto()
    ASK_FOR_JOBS = auto()
    LIST_UPLOADS = auto()
    CHANGE_LEDGER = auto()
    ANNOUNCE = auto()
    READ_SCREENINGS = auto()
    READ_LEDGER = auto()
    READ_FLOORS = auto()
    ASK_FOR_MAINTENANCE = auto()


@dataclass(frozen=True, slots=True)
class Feed:
    """Lambda reads the queue and gives the function its messages."""

    queue: FeedQueue
    source: Source

    @property
    def timeout(self) -> int:
        return self.source.timeout


@dataclass(frozen=True, slots=True)
class Schedule:
    """EventBridge invokes the function `every` so many seconds."""

    every: int
    timeout: int


@dataclass(frozen=True, slots=True)
class RosterRow:
    """One function.

    `concurrency` is the number of invocations at a time.
    """

    name: str
    started_by: Feed | Schedule
    concurrency: Callable[[Settings], int]
    may: tuple[May, ...]
    also_on: tuple[Event, ...] = ()
    memory: int = MEMORY_MB

    @property
    def construct(self) -> str:
        """The id of its construct. The logical ids of its resources begin with it."""
        return self.name.capitalize()


ROSTER = (
    RosterRow(
        name="intake",
        started_by=Feed(FeedQueue.BUFFER, INTAKE),
        concurrency=lambda settings: settings.concurrency,
        may=(May.SET_NOTIFICATIONS_ASIDE, May.PUBLISH_NOTICES),
    ),
    RosterRow(
        name="dispatch",
        started_by=Feed(FeedQueue.NOTICES, DISPATCH),
        concurrency=lambda settings: settings.concurrency,
        may=(
            *(May.SET_NOTICES_ASIDE, May.PUBLISH_NOTICES, May.USE_LEDGER, May.CLAIM_UPLOADS),
            # what is offered to workers, and who they are, is read together
            *(May.USE_WORK, May.START_JOBS, May.QUERY_LEDGER),
        ),
    ),
    RosterRow(
        name="settle",
        started_by=Schedule(SCHEDULE, SETTLE_TIMEOUT),
        also_on=(Event.JOB_ENDED, Event.BATCH_DECIDED),
        # the schedule and the events may invoke it at the same time
        concurrency=lambda limits: 2,
        may=(
            *(May.PUBLISH_NOTICES, May.USE_LEDGER, May.USE_WORK, May.START_JOBS),
            *(May.ASK_FOR_JOBS, May.QUERY_LEDGER, May.ANNOUNCE),
        ),
    ),
    RosterRow(
        name="audit",
        started_by=Schedule(AUDIT_SCHEDULE, AUDIT_TIMEOUT),
        concurrency=lambda limits: 1,
        may=(
            *(May.PUBLISH_NOTICES, May.CHANGE_LEDGER, May.LIST_UPLOADS, May.QUERY_LEDGER),
            *(May.START_JOBS, May.ASK_FOR_JOBS, May.READ_SCREENINGS),
        ),
    ),
    RosterRow(
        name="maintain",
        started_by=Schedule(MAINTAIN_SCHEDULE, MAINTAIN_TIMEOUT),
        concurrency=lambda limits: 1,
        may=(
            *(May.READ_LEDGER, May.QUERY_LEDGER, May.READ_FLOORS, May.ASK_FOR_MAINTENANCE),
            *(May.START_JOBS, May.ASK_FOR_JOBS),
        ),
    ),
)


def scheduled(every: int) -> list[RosterRow]:
    """The functions that run once in so many seconds."""
    return [row for row in ROSTER if isinstance(row.started_by, Schedule) and row.started_by.every == every]

"""The text of each alarm: what happened, what to do, and which section of docs/operations.md has more.

The table of that page has the same sentences. A test compares the two.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from infra.roster import ROSTER, RosterRow, Schedule
from tidegate.settings import DAY, HOUR, MINUTE

PAGE = "docs/operations.md"
UNITS = (("day", DAY), ("hour", HOUR), ("minute", MINUTE))


@dataclass(frozen=True, slots=True)
class Advice:
    """The sentences of one alarm, which is named DEPLOYMENT-`name`, or DEPLOYMENT-`name`-ROUTE. `shared` is its section
    of the page, if that is not its own."""

    name: str
    happened: str
    act: str
    shared: str = ""

    @property
    def anchor(self) -> str:
        return self.shared or self.name

    @property
    def text(self) -> str:
        return f"{self.happened} {self.act} {PAGE}#{self.anchor}"


LOOKS = 5
"""A function is silent when it has missed this many scheduled runs in a row."""


def silent(rows: Sequence[RosterRow], schedules: Sequence[Schedule]) -> Advice:
    """Of the functions whose schedules are equally long."""
    (every,) = {schedule.every for schedule in schedules}
    names = [row.name for row in rows]
    missed = "; or ".join(schedule.missed for schedule in schedules)
    return Advice(
        f"{'-or-'.join(names)}-silent",
        f"{' or '.join(names)} has not run for {_in_words(LOOKS * every)}: {missed}.",
        f"Check {'its schedule' if len(rows) == 1 else 'their schedules'}, and whether"
        f" {'it is' if len(rows) == 1 else 'they are'} throttled.",
        "function-silent",
    )


def _in_words(seconds: int) -> str:
    unit, length = next((unit, length) for unit, length in UNITS if seconds % length == 0)
    count = seconds // length
    return f"{'five' if count == 5 else count} {unit}s"


def scheduled() -> Iterator[tuple[int, Sequence[RosterRow], Sequence[Schedule]]]:
    """The functions that run by a schedule, by its length in seconds: one alarm watches those of equal length."""
    of_all = [(row, row.started_by) for row in ROSTER if isinstance(row.started_by, Schedule)]
    for every in dict.fromkeys(schedule.every for _, schedule in of_all):
        found = [(row, schedule) for row, schedule in of_all if schedule.every == every]
        yield every, [row for row, _ in found], [schedule for _, schedule in found]


class Alarm(Enum):
    """Every alarm, except those on silent functions."""

    FUNCTION_ERRORS = Advice(
        "function-errors",
        "A function raised an unexpected error, or timed out. What it was doing is done again.",
        "The dashboard shows which function. Read its log.",
    )
    FUNCTION_THROTTLED = Advice(
        "function-throttled",
        "Lambda has throttled functions for a quarter of an hour.",
        "The dashboard shows which. Raise the account's quota, or the `lanes` of a route.",
    )
    MESSAGES_STUCK = Advice(
        "messages-stuck",
        "A message is still in its queue after two deliveries. Behind a notice, no other of its route is delivered.",
        "The dashboard shows which queue. Read its function's log.",
    )
    DEAD_LETTERS = Advice(
        "dead-letters",
        "Notifications or notices failed too often, or could not be read. Their uploads have not landed.",
        "Read their `reason`, remove the cause, run `tidegate redrive dead-letters` before they expire.",
    )
    SETTLING_TROUBLES = Advice(
        "settling-troubles",
        "settle keeps failing with errors that do not pass by themselves.",
        "Find the message of settle's log in the runbook.",
    )
    BATCHES_UNANNOUNCED = Advice(
        "batches-unannounced",
        "Committed batches have waited for the event bus for a quarter of an hour.",
        "Read the log of settle. The bus may be gone, or refuse events.",
    )
    UPLOADS_OF_NO_ROUTE = Advice(
        "uploads-of-no-route",
        "S3 announced uploads that no route takes. Their rows do not land.",
        "The log of intake has an example. Correct a route, or add their place to `ignore`.",
    )
    BATCH_LATE = Advice(
        "batch-late",
        "A batch is older than `max_wait`, a minute and two hours.",
        "`tidegate status` shows its state. Read the log of settle, or of its job.",
    )
    BATCH_HALTED = Advice(
        "batch-halted",
        "A batch has halted. No job starts for it until a person acts.",
        "`tidegate status` shows the reason. Remove it, then resume or abort the batch.",
    )
    ATTEMPTS_FAILED = Advice(
        "attempts-failed",
        "A job ended without a receipt. Another attempt of the batch begins.",
        "Read `failures/` of the batch in the work bucket before it halts.",
    )
    UPLOADS_QUARANTINED = Advice(
        "uploads-quarantined",
        "Files could not be decoded, or are too large. None of their rows landed.",
        "Find the errors, correct the files, upload them again.",
    )
    UPLOADS_LOST = Advice(
        "uploads-lost",
        "The audit found uploads that no notice would bring, and sent them.",
        "Find out why S3 did not announce them, or their notices did not register.",
    )
    TABLES_NOT_MAINTAINED = Advice(
        "tables-not-maintained",
        "The job that maintains the tables failed, or could not finish some of them. They grow.",
        "Read the log of maintain, remove the cause, run `tidegate maintain`.",
    )
    NOTHING_RECEIVED = Advice(
        "nothing-received",
        "Nothing was uploaded to this route for longer than its `expect_every`.",
        "Ask the uploader. If files were uploaded, check the bucket's notifications and the route's prefix.",
    )


EVERY = (
    *(silent(rows, schedules) for _, rows, schedules in scheduled()),
    *(alarm.value for alarm in Alarm),
)
"""All of them, in the order of the page."""

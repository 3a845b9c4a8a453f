"""The text of each alarm: what happened, what to do, and which section of docs/operations.md has more.

The table of that page has the same sentences. A test compares the two. Of the alarms that every function has, those of
one kind share a section.
"""

from dataclasses import dataclass
from enum import Enum

from infra.roster import ROSTER, RosterRow, Schedule
from tidegate.settings import DAY, HOUR, MINUTE

PAGE = "docs/operations.md"
UNITS = (("day", DAY), ("hour", HOUR), ("minute", MINUTE))


@dataclass(frozen=True, slots=True)
class Advice:
    """The sentences of one alarm.

    The alarm is named DEPLOYMENT-`name` or DEPLOYMENT-`name`-ROUTE. `shared` is its section of the page, if
    that is not its own.
    """

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


def errors(row: RosterRow) -> Advice:
    return Advice(
        f"{row.name}-errors",
        f"{row.name} raised an unexpected error, or timed out. {row.meanwhile}",
        f"Read the log of {row.name}.",
        "function-errors",
    )


def throttled(row: RosterRow) -> Advice:
    return Advice(
        f"{row.name}-throttled",
        f"Lambda has throttled {row.name} for a quarter of an hour.",
        "Raise the limit of its concurrency: in `[limits]`, or the account's quota, which other functions use too.",
        "function-throttled",
    )


def silent(row: RosterRow, schedule: Schedule) -> Advice:
    return Advice(
        f"{row.name}-silent",
        f"{row.name} has not run for {_in_words(LOOKS * schedule.every)}: {schedule.missed}.",
        "Check whether its schedule is enabled, and whether it is throttled.",
        "function-silent",
    )


def _in_words(seconds: int) -> str:
    unit, length = next((unit, length) for unit, length in UNITS if seconds % length == 0)
    count = seconds // length
    return f"{'five' if count == 5 else count} {unit}s"


class Alarm(Enum):
    """Every alarm, except those that each function has."""

    BUFFER_STUCK = Advice(
        "buffer-stuck",
        "A notification from S3 is still in the buffer after two deliveries to intake.",
        "Read the log of intake. The topic may refuse notices, or intake may be throttled.",
    )
    NOTICES_STUCK = Advice(
        "notices-stuck",
        "A notice is still in its queue after two deliveries to dispatch. No other notice of its route is delivered.",
        "Read the log of dispatch. The ledger or the work bucket may refuse it.",
    )
    BUFFER_DEAD_LETTERS = Advice(
        "buffer-dead-letters",
        "Notifications from S3 failed too often, or could not be parsed. The uploads that they name have not landed.",
        "Read their `reason`, remove the cause, and run `tidegate redrive dead-letters` before they expire.",
    )
    NOTICES_DEAD_LETTERS = Advice(
        "notices-dead-letters",
        "Notices failed too often, have no known route, or could not be delivered. Their uploads have not landed.",
        "Read their `reason`, remove the cause, and run `tidegate redrive dead-letters` before they expire.",
    )
    SETTLING_TROUBLES = Advice(
        "settling-troubles",
        "settle keeps failing with errors that do not pass by themselves.",
        "Read the log of settle, and find the message in the runbook.",
    )
    BATCHES_UNANNOUNCED = Advice(
        "batches-unannounced",
        "Batches are committed, and the event bus has not been told for a quarter of an hour.",
        "Read the log of settle. The bus may be gone, or refuse the events.",
    )
    RECORDS_SET_ASIDE = Advice(
        "records-set-aside",
        "Records of notifications could not be parsed. They are in the buffer's dead-letter queue.",
        "Read their `reason`, and find out who sends them.",
    )
    ROUTE_NOT_CONFIGURED = Advice(
        "route-not-configured",
        "A route was removed from the configuration, but has unfinished batches.",
        "`tidegate status` shows them. They end by themselves if the job may still read their files and write their"
        " table. If it may not, put the route back with `retired = true`, and deploy.",
    )
    UPLOADS_OF_NO_ROUTE = Advice(
        "uploads-of-no-route",
        "S3 announced uploads that no route takes. Their rows do not land.",
        "The log of intake has an example. Correct a route and upload the files again, or add their bucket and prefix"
        " to `ignore` in `[operations]`.",
    )
    BATCH_PENDING = Advice(
        "batch-pending",
        "A batch of this route has been pending longer than `max_wait` plus two jobs.",
        "`tidegate status` shows its state. Then read the log of settle, or of its job.",
    )
    BATCH_HALTED = Advice(
        "batch-halted",
        "A batch of this route has halted. No job starts for it until a person acts.",
        "`tidegate status` shows the reason. Remove the cause, then resume or abort the batch.",
    )
    BATCH_STILL_HALTED = Advice(
        "batch-still-halted",
        "Batches of this route have been halted for an hour.",
        "`tidegate status` shows which. Remove the cause, then resume or abort them.",
        "batch-halted",
    )
    ATTEMPTS_FAILED = Advice(
        "attempts-failed",
        "A job of this route ended without a receipt. Another attempt of the batch begins.",
        "Read `failures/` of the batch in the work bucket before the attempts are used up.",
    )
    HAND_OFFS_FAILED = Advice(
        "hand-offs-failed",
        "dispatch could not seal or hand off batches of this route. settle tries again every minute.",
        "Read the log of dispatch, and find the message in the runbook.",
    )
    UPLOADS_QUARANTINED = Advice(
        "uploads-quarantined",
        "Files of this route could not be decoded, or are too large. None of their rows landed.",
        "Find the errors, correct the files, and upload them again.",
    )
    UPLOADS_LOST = Advice(
        "uploads-lost",
        "The audit found uploads of this route that no notice would bring, and sent them.",
        "Find out why S3 did not announce them, or why their notices never registered.",
    )
    TABLES_NOT_MAINTAINED = Advice(
        "tables-not-maintained",
        "The job that maintains the tables failed, or could not finish some of them. They grow.",
        "Read the log of maintain for the reason, remove it, and run `tidegate maintain`.",
    )
    NOTHING_RECEIVED = Advice(
        "nothing-received",
        "Nothing was uploaded to this route for longer than its `expect_every`.",
        "Ask the uploader. If files were uploaded, check the bucket's notifications and the route's prefix and suffix.",
    )


EVERY = (
    *(errors(row) for row in ROSTER),
    *(throttled(row) for row in ROSTER),
    *(silent(row, row.started_by) for row in ROSTER if isinstance(row.started_by, Schedule)),
    *(alarm.value for alarm in Alarm),
)
"""All of them, in the order of the page."""

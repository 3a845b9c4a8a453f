"""The text of each alarm: what happened, what to do, and which section of docs/operations.md has more.

The table of that page has the same sentences. A test compares the two.
"""

from dataclasses import dataclass
from enum import Enum

PAGE = "docs/operations.md"


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


class Alarm(Enum):
    """Every alarm, in the order of the page. Causes that are as urgent, and begin with the same look, share one."""

    SETTLE_SILENT = Advice(
        "settle-silent",
        "settle has not run for five minutes: no batch is sealed by age, handed off or settled.",
        "Check its schedule, and whether it is throttled.",
        "function-silent",
    )
    AUDIT_OR_MAINTAIN_SILENT = Advice(
        "audit-or-maintain-silent",
        "audit or maintain has not run for five hours: uploads that S3 did not announce are not found; or the tables"
        " are not maintained.",
        "The dashboard shows which. Check its schedule, and whether it is throttled.",
        "function-silent",
    )
    FUNCTION_ERRORS = Advice(
        "function-errors",
        "A function raised an unexpected error, or timed out. What it was doing is done again.",
        "The dashboard shows which function. Read its log.",
    )
    MESSAGES_STUCK = Advice(
        "messages-stuck",
        "A message is still in its queue after two deliveries. Behind a notice, no other of its route is delivered.",
        "The dashboard shows which queue, and whether its function is throttled. Read the function's log.",
    )
    DEAD_LETTERS = Advice(
        "dead-letters",
        "Notifications or notices failed too often, or could not be read. Their uploads have not landed.",
        "Read their `reason`, remove the cause, run `tidegate resend dead-letters` before they expire.",
    )
    SETTLING_TROUBLES = Advice(
        "settling-troubles",
        "settle keeps failing with errors that do not pass by themselves; or committed batches have waited for the"
        " event bus for a quarter of an hour.",
        "`tidegate status` shows what waits to be announced. Find the message of settle's log in the runbook.",
    )
    UPLOADS_MISSED = Advice(
        "uploads-missed",
        "S3 announced uploads that no route takes; or the audit found uploads that no notice would bring, and sent"
        " them.",
        "The dashboard shows which of the two. The log of intake or audit names uploads: correct a route, or the"
        " bucket's notifications.",
    )
    TABLES_NOT_MAINTAINED = Advice(
        "tables-not-maintained",
        "The job that maintains the tables failed, or could not finish some of them. They grow.",
        "Read the log of maintain, remove the cause, run `tidegate maintain`.",
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
    UPLOADS_QUARANTINED = Advice(
        "uploads-quarantined",
        "Files have been in quarantine for two hours: they could not be decoded, or are too large. None of their rows"
        " landed.",
        "Find the errors, correct the files and upload them again, or give them up.",
    )
    NOTHING_RECEIVED = Advice(
        "nothing-received",
        "Nothing was uploaded to this route for longer than its `expect_every`.",
        "Ask the uploader. If files were uploaded, check the bucket's notifications and the route's prefix.",
    )


EVERY = tuple(alarm.value for alarm in Alarm)

"""What each alarm says to whoever it wakes: what happened, what to do, and where docs/operations.md says more.

The same sentences stand in the alarm itself and in the table of that page; a test holds the two together.
"""

from dataclasses import dataclass
from enum import Enum

PAGE = "docs/operations.md"


@dataclass(frozen=True, slots=True)
class Advice:
    """`anchor` is the heading of the page that says more."""

    happened: str
    act: str
    anchor: str

    @property
    def text(self) -> str:
        return f"{self.happened} {self.act} {PAGE}#{self.anchor}"


def _errors(function: str, meanwhile: str) -> Advice:
    return Advice(
        f"{function} raised an error that nobody foresaw, or ran out of time. {meanwhile}",
        f"Read the log of {function}.",
        "where-to-look",
    )


def _throttled(function: str) -> Advice:
    return Advice(
        f"Lambda has refused for a quarter of an hour to run {function} as often as there was work for it.",
        "Raise what bounds its concurrency: `[limits]`, or the account's quota, which other functions use too.",
        "alarms",
    )


class Alarm(Enum):
    """Every alarm there is; the value is the middle of its name, DEPLOYMENT-alarm or DEPLOYMENT-alarm-ROUTE."""

    BUFFER_STUCK = "buffer-stuck"
    NOTICES_STUCK = "notices-stuck"
    BUFFER_DEAD_LETTERS = "buffer-dead-letters"
    NOTICES_DEAD_LETTERS = "notices-dead-letters"
    INTAKE_ERRORS = "intake-errors"
    DISPATCH_ERRORS = "dispatch-errors"
    SETTLE_ERRORS = "settle-errors"
    INTAKE_THROTTLED = "intake-throttled"
    DISPATCH_THROTTLED = "dispatch-throttled"
    SETTLE_THROTTLED = "settle-throttled"
    SETTLE_SILENT = "settle-silent"
    SETTLING_TROUBLES = "settling-troubles"
    RECORDS_SET_ASIDE = "records-set-aside"
    ROUTE_NOT_CONFIGURED = "route-not-configured"
    UPLOADS_OF_NO_ROUTE = "uploads-of-no-route"
    BATCH_PENDING = "batch-pending"
    BATCH_HALTED = "batch-halted"
    ATTEMPTS_FAILED = "attempts-failed"
    HAND_OFFS_FAILED = "hand-offs-failed"
    UPLOADS_QUARANTINED = "uploads-quarantined"
    UPLOADS_LOST = "uploads-lost"
    NOTHING_RECEIVED = "nothing-received"

    @property
    def advice(self) -> Advice:
        return ADVICE[self]


ADVICE = {
    Alarm.BUFFER_STUCK: Advice(
        "A notification of S3 is still in the buffer after two deliveries to intake.",
        "Read the log of intake: the topic may refuse notices, or intake may be throttled.",
        "queues-and-dead-letters",
    ),
    Alarm.NOTICES_STUCK: Advice(
        "A notice is still in its queue after two deliveries to dispatch; nothing else of its route is delivered.",
        "Read the log of dispatch: the ledger or the work bucket may refuse it.",
        "queues-and-dead-letters",
    ),
    Alarm.BUFFER_DEAD_LETTERS: Advice(
        "Notifications of S3 were given up or could not be understood; uploads that they name have not landed.",
        "Read their `reason`, remove the cause, and move them back to the buffer before they expire.",
        "queues-and-dead-letters",
    ),
    Alarm.NOTICES_DEAD_LETTERS: Advice(
        "Notices were given up, are of no known route, or could not be delivered; their uploads have not landed.",
        "Read their `reason`, remove the cause, and move them back to the queue of notices before they expire.",
        "queues-and-dead-letters",
    ),
    Alarm.INTAKE_ERRORS: _errors("intake", "Its notifications come again."),
    Alarm.DISPATCH_ERRORS: _errors("dispatch", "Its notices come again."),
    Alarm.SETTLE_ERRORS: _errors("settle", "It looks again within a minute."),
    Alarm.INTAKE_THROTTLED: _throttled("intake"),
    Alarm.DISPATCH_THROTTLED: _throttled("dispatch"),
    Alarm.SETTLE_THROTTLED: _throttled("settle"),
    Alarm.SETTLE_SILENT: Advice(
        "settle has not run for five minutes: no batch is sealed by age, handed off or settled.",
        "See whether its schedule is enabled and whether it is throttled.",
        "alarms",
    ),
    Alarm.SETTLING_TROUBLES: Advice(
        "Settling keeps meeting trouble that does not pass by itself.",
        "Read the log of settle and look the message up.",
        "trouble-that-does-not-halt-a-batch",
    ),
    Alarm.RECORDS_SET_ASIDE: Advice(
        "Records of notifications could not be understood and are among the buffer's dead letters.",
        "Read their `reason`; find out who sends them.",
        "queues-and-dead-letters",
    ),
    Alarm.ROUTE_NOT_CONFIGURED: Advice(
        "A route was taken out of the configuration while batches of it were under way.",
        "`tidegate status` shows them. They end by themselves, if the job may still read their files and write their"
        " table; else put the route back with `retired = true` and deploy.",
        "changes",
    ),
    Alarm.UPLOADS_OF_NO_ROUTE: Advice(
        "Uploads were announced that no route takes; their rows land nowhere.",
        "The log of intake has an example. Correct a route and upload them again, or list their place under `ignore`"
        " in `[operations]`.",
        "where-to-look",
    ),
    Alarm.BATCH_PENDING: Advice(
        "A batch of this route is older than its wait, a job before it and its own job explain.",
        "See with `tidegate status` where it stands; then read the log of settle, or that of its job.",
        "where-to-look",
    ),
    Alarm.BATCH_HALTED: Advice(
        "A batch of this route has halted: no job is started for it until a person acts.",
        "`tidegate status` gives the reason; remove the cause, then resume or abort the batch.",
        "a-halted-batch",
    ),
    Alarm.ATTEMPTS_FAILED: Advice(
        "A job of this route ended without a receipt; the batch goes on with its next attempt.",
        "Read `failures/` of the batch in the work bucket before the attempts are used up.",
        "reasons-for-which-another-attempt-is-made",
    ),
    Alarm.HAND_OFFS_FAILED: Advice(
        "dispatch could not seal or hand off batches of this route; the schedule tries again every minute.",
        "Read the log of dispatch and look the message up.",
        "trouble-that-does-not-halt-a-batch",
    ),
    Alarm.UPLOADS_QUARANTINED: Advice(
        "Files of this route could not be decoded, or are too large; none of their rows landed.",
        "Find their errors, then upload them corrected.",
        "quarantine",
    ),
    Alarm.UPLOADS_LOST: Advice(
        "The audit found uploads of this route that the ledger does not know, and sent them on.",
        "Find out why they were never notified: the bucket's notifications, the policy of the buffer.",
        "alarms",
    ),
    Alarm.NOTHING_RECEIVED: Advice(
        "Nothing was uploaded to this route for longer than its `expect_every`.",
        "Ask whoever uploads; if they did, look at the bucket's notifications and the route's prefix and suffix.",
        "alarms",
    ),
}

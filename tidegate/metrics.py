"""The metrics that Tidegate writes: the name in CloudWatch, the unit and dimensions, and the meaning.

The functions write them. The alarms and the dashboard read them. docs/metrics.md lists them.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum

NAMESPACE = "Tidegate"

BY_DEPLOYMENT = ("deployment",)
BY_ROUTE = ("deployment", "route")
"""The dimensions of a metric. None names the function that wrote it: CloudWatch does not add up over dimensions, and
dispatch and settle count some of the same things. Each has the deployment, because an account may have several
deployments, with routes of the same names."""


class Unit(StrEnum):
    """The unit of a metric, as CloudWatch names it."""

    COUNT = "Count"
    SECONDS = "Seconds"


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric.

    A counter is written when something happens; `meaning` is what. A gauge is written at each run of settle, zero too;
    `meaning` is its value.
    """

    name: str
    meaning: str
    by: tuple[str, ...] = BY_ROUTE
    unit: Unit = Unit.COUNT
    gauge: bool = False

    def dimensions(self, deployment: str, route: str) -> dict[str, str]:
        """The dimensions with their values. `route` is empty for a metric that is measured by deployment alone. Raises
        ValueError if `route` does not fit the metric."""
        if bool(route) is not (self.by == BY_ROUTE):
            raise ValueError(f"{self.name} is measured by {' and '.join(self.by)}, not for the route {route!r}")
        return {"deployment": deployment} | ({"route": route} if route else {})


class Metric(Enum):
    """Every metric."""

    UPLOADS_NOTIFIED = Measured("UploadsNotified", "the topic accepted a notice; repeats included")
    UPLOADS_OF_NO_ROUTE = Measured("UploadsOfNoRoute", "S3 announced an object that no route takes", BY_DEPLOYMENT)
    UPLOADS_IGNORED = Measured("UploadsIgnored", "the same, in a place that `ignore` lists", BY_DEPLOYMENT)
    RECORDS_NOT_UPLOADS = Measured(
        "RecordsNotUploads", "S3 announced no upload: its test event, or a console's folder", BY_DEPLOYMENT
    )
    RECORDS_SET_ASIDE = Measured("RecordsSetAside", "a record could not be parsed", BY_DEPLOYMENT)
    UPLOADS_REGISTERED = Measured("UploadsRegistered", "a notice joined a batch")
    DUPLICATES_REFUSED = Measured("DuplicatesRefused", "uploads were claimed already")
    UPLOADS_AGAIN = Measured(
        "UploadsAgain", "uploads were sent again: they had ended without a row, or their notice is void"
    )
    NOTICES_VOID = Measured("NoticesVoid", "a void notice was delivered")
    BATCHES_SEALED = Measured("BatchesSealed", "a batch was sealed")
    JOBS_STARTED = Measured("JobsStarted", "an attempt's job was started, or found started")
    ATTEMPTS_FAILED = Measured("AttemptsFailed", "a job ended without a receipt, and another attempt begins")
    BATCHES_HALTED = Measured("BatchesHalted", "a batch halted")
    BATCHES_COMMITTED = Measured("BatchesCommitted", "settling recorded that a batch is in the table")
    BATCHES_ABANDONED = Measured("BatchesAbandoned", "settling recorded that a batch is fenced")
    SETTLED_COMMITTED = Measured("SettledCommitted", "settling recorded uploads that are in the table")
    SETTLED_QUARANTINED = Measured("SettledQuarantined", "uploads that are quarantined")
    SETTLED_SUPERSEDED = Measured("SettledSuperseded", "uploads that were superseded")
    SETTLED_VANISHED = Measured("SettledVanished", "uploads that had vanished")
    SETTLED_ROWS = Measured("SettledRows", "rows that are in the table")
    SETTLED_REJECTED = Measured("SettledRejected", "rows that are in the table of rejected rows")
    BATCHES_SLOW = Measured("BatchesSlow", "a batch that Spark wrote, only for a setting of its table")
    UNKNOWN_COLUMNS = Measured("UnknownColumns", "uploads with columns that the schema lacks")
    UPLOADS_DROPPED = Measured("UploadsDropped", "uploads of abandoned batches that were given up")
    HAND_OFFS_FAILED = Measured("HandOffsFailed", "dispatch could not seal or hand off; settle tries again")
    SETTLING_TROUBLES = Measured(
        "SettlingTroubles", "settling met an error, not of the event bus; it tries again", BY_DEPLOYMENT
    )
    UPLOADS_FOUND_LOST = Measured("UploadsFoundLost", "the audit found lost uploads, and sent them", BY_DEPLOYMENT)
    TABLES_NOT_MAINTAINED = Measured(
        "TablesNotMaintained",
        "tables that a period's maintenance could not finish, or was behind with in three runs; 1 if its job failed",
        BY_DEPLOYMENT,
    )
    TABLES_BEHIND = Measured(
        "TablesBehind", "tables that it left too large: more is to be done, or nothing may expire", BY_DEPLOYMENT
    )
    OLDEST_PENDING_SECONDS = Measured(
        "OldestPendingSeconds",
        "the age of the oldest unfinished batch, or 0; not of one that stepped aside, or gathers in a paused route",
        unit=Unit.SECONDS,
        gauge=True,
    )
    LATE_NOW = Measured(
        "LateNow",
        "how many of such batches are older than `max_wait`, a minute and two hours",
        gauge=True,
    )
    HALTED_NOW = Measured("HaltedNow", "halted batches", gauge=True)
    QUARANTINED_NOW = Measured(
        "QuarantinedNow",
        "uploads in quarantine, also those that the ledger has forgotten",
        gauge=True,
    )
    OLDEST_QUARANTINED_SECONDS = Measured(
        "OldestQuarantinedSeconds",
        "how long the oldest has been there, or 0",
        unit=Unit.SECONDS,
        gauge=True,
    )
    UNCONFIGURED_NOW = Measured(
        "UnconfiguredNow",
        "unfinished batches of routes that are not in the configuration",
        BY_DEPLOYMENT,
        gauge=True,
    )
    OLDEST_UNANNOUNCED_SECONDS = Measured(
        "OldestUnannouncedSeconds",
        "how long the oldest committed batch has waited to be announced, or 0",
        BY_DEPLOYMENT,
        unit=Unit.SECONDS,
        gauge=True,
    )

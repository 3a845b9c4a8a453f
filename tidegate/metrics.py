"""The metrics that Tidegate writes: the name in CloudWatch, the unit and dimensions, and the meaning.

The functions write them. The alarms and the dashboard read them. docs/operations.md lists them.
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
    UPLOADS_OF_NO_ROUTE = Measured(
        "UploadsOfNoRoute", "a notification names an object that no route takes", BY_DEPLOYMENT
    )
    UPLOADS_IGNORED = Measured(
        "UploadsIgnored",
        "a notification names an object that no route takes, in a place that `ignore` under `[operations]` lists",
        BY_DEPLOYMENT,
    )
    RECORDS_NOT_UPLOADS = Measured(
        "RecordsNotUploads",
        "a record announces something else: S3's test event, or the empty object that a console makes for a folder",
        BY_DEPLOYMENT,
    )
    RECORDS_SET_ASIDE = Measured("RecordsSetAside", "a record could not be parsed", BY_DEPLOYMENT)
    UPLOADS_REGISTERED = Measured("UploadsRegistered", "a notice joined a batch")
    DUPLICATES_REFUSED = Measured("DuplicatesRefused", "uploads were claimed already")
    UPLOADS_AGAIN = Measured(
        "UploadsAgain",
        "uploads were sent again: their same bytes had ended without a row, or their notice is void",
    )
    NOTICES_VOID = Measured("NoticesVoid", "a notice was delivered after it had been voided")
    BATCHES_SEALED = Measured("BatchesSealed", "a batch was sealed")
    JOBS_STARTED = Measured("JobsStarted", "an attempt's job was started, or found started")
    ATTEMPTS_FAILED = Measured(
        "AttemptsFailed", "a job ended without a receipt, and another attempt begins; not counted before that"
    )
    BATCHES_HALTED = Measured("BatchesHalted", "a batch halted: nothing more is started for it until a person acts")
    BATCHES_COMMITTED = Measured("BatchesCommitted", "settling recorded that a batch is in the table")
    BATCHES_ABANDONED = Measured("BatchesAbandoned", "settling recorded that a batch is fenced")
    SETTLED_COMMITTED = Measured("SettledCommitted", "settling recorded that uploads are in the table")
    SETTLED_QUARANTINED = Measured("SettledQuarantined", "settling recorded that uploads are quarantined")
    SETTLED_SUPERSEDED = Measured("SettledSuperseded", "settling recorded that uploads were superseded")
    SETTLED_VANISHED = Measured("SettledVanished", "settling recorded that uploads had vanished")
    SETTLED_ROWS = Measured("SettledRows", "settling recorded that rows are in the table")
    SETTLED_REJECTED = Measured(
        "SettledRejected", "settling recorded that rows do not fit, and are in the table of rejected rows"
    )
    UNKNOWN_COLUMNS = Measured(
        "UnknownColumns", "settling recorded that uploads are in the table which have columns that the schema lacks"
    )
    UPLOADS_DROPPED = Measured("UploadsDropped", "settling recorded that abandoned uploads were given up for good")
    HAND_OFFS_FAILED = Measured("HandOffsFailed", "dispatch could not seal or hand off; settle tries again")
    SETTLING_TROUBLES = Measured(
        "SettlingTroubles", "settling met an error, but for those of the event bus; it tries again", BY_DEPLOYMENT
    )
    UPLOADS_FOUND_LOST = Measured("UploadsFoundLost", "the audit found lost uploads, and sent them")
    TABLES_NOT_MAINTAINED = Measured(
        "TablesNotMaintained",
        "tables that the maintenance of a period could not finish, or that its last three runs left behind; 1 if its"
        " job failed",
        BY_DEPLOYMENT,
    )
    TABLES_BEHIND = Measured(
        "TablesBehind",
        "tables that the maintenance of a period left larger than they should be: more is to be done, or nothing may"
        " expire",
        BY_DEPLOYMENT,
    )
    OLDEST_PENDING_SECONDS = Measured(
        "OldestPendingSeconds",
        "the age of the route's oldest unfinished batch, 0 if there is none; without those that wait for a person:"
        " what is aside, and what gathers while the route is paused",
        unit=Unit.SECONDS,
        gauge=True,
    )
    HALTED_NOW = Measured("HaltedNow", "the number of halted batches of the route", gauge=True)
    QUARANTINED_NOW = Measured(
        "QuarantinedNow",
        "the number of uploads of the route that ended in quarantine and did not come back",
        gauge=True,
    )
    OLDEST_QUARANTINED_SECONDS = Measured(
        "OldestQuarantinedSeconds",
        "for how long the oldest upload in quarantine has been there, 0 if there is none",
        unit=Unit.SECONDS,
        gauge=True,
    )
    UNCONFIGURED_NOW = Measured(
        "UnconfiguredNow",
        "the number of unfinished batches of routes that are not in the configuration",
        BY_DEPLOYMENT,
        gauge=True,
    )
    OLDEST_UNANNOUNCED_SECONDS = Measured(
        "OldestUnannouncedSeconds",
        "how long the oldest batch that is committed and not announced has been waiting, 0 if there is none",
        BY_DEPLOYMENT,
        unit=Unit.SECONDS,
        gauge=True,
    )

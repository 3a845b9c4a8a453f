"""The conditions of a world: how AWS behaves, how Tidegate is configured, who else acts.

A knob is no fault: it holds for the whole run, and sets how often something happens. It allows only what AWS's
documents allow AWS, or our documents allow a person, so no promise may depend on it. A run prints the knobs that differ
from a plain world.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any


@dataclass(frozen=True)
class Knobs:
    """The defaults are a plain world. Shares are between 0 and 1, times in seconds."""

    # ---- how AWS behaves
    latency: tuple[float, ...] = (0.005,)
    """How long a request, or its answer, may travel, in seconds."""
    delivery: tuple[float, ...] = (0.05,)
    """How long the topic takes to deliver, in seconds."""
    startup: tuple[float, ...] = (40.0,)
    """How long a job waits for its driver, in seconds."""
    missed_looks: float = 0.0
    """How often the schedule misses a minute."""
    unordered: bool = False
    """The notices' queue is no FIFO queue: it keeps no order, drops no repeat, and feeds four dispatchers at once."""
    behind: float = 0.0
    """How old the answer to a read of the ledger without `ConsistentRead` may be, in seconds."""
    held_back: float = 0.0
    """How often BatchGetItem leaves keys unprocessed."""
    failed_inserts: float = 0.0
    """How often one statement of several fails by itself, carried out or not."""
    page: int = 0
    """The number of keys or items in a page of a listing or a query; 0 for all."""
    refused_notices: float = 0.0
    """How often the topic accepts one message of a batch and refuses the next."""
    conflicts: float = 0.0
    """How often a conditional put conflicts with another one and is refused with 409."""
    forgotten_tokens: float = 0.0
    """How often DynamoDB or EMR has forgotten a token."""
    twins: float = 0.0
    """How often a job run has two drivers."""
    cancelled: float = 0.0
    """How often a job run is cancelled, or ended by its timeout."""
    outlived: bool = False
    """The drivers of cancelled runs go on."""
    forgotten_runs: float = 0.0
    """How often EMR has forgotten a job run that has ended."""
    skew: tuple[float, ...] = (0.0,)
    """By how many seconds the clocks of functions and drivers may be wrong."""
    expiry_at_once: bool = False
    """TTL deletes expired items within a minute; else never."""
    suspended: bool = False
    """Somebody suspends the versioning of the landing bucket for a while."""
    refused_objects: float = 0.0
    """For how many seconds the KMS key of some objects is disabled."""
    closed_bucket: str = ""
    """The error code with which S3 refuses every request to the second unversioned bucket, for hours."""

    # ---- how Tidegate is configured
    in_flight: int = 1
    """The setting: how many batches of a route may be submitted at once."""
    attempts: int = 3
    """The setting: how many jobs a batch may use up before it halts. Less than the default, so that batches do halt."""
    max_wait: int = 60
    """The setting: how long a batch gathers, in seconds."""
    step_aside: float = 0.0
    """The setting: how long a halted batch keeps its slot, in seconds. Without it, until a person acts."""
    one_table: bool = False
    """The first two routes write to one table."""
    small: bool = False
    """Notices, portions of endings and runs of settling take a few uploads only."""
    two_versions: bool = False
    """For some minutes half of the invocations have another configuration."""
    announced: bool = False
    """The setting: committed batches are announced, and a consumer counts the rows."""
    audit: float = 0.0
    """The setting: how old an upload, or a claim without a decision, must be before an audit takes it for lost, in
    seconds. Without it, no audit runs."""

    linger: int = 0
    """The setting: how long a job waits for a further batch, in seconds. Without it, each batch has a job."""
    screened: bool = False
    """The setting: a job screens the buckets for each audit, from an inventory."""
    lanes: int = 1
    """The setting of the first route: over how many message groups its notices are spread."""
    inserted: bool = False
    """All claims of a notice are inserted together, however few. Without it only notices of five uploads and more."""

    # ---- who else acts
    foreign: int = 0
    """How many times somebody else commits to a table: appends, compacts, expires, changes the schema, rolls back."""
    aborts: int = 0
    """How many times a person gives up every unfinished batch, whatever its state."""
    resumes: int = 0
    """How many times a person resumes halted batches and moves dead letters back while other work goes on."""
    audits: int = 0
    """How many times a person audits the buckets while other work goes on, in a world with an audit."""
    backfills: int = 0
    """How many times a person backfills the buckets while other work goes on. Then the person on call does so at the
    end."""
    cut: float = 0.0
    """How often a table loses its history while a driver works on it."""
    cut_undone: bool = False
    """That history comes back hours later."""
    restored: float = 0.0
    """The ledger is restored once, to its state of so many seconds ago."""
    away: bool = False
    """The person on call comes after two days instead of hours."""
    receives: int = 5
    """The number of deliveries after which a message is a dead letter."""
    redrives: bool = False
    """The person on call redrives every abandoned batch."""
    releases: int = 0
    """How many times a person releases what is in quarantine, and redrives batches and objects, while other work goes
    on. The person on call releases what S3 refused for a while."""
    drops: int = 0
    """How many times a person gives up batches whatever their state, and says at once what becomes of their uploads:
    they are dropped, or redriven."""
    horizon: float = 0.0
    """For how many seconds S3 announces, and people upload."""
    bundled: bool = False
    """A message may have several records, and an upload may come in parts or be a copy."""

    @property
    def audit_every(self) -> float:
        """How often an audit begins, in seconds: each hour, and seldom in a world of months."""
        return max(3_600.0, self.horizon / 12)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.turned().items()) or "plain"

    def turned(self) -> dict[str, Any]:
        """The knobs that differ from a plain world."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value != getattr(PLAIN, name)}

    def without(self, names: Iterable[str]) -> "Knobs":
        """The same, with these knobs as in a plain world."""
        return replace(self, **{name: getattr(PLAIN, name) for name in names})


PLAIN = Knobs()

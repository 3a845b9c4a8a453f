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
    """Seconds that a request or its answer travels."""
    delivery: tuple[float, ...] = (0.05,)
    """Seconds until the topic delivers."""
    startup: tuple[float, ...] = (40.0,)
    """Seconds until a job has its driver."""
    missed_looks: float = 0.0
    """How often the schedule misses a minute."""
    unordered: bool = False
    """The notices' queue keeps no order, drops no repeat, and feeds four dispatchers at once."""
    behind: float = 0.0
    """Seconds that a read without `ConsistentRead` is behind."""
    held_back: float = 0.0
    """How often BatchGetItem leaves keys unprocessed."""
    failed_inserts: float = 0.0
    """How often one statement of several fails, carried out or not."""
    page: int = 0
    """Keys or items in a page; 0: all."""
    refused_notices: float = 0.0
    """How often the topic refuses one message of a batch."""
    conflicts: float = 0.0
    """How often a conditional put gets a 409."""
    forgotten_tokens: float = 0.0
    """How often DynamoDB or EMR forgets a token."""
    twins: float = 0.0
    """How often a job run has two drivers."""
    cancelled: float = 0.0
    """How often a job run is cancelled or times out."""
    outlived: bool = False
    """The drivers of cancelled runs go on."""
    forgotten_runs: float = 0.0
    """How often EMR forgets an ended job run."""
    skew: tuple[float, ...] = (0.0,)
    """Seconds by which clocks are wrong."""
    expiry_at_once: bool = False
    """TTL deletes within a minute; else never."""
    suspended: bool = False
    """The landing bucket's versioning is suspended for a while."""
    refused_objects: float = 0.0
    """Seconds that the KMS key of some objects is disabled."""
    closed_bucket: str = ""
    """S3's error to every request to one unversioned bucket, for hours."""

    # ---- how Tidegate is configured
    in_flight: int = 1
    """Setting: batches of a route that may be submitted at once."""
    attempts: int = 3
    """Jobs of a batch before it halts."""
    max_wait: int = 60
    """Setting: seconds that a batch gathers."""
    step_aside: float = 0.0
    """Seconds that a halted batch keeps its slot; else until a person acts."""
    one_table: bool = False
    """Two routes write to one table."""
    small: bool = False
    """Notices, portions of endings and runs of settling take few uploads."""
    two_versions: bool = False
    """Half of the invocations have another configuration for some minutes."""
    announced: bool = False
    """Setting: committed batches are announced, and a consumer counts rows."""
    audit: float = 0.0
    """Seconds until an audit takes an upload or an undecided claim for lost; else no audit."""

    stay: int = 0
    """Seconds that a job waits for a further batch; else one job each."""
    screened: bool = False
    """Setting: a job screens the buckets for each audit, from an inventory."""
    lanes: int = 1
    """Setting of the first route: message groups of its notices."""
    inserted: bool = False
    """A notice's claims are inserted together, however few; else from five on."""

    replaces: bool = False
    """Setting of the first route: a later version of an object replaces the earlier ones."""
    removes: bool = False
    """Setting of the first route, if it replaces: an object that is deleted has no rows."""
    skips: bool = False
    """Setting of the first route, unless it replaces: the bytes of the version before bring no rows."""

    where: str = ""
    """Setting of every route: rows for which it is false are left out. Files have the ids 10, 11, and perhaps 12."""

    # ---- who else acts
    foreign: int = 0
    """Times that others append, compact, expire, change the schema, or roll back."""
    aborts: int = 0
    """Times that a person gives up every unfinished batch."""
    resumes: int = 0
    """Times that a person resumes halted batches and moves dead letters back meanwhile."""
    audits: int = 0
    """Times that a person audits meanwhile, if there is an audit."""
    backfills: int = 0
    """Times that a person backfills meanwhile; and once at the end."""
    cut: float = 0.0
    """How often a table loses its history under a driver."""
    cut_undone: bool = False
    """That history comes back hours later."""
    lost: float = 0.0
    """The ledger is lost, so many seconds after some time."""
    away: bool = False
    """The person on call comes after two days, not hours."""
    receives: int = 5
    """Deliveries until a message is a dead letter."""
    resends: bool = False
    """The person on call resends every abandoned batch."""
    releases: int = 0
    """Times that a person releases and resends meanwhile. The person on call releases what S3 refused for a while."""
    expires: int = 0
    """Times that versions expire whose bytes a later one has, unless others roll tables back."""
    reloads: int = 0
    """Times that a person reloads what batches have landed, or all that is under a prefix."""
    drops: int = 0
    """Times that a person gives up batches, and drops or resends their uploads."""
    horizon: float = 0.0
    """Seconds that S3 announces and people upload."""
    replayed: float = 0.0
    """How often a notice arrives again around `claims` later, and long after, in a world of months."""
    bundled: bool = False
    """A message may have several records; an upload may come in parts or be a copy."""
    strange: float = 0.0
    """How often a message has a further record that is unreadable, or that no route takes."""

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

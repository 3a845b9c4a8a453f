"""What kind of a world it is, drawn from the seed: how AWS behaves that day, how it is configured, who meddles with it.

Knobs are drawn together, each by itself; a run prints those that are not as they are in a plain world. A knob is no
fault: it holds for the whole run, and says how often something happens. Whatever is drawn here is AWS's to do by its
own documents, or a person's by ours, so no promise may rest on it.
"""

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

DAY = 86_400.0
CLAIMS_LIVE = 60 * DAY
"""The setting `retention.claims`, as it is if nobody sets it."""
FOR_GOOD = math.inf


@dataclass(frozen=True)
class Knobs:
    """The defaults are a plain world. Shares are between 0 and 1, times in seconds."""

    # ---- how AWS behaves
    latency: tuple[float, ...] = (0.005,)
    """How long one way of a call may take."""
    delivery: tuple[float, ...] = (0.05,)
    """How long the topic takes."""
    startup: tuple[float, ...] = (40.0,)
    """How long a job waits for its driver."""
    missed_looks: float = 0.0
    """How often the schedule skips a minute."""
    unordered: bool = False
    """The notices' queue is no FIFO queue: it keeps no order, drops no repeat, and feeds four dispatchers at once."""
    behind: float = 0.0
    """How old a read of the ledger may be that does not ask for consistency."""
    held_back: float = 0.0
    """How often BatchGetItem leaves keys unprocessed."""
    page: int = 0
    """How many keys or items a page of a listing or a query has; 0 for all."""
    refused_notices: float = 0.0
    """How often the topic takes a message of a batch and refuses its neighbour."""
    conflicts: float = 0.0
    """How often a conditional put meets another one and is refused with 409."""
    forgotten_tokens: float = 0.0
    """How often DynamoDB or EMR does not know a token again."""
    twins: float = 0.0
    """How often a job run has two drivers."""
    cancelled: float = 0.0
    """How often a job run is cancelled, or cut off for its time."""
    outlived: bool = False
    """The drivers of cancelled runs go on."""
    forgotten_runs: float = 0.0
    """How often a job run is not known any more once it has ended."""
    skew: tuple[float, ...] = (0.0,)
    """By how much the clocks of functions and drivers may be wrong."""
    expiry_at_once: bool = False
    """TTL deletes what has expired within a minute; else it never does."""
    suspended: bool = False
    """Somebody suspends the versioning of the landing bucket for a while."""
    refused_objects: float = 0.0
    """For how long the key is switched off that some objects were encrypted with."""
    closed_bucket: str = ""
    """With which code S3 refuses all that is asked of the second unversioned bucket, for hours."""

    # ---- how it is configured
    in_flight: int = 1
    """The setting: how many batches of a route may be submitted at once."""
    attempts: int = 3
    """The setting: how many jobs a batch may use up before it halts."""
    max_wait: int = 60
    """The setting: for how long a batch gathers, in seconds."""
    one_table: bool = False
    """Both of the first two routes write to one table."""
    small: bool = False
    """Notices, portions of endings and looks of settling hold a few uploads only."""
    two_versions: bool = False
    """For some minutes half of the invocations run with another configuration."""

    # ---- who meddles
    foreign: int = 0
    """How often somebody else commits to a table: appends, compacts, expires, changes the schema, rolls back."""
    aborts: int = 0
    """How often a person gives up what runs."""
    resumes: int = 0
    """How often a person resumes whatever has halted, and moves dead letters back, in the middle of it."""
    cut: float = 0.0
    """How often a driver's table loses its history while the driver is at work."""
    cut_undone: bool = False
    """Hours later that is undone."""
    restored: float = 0.0
    """The ledger is restored, once, to what it was so long ago."""
    away: bool = False
    """The person on call comes after two days, not after hours."""
    receives: int = 5
    """After how many deliveries a message is a dead letter."""
    horizon: float = 0.0
    """For how long S3 goes on announcing, and people uploading."""
    bundled: bool = False
    """A message may have several records, and an upload may come in parts or be a copy."""

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.turned().items()) or "plain"

    def turned(self) -> dict[str, Any]:
        """Those that are not as in a plain world."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in found.items() if value != getattr(PLAIN, name)}

    def without(self, names: Iterable[str]) -> "Knobs":
        """With these as in a plain world."""
        return replace(self, **{name: getattr(PLAIN, name) for name in names})

    @property
    def undisturbed(self) -> bool:
        """Whether nothing of this kind of world could cost a person's time, or a job more than needed."""
        harmless = {
            "latency",
            "delivery",
            "startup",
            "behind",
            "held_back",
            "page",
            "skew",
            "expiry_at_once",
            "bundled",
        }
        harmless |= {"in_flight", "attempts", "max_wait", "one_table", "small", "forgotten_tokens", "unordered"}
        harmless |= {"horizon", "missed_looks"}
        return not set(self.turned()) - harmless


PLAIN = Knobs()

ORDINARY = Knobs(
    latency=(0.002, 0.005, 0.02, 0.2),
    delivery=(0.02, 0.1, 3.0),
    startup=(20.0, 45.0, 90.0),
    missed_looks=0.05,
    forgotten_tokens=0.3,
    twins=0.15,
)
"""An ordinary day: what the schemes are compared in."""

# A new knob goes to the end of both: `drawn` draws in this order, and the seeds that others are known by must stay what
# they are. If it can cost nobody time, say so in `Knobs.undisturbed`: elsewhere the bounds are not looked at.
CHOICES: dict[str, tuple[float, tuple[Any, ...]]] = {
    "latency": (0.9, ((0.002, 0.005, 0.02, 0.2), (0.005, 0.3, 2.0, 8.0))),
    "delivery": (0.9, ((0.02, 0.1, 3.0), (0.02, 40.0))),
    "startup": (0.9, ((20.0, 45.0, 90.0), (30.0, 600.0), (45.0, 2_500.0))),
    "missed_looks": (0.5, (0.05, 0.5)),
    "unordered": (0.3, (True,)),
    "behind": (0.5, (1.0, 5.0)),
    "held_back": (0.3, (0.3,)),
    "page": (0.3, (1, 2)),
    "refused_notices": (0.15, (0.2,)),
    "conflicts": (0.15, (0.2,)),
    "forgotten_tokens": (0.4, (0.3, 1.0)),
    "twins": (0.3, (0.3, 1.0)),
    "cancelled": (0.15, (0.3, 0.6)),
    "outlived": (0.6, (True,)),
    "forgotten_runs": (0.1, (0.5,)),
    "skew": (0.3, ((0.0, 60.0), (0.0, -150.0, 200.0))),
    "expiry_at_once": (0.5, (True,)),
    "suspended": (0.1, (True,)),
    "refused_objects": (0.15, (FOR_GOOD, 400.0, 1_500.0)),
    "closed_bucket": (0.1, ("AccessDenied", "NoSuchBucket")),
    "in_flight": (0.3, (2, 3)),
    "attempts": (0.3, (1, 2, 5)),
    "max_wait": (0.2, (1, 300)),
    "one_table": (0.3, (True,)),
    "small": (0.3, (True,)),
    "two_versions": (0.15, (True,)),
    "foreign": (0.35, (1, 3, 8, 15)),
    "aborts": (0.3, (1, 3, 6)),
    "resumes": (0.3, (1, 3, 6)),
    "away": (0.2, (True,)),
    "horizon": (0.15, (1 * DAY, 20 * DAY, CLAIMS_LIVE - 0.2 * DAY)),
    "bundled": (0.3, (True,)),
    "receives": (0.2, (1,)),
    "cut": (0.15, (0.3, 0.7)),
    "cut_undone": (0.5, (True,)),
    "restored": (0.15, (20.0, 100.0, 400.0, 2_000.0)),
}
"""How often a knob is turned, and to what."""


def drawn(seed: int, without: Iterable[str] = ()) -> Knobs:
    """The knobs of a seed. Those of `without` are left alone, and nothing else changes, so that a failure can be
    replayed in a plainer world."""
    chance = random.Random(seed * 2 + 7_919)
    turned = {}
    for name, (share, values) in CHOICES.items():
        draws = chance.random() < share, chance.choice(values)
        if draws[0]:
            turned[name] = draws[1]
    return replace(PLAIN, **turned).without(without)

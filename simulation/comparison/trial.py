"""One scheme, one cause, one seed: a trial. And many of them, on all cores."""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from simulation.checker import oracle
from simulation.checker.explore import simulation
from simulation.comparison.causes import CAUSES
from simulation.comparison.deployment import DAY, SchemeDeployment
from simulation.comparison.schedule import lasts, schedule, take_place
from simulation.comparison.schemes.fifo import FifoItem, FifoTable
from simulation.comparison.schemes.inbox import InboxDocument, InboxTransaction
from simulation.comparison.schemes.lock import Lock
from simulation.comparison.schemes.nothing import Nothing
from simulation.comparison.schemes.powertools import Powertools
from simulation.comparison.schemes.scheme import Scheme
from simulation.comparison.schemes.set_nx import SetNx
from simulation.comparison.schemes.state_row import StateRow, all_versions, current_objects
from simulation.comparison.verdict import TrialVerdict, judge
from simulation.world import audits, course
from simulation.world.kernel import Stuck
from simulation.world.knobs import Knobs
from simulation.world.world import World

TIDEGATE = "tidegate"
HOUR = 3_600.0

ORDINARY = Knobs(
    latency=(0.002, 0.005, 0.02, 0.2),
    delivery=(0.02, 0.1, 3.0),
    startup=(20.0, 45.0, 90.0),
    missed_looks=0.05,
    forgotten_tokens=0.3,
    twins=0.15,
)
"""The world of the comparison: ordinary delays."""


@dataclass(frozen=True)
class DailyAudit(Knobs):
    """The audit as it is by default: uploads are lost after 12 hours, and `audit.every` is a day."""

    audit: float = 12 * HOUR

    @property
    def audit_every(self) -> float:
        return DAY


SCHEMES: dict[str, tuple[str, Callable[[SchemeDeployment], Scheme]]] = {
    "nothing": ("nothing at all", Nothing),
    "set-nx": ("Redis `SET NX EX`", partial(SetNx, count_receives=False)),
    "set-nx-count": ("Redis `SET NX EX`, receive count in the key", partial(SetNx, count_receives=True)),
    "state-row": ("state row", partial(StateRow, lists=None)),
    "state-row-audit": ("state row, daily audit", partial(StateRow, lists=current_objects)),
    "state-row-audit-versions": ("state row, daily audit of all versions", partial(StateRow, lists=all_versions)),
    "fifo-before": ("FIFO, an item before the work", partial(FifoTable, before=True)),
    "fifo-after": ("FIFO, an item after the work", partial(FifoTable, before=False)),
    "fifo-item": ("FIFO, the item is the data", FifoItem),
    "lock": ("DynamoDB lock, 1 minute", partial(Lock, seconds=60)),
    "lock-day": ("DynamoDB lock, 1 day", partial(Lock, seconds=int(DAY))),
    "powertools": ("Powertools, 1 hour", partial(Powertools, remembers=3_600)),
    "powertools-day": ("Powertools, 1 day", partial(Powertools, remembers=int(DAY))),
    "inbox-transaction": ("inbox: transaction", InboxTransaction),
    "inbox-document": ("inbox: document", InboxDocument),
}
"""The title of each scheme, and what deploys it."""
DEPLOYED = {name: deploy for name, (_, deploy) in SCHEMES.items()}
TITLES = {**{name: title for name, (title, _) in SCHEMES.items()}, TIDEGATE: "Tidegate"}


@dataclass(frozen=True)
class Trial:
    scheme: str
    cause: str
    seed: int

    def __str__(self) -> str:
        return f"{self.scheme} {self.cause} SEED={self.seed}"


@dataclass(frozen=True)
class TrialResult:
    trial: Trial
    verdict: TrialVerdict
    faults: int
    digest: str
    trace: tuple[str, ...] = ()


def run(trial: Trial, *, keep_trace: bool = False) -> TrialResult:
    """Only within `simulation.checker.explore.simulation()`."""
    cause = CAUSES[trial.cause]
    plan = cause.plan(trial.seed)
    uploads = schedule(trial.seed, cause.announcing)
    world: World | SchemeDeployment
    if trial.scheme == TIDEGATE:
        world = World(trial.seed, plan, _ordinary(trial.seed), lasts=lasts(uploads))
        course.begin(world)
        audits.begun_before(world, DAY / 2)
    else:
        world = SchemeDeployment(trial.seed, plan)
        scheme = DEPLOYED[trial.scheme](world)
    world.kernel.keep_trace = keep_trace
    take_place(uploads, world)
    try:
        rests = course.run(world) if isinstance(world, World) else world.run()
    except Stuck:
        rests = False
    if isinstance(world, World):
        rows = [row[:3] for table in sorted(world.catalog.tables) for _, row in world.catalog.rows(table)]
        # Tidegate answers for more than the others: its own oracle's further promises
        more = [
            each for each in oracle.judge(world, rests).broken if not each.startswith(("repeated", "lost", "liveness"))
        ]
    else:
        rows, more = list(scheme.rows()), []
    verdict = judge(world.history, world.notified, world.s3, rows, rests)
    if more:
        verdict = replace(verdict, broken=(*verdict.broken, *more))
    network = world.network
    return TrialResult(trial, verdict, sum(network.struck.values()), world.kernel.digest, tuple(world.kernel.trace))


def _ordinary(seed: int) -> Knobs:
    return DailyAudit(**{**ORDINARY.turned(), "expiry_at_once": seed % 2 == 0})


# ---- many


@dataclass
class TrialCounts:
    """The results of the trials of one scheme and one cause, in schedules and in uploads."""

    schedules: int = 0
    with_repeats: int = 0
    with_losses: int = 0
    heard: int = 0
    repeated: int = 0
    lost: int = 0
    unheard: int = 0
    absent: int = 0
    faults: int = 0
    broken: list[str] = field(default_factory=list)

    def add(self, result: TrialResult) -> None:
        verdict = result.verdict
        self.schedules += 1
        self.with_repeats += verdict.repeated > 0
        self.with_losses += verdict.lost > 0
        self.heard += verdict.heard
        self.repeated += verdict.repeated
        self.lost += verdict.lost
        self.unheard += verdict.unheard
        self.absent += verdict.absent
        self.faults += result.faults
        self.broken += [f"{result.trial}: {each}" for each in verdict.broken]


Counted = dict[tuple[str, str], TrialCounts]

_KEPT = ExitStack()


def _begin() -> None:
    """A worker is set up once: making the SDK's clients takes longer than many trials."""
    _KEPT.enter_context(simulation())


def run_all(
    trials: Iterable[Trial],
    *,
    processes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Counted:
    """Run them on all cores. The results do not depend on the number of cores."""
    waiting = list(trials)
    counted: Counted = {}
    # a fresh interpreter each: nothing of this process leaks into a world
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count() or 1, _begin) as pool:
        for done, result in enumerate(pool.imap(run, waiting, chunksize=10), start=1):
            counted.setdefault((result.trial.scheme, result.trial.cause), TrialCounts()).add(result)
            progress(done, len(waiting))
    return counted

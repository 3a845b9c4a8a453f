"""One scheme, one cause, one seed: a trial. And many of them, on all cores."""

import multiprocessing
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from tests.sim import oracle
from tests.sim.explore import simulation
from tests.sim.kernel import Stuck
from tests.sim.knobs import ORDINARY, Knobs
from tests.sim.schemes.causes import CAUSES
from tests.sim.schemes.deployment import DAY, Deployment
from tests.sim.schemes.fifo import FifoItem, FifoTable
from tests.sim.schemes.inbox import InboxDocument, InboxTransaction
from tests.sim.schemes.lock import Lock
from tests.sim.schemes.nothing import Nothing
from tests.sim.schemes.powertools import Powertools
from tests.sim.schemes.schedule import lasts, schedule, take_place
from tests.sim.schemes.scheme import Scheme
from tests.sim.schemes.set_nx import SetNx
from tests.sim.schemes.state_row import StateRow
from tests.sim.schemes.verdict import Verdict, judge
from tests.sim.world import World

TIDEGATE = "tidegate"

DEPLOYED: dict[str, Callable[[Deployment], Scheme]] = {
    "nothing": Nothing,
    "set-nx": partial(SetNx, count_receives=False),
    "set-nx-count": partial(SetNx, count_receives=True),
    "state-row": partial(StateRow, audited=False),
    "state-row-audit": partial(StateRow, audited=True),
    "fifo-before": partial(FifoTable, before=True),
    "fifo-after": partial(FifoTable, before=False),
    "fifo-item": FifoItem,
    "lock": partial(Lock, seconds=60),
    "lock-day": partial(Lock, seconds=int(DAY)),
    "powertools": partial(Powertools, remembers=3_600),
    "powertools-day": partial(Powertools, remembers=int(DAY)),
    "inbox-transaction": InboxTransaction,
    "inbox-document": InboxDocument,
}

TITLES = {
    "nothing": "nothing at all",
    "set-nx": "Redis `SET NX EX`",
    "set-nx-count": "Redis `SET NX EX`, receive count in the key",
    "state-row": "state row",
    "state-row-audit": "state row, daily audit",
    "fifo-before": "FIFO, an item before the work",
    "fifo-after": "FIFO, an item after the work",
    "fifo-item": "FIFO, the item is the data",
    "lock": "DynamoDB lock, 1 minute",
    "lock-day": "DynamoDB lock, 1 day",
    "powertools": "Powertools, 1 hour",
    "powertools-day": "Powertools, 1 day",
    "inbox-transaction": "inbox: transaction",
    "inbox-document": "inbox: document",
    TIDEGATE: "Tidegate",
}


@dataclass(frozen=True)
class Trial:
    scheme: str
    cause: str
    seed: int

    def __str__(self) -> str:
        return f"{self.scheme} {self.cause} SEED={self.seed}"


@dataclass(frozen=True)
class Outcome:
    trial: Trial
    verdict: Verdict
    faults: int
    digest: str
    trace: tuple[str, ...] = ()


def run(trial: Trial, *, keep_trace: bool = False) -> Outcome:
    """Only within `tests.sim.explore.simulation()`."""
    cause = CAUSES[trial.cause]
    plan = cause.plan(trial.seed)
    uploads = schedule(trial.seed, cause.announcing)
    world: World | Deployment
    if trial.scheme == TIDEGATE:
        world = World(trial.seed, plan, _ordinary(trial.seed), lasts=lasts(uploads))
    else:
        world = Deployment(trial.seed, plan)
        scheme = DEPLOYED[trial.scheme](world)
    world.kernel.keep_trace = keep_trace
    take_place(uploads, world)
    try:
        rests = world.run()
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
    return Outcome(trial, verdict, sum(network.struck.values()), world.kernel.digest, tuple(world.kernel.trace))


def _ordinary(seed: int) -> Knobs:
    return replace(ORDINARY, expiry_at_once=seed % 2 == 0)


# ---- many


@dataclass
class Tally:
    """What the trials of one scheme and one cause have shown, in schedules and in uploads."""

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

    def add(self, outcome: Outcome) -> None:
        verdict = outcome.verdict
        self.schedules += 1
        self.with_repeats += verdict.repeated > 0
        self.with_losses += verdict.lost > 0
        self.heard += verdict.heard
        self.repeated += verdict.repeated
        self.lost += verdict.lost
        self.unheard += verdict.unheard
        self.absent += verdict.absent
        self.faults += outcome.faults
        self.broken += [f"{outcome.trial}: {each}" for each in verdict.broken]


Tallies = dict[tuple[str, str], Tally]

_KEPT = ExitStack()


def _begin() -> None:
    """A worker is set up once: making the SDK's clients takes longer than many trials."""
    _KEPT.enter_context(simulation())


def run_all(
    trials: Iterable[Trial],
    *,
    processes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Tallies:
    """Run them on all cores. What comes out does not depend on how many those are."""
    waiting = list(trials)
    tallies: Tallies = {}
    # a fresh interpreter each: nothing of this process leaks into a world
    with multiprocessing.get_context("spawn").Pool(processes or os.cpu_count() or 1, _begin) as pool:
        for done, outcome in enumerate(pool.imap(run, waiting, chunksize=10), start=1):
            tallies.setdefault((outcome.trial.scheme, outcome.trial.cause), Tally()).add(outcome)
            progress(done, len(waiting))
    return tallies

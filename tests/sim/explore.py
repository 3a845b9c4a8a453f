"""Trying everything: every fault at every call of a scenario, every fault of every recovery, pairs, and chance by seed.

A `Case` is the whole recipe of one run; running it again gives the same trace, hash and all.
"""

import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.sim.extra_scenarios import EXTRA
from tests.sim.faults import At, Chance, Kind
from tests.sim.kernel import Stuck
from tests.sim.oracle import Judgement, judge
from tests.sim.scenarios import CHANCE, SCENARIOS
from tests.sim.world import CONFIG, World

MOST_FAULTS = 4


@dataclass(frozen=True)
class Case:
    """A scenario with faults at given calls, or (`seed` given) the schedule and the faults of a seed; `only` leaves of
    those faults the ones at these calls."""

    scenario: str
    faults: tuple[tuple[int, Kind], ...] = ()
    seed: int | None = None
    only: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.seed is not None:
            kept = "" if self.only is None else f" ONLY={','.join(map(str, self.only))}"
            return f"{self.scenario} SEED={self.seed}{kept}"
        return f"{self.scenario} " + (" ".join(f"AT={number}:{kind}" for number, kind in self.faults) or "no fault")


@dataclass(frozen=True)
class Result:
    case: Case
    judgement: Judgement
    calls: tuple[tuple[str, tuple[Kind, ...]], ...]
    struck: Mapping[tuple[str, Kind], int]
    digest: str
    errors: tuple[str, ...] = ()
    fault_numbers: tuple[int, ...] = ()
    """At which calls faults struck."""
    trace: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return self.judgement.good


def run(case: Case, *, keep_trace: bool = False, long_road_only: bool = False) -> Result:
    """Only within `simulation()`. `long_road_only` as in `network`."""
    if case.seed is None:
        world = World(0, At(dict(case.faults)))
    else:
        world = World(case.seed, Chance(case.seed, MOST_FAULTS, only=case.only), chance=True)
    world.kernel.keep_trace = keep_trace
    world.network.long_road_only = long_road_only
    (SCENARIOS | EXTRA)[case.scenario](world)
    try:
        judgement = judge(world, world.run())
    except Stuck as stuck:
        judgement = Judgement([f"liveness: {stuck}"])
    return Result(
        case,
        judgement,
        tuple(world.network.calls),
        dict(world.network.struck),
        world.kernel.digest,
        tuple(dict.fromkeys(f"{type(error).__name__}: {error}"[:200] for error in world.errors)),
        tuple(world.network.struck_at),
        tuple(world.kernel.trace),
    )


@contextmanager
def simulation(patches: Callable[[], object] | None = None) -> Iterator[None]:
    """The product, installed in this process; `patches` is a context manager around it (a planted bug)."""
    from tests.sim import driver, product

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-sim-"))
        stack.enter_context(product.installed(CONFIG, Path(folder)))
        stack.enter_context(driver.installed())
        if patches is not None:
            stack.enter_context(patches())  # type: ignore[arg-type]
        yield


# ---- which cases


def singles(scenario: str) -> list[Case]:
    """Every fault that can strike, at every call that the scenario makes without one."""
    return after(run(Case(scenario)))


def after(result: Result) -> list[Case]:
    """The case of `result` with one more fault, at every call that came after its last one."""
    faults = result.case.faults
    begin = faults[-1][0] + 1 if faults else 0
    return [
        replace(result.case, faults=(*faults, (number, kind)))
        for number, (_, kinds) in enumerate(result.calls)
        if number >= begin
        for kind in kinds
    ]


def seeds(first: int, last: int, scenario: str = CHANCE) -> list[Case]:
    return [Case(scenario, seed=seed) for seed in range(first, last)]


# ---- many at once


@dataclass(frozen=True)
class Site:
    """A place that calls are made from, and one of them: in this case, the call with this number."""

    kinds: tuple[Kind, ...]
    case: Case
    number: int


@dataclass
class Report:
    """What many runs have shown."""

    runs: int = 0
    calls: int = 0
    failures: list[Result] = field(default_factory=list)
    struck: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    sites: dict[str, Site] = field(default_factory=dict)
    unheard: int = 0
    digests: list[str] = field(default_factory=list)
    """Of the first run of each share."""

    def add(self, result: Result) -> None:
        if not self.runs:
            self.digests.append(result.digest)
        self.runs += 1
        self.calls += len(result.calls)
        self.struck.update(result.struck)
        for number, (site, kinds) in enumerate(result.calls):
            self._meet(site, Site(kinds, result.case, number))
        self.unheard += result.judgement.unheard
        if not result.good:
            self.failures.append(result)

    def merge(self, other: "Report") -> None:
        self.runs += other.runs
        self.calls += other.calls
        self.failures += other.failures
        self.digests += other.digests
        self.struck.update(other.struck)
        for site, known in other.sites.items():
            self._meet(site, known)
        self.unheard += other.unheard

    def _meet(self, site: str, met: Site) -> None:
        """Keep the plainest example of a site: one to which another fault can be added."""
        known = self.sites.get(site)
        if known is None or (known.case.seed is not None and met.case.seed is None):
            self.sites[site] = met

    @property
    def untried(self) -> list[tuple[str, Kind]]:
        """Faults that could have struck a call site and never did."""
        return sorted(
            (site, kind) for site, met in self.sites.items() for kind in met.kinds if not self.struck[site, kind]
        )

    def gaps(self) -> list[Case]:
        """Cases that strike what was never struck: where a recovery made the call, the fault that led there is kept."""
        found = []
        for site, kind in self.untried:
            met = self.sites[site]
            if met.case.seed is None:
                found.append(replace(met.case, faults=(*met.case.faults, (met.number, kind))))
        return found


def _share(work: tuple[list[Case], bool]) -> Report:
    cases, recoveries = work
    report = Report()
    with simulation():
        for case in cases:
            result = run(case)
            report.add(result)
            if recoveries and result.good:
                for further in after(result):
                    report.add(run(further))
    return report


def run_all(
    cases: Iterable[Case],
    *,
    recoveries: bool = False,
    processes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Run them on all cores. With `recoveries`, also every fault at every call that each case makes after its last."""
    waiting = list(cases)
    workers = processes or os.cpu_count() or 1
    size = max(1, min(50 if not recoveries else 2, -(-len(waiting) // workers)))
    shares = [(waiting[start : start + size], recoveries) for start in range(0, len(waiting), size)]
    report = Report()
    if workers == 1 or len(shares) == 1:
        for share in shares:
            report.merge(_share(share))
        return report
    # a fresh interpreter each: nothing of this process, its patches and its clients, leaks into a world
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for number, part in enumerate(pool.imap(_share, shares), start=1):
            report.merge(part)
            progress(number, len(shares))
    return report


def shrink(result: Result) -> Result:
    """The same failure with as few faults as still bring it about. Only within `simulation()`."""
    best = result
    again = True
    while again:
        again = False
        for case in _smaller(best):
            tried = run(case)
            if not tried.good:
                best, again = tried, True
                break
    return best


def _smaller(result: Result) -> Iterator[Case]:
    case = result.case
    if case.seed is None:
        for position in range(len(case.faults)):
            yield replace(case, faults=case.faults[:position] + case.faults[position + 1 :])
        return
    kept = case.only if case.only is not None else result.fault_numbers
    for position in range(len(kept)):
        yield replace(case, only=kept[:position] + kept[position + 1 :])

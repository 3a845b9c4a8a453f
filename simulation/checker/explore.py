"""Runs the cases: every fault at every call of a scenario, every fault of every recovery, pairs, and seeds.

A `Case` defines one run completely; running it again gives the same trace and hash.
"""

import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simulation.checker.accidents.scene import Scene
from simulation.checker.bounds import exceeded
from simulation.checker.dictionary import FOLLOWS, OTHERS
from simulation.checker.draws import Chance, drawn
from simulation.checker.extra_scenarios import EXTRA
from simulation.checker.oracle import Judgement, judge
from simulation.checker.scenarios import CHANCE, SCENARIOS
from simulation.world import course, driver, product
from simulation.world.faults import At, Kind
from simulation.world.kernel import Stuck
from simulation.world.knobs import PLAIN, Knobs
from simulation.world.world import CONFIG

MOST_FAULTS = 4


@dataclass(frozen=True)
class Case:
    """A scenario with faults at given calls, or (with `seed`) the knobs, the schedule and the faults of a seed. `only`
    keeps the faults at these calls; the knobs in `without` keep their defaults, and those in `turned` have these
    values, whatever the seed draws."""

    scenario: str
    faults: tuple[tuple[int, Kind], ...] = ()
    seed: int | None = None
    only: tuple[int, ...] | None = None
    without: tuple[str, ...] = ()
    turned: tuple[tuple[str, Any], ...] = ()

    @property
    def knobs(self) -> Knobs:
        return PLAIN if self.seed is None else replace(drawn(self.seed, self.without), **dict(self.turned))

    def __str__(self) -> str:
        if self.seed is not None:
            kept = "" if self.only is None else f" ONLY={','.join(map(str, self.only))}"
            left = f" WITHOUT={','.join(self.without)}" if self.without else ""
            return f"{self.scenario} SEED={self.seed}{kept}{left}"
        return f"{self.scenario} " + (" ".join(f"AT={number}:{kind}" for number, kind in self.faults) or "no fault")

    @property
    def command(self) -> str:
        """The arguments of `python -m simulation` that run it again."""
        if self.seed is not None:
            return str(self).replace(f"{self.scenario} SEED=", "seeds ")
        return " ".join(["at", self.scenario, *(f"{number}:{kind}" for number, kind in self.faults)])


@dataclass(frozen=True)
class Result:
    case: Case
    judgement: Judgement
    calls: tuple[tuple[str, tuple[Kind, ...]], ...]
    struck: Mapping[tuple[str, Kind], int]
    digest: str
    errors: tuple[str, ...] = ()
    fault_numbers: tuple[int, ...] = ()
    """The calls that faults struck."""
    trace: tuple[str, ...] = ()
    happened: Mapping[str, int] = field(default_factory=dict)
    """The counts of `World.happened`."""
    met: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    met_struck: Mapping[tuple[str, str, str, Kind], int] = field(default_factory=dict)
    """As `Network.met`, if the run was watched."""

    @property
    def good(self) -> bool:
        return self.judgement.good


def run(case: Case, *, keep_trace: bool = False, long_road_only: bool = False, watched: bool = False) -> Result:
    """Only within `simulation()`. `long_road_only` and `watched` as in `network`."""
    if case.seed is None:
        world = Scene(0, At(dict(case.faults)))
    else:
        world = Scene(case.seed, Chance(case.seed, MOST_FAULTS, only=case.only), case.knobs)
    course.begin(world)
    world.kernel.keep_trace = keep_trace
    world.network.long_road_only = long_road_only
    world.network.watched = watched
    (SCENARIOS | EXTRA)[case.scenario](world)
    try:
        judgement = judge(world, course.run(world))
        if case.scenario in SCENARIOS:  # in the others an accident takes its time
            judgement.broken += exceeded(world)
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
        dict(world.happened),
        dict(world.network.met),
        dict(world.network.met_struck),
    )


@contextmanager
def simulation() -> Iterator[None]:
    """The product, installed in this process."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-sim-"))
        stack.enter_context(product.installed(CONFIG, Path(folder)))
        stack.enter_context(driver.installed())
        yield


# ---- which cases


def singles(scenario: str, kinds: Collection[Kind] = tuple(Kind)) -> list[Case]:
    """Every fault of these kinds that can strike, at every call that the scenario makes without one."""
    return [case for case in after(run(Case(scenario))) if case.faults[-1][1] in kinds]


def thinned(cases: Iterable[Case], one_in: int, struck: set[tuple[str, Kind]] | None = None) -> list[Case]:
    """A share of these singles: at each call one fault in `one_in`, by turns, and at least one.

    Besides these, each fault at the first call of each call site that it can strike. `struck` has what was struck
    before, in other scenarios, and is added to. Only within `simulation()`.
    """
    struck = set() if struck is None else struck
    by_call: dict[tuple[str, int], list[Case]] = {}
    for case in cases:
        by_call.setdefault((case.scenario, case.faults[-1][0]), []).append(case)
    calls = {scenario: run(Case(scenario)).calls for scenario in dict.fromkeys(scenario for scenario, _ in by_call)}
    found = []
    for turn, ((scenario, number), here) in enumerate(by_call.items()):
        site, _ = calls[scenario][number]
        every = min(one_in, len(here))
        for place, case in enumerate(here):
            what = site, case.faults[-1][1]
            if (turn + place) % every == 0 or what not in struck:
                found.append(case)
                struck.add(what)
    return found


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


def following(first: int, last: int) -> list[Case]:
    """Schedules and faults of a route whose table is a dictionary of the last version of each key."""
    return [replace(each, without=OTHERS, turned=FOLLOWS) for each in seeds(first, last)]


# ---- many at once


@dataclass(frozen=True)
class Site:
    """A call site, and an example of a call there: its number in this case."""

    kinds: tuple[Kind, ...]
    case: Case
    number: int


@dataclass(frozen=True)
class Situation:
    """A state of a batch with a state of its job. `sites` is the number of call sites met in it, `possible` the number
    of pairs of such a site and a fault that can strike it, `struck` the number of those pairs that were tried."""

    state: str
    job: str
    sites: int = 0
    calls: int = 0
    possible: int = 0
    struck: int = 0


@dataclass
class Report:
    """The results of many runs."""

    runs: int = 0
    calls: int = 0
    failures: list[Result] = field(default_factory=list)
    struck: Counter[tuple[str, Kind]] = field(default_factory=Counter)
    sites: dict[str, Site] = field(default_factory=dict)
    unheard: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    """In how many runs each of these was seen."""
    met: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    met_struck: Counter[tuple[str, str, str, Kind]] = field(default_factory=Counter)
    digests: list[str] = field(default_factory=list)
    """Of the first run of each share of the cases."""

    def add(self, result: Result) -> None:
        if not self.runs:
            self.digests.append(result.digest)
        self.runs += 1
        self.calls += len(result.calls)
        self.struck.update(result.struck)
        for number, (site, kinds) in enumerate(result.calls):
            self._meet(site, Site(kinds, result.case, number))
        self.unheard += result.judgement.unheard
        self.happened.update(result.happened.keys())
        self.met.update(result.met)
        self.met_struck.update(result.met_struck)
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
        self.happened.update(other.happened)
        self.met.update(other.met)
        self.met_struck.update(other.met_struck)

    def _meet(self, site: str, met: Site) -> None:
        """Keep the simplest example of a site: one to which another fault can be added."""
        known = self.sites.get(site)
        if known is None or (known.case.seed is not None and met.case.seed is None):
            self.sites[site] = met

    @property
    def untried(self) -> list[tuple[str, Kind]]:
        """Faults that could have struck a call site and never did."""
        return sorted(
            (site, kind) for site, met in self.sites.items() for kind in met.kinds if not self.struck[site, kind]
        )

    @property
    def situations(self) -> list["Situation"]:
        """The situations that were met, by the state of the batch and of its job; the most frequent first."""
        found: dict[tuple[str, str], Situation] = {}
        for (state, job, site), times in self.met.items():
            kinds = self.sites[site].kinds if site in self.sites else ()
            struck = sum(self.met_struck[state, job, site, kind] > 0 for kind in kinds)
            known = found.get((state, job), Situation(state, job))
            found[state, job] = Situation(
                state, job, known.sites + 1, known.calls + times, known.possible + len(kinds), known.struck + struck
            )
        return sorted(found.values(), key=lambda each: -each.calls)

    def gaps(self) -> list[Case]:
        """Cases for the faults that were never tried. If a recovery made the call, the fault that led there is kept."""
        found = []
        for site, kind in self.untried:
            met = self.sites[site]
            if met.case.seed is None:
                found.append(replace(met.case, faults=(*met.case.faults, (met.number, kind))))
        return found


@dataclass(frozen=True)
class _Share:
    cases: list[Case]
    recoveries: bool
    watched: bool


def _run_share(share: _Share) -> Report:
    report = Report()
    with simulation():
        for case in share.cases:
            result = run(case, watched=share.watched)
            report.add(result)
            if share.recoveries and result.good:
                for further in after(result):
                    report.add(run(further, watched=share.watched))
    return report


def run_all(
    cases: Iterable[Case],
    *,
    recoveries: bool = False,
    watched: bool = False,
    processes: int | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Report:
    """Run them on all cores. With `recoveries`, also every fault at every call that each case makes after its last."""
    waiting = list(cases)
    workers = processes or os.cpu_count() or 1
    size = max(1, min(50 if not recoveries else 2, -(-len(waiting) // workers)))
    shares = [_Share(waiting[start : start + size], recoveries, watched) for start in range(0, len(waiting), size)]
    report = Report()
    if workers == 1 or len(shares) == 1:
        for share in shares:
            report.merge(_run_share(share))
        return report
    # a fresh interpreter each: nothing of this process, its patches and its clients, leaks into a world
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for number, part in enumerate(pool.imap(_run_share, shares), start=1):
            report.merge(part)
            progress(number, len(shares))
    return report


def everywhere(scenarios: Iterable[str], *, one_in: int = 1, processes: int | None = None) -> Report:
    """Every fault at every call of these scenarios, or a share of them (`thinned`), then at whatever call sites only
    recoveries have."""
    struck: set[tuple[str, Kind]] = set()
    with simulation():
        cases = [case for scenario in scenarios for case in thinned(singles(scenario), one_in, struck)]
    report = run_all(cases, processes=processes)
    while gaps := report.gaps():
        before = len(report.untried)
        report.merge(run_all(gaps, processes=processes))
        if len(report.untried) >= before:
            break
    return report


def shrink(result: Result) -> Result:
    """The same failure with as few faults and knobs as possible. Only within `simulation()`."""
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
    for name in case.knobs.turned():
        yield replace(case, without=(*case.without, name))
    kept = case.only if case.only is not None else result.fault_numbers
    for position in range(len(kept)):
        yield replace(case, only=kept[:position] + kept[position + 1 :])

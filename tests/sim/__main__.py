"""The simulation from the command line.

python -m tests.sim seeds 0-2000          schedules and faults by chance
python -m tests.sim seeds 184             one of them, with its trace (and ONLY=12,40 WITHOUT=twins: as a failure says)
python -m tests.sim at core 12:late       a scenario with these faults, with its trace
python -m tests.sim singles core          every fault at every call of a scenario, and what that leaves untried
python -m tests.sim pairs core 3/10       every fault of every recovery of a scenario, hence all pairs; a tenth of them
python -m tests.sim states 0-2000         which states were met, what struck in them, and what was never seen
python -m tests.sim all                   the singles of every scenario, the pairs of those without an accident,
                                          and 20,000 seeds
"""

import sys
import time
from collections.abc import Iterable

from tests.sim.explore import Case, Report, Result, run, run_all, seeds, shrink, simulation, singles
from tests.sim.extra_scenarios import BEYOND, EXTRA
from tests.sim.faults import Kind
from tests.sim.scenarios import CHANCE, CORE, PLAIN
from tests.sim.seen import SOMETIMES

SHOWN = 5


def main(arguments: list[str]) -> int:
    match arguments:
        case ["seeds", text] if "-" in text:
            first, last = map(int, text.split("-"))
            return _report(run_all(seeds(first, last)), complete=False)
        case ["seeds", text, *only]:
            return _replay(_case(int(text), dict(each.split("=", 1) for each in only)))
        case ["at", scenario, *faults]:
            given = (each.removeprefix("AT=").split(":") for each in faults)
            return _replay(Case(scenario, tuple((int(number), Kind(kind)) for number, kind in given)))
        case ["singles", *scenarios]:
            return _report(everywhere(scenarios or CORE))
        case ["pairs", scenario, *part]:
            number, of = map(int, part[0].split("/")) if part else (0, 1)
            return _report(pairs(scenario, number, of), complete=False)
        case ["states", text]:
            first, last = map(int, text.split("-"))
            return _states(run_all(seeds(first, last), watched=True, progress=_progress))
        case ["all"]:
            report = everywhere((*PLAIN, *(name for name in EXTRA if name not in BEYOND)))
            for scenario in PLAIN:
                report.merge(pairs(scenario))
            report.merge(run_all(seeds(0, 20_000), progress=_progress))
            return _report(report)
    print(__doc__, file=sys.stderr)
    return 2


def everywhere(scenarios: Iterable[str]) -> Report:
    """Every fault at every call of these scenarios, then at whatever call sites only recoveries have."""
    with simulation():
        cases = [case for scenario in scenarios for case in singles(scenario)]
    report = run_all(cases)
    while gaps := report.gaps():
        before = len(report.untried)
        report.merge(run_all(gaps))
        if len(report.untried) >= before:
            break
    return report


def pairs(scenario: str, part: int = 0, of: int = 1) -> Report:
    """Every fault at every call, and then every fault at every call that the recovery from it makes."""
    with simulation():
        cases = singles(scenario)
    return run_all(cases[part::of], recoveries=True, progress=_progress)


def _case(seed: int, said: dict[str, str]) -> Case:
    numbers = said.get("ONLY")
    only = None if numbers is None else tuple(int(number) for number in numbers.split(",") if number)
    return Case(CHANCE, seed=seed, only=only, without=tuple(filter(None, said.get("WITHOUT", "").split(","))))


def _progress(done: int, of: int) -> None:
    print(f"\r{done} of {of} shares", end="" if done < of else "\n", file=sys.stderr, flush=True)


def _replay(case: Case) -> int:
    with simulation():
        result = run(case, keep_trace=True)
    print("\n".join(result.trace))
    print(f"{case}: {len(result.calls)} calls, trace {result.digest[:16]}; knobs: {case.knobs}")
    return _verdict(result)


def _verdict(result: Result) -> int:
    for broken in result.judgement.broken:
        print(f"  BROKEN  {broken}")
    for error in result.errors:
        print(f"  raised  {error}")
    return 0 if result.good else 1


def _states(report: Report) -> int:
    for each in report.situations:
        print(
            f"{each.state:>20} {each.job:>10}: {each.calls:>9,} calls from {each.sites:>3} places;"
            f" {each.struck:,} of {each.possible:,} faults at them"
        )
    for name in SOMETIMES:
        print(f"{report.happened[name]:>7,} runs  {name}")
    never = [name for name in SOMETIMES if not report.happened[name]]
    return 1 if never or _report(report, complete=False) else 0


def _report(report: Report, *, complete: bool = True) -> int:
    """What is untried is told only of runs that are meant to try everything."""
    print(
        f"{report.runs} runs, {report.calls} calls, {sum(report.struck.values())} faults at {len(report.sites)} call"
        f" sites; {report.unheard} uploads never notified; {len(report.failures)} failures"
    )
    for site, kind in report.untried if complete else ():
        print(f"  untried  {kind} at {site}")
    if report.failures:
        with simulation():
            for failure in report.failures[:SHOWN]:
                smallest = shrink(failure)
                print(f"{smallest.case}  (found as {failure.case}; knobs: {smallest.case.knobs})")
                _verdict(smallest)
    return 1 if report.failures else 0


if __name__ == "__main__":
    started = time.monotonic()
    code = main(sys.argv[1:])
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    sys.exit(code)

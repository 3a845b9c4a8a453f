"""The simulation from the command line.

python -m tests.sim seeds 0-2000          schedules and faults by chance; 2000 is not among them
python -m tests.sim seeds 184             one of them, with its trace (and ONLY=12,40 WITHOUT=twins: as a failure says)
python -m tests.sim at core 12:late       a scenario with these faults, with its trace
python -m tests.sim singles core          every fault at every call of a scenario, and what that leaves untried
python -m tests.sim pairs core 3/10       every fault of every recovery of a scenario, hence all pairs: a tenth of them,
                                          0/10 to 9/10
python -m tests.sim states 0-2000         which states were met, what struck in them, and what was never seen
python -m tests.sim all                   the singles of every scenario, the pairs of those without an accident,
                                          and 20,000 seeds
"""

import re
import sys
import time
from collections.abc import Iterable
from dataclasses import fields

from tests.sim.explore import Case, Report, Result, run, run_all, seeds, shrink, simulation, singles
from tests.sim.extra_scenarios import BEYOND, EXTRA
from tests.sim.faults import Kind
from tests.sim.knobs import Knobs
from tests.sim.scenarios import CHANCE, CORE, PLAIN, SCENARIOS
from tests.sim.seen import SOMETIMES

SHOWN = 5


class Wrong(ValueError):
    """What was asked for makes no sense; the text says why."""


def main(arguments: list[str]) -> int:
    try:
        return _done(arguments)
    except Wrong as wrong:
        print(f"tests.sim: {wrong}", file=sys.stderr)
        return 2


def _done(arguments: list[str]) -> int:
    match arguments:
        case ["seeds", text] if "-" in text:
            return _report(run_all(seeds(*_range(text))), complete=False)
        case ["seeds", text, *more]:
            return _replay(_case(text, more))
        case ["at", scenario, *faults]:
            return _replay(Case(_scenario(scenario), tuple(map(_fault, faults))))
        case ["singles", *scenarios]:
            return _report(everywhere([_scenario(each) for each in scenarios] or CORE))
        case ["pairs", scenario, *part]:
            return _report(pairs(_scenario(scenario), *_part(*part)), complete=False)
        case ["states", text]:
            return _states(run_all(seeds(*_range(text)), watched=True, progress=_progress))
        case ["all"]:
            report = everywhere((*PLAIN, *(name for name in EXTRA if name not in BEYOND)))
            for scenario in PLAIN:
                report.merge(pairs(scenario))
            report.merge(run_all(seeds(0, 20_000), progress=_progress))
            return _report(report)
    print(__doc__, file=sys.stderr)
    return 2


# ---- what was asked for


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)-(\d+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise Wrong(f"{text}: a range of seeds is FIRST-END, and END is not among them: 0-2000")
    return int(found[1]), int(found[2])


def _scenario(name: str) -> str:
    if name == CHANCE or name not in SCENARIOS | EXTRA:
        raise Wrong(f"there is no scenario {name}. There are: {', '.join((*PLAIN, *EXTRA))}")
    return name


def _fault(text: str) -> tuple[int, Kind]:
    found = re.fullmatch(r"(?:AT=)?(\d+):(.+)", text)
    if not found or found[2] not in tuple(Kind):
        raise Wrong(f"{text}: a fault is CALL:KIND, such as 12:late. The kinds are: {', '.join(Kind)}")
    return int(found[1]), Kind(found[2])


def _part(text: str = "0/1", *_: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise Wrong(f"{text}: a share is NUMBER/OF, from 0/{max(1, int(found[2])) if found else 10} on")
    return int(found[1]), int(found[2])


def _case(text: str, more: list[str]) -> Case:
    said = dict(each.split("=", 1) if "=" in each else (each, "") for each in more)
    known = {field.name for field in fields(Knobs)}
    without, numbers = _listed(said.pop("WITHOUT", "")), said.pop("ONLY", None)
    if not text.isdigit() or said or not all(each.isdigit() for each in _listed(numbers or "")):
        raise Wrong(f"{' '.join([text, *more])}: a seed is a number, and ONLY=12,40 WITHOUT=twins,skew may follow it")
    if unknown := set(without) - known:
        raise Wrong(f"there is no knob {', '.join(sorted(unknown))}. There are: {', '.join(sorted(known))}")
    only = None if numbers is None else tuple(map(int, _listed(numbers)))
    return Case(CHANCE, seed=int(text), only=only, without=tuple(without))


def _listed(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


# ---- what is run


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


def _progress(done: int, of: int) -> None:
    print(f"\r{done} of {of} shares", end="" if done < of else "\n", file=sys.stderr, flush=True)


def _replay(case: Case) -> int:
    with simulation():
        result = run(case, keep_trace=True)
    print("\n".join(result.trace))
    print(f"{case}: {len(result.calls)} calls, trace {result.digest[:16]}; knobs: {case.knobs}")
    asked = case.only or tuple(number for number, _ in case.faults)
    if missed := [number for number in asked if number not in result.fault_numbers]:
        raise Wrong(f"no fault struck at {missed}: the run has no such call, or the fault cannot strike it")
    if result.good:
        print("no promise was broken")
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
    code = _report(report, complete=False)
    if never := [name for name in SOMETIMES if not report.happened[name]]:
        print(f"never seen: {'; '.join(never)}. A campaign has to see each of them")
    return 1 if never else code


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
                print(f"{smallest.case}  (found as {failure.case} in a world with {failure.case.knobs})")
                print(f"  replay  python -m tests.sim {smallest.case.command}")
                _verdict(smallest)
    return 1 if report.failures else 0


if __name__ == "__main__":
    started = time.monotonic()
    try:
        code = main(sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
    sys.exit(code)

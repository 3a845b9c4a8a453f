"""The checker's commands: seeds, scenarios, pairs, states. `simulation.__main__` lists them."""

import re
import sys
from collections import Counter
from dataclasses import fields

from simulation.checker.draws import first_of_today
from simulation.checker.explore import (
    Case,
    Report,
    Result,
    everywhere,
    run,
    run_all,
    seeds,
    shrink,
    simulation,
    singles,
)
from simulation.checker.extra_scenarios import BEYOND, EXTRA, SHARED
from simulation.checker.purge import compared
from simulation.checker.scenarios import CHANCE, PLAIN, SCENARIOS
from simulation.checker.sometimes import SOMETIMES
from simulation.world.faults import Kind
from simulation.world.knobs import Knobs

SHOWN = 5


class Wrong(ValueError):
    """The arguments are wrong; the text has the reason."""


def main(arguments: list[str]) -> int | None:
    """The exit code; None if it is none of these commands."""
    try:
        return _done(arguments)
    except Wrong as wrong:
        print(f"simulation: {wrong}", file=sys.stderr)
        return 2


def _done(arguments: list[str]) -> int | None:
    match arguments:
        case ["seeds"]:
            return _report(run_all(seeds(first_of_today(), first_of_today() + 1_000)), complete=False)
        case ["seeds", text] if "-" in text:
            return _report(run_all(seeds(*_range(text))), complete=False)
        case ["seeds", text, *more]:
            return _replay(_case(text, more))
        case ["at", scenario, *faults]:
            return _replay(Case(_scenario(scenario), tuple(map(_fault, faults))))
        case ["singles", *scenarios]:
            return _report(everywhere([_scenario(each) for each in scenarios] or SHARED))
        case ["pairs", scenario, *part]:
            return _report(pairs(_scenario(scenario), *_part(*part)), complete=False)
        case ["states", text]:
            return _states(run_all(seeds(*_range(text)), watched=True, progress=_progress))
        case ["purge", text]:
            return _purge(*_range(text))
        case ["all"]:
            report = everywhere((*PLAIN, *(name for name in EXTRA if name not in BEYOND)))
            for scenario in PLAIN:
                report.merge(pairs(scenario))
            report.merge(run_all(seeds(0, 20_000), progress=_progress))
            return _report(report)
    return None


# ---- the arguments


def _range(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)-(\d+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise Wrong(f"{text}: a range of seeds is FIRST-END, without END, such as 0-2000")
    return int(found[1]), int(found[2])


def _scenario(name: str) -> str:
    if name == CHANCE or name not in SCENARIOS | EXTRA:
        raise Wrong(f"there is no scenario {name}. The scenarios are: {', '.join((*PLAIN, *EXTRA))}")
    return name


def _fault(text: str) -> tuple[int, Kind]:
    found = re.fullmatch(r"(?:AT=)?(\d+):(.+)", text)
    if not found or found[2] not in tuple(Kind):
        raise Wrong(f"{text}: a fault is CALL:KIND, such as 12:late. The kinds are: {', '.join(Kind)}")
    return int(found[1]), Kind(found[2])


def _part(text: str = "0/1", *_: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or int(found[1]) >= int(found[2]):
        raise Wrong(f"{text}: a share is NUMBER/OF, beginning with 0/{max(1, int(found[2])) if found else 10}")
    return int(found[1]), int(found[2])


def _case(text: str, more: list[str]) -> Case:
    said = dict(each.split("=", 1) if "=" in each else (each, "") for each in more)
    known = {field.name for field in fields(Knobs)}
    without, numbers = _listed(said.pop("WITHOUT", "")), said.pop("ONLY", None)
    if not text.isdigit() or said or not all(each.isdigit() for each in _listed(numbers or "")):
        raise Wrong(f"{' '.join([text, *more])}: a seed is a number, and ONLY=12,40 WITHOUT=twins,skew may follow it")
    if unknown := set(without) - known:
        raise Wrong(f"there is no knob {', '.join(sorted(unknown))}. The knobs are: {', '.join(sorted(known))}")
    only = None if numbers is None else tuple(map(int, _listed(numbers)))
    return Case(CHANCE, seed=int(text), only=only, without=tuple(without))


def _listed(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


# ---- what is run


def pairs(scenario: str, part: int = 0, of: int = 1) -> Report:
    """Every fault at every call, and then every fault at every call that the recovery from it makes."""
    with simulation():
        cases = singles(scenario)
    return run_all(cases[part::of], recoveries=True, progress=_progress)


def _purge(first: int, end: int) -> int:
    with simulation():
        found = [compared(seed) for seed in range(first, end)]
    differing = [pair for pair in found if pair.differing]
    for pair in differing:
        print(f"BROKEN: TTL changes an outcome: {pair}")
    met = sum((pair.met for pair in found), Counter[tuple[str, str]]())
    print(f"{len(found)} pairs, {len(differing)} of them differ. Expired items that were met:")
    for (prefix, how), times in sorted(met.items()):
        print(f"  {times:,} by a {how}, of the kind {prefix}")
    return int(bool(differing))


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
            f"{each.state:>20} {each.job:>10}: {each.calls:>9,} calls from {each.sites:>3} call sites;"
            f" {each.struck:,} of {each.possible:,} faults at them"
        )
    for name in SOMETIMES:
        print(f"{report.happened[name]:>7,} runs  {name}")
    code = _report(report, complete=False)
    if never := [name for name in SOMETIMES if not report.happened[name]]:
        print(f"never met: {'; '.join(never)}. A campaign has to meet each of them")
    return 1 if never else code


def _report(report: Report, *, complete: bool = True) -> int:
    """Untried faults are printed only for runs that should try everything (`complete`)."""
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
                print(f"  replay  python -m simulation {smallest.case.command}")
                _verdict(smallest)
    return 1 if report.failures else 0

"""The whole path in the simulated world: faults at every call, and some schedules by chance.

Of the faults at a call a share is tried here (`thinned`), `make faults` tries every one. `make sim` runs thousands of
schedules.
"""

import re
import threading
import time
import uuid
from dataclasses import fields
from pathlib import Path

import pytest

from simulation import checker
from simulation.__main__ import main
from simulation.checker.bugs import BUGS
from simulation.checker.draws import drawn, first_of_today
from simulation.checker.explore import Case, Report, everywhere, run, run_all, seeds, simulation, singles, thinned
from simulation.checker.extra_scenarios import CROSSED, SHARED
from simulation.checker.found import FOUND
from simulation.checker.planting import planted
from simulation.checker.scenarios import CHANCE, CORE, PLAIN
from simulation.checker.sometimes import SOMETIMES
from simulation.world.faults import Kind
from simulation.world.knobs import Knobs

SEEDS = 200
TODAY = first_of_today()
ONE_IN = 5
"""Of the faults that can strike a call, one in so many is tried here, by turns."""
HERE = 1
"""Processes that run the cases. The tests have a worker of pytest-xdist for each processor already."""
CROSSING = (Kind.DIE_AFTER, Kind.LATE, Kind.LOSE, Kind.SLOW)
"""The faults that have others act in between: after them a call is half done, done late, done twice, or under way."""
CHECKER = Path(checker.__path__[0])


def told(report: Report) -> str:
    """The first failures, as somebody needs them who wants to replay one."""
    return "\n".join(f"{each.case}: {each.judgement.broken}" for each in report.failures[:10])


@pytest.fixture(scope="module")
def world() -> object:
    with simulation():
        yield


@pytest.mark.parametrize("scenario", PLAIN)
def test_without_a_fault_everything_lands(world: object, scenario: str):
    assert run(Case(scenario)).judgement.broken == []


@pytest.mark.parametrize("case", [Case("core"), Case("growing", ((20, Kind.LATE),)), Case(CHANCE, seed=7)], ids=str)
def test_the_same_case_gives_the_same_trace(world: object, case: Case):
    one, other = run(case, keep_trace=True), run(case, keep_trace=True)
    assert one.trace == other.trace
    assert one.digest == other.digest


def test_a_knob_that_is_left_alone_changes_no_other():
    for case in seeds(0, 50):
        knobs = case.knobs
        for name in knobs.turned():
            left = knobs.without([name]).turned()
            assert left == {each: value for each, value in knobs.turned().items() if each != name}


def test_a_failure_says_its_knobs_and_can_be_replayed_without_them(capsys: pytest.CaptureFixture[str]):
    assert main(["seeds", "3", "ONLY=", "WITHOUT=latency,twins"]) == 0
    assert f"knobs: {drawn(3, ['latency', 'twins'])}" in capsys.readouterr().out


def test_the_checker_knows_nothing_of_the_product():
    """Else a mistake in the product could be the same mistake in what judges it."""
    for module in ("oracle", "books", "bounds", "second_opinion"):
        source = (CHECKER / f"{module}.py").read_text()
        assert not re.findall(r"^\s*(?:from|import) (?:tidegate|lambdas)", source, re.MULTILINE), module


def test_the_same_seed_gives_the_same_trace_in_another_process(world: object):
    (here,) = (run(case).digest for case in seeds(3, 4))
    (there,) = run_all(seeds(3, 5), processes=2).digests[:1]
    assert here == there


def test_a_thread_of_somebody_else_changes_nothing(world: object):
    alone = run(Case("core")).digest
    over = threading.Event()

    def elsewhere() -> None:
        while not over.is_set():
            time.sleep(0.0001)
            uuid.uuid4()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    try:
        assert {run(Case("core")).digest for _ in range(3)} == {alone}
    finally:
        over.set()
        thread.join()


def test_other_seeds_give_other_traces(world: object):
    assert len({run(case).digest for case in seeds(0, 5)}) == 5


@pytest.mark.parametrize(("bug", "case"), [(found.bug, case) for found in FOUND for case in found.cases], ids=str)
def test_what_was_found_and_mended_stays_mended(world: object, bug: str, case: Case):
    (mistake,) = (each for each in BUGS if each.name == bug)
    assert run(case).judgement.broken == []
    with planted(mistake):
        assert run(case).judgement.broken, "the run shows nothing any more: find another one"


@pytest.mark.timeout(600)
def test_faults_at_every_call_of_the_core_scenarios_are_recovered_from():
    report = everywhere(CORE, one_in=ONE_IN, processes=HERE)
    assert not report.failures, told(report)
    assert report.untried == []


@pytest.mark.parametrize("kinds", [tuple(Kind), CROSSING], ids=["every kind", "what crosses"])
def test_a_share_strikes_every_call_and_every_call_site_with_every_fault(world: object, kinds: tuple[Kind, ...]):
    whole = [(name, singles(name, kinds)) for name in CORE]
    struck: set[tuple[str, Kind]] = set()
    taken = [case for _, cases in whole for case in thinned(cases, ONE_IN, struck)]
    everything = [case for _, cases in whole for case in cases]
    assert set(taken) < set(everything)
    assert {(each.scenario, each.faults[0][0]) for each in taken} == {
        (each.scenario, each.faults[0][0]) for each in everything
    }
    calls = {name: run(Case(name)).calls for name in CORE}
    assert struck == {(calls[each.scenario][each.faults[0][0]][0], each.faults[0][1]) for each in everything}
    assert struck == {(calls[each.scenario][each.faults[0][0]][0], each.faults[0][1]) for each in taken}
    # the share beyond the first call of each call site
    assert len(taken) < len(struck) + len(everything) / ONE_IN + sum(map(len, calls.values()))


def test_a_share_of_one_in_one_is_everything(world: object):
    assert thinned(singles("core"), 1) == singles("core")


@pytest.mark.timeout(600)
def test_what_crosses_any_call_of_an_upload_that_comes_again_is_recovered_from(world: object):
    struck: set[tuple[str, Kind]] = set()
    cases = [case for name in CROSSED for case in thinned(singles(name, CROSSING), len(CROSSING), struck)]
    report = run_all(cases, processes=HERE)
    assert report.runs > 500
    assert not report.failures, told(report)


def test_what_ends_any_call_of_intake_with_strange_records_is_recovered_from(world: object):
    calls = run(Case("strange_records")).calls
    cases = [
        case
        for case in singles("strange_records", (Kind.FAIL, Kind.DIE_AFTER))
        if calls[case.faults[0][0]][0].startswith("intake")
    ]
    report = run_all(cases, processes=HERE)
    assert report.runs > 10
    assert not report.failures, told(report)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", ["unannounced", "screened", "split_unannounced"])
def test_what_ends_or_delays_any_call_of_an_audit_is_recovered_from(world: object, scenario: str):
    calls = run(Case(scenario)).calls

    def counts(case: Case) -> bool:
        site = calls[case.faults[0][0]][0]
        # of a screening each call counts that no other driver makes
        screens = site.startswith(("driver s3.ListObjectVersions", "driver dynamodb"))
        return site.startswith("audit ") or (scenario == "screened" and screens)

    cases = [case for case in singles(scenario, (Kind.DIE_AFTER, Kind.LATE)) if counts(case)]
    report = run_all(thinned(cases, 2 if scenario in SHARED else 6), processes=HERE)
    assert report.runs > 30
    assert not report.failures, told(report)


@pytest.mark.timeout(600)
def test_whatever_strikes_what_announces_and_what_consumes_every_batch_is_announced_and_counted(world: object):
    calls = run(Case("announced")).calls
    about = ("settle events.", "settle dynamodb.DeleteItem", "consumer ", "platform consumer ")
    cases = [case for case in singles("announced") if calls[case.faults[0][0]][0].startswith(about)]
    report = run_all(thinned(cases, ONE_IN), processes=HERE)
    assert report.runs > 50
    assert not report.failures, told(report)


@pytest.mark.timeout(600)
def test_schedules_by_chance_break_no_promise():
    report = run_all(seeds(TODAY, TODAY + SEEDS), processes=HERE)
    assert report.runs == SEEDS
    assert not report.failures, told(report)
    # what happens in few schedules need not be in those of today
    more = iter(seeds(0, SEEDS))
    while never := [name for name in SOMETIMES if not report.happened[name]]:
        case = next(more, None)
        assert case, f"the schedules are too tame: this never happened: {never}"
        report.add(run(case))
    assert not report.failures, told(report)
    turned = {name for case in seeds(0, SEEDS) for name in case.knobs.turned()}
    assert turned == {knob.name for knob in fields(Knobs)}


BROKE_ONCE = (
    1319,
    701465,
    901000,
    901094,
    901514,
    902145,
    902485,
    28149263,
    28149487,
    50000075,
    50000316,
    60000370,
    61000179,
    61001012,
    63000305,
    63000404,
    66000158,
    66000630,
    66001136,
    66002474,
    72002087,
    72004454,
    72010944,
)


@pytest.mark.parametrize("seed", BROKE_ONCE)
def test_a_schedule_that_broke_a_promise_breaks_none(world: object, seed: int):
    assert run(Case(CHANCE, seed=seed)).judgement.broken == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["at", "core", "12:late"],
        ["seeds", "3"],
        ["seeds", "3-5"],
        ["pairs", "core", "690/9999"],
        ["purge", "3-4"],
        ["at", "core", "12:slow"],
        ["mistakes", "--find", "the last row is left out", "--in", "core"],
        ["evidence", "--check", "--sections", "found"],
        ["traffic", "--scale", "5000"],
    ],
    ids=" ".join,
)
def test_the_command_line_runs_what_it_says_and_ends_well(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["seeds", "5-3"], "a range of seeds is FIRST-END"),
        (["seeds", "-3"], "a range of seeds is FIRST-END"),
        (["seeds", "3", "FOO=1"], "ONLY=12,40"),
        (["seeds", "3", "WITHOUT=twinz"], "there is no knob twinz"),
        (["seeds", "3", "ONLY=99999"], "no fault struck at [99999]"),
        (["singles", "cor"], "there is no scenario cor. The scenarios are: core"),
        (["at", "core", "12:lat"], "The kinds are: die-before"),
        (["at", "core", "9999:late"], "no fault struck at [9999]"),
        (["pairs", "core", "x"], "a share is NUMBER/OF"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_what_makes_no_sense_is_told_with_what_would(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


def test_a_failure_says_how_to_replay_it(world: object, capsys: pytest.CaptureFixture[str]):
    (mistake,) = (each for each in BUGS if each.name == "the last row is left out")
    with planted(mistake):
        for case in (Case("core"), Case(CHANCE, seed=8)):
            failed = run(case)
            assert not failed.good
            assert main(case.command.split()) == 1
    assert "BROKEN" in capsys.readouterr().out


def test_what_the_command_line_does_not_know_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["everything"]) == 2
    assert "python -m simulation" in capsys.readouterr().err

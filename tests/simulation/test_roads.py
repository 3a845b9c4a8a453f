"""The short road answers as the long one does: which of the two a call takes changes nothing but the time it takes."""

from collections.abc import Iterator

import pytest

from simulation.checker.explore import Case, Result, run, seeds, simulation
from simulation.checker.extra_scenarios import EXTRA
from simulation.checker.scenarios import PLAIN
from simulation.world.faults import Kind

CASES = (
    *map(Case, (*PLAIN, *EXTRA)),
    *seeds(0, 12),
    *(Case("core", ((number, kind),)) for number, kind in enumerate([*Kind] * 3, start=12)),
)


@pytest.fixture(scope="module", autouse=True)
def product_at_hand() -> Iterator[None]:
    with simulation():
        yield


def told(result: Result) -> tuple[object, ...]:
    return result.trace, result.judgement, result.errors


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_roads_lead_to_the_same_trace(case: Case) -> None:
    short, long = run(case, keep_trace=True), run(case, keep_trace=True, long_road_only=True)
    assert told(short) == told(long)

"""The short road answers as the long one does: which of the two a call takes changes nothing but the time it takes."""

from collections.abc import Iterator

import pytest

from simulation.checker.explore import Case, Result, run, seeds, simulation
from simulation.checker.extra_scenarios import EXTRA
from simulation.checker.scenarios import PLAIN
from simulation.world import product
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


def test_a_metric_is_written_for_the_first_of_its_kind_and_a_wrong_one_each_time() -> None:
    written: list[tuple[object, ...]] = []

    class Real:
        def __init__(self, **_: object) -> None:
            self.said: list[object] = []

        def add_metric(self, name: str, unit: str, value: int) -> None:
            if not name:
                raise ValueError("a metric has a name")
            self.said += [name, value]

        def add_dimension(self, name: str, value: str) -> None:
            self.said.append(value)

        def flush_metrics(self) -> None:
            written.append(tuple(self.said))

    once = product._written_once(Real)

    def measure(name: str, value: int, route: str) -> None:
        metric = once(service="")
        metric.add_metric(name=name, unit="Count", value=value)
        metric.add_dimension(name="route", value=route)
        metric.flush_metrics()

    for name, value, route in (("m", 1, "a"), ("m", 2, "a"), ("m", 3, "b"), ("n", 4, "a")):
        measure(name, value, route)
    assert written == [("m", 1, "a"), ("m", 3, "b"), ("n", 4, "a")]
    for _ in range(2):
        with pytest.raises(ValueError, match="has a name"):
            measure("", 1, "a")

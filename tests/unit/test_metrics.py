"""The table of metrics: each has a name of its own, and the dimensions that CloudWatch tells its series apart by."""

import pytest

from tidegate.core.outcomes import Tally
from tidegate.flows.settle import SETTLED
from tidegate.metrics import BY_DEPLOYMENT, BY_ROUTE, Measured, Metric

SEVERAL = Measured("Landed", "something landed")
ALONE = Measured("Strayed", "something strayed", BY_DEPLOYMENT)


def test_no_two_metrics_are_called_alike():
    assert len({metric.value.name for metric in Metric}) == len(Metric)


def test_a_metric_by_route_has_two_dimensions_and_another_has_one():
    assert SEVERAL.dimensions("tidegate", "flights") == {"deployment": "tidegate", "route": "flights"}
    assert ALONE.dimensions("tidegate", "") == {"deployment": "tidegate"}
    for metric in Metric:
        route = "flights" if metric.value.by == BY_ROUTE else ""
        assert tuple(metric.value.dimensions("tidegate", route)) == metric.value.by


@pytest.mark.parametrize(("measured", "route"), [(SEVERAL, ""), (ALONE, "flights")])
def test_a_series_that_nothing_reads_is_refused(measured: Measured, route: str):
    with pytest.raises(ValueError, match="is measured by deployment"):
        measured.dimensions("tidegate", route)


def test_every_number_of_a_tally_is_counted_as_a_metric():
    """What was present already is a duplicate that the job refused. What was replaced or left out has no metric."""
    assert SETTLED.keys() | {"replaced", "left_out"} == Tally(rejected=1).as_dict().keys()
    for number, metric in SETTLED.items():
        own = "DuplicatesRefused" if number == "present" else f"Settled{number.title()}"
        assert metric.value.name == own

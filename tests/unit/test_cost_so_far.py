"""What uploads have cost so far, from what the ledger counts."""

from dataclasses import replace

import pytest

from tidegate.cost.bill import ALARMS, METRICS, DailyTraffic, Gathering, bill
from tidegate.cost.so_far import CountedSoFar, notices, so_far, standing

SOME = CountedSoFar(uploads=2_000, batches=4, attempts=5, max_wait=60)


def test_nothing_uploaded_cost_nothing():
    found = so_far("flights", CountedSoFar(0, 0, 0, 60))
    assert (found.lines, found.dollars, found.jobs) == ((), 0, 0)


def test_there_are_no_more_notices_than_windows_and_no_more_than_uploads():
    assert notices(SOME) == 4 * 12
    assert notices(replace(SOME, uploads=7)) == 7
    # the shortest window is two seconds
    assert notices(replace(SOME, max_wait=5)) == 4 * 3


@pytest.mark.parametrize("more", [{"uploads": 9_000}, {"batches": 9}, {"attempts": 9}, {"size": 1e9}])
def test_more_of_anything_costs_more(more: dict[str, int]):
    assert so_far("", replace(SOME, **more)).dollars > so_far("", SOME).dollars


def test_a_day_of_a_traffic_costs_its_share_of_the_month():
    traffic, gathering = DailyTraffic(117_123, 47_000), Gathering()
    month = bill(traffic, gathering)
    day = so_far("", CountedSoFar(117_123, round(month.jobs / 30), round(month.jobs / 30), 60, 47_000))
    monthly = sum(line.dollars for line in month.lines if line.name.startswith(("EMR", "DynamoDB, writes")))
    daily = sum(line.dollars for line in day.lines if line.name.startswith(("EMR", "DynamoDB, writes")))
    assert daily * 30 == pytest.approx(monthly, rel=0.05)


def test_a_month_without_uploads_has_what_stands_and_no_job():
    found = {line.name: line.quantity for line in standing().lines}
    assert (found["CloudWatch, alarms"], found["CloudWatch, metrics"]) == (ALARMS, METRICS)
    assert found["Lambda, invocations"] == 30 * 24 * 60
    assert "EMR Serverless, vCPU" not in found
    assert standing().uploads == 0

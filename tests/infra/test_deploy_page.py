"""docs/deploy.md says what the templates and the prices say."""

import json
import re
from pathlib import Path

import pytest

from simulation.comparison.costs import JOB_MINUTES, PRICES, RECORD, ReplayRecord, job_dollars, table
from tests.infra.conftest import SIMPLE, Template
from tidegate.cost import bill
from tidegate.metrics import BY_DEPLOYMENT, BY_ROUTE, Metric
from tidegate.settings import parse

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "deploy.md").read_text()


LAST = ReplayRecord.read(RECORD)


def test_the_costs_are_those_of_what_the_last_replay_counted():
    """`python -m simulation costs` prints them for the page."""
    assert table(LAST.used, LAST.uploads) in PAGE


def test_the_evidence_is_of_the_same_replay():
    evidence = (DOCS / "evidence.md").read_text()
    assert f"| uploads in the ledger | {LAST.uploads:,} | status |" in evidence
    assert f"| Spark jobs | {LAST.used.jobs:,} | status |" in evidence


def test_what_is_paid_for_fits_into_the_time_that_there_was():
    # one slot, and the last job may begin when the last upload has come
    assert LAST.used.job_seconds <= LAST.seconds + 2 * LAST.used.job_seconds / LAST.used.jobs


def test_the_price_of_a_job_is_that_of_its_workers():
    assert f"{100 * job_dollars(60 * JOB_MINUTES):.1f} cents" in PAGE


def test_the_lines_follow_from_the_prices_and_add_up():
    rows = PAGE[PAGE.index("| a million uploads |") :].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    *lines, together = cells
    assert [name for name, *_ in lines] == list(PRICES)
    for name, used, said, dollars in lines:
        price = PRICES[name]
        assert said == str(price)
        # the quantity is printed in whole units
        assert float(dollars) == pytest.approx(price.of(float(used.replace(",", ""))), abs=price.of(0.5) + 0.006)
        assert price.source in PAGE
    assert together[0] == "together"
    assert float(together[3]) == pytest.approx(sum(float(dollars) for *_, dollars in lines))


def watched(template: Template, toml: str) -> int:
    """The metrics that alarms watch, which is what is paid for: of a query each that it finds
    (https://aws.amazon.com/cloudwatch/pricing/)."""
    routes = len(parse(toml).routes)
    return sum(
        sum(1 if "MetricStat" in each else routes for each in alarm["Metrics"] if "FILL" not in str(each))
        if "Metrics" in alarm
        else 1
        for alarm in template.of("AWS::CloudWatch::Alarm").values()
    )


def test_the_alarms_that_are_paid_for_are_those_of_the_template(synthesize):
    expecting = SIMPLE.replace('format = "json"', 'format = "json"\nexpect_every = "1h"')
    second = SIMPLE[SIMPLE.index("[[route]]") :].replace('"flights"', '"other"').replace("flights/", "other/")
    one, two, more = (watched(synthesize(toml), toml) for toml in (SIMPLE, f"{SIMPLE}\n{second}", expecting))
    each = two - one
    assert more == one + 1
    said = f"{one - each} metrics that alarms watch, {each} for each route, and one more for each with `expect_every`"
    assert f"| {said} | {0.1 * one:.2f} |" in PAGE
    assert one == bill.ALARMS


def test_the_metrics_that_are_paid_for_are_all_that_there_are_and_the_dashboard_shows_no_other(synthesize):
    of_route = [metric for metric in Metric if metric.value.by == BY_ROUTE]
    of_deployment = [metric for metric in Metric if metric.value.by == BY_DEPLOYMENT]
    one = len(of_route) + len(of_deployment)
    said = f"{len(of_deployment)} metrics for the deployment and {len(of_route)} for each route, if each is written"
    assert f"| {said} all month; some are rare | {0.3 * one:.2f} |" in PAGE
    assert one == bill.METRICS
    (dashboard,) = synthesize(SIMPLE).of("AWS::CloudWatch::Dashboard").values()
    shown = set(re.findall(r'MetricName="(\w+)"', json.dumps(dashboard).replace("\\", "")))
    assert shown
    assert shown <= {metric.value.name for metric in Metric}

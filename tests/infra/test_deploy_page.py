"""docs/deploy.md says what the templates and the prices say."""

import json
import re
from pathlib import Path

import pytest

from tests.infra.conftest import SIMPLE, Template
from tidegate.cost import bill
from tidegate.cost.prices import OF_REQUESTS, PRICES
from tidegate.metrics import BY_DEPLOYMENT, BY_ROUTE, Metric
from tidegate.settings import parse

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "deploy.md").read_text()


TRAFFIC = bill.DailyTraffic(117_123, 47_000)


def table(made: bill.Bill) -> str:
    """What a million uploads cause. The sum below the lines is the sum of the rounded dollars."""
    million = 1e6 / made.uploads
    rows = [(line.name, line.quantity * million, round(line.dollars * million, 2)) for line in made.lines]
    rows = [row for row in rows if row[0] in OF_REQUESTS]
    text = ["| a million uploads | used | price | dollars |", "|---|---:|---|---:|"]
    text += [f"| {name} | {used:,.0f} | {PRICES[name]} | {dollars:,.2f} |" for name, used, dollars in rows]
    return "\n".join([*text, f"| together | | | {sum(dollars for *_, dollars in rows):,.2f} |"])


def test_the_costs_are_those_of_the_model():
    assert table(bill.bill(TRAFFIC, bill.Gathering())) in PAGE, table(bill.bill(TRAFFIC, bill.Gathering()))


def test_the_lines_follow_from_the_prices_and_add_up():
    rows = PAGE[PAGE.index("| a million uploads |") :].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows]
    *lines, together = cells
    assert [name for name, *_ in lines] == list(OF_REQUESTS)
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

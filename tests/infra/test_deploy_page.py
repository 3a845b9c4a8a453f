"""docs/deploy.md says what the templates and the prices say."""

import json
import re
from pathlib import Path

import pytest

from infra.limits import smallest_job
from tests.infra.conftest import VARIANTS
from tests.sim.costs import JOB_MINUTES, PRICES

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text()

# where a type's service is called otherwise by IAM, or is no service of its own
IAM_NAMES = {"emrserverless": "emr-serverless", "cdk": "", "custom": "lambda"}


def services_allowed() -> set[str]:
    block = re.search(r"<!-- policy -->\n```json\n(.*?)```", PAGE, re.DOTALL)
    assert block
    policy = json.loads(block[1])
    return {action.partition(":")[0] for statement in policy["Statement"] for action in statement["Action"]}


@pytest.mark.parametrize("name", VARIANTS)
def test_the_deployers_policy_covers_the_service_of_every_resource(variant, name):
    kinds = {each["Type"] for each in variant(name).resources.values()}
    services = {kind.split("::")[1].lower() if kind.startswith("AWS::") else "custom" for kind in kinds}
    needed = {IAM_NAMES.get(service, service) for service in services} - {""}
    assert needed <= services_allowed()


def test_the_price_of_a_job_is_that_of_its_workers():
    job = smallest_job()
    hours = JOB_MINUTES / 60
    dollars = PRICES["EMR Serverless, vCPU"].of(hours * job.vcpu) + PRICES["EMR Serverless, memory"].of(
        hours * job.memory
    )
    assert f"{100 * dollars:.1f} cents" in PAGE


def test_the_costs_name_every_price_that_was_counted():
    table = PAGE[PAGE.index("| a million uploads |") :].partition("\n\n")[0]
    for name, price in PRICES.items():
        (row,) = (line for line in table.splitlines() if line.startswith(f"| {name} |"))
        used, said, dollars = (cell.strip() for cell in row.split("|")[2:5])
        assert said == str(price)
        # the quantity is printed in whole units
        assert float(dollars) == pytest.approx(price.of(float(used.replace(",", ""))), abs=price.of(0.5) + 0.006)
        assert price.source in PAGE

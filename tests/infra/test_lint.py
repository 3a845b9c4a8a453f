"""cfn-lint takes every variant of the template for one that CloudFormation would take where all services are."""

import json

import pytest

from tests.infra.conftest import VARIANTS

REGION = "us-east-1"
IGNORED = {
    "W3005": "CDK makes a function wait for its role and the role's policy; that it names the role says it already",
}


def findings(body: dict) -> list[str]:
    from cfnlint import api  # takes seconds, and every worker imports this file
    from cfnlint.config import ManualArgs

    matches = api.lint(json.dumps(body), config=ManualArgs(regions=[REGION]))
    return [f"{each.rule.id} {each.message}" for each in matches]


@pytest.mark.parametrize("name", VARIANTS)
def test_cfn_lint_finds_nothing(variant, name):
    assert not [each for each in findings(variant(name).body) if each.split()[0] not in IGNORED]


def test_what_is_ignored_is_still_found(simple):
    found = {each.split()[0] for each in findings(simple.body)}
    assert found == set(IGNORED)

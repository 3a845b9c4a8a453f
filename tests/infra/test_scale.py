"""The largest deployments that the settings take stay within the limits of CloudFormation, IAM, SQS and CloudWatch."""

import json
from collections import Counter
from typing import Any

import pytest

from tests.infra.conftest import KEY_ARN, ROOT, Synthesize, Template
from tests.infra.test_permissions import text
from tidegate.settings import SettingsError, parse
from tidegate.settings.scale import MOST_BUCKETS, MOST_ROUTES, NOTIFICATIONS, ONE_BY_ONE, PATTERN

RESOURCES = 500
TEMPLATE_BYTES = 1_000_000
"""https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html"""
INLINE = 10_240
"""Characters of all inline policies of a role, without white space
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html)."""
QUEUE_POLICY, QUEUE_STATEMENTS = 8_192, 20
"""https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html"""
LONG = {
    "AWS::Partition": "aws-us-gov",
    "AWS::Region": "us-gov-east-1",
    "AWS::AccountId": "123456789012",
    "AWS::URLSuffix": "amazonaws.com.cn",
}


def toml(routes: int, buckets: int, head: str = "", of_each: str = "") -> str:
    """So many routes, one after the other on so many buckets and in five databases."""
    return head + "".join(
        f"""
[[route]]
name = "route-{number:03}"
bucket = "example-landing-{number % buckets:02}"
prefix = "sources/of-{number:03}/"
suffix = ".json.gz"
expect_every = "1d"
format = "json"
table = "lake.department_{number % 5}.table_of_{number:03}"
schema = "id bigint"
{of_each}"""
        for number in range(routes)
    )


LARGE = {
    "created": toml(MOST_ROUTES, MOST_BUCKETS),
    "one bucket in two": toml(MOST_ROUTES, 2),
    "for a trial": toml(MOST_ROUTES, MOST_BUCKETS, "[deployment]\ndev = true\n", 'source = "eventbridge"\n'),
    "a key": toml(MOST_ROUTES, MOST_BUCKETS, '[security]\nencryption = "customer"\naccess_logs = "example-logs"\n'),
    "s3tables": toml(
        MOST_ROUTES,
        MOST_BUCKETS,
        '[catalog]\nwarehouse = "arn:aws:s3tables:us-east-1:123456789012:bucket/example-tables"\n',
    ),
    "existing": toml(MOST_ROUTES, MOST_BUCKETS, "", "existing = true\n"),
    "existing, by EventBridge": toml(MOST_ROUTES, MOST_BUCKETS, "", 'existing = true\nsource = "eventbridge"\n'),
}


@pytest.fixture(scope="module", params=LARGE)
def large(request: pytest.FixtureRequest, synthesize: Synthesize) -> Template:
    return synthesize(LARGE[request.param])


def written(value: Any) -> Any:
    """The template's value as AWS gets it: no reference is longer than the words that stand for it."""
    match value:
        case {"Ref": name}:
            return LONG.get(name) or "tidegate-" + name + "-" + 12 * "X"
        case {"Fn::GetAtt": [name, _]}:
            return "arn:aws-us-gov:emr-serverless:us-gov-east-1:123456789012:/tidegate-" + name + "-" + 12 * "X"
        case {"Fn::Join": [_, parts]}:
            return "".join(written(part) for part in parts)
        case {"Fn::Sub": str(found)}:
            return found
        case dict():
            return {name: written(each) for name, each in value.items()}
        case list():
            return [written(each) for each in value]
    return value


def length(document: Any) -> int:
    return len(json.dumps(written(document), separators=(",", ":")))


def test_the_template_fits(large: Template) -> None:
    assert len(large.resources) <= RESOURCES, Counter(each["Type"] for each in large.resources.values())
    assert len(json.dumps(large.body, indent=1)) <= TEMPLATE_BYTES
    assert len(large.body["Outputs"]) <= 200
    assert not large.violations


def test_every_roles_policies_fit_without_one_that_the_deployer_may_not_create(large: Template) -> None:
    assert not large.of("AWS::IAM::ManagedPolicy")
    for role in large.of("AWS::IAM::Role"):
        documents = [
            each["PolicyDocument"] for each in large.of("AWS::IAM::Policy").values() if {"Ref": role} in each["Roles"]
        ]
        assert sum(map(length, documents)) <= INLINE, role


def test_every_queues_policy_fits(large: Template) -> None:
    for name, each in large.of("AWS::SQS::QueuePolicy").items():
        assert len(each["PolicyDocument"]["Statement"]) <= QUEUE_STATEMENTS, name
        assert length(each["PolicyDocument"]) <= QUEUE_POLICY, name


def test_every_rules_pattern_fits(large: Template) -> None:
    for name, rule in large.of("AWS::Events::Rule").items():
        assert length(rule.get("EventPattern", {})) <= 2_048, name


def test_alarms_do_not_grow_with_the_routes_but_for_those_that_ask(large: Template, simple: Template) -> None:
    alarms = len(large.of("AWS::CloudWatch::Alarm"))
    assert alarms == len(simple.of("AWS::CloudWatch::Alarm")) + MOST_ROUTES
    assert len(simple.of("AWS::CloudWatch::Alarm")) <= 12


def test_statements_do_not_grow_with_the_routes(synthesize: Synthesize) -> None:
    def statements(routes: int) -> list[Any]:
        template = synthesize(toml(routes, 2))
        role, _ = template.one("AWS::IAM::Role", "EmrJobRole")
        return template.statements(role)

    assert statements(ONE_BY_ONE + 2) == statements(MOST_ROUTES // 2)


def test_of_few_routes_the_job_may_read_and_write_only_theirs(synthesize: Synthesize) -> None:
    few, more = (synthesize(toml(routes, 2)) for routes in (ONE_BY_ONE, ONE_BY_ONE + 1))

    def named(template: Template) -> str:
        role, _ = template.one("AWS::IAM::Role", "EmrJobRole")
        return " ".join(
            text(each)
            for statement in template.statements(role)
            for each in (statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]])
        )

    assert "example-landing-00/sources/of-000/*.json.gz" in named(few)
    assert "table/department_0/table_of_000" in named(few)
    assert "example-landing-00/sources/of-0*" in named(more)
    assert "table/department_0/*" in named(more)
    assert "of-000/" not in named(more)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (toml(MOST_ROUTES + 1, 3), rf"route\.{MOST_ROUTES + 1}: one deployment takes {MOST_ROUTES} routes"),
        (
            toml(MOST_BUCKETS + 2, MOST_BUCKETS + 1),
            rf"route\.{MOST_BUCKETS + 1}: one deployment takes uploads of {MOST_BUCKETS} buckets",
        ),
        (
            toml(NOTIFICATIONS + 1, 1),
            rf"route\.{NOTIFICATIONS + 1}: S3 notifies {NOTIFICATIONS} places of a bucket at most",
        ),
        (toml(NOTIFICATIONS, 1, of_each='source = "eventbridge"\n'), r"EventBridge takes 2,048 characters"),
        (
            toml(MOST_BUCKETS, MOST_BUCKETS).replace("example-landing", "e" * 60),
            r"the role of the jobs names what the routes read and write, in [\d,]+ characters",
        ),
    ],
    ids=["routes", "buckets", "notifications", "pattern", "role"],
)
def test_more_than_a_deployment_takes_is_refused_with_a_sentence(source: str, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        parse(source)


def test_the_longest_names_that_are_taken_fit(synthesize: Synthesize) -> None:
    head = f'[security]\nencryption = "{KEY_ARN}"\n[deployment]\nname = "{"d" * 28}"\n'
    for buckets in range(MOST_BUCKETS, 0, -1):
        source = toml(MOST_ROUTES, buckets, head).replace("example-landing", "e" * 60)
        try:
            parse(source)
        except SettingsError:
            continue
        break
    test_every_roles_policies_fit_without_one_that_the_deployer_may_not_create(synthesize(source))


def test_the_page_tells_the_numbers() -> None:
    section = " ".join((ROOT / "docs" / "deploy.md").read_text().partition("## How many routes\n")[2].split())
    assert section.startswith(f"One deployment takes {MOST_ROUTES} routes, and uploads of {MOST_BUCKETS} buckets.")
    for told in (f"| {NOTIFICATIONS} routes of a bucket", f"{PATTERN:,} characters of a", f"Up to {ONE_BY_ONE} routes"):
        assert told in section

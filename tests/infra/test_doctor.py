"""`tidegate doctor --aws` before and after a deployment, by the real CDK CLI, in an account that moto plays.

moto has no quotas of EMR Serverless, and its CloudFormation leaves parts of the stack out
(tests/infra/test_deploy.py names them). The first are answered here, the others made through the services' own APIs.
No function of the stack runs there, so what settling writes is written here. moto denies nothing, either: what a denied
call leads to is answered here as well.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.infra.conftest import Template
from tests.support.answers import DENIED, Answers, No, Scripted
from tests.support.cloud import ACCOUNT, CREDENTIALS, ENVIRONMENT, Cloud, cloud
from tests.unit.test_cli import agree, documented, shape
from tests.unit.test_cli_account import KEY, S3TABLES, SUBNETS
from tidegate.cli import main
from tidegate.cli.account.ask import Account
from tidegate.cli.account.visit import named, visit
from tidegate.cli.checks import Check, CheckState
from tidegate.cli.exits import Exit
from tidegate.flows.ledger import Ledger
from tidegate.settings import parse
from tidegate.stores.dynamodb import DynamoDbStore
from tidegate.wiring import Resources

POLICY = json.loads((Path(__file__).parents[2] / "docs" / "doctor-policy.json").read_text())
DEPLOY = ("deploy", "--method=direct", "--require-approval=never")
CONFIG = """
[deployment]
name = "examined"

[[route]]
name = "orders"
bucket = "examined-landing"
format = "csv"
table = "lake.shop.orders"
schema = "id bigint"

[[route]]
name = "prices"
bucket = "examined-theirs"
existing = true
prefix = "prices of/"
format = "json"
table = "lake.shop.prices"
schema = "id bigint"
"""
SETTINGS = parse(CONFIG)
FOUND_SUBNET = {"Subnets": [{"SubnetId": "subnet-01234567", "VpcId": "vpc-1", "AvailabilityZone": "a"}]}
QUOTAS: dict[str, Scripted] = {
    "GetServiceQuota": {"Quota": {"Value": 16.0}},
}
"""What moto does not know."""


@dataclass(frozen=True)
class Examined:
    """A bootstrapped account with the deployment of CONFIG."""

    cloud: Cloud
    outputs: Path
    config: Path
    before: list[Check]
    """What the doctor said of the bootstrapped account, before the deployment."""
    at_first: list[Check]
    """The same, of an account that had not even that."""

    @property
    def resources(self) -> Resources:
        found = named(self.outputs)
        assert found is not None
        return found


def ask(
    given: dict[str, Scripted] | None = None, resources: Resources | None = None, toml: str = CONFIG
) -> list[Check]:
    answers = Answers({**QUOTAS, **(given or {})})
    return visit(parse(toml), resources, account=Account(answers.session()))


def line(checks: list[Check], name: str) -> Check:
    (found,) = (check for check in checks if check.name == name)
    return found


def troubles(checks: list[Check]) -> dict[str, CheckState]:
    return {check.name: check.state for check in checks if check.state is not CheckState.OK}


@pytest.fixture(scope="module")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Examined]:
    folder = tmp_path_factory.mktemp("examined")
    with cloud(tmp_path_factory.mktemp("cloud")) as running, pytest.MonkeyPatch.context() as patch:
        for name in ("TIDEGATE_LEDGER", "AWS_PROFILE"):
            patch.delenv(name, raising=False)
        # as an address and not as a name, so that boto3 keeps buckets out of the host's
        endpoint = running.endpoint.replace("localhost", "127.0.0.1")
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        at_first = ask()
        running.cdk("bootstrap", ENVIRONMENT, folder=folder)
        s3 = running.client("s3")
        s3.create_bucket(Bucket="examined-theirs")
        keep_versions(running, "examined-theirs")
        before = ask()
        config, outputs = folder / "tidegate.toml", folder / "outputs.json"
        config.write_text(CONFIG)
        context = ("--context", f"tidegate:config={config}", "--context", "tidegate:local=true")
        running.cdk(*DEPLOY, *context, "--output", str(folder / "cdk.out"), "--outputs-file", str(outputs))
        yield Examined(running, outputs, config, before, at_first)


@pytest.fixture(scope="module")
def bare(examined: Examined) -> list[Check]:
    """What the doctor says of a stack that lacks what moto's CloudFormation leaves out."""
    return ask(resources=examined.resources)


@pytest.fixture(scope="module")
def whole(examined: Examined, bare: list[Check]) -> Resources:
    """The deployment with those parts."""
    resources = examined.resources
    keep_versions(examined.cloud, "examined-landing")
    notify(examined.cloud, resources)
    settle(examined.cloud, resources)
    return resources


def arn(cloud: Cloud, url: str) -> str:
    found = cloud.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def keep_versions(cloud: Cloud, bucket: str, status: str = "Enabled") -> None:
    cloud.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


def notify(cloud: Cloud, resources: Resources, *, prefix: str = "") -> None:
    rules = {"Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}} if prefix else {}
    told = {"QueueArn": arn(cloud, resources.buffer), "Events": ["s3:ObjectCreated:*"], **rules}
    cloud.client("s3").put_bucket_notification_configuration(
        Bucket="examined-landing", NotificationConfiguration={"QueueConfigurations": [told]}
    )


def settle(cloud: Cloud, resources: Resources, toml: str = CONFIG) -> None:
    """Write down the routes, as settling does."""
    ledger = Ledger(DynamoDbStore(cloud.client("dynamodb"), resources.ledger), lambda: 0, 0)
    for route in parse(toml).core_routes():
        ledger.remember_route(route)


# --- before ---


def test_an_account_without_bootstrap_is_told_what_to_run(examined: Examined):
    assert troubles(examined.at_first) == {
        "cdk bootstrap": CheckState.FAIL,
        "bucket examined-theirs": CheckState.FAIL,
    }
    assert line(examined.at_first, "cdk bootstrap").advice == f"run `npx cdk bootstrap {ENVIRONMENT}`"
    assert line(examined.at_first, "bucket examined-theirs").finding == "does not exist"


def test_a_bootstrapped_account_is_ready(examined: Examined):
    assert troubles(examined.before) == {}
    said = {check.name: check.finding for check in examined.before}
    assert said["credentials"].startswith(f"arn:aws:sts::{ACCOUNT}:")
    assert said["stack examined"] == "not deployed yet"
    assert said["bucket examined-landing"] == "the name is free; the deployment creates it"
    assert said["bucket examined-theirs"] == f"exists, and belongs to {ACCOUNT}"
    assert said["notifications of examined-theirs"] == "leave room for ours"
    assert said["lake formation"] == "leaves new databases and tables to IAM"


def test_an_existing_buckets_notifications_may_be_in_the_way(examined: Examined):
    s3, bucket = examined.cloud.client("s3"), "examined-busy"
    s3.create_bucket(Bucket=bucket)
    topic = examined.cloud.client("sns").create_topic(Name="theirs")["TopicArn"]
    toml = CONFIG.replace("examined-theirs", bucket).replace('"examined"', '"again"')

    def told(prefix: str, event: str = "s3:ObjectCreated:Put") -> Check:
        rules = {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}}
        s3.put_bucket_notification_configuration(
            Bucket=bucket,
            NotificationConfiguration={
                "TopicConfigurations": [{"TopicArn": topic, "Events": [event], "Filter": rules}]
            },
        )
        return line(ask(toml=toml), f"notifications of {bucket}")

    assert told("stock/").state is CheckState.OK
    assert told("prices+of/", "s3:ObjectRemoved:*").state is CheckState.OK
    # S3 keeps filters encoded: this is the route's `prices of/`
    overlapping = told("prices+of/2026/")
    assert overlapping.state is CheckState.FAIL
    assert overlapping.finding == f"{topic} is notified of keys prices of/2026/* already, which route prices takes too"


def test_a_database_that_lake_formation_keeps_is_told_with_the_grant(examined: Examined, whole: Resources):
    glue, formation = examined.cloud.client("glue"), examined.cloud.client("lakeformation")
    glue.create_database(DatabaseInput={"Name": "shop"})
    try:
        found = line(ask(toml=CONFIG.replace('"examined"', '"again"')), "database shop")
        assert (found.state, "JOB_ROLE_ARN" in found.advice) == (CheckState.WARN, True)
        found = line(ask(resources=whole), "database shop")
        assert found.state is CheckState.FAIL
        assert f"DataLakePrincipalIdentifier={whole.job_role} --permissions CREATE_TABLE" in found.advice
        resource = {"Database": {"Name": "shop"}}
        for principal in (whole.job_role, "IAM_ALLOWED_PRINCIPALS"):
            granted = {"Principal": {"DataLakePrincipalIdentifier": principal}, "Resource": resource}
            formation.grant_permissions(**granted, Permissions=["CREATE_TABLE"])
            assert line(ask(resources=whole), "database shop").state is CheckState.OK
            formation.revoke_permissions(**granted, Permissions=["CREATE_TABLE"])
        assert line(ask(resources=whole), "database shop").state is CheckState.FAIL
    finally:
        glue.delete_database(Name="shop")


# --- after ---


def test_what_the_stack_lacks_is_found(bare: list[Check]):
    assert troubles(bare) == {
        "versions of examined-landing": CheckState.WARN,
        "notifications of examined-landing": CheckState.FAIL,
        "configuration": CheckState.WARN,
    }


def test_a_stack_that_has_everything_is_well(whole: Resources):
    checks = ask(resources=whole)
    assert troubles(checks) == {}
    said = {check.name: check.finding for check in checks}
    assert said["bucket examined-landing"] == "made by stack examined"
    assert said["notifications of examined-theirs"] == "go to the buffer for route prices"
    assert said["configuration"] == "the stack runs by the routes of tidegate.toml"


def test_a_stack_that_nobody_named_tells_its_outputs_itself(whole: Resources):
    assert ask() == [check for check in ask(resources=whole) if check.name != "deployment"]


@pytest.mark.parametrize(
    ("spoil", "name", "state", "said"),
    [
        (
            lambda cloud, it: notify(cloud, it, prefix="elsewhere/"),
            "notifications of examined-landing",
            CheckState.FAIL,
            "do not go to the buffer for route orders",
        ),
        (
            lambda cloud, it: keep_versions(cloud, "examined-landing", "Suspended"),
            "versions of examined-landing",
            CheckState.WARN,
            "not kept (Suspended)",
        ),
        (
            lambda cloud, it: settle(cloud, it, CONFIG.replace("id bigint", "id int", 1)),
            "configuration",
            CheckState.WARN,
            "does not run by what tidegate.toml says of orders",
        ),
    ],
)
def test_what_is_spoiled_is_found(
    examined: Examined,
    whole: Resources,
    spoil: Callable[[Cloud, Resources], None],
    name: str,
    state: CheckState,
    said: str,
):
    spoil(examined.cloud, whole)
    try:
        checks = ask(resources=whole)
    finally:
        keep_versions(examined.cloud, "examined-landing")
        notify(examined.cloud, whole)
        settle(examined.cloud, whole)
    assert troubles(checks) == {name: state}
    assert said in line(checks, name).finding
    assert line(checks, name).advice


def test_a_denied_call_is_a_line_that_says_which_permission_is_missing(whole: Resources):
    """Each call in turn, and then all of them: none ends the examination, none looks like good news."""
    answers = Answers(QUOTAS)
    account = Account(answers.session())
    visit(SETTINGS, whole, account=account)
    calls = {*answers.asked} - {"GetCallerIdentity"}
    assert calls == {
        "DescribeStacks",
        "GetBucketNotificationConfiguration",
        "GetBucketVersioning",
        "GetDataLakeSettings",
        "GetDatabase",
        "GetParameter",
        "GetServiceQuota",
        "HeadBucket",
        "ListStackResources",
        "Query",
    }
    # the account's list of buckets says the same
    made_up_for = {"HeadBucket"}
    for call in calls:
        checks = ask({call: DENIED}, whole)
        denied = [check for check in checks if "the call was denied" in check.finding]
        if call in made_up_for:
            assert troubles(checks) == {}
        else:
            assert denied, call
        assert all(check.state is CheckState.WARN for check in denied), call
        wanted = {check.advice.removeprefix("use credentials that have the permission ") for check in denied}
        assert wanted <= account.needed, call

    identity: dict[str, Scripted] = {
        "GetCallerIdentity": {"Account": ACCOUNT, "Arn": f"arn:aws:sts::{ACCOUNT}:assumed-role/x/y"}
    }
    checks = visit(SETTINGS, whole, account=Account(Answers(identity, rest=DENIED).session()))
    assert {check.name for check in checks if check.state is CheckState.OK} == {"credentials", "deployment"}
    assert {check.state for check in checks} == {CheckState.OK, CheckState.WARN}


def test_the_policy_names_every_permission_that_the_doctor_needs(examined: Examined, whole: Resources):
    """Before and after the deployment, with a self-test and without."""
    promised = {action for each in POLICY["Statement"] for action in each["Action"]}
    examined.cloud.client("glue").create_database(DatabaseInput={"Name": "shop"})
    needed: set[str] = set()
    started: dict[str, Scripted] = {
        "StartJobRun": {"jobRunId": "run"},
        "GetJobRun": {"jobRun": {"jobRunId": "run", "state": "FAILED"}},
    }
    hidden: dict[str, Scripted] = {"HeadBucket": No("403", 403)}
    removes = 'on_overwrite = "replace"\non_delete = "remove"\nformat = "csv"'
    toml = f"{KEY}{SUBNETS}{CONFIG}".replace('format = "csv"', removes)
    for resources, configured, given in (
        (whole, toml, started),
        (None, toml.replace('"examined"', '"again"'), hidden),
        (None, S3TABLES.replace("REGION", "us-east-1") + CONFIG, hidden),
    ):
        account = Account(Answers({**QUOTAS, "DescribeSubnets": FOUND_SUBNET, **given}).session())
        visit(parse(configured), resources, account=account, job_minutes=1 if resources else None)
        needed |= account.needed
    examined.cloud.client("glue").delete_database(Name="shop")
    assert needed == promised


def test_the_doctor_only_reads(examined: Examined, whole: Resources):
    answers = Answers(QUOTAS)
    visit(SETTINGS, whole, account=Account(answers.session()))
    visit(SETTINGS, None, account=Account(answers.session()))
    assert len({*answers.asked}) > 10
    assert [call for call in answers.asked if not re.match(r"(Get|List|Describe|Head|Query)", call)] == []


@pytest.mark.parametrize("name", ["simple", "s3tables"])
def test_the_job_role_may_not_drop_tables(variant: Callable[[str], Template], name: str):
    """What the self-test's last step, and the pages, say of it."""
    template = variant(name)
    role, _ = template.one("AWS::IAM::Role", "EmrJobRole")
    granted = [each["Action"] for each in template.statements(role)]
    actions = {action for each in granted for action in ([each] if isinstance(each, str) else each)}
    assert {"glue:CreateTable", "s3tables:CreateTable"} & actions
    assert not {"glue:DeleteTable", "s3tables:DeleteTable", "glue:*", "s3tables:*", "*"} & actions


# --- as a verb ---


def test_the_verb_prints_what_the_page_shows_and_ends_with_a_finding(examined: Examined, whole: Resources):
    arguments = ["doctor", "--aws", "--config", str(examined.config), "--outputs", str(examined.outputs), "--json"]
    notify(examined.cloud, whole, prefix="elsewhere/")
    try:
        result = CliRunner().invoke(main.app, arguments)
    finally:
        notify(examined.cloud, whole)
    assert result.exit_code == Exit.FINDING
    document: dict[str, Any] = json.loads(result.stdout)
    assert agree(shape(document), shape(documented("doctor")))
    assert [each["name"] for each in document["checks"] if each["state"] == "fail"] == [
        "notifications of examined-landing"
    ]


def test_the_environment_names_the_deployment_too(
    examined: Examined, whole: Resources, monkeypatch: pytest.MonkeyPatch
):
    for name, value in json.loads(examined.outputs.read_text())["examined"].items():
        variable = "TIDEGATE" + "".join(f"_{letter}" if letter.isupper() else letter for letter in name).upper()
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("TIDEGATE_DEPLOYMENT", "examined")
    result = CliRunner().invoke(main.app, ["doctor", "--aws", "--config", str(examined.config)])
    # only what moto does not know is not told
    assert result.exit_code == Exit.OK, result.stdout
    assert "warn  emr quota" in result.stdout
    assert "ok    configuration" in result.stdout

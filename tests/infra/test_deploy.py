"""The real CDK CLI brings the stack up, changes it and takes it down, in an account that moto plays.

What the template says of each resource, test_template.py tells; here it is seen that it comes, stays and goes. Not to
be seen: who is refused what (moto lets everybody in), waiting, rollback and drift (test_guards.py plays them), and
custom resources after their creation: moto never asks their function for Update or Delete.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.roster import ROSTER
from tests.support.cloud import ACCOUNT, ENVIRONMENT, REGION, Cloud, cloud

FIRST = """
[deployment]
name = "first"

[[route]]
name = "flights"
bucket = "first-landing"
prefix = "flights/"
suffix = ".json.gz"
format = "json"
table = "lake.flights.departures"
schema = "id bigint"
"""
CHANGED = FIRST + '[route.batch]\nmax_wait = "1h"\n'
CHANGED_SECONDS = 6 * 60 + 300
"""The buffer hides a message for longer, because intake waits for longer until it takes it."""
SECOND = """
[deployment]
name = "second"

[security]
encryption = "customer"

[[route]]
name = "orders"
bucket = "second-landing"
format = "csv"
table = "lake.shop.orders"
schema = "id bigint"

[[route]]
name = "prices"
bucket = "theirs"
existing = true
prefix = "prices/*$/"
format = "json"
table = "lake.shop.prices"
schema = "id bigint"

[[route]]
name = "stock"
bucket = "theirs"
existing = true
prefix = "stock/"
suffix = ".csv"
format = "csv"
table = "lake.shop.stock"
schema = "id bigint"
"""

DEPLOY = ("deploy", "--method=direct", "--require-approval=never")
NOTIFICATIONS = "Custom::S3BucketNotifications"

UNSEEN = {
    *("AWS::S3::BucketPolicy", "AWS::SNS::Subscription", "AWS::SNS::TopicPolicy", "AWS::SQS::QueuePolicy"),
}
"""Types that moto's CloudFormation does not know."""
STAYS = ("AWS::DynamoDB::Table", "AWS::S3::Bucket")
HOLD_DATA = (*STAYS, "AWS::SNS::Topic", "AWS::SQS::Queue")
REPLACED = ("replace", "may be replaced", "destroy", "orphan")
"""How `cdk diff` ends the line of a resource that it would make anew or take away."""

FIND: dict[str, Callable[[Cloud, str], Any]] = {
    "AWS::CloudWatch::Dashboard": lambda cloud, name: cloud.client("cloudwatch").get_dashboard(DashboardName=name),
    "AWS::DynamoDB::Table": lambda cloud, name: cloud.client("dynamodb").describe_table(TableName=name),
    "AWS::EMRServerless::Application": lambda cloud, name: cloud.client("emr-serverless").get_application(
        applicationId=name
    ),
    "AWS::Events::Rule": lambda cloud, name: cloud.client("events").describe_rule(Name=name),
    "AWS::IAM::Role": lambda cloud, name: cloud.client("iam").get_role(RoleName=name),
    "AWS::Lambda::EventSourceMapping": lambda cloud, name: cloud.client("lambda").get_event_source_mapping(UUID=name),
    "AWS::Lambda::Function": lambda cloud, name: cloud.client("lambda").get_function(FunctionName=name),
    "AWS::S3::Bucket": lambda cloud, name: cloud.client("s3").head_bucket(Bucket=name),
    "AWS::SNS::Topic": lambda cloud, name: cloud.client("sns").get_topic_attributes(TopicArn=name),
    "AWS::SQS::Queue": lambda cloud, name: cloud.client("sqs").get_queue_attributes(
        QueueUrl=name, AttributeNames=["All"]
    ),
}
"""How a resource of each type is asked for; each raises ClientError if it is not there."""


# --- a deployed stack, as it was at some moment ---


@dataclass(frozen=True)
class Stack:
    """The template that was deployed, and the names of what was made, by logical id."""

    template: dict[str, Any]
    names: dict[str, str]

    def kind(self, logical: str) -> str:
        return str(self.template["Resources"][logical]["Type"])

    def of(self, *kinds: str) -> dict[str, str]:
        return {logical: name for logical, name in self.names.items() if self.kind(logical) in kinds}

    @property
    def handlers(self) -> dict[str, str]:
        """The functions of ours that are not written into the template."""
        return {logical: name for logical, name in self.of("AWS::Lambda::Function").items() if self.module(logical)}

    def module(self, logical: str) -> str:
        handler = str(self.template["Resources"][logical]["Properties"]["Handler"])
        return handler.rpartition(".")[0] if handler.startswith("lambdas.") else ""


def observe(cloud: Cloud, name: str) -> Stack:
    formation = cloud.client("cloudformation")
    template = json.loads(json.dumps(formation.get_template(StackName=name)["TemplateBody"]))
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=name)
    # moto lists what it did not create, too: without a type
    made = [each for page in pages for each in page["StackResourceSummaries"] if each.get("ResourceType")]
    return Stack(template, {each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for each in made})


# --- the account, step by step ---


@dataclass(frozen=True)
class Account:
    """A bootstrapped account; the configurations and assemblies are in `folder`."""

    cloud: Cloud
    folder: Path

    def context(self, toml: str) -> tuple[str, ...]:
        config = self.folder / "tidegate.toml"
        config.write_text(toml)
        assembly = str(self.folder / "cdk.out")
        # the whole bundle needs a network and half a minute, and test_bundling.py builds it
        return (
            *("--context", f"tidegate:config={config}", "--context", "tidegate:local=true"),
            *("--output", assembly),
        )

    @property
    def assembly(self) -> Path:
        return self.folder / "cdk.out"


@dataclass(frozen=True)
class Change:
    diff: str
    stack: Stack
    data: dict[str, list[Any]]


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with cloud(tmp_path_factory.mktemp("cloud")) as running:
        folder = tmp_path_factory.mktemp("deploy")
        # away from cdk.json: a bootstrap needs no app, and would build its bundles
        running.cdk("bootstrap", ENVIRONMENT, folder=folder)
        yield Account(running, folder)


@pytest.fixture(scope="session")
def first(account: Account) -> Stack:
    account.cloud.cdk(*DEPLOY, *account.context(FIRST))
    stack = observe(account.cloud, "first")
    fill(account.cloud, stack)
    return stack


@pytest.fixture(scope="session")
def theirs(account: Account) -> dict[str, Any]:
    """The notifications of a bucket that exists already."""
    return make_theirs(account.cloud, "theirs")


@pytest.fixture(scope="session")
def second(account: Account, first: Stack, theirs: dict[str, Any]) -> Stack:
    """A second deployment beside the first."""
    account.cloud.cdk(*DEPLOY, *account.context(SECOND))
    return observe(account.cloud, "second")


@pytest.fixture(scope="session")
def changed(account: Account, first: Stack, second: Stack) -> Change:
    """The first deployment, with another setting."""
    diff = account.cloud.cdk("diff", "--method=template", *account.context(CHANGED))
    account.cloud.cdk(*DEPLOY, "--app", str(account.assembly))
    return Change(diff, observe(account.cloud, "first"), held(account.cloud, first))


@pytest.fixture(scope="session")
def destroyed(account: Account, first: Stack, changed: Change) -> Cloud:
    """The account after the first deployment was taken down."""
    account.context(CHANGED)
    account.cloud.cdk("destroy", "--force", "--app", str(account.assembly))
    return account.cloud


AGAIN = FIRST.replace('bucket = "first-landing"', 'bucket = "first-landing"\nexisting = true')


@pytest.fixture(scope="session")
def again(account: Account, first: Stack, destroyed: Cloud) -> Stack:
    """The first deployment anew, with a new ledger, on the landing bucket that was left."""
    s3 = destroyed.client("s3")
    # moto's CloudFormation does not put it there
    left = {"QueueConfigurations": [our_notification(buffer_of(first), "flights/", ".json.gz")]}
    s3.put_bucket_notification_configuration(Bucket="first-landing", NotificationConfiguration=left)
    # as docs/deploy.md says
    s3.put_bucket_notification_configuration(Bucket="first-landing", NotificationConfiguration={})
    account.cloud.cdk(*DEPLOY, *account.context(AGAIN))
    return observe(account.cloud, "first")


def buffer_of(stack: Stack) -> str:
    """The name of its buffer."""
    (url,) = (url for logical, url in stack.of("AWS::SQS::Queue").items() if logical.startswith("BufferQueue"))
    return url.rpartition("/")[2]


def fill(cloud: Cloud, stack: Stack) -> None:
    """Put something into everything that holds data."""
    for name in stack.of("AWS::DynamoDB::Table").values():
        cloud.client("dynamodb").put_item(TableName=name, Item={"pk": {"S": "o#1"}, "sk": {"S": name}})
    for name in stack.of("AWS::S3::Bucket").values():
        cloud.client("s3").put_object(Bucket=name, Key="kept", Body=name.encode())
    for url in stack.of("AWS::SQS::Queue").values():
        fifo = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if url.endswith(".fifo") else {}
        cloud.client("sqs").send_message(QueueUrl=url, MessageBody=url, **fifo)


def held(cloud: Cloud, stack: Stack, *kinds: str) -> dict[str, str]:
    """What is in there."""
    found: dict[str, str] = {}
    for logical, name in stack.of(*(kinds or HOLD_DATA)).items():
        match stack.kind(logical):
            case "AWS::DynamoDB::Table":
                (item,) = cloud.client("dynamodb").scan(TableName=name)["Items"]
                found[logical] = item["sk"]["S"]
            case "AWS::S3::Bucket":
                found[logical] = cloud.client("s3").get_object(Bucket=name, Key="kept")["Body"].read().decode()
            case "AWS::SQS::Queue":
                (message,) = cloud.client("sqs").receive_message(QueueUrl=name, VisibilityTimeout=0)["Messages"]
                found[logical] = message["Body"]
    return found


# --- the stack comes up ---


def test_everything_is_made_that_moto_can_make(account, first, second):
    for stack in (first, second):
        missing = stack.template["Resources"].keys() - stack.names.keys()
        assert {stack.kind(each) for each in missing} == UNSEEN
        for logical, name in stack.of(*FIND).items():
            FIND[stack.kind(logical)](account.cloud, name)


def test_the_functions_are_told_the_names_that_were_given(account, first):
    names = set(first.of(*HOLD_DATA).values())
    assert len(first.handlers) == len(ROSTER)
    for name in first.handlers.values():
        found = account.cloud.client("lambda").get_function(FunctionName=name)["Configuration"]
        told = found["Environment"]["Variables"]
        assert {told["TIDEGATE_LEDGER"], told["TIDEGATE_TOPIC"], told["TIDEGATE_WORK"]} <= names


def test_the_functions_code_is_what_was_built(account, first, changed):
    """The configuration travels with the code: after the change it is the changed one."""
    for stack, toml in ((first, FIRST), (changed.stack, CHANGED)):
        for logical in stack.handlers:
            code = stack.template["Resources"][logical]["Properties"]["Code"]
            bucket = code["S3Bucket"] if isinstance(code["S3Bucket"], str) else code["S3Bucket"]["Fn::Sub"]
            bucket = bucket.replace("${AWS::AccountId}", ACCOUNT).replace("${AWS::Region}", REGION)
            body = account.cloud.client("s3").get_object(Bucket=bucket, Key=code["S3Key"])["Body"].read()
            with zipfile.ZipFile(io.BytesIO(body)) as content:
                assert content.read("tidegate.toml").decode() == toml
                assert f"{stack.module(logical).replace('.', '/')}.py" in content.namelist()


# --- it is changed ---


def test_nothing_that_holds_data_is_replaced_by_a_change(first, changed):
    assert {first.kind(each) for each in first.of(*HOLD_DATA)} == set(HOLD_DATA)
    assert first.of(*HOLD_DATA) == changed.stack.of(*HOLD_DATA)
    assert changed.data == first.of(*STAYS, "AWS::SQS::Queue")


def test_the_cli_too_says_that_nothing_is_replaced(changed):
    """moto knows nothing of replacement; the CLI does, for it has CloudFormation's own list of what forces one."""
    assert "VisibilityTimeout" in changed.diff
    assert not replaced(changed.diff)


def replaced(diff: str) -> set[str]:
    """The types that hold data and of which `cdk diff` would take one away."""
    lines = [line for line in diff.splitlines() if line.startswith("[") and line.endswith(REPLACED)]
    return {kind for kind in HOLD_DATA for line in lines if f" {kind} " in line}


# --- two side by side ---


def test_two_deployments_of_one_account_share_nothing(first, second):
    names = [{name for name in stack.names.values() if name} for stack in (first, second)]
    assert all(len(each) > 20 for each in names)
    assert not names[0] & names[1]


# --- it is taken down ---


def test_what_must_outlive_the_stack_does_and_the_rest_is_gone(first, changed, destroyed):
    assert held(destroyed, first, *STAYS) == first.of(*STAYS)
    for logical, name in changed.stack.of(*FIND.keys() - set(STAYS)).items():
        with pytest.raises(ClientError):
            pytest.fail(f"{logical} is still there: {FIND[first.kind(logical)](destroyed, name)}")
    with pytest.raises(ClientError, match="does not exist"):
        destroyed.client("cloudformation").describe_stacks(StackName="first")


def test_a_deployment_survives_the_end_of_another(second, destroyed):
    assert observe(destroyed, "second") == second
    for logical, name in second.of(*FIND).items():
        FIND[second.kind(logical)](destroyed, name)


def test_the_first_can_be_deployed_again_on_what_it_left(account, first, again):
    """Its uploads and its tables' files are as they were; the ledger and the work bucket are new ones."""
    assert not set(first.of(*STAYS).values()) & set(again.of(*STAYS).values())
    (told,) = notified(account.cloud, "first-landing")["QueueConfigurations"]
    assert json.loads(told)["QueueArn"].rpartition(":")[2] == buffer_of(again)
    assert held(account.cloud, first, *STAYS) == first.of(*STAYS)


# --- a bucket of others ---


def make_theirs(cloud: Cloud, name: str) -> dict[str, Any]:
    """A bucket that notifies a queue, a topic, a function and EventBridge; returns its notifications."""
    s3 = cloud.client("s3")
    s3.create_bucket(Bucket=name)

    def notify(kind: str, service: str, prefix: str) -> dict[str, Any]:
        return {
            "Id": f"their-{service}",
            kind: f"arn:aws:{service}:{REGION}:{ACCOUNT}:{'function:' if service == 'lambda' else ''}{name}",
            "Events": ["s3:ObjectCreated:Put", "s3:ObjectRemoved:*"],
            "Filter": {"Key": {"FilterRules": [{"Name": "prefix", "Value": prefix}]}},
        }

    s3.put_bucket_notification_configuration(
        Bucket=name,
        NotificationConfiguration={
            "QueueConfigurations": [notify("QueueArn", "sqs", "a/")],
            "TopicConfigurations": [notify("TopicArn", "sns", "b/")],
            "LambdaFunctionConfigurations": [notify("LambdaFunctionArn", "lambda", "c/")],
            "EventBridgeConfiguration": {},
        },
    )
    return notified(cloud, name)


def plain(notification: dict[str, Any]) -> str:
    """A notification of a bucket without what S3 may choose: the id, the order and the case of its filter's names."""
    rest = {name: value for name, value in notification.items() if name not in ("Id", "Filter")}
    rules = notification.get("Filter", {}).get("Key", {}).get("FilterRules", [])
    rest["Rules"] = sorted((each["Name"].lower(), each["Value"]) for each in rules)
    return json.dumps(rest, sort_keys=True)


def notified(cloud: Cloud, name: str) -> dict[str, Any]:
    """All that a bucket notifies, but for the ids."""
    found = cloud.client("s3").get_bucket_notification_configuration(Bucket=name)
    lists = ("QueueConfigurations", "TopicConfigurations", "LambdaFunctionConfigurations")
    return {
        **{kind: sorted(plain(each) for each in found.get(kind, [])) for kind in lists},
        "EventBridge": "EventBridgeConfiguration" in found,
    }


def added(before: dict[str, Any], ours: list[dict[str, Any]]) -> dict[str, Any]:
    """`before` and our queue's notifications beside it."""
    queues = [*before["QueueConfigurations"], *(plain(each) for each in ours)]
    return before | {"QueueConfigurations": sorted(queues)}


def test_a_deployment_adds_to_the_notifications_of_a_bucket_that_exists(account, second, theirs):
    (logical,) = second.of(NOTIFICATIONS)
    assert second.template["Resources"][logical]["Properties"]["Managed"] is False, "or theirs would be replaced"
    buffer = buffer_of(second)
    ours = [our_notification(buffer, "prices/*%24/"), our_notification(buffer, "stock/", ".csv")]
    assert len(theirs["QueueConfigurations"]) == 1
    assert theirs["EventBridge"]
    assert notified(account.cloud, "theirs") == added(theirs, ours)


def our_notification(queue: str, prefix: str, suffix: str = "") -> dict[str, Any]:
    rules = [{"Name": "suffix", "Value": suffix}] if suffix else []
    return {
        "Events": ["s3:ObjectCreated:*"],
        "QueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}",
        "Filter": {"Key": {"FilterRules": [*rules, {"Name": "prefix", "Value": prefix}]}},
    }

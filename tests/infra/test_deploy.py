"""The real CDK CLI brings the stack up, changes it and takes it down, in an account that moto plays.

What of it can be asked for again through the services' own APIs is compared with the template (`LOOKS`). What moto's
CloudFormation leaves out is named in `UNSEEN`, `UNSEEN_PROPERTIES` and `NOT_UPDATED`; of that, this file shows only
that the CLI sent it, and test_template.py that it is right. A type in neither table fails a test. Also not to be seen:
- who is refused what: moto lets everybody in; a principal's rights are read from the policies in test_permissions.py;
- waiting, rollback and drift: moto does everything at once, and a failure leaves half a stack. A creation that fails
  and is rolled back is played in test_guards.py;
- custom resources after their creation: moto never asks their function for Update or Delete, nor heeds a FAILED. The
  function that subscribes us to a bucket of others is therefore run here for itself, that of the guards there.
"""

import io
import json
import shutil
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.roster import ROSTER
from tests.support.cloud import ACCOUNT, ENVIRONMENT, REGION, Cloud, as_text, cloud, run_function
from tidegate_local.intrinsics import NO_VALUE, Resolver

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
    "AWS::S3::BucketPolicy": "moto's CloudFormation does not know it; it would ignore the conditions, too",
    "AWS::SNS::Subscription": "moto's CloudFormation does not know it",
    "AWS::SNS::TopicPolicy": "moto's CloudFormation does not know it",
    "AWS::SQS::QueuePolicy": "moto's CloudFormation does not know it",
}
"""Types of resources that are in the deployed template and nowhere else, and why."""

UNSEEN_PROPERTIES = {
    "AWS::DynamoDB::Table": {
        "PointInTimeRecoverySpecification": "moto's CloudFormation drops it",
        "TimeToLiveSpecification": "moto's CloudFormation drops it",
    },
    "AWS::EMRServerless::Application": {
        "Architecture": "moto has no such attribute",
        "AutoStartConfiguration": "tests/support/cloud.py drops it",
        "AutoStopConfiguration": "tests/support/cloud.py drops it",
    },
    "AWS::Lambda::Function": {
        "Architectures": "moto's CloudFormation drops it",
        "LoggingConfig": "moto's CloudFormation drops it",
    },
    "AWS::Logs::LogGroup": {"RetentionInDays": "moto's CloudFormation drops it"},
    "AWS::S3::Bucket": {
        "LifecycleConfiguration": "moto's CloudFormation drops it",
        "NotificationConfiguration": "moto's CloudFormation drops it",
        "OwnershipControls": "moto's CloudFormation drops it",
        "PublicAccessBlockConfiguration": "moto's CloudFormation drops it",
        "VersioningConfiguration": "moto's CloudFormation drops it",
    },
}
"""Properties of which the same is true."""

NOT_UPDATED = {
    "AWS::SNS::Topic": {
        "ContentBasedDeduplication": "tests/support/cloud.py leaves a topic as it is",
        "KmsMasterKeyId": "tests/support/cloud.py leaves a topic as it is",
    },
    "AWS::SQS::Queue": {"MessageRetentionPeriod": "moto changes only two other properties of a queue"},
}
"""Properties that arrive when a resource is made, and not when it is changed."""

HOLD_DATA = ("AWS::DynamoDB::Table", "AWS::S3::Bucket", "AWS::SNS::Topic", "AWS::SQS::Queue")
REPLACED = ("replace", "may be replaced", "destroy", "orphan")
"""How `cdk diff` ends the line of a resource that it would make anew or take away."""

Facts = dict[str, Any]


# --- what an API says about a resource, in the words of the template ---


@dataclass(frozen=True)
class Resource:
    """One resource of a deployed template, and the name that it was given."""

    logical: str
    kind: str
    name: str
    properties: dict[str, Any]


def table(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("dynamodb").describe_table(TableName=it.name)["Table"]
    return {
        "Arn": found["TableArn"],
        "KeySchema": found["KeySchema"],
        "AttributeDefinitions": found["AttributeDefinitions"],
        "BillingMode": found["BillingModeSummary"]["BillingMode"],
        "DeletionProtectionEnabled": found["DeletionProtectionEnabled"],
    }


def bucket(cloud: Cloud, it: Resource) -> Facts:
    s3 = cloud.client("s3")
    s3.head_bucket(Bucket=it.name)
    facts: Facts = {"Arn": f"arn:aws:s3:::{it.name}", "BucketName": it.name}
    if "BucketEncryption" in it.properties:
        (rule,) = s3.get_bucket_encryption(Bucket=it.name)["ServerSideEncryptionConfiguration"]["Rules"]
        facts["Algorithm"] = rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"]
    return facts


def queue(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("sqs").get_queue_attributes(QueueUrl=it.name, AttributeNames=["All"])["Attributes"]
    kept = (
        *("FifoQueue", "ContentBasedDeduplication", "MessageRetentionPeriod", "VisibilityTimeout"),
        *("ReceiveMessageWaitTimeSeconds", "KmsMasterKeyId", "SqsManagedSseEnabled"),
    )
    facts: Facts = {name: found[name] for name in kept if name in found}
    if "RedrivePolicy" in found:
        facts["RedrivePolicy"] = json.loads(found["RedrivePolicy"])
    return facts | {"Arn": found["QueueArn"], "QueueName": it.name.rpartition("/")[2]}


def topic(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("sns").get_topic_attributes(TopicArn=it.name)["Attributes"]
    kept = ("FifoTopic", "ContentBasedDeduplication", "KmsMasterKeyId")
    name = it.name.rpartition(":")[2]
    return {each: found[each] for each in kept if each in found} | {"Arn": it.name, "TopicName": name}


def function(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("lambda").get_function(FunctionName=it.name)["Configuration"]
    return {
        "Arn": found["FunctionArn"],
        **{name: found[name] for name in ("Handler", "MemorySize", "Role", "Runtime", "Timeout") if name in found},
        **({"Environment": found["Environment"]} if "Environment" in it.properties else {}),
        "CodeSha256": found["CodeSha256"],
    }


def event_source(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("lambda").get_event_source_mapping(UUID=it.name)
    kept = ("BatchSize", "EventSourceArn", "FunctionResponseTypes", "MaximumBatchingWindowInSeconds")
    function = found["FunctionArn"].rpartition(":")[2]
    return {name: found[name] for name in kept if name in found} | {"FunctionName": function}


def role(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("iam").get_role(RoleName=it.name)["Role"]
    return {"Arn": found["Arn"], "AssumeRolePolicyDocument": found["AssumeRolePolicyDocument"]}


def policy(cloud: Cloud, it: Resource) -> Facts:
    """An inline policy has no name but in its roles."""
    iam = cloud.client("iam")
    documents = [
        iam.get_role_policy(RoleName=each, PolicyName=it.properties["PolicyName"])["PolicyDocument"]
        for each in it.properties["Roles"]
    ]
    assert all(each == documents[0] for each in documents)
    return {"PolicyDocument": documents[0]}


def log_group(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("logs").describe_log_groups(logGroupNamePrefix=it.name)["logGroups"]
    # AWS's GetAtt gives the one that ends with `:*`, moto's this one
    arns = [each["logGroupArn"] for each in found if each["logGroupName"] == it.name]
    return {"Arn": arns[0]} if arns else missing(it)


def rule(cloud: Cloud, it: Resource) -> Facts:
    events = cloud.client("events")
    found = events.describe_rule(Name=it.name)
    facts = {name: found[name] for name in ("ScheduleExpression", "State") if name in found}
    if "EventPattern" in found:
        facts["EventPattern"] = json.loads(found["EventPattern"])
    targets = events.list_targets_by_rule(Rule=it.name)["Targets"]
    return facts | {"Arn": found["Arn"], "Targets": targets}


def permission(cloud: Cloud, it: Resource) -> Facts:
    """A statement in the policy of its function; moto gives it no name, and keeps it as it came."""
    name = it.properties["FunctionName"].rpartition(":")[2]
    found = json.loads(cloud.client("lambda").get_policy(FunctionName=name)["Policy"])["Statement"]
    statements = [each for each in found if it.properties["SourceArn"] in json.dumps(each)]
    return {"SourceArn": it.properties["SourceArn"]} if statements else missing(it)


def application(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("emr-serverless").get_application(applicationId=it.name)["application"]
    return {
        "ApplicationId": found["applicationId"],
        "Arn": found["arn"],
        "Name": found["name"],
        "ReleaseLabel": found["releaseLabel"],
        # moto writes it in its own way
        "Type": found["type"].upper(),
    }


def key(cloud: Cloud, it: Resource) -> Facts:
    kms = cloud.client("kms")
    found = kms.describe_key(KeyId=it.name)["KeyMetadata"]
    return {
        "Arn": found["Arn"],
        "Description": found["Description"],
        "EnableKeyRotation": kms.get_key_rotation_status(KeyId=it.name)["KeyRotationEnabled"],
        "KeyPolicy": json.loads(kms.get_key_policy(KeyId=it.name, PolicyName="default")["Policy"]),
    }


def dashboard(cloud: Cloud, it: Resource) -> Facts:
    name = it.properties["DashboardName"]
    found = cloud.client("cloudwatch").get_dashboard(DashboardName=name)
    return {"DashboardName": name, "DashboardBody": found["DashboardBody"]}


def alarm(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("cloudwatch").describe_alarms(AlarmNames=[it.name])["MetricAlarms"]
    if not found:
        return missing(it)
    names = ("AlarmDescription", "AlarmActions", "ComparisonOperator", "EvaluationPeriods", "TreatMissingData")
    return {"Arn": found[0]["AlarmArn"], **{name: found[0][name] for name in names if name in found[0]}}


def notifications(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("s3").get_bucket_notification_configuration(Bucket=it.properties["BucketName"])
    return {"Queues": sorted(plain(each) for each in found.get("QueueConfigurations", []))}


def names_free(cloud: Cloud, it: Resource) -> Facts:
    """They were free; by now the buckets are ours."""
    for name in it.properties["Of"].split():
        cloud.client("s3").head_bucket(Bucket=name)
    return {}


def archived(cloud: Cloud, it: Resource) -> Facts:
    """moto keeps the archive and does not tell it."""
    return {"Of": cloud.client("sns").get_topic_attributes(TopicArn=it.properties["Of"])["Attributes"]["TopicArn"]}


def protected(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("dynamodb").describe_table(TableName=it.properties["Of"])["Table"]
    return {"Of": found["TableName"]} if found["DeletionProtectionEnabled"] else missing(it)


def stopped_before_deletion(cloud: Cloud, it: Resource) -> Facts:
    found = cloud.client("emr-serverless").get_application(applicationId=it.properties["Of"])["application"]
    return {"Of": found["applicationId"]}


def missing(it: Resource) -> Facts:
    metadata = {"HTTPStatusCode": 404}
    raise ClientError({"Error": {"Code": "Missing", "Message": it.logical}, "ResponseMetadata": metadata}, it.kind)


LOOKS: dict[str, Callable[[Cloud, Resource], Facts]] = {
    "AWS::CloudWatch::Alarm": alarm,
    "AWS::CloudWatch::Dashboard": dashboard,
    "AWS::DynamoDB::Table": table,
    "AWS::EMRServerless::Application": application,
    "AWS::Events::Rule": rule,
    "AWS::IAM::Policy": policy,
    "AWS::IAM::Role": role,
    "AWS::KMS::Key": key,
    "AWS::Lambda::EventSourceMapping": event_source,
    "AWS::Lambda::Function": function,
    "AWS::Lambda::Permission": permission,
    "AWS::Logs::LogGroup": log_group,
    "AWS::S3::Bucket": bucket,
    "AWS::SNS::Topic": topic,
    "AWS::SQS::Queue": queue,
    NOTIFICATIONS: notifications,
    "Custom::TidegateApplication": stopped_before_deletion,
    "Custom::TidegateArchive": archived,
    "Custom::TidegateNames": names_free,
    "Custom::TidegateProtection": protected,
}
"""How each type of resource is asked for; each raises ClientError if it is not there."""


# --- a deployed stack, as it was at some moment ---


@dataclass(frozen=True)
class Stack:
    """The template that was deployed, and what the APIs said then."""

    template: dict[str, Any]
    resources: dict[str, Resource]
    facts: dict[str, Facts]
    named: set[str]

    @property
    def kinds(self) -> set[str]:
        return {each["Type"] for each in self.template["Resources"].values()}

    def of(self, *kinds: str) -> dict[str, Resource]:
        return {name: each for name, each in self.resources.items() if each.kind in kinds}

    def stays(self, logical: str) -> bool:
        """What is left of the ledger and the buckets; and what two guards look at, which are those."""
        resource = self.template["Resources"][logical]
        looks_at_them = resource["Type"] in ("Custom::TidegateNames", "Custom::TidegateProtection")
        return resource.get("DeletionPolicy") == "RetainExceptOnCreate" or looks_at_them

    @property
    def handlers(self) -> dict[str, Resource]:
        """The functions of ours that are not written into the template."""
        functions = self.of("AWS::Lambda::Function")
        return {name: it for name, it in functions.items() if it.properties["Handler"].startswith("lambdas.")}


def observe(cloud: Cloud, name: str) -> Stack:
    formation = cloud.client("cloudformation")
    template = json.loads(json.dumps(formation.get_template(StackName=name)["TemplateBody"]))
    pages = formation.get_paginator("list_stack_resources").paginate(StackName=name)
    # moto lists what it did not create, too: without a type
    made = [each for page in pages for each in page["StackResourceSummaries"] if each.get("ResourceType")]
    names = {each["LogicalResourceId"]: each.get("PhysicalResourceId", "") for each in made}
    (stack,) = formation.describe_stacks(StackName=name)["Stacks"]
    facts: dict[str, Facts] = {}
    resources: dict[str, Resource] = {}

    def ref(target: str) -> Any:
        pseudo = {
            "AWS::AccountId": ACCOUNT,
            "AWS::NoValue": NO_VALUE,
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::StackId": stack["StackId"],
            "AWS::StackName": name,
            "AWS::URLSuffix": "amazonaws.com",
        }
        return pseudo[target] if target in pseudo else names.get(target, f"<{target}>")

    def attribute(target: str, which: str) -> Any:
        look(target)
        return facts.get(target, {}).get(which, f"<{target}.{which}>")

    resolver = Resolver(ref, attribute)

    def look(logical: str) -> None:
        if logical in resources:
            return
        described = template["Resources"][logical]
        properties = resolver.resolve(described.get("Properties", {}))
        resources[logical] = Resource(logical, described["Type"], names.get(logical, ""), properties)
        if logical in names and described["Type"] in LOOKS:
            facts[logical] = LOOKS[described["Type"]](cloud, resources[logical])

    for logical in template["Resources"]:
        look(logical)
    return Stack(template, resources, facts, set(names))


def plain(notification: dict[str, Any]) -> str:
    """A notification of a bucket without what S3 may choose: the id, the order and the case of its filter's names."""
    rest = {name: value for name, value in notification.items() if name not in ("Id", "Filter")}
    rules = notification.get("Filter", {}).get("Key", {}).get("FilterRules", [])
    rest["Rules"] = sorted((each["Name"].lower(), each["Value"]) for each in rules)
    return json.dumps(rest, sort_keys=True)


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
def first_beside_second(account: Account, second: Stack) -> Stack:
    return observe(account.cloud, "first")


@pytest.fixture(scope="session")
def changed(account: Account, first: Stack, first_beside_second: Stack) -> Change:
    """The first deployment, with another setting."""
    diff = account.cloud.cdk("diff", "--method=template", *account.context(CHANGED))
    account.cloud.cdk(*DEPLOY, "--app", str(account.assembly))
    stack = observe(account.cloud, "first")
    return Change(diff, stack, held(account.cloud, first))


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
    (it,) = (it for name, it in stack.of("AWS::SQS::Queue").items() if name.startswith("BufferQueue"))
    return it.name.rpartition("/")[2]


def fill(cloud: Cloud, stack: Stack) -> None:
    """Put something into everything that holds data."""
    for each in stack.of("AWS::DynamoDB::Table").values():
        cloud.client("dynamodb").put_item(TableName=each.name, Item={"pk": {"S": "o#1"}, "sk": {"S": each.name}})
    for each in stack.of("AWS::S3::Bucket").values():
        cloud.client("s3").put_object(Bucket=each.name, Key="kept", Body=each.name.encode())
    for each in stack.of("AWS::SQS::Queue").values():
        fifo = {"MessageGroupId": "g", "MessageDeduplicationId": "d"} if each.name.endswith(".fifo") else {}
        cloud.client("sqs").send_message(QueueUrl=each.name, MessageBody=each.name, **fifo)


def held(cloud: Cloud, stack: Stack) -> dict[str, list[Any]]:
    """What is in there."""
    found: dict[str, list[Any]] = {}
    for logical, each in stack.of(*HOLD_DATA).items():
        match each.kind:
            case "AWS::DynamoDB::Table":
                items = cloud.client("dynamodb").scan(TableName=each.name)["Items"]
                found[logical] = [item["sk"]["S"] for item in items]
            case "AWS::S3::Bucket":
                body = cloud.client("s3").get_object(Bucket=each.name, Key="kept")["Body"]
                found[logical] = [body.read().decode()]
            case "AWS::SQS::Queue":
                messages = cloud.client("sqs").receive_message(QueueUrl=each.name, VisibilityTimeout=0)
                found[logical] = [message["Body"] for message in messages.get("Messages", [])]
    return found


# --- the stack comes up ---


def test_every_type_of_resource_is_looked_at_or_named_as_not_to_be_seen(first, second):
    assert not set(LOOKS) & set(UNSEEN)
    for stack in (first, second):
        assert not stack.kinds - set(LOOKS) - set(UNSEEN), "say in LOOKS how to ask for it, or in UNSEEN why not"
        looked_at = {each.kind for each in stack.resources.values() if each.logical in stack.facts}
        assert looked_at == stack.kinds - set(UNSEEN)
        not_looked_at = {each.logical for each in stack.resources.values() if each.logical not in stack.facts}
        assert not not_looked_at & stack.named, "moto does create it now: look at it"


def test_the_services_say_what_the_template_says(first, second):
    for stack in (first, second):
        compared = compare(stack)
        assert compared >= {
            ("AWS::DynamoDB::Table", "KeySchema"),
            ("AWS::EMRServerless::Application", "ReleaseLabel"),
            ("AWS::Events::Rule", "Targets"),
            ("AWS::IAM::Policy", "PolicyDocument"),
            ("AWS::IAM::Role", "AssumeRolePolicyDocument"),
            ("AWS::Lambda::EventSourceMapping", "EventSourceArn"),
            ("AWS::Lambda::Function", "Environment"),
            ("AWS::SQS::Queue", "RedrivePolicy"),
            ("AWS::SNS::Topic", "FifoTopic"),
        }


def compare(stack: Stack, *, except_for: dict[str, dict[str, str]] | None = None) -> set[tuple[str, str]]:
    """Every property that both the template and an API know; returns which they were."""
    compared = set()
    for logical, facts in stack.facts.items():
        it = stack.resources[logical]
        for name in (facts.keys() & it.properties.keys()) - (except_for or {}).get(it.kind, {}).keys():
            assert as_text(facts[name]) == as_text(it.properties[name]), f"{logical}.{name}"
            compared.add((it.kind, name))
    return compared


def test_what_the_services_cannot_say_is_in_the_deployed_template(first, second):
    for kind, properties in UNSEEN_PROPERTIES.items():
        for name in properties:
            holders = [each for stack in (first, second) for each in stack.of(kind).values() if name in each.properties]
            assert holders, f"no {kind} has {name} any more: it need not be excused"
            assert all(name not in stack.facts.get(each.logical, {}) for stack in (first, second) for each in holders)


def test_the_functions_are_told_the_names_that_were_given(account, first):
    """The values that the functions get name things that are there."""
    told = [it.properties["Environment"]["Variables"] for it in first.handlers.values()]
    assert len(told) == len(ROSTER)
    names = {each.name for each in first.of(*HOLD_DATA).values()}
    for variables in told:
        assert variables["TIDEGATE_LEDGER"] in names
        assert variables["TIDEGATE_TOPIC"] in names
        assert variables["TIDEGATE_WORK"] in names
        assert "<" not in json.dumps(variables), "something that has no name was referred to"


def test_the_functions_code_is_what_was_built(account, first, changed):
    """The configuration travels with the code: after the change it is the changed one."""
    for stack, toml in ((first, FIRST), (changed.stack, CHANGED)):
        for logical, it in stack.handlers.items():
            archive = published(account.cloud, it)
            assert sha256(archive) == stack.facts[logical]["CodeSha256"]
            with zipfile.ZipFile(io.BytesIO(archive)) as content:
                assert content.read("tidegate.toml").decode() == toml
                module = it.properties["Handler"].rpartition(".")[0]
                assert f"{module.replace('.', '/')}.py" in content.namelist()


def published(cloud: Cloud, it: Resource) -> bytes:
    """The code of a function as the CLI put it into S3."""
    code = it.properties["Code"]
    body: bytes = cloud.client("s3").get_object(Bucket=code["S3Bucket"], Key=code["S3Key"])["Body"].read()
    return body


def sha256(content: bytes) -> str:
    import base64
    import hashlib

    return base64.b64encode(hashlib.sha256(content).digest()).decode()


# --- it is changed ---


def test_a_changed_setting_arrives(first, changed):
    compare(changed.stack, except_for=NOT_UPDATED)
    was = {name: it.properties.get("VisibilityTimeout") for name, it in first.of("AWS::SQS::Queue").items()}
    now = {name: it.properties.get("VisibilityTimeout") for name, it in changed.stack.of("AWS::SQS::Queue").items()}
    assert CHANGED_SECONDS not in was.values()
    assert CHANGED_SECONDS in now.values()
    assert changed.stack.handlers
    for logical in changed.stack.handlers:
        assert changed.stack.facts[logical]["CodeSha256"] != first.facts[logical]["CodeSha256"]


def test_nothing_that_holds_data_is_replaced_by_a_change(first, changed):
    holders = first.of(*HOLD_DATA)
    assert {each.kind for each in holders.values()} == set(HOLD_DATA)
    assert {name: it.name for name, it in holders.items()} == {
        name: it.name for name, it in changed.stack.of(*HOLD_DATA).items()
    }
    with_content = {name: [it.name] for name, it in holders.items() if it.kind != "AWS::SNS::Topic"}
    assert changed.data == with_content


def test_the_cli_too_says_that_nothing_is_replaced(changed):
    """moto knows nothing of replacement; the CLI does, for it has CloudFormation's own list of what forces one."""
    assert "VisibilityTimeout" in changed.diff
    assert not replaced(changed.diff)


def replaced(diff: str) -> set[str]:
    """The types that hold data and of which `cdk diff` would take one away."""
    lines = [line for line in diff.splitlines() if line.startswith("[") and line.endswith(REPLACED)]
    return {kind for kind in HOLD_DATA for line in lines if f" {kind} " in line}


def test_the_cli_would_say_if_something_were_replaced(account, changed, tmp_path):
    assembly = tmp_path / "cdk.out"
    shutil.copytree(account.assembly, assembly)
    file = assembly / "first.template.json"
    template = json.loads(file.read_text())
    changes = {
        "AWS::DynamoDB::Table": {"KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}]},
        "AWS::S3::Bucket": {"BucketName": "another"},
        "AWS::SNS::Topic": {"TopicName": "another.fifo"},
        "AWS::SQS::Queue": {"QueueName": "another.fifo"},
    }
    assert set(changes) == set(HOLD_DATA)
    for kind, change in changes.items():
        next(each for each in template["Resources"].values() if each["Type"] == kind)["Properties"] |= change
    file.write_text(json.dumps(template))
    diff = account.cloud.cdk("diff", "--method=template", "--app", str(assembly))
    assert replaced(diff) == set(changes), diff


# --- two side by side ---


def test_two_deployments_of_one_account_share_nothing(account, first, second):
    names = [{each.name for each in stack.resources.values() if each.name} for stack in (first, second)]
    assert all(len(each) > 20 for each in names)
    assert not names[0] & names[1]
    arns = [{facts["Arn"] for facts in stack.facts.values() if "Arn" in facts} for stack in (first, second)]
    assert not arns[0] & arns[1]


def test_a_second_deployment_leaves_the_first_as_it_was(first, first_beside_second):
    assert first_beside_second.facts == first.facts


# --- it is taken down ---


def test_what_must_outlive_the_stack_does(first, destroyed):
    stay = {name: it for name, it in first.resources.items() if first.stays(name)}
    assert {it.kind for it in stay.values()} >= {"AWS::DynamoDB::Table", "AWS::S3::Bucket"}
    assert {it.logical for it in first.of("AWS::DynamoDB::Table", "AWS::S3::Bucket").values()} <= stay.keys()
    for name, it in stay.items():
        assert LOOKS[it.kind](destroyed, it) == first.facts[name]
    content = held(destroyed, Stack(first.template, stay, first.facts, first.named))
    assert content == {name: [it.name] for name, it in stay.items() if it.kind in HOLD_DATA}


def test_the_rest_of_the_stack_is_gone(first, changed, destroyed):
    for name in changed.stack.facts:
        if not changed.stack.stays(name):
            it = changed.stack.resources[name]
            with pytest.raises(ClientError) as error:
                pytest.fail(f"{name} is still there: {LOOKS[it.kind](destroyed, it)}")
            assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] < 500, name
    with pytest.raises(ClientError, match="does not exist"):
        destroyed.client("cloudformation").describe_stacks(StackName="first")


def test_a_deployment_survives_the_end_of_another(second, destroyed):
    assert observe(destroyed, "second").facts == second.facts


def test_the_first_can_be_deployed_again_on_what_it_left(account, first, again):
    """Its uploads and its tables' files are as they were; the ledger and the work bucket are new ones."""
    (ledger,) = again.of("AWS::DynamoDB::Table")
    assert again.resources[ledger].name != first.resources[ledger].name
    assert not {it.name for it in again.of("AWS::S3::Bucket").values()} & {
        it.name for it in first.of("AWS::S3::Bucket").values()
    }
    (it,) = again.of(NOTIFICATIONS).values()
    assert it.properties["BucketName"] == "first-landing"
    (told,) = notified(account.cloud, "first-landing")["QueueConfigurations"]
    assert json.loads(told)["QueueArn"].rpartition(":")[2] == buffer_of(again)
    landing = {name: it for name, it in first.of("AWS::S3::Bucket").items() if it.name == "first-landing"}
    assert held(account.cloud, Stack(first.template, landing, {}, set())) == {
        name: ["first-landing"] for name in landing
    }


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
    (it,) = second.of(NOTIFICATIONS).values()
    ours = it.properties["NotificationConfiguration"]["QueueConfigurations"]
    buffer = second.resources[referred(second.template, it.logical)].name
    assert len(theirs["QueueConfigurations"]) == 1
    assert theirs["EventBridge"]
    assert len(ours) == 2
    assert {each["QueueArn"].rpartition(":")[2] for each in ours} == {buffer.rpartition("/")[2]}
    assert notified(account.cloud, "theirs") == added(theirs, ours)


def referred(template: dict[str, Any], logical: str) -> str:
    """The queue that the notifications go to."""
    configuration = template["Resources"][logical]["Properties"]["NotificationConfiguration"]
    (name,) = {each["QueueArn"]["Fn::GetAtt"][0] for each in configuration["QueueConfigurations"]}
    return str(name)


@dataclass
class Subscriber:
    """The function behind a custom resource, called as CloudFormation calls it."""

    cloud: Cloud
    archive: bytes
    handler: str
    bucket: str
    reply_to: str
    replies: list[dict[str, Any]]

    def call(
        self, request: str, stack: str, ours: list[dict[str, Any]], *, old: Any = None, managed: bool = False
    ) -> str:
        """Returns the id that the resource has from now on; a change of it would mean a replacement."""
        event = {
            "RequestType": request,
            "ResponseURL": self.reply_to,
            "StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{stack}/1",
            "RequestId": f"{request}-{stack}",
            "ResourceType": NOTIFICATIONS,
            "LogicalResourceId": "Notifications",
            "ResourceProperties": self.properties(ours, managed),
        }
        if request != "Create":
            event["PhysicalResourceId"] = "Notifications"
        if old is not None:
            event["OldResourceProperties"] = self.properties(old, managed)
        done = run_function(self.archive, self.handler, event, self.cloud.endpoint)
        assert done.returncode == 0, done.stderr
        reply = self.replies.pop()
        assert reply["Status"] == "SUCCESS", done.stderr
        assert (reply["RequestId"], reply["StackId"]) == (event["RequestId"], event["StackId"])
        return str(reply["PhysicalResourceId"])

    def properties(self, ours: list[dict[str, Any]], managed: bool) -> Any:
        configuration = {"QueueConfigurations": ours}
        return as_text({"BucketName": self.bucket, "Managed": managed, "NotificationConfiguration": configuration})


@pytest.fixture
def subscriber(account: Account, second: Stack) -> Iterator[Subscriber]:
    """With the code that is in the deployed template, and a bucket of its own."""
    (it,) = second.of(NOTIFICATIONS).values()
    assert as_text(it.properties["Managed"]) == "false", "its function would replace what others set up"
    (runs,) = (
        each
        for each in second.of("AWS::Lambda::Function").values()
        if second.facts[each.logical]["Arn"] == it.properties["ServiceToken"]
    )
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as content:
        content.writestr("index.py", runs.properties["Code"]["ZipFile"])
    replies: list[dict[str, Any]] = []

    class Reply(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            replies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    with HTTPServer(("127.0.0.1", 0), Reply) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/reply"
        handler = runs.properties["Handler"]
        yield Subscriber(account.cloud, archive.getvalue(), handler, "handled", url, replies)
        server.shutdown()
    delete_bucket(account.cloud, "handled")


def delete_bucket(cloud: Cloud, name: str) -> None:
    cloud.client("s3").delete_bucket(Bucket=name)


def our_notification(queue: str, prefix: str, suffix: str = "") -> dict[str, Any]:
    rules = [{"Name": "suffix", "Value": suffix}] if suffix else []
    return {
        "Events": ["s3:ObjectCreated:*"],
        "QueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}",
        "Filter": {"Key": {"FilterRules": [*rules, {"Name": "prefix", "Value": prefix}]}},
    }


def test_their_notifications_survive_while_ours_come_change_and_go(subscriber):
    theirs = make_theirs(subscriber.cloud, subscriber.bucket)
    prices, stock = our_notification("one", "prices/*%24/"), our_notification("one", "stock/", ".csv")
    items, others = our_notification("one", "items/"), our_notification("two", "orders/")

    def now() -> dict[str, Any]:
        return notified(subscriber.cloud, subscriber.bucket)

    name = subscriber.call("Create", "one", [prices, stock])
    assert now() == added(theirs, [prices, stock])
    subscriber.call("Create", "two", [others])
    assert now() == added(theirs, [prices, stock, others])
    assert subscriber.call("Update", "one", [items, stock], old=[prices, stock]) == name
    assert now() == added(theirs, [items, stock, others])
    subscriber.call("Delete", "one", [items, stock])
    assert now() == added(theirs, [others])
    subscriber.call("Update", "two", [others, prices], old=[others])
    assert now() == added(theirs, [others, prices])
    subscriber.call("Delete", "two", [others, prices])
    assert now() == theirs


def test_the_look_at_their_notifications_would_miss_none(subscriber):
    """The same function, told that the bucket is its own, takes all of theirs away."""
    theirs = make_theirs(subscriber.cloud, subscriber.bucket)
    ours = our_notification("one", "prices/")
    subscriber.call("Create", "one", [ours], managed=True)
    assert notified(subscriber.cloud, subscriber.bucket) != added(theirs, [ours])
    assert notified(subscriber.cloud, subscriber.bucket)["QueueConfigurations"] == [plain(ours)]

"""A creation that fails at any moment leaves nothing behind and can be repeated; a deletion comes to its end.

CloudFormation's part is played here: it creates in some order that the template allows, rolls back the other way round,
heeds deletion policies, and calls the guards' function. The function is the real one; moto plays the services, and what
SNS refuses and moto does not, `PlayedStack.delete` refuses. Not to be seen: how long each takes, whether CloudFormation
waits as it should, and whether it knows another way to delete a table that is protected.
"""

import json
import random
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID as ACCOUNT
from moto.sns.models import sns_backends

from infra import guard_handler
from infra.roster import ROSTER, May
from tests.infra.test_permissions import listed, text

STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/tidegate/1"
PLAYED = ("AWS::DynamoDB::Table", "AWS::EMRServerless::Application", "AWS::S3::Bucket", "AWS::SNS::Topic")
"""What is slow to come, outlives the stack, or cannot be deleted as it is. Of everything else only the order counts."""
SEEDS = range(6)
STARTERS = tuple(row.construct for row in ROSTER if May.START_JOBS in row.may)
"""How the logical ids of what invokes a function begin that starts jobs."""


class Failed(Exception):
    """The resource could not be created, or deleted."""


def referred(value: Any) -> Iterator[str]:
    match value:
        case {"Ref": name} | {"Fn::GetAtt": [name, _]}:
            yield name
        case {"Fn::Sub": str(pattern)}:
            yield from (each.partition("}")[0].partition(".")[0] for each in pattern.split("${")[1:])
        case dict():
            for each in value.values():
                yield from referred(each)
        case list():
            for each in value:
                yield from referred(each)


class PlayedStack:
    """A stack of this template, step by step."""

    def __init__(self, template: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.resources = template.resources
        self.needs = {
            name: ({*referred(each.get("Properties", {})), *listed(each.get("DependsOn", []))} & self.resources.keys())
            for name, each in self.resources.items()
        }
        self.made: dict[str, str] = {}
        self.status = ""
        self.answers: list[dict[str, Any]] = []
        self.sns, self.dynamodb, self.s3, self.emr = (
            boto3.client(service, region_name="us-east-1") for service in ("sns", "dynamodb", "s3", "emr-serverless")
        )
        self.clients = {"sns": self.sns, "dynamodb": self.dynamodb, "s3": self.s3, "emr-serverless": self.emr}
        self.clients["cloudformation"] = self
        monkeypatch.setattr(guard_handler, "PAUSE", 0)
        monkeypatch.setattr(guard_handler.boto3, "client", self.clients.__getitem__)
        monkeypatch.setattr(guard_handler, "urlopen", lambda request: self.answers.append(json.loads(request.data)))

    # what the handler asks CloudFormation

    def describe_stacks(self, *, StackName: str) -> Any:  # noqa: N803 (as boto3 has it)
        assert StackName == STACK
        return {"Stacks": [{"StackStatus": self.status}]}

    def get_paginator(self, name: str) -> Any:
        assert name == "list_stack_resources"
        return self

    def paginate(self, *, StackName: str) -> Any:  # noqa: N803
        assert StackName == STACK
        yield {"StackResourceSummaries": [{"PhysicalResourceId": each} for each in self.made.values()]}

    # what CloudFormation does

    def order(self, seed: int) -> list[str]:
        chance, left, found = random.Random(seed), dict(self.needs), list[str]()
        while left:
            ready = sorted(name for name, needs in left.items() if needs <= set(found))
            found.append(chance.choice(ready))
            del left[found[-1]]
        return found

    def create(self, order: list[str], *, fail_at: int | None = None) -> None:
        """Raises Failed when it is rolled back; what fails has been made, and what it answered is lost."""
        self.status = "CREATE_IN_PROGRESS"
        try:
            for position, name in enumerate(order):
                self.made[name] = name
                self.made[name] = self.make(name, self.resources[name])
                if position == fail_at:
                    raise Failed(name)
        except Failed:
            self.status = "ROLLBACK_IN_PROGRESS"
            self.take_down(order, stays=("Retain",))
            raise
        self.status = "CREATE_COMPLETE"

    def destroy(self, order: list[str]) -> None:
        self.status = "DELETE_IN_PROGRESS"
        self.take_down(order, stays=("Retain", "RetainExceptOnCreate"))

    def take_down(self, order: list[str], *, stays: tuple[str, ...]) -> None:
        for name in reversed([each for each in order if each in self.made]):
            physical = self.made.pop(name)
            if self.resources[name].get("DeletionPolicy") not in stays:
                self.delete(name, self.resources[name]["Type"], physical)

    def make(self, name: str, resource: dict[str, Any]) -> str:
        match resource["Type"]:
            case "AWS::DynamoDB::Table":
                wanted = {
                    key: resource["Properties"][key] for key in ("KeySchema", "AttributeDefinitions", "BillingMode")
                }
                protected = resource["Properties"].get("DeletionProtectionEnabled", False)
                self.dynamodb.create_table(TableName=name, DeletionProtectionEnabled=protected, **wanted)
            case "AWS::SNS::Topic":
                arn = str(self.sns.create_topic(Name=name)["TopicArn"])
                if policy := resource.get("Properties", {}).get("ArchivePolicy"):
                    self.sns.set_topic_attributes(
                        TopicArn=arn, AttributeName="ArchivePolicy", AttributeValue=json.dumps(policy)
                    )
                return arn
            case "AWS::S3::Bucket":
                bucket = str(resource["Properties"].get("BucketName", name.lower()))
                if bucket in {each["Name"] for each in self.s3.list_buckets()["Buckets"]}:
                    raise Failed(f"{bucket} exists")
                self.s3.create_bucket(Bucket=bucket)
                return bucket
            case "AWS::EMRServerless::Application":
                made = self.emr.create_application(releaseLabel="emr-7.0.0", type="SPARK", clientToken=name)
                # moto's is started from the beginning
                self.emr.stop_application(applicationId=made["applicationId"])
                return str(made["applicationId"])
            case "AWS::Events::Rule" | "AWS::Lambda::EventSourceMapping" if name.startswith(STARTERS):
                # from now on jobs may come, which start it
                self.emr.start_application(applicationId=self.made[self.name("AWS::EMRServerless::Application")])
            case kind if kind.startswith("Custom::Tidegate"):
                return self.call("Create", name)
        return name

    def delete(self, name: str, kind: str, physical: str) -> None:
        match kind:
            case "AWS::DynamoDB::Table":
                self.dynamodb.delete_table(TableName=physical)
            case "AWS::SNS::Topic":
                if self.archive(physical):
                    raise Failed("Invalid state: Cannot delete a topic with an ArchivePolicy")
                self.sns.delete_topic(TopicArn=physical)
            case "AWS::S3::Bucket":
                self.s3.delete_bucket(Bucket=physical)
            case "AWS::EMRServerless::Application":
                self.emr.delete_application(applicationId=physical)
            case kind if kind.startswith("Custom::Tidegate"):
                self.call("Delete", name)

    def call(self, request: str, name: str) -> str:
        properties = dict(self.resources[name]["Properties"])
        of = properties["Of"]
        if isinstance(of, dict):
            (of,) = (self.made[each] for each in referred(of))
        event = {
            "RequestType": request,
            "ResourceType": self.resources[name]["Type"],
            "StackId": STACK,
            "RequestId": f"{request}-{name}",
            "LogicalResourceId": name,
            "ResponseURL": "https://example.com/answer",
            "ResourceProperties": properties | {"Of": of},
        }
        guard_handler.handler(event, None)
        answer = self.answers[-1]
        assert (answer["StackId"], answer["RequestId"], answer["LogicalResourceId"]) == (
            STACK,
            f"{request}-{name}",
            name,
        )
        if answer["Status"] != "SUCCESS":
            raise Failed(answer["Reason"])
        return str(answer["PhysicalResourceId"])

    # what is there

    def archive(self, topic: str) -> Any:
        """moto keeps what it is told of a topic, and does not tell it."""
        return json.loads(getattr(sns_backends[ACCOUNT]["us-east-1"].get_topic(topic), "archive_policy", "{}"))

    def left(self) -> dict[str, list[str]]:
        found = {
            "tables": self.dynamodb.list_tables()["TableNames"],
            "topics": [each["TopicArn"] for each in self.sns.list_topics()["Topics"]],
            "buckets": [each["Name"] for each in self.s3.list_buckets()["Buckets"]],
            "applications": [
                each["id"] for each in self.emr.list_applications()["applications"] if each["state"] != "TERMINATED"
            ],
        }
        return {kind: each for kind, each in found.items() if each}

    def name(self, kind: str) -> str:
        (found,) = (name for name, each in self.resources.items() if each["Type"] == kind)
        return found


@pytest.fixture
def played(simple, monkeypatch) -> Iterator[PlayedStack]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        yield PlayedStack(simple, monkeypatch)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_creation_that_fails_at_any_moment_leaves_nothing_and_can_be_repeated(played: PlayedStack, seed: int):
    order = played.order(seed)
    interesting = [
        position
        for position, name in enumerate(order)
        if played.resources[name]["Type"] in PLAYED or played.resources[name]["Type"].startswith("Custom::")
    ]
    assert len(interesting) >= 11
    for position in [*interesting, len(order) - 1]:
        with pytest.raises(Failed, match=order[position]):
            played.create(order, fail_at=position)
        assert played.left() == {}, f"after {order[position]} failed"
    played.create(order)
    assert played.left().keys() == {"tables", "topics", "buckets", "applications"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_destroyed_stack_leaves_its_data_protected_and_nothing_else(played: PlayedStack, seed: int):
    order = played.order(seed)
    played.create(order)
    table, topic = played.made[played.name("AWS::DynamoDB::Table")], played.made["BusTopic7822576E"]
    assert played.dynamodb.describe_table(TableName=table)["Table"]["DeletionProtectionEnabled"] is True
    assert played.archive(topic) == {"MessageRetentionPeriod": "14"}
    played.destroy(order)
    assert played.left().keys() == {"tables", "buckets"}
    assert played.dynamodb.describe_table(TableName=table)["Table"]["DeletionProtectionEnabled"] is True


@pytest.mark.parametrize("seed", SEEDS)
def test_a_landing_bucket_whose_name_is_taken_is_found_before_anything_that_is_slow_or_stays(
    played: PlayedStack, seed: int
):
    played.s3.create_bucket(Bucket="example-landing")
    order = played.order(seed)
    made = []
    original = played.make
    played.make = lambda name, resource: (made.append(resource["Type"]), original(name, resource))[1]
    with pytest.raises(Failed, match=r"bucket example-landing exists and is not of this stack; set `existing = true`"):
        played.create(order)
    assert not set(made) & set(PLAYED)
    assert played.left() == {"buckets": ["example-landing"]}


def test_a_name_that_another_account_has_is_told_from_a_free_one(played: PlayedStack, monkeypatch):
    asked = []

    def refuse(**request: Any) -> None:
        asked.append(request["Bucket"])
        raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadBucket")

    monkeypatch.setattr(played.s3, "head_bucket", refuse)
    with pytest.raises(Failed, match=r"bucket example-landing seems to be another account's; take another name"):
        played.create(played.order(0))
    assert len(asked) == guard_handler.TRIES, "permissions that are new are not everywhere at once"


def test_the_buckets_of_this_stack_are_not_in_its_own_way(played: PlayedStack):
    """When the guard is new and the bucket is not, and when a route is added."""
    order = played.order(0)
    played.create(order)
    assert played.call("Update", played.name("Custom::TidegateNames")) == "Names/example-landing"


def test_permissions_that_come_late_are_waited_for(played: PlayedStack, monkeypatch):
    order = played.order(0)
    original, refusals = played.sns.set_topic_attributes, [1, 2, 3]

    def late(**asked: Any) -> Any:
        if refusals:
            refusals.pop()
            raise ClientError({"Error": {"Code": "AuthorizationError", "Message": "not yet"}}, "SetTopicAttributes")
        return original(**asked)

    monkeypatch.setattr(played.sns, "set_topic_attributes", late)
    played.create(order)
    assert not refusals


def test_an_application_that_does_not_stop_is_named(played: PlayedStack, monkeypatch):
    order = played.order(0)
    played.create(order)

    def busy(**asked: Any) -> Any:
        raise ClientError({"Error": {"Code": "ValidationException", "Message": "jobs are running"}}, "StopApplication")

    monkeypatch.setattr(played.emr, "stop_application", busy)
    with pytest.raises(Failed, match=r"Application: .*jobs are running"):
        played.destroy(order)


def test_what_is_gone_already_needs_no_guard(played: PlayedStack):
    order = played.order(0)
    played.create(order)
    application = played.made[played.name("AWS::EMRServerless::Application")]
    played.emr.stop_application(applicationId=application)
    played.emr.delete_application(applicationId=application)
    played.sns.delete_topic(TopicArn=played.made["BusTopic7822576E"])
    for kind in ("Application", "Archive"):
        played.call("Delete", played.name(f"Custom::Tidegate{kind}"))


def test_nothing_can_start_the_application_between_its_stop_and_its_deletion(simple):
    guard = simple.one("Custom::TidegateApplication")[0]
    starters = [*simple.of("AWS::Lambda::EventSourceMapping"), *simple.of("AWS::Events::Rule")]
    waiting = [name for name in starters if guard in listed(simple.resources[name].get("DependsOn", []))]
    assert {name[:8] for name in waiting} == {"Dispatch", "SettleSc", "SettleEv", "SettleBa", "AuditSch", "Maintain"}


def test_the_function_may_do_what_it_does_on_what_it_guards_and_no_more(simple):
    role = simple.one("AWS::IAM::Role", "Guards")[0]
    found = {
        action: [text(each) for each in listed(statement["Resource"])]
        for statement in simple.statements(role)
        for action in listed(statement["Action"])
    }
    table, topic = simple.one("AWS::DynamoDB::Table")[0], simple.one("AWS::SNS::Topic", "Bus")[0]
    application, log = simple.one("AWS::EMRServerless::Application")[0], simple.one("AWS::Logs::LogGroup", "Guards")[0]
    assert found == {
        **{f"logs:{each}": [f"<{log}>"] for each in ("CreateLogStream", "PutLogEvents")},
        "s3:ListBucket": ["arn:<AWS::Partition>:s3:::example-landing"],
        **{f"cloudformation:{each}": ["<AWS::StackId>"] for each in ("ListStackResources", "DescribeStacks")},
        "sns:SetTopicAttributes": [f"<{topic}>"],
        **{f"dynamodb:{each}": [f"<{table}>"] for each in ("DescribeTable", "UpdateTable")},
        **{f"emr-serverless:{each}": [f"<{application}>"] for each in ("GetApplication", "StopApplication")},
    }


def test_the_code_of_the_function_is_the_one_that_is_tested_here(simple):
    function = simple.one("AWS::Lambda::Function", "Guards")[1]
    assert function["Code"]["ZipFile"] == (guard_handler.__loader__.get_source(guard_handler.__name__))
    assert len(function["Code"]["ZipFile"]) <= 4096, "CloudFormation takes no more"

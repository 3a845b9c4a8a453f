"""A second deployment keeps what the first one made: CloudFormation replaces a resource whose logical id changes, or
whose properties change that cannot be changed."""

import json
from hashlib import md5
from typing import Any

import pytest

from infra import bundling, sizing
from infra.roster import ROSTER
from tests.infra.conftest import S3TABLES, SIMPLE, VARIANTS
from tests.infra.schemas import packed_schemas

KEPT = {
    "LedgerTable9343E4AA": "AWS::DynamoDB::Table",
    "WorkBucket6D724B36": "AWS::S3::Bucket",
    "Landingexamplelanding31A9549E": "AWS::S3::Bucket",
    "BufferQueue404A7D55": "AWS::SQS::Queue",
    "BufferDeadLetters50D6DF3D": "AWS::SQS::Queue",
    "BusTopic7822576E": "AWS::SNS::Topic",
    "BusNotices3ECFF1CE": "AWS::SQS::Queue",
    "BusDeadLettersE6FC4FB5": "AWS::SQS::Queue",
    "EmrApplicationB531BDE0": "AWS::EMRServerless::Application",
    "IntakeLog45179300": "AWS::Logs::LogGroup",
    "DispatchLog2CCA50D5": "AWS::Logs::LogGroup",
    "SettleLog758B0430": "AWS::Logs::LogGroup",
}
"""What holds something that a second deployment must find: data, messages on their way, running jobs, logs."""
OF_SOME = {
    "WarehouseBucket56A35794": ("AWS::S3::Bucket", {"s3tables", "rest"}),
    "Landingexamplearchive46A33A23": ("AWS::S3::Bucket", {"simple", "imported", "s3tables", "rest"}),
}
"""The same, and the variants that have it not: those with another catalog, and those whose route needs no such bucket.
"""
KEY = "EncryptionKey3A692D6E"
LOGS = {
    f"{row.construct}Log{md5(f'{row.construct}/Log/Resource'.encode()).hexdigest()[:8].upper()}": "AWS::Logs::LogGroup"
    for row in ROSTER
}
"""The log of every function, under the id that the CDK makes of its name."""
ONCE_AND_FOR_ALL = {
    "AWS::DynamoDB::Table": ("TableName", "KeySchema"),
    "AWS::S3::Bucket": ("BucketName",),
    "AWS::SQS::Queue": ("QueueName", "FifoQueue"),
    "AWS::SNS::Topic": ("FifoTopic",),
    "AWS::Logs::LogGroup": ("LogGroupName",),
    "AWS::EMRServerless::Application": ("Type",),
}
"""Properties that CloudFormation cannot change: a new value is a new resource
(https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/, "Update requires: Replacement")."""
HOLDING = {*ONCE_AND_FOR_ALL, "AWS::KMS::Key"}


def held(variant, name: str) -> dict[str, str]:
    """What is pinned in this variant."""
    some = {logical: kind for logical, (kind, without) in OF_SOME.items() if name not in without}
    return {**KEPT, **LOGS, **some, **({KEY: "AWS::KMS::Key"} if name == "customer" else {})}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_holds_something_keeps_its_logical_id(variant, name):
    resources = variant(name).resources
    pinned = held(variant, name)
    assert {logical: resources[logical]["Type"] for logical in pinned if logical in resources} == pinned


@pytest.mark.parametrize("name", VARIANTS)
def test_everything_that_holds_something_is_pinned(variant, name):
    """A new bucket or queue is to be added to the list, so that it is never renamed without a thought."""
    found = {logical for logical, each in variant(name).resources.items() if each["Type"] in HOLDING}
    # logs of a deployment only, and the topic that alarms go to: neither holds what anybody waits for
    of_deployments = ("Handler", "Provider", "GuardsLog")
    passing = {each for each in found if each.startswith("Operations") or any(part in each for part in of_deployments)}
    assert found - passing == set(held(variant, name))


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"many"}))
def test_no_setting_changes_what_cannot_be_changed(variant, many, name):
    for logical, kind in held(variant, name).items():
        if logical in many.resources:
            before, after = (each.resources[logical]["Properties"] for each in (many, variant(name)))
            for once in ONCE_AND_FOR_ALL.get(kind, ()):
                assert before.get(once) == after.get(once), f"{logical}: {once}"


def test_the_bus_keeps_its_subscription(simple):
    """A second one for the same queue would be the first one's, and be deleted with it."""
    assert list(simple.of("AWS::SNS::Subscription")) == ["BusNoticestidegateBusTopicDBBADCF42A08372E"]


# --- an application that is started ---

APPLICATION = "EmrApplicationB531BDE0"
MORE_ROUTES = (
    SIMPLE.replace("[[route]]", "[[route]]\nretired = true")
    + """
[route.batch]
in_flight = 7

[[route]]
name = "stock"
bucket = "example-theirs"
existing = true
suffix = ".csv"
format = "csv"
table = "lake.shop.stock"
schema = "id bigint"
max_object_bytes = "1GB"

[route.batch]
in_flight = 9
"""
)


def resource_schema(kind: str) -> dict[str, Any]:
    """As cfn-lint ships it."""
    folder = packed_schemas()
    names = json.loads((folder / "providers" / "us-east-1.json").read_text())
    found: dict[str, Any] = json.loads((folder / "resources" / f"{names[kind]}.json").read_text())
    return found


def test_no_route_changes_what_a_started_application_refuses_to_change(synthesize, monkeypatch):
    """Which is nearly everything, tags included
    (https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/2370)."""
    schema = resource_schema("AWS::EMRServerless::Application")
    refused = {each.removeprefix("/properties/") for each in schema["conditionalCreateOnlyProperties"]}
    refused |= {each.removeprefix("/properties/") for each in schema["createOnlyProperties"]} | {"Tags"}
    assert {"SchedulerConfiguration", "RuntimeConfiguration", "MaximumCapacity", "ReleaseLabel", "Name"} <= refused
    monkeypatch.setattr(bundling, "_install", lambda target, *_: (target / "dependency.py").touch())
    ours, others = (
        synthesize(toml, local=False).resources[APPLICATION]["Properties"] for toml in (SIMPLE, MORE_ROUTES)
    )
    assert refused >= set(ours), "say of the others, too, when they may change"
    assert ours == others


def test_no_version_and_no_catalog_changes_a_started_application(synthesize, monkeypatch):
    """A version may bring another jar, another Python, other workers, and another way to the catalog. Each job is
    started with them."""
    monkeypatch.setattr(bundling, "_install", lambda target, *_: (target / "dependency.py").touch())
    before = synthesize(SIMPLE, local=False)
    monkeypatch.setattr(bundling, "PYTHONS", ("3.14",))
    monkeypatch.setitem(sizing.WORKERS, "spark.driver.cores", "2")
    after = synthesize(S3TABLES, local=False)
    ours, others = (each.resources[APPLICATION]["Properties"] for each in (before, after))
    assert ours == others
    assert "RuntimeConfiguration" not in ours
    assert "spark." not in str(ours)
    started = [each.body["Outputs"]["SparkParameters"] for each in (before, after)]
    assert started[0] != started[1]


def test_another_release_is_another_application_with_a_guard_of_its_own(simple, synthesize, monkeypatch):
    """An update to it would be refused, and a replacement would take the name twice."""
    monkeypatch.setattr("infra.emr.RELEASE", "emr-spark-9.0.0")
    after = synthesize(simple.toml)
    assert simple.resources[APPLICATION]["Properties"]["ReleaseLabel"] == "emr-spark-8.1.0"
    assert APPLICATION not in after.resources
    name, application = after.one("AWS::EMRServerless::Application")
    assert application["ReleaseLabel"] == "emr-spark-9.0.0"
    guards = [each.one("Custom::TidegateApplication")[0] for each in (simple, after)]
    assert guards[0] != guards[1]
    assert after.resources[guards[1]]["Properties"]["Of"] == {"Fn::GetAtt": [name, "ApplicationId"]}


# --- what a stack left behind ---


def holders(template) -> dict[str, dict[str, Any]]:
    kinds = ("AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::S3::Bucket")
    return {name: each for name, each in template.resources.items() if each["Type"] in kinds}


@pytest.mark.parametrize("name", sorted(VARIANTS.keys() - {"dev"}))
def test_what_a_stack_left_can_be_imported_under_the_same_names(variant, synthesize, name):
    """CloudFormation imports a resource together with nothing else, so it must not refer to what is not there yet."""
    whole, alone = variant(name), synthesize(VARIANTS[name], importing=True)
    assert {each["Type"] for each in alone.resources.values()} == {
        *(each["Type"] for each in holders(alone).values()),
        "AWS::S3::BucketPolicy",
    }
    assert holders(alone).keys() == holders(whole).keys()
    for logical, resource in holders(alone).items():
        assert resource.get("DependsOn", []) == []
        assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
        before = {**holders(whole)[logical]["Properties"]}
        if logical.startswith("Landing"):
            before.pop(NOTIFICATIONS, None)  # what it notifies is not there yet
        assert resource["Properties"] == before
    assert not alone.violations


NOTIFICATIONS = "NotificationConfiguration"
"""Refer to the buffer, and come with the deployment that follows."""

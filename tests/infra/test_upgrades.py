"""A second deployment keeps what the first one made: CloudFormation replaces a resource whose logical id changes, or
whose properties change that cannot be changed."""

import pytest

from tests.infra.conftest import VARIANTS

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
    return {**KEPT, **some, **({KEY: "AWS::KMS::Key"} if name == "customer" else {})}


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

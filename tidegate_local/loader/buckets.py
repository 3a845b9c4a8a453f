"""Buckets, and what they notify."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from tidegate_local.errors import LocalError
from tidegate_local.loader.loading import Created, Loading, Properties, creates

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import NotificationConfigurationTypeDef


@creates("AWS::S3::Bucket")
def bucket(loading: Loading, logical: str, properties: Properties) -> Created:
    name = properties.pop("BucketName", None) or loading.generated_name(logical, limit=63).lower()
    make_bucket(loading, name)
    if versioning := properties.pop("VersioningConfiguration", None):
        loading.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
    elif loading.s3.get_bucket_versioning(Bucket=name).get("Status") == "Enabled":
        # versions that are there stay (https://docs.aws.amazon.com/AmazonS3/latest/userguide/Versioning.html)
        loading.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
    told = properties.pop("NotificationConfiguration", {})
    if told.get("EventBridgeConfiguration", {}).get("EventBridgeEnabled") is True:
        loading.on_the_bus.add(name)
    for each in _to_queues(logical, told):
        rules = each.get("Filter", {}).get("S3Key", {}).get("Rules", [])
        notify(loading, name, each["Queue"], each["Event"], rules)
    return Created(name, {"Arn": f"arn:aws:s3:::{name}"})


@creates("Custom::S3BucketNotifications")
def notifications_of_existing_bucket(loading: Loading, logical: str, properties: Properties) -> Created:
    """What CDK's custom resource does: add to what is configured already."""
    name = properties.pop("BucketName")
    properties.pop("Managed", None)
    if name not in {each["Name"] for each in loading.s3.list_buckets()["Buckets"]}:
        make_bucket(loading, name)
        loading.notes.append(f"bucket {name} is to exist already; an empty one was made in its place")
    for each in _to_queues(logical, properties.pop("NotificationConfiguration")):
        loading.notifications.setdefault(name, []).append(each)
    return Created(logical)


def make_bucket(loading: Loading, name: str) -> None:
    try:
        loading.s3.create_bucket(Bucket=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
            raise


def notify(loading: Loading, bucket: str, queue: str, event: str, rules: list[dict[str, str]]) -> None:
    """Have the bucket tell a queue of an event, of keys that these rules admit."""
    filters = {"Filter": {"Key": {"FilterRules": rules}}} if rules else {}
    loading.notifications.setdefault(bucket, []).append({"QueueArn": queue, "Events": [event], **filters})


def put_notifications(loading: Loading) -> None:
    """Once all is loaded: each bucket tells what the template says, and what others have configured, and no more of
    what an earlier template said. A bucket whose route is gone stays, with all that it holds, as on AWS."""
    ours = f"{loading.assembly.name}-"
    # nobody else hears what the others would tell
    patterns = [rule.pattern.get("detail", {}) for rule in loading.rules if rule.pattern]
    told_by_rules = {name for detail in patterns for name in detail.get("bucket", {}).get("name", ())}
    for bucket in [each["Name"] for each in loading.s3.list_buckets()["Buckets"]]:
        found: dict[str, Any] = {**loading.s3.get_bucket_notification_configuration(Bucket=bucket)}
        found.pop("ResponseMetadata", None)
        before = found.pop("QueueConfigurations", [])
        wanted = [each for each in before if not each["Id"].startswith(ours)]
        # a notification's id is made from what it says, to know it again
        wanted += [
            {"Id": ours + hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()[:16], **each}
            for each in loading.notifications.get(bucket, [])
        ]
        on_the_bus = bucket in loading.on_the_bus and bucket in told_by_rules
        bus: dict[str, Any] = {"EventBridgeConfiguration": {}} if on_the_bus else {}
        if {each["Id"] for each in wanted} != {each["Id"] for each in before} or not bus.items() <= found.items():
            told = {**found, **({"QueueConfigurations": wanted} if wanted else {}), **bus}
            loading.s3.put_bucket_notification_configuration(
                Bucket=bucket, NotificationConfiguration=cast("NotificationConfigurationTypeDef", told)
            )


def _to_queues(logical: str, configuration: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those that go to a queue."""
    for kind in configuration:
        if kind not in ("QueueConfigurations", "EventBridgeConfiguration"):
            raise LocalError(f"bucket {logical} notifies by {kind}; the local stack sends to queues only")
    return list(configuration.get("QueueConfigurations", []))

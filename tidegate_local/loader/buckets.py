"""Buckets, and what they notify."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from tidegate_local.errors import LocalError
from tidegate_local.loader.kinds import Created, Properties, creates
from tidegate_local.loader.loading import Loading

if TYPE_CHECKING:
    from types_boto3_s3.type_defs import NotificationConfigurationTypeDef


@creates(
    "AWS::S3::Bucket",
    ignored={
        "AccessControl": "nobody is refused anything here",
        "BucketEncryption": "nothing is encrypted here",
        "LifecycleConfiguration": "nothing expires here: `local down --forget` deletes all of it",
        "LoggingConfiguration": "nobody else reads the buckets here",
        "OwnershipControls": "there is one account here",
        "PublicAccessBlockConfiguration": "only this machine reaches the endpoint",
    },
)
def bucket(loading: Loading, logical: str, properties: Properties) -> Created:
    name = properties.pop("BucketName", None) or loading.generated_name(logical, limit=63).lower()
    make_bucket(loading, name)
    if versioning := properties.pop("VersioningConfiguration", None):
        loading.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
    elif loading.s3.get_bucket_versioning(Bucket=name).get("Status") == "Enabled":
        # versions that are there stay (https://docs.aws.amazon.com/AmazonS3/latest/userguide/Versioning.html)
        loading.s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Suspended"})
    if tags := properties.pop("Tags", None):
        loading.s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": tags})
    notifications = properties.pop("NotificationConfiguration", None)
    if notifications or notified(loading, name):
        notify(loading, name, _as_api(logical, notifications or {}))
    return Created(name, {"Arn": f"arn:aws:s3:::{name}"})


@creates(
    "Custom::S3BucketNotifications",
    ignored={
        "ServiceToken": "what its function does is done here",
        "SkipDestinationValidation": "no destination is validated here",
    },
)
def notifications_of_existing_bucket(loading: Loading, logical: str, properties: Properties) -> Created:
    """What CDK's custom resource does: add to what is configured already, unless the bucket is managed."""
    name = properties.pop("BucketName")
    ours = properties.pop("NotificationConfiguration")
    if str(properties.pop("Managed", True)).lower() != "true":
        if name not in {each["Name"] for each in loading.s3.list_buckets()["Buckets"]}:
            make_bucket(loading, name)
            loading.notes.append(f"bucket {name} is to exist already; an empty one was made in its place")
        theirs = present(loading, name)
        identify(loading, ours)
        for kind in ours:
            if isinstance(ours[kind], list):
                known = {each["Id"] for each in ours[kind]}
                theirs[kind] = [each for each in theirs.get(kind, []) if each["Id"] not in known] + ours[kind]
            else:
                theirs[kind] = ours[kind]
        ours = theirs
    notify(loading, name, ours)
    return Created(logical)


def make_bucket(loading: Loading, name: str) -> None:
    try:
        loading.s3.create_bucket(Bucket=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "BucketAlreadyOwnedByYou":
            raise


def notified(loading: Loading, bucket: str) -> dict[str, Any]:
    """What a bucket notifies already."""
    found: dict[str, Any] = {**loading.s3.get_bucket_notification_configuration(Bucket=bucket)}
    found.pop("ResponseMetadata", None)
    return found


def present(loading: Loading, bucket: str) -> dict[str, Any]:
    """The same, without what an earlier template said and this one has not said yet."""
    found = notified(loading, bucket)
    queues = [each for each in found.pop("QueueConfigurations", []) if not _is_over(loading, bucket, each["Id"])]
    return {**found, **({"QueueConfigurations": queues} if queues else {})}


def withdraw(loading: Loading) -> None:
    """Once all is loaded: take back what an earlier template notified of, and this one does not.

    A bucket whose route is gone stays, with all that it holds, as on AWS.
    """
    for bucket in [each["Name"] for each in loading.s3.list_buckets()["Buckets"]]:
        left = present(loading, bucket)
        if left != notified(loading, bucket):
            notify(loading, bucket, left)


def _is_over(loading: Loading, bucket: str, identifier: str) -> bool:
    return identifier.startswith(f"{loading.assembly.name}-") and (bucket, identifier) not in loading.told


def notify(loading: Loading, bucket: str, configuration: dict[str, Any]) -> None:
    identify(loading, configuration)
    loading.told |= {(bucket, each["Id"]) for each in configuration.get("QueueConfigurations", [])}
    told = cast("NotificationConfigurationTypeDef", configuration)
    loading.s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=told)


def identify(loading: Loading, configuration: Mapping[str, Any]) -> None:
    """Give each notification an id made from what it says, to know it again."""
    for each in configuration.get("QueueConfigurations", []):
        said = json.dumps(each, sort_keys=True)
        each.setdefault("Id", f"{loading.assembly.name}-{hashlib.sha256(said.encode()).hexdigest()[:16]}")


def _as_api(logical: str, configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A template's notification configuration as the API takes it."""
    answer: dict[str, Any] = {}
    for kind, value in configuration.items():
        if kind == "QueueConfigurations":
            answer[kind] = [
                {
                    "QueueArn": each["Queue"],
                    "Events": [each["Event"]],
                    **(
                        {"Filter": {"Key": {"FilterRules": each["Filter"]["S3Key"]["Rules"]}}}
                        if "Filter" in each
                        else {}
                    ),
                }
                for each in value
            ]
        elif kind == "EventBridgeConfiguration":
            answer[kind] = {}
        else:
            raise LocalError(f"bucket {logical} notifies by {kind}; the local stack sends to queues only")
    return answer

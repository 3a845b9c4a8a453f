"""Queues, topics and what leads from one to the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tidegate_local.loader.kinds import Created, Properties, creates
from tidegate_local.loader.loading import Loading

if TYPE_CHECKING:
    from types_boto3_sqs.literals import QueueAttributeNameType


@creates(
    "AWS::SQS::Queue",
    ignored={
        "KmsDataKeyReusePeriodSeconds": "nothing is encrypted here",
        "KmsMasterKeyId": "nothing is encrypted here",
        "RedriveAllowPolicy": "nobody is refused anything here",
        "SqsManagedSseEnabled": "nothing is encrypted here",
        "Tags": "nobody looks for them here",
    },
)
def queue(loading: Loading, logical: str, properties: Properties) -> Created:
    fifo = properties.get("FifoQueue", False)
    suffix = ".fifo" if fifo else ""
    name = properties.pop("QueueName", None) or loading.generated_name(logical, suffix=suffix, limit=80)
    applied: tuple[QueueAttributeNameType, ...] = (
        *("FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"),
        *("VisibilityTimeout", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds", "DelaySeconds"),
        *("MaximumMessageSize", "RedrivePolicy"),
    )
    attributes: dict[QueueAttributeNameType, str] = {
        key: _as_attribute(properties.pop(key)) for key in applied if key in properties
    }
    if loading.patience is not None and int(attributes.get("VisibilityTimeout", 30)) > loading.patience:
        attributes["VisibilityTimeout"] = str(loading.patience)
        loading.notes.append(
            f"queue {name}: a message is hidden for {loading.patience} s after a failure here, not as long as on AWS"
        )
    try:
        url = loading.sqs.get_queue_url(QueueName=name)["QueueUrl"]
    except ClientError as error:
        if "NonExistentQueue" not in error.response["Error"]["Code"]:
            raise
        url = loading.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    else:
        changeable: dict[QueueAttributeNameType, str] = {
            key: value for key, value in attributes.items() if key != "FifoQueue"
        }
        loading.sqs.set_queue_attributes(QueueUrl=url, Attributes=changeable)
    arn = loading.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Created(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


@creates(
    "AWS::SNS::Topic",
    ignored={
        "ArchivePolicy": "there is nothing here to replay an archive",
        "FifoThroughputScope": "throughput is not limited here",
        "KmsMasterKeyId": "nothing is encrypted here",
        "MaximumMessageSize": "the emulator knows SNS's default only",
        "Tags": "nobody looks for them here",
        "TracingConfig": "nothing is traced here",
    },
)
def topic(loading: Loading, logical: str, properties: Properties) -> Created:
    suffix = ".fifo" if properties.get("FifoTopic") else ""
    name = properties.pop("TopicName", None) or loading.generated_name(logical, suffix=suffix, limit=256)
    applied = ("FifoTopic", "ContentBasedDeduplication", "DisplayName")
    attributes = {key: _as_attribute(properties.pop(key)) for key in applied if key in properties}
    arn = loading.sns.create_topic(Name=name, Attributes=attributes)["TopicArn"]
    return Created(arn, {"TopicArn": arn, "TopicName": name})


@creates("AWS::SNS::Subscription")
def subscription(loading: Loading, logical: str, properties: Properties) -> Created:
    applied = ("RawMessageDelivery", "RedrivePolicy", "FilterPolicy", "FilterPolicyScope")
    attributes = {key: _as_attribute(properties.pop(key)) for key in applied if key in properties}
    arn = loading.sns.subscribe(
        TopicArn=properties.pop("TopicArn"),
        Protocol=properties.pop("Protocol"),
        Endpoint=properties.pop("Endpoint"),
        Attributes=attributes,
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    return Created(arn, {"Arn": arn})


def _as_attribute(value: Any) -> str:
    """SQS and SNS take every attribute as text."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict) else str(value)

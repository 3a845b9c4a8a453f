"""Queues, topics and what leads from one to the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import ClientError

from tidegate_local.loader.loading import Created, Loading, Properties, creates, taken

if TYPE_CHECKING:
    from types_boto3_sqs.literals import QueueAttributeNameType


@creates("AWS::SQS::Queue")
def queue(loading: Loading, logical: str, properties: Properties) -> Created:
    fifo = properties.get("FifoQueue", False)
    suffix = ".fifo" if fifo else ""
    name = properties.pop("QueueName", None) or loading.generated_name(logical, suffix=suffix, limit=80)
    said = taken(
        properties,
        *("FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"),
        *("VisibilityTimeout", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds", "DelaySeconds"),
        *("MaximumMessageSize", "RedrivePolicy"),
    )
    attributes = cast("dict[QueueAttributeNameType, str]", _as_attributes(said))
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
        attributes.pop("FifoQueue", None)  # it stays what it is
        loading.sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
    arn = loading.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return Created(url, {"Arn": arn, "QueueName": name, "QueueUrl": url})


@creates("AWS::SNS::Topic")
def topic(loading: Loading, logical: str, properties: Properties) -> Created:
    suffix = ".fifo" if properties.get("FifoTopic") else ""
    name = properties.pop("TopicName", None) or loading.generated_name(logical, suffix=suffix, limit=256)
    attributes = _as_attributes(taken(properties, "FifoTopic", "ContentBasedDeduplication", "DisplayName"))
    arn = loading.sns.create_topic(Name=name, Attributes=attributes)["TopicArn"]
    return Created(arn, {"TopicArn": arn, "TopicName": name})


@creates("AWS::SNS::Subscription")
def subscription(loading: Loading, logical: str, properties: Properties) -> Created:
    said = taken(properties, "RawMessageDelivery", "RedrivePolicy", "FilterPolicy", "FilterPolicyScope")
    arn = loading.sns.subscribe(
        TopicArn=properties.pop("TopicArn"),
        Protocol=properties.pop("Protocol"),
        Endpoint=properties.pop("Endpoint"),
        Attributes=_as_attributes(said),
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]
    return Created(arn, {"Arn": arn})


def _as_attributes(values: dict[str, Any]) -> dict[str, str]:
    """SQS and SNS take every attribute as text."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}

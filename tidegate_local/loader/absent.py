"""Types of resources that have no counterpart on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.loader.kinds import Created

if TYPE_CHECKING:
    from tidegate_local.loader.loading import Loading

ABSENT = {
    "AWS::CDK::Metadata": "it only tells AWS which constructs are in use",
    "AWS::CloudWatch::Alarm": "no metrics are collected here; `status` reads the ledger itself",
    "AWS::CloudWatch::CompositeAlarm": "no metrics are collected here",
    "AWS::CloudWatch::Dashboard": "no metrics are collected here",
    "AWS::Events::EventBusPolicy": "nobody is refused anything here",
    "AWS::Glue::Database": "the catalog is a SQLite file here, and Spark makes its namespaces",
    "AWS::IAM::ManagedPolicy": "nobody is refused anything here; the policies are tested on the template",
    "AWS::IAM::Policy": "nobody is refused anything here; the policies are tested on the template",
    "AWS::IAM::Role": "nobody is refused anything here; only its ARN is passed on",
    "AWS::KMS::Alias": "nothing is encrypted here",
    "AWS::KMS::Key": "nothing is encrypted here; only its ARN is passed on",
    "AWS::Lambda::EventInvokeConfig": "the worker retries an event twice, which is Lambda's default",
    "AWS::Lambda::Permission": "nobody is refused anything here",
    "AWS::Logs::LogGroup": "logs are files here",
    # moto enforces a Deny and ignores its Condition: `enforce_ssl` would lock everybody out
    "AWS::S3::BucketPolicy": "an emulator that ignores conditions would refuse every request without TLS",
    "AWS::SNS::TopicPolicy": "nobody is refused anything here",
    "AWS::SQS::QueuePolicy": "nobody is refused anything here, and one more condition could only lock us out",
    "Custom::S3AutoDeleteObjects": "`local down --forget` deletes the buckets here",
    "Custom::TidegateApplication": "`local down --forget` deletes the application here",
    "Custom::TidegateArchive": "there is nothing here to replay an archive",
    "Custom::TidegateNames": "the buckets' names are taken by nobody here",
    "Custom::TidegateProtection": "nothing deletes the table here but `local down --forget`",
}
"""Why each has none."""


def absent(loading: Loading, logical: str, resource: Mapping[str, Any]) -> Created:
    """What refers to it: a role, a log group and a key are referred to; the name of the first two may be given."""
    properties = resource.get("Properties", {})
    match resource["Type"]:
        case "AWS::IAM::Role":
            name = loading.resolver.resolve(properties.get("RoleName", loading.generated_name(logical)))
            return Created(name, {"Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}"})
        case "AWS::Logs::LogGroup":
            name = loading.resolver.resolve(properties.get("LogGroupName", loading.generated_name(logical)))
            return Created(name, {"Arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*"})
        case "AWS::KMS::Key":
            return Created(logical, {"Arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{logical}", "KeyId": logical})
    return Created(logical)

"""What of a template has no counterpart on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidegate_local.environment import ACCOUNT, REGION

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
"""Types of resources that have none, and why."""
MEANINGLESS = {
    "AccessControl": "nobody is refused anything here",
    "Architectures": "the handlers run in this Python",
    "ArchivePolicy": "there is nothing here to replay an archive",
    "AutoStartConfiguration": "the application is always started here",
    "AutoStopConfiguration": "the application is always started here",
    "BucketEncryption": "nothing is encrypted here",
    "ContributorInsightsSpecification": "no metrics are collected here",
    "DeletionProtectionEnabled": "nothing deletes the table here but `local down --forget`",
    "Description": "nobody looks for it here",
    "EphemeralStorage": "the handlers see this machine's disk",
    "FifoThroughputScope": "throughput is not limited here",
    "InitialCapacity": "jobs run on this machine",
    "KmsDataKeyReusePeriodSeconds": "nothing is encrypted here",
    "KmsMasterKeyId": "nothing is encrypted here",
    "LifecycleConfiguration": "nothing expires here: `local down --forget` deletes all of it",
    "LoggingConfig": "logs are files here",
    "LoggingConfiguration": "nobody else reads the buckets here",
    "MaximumCapacity": "jobs run on this machine",
    "MaximumMessageSize": "the emulator knows SNS's default only",
    "MonitoringConfiguration": "logs are files here",
    "NetworkConfiguration": "jobs run on this machine",
    "OwnershipControls": "there is one account here",
    "PointInTimeRecoverySpecification": "nobody restores the table here",
    "PublicAccessBlockConfiguration": "only this machine reaches the endpoint",
    "RedriveAllowPolicy": "nobody is refused anything here",
    "ReservedConcurrentExecutions": "one worker runs each function here",
    "Role": "nobody is refused anything here",
    "Runtime": "the handlers run in this Python",
    "RuntimeManagementConfig": "the handlers run in this Python",
    "SSESpecification": "nothing is encrypted here",
    "ScalingConfig": "one worker runs each function here",
    "SchedulerConfiguration": "how many jobs run at once is the endpoint's own setting here",
    "ServiceToken": "what its function does is done here",
    "SkipDestinationValidation": "no destination is validated here",
    "SqsManagedSseEnabled": "nothing is encrypted here",
    "Tags": "nobody looks for them here",
    "TracingConfig": "nothing is traced here",
}
"""Properties that are not applied on this machine, and why."""


def absent(
    kind: str, logical: str, properties: Mapping[str, Any], generated_name: Callable[[str], str]
) -> tuple[str, dict[str, str]]:
    """What refers to it, and its attributes: roles, log groups and keys are referred to. `generated_name` of a logical
    id is what it is called if nobody named it."""
    match kind:
        case "AWS::IAM::Role":
            name = properties.get("RoleName") or generated_name(logical)
            return name, {"Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}"}
        case "AWS::Logs::LogGroup":
            name = properties.get("LogGroupName") or generated_name(logical)
            return name, {"Arn": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*"}
        case "AWS::KMS::Key":
            return logical, {"Arn": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{logical}", "KeyId": logical}
    return logical, {}

"""The functions of CDK for custom resources. CloudFormation calls them during a deployment."""

import aws_cdk as cdk
from aws_cdk import aws_kms as kms

from infra.functions import own_log
from infra.permissions import accept

NOTIFICATIONS = ("BucketNotificationsHandler050a0587b7544547bf325f094a3db834", "Resource")
"""Adds notifications to buckets that exist already."""
CLEANER = ("Custom::S3AutoDeleteObjectsCustomResourceProvider", "Handler")
"""Empties the buckets of a trial before they are deleted."""
MANAGED = "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]"


def bound_logs(stack: cdk.Stack, key: kms.IKey | None) -> None:
    """Keep the logs of those functions that the stack has no longer than its own; by themselves they would stay for
    ever, and under no key of ours."""
    for provider, function in (NOTIFICATIONS, CLEANER):
        construct = stack.node.try_find_child(provider)
        if construct is None:
            continue
        log_group = own_log(construct, key)
        resource = construct.node.find_child(function)
        assert isinstance(resource, cdk.CfnResource)
        resource.add_property_override("LoggingConfig.LogGroup", log_group.log_group_name)
        if (provider, function) == NOTIFICATIONS:
            accept(construct, MANAGED, "A function of CDK's own: what it may do besides is write its log.")

"""The buffer: the SQS standard queue that S3 notifies, and its dead letters."""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from infra.encryption import Encryption
from infra.permissions import allow, only_this_account
from infra.sizing import Source
from tidegate.settings.fixed import DEAD_LETTERS, MESSAGES


class Buffer(Construct):
    """Takes the notifications of S3, however many and however fast."""

    def __init__(self, scope: Construct, id: str, *, source: Source, encryption: Encryption) -> None:
        super().__init__(scope, id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=cdk.Duration.seconds(DEAD_LETTERS),
            enforce_ssl=True,
            **encryption.queue,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=cdk.Duration.seconds(source.visibility),
            retention_period=cdk.Duration.seconds(MESSAGES),
            receive_message_wait_time=cdk.Duration.seconds(20),
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=source.receives),
            **encryption.queue,
        )

    def accept_from_buckets(self, bucket_arns: Sequence[str], owners: Sequence[str]) -> IDependable:
        """Let S3 send notifications of these buckets, of these accounts. Returns what the buckets must wait for.

        One statement for all: SQS takes 20 in a policy, and 8,192 bytes
        (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html). A bucket's
        ARN has no account in it. Without the second condition, the next owner of a deleted bucket's name could write
        here.
        """
        result = self.queue.add_to_resource_policy(
            _send(
                self.queue,
                "s3.amazonaws.com",
                {
                    "ArnEquals": {"aws:SourceArn": _plain(bucket_arns)},
                    "StringEquals": {"aws:SourceAccount": _plain(owners)},
                },
            )
        )
        assert result.policy_dependable is not None
        return result.policy_dependable

    def accept_from_rules(self, rule_arns: Sequence[str]) -> None:
        """Let EventBridge send the events of these rules of this account, and set aside those that it cannot
        deliver."""
        for queue in (self.queue, self.dead_letters):
            queue.add_to_resource_policy(_send(queue, "events.amazonaws.com", only_this_account(*rule_arns)))

    def grant_set_aside(self, role: iam.Role) -> None:
        """Let `role` send what it cannot parse to the dead-letter queue."""
        allow(role, ["sqs:SendMessage"], self.dead_letters.queue_arn)


def _send(queue: sqs.Queue, service: str, conditions: Mapping[str, Mapping[str, Any]]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["sqs:SendMessage"],
        principals=[iam.ServicePrincipal(service)],
        resources=[queue.queue_arn],
        conditions=dict(conditions),
    )


def _plain(values: Sequence[str]) -> str | list[str]:
    """As the template had it when there was one statement for each: a deployed policy of one stays as it is."""
    return values[0] if len(values) == 1 else [*values]

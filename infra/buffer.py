"""The buffer: the SQS standard queue that S3 notifies, and its dead letters."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from infra.encryption import Encryption
from infra.permissions import allow, only_this_account
from infra.sizing import Source
from tidegate.settings import RetentionSettings


class Buffer(Construct):
    """Takes the notifications of S3, however many and however fast."""

    def __init__(
        self, scope: Construct, id: str, *, source: Source, retention: RetentionSettings, encryption: Encryption
    ) -> None:
        super().__init__(scope, id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=cdk.Duration.seconds(retention.dead_letters),
            enforce_ssl=True,
            **encryption.queue,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=cdk.Duration.seconds(source.visibility),
            retention_period=cdk.Duration.seconds(retention.messages),
            receive_message_wait_time=cdk.Duration.seconds(20),
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=source.receives),
            **encryption.queue,
        )

    def accept_from_bucket(self, bucket_arn: str, owner: str) -> IDependable:
        """Let S3 send notifications of one bucket of the account `owner`. Returns what the bucket must wait for.

        A bucket's ARN has no account in it. Without the second condition, the next owner of a deleted bucket's name
        could write here.
        """
        result = self.queue.add_to_resource_policy(
            _send(
                self.queue,
                "s3.amazonaws.com",
                {
                    "ArnEquals": {"aws:SourceArn": bucket_arn},
                    "StringEquals": {"aws:SourceAccount": owner},
                },
            )
        )
        assert result.policy_dependable is not None
        return result.policy_dependable

    def accept_from_rule(self, rule_arn: str) -> None:
        """Let EventBridge send the events of one rule of this account, and set aside those that it cannot deliver."""
        for queue in (self.queue, self.dead_letters):
            queue.add_to_resource_policy(_send(queue, "events.amazonaws.com", only_this_account(rule_arn)))

    def grant_set_aside(self, role: iam.Role) -> None:
        """Let `role` send what it cannot parse to the dead-letter queue."""
        allow(role, ["sqs:SendMessage"], self.dead_letters.queue_arn)


def _send(queue: sqs.Queue, service: str, conditions: dict[str, dict[str, str]]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["sqs:SendMessage"],
        principals=[iam.ServicePrincipal(service)],
        resources=[queue.queue_arn],
        conditions=conditions,
    )

"""The buffer: the SQS standard queue that S3 notifies, and its dead letters."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IDependable

from infra.limits import Source
from tidegate.settings import Retention


class Buffer(Construct):
    """Takes what S3 says, as often and as fast as S3 says it."""

    def __init__(self, scope: Construct, id: str, *, source: Source, retention: Retention) -> None:
        super().__init__(scope, id)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            retention_period=cdk.Duration.seconds(retention.dead_letters),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        self.queue = sqs.Queue(
            self,
            "Queue",
            visibility_timeout=cdk.Duration.seconds(source.visibility),
            retention_period=cdk.Duration.seconds(retention.messages),
            receive_message_wait_time=cdk.Duration.seconds(20),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=source.receives),
        )

    def accept_from(self, bucket_arn: str) -> IDependable:
        """Let S3 send notifications of one bucket of this account; returns what the bucket must wait for.

        A bucket's ARN has no account in it: without the second condition, whoever takes the name after the
        bucket is deleted could write here.
        """
        result = self.queue.add_to_resource_policy(
            iam.PolicyStatement(
                actions=["sqs:SendMessage"],
                principals=[iam.ServicePrincipal("s3.amazonaws.com")],
                resources=[self.queue.queue_arn],
                conditions={
                    "ArnEquals": {"aws:SourceArn": bucket_arn},
                    "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
                },
            )
        )
        assert result.policy_dependable is not None
        return result.policy_dependable

    def grant_set_aside(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` put what it cannot parse among the dead letters itself."""
        iam.Grant.add_to_principal(
            grantee=grantee, actions=["sqs:SendMessage"], resource_arns=[self.dead_letters.queue_arn]
        )

"""The bus: notices go through an SNS FIFO topic into an SQS FIFO queue, one group per route."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.limits import Source, archive_days
from tidegate.settings import Retention


class Bus(Construct):
    """Keeps a route's notices in order, and an archive of them for replays and other subscribers."""

    def __init__(self, scope: Construct, id: str, *, source: Source, retention: Retention) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(
            self,
            "Topic",
            fifo=True,
            # a notice carries its own id: hashing its body again would only hide a deliberate resubmission
            content_based_deduplication=False,
            # SNS refuses to delete a topic with an archive: take the archive away first
            message_retention_period_in_days=archive_days(retention) or None,
            enforce_ssl=True,
        )
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            fifo=True,
            retention_period=cdk.Duration.seconds(retention.dead_letters),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        self.queue = sqs.Queue(
            self,
            "Notices",
            fifo=True,
            content_based_deduplication=False,
            visibility_timeout=cdk.Duration.seconds(source.visibility),
            retention_period=cdk.Duration.seconds(retention.messages),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=source.receives),
        )
        # SNS gives up at once on a queue that is gone or refuses it: undelivered notices are dead letters too
        self.topic.add_subscription(
            subscriptions.SqsSubscription(self.queue, raw_message_delivery=True, dead_letter_queue=self.dead_letters)
        )

    def grant_set_aside(self, grantee: iam.IGrantable) -> None:
        """Let `grantee` put what is no notice among the dead letters itself."""
        iam.Grant.add_to_principal(
            grantee=grantee, actions=["sqs:SendMessage"], resource_arns=[self.dead_letters.queue_arn]
        )

    def grant_publish(self, grantee: iam.IGrantable) -> None:
        arn = self.topic.topic_arn
        iam.Grant.add_to_principal(grantee=grantee, actions=["sns:Publish"], resource_arns=[arn])

"""Notices go through an SNS FIFO topic into an SQS FIFO queue, a group for each lane of a route."""

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.encryption import Encryption
from infra.guards import Guards
from infra.permissions import allow, only_this_account
from infra.sizing import Source
from tidegate.settings.fixed import DEAD_LETTERS, MESSAGES


class NoticeTopic(Construct):
    """Keeps the notices of a lane in order, and an archive of them for replays and other subscribers."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        source: Source,
        archive_days: int,
        encryption: Encryption,
        guards: Guards,
        dev: bool,
    ) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(
            self,
            "Topic",
            fifo=True,
            # a notice has its own id: a hash of its body would hide a deliberate resubmission
            content_based_deduplication=False,
            enforce_ssl=True,
            master_key=encryption.key,
        )
        if not dev:
            guards.archive(self.topic, archive_days)
        self.dead_letters = sqs.Queue(
            self,
            "DeadLetters",
            fifo=True,
            retention_period=cdk.Duration.seconds(DEAD_LETTERS),
            enforce_ssl=True,
            **encryption.queue,
        )
        self.queue = sqs.Queue(
            self,
            "Notices",
            fifo=True,
            content_based_deduplication=False,
            visibility_timeout=cdk.Duration.seconds(source.visibility),
            retention_period=cdk.Duration.seconds(MESSAGES),
            enforce_ssl=True,
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=source.receives),
            **encryption.queue,
        )
        subscription = self.topic.add_subscription(_Notices(self.queue)).node.default_child
        assert isinstance(subscription, sns.CfnSubscription)
        # SNS does not retry if the queue is gone or refuses it: undelivered notices are dead letters too
        subscription.redrive_policy = {"deadLetterTargetArn": self.dead_letters.queue_arn}
        self.dead_letters.add_to_resource_policy(_deliver(self.topic, self.dead_letters))

    def grant_set_aside(self, role: iam.Role) -> None:
        """Let `role` send what is no notice to the dead-letter queue."""
        allow(role, ["sqs:SendMessage"], self.dead_letters.queue_arn)

    def grant_publish(self, role: iam.Role) -> None:
        allow(role, ["sns:Publish"], self.topic.topic_arn)


@jsii.implements(sns.ITopicSubscription)
class _Notices:
    """The queue, as a subscriber. CDK's own would add permissions without the account, and to the key's policy too."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(self, topic: sns.ITopic) -> sns.TopicSubscriptionConfig:
        permission = self._queue.add_to_resource_policy(_deliver(topic, self._queue))
        return sns.TopicSubscriptionConfig(
            subscriber_scope=self._queue,
            subscriber_id=cdk.Names.node_unique_id(topic.node),
            endpoint=self._queue.queue_arn,
            protocol=sns.SubscriptionProtocol.SQS,
            raw_message_delivery=True,
            subscription_dependency=permission.policy_dependable,
        )


def _deliver(topic: sns.ITopic, queue: sqs.Queue) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        actions=["sqs:SendMessage"],
        principals=[iam.ServicePrincipal("sns.amazonaws.com")],
        resources=[queue.queue_arn],
        conditions=only_this_account(topic.topic_arn),
    )

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
from infra.queues import Queues, let_send
from infra.sizing import Source


class NoticeTopic(Queues):
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
        super().__init__(
            scope,
            id,
            name="Notices",
            source=source,
            encryption=encryption,
            fifo=True,
            content_based_deduplication=False,
        )
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
        subscription = self.topic.add_subscription(_Notices(self.queue)).node.default_child
        assert isinstance(subscription, sns.CfnSubscription)
        # SNS does not retry if the queue is gone or refuses it: undelivered notices are dead letters too
        subscription.redrive_policy = {"deadLetterTargetArn": self.dead_letters.queue_arn}
        let_send(self.dead_letters, "sns", only_this_account(self.topic.topic_arn))

    def grant_publish(self, role: iam.Role) -> None:
        allow(role, ["sns:Publish"], self.topic.topic_arn)


@jsii.implements(sns.ITopicSubscription)
class _Notices:
    """The queue, as a subscriber. CDK's own would add permissions without the account, and to the key's policy too."""

    def __init__(self, queue: sqs.Queue) -> None:
        self._queue = queue

    def bind(self, topic: sns.ITopic) -> sns.TopicSubscriptionConfig:
        permission = let_send(self._queue, "sns", only_this_account(topic.topic_arn))
        return sns.TopicSubscriptionConfig(
            subscriber_scope=self._queue,
            subscriber_id=cdk.Names.node_unique_id(topic.node),
            endpoint=self._queue.queue_arn,
            protocol=sns.SubscriptionProtocol.SQS,
            raw_message_delivery=True,
            subscription_dependency=permission.policy_dependable,
        )

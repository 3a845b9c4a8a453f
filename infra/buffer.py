"""The buffer: the SQS standard queue that S3 notifies, and its dead letters."""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct, IDependable

from infra.encryption import Encryption
from infra.permissions import only_this_account
from infra.queues import Queues, let_send
from infra.sizing import Source


class Buffer(Queues):
    """Takes the notifications of S3, however many and however fast."""

    def __init__(self, scope: Construct, id: str, *, source: Source, encryption: Encryption) -> None:
        super().__init__(
            scope,
            id,
            name="Queue",
            source=source,
            encryption=encryption,
            receive_message_wait_time=cdk.Duration.seconds(20),
        )

    def accept_from_buckets(self, bucket_arns: Sequence[str], owners: Sequence[str]) -> IDependable:
        """Let S3 send notifications of these buckets, of these accounts. Returns what the buckets must wait for.

        One statement for all: SQS takes 20 in a policy, and 8,192 bytes
        (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-policies.html). A bucket's
        ARN has no account in it. Without the second condition, the next owner of a deleted bucket's name could write
        here.
        """
        result = let_send(
            self.queue,
            "s3",
            {
                "ArnEquals": {"aws:SourceArn": _plain(bucket_arns)},
                "StringEquals": {"aws:SourceAccount": _plain(owners)},
            },
        )
        assert result.policy_dependable is not None
        return result.policy_dependable

    def accept_from_rules(self, rule_arns: Sequence[str]) -> None:
        """Let EventBridge send the events of these rules of this account, and set aside those that it cannot
        deliver."""
        for queue in (self.queue, self.dead_letters):
            let_send(queue, "events", only_this_account(*rule_arns))


def _plain(values: Sequence[str]) -> str | list[str]:
    """As the template had it when there was one statement for each: a deployed policy of one stays as it is."""
    return values[0] if len(values) == 1 else [*values]

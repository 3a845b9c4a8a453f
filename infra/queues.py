"""Queues that feed functions, each with the queue of its dead letters, and who may send to them."""

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.encryption import Encryption
from infra.permissions import allow
from infra.sizing import Source
from tidegate.settings.fixed import DEAD_LETTERS, MESSAGES


class Queues(Construct):
    """The queue of this `name`, and its dead letters. Both are `fifo` or not; the queue has the `options`, too."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        name: str,
        source: Source,
        encryption: Encryption,
        fifo: bool | None = None,
        **options: Any,
    ) -> None:
        super().__init__(scope, id)
        common = {"enforce_ssl": True, "fifo": fifo, **encryption.queue}
        self.dead_letters = sqs.Queue(
            self, "DeadLetters", retention_period=cdk.Duration.seconds(DEAD_LETTERS), **common
        )
        self.queue = sqs.Queue(
            self,
            name,
            visibility_timeout=cdk.Duration.seconds(source.visibility),
            retention_period=cdk.Duration.seconds(MESSAGES),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=source.receives),
            **common,
            **options,
        )

    def grant_set_aside(self, role: iam.Role) -> None:
        """Let `role` send what can never succeed to the dead letters."""
        allow(role, ["sqs:SendMessage"], self.dead_letters.queue_arn)


def let_send(
    queue: sqs.Queue, service: str, conditions: Mapping[str, Mapping[str, Any]]
) -> iam.AddToResourcePolicyResult:
    """Let a service of AWS send to the queue, under these conditions."""
    statement = iam.PolicyStatement(
        actions=["sqs:SendMessage"],
        principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
        resources=[queue.queue_arn],
        conditions=dict(conditions),
    )
    return queue.add_to_resource_policy(statement)

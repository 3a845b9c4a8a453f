"""The permission to announce batches on an event bus, which the stack does not create."""

from collections.abc import Callable

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from infra.permissions import allow

DEFAULT = "default"


def grant_announce(bus: str) -> Callable[[iam.Role], None]:
    """Lets a role put events on the bus of this name in the deployment's account and region, and on no other."""

    def grant(role: iam.Role) -> None:
        arn = cdk.Stack.of(role).format_arn(service="events", resource="event-bus", resource_name=bus)
        # a bus of one's own is looked up first
        allow(role, ["events:PutEvents", *(["events:DescribeEventBus"] if bus != DEFAULT else [])], arn)

    return grant

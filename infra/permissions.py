"""How the stack grants permissions, which resources outlive it, and how it answers findings of cdk-nag."""

from collections.abc import Mapping, Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import IConstruct

KEPT = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
"""For resources that outlive their stack, unless its creation is rolled back. RETAIN would leave them behind then, and
the next try would fail
(https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html)."""
PACK = "AwsSolutions"
DEFAULT_BUS = "default"
"""The event bus that every account has; the stack creates none."""
_ANSWER = cdk.Validations.ACKNOWLEDGED_RULES_METADATA_KEY


def allow(
    role: iam.Role,
    actions: Sequence[str],
    *resources: str,
    wildcard: str = "",
    conditions: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Let `role` do `actions` on exactly `resources` (ARNs).

    An ARN that ends in a wildcard stands for more than the template can name; `wildcard` states for what, and why.
    Raises ValueError without it.
    """
    iam.Grant.add_to_principal(
        grantee=role, actions=[*actions], resource_arns=[*resources], conditions=conditions and dict(conditions)
    )
    for resource in resources:
        name = _flat(cdk.Stack.of(role).resolve(resource))
        if "*" in name:
            if not wildcard:
                raise ValueError(f"say why {', '.join(actions)} is allowed on {name}")
            # the first grant of a role on a resource gives the reason
            if not _is_accepted(role, f"IAM5[Resource::{name}]"):
                accept(role, f"IAM5[Resource::{name}]", wildcard)


def accept(construct: IConstruct, rule: str, reason: str) -> None:
    """Answer for one finding of one rule, such as "S1", on one construct and what is in it."""
    # Validations.acknowledge() would take what follows the first `::` of a finding for its name
    construct.node.add_metadata(_ANSWER, {f"{PACK}-{rule}": reason})


def _is_accepted(construct: IConstruct, rule: str) -> bool:
    answers = (each.data for each in construct.node.metadata if each.type == _ANSWER)
    return any(f"{PACK}-{rule}" in answer for answer in answers)


def grant_announce(role: iam.Role, bus: str = DEFAULT_BUS) -> None:
    """Let `role` put events on the bus of this name in the deployment's account and region, and on no other."""
    arn = cdk.Stack.of(role).format_arn(service="events", resource="event-bus", resource_name=bus)
    # a bus of one's own is looked up first
    allow(role, ["events:PutEvents", *(["events:DescribeEventBus"] if bus != DEFAULT_BUS else [])], arn)


def only_this_account(*source_arns: str) -> dict[str, dict[str, Any]]:
    """The conditions of a resource policy for a service that acts for one of these ARNs, which name their account.

    The ARN decides. The account is compared only if the service sends it. If it were required, a service that leaves it
    out would be refused without any report.
    """
    return {
        "ArnEquals": {"aws:SourceArn": source_arns[0] if len(source_arns) == 1 else [*source_arns]},
        "StringEqualsIfExists": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
    }


def _flat(resource: Any) -> str:
    """A resolved ARN as cdk-nag writes it in a finding."""
    match resource:
        case str():
            return resource.replace("${", "<").replace("}", ">")
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(_flat, parts))
        case {"Fn::GetAtt": [logical_id, attribute]}:
            return f"<{logical_id}.{attribute}>"
        case {"Ref": logical_id}:
            return f"<{logical_id}>"
        case {"Fn::Sub": text}:
            return _flat(text)
    raise ValueError(f"no ARN: {resource!r}")

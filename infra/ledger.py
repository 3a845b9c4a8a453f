"""The ledger: the DynamoDB table that remembers who owns which upload."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.encryption import Encryption
from infra.guards import Guards
from infra.permissions import KEPT, allow

ACTIONS = (
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:BatchGetItem",
)
"""A transaction needs the actions of its items and none of its own."""
HAND_OFFS = "h#"
"""How the partition keys of hand-off records begin."""


class Ledger(Construct):
    """Without it every upload would be new again: it survives its stack, and nobody drops it by mistake."""

    def __init__(self, scope: Construct, id: str, *, encryption: Encryption, guards: Guards | None, dev: bool) -> None:
        """Without `guards` nothing switches deletion protection on."""
        super().__init__(scope, id)
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="pk", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="sk", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires_at",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            removal_policy=RemovalPolicy.DESTROY if dev else KEPT,
            **encryption.table,
        )
        if guards and not dev:
            guards.protection(self.table)

    def grant_list(self, role: iam.Role) -> None:
        """Read all routes' settings together."""
        allow(role, ["dynamodb:Query"], self.table.table_arn)

    def grant_use(self, role: iam.Role) -> None:
        """Everything but deleting: a claim, a notice and a batch end by expiring.

        Only the records of hand-offs may go, which Powertools deletes when starting the job raised.
        """
        arn = self.table.table_arn
        allow(role, ACTIONS, arn)
        allow(
            role,
            ["dynamodb:DeleteItem"],
            arn,
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{HAND_OFFS}*"]}},
        )

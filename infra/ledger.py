"""The ledger: the DynamoDB table that remembers who owns which upload."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

ACTIONS = (
    "dynamodb:BatchGetItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:UpdateItem",
)
"""A transaction needs the actions of its items and none of its own."""
HAND_OFFS = "h#"
"""How the partition keys of hand-off records begin."""


class Ledger(Construct):
    """Without it every upload would be new again: it survives its stack, and nobody drops it by mistake."""

    def __init__(self, scope: Construct, id: str) -> None:
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
            deletion_protection=True,
            removal_policy=RemovalPolicy.RETAIN,
        )

    def grant_use(self, grantee: iam.IGrantable) -> None:
        """Everything but deleting: a claim, a notice and a batch end by expiring.

        Only the records of hand-offs may go, which Powertools deletes when starting the job raised.
        """
        arn = self.table.table_arn
        iam.Grant.add_to_principal(grantee=grantee, actions=[*ACTIONS], resource_arns=[arn])
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["dynamodb:DeleteItem"],
            resource_arns=[arn],
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [f"{HAND_OFFS}*"]}},
        )

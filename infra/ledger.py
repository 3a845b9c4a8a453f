"""The ledger: the DynamoDB table of claims, notices and batches."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.encryption import Encryption
from infra.guards import Guards
from infra.permissions import KEPT, allow

ACTIONS = (
    "dynamodb:PutItem",
    "dynamodb:UpdateItem",
    "dynamodb:BatchGetItem",
    "dynamodb:GetItem",
)
"""A transaction needs the actions of its items and none of its own."""
HAND_OFFS = "h#"
"""How the partition keys of hand-off records begin."""
OUTBOX, WORK = "outbox", "work"
"""The partition keys of what is to be announced, and of what there is for workers."""


class LedgerTable(Construct):
    """Without the ledger every upload would be new again. So it outlives its stack, and is protected from deletion."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        encryption: Encryption,
        guards: Guards | None,
        dev: bool,
    ) -> None:
        """Without `guards` there is no deletion protection. How many writes a second the table takes at once is no
        property of it here: a person may raise it for a burst, and AWS never lowers it again."""
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
        """Read together all routes' settings, how all places are watched, or what there is for workers."""
        allow(role, ["dynamodb:Query"], self.table.table_arn)

    def grant_read(self, role: iam.Role) -> None:
        """Read items by their keys, and change none."""
        allow(role, ["dynamodb:BatchGetItem"], self.table.table_arn)

    def grant_get(self, role: iam.Role) -> None:
        """Read single items by their keys, and change none."""
        allow(role, ["dynamodb:GetItem"], self.table.table_arn)

    def grant_change(self, role: iam.Role) -> None:
        """Read items by their keys, and change items; delete none."""
        allow(role, ACTIONS, self.table.table_arn)

    def grant_use(self, role: iam.Role) -> None:
        """Everything except deleting: claims, notices and batches expire.

        Only the records of hand-offs may be deleted, which Powertools does when the start of the job raised, and those
        of workers, whose jobs have ended. Who announces batches may also delete what is in the outbox
        (`grant_take_out`).
        """
        self.grant_change(role)
        self._grant_delete(role, f"{HAND_OFFS}*", WORK)

    def grant_claim(self, role: iam.Role) -> None:
        """Insert many items in a request: what `tidegate.stores.inserts` does with the claims of a notice."""
        allow(role, ["dynamodb:PartiQLInsert"], self.table.table_arn)

    def grant_take_out(self, role: iam.Role) -> None:
        """Delete what was announced from the outbox."""
        self._grant_delete(role, OUTBOX)

    def grant_take(self, role: iam.Role) -> None:
        """Take what is offered to workers, and give signs of life: read all items, and change those of workers only."""
        allow(role, ["dynamodb:GetItem", "dynamodb:Query"], self.table.table_arn)
        allow(
            role,
            ["dynamodb:UpdateItem", "dynamodb:DeleteItem"],
            self.table.table_arn,
            conditions={"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [WORK]}},
        )

    def _grant_delete(self, role: iam.Role, *keys: str) -> None:
        allow(
            role,
            ["dynamodb:DeleteItem"],
            self.table.table_arn,
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": [*keys]}},
        )

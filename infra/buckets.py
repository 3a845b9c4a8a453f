"""What all buckets of the stack have in common, and the work bucket."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.encryption import Encryption
from infra.permissions import KEPT, accept, allow
from infra.sizing import UNFINISHED_UPLOAD_DAYS

BATCHES, LINEAGE, AUDITS, MAINTENANCE = "batches/*", "lineage/*", "audits/*", "maintenance/*"
SAME_BYTES = "same-bytes/*"
RECEIPT = "/receipt.json"
KEEP_DELETED = cdk.Duration.days(14)
"""How long a person has to bring back a file of the work bucket that somebody deleted: long enough to come back from a
holiday and see the alarm. Only what is deleted or overwritten costs its storage for so long."""
UNFINISHED_UPLOADS = cdk.Duration.days(UNFINISHED_UPLOAD_DAYS)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Makes buckets that are private, need TLS, and outlive their stack, unless it is for a trial (`dev`)."""

    encryption: Encryption
    access_logs: str | None
    dev: bool

    def make(
        self, scope: Construct, id: str, *, lifecycle_rules: Sequence[s3.LifecycleRule] = (), **options: Any
    ) -> s3.Bucket:
        logs = s3.Bucket.from_bucket_name(scope, f"{id}AccessLogs", self.access_logs) if self.access_logs else None
        bucket = s3.Bucket(
            scope,
            id,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=cdk.RemovalPolicy.DESTROY if self.dev else KEPT,
            auto_delete_objects=self.dev,
            lifecycle_rules=[
                # parts of an upload that was never completed are billed, and no listing shows them
                s3.LifecycleRule(abort_incomplete_multipart_upload_after=UNFINISHED_UPLOADS),
                *lifecycle_rules,
            ],
            server_access_logs_bucket=logs,
            # several buckets may log into one
            server_access_logs_prefix=f"{cdk.Stack.of(scope).stack_name}/{scope.node.id}/{id}/" if logs else None,
            **self.encryption.bucket,
            **options,
        )
        if not logs:
            accept(
                bucket,
                "S1",
                "Access logs need a bucket to go to, which an account has once and not per deployment: it is named in"
                " [security] access_logs. CloudTrail's data events tell the same.",
            )
        return bucket


class WorkBucket(Construct):
    """Manifests, outcomes and receipts of the batches.

    Nothing in it expires. A halted batch waits for a person without limit, and without its manifest its uploads would
    be lost. A million uploads a day leave some 10 GB a year.

    It keeps versions, because a part that somebody deletes by mistake names uploads that nothing else does. That costs
    next to nothing: every file is written once, under a name of its own. Only a receipt may be overwritten, with the
    same bytes, and is smaller than 1 KB.
    """

    def __init__(self, scope: Construct, id: str, *, buckets: Buckets) -> None:
        super().__init__(scope, id)
        kept = s3.LifecycleRule(noncurrent_version_expiration=KEEP_DELETED)
        self.bucket = buckets.make(self, "Bucket", versioned=True, lifecycle_rules=[kept])
        # the L2 method would add a Lambda function for what a property of the bucket does
        resource, kinds = self.bucket.node.default_child, s3.CfnBucket
        assert isinstance(resource, kinds)
        resource.notification_configuration = kinds.NotificationConfigurationProperty(
            event_bridge_configuration=kinds.EventBridgeConfigurationProperty(event_bridge_enabled=True)
        )

    @property
    def batch_decided(self) -> events.EventPattern:
        """S3's events of receipts: a table has decided about a batch. A job without subnets reaches S3, and not
        EventBridge (https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/vpc-access.html)."""
        return events.EventPattern(
            source=["aws.s3"],
            detail_type=["Object Created"],
            detail={"bucket": {"name": [self.bucket.bucket_name]}, "object": {"key": [{"suffix": RECEIPT}]}},
        )

    def grant(self, role: iam.Role, files: str, *actions: str) -> None:
        """Let `role` do `actions` on the files of every batch, or of every run of something."""
        wildcard = "The files of every batch, or of every run, whose ids are made while it runs."
        allow(role, actions, self.bucket.arn_for_objects(files), wildcard=wildcard)

    def grant_find(self, role: iam.Role) -> None:
        """Without it S3 answers 403 for an object that does not exist, and "no receipt yet" would look like
        "no permission". A condition on the prefix would have the same effect."""
        allow(role, ["s3:ListBucket"], self.bucket.bucket_arn)

    def grant_use(self, role: iam.Role) -> None:
        """Read and write the batches; delete nothing."""
        self.grant(role, BATCHES, "s3:GetObject", "s3:PutObject")
        self.grant_find(role)

    def grant_read_screenings(self, role: iam.Role) -> None:
        """Read what jobs have found for audits."""
        self.grant(role, AUDITS, "s3:GetObject")
        self.grant_find(role)

    def grant_read_floors(self, role: iam.Role) -> None:
        """Read where the batches' tables stood."""
        self.grant(role, f"{BATCHES}/floor*.json", "s3:GetObject")
        self.grant_find(role)

    def grant_same_bytes(self, role: iam.Role) -> None:
        """Note and read which version has the rows of one with the same bytes."""
        self.grant(role, SAME_BYTES, "s3:GetObject", "s3:PutObject")

    def grant_maintenance(self, role: iam.Role) -> None:
        """Write and read what a run of maintenance is asked, and has done."""
        self.grant(role, MAINTENANCE, "s3:GetObject", "s3:PutObject")

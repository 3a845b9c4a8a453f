"""What every bucket of the stack has in common, and the two that Tidegate keeps for itself."""

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.limits import UNFINISHED_UPLOAD_DAYS

BATCHES = "batches/"
UNFINISHED_UPLOADS = cdk.Duration.days(UNFINISHED_UPLOAD_DAYS)


def private_bucket(
    scope: Construct, id: str, *, lifecycle_rules: Sequence[s3.LifecycleRule] = (), **options: Any
) -> s3.Bucket:
    """A bucket that nobody reads by accident, nobody reaches without TLS, and that outlives its stack."""
    return s3.Bucket(
        scope,
        id,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        encryption=s3.BucketEncryption.S3_MANAGED,
        enforce_ssl=True,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        removal_policy=cdk.RemovalPolicy.RETAIN,
        lifecycle_rules=[
            # parts of an upload that was never completed are billed, and no listing shows them
            s3.LifecycleRule(abort_incomplete_multipart_upload_after=UNFINISHED_UPLOADS),
            *lifecycle_rules,
        ],
        **options,
    )


class Work(Construct):
    """Manifests, outcomes and receipts of the batches.

    Nothing in it expires: a batch that halted waits for a person as long as it takes, and without its
    manifest its uploads would be lost. A million uploads a day leave some 10 GB a year.
    """

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.bucket = private_bucket(self, "Bucket")

    def grant_use(self, grantee: iam.IGrantable) -> None:
        """Read and write the batches; delete nothing."""
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:GetObject", "s3:PutObject"],
            resource_arns=[self.bucket.arn_for_objects(f"{BATCHES}*")],
        )
        # Without it S3 answers 403 for an object that does not exist, and "no receipt yet" could not be told
        # from "no permission". A condition on the prefix would take that away again.
        iam.Grant.add_to_principal(grantee=grantee, actions=["s3:ListBucket"], resource_arns=[self.bucket.bucket_arn])


class Warehouse(Construct):
    """Where the tables' files live. Iceberg alone decides which of them to delete."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        self.bucket = private_bucket(self, "Bucket")

    def grant_use(self, grantee: iam.IGrantable) -> None:
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"],
            resource_arns=[self.bucket.arn_for_objects("*")],
        )
        iam.Grant.add_to_principal(grantee=grantee, actions=["s3:ListBucket"], resource_arns=[self.bucket.bucket_arn])

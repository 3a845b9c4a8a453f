"""Encryption at rest: by the services' own keys, or by one key of the account for all that the stack stores."""

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.permissions import KEPT, allow
from tidegate.settings import SecuritySettings

USE = ("kms:Decrypt", "kms:GenerateDataKey")
"""The actions on the key to send or write, and to read, a message or an object under it."""
USE_TABLE = (*USE, "kms:DescribeKey", "kms:Encrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo")
"""DynamoDB calls these in the name of the table's user
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/encryption.usagenotes.html)."""
SENDERS = ("s3", "sns", "events", "cloudwatch")
"""Services that put messages into queues and topics under the key: notifications of buckets, notices, events and
undeliverable ones, alarms."""

RETICENT = ("events",)
"""Services that do not always name the account for which they use a key. The queue's policy names the rules that may
write to it
(https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html)."""


class Encryption(Construct):
    """`key` is None where the services' own keys are used."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        security: SecuritySettings,
        bucket_owners: Sequence[str] = (),
        table_bucket: str | None = None,
        dev: bool,
    ) -> None:
        """`bucket_owners` are the other accounts whose buckets notify the buffer, `table_bucket` is the ARN of the one
        that holds the tables."""
        super().__init__(scope, id)
        self._bucket_owners = bucket_owners
        self._table_bucket = table_bucket
        self.key: kms.IKey | None = None
        if security.own_key is not None:
            self.key = kms.Key.from_key_arn(self, "Key", security.own_key)
        elif security.customer_key:
            key = kms.Key(
                self,
                "Key",
                description=f"What {cdk.Stack.of(self).stack_name} stores",
                enable_key_rotation=True,
                # without the key nothing that outlives the stack could be read
                removal_policy=cdk.RemovalPolicy.DESTROY if dev else KEPT,
            )
            for statement in self.statements():
                key.add_to_resource_policy(statement)
            self.key = key

    def statements(self) -> list[iam.PolicyStatement]:
        """The statements of the key's policy, besides the one that leaves decisions to IAM. None refers to resources of
        the stack, because these refer to the key."""
        stack = cdk.Stack.of(self)
        log_groups = stack.format_arn(
            service="logs", resource="log-group", resource_name="*", arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME
        )
        applications = stack.format_arn(service="emr-serverless", resource="", resource_name="applications/*")
        statements = [
            _let(
                f"Send{service.capitalize()}",
                service,
                {
                    "StringEqualsIfExists" if service in RETICENT else "StringEquals": {
                        "aws:SourceAccount": self._senders(service)
                    }
                },
            )
            for service in SENDERS
        ]
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html
        statements.append(
            _let(
                "FunctionLogs",
                f"logs.{cdk.Aws.REGION}",
                {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": log_groups}},
                *("kms:Decrypt*", "kms:Describe*", "kms:Encrypt*", "kms:GenerateDataKey*", "kms:ReEncrypt*"),
            )
        )
        # https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/jobs-log-encryption.html
        only_here = {"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}}
        statements.append(_let("JobLogs", "emr-serverless", {"ArnLike": {"aws:SourceArn": applications}, **only_here}))
        if self._table_bucket is not None:
            # without it S3 Tables makes no table under the key
            # (https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-kms-permissions.html)
            tables = {"StringLike": {"kms:EncryptionContext:aws:s3:arn": f"{self._table_bucket}/*"}}
            statements.append(_let("TableMaintenance", "maintenance.s3tables", tables))
        return statements

    def _senders(self, service: str) -> str | list[str]:
        others = sorted(set(self._bucket_owners)) if service == "s3" else []
        return [cdk.Aws.ACCOUNT_ID, *others] if others else cdk.Aws.ACCOUNT_ID

    def grant_messages(self, role: iam.Role) -> None:
        """Let `role` send to and read from queues and topics, and use buckets."""
        if self.key:
            allow(role, USE, self.key.key_arn)

    def grant_table(self, role: iam.Role) -> None:
        if self.key:
            allow(role, USE_TABLE, self.key.key_arn)

    @property
    def queue(self) -> dict[str, Any]:
        """Properties of a queue. A data key is used for an hour, so that not every message needs a call to KMS."""
        if self.key is None:
            return {"encryption": sqs.QueueEncryption.SQS_MANAGED}
        return {
            "encryption": sqs.QueueEncryption.KMS,
            "encryption_master_key": self.key,
            "data_key_reuse": cdk.Duration.hours(1),
        }

    @property
    def bucket(self) -> dict[str, Any]:
        """Properties of a bucket. With a bucket key not every object needs a call to KMS."""
        if self.key is None:
            return {"encryption": s3.BucketEncryption.S3_MANAGED}
        return {"encryption": s3.BucketEncryption.KMS, "encryption_key": self.key, "bucket_key_enabled": True}

    @property
    def table(self) -> dict[str, Any]:
        """Properties of a table. Without a key of the account DynamoDB encrypts with its own."""
        if self.key is None:
            return {}
        return {"encryption": dynamodb.TableEncryption.CUSTOMER_MANAGED, "encryption_key": self.key}


def _let(sid: str, service: str, conditions: dict[str, Any], *actions: str) -> iam.PolicyStatement:
    """Let a service use the key."""
    return iam.PolicyStatement(
        sid=sid,
        actions=[*(actions or USE)],
        principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
        resources=["*"],
        conditions=conditions,
    )

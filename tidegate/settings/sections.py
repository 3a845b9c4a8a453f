"""The sections of `tidegate.toml`, but for the routes."""

import re
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, field_validator, model_validator

from tidegate.core.workers import ALWAYS
from tidegate.schedule import AUDIT_SCHEDULE
from tidegate.settings.catalog import CatalogType
from tidegate.settings.fixed import LOOK_BACK, MIN_AGE
from tidegate.settings.values import (
    DAY,
    TABLE_BUCKET_ARN,
    BucketName,
    BusName,
    Duration,
    Email,
    EncryptionKey,
    HttpsUri,
    S3Uri,
    SecretArn,
    ShortName,
    Stay,
    WarehouseName,
)
from tidegate.settings.words import misplaced

TWO_JOBS = 12
"""vCPU: with less EMR runs one job at a time (infra/sizing.py)."""


class Section(BaseModel):
    """A section: an unknown field in it is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DeploymentSettings(Section):
    """The deployment's name, and its removal."""

    name: ShortName = Field(
        "tidegate",
        description="Prefix of the stack and its resources.",
    )
    dev: StrictBool = Field(
        False,
        description="For a trial: whoever deletes the stack deletes all that it created, with uploads, tables and "
        "ledger. Never for data that you need.",
    )


class SecuritySettings(Section):
    """Encryption, and access logs."""

    encryption: EncryptionKey = Field(
        "aws",
        description="aws: the services' own keys. customer: a key of the stack, which KMS rotates every year. It "
        "outlives the stack, as the data does. An ARN: this key, whose policy must let the services use it.",
    )
    access_logs: BucketName | None = Field(
        None,
        description="An existing bucket for the access logs of the created buckets. Its policy must let "
        "logging.s3.amazonaws.com put objects.",
    )

    @property
    def customer_key(self) -> bool:
        """Whether a key of the account encrypts the data, created by the stack or not."""
        return self.encryption != "aws"

    @property
    def own_key(self) -> str | None:
        """The ARN of a key that the owner made."""
        return None if self.encryption in ("aws", "customer") else self.encryption


class NetworkSettings(Section):
    """The subnets of Spark's workers, for what can be reached only from there."""

    subnets: tuple[str, ...] = Field(
        (),
        description="Ids of private subnets, in two zones or more, with endpoints or a NAT gateway to S3, Glue and "
        "the other services. Without subnets a job reaches only S3, Glue, Lake Formation, CloudWatch "
        "Logs, KMS, STS, DynamoDB and Secrets Manager in its region.",
    )
    security_groups: tuple[str, ...] = Field((), description="Ids of the workers' security groups.")

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        for name, ids, pattern in (
            ("subnets", self.subnets, r"subnet-[0-9a-f]{8,17}"),
            ("security_groups", self.security_groups, r"sg-[0-9a-f]{8,17}"),
        ):
            if wrong := [each for each in ids if not re.fullmatch(pattern, each)]:
                raise ValueError(
                    f"{wrong[0]!r} in `{name}` is not an id such as {pattern.partition('[')[0]}0123456789abcdef0"
                )
        if bool(self.subnets) != bool(self.security_groups):
            raise ValueError("give both `subnets` and `security_groups`, or neither")
        return self


class CatalogSettings(Section):
    """Where the tables are. Without any of these: in the account's Glue catalog, and the stack creates a bucket for
    their files. With `warehouse` alone: in a table bucket of S3 Tables, by way of Glue. With `uri`: in a REST catalog,
    which a job needs `subnets` to reach. Only the local catalog has been run. The catalog is called what the names of
    all routes' tables begin with."""

    warehouse: WarehouseName | None = Field(
        None,
        description="Of S3 Tables: the ARN of a table bucket of the deployment's region, integrated with Glue (see "
        "docs/deploy.md). Of a REST catalog: its name for the warehouse; s3://bucket/prefix if the job writes there "
        "itself.",
    )
    uri: HttpsUri | None = Field(None, description="Where the REST catalog is.")
    credential_secret: SecretArn | None = Field(
        None,
        description="Iceberg's `credential` for the REST catalog, in plain text, in Secrets Manager. A job reads it "
        "when it starts; no template and no parameter has it.",
    )

    @property
    def type(self) -> CatalogType:
        if self.uri is not None:
            return "rest"
        return "glue" if self.warehouse is None else "s3tables"

    @model_validator(mode="after")
    def _what_its_type_needs(self) -> Self:
        if self.type == "s3tables" and not re.fullmatch(TABLE_BUCKET_ARN, str(self.warehouse)):
            raise misplaced(
                "without a `uri` this is the ARN of a table bucket: arn:aws:s3tables:REGION:ACCOUNT:bucket/NAME",
                "warehouse",
            )
        if self.credential_secret is not None and self.uri is None:
            raise misplaced("this is for a REST catalog: give its `uri`, or leave this out", "credential_secret")
        return self


class RetentionSettings(Section):
    """How long Tidegate remembers uploads."""

    claims: Duration = Field(
        "60d",
        validate_default=True,
        description="How long the ledger keeps a claim, 46d at least: so long a repeated notification of an upload is "
        "refused.",
    )

    @field_validator("claims")
    @classmethod
    def _outlives_the_horizon(cls, seconds: int) -> int:
        if seconds < LOOK_BACK + DAY:
            raise ValueError(
                f"{LOOK_BACK // DAY + 1}d at least: an audit looks back {LOOK_BACK // DAY}d, takes an upload with an"
                " expired claim for a new one, and its rows are in the table twice"
            )
        return seconds


class LimitSettings(Section):
    """The share of the account's quotas that the deployment may use. The default fits a new account."""

    stay: Stay = Field(
        "10m",
        validate_default=True,
        description="How long a job, of any route, waits for a further batch: 0s to 1h, or always. What arrives "
        "meanwhile lands in seconds. EMR charges for the driver that waits. Each ends after an hour; with always there "
        "is another.",
    )
    vcpu: StrictInt = Field(
        16,
        ge=6,
        le=10_000,
        description="The vCPU of all jobs together. A new account has 16. A driver takes 1, an executor 4.",
    )

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.stay >= ALWAYS and self.vcpu < TWO_JOBS:
            raise ValueError(
                f'stay = "always" needs vcpu = {TWO_JOBS} at least: a batch that failed waits for a job of its own,'
                " beside the one that is always there"
            )
        return self


class OperationsSettings(Section):
    """Who receives alarms, and which uploads sound none."""

    emails: tuple[Email, ...] = Field(
        (),
        description="Addresses that receive alarms. Each must confirm SNS's first mail.",
    )
    ignore: tuple[S3Uri, ...] = Field(
        (),
        description="Places whose uploads need no route: s3://bucket/prefix. Any other upload of no route sounds an "
        "alarm.",
    )

    @property
    def ignored(self) -> tuple[tuple[str, str], ...]:
        """Bucket and prefix of each place."""
        places = (place.removeprefix("s3://").partition("/") for place in self.ignore)
        return tuple((bucket, prefix) for bucket, _, prefix in places)


class AuditSettings(Section):
    """It compares each route's bucket with the ledger, and sends what S3 never announced."""

    every: Duration = Field(
        "1d",
        validate_default=True,
        description="How often an audit of a route begins, 1h to 44d. Each lists the bucket, which S3 charges for.",
    )

    @field_validator("every")
    @classmethod
    def _as_the_schedule_allows(cls, seconds: int) -> int:
        if seconds < AUDIT_SCHEDULE:
            raise ValueError("the audit looks once an hour whether one is due: 1h at least")
        if seconds > (most := LOOK_BACK - MIN_AGE):
            raise ValueError(f"{most // DAY}d at most: an audit looks back {LOOK_BACK // DAY}d, and would skip uploads")
        return seconds


class MaintainSettings(Section):
    """Small files of the tables are compacted, old snapshots expire, orphan files are deleted."""

    keep_snapshots_for: Duration = Field(
        "5d",
        validate_default=True,
        description="For how long a table can be read as it was, 1d at least. Younger snapshots stay, and those that "
        "unfinished batches need.",
    )

    @field_validator("keep_snapshots_for")
    @classmethod
    def _a_day(cls, seconds: int) -> int:
        if seconds < DAY:
            raise ValueError("1d at least: a job may queue and run for a day, and needs the history of then")
        return seconds


class AnnounceSettings(Section):
    """The events that tell others of committed batches (see docs/consumers.md)."""

    bus: BusName = Field(
        "default",
        description="The event bus, which must exist in the deployment's account and region. default: the account's "
        'own. "": no events; those that are committed meanwhile are never announced.',
    )

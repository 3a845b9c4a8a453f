"""The sections of `tidegate.toml`, but for the routes."""

import re
from typing import Literal, Self

from pydantic import BaseModel, ByteSize, ConfigDict, Field, StrictBool, StrictInt, field_validator, model_validator

from tidegate.schedule import AUDIT_SCHEDULE
from tidegate.settings.values import (
    DAY,
    HOUR,
    MINUTE,
    BucketName,
    BusName,
    CatalogName,
    Duration,
    DurationOrNone,
    Email,
    HttpsUri,
    KeyArn,
    S3Uri,
    SecretArn,
    ShortName,
    Size,
    TableBucketArn,
    WarehouseName,
)

# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
SQS_LONGEST_RETENTION = 14 * DAY


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

    encryption: Literal["aws", "customer"] = Field(
        "aws",
        description="aws: the services' own keys. customer: a key of the stack, which KMS rotates every year. It "
        "outlives the stack, as the data does.",
    )
    kms_key_arn: KeyArn | None = Field(
        None,
        description="Use this key instead. Its policy must let the services use it.",
    )
    access_logs: BucketName | None = Field(
        None,
        description="An existing bucket for the access logs of the created buckets. Its policy must let "
        "logging.s3.amazonaws.com put objects.",
    )

    @property
    def customer_key(self) -> bool:
        """Whether a key of the account encrypts the data, created by the stack or not."""
        return self.encryption == "customer" or self.kms_key_arn is not None


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
    """The Iceberg catalog that holds the tables."""

    name: CatalogName = Field(
        "lake",
        description="Its name in Spark. Every route's `table` begins with it.",
    )
    type: Literal["glue", "s3tables", "rest"] = Field(
        "glue",
        description="glue: the account's Glue catalog; the stack creates a bucket for the tables. s3tables: a table "
        "bucket of S3 Tables, by way of Glue. rest: a REST catalog; a job needs `subnets` to reach it. "
        "Only the local catalog has been run.",
    )
    arn: TableBucketArn | None = Field(
        None,
        description="s3tables: an existing one of the deployment's region, integrated with Glue (see docs/deploy.md).",
    )
    uri: HttpsUri | None = Field(None, description="rest: where the catalog is.")
    warehouse: WarehouseName | None = Field(
        None,
        description="rest: its name for the warehouse; s3://bucket/prefix if the job writes there itself.",
    )
    credential_secret: SecretArn | None = Field(
        None,
        description="rest: Iceberg's `credential`, in plain text, in Secrets Manager. A job reads it when it starts; "
        "no template and no parameter has it.",
    )

    @model_validator(mode="after")
    def _what_its_type_needs(self) -> Self:
        of_type = {"glue": (), "s3tables": ("arn",), "rest": ("uri", "warehouse", "credential_secret")}
        for name in ("arn", "uri", "warehouse", "credential_secret"):
            if getattr(self, name) is not None and name not in of_type[self.type]:
                raise ValueError(f'`{name}` is not allowed for a catalog of type "{self.type}"')
        for kind, needed in (("s3tables", "arn"), ("rest", "uri")):
            if self.type == kind and getattr(self, needed) is None:
                raise ValueError(f'a catalog of type "{kind}" needs `{needed}`')
        return self


class RetentionSettings(Section):
    """How long messages and claims are kept. Each must outlive the one before it."""

    messages: Duration = Field("4d", validate_default=True, description="How long queues keep a message, 14d at most.")
    dead_letters: Duration = Field(
        "14d", validate_default=True, description="How long dead-letter queues keep one, 14d at most."
    )
    look_back: Duration = Field(
        "45d", validate_default=True, description="How far back an audit may look (the horizon)."
    )
    claims: Duration = Field(
        "60d",
        validate_default=True,
        description="How long the ledger keeps a claim.",
    )

    @model_validator(mode="after")
    def _each_outlives_the_one_before(self) -> Self:
        longest = max(self.messages, self.dead_letters)
        if longest > SQS_LONGEST_RETENTION:
            raise ValueError("`messages` and `dead_letters` may be 14d at most: SQS keeps nothing longer")
        if self.look_back <= self.travel:
            raise ValueError(
                "`look_back` must be longer than a message can travel"
                f" (3 x messages + 2 x dead_letters = {self.travel // DAY}d):"
                " otherwise an upload is audited while its message may still arrive"
            )
        if self.claims < self.look_back + DAY:
            raise ValueError(
                "`claims` must be longer than `look_back`, by 1d at least: otherwise an audit takes an upload with an"
                " expired claim for a new one, and its rows are in the table twice"
            )
        return self

    @property
    def travel(self) -> int:
        """Seconds after an upload in which a message may still announce it, if a person moves dead letters back once at
        each queue. The age of the buffer's dead letters counts from the upload. Moving a message back, and moving one
        to a FIFO queue's dead letters, starts its age anew
        (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html).
        """
        return self.dead_letters + self.messages + (self.messages + self.dead_letters + self.messages)


class LimitSettings(Section):
    """The share of the account's quotas that the deployment may use. The defaults fit a new account: 10 invocations of
    Lambda at a time, 16 vCPU of EMR Serverless."""

    intake_concurrency: StrictInt = Field(
        3, ge=2, le=1000, description="Concurrent invocations of intake. Each takes up to 1,000 notifications."
    )
    dispatch_concurrency: StrictInt = Field(
        3,
        ge=2,
        le=1000,
        description="Concurrent invocations of dispatch. Each lane of a route uses one.",
    )
    reserve_concurrency: StrictBool = Field(
        False,
        description="Reserve these numbers, and 4 for the other functions. Lambda refuses that if less than 100 are "
        "left to the account, or 10 in a new account.",
    )
    warm_writes: StrictInt | None = Field(
        None,
        gt=4_000,
        le=1_000_000,
        description="Write units a second that the ledger takes at once; an upload is one. A new table takes 4,000, "
        "later more. AWS charges once for what is raised. It cannot be lowered again.",
    )
    vcpu: StrictInt = Field(16, ge=6, le=10_000, description="The vCPU of all jobs together.")
    memory_gb: StrictInt = Field(64, ge=24, le=100_000, description="Their memory: 4 GB for each vCPU.")
    disk_gb: StrictInt = Field(200, ge=40, le=100_000, description="Their disk: 20 GB for each worker.")
    concurrent_jobs: StrictInt = Field(
        0,
        ge=0,
        le=1000,
        description="Concurrent jobs; the others queue. 0: as many as have room for a driver and one executor.",
    )
    queue_timeout: Duration = Field(
        "6h",
        validate_default=True,
        description='How long a job may queue for vCPU, "15m" to "12h". Then it ends, which counts as an attempt.',
    )
    job_timeout: Duration = Field(
        "8h",
        validate_default=True,
        description="How long a job may run. Usually minutes.",
    )
    linger: DurationOrNone | None = Field(
        None,
        description="How long a job that has published waits for another batch, which then needs no job of its own: "
        '"0s" to "5m". Default: 10s with `subnets` in [network]. Without them it must be 0s: a job '
        "cannot tell settling that its batch is decided.",
    )

    @field_validator("linger")
    @classmethod
    def _briefly(cls, seconds: int | None) -> int | None:
        if seconds is not None and seconds > 5 * MINUTE:
            raise ValueError("5m at most: a job that waits for longer costs more than the job that it spares")
        return seconds

    @field_validator("queue_timeout", "job_timeout")
    @classmethod
    def _whole_minutes(cls, seconds: int) -> int:
        if seconds % MINUTE:
            raise ValueError("EMR Serverless takes whole minutes only")
        return seconds

    @field_validator("queue_timeout")
    @classmethod
    def _as_emr_allows(cls, seconds: int) -> int:
        # https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_SchedulerConfiguration.html
        if not 15 * MINUTE <= seconds <= 12 * HOUR:
            raise ValueError("EMR Serverless keeps a job queued for 15m to 12h")
        return seconds


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

    min_age: Duration = Field(
        "12h",
        validate_default=True,
        description="How old an upload, or an unregistered claim, must be to count as lost. Notifications were seen "
        "6 hours late.",
    )
    max_age: Duration = Field(
        "30d",
        validate_default=True,
        description="How old an upload may be. Default: `look_back`, if that is shorter.",
    )
    rate: StrictInt = Field(500, ge=10, le=100_000, description="Lost uploads sent in a second, at most.")
    every: Duration = Field(
        "1d", validate_default=True, description="How often an audit of a route begins, 1h at least."
    )
    job_above: StrictInt = Field(
        5_000_000,
        gt=0,
        description="If an audit has listed more uploads of a route, a Spark job makes the next one.",
    )
    read_rate: StrictInt = Field(
        5_000,
        ge=100,
        le=1_000_000,
        description="Uploads that such a job looks up in a second, at most. Each costs a read unit.",
    )

    @field_validator("every")
    @classmethod
    def _as_the_schedule_allows(cls, seconds: int) -> int:
        if seconds < AUDIT_SCHEDULE:
            raise ValueError("the audit looks once an hour whether one is due: 1h at least")
        return seconds


class MaintainSettings(Section):
    """Small files of the tables are compacted, old snapshots expire, orphan files are deleted."""

    enabled: StrictBool | None = Field(
        None,
        description="Maintain the tables that Tidegate created, unless their route says otherwise. Default: true for "
        "a catalog of type glue, else false. Must be false for S3 Tables, and so must `maintain` of a "
        "route.",
    )
    every: Duration = Field(
        "1d", validate_default=True, description="How often a job maintains the tables, 1d at least."
    )
    keep_snapshots_for: Duration = Field(
        "5d",
        validate_default=True,
        description="Younger snapshots stay, 1d at least, and those that unfinished batches need.",
    )
    keep_snapshots: StrictInt = Field(
        100, ge=1, le=100_000, description="So many of the latest snapshots stay, of any age."
    )
    orphans_after: Duration = Field(
        "7d",
        validate_default=True,
        description="Older files that no snapshot names are deleted, 3d at least.",
    )
    compact_bytes: Size = Field(
        ByteSize(50_000_000_000),
        gt=0,
        description="Small files that one run rewrites in each table, at most.",
    )

    @field_validator("every")
    @classmethod
    def _one_at_a_time(cls, seconds: int) -> int:
        if seconds < DAY:
            raise ValueError("1d at least: a job may queue and run for a day, and the next one begins after it")
        return seconds

    @field_validator("keep_snapshots_for")
    @classmethod
    def _a_day(cls, seconds: int) -> int:
        if seconds < DAY:
            raise ValueError("1d at least: a job may queue and run for a day, and needs the history of then")
        return seconds

    @field_validator("orphans_after")
    @classmethod
    def _three_days(cls, seconds: int) -> int:
        if seconds < 3 * DAY:
            raise ValueError("3d at least: no snapshot names yet what a job is writing")
        return seconds


class AnnounceSettings(Section):
    """The events that tell others of committed batches (see docs/consumers.md)."""

    enabled: StrictBool = Field(
        True,
        description="Send an event to EventBridge for each committed batch. Those that are committed while it is "
        "false are never announced.",
    )
    bus: BusName = Field(
        "default",
        description="It must exist in the deployment's account and region. default: the account's own.",
    )

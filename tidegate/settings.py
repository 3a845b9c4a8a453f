"""`tidegate.toml`: read and validated.

Every mistake is reported with its line and with what is allowed there. An unknown field is a mistake.
"""

import difflib
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from tidegate.core.audit import LISTING, SOURCES, AuditLimits
from tidegate.core.batches import LONGEST_RETRY_WAIT, BatchLimits
from tidegate.core.lanes import MOST_LANES
from tidegate.core.maintenance import MaintainLimits
from tidegate.core.routes import Dataset, Route
from tidegate.formats.registry import FORMATS, Option, options_of_all
from tidegate.schedule import AUDIT_SCHEDULE

DEFAULT_FILE = Path("tidegate.toml")

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
SQS_LONGEST_RETENTION = 14 * DAY

_UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
_SIZES = 'a size is a number and a unit in quotes, such as "256MB" or "1GiB"'


class SettingsError(Exception):
    """The configuration cannot be used; the text names the file, the line, and what is allowed."""


def duration(value: object) -> int:
    """The seconds in text such as "15m". Raises ValueError."""
    match = re.fullmatch(r"([1-9][0-9]*)\s*([smhd])", value) if isinstance(value, str) else None
    if not match:
        raise ValueError('a duration is a whole number and a unit (s, m, h, d) in quotes, such as "60s" or "14d"')
    return int(match[1]) * _UNITS[match[2]]


def duration_or_none(value: object) -> int:
    """The same, and 0 for "0s". Raises ValueError."""
    if value == "0s":
        return 0
    try:
        return duration(value)
    except ValueError as error:
        raise ValueError(f'{error}, or "0s"') from None


Duration = Annotated[int, BeforeValidator(duration, json_schema_input_type=str)]
"""Seconds, written as "60s", "15m", "12h" or "14d"."""
DurationOrNone = Annotated[int, BeforeValidator(duration_or_none, json_schema_input_type=str)]
"""The same, or "0s"."""


def _size(value: object) -> object:
    # pydantic takes `true` for a size of 1 byte
    if isinstance(value, bool):
        raise ValueError(_SIZES)
    return value


Size = Annotated[ByteSize, BeforeValidator(_size, json_schema_input_type=int | str)]
"""Bytes, written as 1000, "256MB" or "1GiB"."""

ShortName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
TableName = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*){2}$")]
AccountId = Annotated[str, StringConstraints(pattern=r"^[0-9]{12}$")]
KeyArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$")]
TableBucketArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:s3tables:[a-z0-9-]+:[0-9]{12}:bucket/[a-z0-9-]{3,63}$")
]
SecretArn = Annotated[
    str,
    StringConstraints(
        pattern=r"^arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6}$"
    ),
]
Email = Annotated[str, StringConstraints(pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=254)]
S3Uri = Annotated[str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$", max_length=1100)]


def _audit_source(given: str) -> str:
    if given not in SOURCES and not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[^?*$]*[^/?*$]/?", given):
        raise ValueError(
            f"an audit finds uploads in {', '.join(SOURCES)}, or in the folder of an S3 Inventory:"
            " s3://BUCKET/PREFIX/SOURCE-BUCKET/CONFIGURATION"
        )
    return given


AuditSource = Annotated[str, AfterValidator(_audit_source)]
HttpsUri = Annotated[str, StringConstraints(pattern=r"^https://[A-Za-z0-9._~:/?%=&-]+$")]
if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DeploymentSettings(_Section):
    """The deployment's name, and how it is removed."""

    name: ShortName = Field(
        "tidegate",
        description="Prefix of the stack and its resources: lower case letters, digits and dashes.",
    )
    dev: StrictBool = Field(
        False,
        description="For a trial: when the stack is deleted, everything that it created is deleted too, with uploads, "
        "tables and ledger. Never for data that you need.",
    )


class SecuritySettings(_Section):
    """Keys that encrypt stored data, and access logs."""

    encryption: Literal["aws", "customer"] = Field(
        "aws",
        description="aws: the services' own keys. customer: a key that the stack creates and KMS rotates every year. "
        "It outlives the stack, because the data that it encrypts does.",
    )
    kms_key_arn: KeyArn | None = Field(
        None,
        description="Use this key instead. Its key policy must let the services use it (see below). The stack cannot "
        "change that policy.",
    )
    access_logs: BucketName | None = Field(
        None,
        description="An existing bucket. S3 writes the access logs of the created buckets into it. Its policy must let "
        "logging.s3.amazonaws.com put objects. Without it there are no access logs.",
    )

    @property
    def customer_key(self) -> bool:
        """Whether a key of the account encrypts the data, created by the stack or not."""
        return self.encryption == "customer" or self.kms_key_arn is not None


class NetworkSettings(_Section):
    """The subnets of Spark's workers, for catalogs and buckets that can be reached only from there."""

    subnets: tuple[str, ...] = Field(
        (),
        description="Ids of private subnets, in two zones or more. They need a way to S3, Glue and the other services: "
        "endpoints or a NAT gateway. Without subnets, EMR Serverless runs outside your network.",
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


class CatalogSettings(_Section):
    """The Iceberg catalog that holds the tables."""

    name: str = Field(
        "lake",
        pattern=r"^[a-z_][a-z0-9_]*$",
        description="The catalog's name in Spark. Every route's `table` begins with it.",
    )
    type: Literal["glue", "s3tables", "rest"] = Field(
        "glue",
        description="glue: the account's Glue catalog, with the tables' files in a bucket that the stack creates. "
        "s3tables: a table bucket of S3 Tables. rest: a REST catalog. The stack creates a warehouse bucket for glue "
        "only. Only the local catalog has been run.",
    )
    arn: TableBucketArn | None = Field(None, description="s3tables: the ARN of an existing table bucket.")
    uri: HttpsUri | None = Field(None, description="rest: the address of the catalog.")
    warehouse: str | None = Field(
        None,
        max_length=1024,
        description="rest: the catalog's name for the warehouse; s3://bucket/prefix if the job writes there itself.",
    )
    credential_secret: SecretArn | None = Field(
        None,
        description="rest: the whole ARN of a secret in Secrets Manager. The secret is Iceberg's `credential` in plain "
        "text. EMR reads it when a job starts, if the secret's policy allows that (see docs/deploy.md). Neither the "
        "template nor Tidegate reads it.",
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


class RetentionSettings(_Section):
    """How long messages and claims are kept. Each must outlive the one before it (see docs/architecture.md)."""

    messages: Duration = Field("4d", validate_default=True, description="How long queues keep a message.")
    dead_letters: Duration = Field(
        "14d", validate_default=True, description="How long dead-letter queues keep a message."
    )
    look_back: Duration = Field(
        "45d", validate_default=True, description="How far back an audit of the bucket may look (the horizon)."
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


class LimitSettings(_Section):
    """The share of the account's quotas that the deployment may use. The defaults fit a new account: 10 concurrent
    invocations of Lambda functions, 16 vCPU of EMR Serverless."""

    intake_concurrency: StrictInt = Field(
        4, ge=2, le=1000, description="Concurrent invocations of intake. Each takes up to 1,000 notifications."
    )
    dispatch_concurrency: StrictInt = Field(
        4,
        ge=2,
        le=1000,
        description="Concurrent invocations of dispatch. Each lane of a route uses one at most.",
    )
    reserve_concurrency: StrictBool = Field(
        False,
        description="Reserve these numbers, and 2 for settle, for the functions alone. Lambda refuses a reservation "
        "that leaves the rest of the account less than 100, or 10 in a new account.",
    )
    vcpu: StrictInt = Field(16, ge=6, le=10_000, description="The vCPU of all jobs together. A job needs 6 at least.")
    memory_gb: StrictInt = Field(
        64, ge=24, le=100_000, description="The memory of all jobs together: 4 GB for each vCPU."
    )
    disk_gb: StrictInt = Field(
        200, ge=40, le=100_000, description="The disk of all jobs together: 20 GB for each worker."
    )
    concurrent_jobs: StrictInt = Field(
        0,
        ge=0,
        le=1000,
        description="Concurrent jobs; the others queue. 0: as many as have room for a driver and one executor each.",
    )
    queue_timeout: Duration = Field(
        "6h",
        validate_default=True,
        description='How long a job may queue for vCPU, "15m" to "12h". Then it ends, and counts as an attempt.',
    )
    job_timeout: Duration = Field(
        "8h",
        validate_default=True,
        description="How long a job may run. An ordinary job takes minutes.",
    )
    linger: DurationOrNone = Field(
        "10s",
        validate_default=True,
        description="How long a job that has published its batch waits for another one, which then needs no job of its "
        'own: "0s" (each batch has a job) to "5m".',
    )

    @field_validator("linger")
    @classmethod
    def _briefly(cls, seconds: int) -> int:
        if seconds > 5 * MINUTE:
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


class OperationsSettings(_Section):
    """Who receives alarms, and which uploads sound none."""

    emails: tuple[Email, ...] = Field(
        (),
        description="Addresses that receive alarms. Each must confirm the first mail from SNS. Other receivers "
        "subscribe to the alarms' topic.",
    )
    ignore: tuple[S3Uri, ...] = Field(
        (),
        description="Places whose uploads need no route: s3://bucket/prefix. Any other upload that no route takes "
        "sounds an alarm.",
    )

    @property
    def ignored(self) -> tuple[tuple[str, str], ...]:
        """Bucket and prefix of each place."""
        places = (place.removeprefix("s3://").partition("/") for place in self.ignore)
        return tuple((bucket, prefix) for bucket, _, prefix in places)


class AuditSettings(_Section):
    """The audit: it compares each route's bucket with the ledger, and sends what S3 never announced."""

    min_age: Duration = Field(
        "12h",
        validate_default=True,
        description="How old an upload, or a claim without a registered notice, must be before it may count as lost. "
        "Notifications were seen 6 hours late.",
    )
    max_age: Duration = Field(
        "30d",
        validate_default=True,
        description="How old an upload may be. At most `look_back`; if that is shorter than 30d, it is the default.",
    )
    rate: StrictInt = Field(500, ge=10, le=100_000, description="Lost uploads that are sent in a second, at most.")
    every: Duration = Field(
        "1d", validate_default=True, description="How often an audit of a route begins: every hour, or less often."
    )
    job_above: StrictInt = Field(
        5_000_000,
        gt=0,
        description="If an audit has listed more uploads of a route than this, the next one is made by a Spark job,"
        " which lists many parts of the bucket at a time.",
    )
    read_rate: StrictInt = Field(
        5_000,
        ge=100,
        le=1_000_000,
        description="Uploads that such a job compares with the ledger in a second, at most. Each costs a read unit.",
    )

    @field_validator("every")
    @classmethod
    def _as_the_schedule_allows(cls, seconds: int) -> int:
        if seconds < AUDIT_SCHEDULE:
            raise ValueError("the audit looks once an hour whether one is due: 1h at least")
        return seconds


class MaintainSettings(_Section):
    """Maintenance of the tables: small files are compacted, old snapshots expire, orphan files are deleted."""

    enabled: StrictBool | None = Field(
        None,
        description="Maintain the tables that Tidegate created, of all routes that do not say otherwise. Default: true"
        " for a catalog of type glue, else false. S3 Tables maintains its tables itself, so it must be false there.",
    )
    every: Duration = Field(
        "1d", validate_default=True, description="How often a job maintains the tables: every day, or less often."
    )
    keep_snapshots_for: Duration = Field(
        "5d",
        validate_default=True,
        description="Snapshots that are younger stay, 1d at least. What unfinished batches need stays too.",
    )
    keep_snapshots: StrictInt = Field(
        100, ge=1, le=100_000, description="So many of the latest snapshots stay, whatever their age."
    )
    orphans_after: Duration = Field(
        "7d",
        validate_default=True,
        description="Files that no snapshot names are deleted when they are older, 3d at least.",
    )
    compact_bytes: Size = Field(
        ByteSize(50_000_000_000),
        gt=0,
        description="Small files that one run rewrites in each table, at most. The rest is left to the next run.",
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


class AnnounceSettings(_Section):
    """The events that tell others of committed batches (see docs/consumers.md)."""

    enabled: StrictBool = Field(
        True,
        description="Send an event to EventBridge for each batch that is committed. If false, batches that are"
        " committed meanwhile are never announced.",
    )
    bus: str = Field(
        "default",
        pattern=r"^[A-Za-z0-9._-]{1,256}$",
        description="The name of an event bus of the deployment's account and region. It must exist. default: the"
        " account's default bus.",
    )


class BatchSettings(_Section):
    """When a batch is handed off to a Spark job."""

    max_wait: Duration = Field(
        "60s",
        validate_default=True,
        description="How long an upload may wait for others before its batch is handed off, if a job may start. "
        "Below 60s it holds while uploads arrive or jobs end. If few uploads arrive, the one-minute schedule decides. "
        "Before that, notifications gather for a twelfth of the shortest max_wait: 2s at least, 5m at most.",
    )
    target_bytes: Size = Field(
        ByteSize(256_000_000),
        gt=0,
        description='Hand off when the batch has this many bytes: "256MB", "1GiB".',
    )
    target_objects: StrictInt = Field(
        100_000, gt=0, le=1_000_000, description="Hand off when the batch has this many objects."
    )
    in_flight: StrictInt = Field(1, ge=1, le=50, description="Concurrent jobs of this route.")
    attempts: StrictInt = Field(5, ge=1, le=20, description="Attempts at one batch before it halts.")
    retry_wait: Duration = Field(
        "2m",
        validate_default=True,
        description="How long after the beginning of the first attempt the second one may begin, 1h at most. For the"
        " attempts after it the wait is 4, 16 and then 30 times as long, and 1h at most.",
    )
    step_aside: Duration = Field(
        "1h",
        validate_default=True,
        description="How long a halted batch keeps its slot. Then the route goes on with its next batches, and the"
        " halted one waits for a person without a slot.",
    )

    @field_validator("retry_wait")
    @classmethod
    def _an_hour_at_most(cls, seconds: int) -> int:
        if seconds > LONGEST_RETRY_WAIT:
            raise ValueError("no attempt waits for longer than 1h")
        return seconds


class _Uploads(_Section):
    """Which uploads a route takes, and their format."""

    name: ShortName = Field(description="The route's name: lower case letters, digits and dashes.")
    bucket: BucketName = Field(description="The landing bucket. The stack creates it unless `existing`.")
    existing: StrictBool = Field(False, description="The bucket exists already. The stack only adds its notification.")
    bucket_owner: AccountId | None = Field(
        None,
        description="The account of an existing bucket, if it is not the deployment's. That account sets up the "
        "notifications (see docs/deploy.md). Nothing is read from a bucket of any other account.",
    )
    source: Literal["s3", "eventbridge"] = Field(
        "s3",
        description="What sends the notifications. s3: the bucket itself. eventbridge: for a bucket whose own "
        "notifications are taken, or whose events others need too. It costs $1 per million events.",
    )
    versioned: StrictBool = Field(
        True,
        description="A created bucket keeps overwritten and deleted versions for as long as the ledger keeps claims. "
        "So an upload lands even if it was overwritten or deleted before it was read. "
        "An existing bucket stays as it is.",
    )
    prefix: str = Field("", max_length=1024, description="The beginning of this route's keys.")
    suffix: str = Field("", max_length=1024, description="The end of this route's keys.")
    audit_from: AuditSource = Field(
        LISTING,
        description="Where an audit finds the uploads that are in the bucket. listing: S3's listing."
        " s3-metadata-inventory, s3-metadata-journal: the tables of S3 Metadata, which must be switched on for the"
        " bucket. s3://BUCKET/PREFIX/SOURCE-BUCKET/CONFIGURATION: an S3 Inventory of all versions, in Parquet. All but"
        " the listing are read by a Spark job. See docs/operations.md.",
    )
    format: FormatName = Field(
        description=f"{', '.join(map(str, FORMATS.values()))}. "
        "A key that ends in .gz, .zst, .bz2, .lz4 or .snappy is decompressed first."
    )


def _field(format: str, option: Option) -> Any:
    """An option of a format as a field of a route."""

    kind: Any = Annotated[type(option.default), AfterValidator(option.check)]
    return kind, Field(option.default, description=f"{format}: {option.about}.")


if TYPE_CHECKING:
    _FormatOptions = _Uploads
else:
    _FormatOptions = create_model(
        "_FormatOptions",
        __base__=_Uploads,
        **{name: _field(format.name, option) for name, (format, option) in options_of_all().items()},
    )


class RouteSettings(_FormatOptions):
    """Which uploads become rows of which table."""

    table: TableName = Field(description="catalog.namespace.table, lower case; created from `schema` if absent.")
    table_schema: str = Field(
        alias="schema",
        min_length=1,
        description='The columns as Spark DDL: "id bigint not null, name string".',
    )
    partition_by: tuple[str, ...] = Field(
        (), description='Iceberg partition transforms: "days(time)", "bucket(16, id)", "region".'
    )
    expect_every: Duration | None = Field(
        None,
        description='Sound an alarm if no upload was notified for this time: "1h", "2d", at most 7d. '
        "Without it there is no such alarm.",
    )
    retired: StrictBool = Field(
        False,
        description="The route takes no new uploads, and finishes those that it has gathered. The job may still read "
        "its uploads and use its table. A successor may have the same bucket and prefix under another name.",
    )
    maintain: StrictBool | None = Field(
        None,
        description="Whether this route's table is maintained. Default: as [maintain] says, and only a table that"
        " Tidegate created. true: whoever created it. false: not, because others do that or need its old snapshots."
        " If several routes have the table, one that says false decides.",
    )
    max_object_bytes: Size = Field(
        ByteSize(100_000_000_000),
        gt=0,
        description="A file larger than this, as stored or decompressed, is quarantined. One task reads a compressed "
        "file, so this bounds how long a job runs.",
    )
    lanes: StrictInt = Field(
        1,
        ge=1,
        le=MOST_LANES,
        description="How many functions may claim this route's uploads at a time, at most `dispatch_concurrency`. One "
        "takes some 2,000 uploads a second. See docs/operations.md.",
    )
    batch: BatchSettings = Field(BatchSettings(), description="When a batch is handed off.")

    @model_validator(mode="after")
    def _an_owner_of_what_exists(self) -> Self:
        if self.bucket_owner is not None and not self.existing:
            raise ValueError("`bucket_owner` is for an `existing` bucket: a created bucket is the deployment's")
        of_bucket = self.audit_from.rstrip("/").split("/")[-2:-1]
        if self.audit_from.startswith("s3://") and of_bucket != [self.bucket]:
            raise _misplaced(
                f"S3 Inventory writes the lists of bucket {self.bucket} to"
                f" s3://BUCKET/PREFIX/{self.bucket}/CONFIGURATION: name that folder",
                "audit_from",
            )
        if self.bucket_owner is not None and self.audit_from.startswith("s3-metadata"):
            raise _misplaced(
                "the tables of S3 Metadata are in the account that owns the bucket, and no job of this one reads them:"
                " let an S3 Inventory write to a bucket of this account, or use the listing",
                "audit_from",
            )
        return self

    @field_validator("expect_every")
    @classmethod
    def _as_alarms_allow(cls, seconds: int | None) -> int | None:
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
        if seconds is not None and seconds > 7 * DAY:
            raise ValueError("a CloudWatch alarm covers 7d at most")
        return seconds

    @model_validator(mode="after")
    def _options_of_its_format(self) -> Self:
        for name, (format, _) in options_of_all().items():
            if name in self.model_fields_set and format.name != self.format:
                complaint = f"this is an option of {format.name} files, and the route's format is {self.format}"
                raise _misplaced(complaint, name)
        return self

    @field_validator("partition_by")
    @classmethod
    def _known_transforms(cls, transforms: tuple[str, ...]) -> tuple[str, ...]:
        column = r"[A-Za-z_][A-Za-z0-9_]*"
        allowed = rf"({column}|(years|months|days|hours)\({column}\)|(bucket|truncate)\([0-9]+, ?{column}\))"
        for transform in transforms:
            if not re.fullmatch(allowed, transform):
                raise ValueError(
                    f"{transform!r} is not a partition transform: allowed are a column, years(c), months(c), days(c),"
                    " hours(c), bucket(n, c) and truncate(n, c)"
                )
        return transforms

    def route(self) -> Route:
        """This route as `tidegate.core` has it."""
        return Route(
            name=self.name,
            bucket=self.bucket,
            prefix=self.prefix,
            suffix=self.suffix,
            dataset=Dataset(
                table=self.table,
                schema=self.table_schema,
                format=self.format,
                partition_by=self.partition_by,
                max_object_bytes=int(self.max_object_bytes),
                options=FORMATS[self.format].carry(dict(self)),
            ),
            limits=BatchLimits(
                max_wait=self.batch.max_wait,
                target_bytes=int(self.batch.target_bytes),
                target_objects=self.batch.target_objects,
                in_flight=self.batch.in_flight,
                attempts=self.batch.attempts,
                retry_wait=self.batch.retry_wait,
                step_aside=self.batch.step_aside,
            ),
            retired=self.retired,
            owner=self.bucket_owner or "",
            audit_from=self.audit_from,
            lanes=self.lanes,
        )


def _misplaced(complaint: str, *place: int | str) -> PydanticCustomError:
    """The error of a validator of several fields. pydantic does not report which field is wrong; `place` does."""
    return PydanticCustomError("misplaced", "{complaint}", {"complaint": complaint, "place": place})


class Settings(_Section):
    """The whole of `tidegate.toml`."""

    deployment: DeploymentSettings = Field(DeploymentSettings(), description="The deployment.")
    security: SecuritySettings = Field(SecuritySettings(), description="Encryption and access logs.")
    network: NetworkSettings = Field(NetworkSettings(), description="Where Spark's workers run.")
    limits: LimitSettings = Field(LimitSettings(), description="The share of the account's quotas.")
    catalog: CatalogSettings = Field(CatalogSettings(), description="The Iceberg catalog.")
    retention: RetentionSettings = Field(RetentionSettings(), description="How long messages and claims are kept.")
    operations: OperationsSettings = Field(OperationsSettings(), description="Who receives alarms.")
    audit: AuditSettings = Field(AuditSettings(), description="The search for uploads that S3 never announced.")
    announce: AnnounceSettings = Field(AnnounceSettings(), description="Events that tell others of committed batches.")
    maintain: MaintainSettings = Field(MaintainSettings(), description="What keeps the tables small.")
    routes: tuple[RouteSettings, ...] = Field((), alias="route", description="The routes, one or more.")

    @model_validator(mode="after")
    def _an_audit_within_the_horizon(self) -> Self:
        look_back = self.retention.look_back
        if "max_age" in self.audit.model_fields_set and self.audit.max_age > look_back:
            raise _misplaced(
                f"this must not be longer than `look_back` in [retention], {look_back // HOUR}h: otherwise an audit"
                " takes an upload that the ledger has forgotten for a lost one, and its rows are in the table twice",
                *("audit", "max_age"),
            )
        if "every" in self.audit.model_fields_set and self.audit.every + self.audit.min_age > look_back:
            raise _misplaced(
                f"`every` and `min_age` together must not be longer than `look_back` in [retention],"
                f" {look_back // HOUR}h: otherwise some uploads are never looked at",
                *("audit", "every"),
            )
        given = self.audit.model_fields_set & {"min_age", "max_age"}
        if given and self.audit.min_age >= min(self.audit.max_age, look_back):
            raise _misplaced("`min_age` must be shorter than `max_age` and `look_back`", "audit", min(given))
        return self

    @model_validator(mode="after")
    def _routes_do_not_collide(self) -> Self:
        if not self.routes:
            raise ValueError("there is no [[route]]: a route states which uploads become rows of which table")
        for position, route in enumerate(self.routes):
            if complaint := self._collision(route, self.routes[:position]):
                raise _misplaced(complaint, "route", position)
        return self

    def _collision(self, route: RouteSettings, earlier: tuple[RouteSettings, ...]) -> str:
        catalog, _, table = route.table.partition(".")
        if catalog != self.catalog.name:
            return (
                f"table {route.table} is not in the catalog {self.catalog.name!r}: call it"
                f" {self.catalog.name}.{table}, or change [catalog] name"
            )
        for other in earlier:
            if route.name == other.name:
                return f"two routes are named {route.name!r}: names must differ"
            if route.route().overlaps(other.route()):
                return (
                    f"routes {other.name!r} and {route.name!r} overlap: a key of bucket {route.bucket} could belong"
                    " to both, and its rows would land twice. Choose prefixes or suffixes that exclude each other"
                )
            if route.bucket == other.bucket and route.existing != other.existing:
                return f"routes {other.name!r} and {route.name!r} disagree whether bucket {route.bucket} exists already"
            if route.bucket == other.bucket and route.versioned != other.versioned:
                return f"routes {other.name!r} and {route.name!r} disagree whether bucket {route.bucket} is versioned"
            if route.bucket == other.bucket and route.source != other.source:
                return f"routes {other.name!r} and {route.name!r} disagree on the `source` of bucket {route.bucket}"
            if route.bucket == other.bucket and route.bucket_owner != other.bucket_owner:
                return f"routes {other.name!r} and {route.name!r} disagree on the `bucket_owner` of {route.bucket}"
        return ""

    @model_validator(mode="after")
    def _nobody_maintains_what_maintains_itself(self) -> Self:
        complaint = "S3 Tables maintains its tables itself: leave this out, and set the retention there"
        if self.catalog.type == "s3tables":
            if self.maintain.enabled:
                raise _misplaced(complaint, "maintain", "enabled")
            for position, route in enumerate(self.routes):
                if route.maintain:
                    raise _misplaced(complaint, "route", position, "maintain")
        return self

    @model_validator(mode="after")
    def _an_invocation_for_each_lane(self) -> Self:
        most = self.limits.dispatch_concurrency
        for position, route in enumerate(self.routes):
            if route.lanes > most:
                raise _misplaced(
                    f"route {route.name!r} has {route.lanes} lanes, and `dispatch_concurrency` in [limits] is {most}:"
                    f" each lane needs an invocation of its own. Give the route {most} lanes at most, or raise"
                    f" `dispatch_concurrency` to {route.lanes}",
                    *("route", position, "lanes"),
                )
        return self

    def maintained_tables(self) -> tuple[str, ...]:
        """The tables that a job maintains, in order of their names."""
        by_default = self.catalog.type == "glue" if self.maintain.enabled is None else self.maintain.enabled
        wanted: dict[str, bool] = {}
        for route in self.routes:
            said = by_default if route.maintain is None else route.maintain
            wanted[route.table] = wanted.get(route.table, True) and said
        return tuple(sorted(table for table, each in wanted.items() if each))

    def tables_asked_for(self) -> tuple[str, ...]:
        """Those of them that are maintained whoever created them, in order of their names."""
        said = {route.table for route in self.routes if route.maintain}
        return tuple(table for table in self.maintained_tables() if table in said)

    def maintain_limits(self) -> MaintainLimits:
        """The section [maintain] as `tidegate.core` has it."""
        return MaintainLimits(
            keep_for=self.maintain.keep_snapshots_for,
            keep_last=self.maintain.keep_snapshots,
            orphans_after=self.maintain.orphans_after,
            compact_bytes=int(self.maintain.compact_bytes),
            # a table takes a while once it is begun
            begin_for=self.limits.job_timeout // 2,
        )

    def core_routes(self) -> tuple[Route, ...]:
        return tuple(each.route() for each in self.routes)

    def audit_limits(self) -> AuditLimits:
        """The section [audit] as `tidegate.core` has it. Defaults give way to a shorter horizon."""
        horizon = self.retention.look_back
        max_age = min(self.audit.max_age, horizon)
        return AuditLimits(min(self.audit.min_age, max_age), max_age, self.audit.every, horizon, self.audit.job_above)


def load(path: Path) -> Settings:
    """The settings in `path`. Raises SettingsError."""
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}); give --config or write one") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: is not UTF-8 text ({error})") from error
    return parse(source, str(path))


def parse(source: str, file: str = "tidegate.toml") -> Settings:
    """The settings in TOML text; `file` is its name in errors. Raises SettingsError."""
    try:
        data = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: is not TOML: {error}") from error
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        problems = [_explain(source, file, problem) for problem in error.errors()]
        raise SettingsError("\n".join(problems)) from error


_IN_OUR_WORDS = {
    "bool_type": "true or false, without quotes",
    "int_type": "a whole number, without quotes",
    "int_from_float": "a whole number",
    "string_type": "text in quotes",
    "tuple_type": 'a list in brackets, such as ["a", "b"]',
    "model_type": "this is a section with fields of its own",
    "literal_error": "one of {expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} at least",
    "less_than_equal": "{le} at most",
    "string_too_short": "{min_length} character at least",
    "string_too_long": "{max_length} characters at most",
    "string_pattern_mismatch": "this does not match {pattern}",
}
"""What pydantic reports most, by the type of its error."""


def _explain(source: str, file: str, problem: ErrorDetails) -> str:
    location = problem["loc"]
    if problem["type"] == "misplaced":
        location = (*location, *problem["ctx"]["place"])
    where = ".".join(str(step + 1) if isinstance(step, int) else step for step in location) or "the file"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = _unknown(location)
    elif problem["type"] == "missing":
        message = "this field is required"
    elif problem["type"].startswith("byte_size"):
        message = _SIZES
    elif location == ("route",):
        message = "each route begins with [[route]], in double brackets"
    elif problem["type"] in _IN_OUR_WORDS:
        message = _IN_OUR_WORDS[problem["type"]].format(**problem.get("ctx", {}))
        if problem["type"] == "int_type":
            message += _example(location)
    line = _line_of(source, location)
    return f"{file}:{line}: {where}: {message}" if line else f"{file}: {where}: {message}"


def _unknown(location: tuple[int | str, ...]) -> str:
    """What is said of a field that is not there: the one that was probably meant, and all that are."""
    allowed = _fields_at(location[:-1])
    meant = difflib.get_close_matches(str(location[-1]), allowed, n=1, cutoff=0.75)
    name = "[[route]]" if location[:-1] == () and meant == ["route"] else f"`{meant[0]}`" if meant else ""
    return f"unknown field; {f'did you mean {name}? ' if name else ''}allowed here: {', '.join(allowed)}"


def _example(location: tuple[int | str, ...]) -> str:
    """What a whole number may be here, by the bounds and the default of its field; empty if it has no default."""
    *section, name = location
    fields = _model_at(tuple(section)).model_fields
    field = next((each for key, each in fields.items() if name in (key, each.alias)), None)
    if field is None or not isinstance(field.default, int):
        return ""
    bounds = [
        _IN_OUR_WORDS[kind].format(**{short: getattr(each, short)})
        for each in field.metadata
        for kind, short in (("greater_than", "gt"), ("greater_than_equal", "ge"), ("less_than_equal", "le"))
        if hasattr(each, short)
    ]
    return "".join(f", {each}" for each in [*bounds, f"such as {field.default}"])


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    """The fields allowed in the section at `location`."""
    return sorted(field.alias or name for name, field in _model_at(location).model_fields.items())


def _model_at(location: tuple[int | str, ...]) -> type[BaseModel]:
    """The section at `location`."""
    model: type[BaseModel] = Settings
    for step in location:
        if isinstance(step, str):
            names = {field.alias or name: field for name, field in model.model_fields.items()}
            inner = names[step].annotation
            inner = RouteSettings if step == "route" else inner
            assert isinstance(inner, type)
            model = inner
    return model


def _line_of(source: str, location: tuple[int | str, ...]) -> int:
    """The line of the field at `location`, or of the nearest section around it; 0 if there is none.

    TOML parsers for Python keep no positions. The sections of this file are plain: headers and keys are at the start of
    a line.
    """
    best = 0
    section: list[int | str] = []
    counts: dict[str, int] = {}
    for number, text in enumerate(source.splitlines(), start=1):
        if header := re.match(r"\s*(\[\[?)\s*([A-Za-z0-9_.\" -]+?)\s*\]\]?", text):
            names = [name.strip().strip('"') for name in header[2].split(".")]
            if header[1] == "[[":
                counts[names[0]] = counts.get(names[0], -1) + 1
            section = [names[0], counts[names[0]], *names[1:]] if names[0] in counts else list(names)
            if section and tuple(section) == location[: len(section)]:
                best = number
            elif location and not best and tuple(section[: len(location)]) == location:
                best = number  # the first of several sections of this name
        elif key := re.match(r"\s*\"?([A-Za-z0-9_-]+)\"?\s*=", text):
            here = [*section, key[1]]
            if tuple(here) == location[: len(here)]:
                best = number
    return best

"""`tidegate.toml`: read, validated and explained.

Every mistake is reported with the line it stands on and what is allowed there; unknown fields are mistakes.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from tidegate.core.batches import Limits
from tidegate.core.routes import Dataset, Route

DEFAULT_FILE = Path("tidegate.toml")

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html
SQS_LONGEST_RETENTION = 14 * DAY

_UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}


class SettingsError(Exception):
    """The configuration cannot be used; the text names the file, the line, and what is allowed."""


def _duration(value: object) -> int:
    match = re.fullmatch(r"([1-9][0-9]*)\s*([smhd])", value) if isinstance(value, str) else None
    if not match:
        raise ValueError('a duration is a whole number and a unit (s, m, h, d) in quotes, such as "60s" or "14d"')
    return int(match[1]) * _UNITS[match[2]]


Duration = Annotated[int, BeforeValidator(_duration, json_schema_input_type=str)]
"""Seconds, written as "60s", "15m", "12h" or "14d"."""

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
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
Place = Annotated[str, StringConstraints(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/.*)?$", max_length=1100)]
HttpsUri = Annotated[str, StringConstraints(pattern=r"^https://[A-Za-z0-9._~:/?%=&-]+$")]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Deployment(_Section):
    """What the deployment is called."""

    name: Name = Field(
        "tidegate",
        description="Prefix of the stack and its resources: lower case letters, digits and dashes.",
    )
    dev: bool = Field(
        False,
        description="For a trial: everything that the stack made is removed with it, uploads, tables and ledger too. "
        "Never for data that you need.",
    )


class Security(_Section):
    """Whose keys encrypt what is stored, and who writes down who reads it."""

    encryption: Literal["aws", "customer"] = Field(
        "aws",
        description="aws: the services' own keys. customer: a key that the stack creates and KMS rotates every year; "
        "it outlives the stack, as it encrypts what does.",
    )
    kms_key_arn: KeyArn | None = Field(
        None,
        description="Use this key instead. Its key policy has to let the services use it (see below): the stack cannot "
        "change it.",
    )
    access_logs: BucketName | None = Field(
        None,
        description="An existing bucket that S3 writes the access logs of the created buckets into. "
        "Its policy has to let logging.s3.amazonaws.com put objects. Without it there are none.",
    )

    @property
    def customer_key(self) -> bool:
        """Whether a key of the account's own encrypts things, made by the stack or not."""
        return self.encryption == "customer" or self.kms_key_arn is not None


class Network(_Section):
    """The subnets that Spark's workers run in, for catalogs and buckets that only they reach."""

    subnets: tuple[str, ...] = Field(
        (),
        description="Ids of private subnets, in two zones or more. They need a way to S3, Glue and the other services: "
        "endpoints or a NAT gateway. Without any, EMR Serverless runs outside your network.",
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
                    f"{wrong[0]!r} in `{name}` is no id such as {pattern.partition('[')[0]}0123456789abcdef0"
                )
        if bool(self.subnets) != bool(self.security_groups):
            raise ValueError("give both `subnets` and `security_groups`, or neither")
        return self


class Catalog(_Section):
    """The Iceberg catalog that holds the tables."""

    name: str = Field(
        "lake",
        pattern=r"^[a-z_][a-z0-9_]*$",
        description="The first part of every route's `table`, as Spark calls it.",
    )
    type: Literal["glue", "s3tables", "rest"] = Field(
        "glue",
        description="glue: the account's Glue catalog, with the tables' files in a bucket that the stack creates. "
        "s3tables: a table bucket of S3 Tables. rest: a REST catalog. Only glue has a warehouse bucket made for it. "
        "None but the local catalog has been run.",
    )
    arn: TableBucketArn | None = Field(None, description="s3tables: the ARN of the table bucket, which exists already.")
    uri: HttpsUri | None = Field(None, description="rest: where the catalog is.")
    warehouse: str | None = Field(
        None,
        max_length=1024,
        description="rest: what the catalog calls the warehouse; s3://bucket/prefix if the job writes there itself.",
    )
    credential_secret: SecretArn | None = Field(
        None,
        description="rest: the whole ARN of a secret of Secrets Manager, as plain text what Iceberg calls "
        "`credential`. EMR reads it when a job starts, if the secret's policy lets it (see docs/deploy.md); neither "
        "the template nor Tidegate sees it.",
    )

    @model_validator(mode="after")
    def _what_its_type_needs(self) -> Self:
        of_type = {"glue": (), "s3tables": ("arn",), "rest": ("uri", "warehouse", "credential_secret")}
        for name in ("arn", "uri", "warehouse", "credential_secret"):
            if getattr(self, name) is not None and name not in of_type[self.type]:
                raise ValueError(f'`{name}` means nothing for a catalog of type "{self.type}"')
        for kind, needed in (("s3tables", "arn"), ("rest", "uri")):
            if self.type == kind and getattr(self, needed) is None:
                raise ValueError(f'a catalog of type "{kind}" needs `{needed}`')
        return self


class Retention(_Section):
    """How long things are remembered; each must outlive the one before it (see docs/architecture.md)."""

    messages: Duration = Field("4d", validate_default=True, description="How long queues keep a message.")
    dead_letters: Duration = Field("14d", validate_default=True, description="How long dead-letter queues keep one.")
    look_back: Duration = Field(
        "45d", validate_default=True, description="How far back an audit of the bucket may look; the horizon."
    )
    claims: Duration = Field(
        "60d",
        validate_default=True,
        description="How long the ledger remembers an upload after it was claimed.",
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
                " else an upload is audited while its message may still arrive"
            )
        if self.claims <= self.look_back:
            raise ValueError(
                "`claims` must be longer than `look_back`: else an audit takes a forgotten upload for a new one"
                " and its rows are in the table twice"
            )
        return self

    @property
    def travel(self) -> int:
        """How long (seconds) after an upload a message may still bring it, if a person moves dead letters back once at
        each queue: the buffer's dead letters count from the upload; moving a message back, and moving one to a FIFO
        queue's dead letters, starts its clock anew
        (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html).
        """
        return self.dead_letters + self.messages + (self.messages + self.dead_letters + self.messages)


class LimitSettings(_Section):
    """How much of the account's quotas the deployment may use. The defaults fit a new account: 10 invocations of
    Lambda functions at once, 16 vCPU of EMR Serverless."""

    intake_concurrency: int = Field(
        4, ge=2, le=1000, description="How many invocations of intake may run at once; each takes 1,000 notifications."
    )
    dispatch_concurrency: int = Field(
        4,
        ge=2,
        le=1000,
        description="How many invocations of dispatch may run at once; each route uses one at most.",
    )
    reserve_concurrency: bool = Field(
        False,
        description="Keep these numbers, and 2 for settle, for the functions alone. Lambda refuses what would leave "
        "the rest of the account less than 100, or 10 in a new account.",
    )
    vcpu: int = Field(16, ge=6, le=10_000, description="How many vCPU all jobs together may use. One needs 6 at least.")
    memory_gb: int = Field(64, ge=24, le=100_000, description="How much memory; 4 GB go with each vCPU of ours.")
    disk_gb: int = Field(200, ge=40, le=100_000, description="How much disk: each worker has 20 GB.")
    concurrent_jobs: int = Field(
        0,
        ge=0,
        le=1000,
        description="How many jobs may run at once; the others queue. 0: as many as have room for a driver and one "
        "executor each.",
    )
    queue_timeout: Duration = Field(
        "6h",
        validate_default=True,
        description='How long a job may queue for vCPU, "15m" to "12h". Then it is over, and counts as an attempt.',
    )
    job_timeout: Duration = Field(
        "8h",
        validate_default=True,
        description="How long a job may run. A batch is minutes of work; hours mean trouble.",
    )

    @field_validator("queue_timeout", "job_timeout")
    @classmethod
    def _whole_minutes(cls, seconds: int) -> int:
        if seconds % MINUTE:
            raise ValueError("EMR Serverless counts in whole minutes")
        return seconds

    @field_validator("queue_timeout")
    @classmethod
    def _as_emr_allows(cls, seconds: int) -> int:
        # https://docs.aws.amazon.com/emr-serverless/latest/APIReference/API_SchedulerConfiguration.html
        if not 15 * MINUTE <= seconds <= 12 * HOUR:
            raise ValueError("EMR Serverless keeps a job queued for 15m to 12h")
        return seconds


class OperationsSettings(_Section):
    """Who is told when the deployment needs somebody, and of what nobody is."""

    emails: tuple[Email, ...] = Field(
        (),
        description="Addresses that alarms are mailed to. Each has to confirm the mail that SNS sends first. "
        "Whatever else should hear of them subscribes to the alarms' topic.",
    )
    ignore: tuple[Place, ...] = Field(
        (),
        description="Where uploads are meant to have no route: s3://bucket/prefix. Others that are announced and that "
        "no route takes sound an alarm.",
    )

    @property
    def ignored(self) -> tuple[tuple[str, str], ...]:
        """Bucket and prefix of each place."""
        places = (place.removeprefix("s3://").partition("/") for place in self.ignore)
        return tuple((bucket, prefix) for bucket, _, prefix in places)


class BatchSettings(_Section):
    """When a route's uploads are handed to a Spark job."""

    max_wait: Duration = Field(
        "60s",
        validate_default=True,
        description="How long an upload may wait for others before its batch is handed off, if a job may start. "
        "Below 60s it is kept while uploads arrive or jobs end, but at a trickle the one-minute schedule decides.",
    )
    target_bytes: ByteSize = Field(
        ByteSize(256_000_000),
        gt=0,
        description='Hand off when the batch has this many bytes: "256MB", "1GiB".',
    )
    target_objects: int = Field(
        100_000, gt=0, le=1_000_000, description="Hand off when the batch has this many objects."
    )
    in_flight: int = Field(1, ge=1, le=50, description="How many jobs of this route may run at once.")
    attempts: int = Field(3, ge=1, le=20, description="How many jobs may try one batch before it halts.")


class RouteSettings(_Section):
    """Which uploads become rows of which table."""

    name: Name = Field(description="The route's name: lower case letters, digits and dashes.")
    bucket: BucketName = Field(description="The landing bucket; created unless `existing`.")
    existing: bool = Field(False, description="The bucket exists already: only its notification is added.")
    bucket_owner: AccountId | None = Field(
        None,
        description="The account of an existing bucket, if it is another one than the deployment's; that account sets "
        "up the notifications (see docs/deploy.md). Nothing is read from a bucket that belongs to somebody else.",
    )
    source: Literal["s3", "eventbridge"] = Field(
        "s3",
        description="Who tells of an upload: s3, directly; or eventbridge, where the bucket's own notifications are "
        "taken already, or others want its events too. It costs $1 per million events.",
    )
    versioned: bool = Field(
        True,
        description="A created bucket keeps overwritten and deleted versions for as long as the ledger remembers them, "
        "so that an upload lands even if it was overwritten or deleted before it was read. "
        "An existing bucket stays as it is.",
    )
    prefix: str = Field("", max_length=1024, description="Keys of this route begin so.")
    suffix: str = Field("", max_length=1024, description="Keys of this route end so.")
    format: Literal["json", "csv", "parquet"] = Field(
        description="json (one object a line), csv (with a header line) or parquet. "
        "A key that ends in .gz, .zst or .bz2 is decompressed first."
    )
    delimiter: str = Field(",", description="csv: what separates the fields.")
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
        description='Sound an alarm if nothing was notified for so long: "1h", "2d"; at most 7d. '
        "Without it silence is no alarm.",
    )
    retired: bool = Field(
        False,
        description="The route takes no new uploads; what it needs to finish what it has gathered (reading its "
        "uploads, its table) stays allowed. A successor may have the same bucket and prefix under another name.",
    )
    max_object_bytes: ByteSize = Field(
        ByteSize(128_000_000),
        gt=0,
        description="A file larger than this, as stored or decompressed, is quarantined: "
        "a file is decoded whole in one task's memory.",
    )
    batch: BatchSettings = Field(BatchSettings(), description="When a batch is handed off.")

    @model_validator(mode="after")
    def _an_owner_of_what_exists(self) -> Self:
        if self.bucket_owner is not None and not self.existing:
            raise ValueError("`bucket_owner` is for an `existing` bucket: a created one is the deployment's own")
        return self

    @field_validator("expect_every")
    @classmethod
    def _as_alarms_allow(cls, seconds: int | None) -> int | None:
        # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
        if seconds is not None and seconds > 7 * DAY:
            raise ValueError("an alarm of CloudWatch looks back 7d at most")
        return seconds

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str) -> str:
        if not re.fullmatch(r"[\x20-\x7e\t]", delimiter):
            raise ValueError("a delimiter is 1 character of ASCII, or a tab")
        if delimiter == '"':
            raise ValueError("a delimiter is no quote: quotes enclose fields that hold delimiters")
        return delimiter

    @field_validator("partition_by")
    @classmethod
    def _known_transforms(cls, transforms: tuple[str, ...]) -> tuple[str, ...]:
        column = r"[A-Za-z_][A-Za-z0-9_]*"
        allowed = rf"({column}|(years|months|days|hours)\({column}\)|(bucket|truncate)\([0-9]+, ?{column}\))"
        for transform in transforms:
            if not re.fullmatch(allowed, transform):
                raise ValueError(
                    f"{transform!r} is no partition transform: allowed are a column, years(c), months(c), days(c),"
                    " hours(c), bucket(n, c) and truncate(n, c)"
                )
        return transforms

    def route(self) -> Route:
        """This route as the core knows it."""
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
                delimiter=self.delimiter,
            ),
            limits=Limits(
                max_wait=self.batch.max_wait,
                target_bytes=int(self.batch.target_bytes),
                target_objects=self.batch.target_objects,
                in_flight=self.batch.in_flight,
                attempts=self.batch.attempts,
            ),
            retired=self.retired,
            owner=self.bucket_owner or "",
        )


class Settings(_Section):
    """The whole of `tidegate.toml`."""

    deployment: Deployment = Field(Deployment(), description="The deployment.")
    security: Security = Field(Security(), description="Encryption and access logs.")
    network: Network = Field(Network(), description="Where Spark's workers run.")
    limits: LimitSettings = Field(LimitSettings(), description="How much of the account may be used.")
    catalog: Catalog = Field(Catalog(), description="The Iceberg catalog.")
    retention: Retention = Field(Retention(), description="How long things are remembered.")
    operations: OperationsSettings = Field(OperationsSettings(), description="Who is told of alarms.")
    routes: tuple[RouteSettings, ...] = Field((), alias="route", description="The routes, one or more.")

    @model_validator(mode="after")
    def _routes_do_not_collide(self) -> Self:
        if not self.routes:
            raise ValueError("there is no [[route]]: say which uploads become rows of which table")
        for position, route in enumerate(self.routes):
            if complaint := self._collision(route, self.routes[:position]):
                # a validator of the whole knows which route is wrong, pydantic does not: carry the place along
                raise PydanticCustomError("collision", "{complaint}", {"complaint": complaint, "route": position})
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
                return f"two routes are called {route.name!r}: names must differ"
            if route.route().overlaps(other.route()):
                return (
                    f"routes {other.name!r} and {route.name!r} overlap: a key of bucket {route.bucket} could belong"
                    " to both, and its rows would land twice. Give them prefixes or suffixes that exclude each other"
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

    def core_routes(self) -> tuple[Route, ...]:
        return tuple(each.route() for each in self.routes)


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
    """The settings in TOML text; `file` is what errors call it. Raises SettingsError."""
    try:
        data = tomllib.loads(source)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{file}: is not TOML: {error}") from error
    try:
        return Settings.model_validate(data)
    except ValidationError as error:
        problems = [_explain(source, file, problem) for problem in error.errors()]
        raise SettingsError("\n".join(problems)) from error


def _explain(source: str, file: str, problem: ErrorDetails) -> str:
    location = problem["loc"]
    if problem["type"] == "collision":
        location = ("route", problem["ctx"]["route"])
    where = ".".join(str(step + 1) if isinstance(step, int) else step for step in location) or "the file"
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = f"unknown field; allowed here: {', '.join(_fields_at(location[:-1]))}"
    elif problem["type"] == "missing":
        message = "this field is required"
    elif problem["type"].startswith("byte_size"):
        message = 'a size is a number and a unit in quotes, such as "256MB" or "1GiB"'
    elif location == ("route",):
        message = "each route begins with [[route]], in double brackets"
    line = _line_of(source, location)
    return f"{file}:{line}: {where}: {message}" if line else f"{file}: {where}: {message}"


def _fields_at(location: tuple[int | str, ...]) -> list[str]:
    """The fields allowed in the section at `location`."""
    model: type[BaseModel] = Settings
    for step in location:
        if isinstance(step, str):
            names = {field.alias or name: field for name, field in model.model_fields.items()}
            inner = names[step].annotation
            inner = RouteSettings if step == "route" else inner
            assert isinstance(inner, type)
            model = inner
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _line_of(source: str, location: tuple[int | str, ...]) -> int:
    """The line of the field at `location`, or of the nearest section around it; 0 if there is none.

    TOML parsers for Python keep no positions, and sections of this file are plain: headers and keys at the
    start of a line.
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
        elif key := re.match(r"\s*\"?([A-Za-z0-9_-]+)\"?\s*=", text):
            here = [*section, key[1]]
            if tuple(here) == location[: len(here)]:
                best = number
    return best

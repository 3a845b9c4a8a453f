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


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Deployment(_Section):
    """What the deployment is called."""

    name: Name = Field(
        "tidegate",
        description="Prefix of the stack and its resources: lower case letters, digits and dashes.",
    )


class Catalog(_Section):
    """The Iceberg catalog that holds the tables."""

    name: str = Field(
        "lake",
        pattern=r"^[a-z_][a-z0-9_]*$",
        description="The first part of every route's `table`, as Spark calls it.",
    )


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
    max_object_bytes: ByteSize = Field(
        ByteSize(128_000_000),
        gt=0,
        description="A file larger than this, as stored or decompressed, is quarantined: "
        "a file is decoded whole in one task's memory.",
    )
    batch: BatchSettings = Field(BatchSettings(), description="When a batch is handed off.")

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, delimiter: str) -> str:
        if not re.fullmatch(r"[\x20-\x7e\t]", delimiter):
            raise ValueError("a delimiter is 1 character of ASCII, or a tab")
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
        )


class Settings(_Section):
    """The whole of `tidegate.toml`."""

    deployment: Deployment = Field(Deployment(), description="The deployment.")
    catalog: Catalog = Field(Catalog(), description="The Iceberg catalog.")
    retention: Retention = Field(Retention(), description="How long things are remembered.")
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

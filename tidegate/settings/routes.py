"""The section `[[route]]`."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ByteSize,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    create_model,
    field_validator,
    model_validator,
)

from tidegate.core.audit import LISTING
from tidegate.core.lanes import MOST_LANES
from tidegate.core.routes import REJECTED, Dataset, Route
from tidegate.formats.registry import FORMATS, FROM_KEY, KEEPING, REST, UNKNOWN, Format, Option, options_of_all
from tidegate.settings import fixed
from tidegate.settings.sections import Section
from tidegate.settings.values import DAY, AccountId, AuditSource, BucketName, Duration, ShortName, Size, TableName
from tidegate.settings.words import misplaced

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]


class BatchSettings(Section):
    """When a batch is handed off to a Spark job."""

    max_wait: Duration = Field(
        "60s",
        validate_default=True,
        description="How long an upload may wait for others before its batch is handed off, if a job may start. "
        "Below 60s it holds while uploads arrive or jobs end; else the one-minute schedule decides. "
        "Before that, notifications gather for a twelfth of the shortest max_wait, 2s to 5m (1s below 4s).",
    )
    target_bytes: Size = Field(
        ByteSize(256_000_000),
        gt=0,
        description="Hand off when the batch has this many bytes.",
    )
    in_flight: StrictInt = Field(1, ge=1, le=50, description="Concurrent jobs of this route.")


class _Uploads(Section):
    """Which uploads a route takes, and their format."""

    name: ShortName = Field(description="The route's name.")
    bucket: BucketName = Field(description="The landing bucket. The stack creates it unless `existing`.")
    existing: StrictBool = Field(False, description="The bucket exists already. The stack only adds its notification.")
    bucket_owner: AccountId | None = Field(
        None,
        description="The account of an existing bucket, if it is another one, which then sets up the notifications "
        "(see docs/deploy.md). Nothing is read from buckets of other accounts.",
    )
    source: Literal["s3", "eventbridge"] = Field(
        "s3",
        description="What sends the notifications. s3: the bucket. eventbridge: for a bucket whose own notifications "
        "are taken, or whose events others need too; $1 per million events.",
    )
    versioned: StrictBool = Field(
        True,
        description="A created bucket keeps old versions as long as the ledger keeps claims. So an upload lands even "
        "if it was overwritten or deleted before it was read.",
    )
    prefix: str = Field("", max_length=1024, description="The beginning of this route's keys.")
    suffix: str = Field("", max_length=1024, description="The end of this route's keys.")
    audit_from: AuditSource = Field(
        LISTING,
        description="Where an audit finds the uploads in the bucket. All but the listing need settings of S3, and a "
        "Spark job: see docs/operations.md.",
    )
    format: FormatName = Field(
        description=f"{', '.join(map(str, FORMATS.values()))}. Keys that end in .gz, .zst or .bz2 are decompressed."
    )


def _field(formats: tuple[Format, ...], option: Option) -> Any:
    """An option of some formats as a field of a route."""

    of: Any = Literal[option.choices] if option.choices else type(option.default)
    strictly: dict[Any, Any] = {float: StrictFloat, bool: StrictBool}
    kind: Any = Annotated[strictly.get(of, of), AfterValidator(option.check)]
    about = f"{', '.join(each.name for each in formats)}: {option.about}."
    # for editors only: what is out of bounds is told in words by `check`
    bounds: Any = dict(zip(("minimum", "maximum"), option.within, strict=True)) if option.within else None
    return kind, Field(option.default, description=about, json_schema_extra=bounds)


if TYPE_CHECKING:
    _FormatOptions = _Uploads
else:
    _FormatOptions = create_model(
        "_FormatOptions",
        __base__=_Uploads,
        **{name: _field(formats, option) for name, (formats, option) in options_of_all().items()},
    )


class RouteSettings(_FormatOptions):
    """Which uploads become rows of which table."""

    table: TableName = Field(description="The table; created from `schema` if absent.")
    table_schema: str = Field(
        alias="schema",
        min_length=1,
        description='The columns as Spark DDL: "id bigint not null, name string". Of a column that no file has: "day '
        'date generated always as (to_date(placed_at))". See docs/formats.md.',
    )
    where: str = Field(
        "",
        description='Which rows land, as SQL of Spark: "amount > 0 and country is not null". See docs/formats.md.',
    )
    unknown: Literal["report", "keep", "add", "refuse", "ignore"] = Field(
        "report",
        description=f"{UNKNOWN.about[0].upper()}{UNKNOWN.about[1:]}. See docs/formats.md.",
    )
    from_key: str = Field("", description=f"{FROM_KEY.about[0].upper()}{FROM_KEY.about[1:]}. See docs/formats.md.")
    partition_by: tuple[str, ...] = Field(
        (),
        description='Iceberg partition transforms of a new table: "days(time)", "bucket(16, id)", "region". Later '
        "use ALTER TABLE ... ADD PARTITION FIELD.",
    )
    on_overwrite: Literal["append", "skip same bytes", "replace"] = Field(
        "append",
        description="What a later version of an object does, such as a corrected file. append: its rows come beside "
        "those of the earlier ones. skip same bytes: so, unless it is byte for byte the version before. replace: they "
        "take their place, in one commit. See docs/guarantee.md.",
    )
    on_delete: Literal["keep", "remove"] = Field(
        "keep",
        description="What becomes of the rows of an object that is deleted. keep: they stay. remove: they leave the "
        'table. It goes with on_overwrite = "replace", and needs versions. See docs/guarantee.md.',
    )
    expect_every: Duration | None = Field(
        None,
        description='Sound an alarm if no upload was notified for this time: "1h", "2d", at most 7d.',
    )
    retired: StrictBool = Field(
        False,
        description="The route takes no new uploads, and finishes what it has gathered. A successor may have the "
        "same bucket and prefix under another name.",
    )
    maintain: StrictBool | None = Field(
        None,
        description="Whether its table is maintained. Default: if Tidegate created it, in Glue. true: whoever created "
        "it. false: not, because others do that or need its old snapshots. Of several routes of a table, one false "
        "decides. S3 Tables maintains its tables itself.",
    )
    max_object_bytes: Size = Field(
        ByteSize(fixed.USUAL_FILE),
        gt=0,
        description="A larger file, as stored or decompressed, is quarantined. One task reads a compressed file: "
        "this bounds how long a job runs.",
    )
    lanes: StrictInt = Field(
        1,
        ge=1,
        le=MOST_LANES,
        description="How many functions may claim this route's uploads at a time. One takes some 2,000 uploads a "
        "second. See docs/operations.md.",
    )
    batch: BatchSettings = Field(BatchSettings(), description="When a batch is handed off.")

    @model_validator(mode="after")
    def _an_owner_of_what_exists(self) -> Self:
        if self.bucket_owner is not None and not self.existing:
            raise ValueError("`bucket_owner` is for an `existing` bucket: a created bucket is the deployment's")
        of_bucket = self.audit_from.rstrip("/").split("/")[-2:-1]
        if self.audit_from.startswith("s3://") and of_bucket != [self.bucket]:
            raise misplaced(
                f"S3 Inventory writes the lists of bucket {self.bucket} to"
                f" s3://BUCKET/PREFIX/{self.bucket}/CONFIGURATION: name that folder",
                "audit_from",
            )
        if self.bucket_owner is not None and self.audit_from.startswith("s3-metadata"):
            raise misplaced(
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
        for name, (formats, _) in options_of_all().items():
            of = [format.name for format in formats]
            if name in self.model_fields_set and self.format not in of:
                complaint = f"this is an option of {' and '.join(of)} files, and the route's format is {self.format}"
                raise misplaced(complaint, name)
        return self

    @field_validator("from_key")
    @classmethod
    def _finds_columns(cls, pattern: str) -> str:
        return str(FROM_KEY.check(pattern))

    @model_validator(mode="after")
    def _looks_beyond_the_prefix(self) -> Self:
        begins = re.match(r"\{([^{}]*)\}", self.from_key)
        first, slash, _ = self.prefix.partition("/")
        if begins and slash:
            raise misplaced(
                f"a key begins with the prefix, so {begins[1]} would be '{first}' for each file: write"
                f' from_key = "{self.prefix[: self.prefix.rindex("/")]}/{self.from_key}"',
                "from_key",
            )
        return self

    @model_validator(mode="after")
    def _replaces_all_or_nothing(self) -> Self:
        if self.on_overwrite == "replace" and not self.versioned:
            raise misplaced(
                "S3's order of an object's versions decides which one replaces which, and a bucket without versions has"
                " none: set versioned = true, or append",
                "on_overwrite",
            )
        if self.on_overwrite == "skip same bytes" and not self.versioned:
            raise misplaced(
                "in a bucket without versions the same bytes under a key are one upload, and land once: append",
                "on_overwrite",
            )
        if self.on_overwrite != "append" and len(self.tables) > 1:
            raise misplaced(
                "rows of another version would stay in the table of rejected rows: let a file with a bad row be"
                " quarantined (no bad_rows_share), or append",
                "on_overwrite",
            )
        if self.on_delete == "remove" and self.on_overwrite != "replace":
            raise misplaced(
                'it goes with on_overwrite = "replace": say both, or on_delete = "keep"',
                "on_delete",
            )
        return self

    @field_validator("table")
    @classmethod
    def _no_table_of_rejected_rows(cls, table: str) -> str:
        if table.endswith(REJECTED):
            raise ValueError(f"a name that ends in {REJECTED} is that of a table of rejected rows: choose another one")
        return table

    @property
    def tables(self) -> tuple[str, ...]:
        """Its table, and that of its rejected rows, if they are set aside."""
        return (self.table, *((self.table + REJECTED,) if dict(self)["bad_rows_share"] else ()))

    def route(self) -> Route:
        """This route as `tidegate.core` has it."""
        schema, generated = _without_generated(self.table_schema)
        return Route(
            name=self.name,
            bucket=self.bucket,
            prefix=self.prefix,
            suffix=self.suffix,
            dataset=Dataset(
                table=self.table,
                schema=schema + (f"\n\n, {REST} string" if self.unknown in KEEPING else ""),
                format=self.format,
                partition_by=self.partition_by,
                max_object_bytes=int(self.max_object_bytes),
                replaces=self.on_overwrite == "replace",
                skips=self.on_overwrite == "skip same bytes",
                removes=self.on_delete == "remove",
                where=self.where,
                generated=generated,
                options=FORMATS[self.format].carry(dict(self)),
            ),
            limits=replace(
                fixed.BATCH,
                max_wait=self.batch.max_wait,
                target_bytes=int(self.batch.target_bytes),
                in_flight=self.batch.in_flight,
            ),
            retired=self.retired,
            owner=self.bucket_owner or "",
            audit_from=self.audit_from,
            lanes=self.lanes,
        )


def _without_generated(schema: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    if "generated" not in schema.lower():
        return schema, ()
    # functions have settings, too: each import makes them start later
    from tidegate.schemas.ddl import without_generated

    return without_generated(schema)

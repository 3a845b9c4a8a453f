"""Renders docs/configuration.md from the models in `tidegate.settings`.

Run it to write the page again. A test compares the page with the models.
"""

import textwrap
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import BaseModel, ByteSize
from pydantic.fields import FieldInfo

from tidegate.core.batches import wait_before_next
from tidegate.core.quantities import duration
from tidegate.settings import (
    AnnounceSettings,
    AuditSettings,
    BatchSettings,
    CatalogSettings,
    DeploymentSettings,
    LimitSettings,
    MaintainSettings,
    NetworkSettings,
    OperationsSettings,
    RetentionSettings,
    RouteSettings,
    SecuritySettings,
    fixed,
)
from tidegate.settings.values import InWords

PAGE = Path(__file__).with_name("configuration.md")

SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("[deployment]", DeploymentSettings),
    ("[security]", SecuritySettings),
    ("[network]", NetworkSettings),
    ("[catalog]", CatalogSettings),
    ("[retention]", RetentionSettings),
    ("[limits]", LimitSettings),
    ("[operations]", OperationsSettings),
    ("[audit]", AuditSettings),
    ("[maintain]", MaintainSettings),
    ("[announce]", AnnounceSettings),
    ("[[route]]", RouteSettings),
    ("[route.batch]", BatchSettings),
)

HEAD = """\
# Configuration

<!-- Rendered by docs/render_configuration.py from tidegate/settings/. Change those, then run it. -->

One file, `tidegate.toml`, describes a deployment. Every field is optional unless its default is *required*. What is
allowed is in italics; else it is any value like the default. `tidegate check` reports every mistake with its line,
unknown fields included. `make setup` copies `tidegate.example.toml` to `tidegate.toml` if there is none; git ignores
the copy. Editors find `docs/tidegate.schema.json` by the first line of the example.

- The CDK app reads `tidegate.toml` in the checkout, or the file that the context `tidegate:config` names.
- A function reads the copy in its bundle, so a change of it needs a deployment
  ([why](adr/0015-settings-travel-in-the-bundle.md)).
- The command line: [which file](cli.md#which-deployment).

A *duration* is a whole number and a unit in quotes: `"60s"`, `"15m"`, `"12h"`, `"14d"`. A *size* is a number of bytes,
or text with a unit: `"256MB"` is 256,000,000 bytes, `"1GiB"` is 1,073,741,824.

```toml
[retention]
claims = "90d"

[[route]]
name = "stock"
bucket = "example-theirs"
existing = true
suffix = ".csv"
format = "csv"
delimiter = ";"
table = "lake.shop.stock"
schema = "sku string not null, amount int, price decimal(12,2)"
```
"""

TAIL = """
[formats.md](formats.md) says what files of each `format` may hold.

## What is checked across fields

When the file is read, among others:

- No key can belong to two routes of one bucket, or its rows would land twice: prefixes or suffixes exclude each other.
  A `retired` route does not count.
- Routes of one bucket agree on `existing`, `versioned`, `source` and `bucket_owner`.
- All tables are in one catalog. Without `subnets` it is not a REST catalog:
  [what a job reaches](https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/considerations.html).

Not checked:

- **Two deployments that take uploads from one bucket.** S3 refuses notifications that overlap. EventBridge and existing
  buckets' rules do not, and every row would land in both.

## What follows from the settings

- **The catalog's type**: rest with a `uri`, else s3tables with a `warehouse`, else glue. **Its name** is what the
  routes' tables begin with: `lake` in lake.shop.orders.
- **Invocations of intake, and of dispatch, at a time**: the `lanes` of the route with the most, @CONCURRENCY@ at least.
  The other functions need four more.
- **Memory of all jobs**: 4 GB for each `vcpu`. **Their disk**: 10 GB, which is 20 GB for each worker.
- **Jobs at a time**: `vcpu` / 6, so that each has room for a driver and one executor. The others queue.
- **How long a job may run**: @JOB_TIMEOUT@. If a route's `max_object_bytes` is more than @USUAL_FILE@, longer in
  proportion, @LONGEST_JOB@ at most.
- **How long intake gathers notifications**: a twelfth of the shortest `max_wait`, 2s to 5m (1s below 4s).
- **How long SNS keeps notices for a replay**: `claims` - @TRAVEL@, so that the ledger still knows them; 14d at most.
- **Whether a table is maintained**, unless its route says: if Tidegate created it, and the catalog is Glue.

## What is no setting

An owner has no fact that decides these. [fixed.py](../tidegate/settings/fixed.py) has the reasons.

| what | value |
|---|---|
| how long queues keep a message, and dead-letter queues | @MESSAGES@, @DEAD_LETTERS@ |
| for how long a message can travel: 3 x the first + 2 x the second | @TRAVEL@ |
| how far back an audit may look (the horizon) | @LOOK_BACK@ |
| how old an upload must be that an audit takes for lost, and may be | @MIN_AGE@ to @MAX_AGE@ |
| lost uploads that are sent in a second, at most | @SENT_RATE@ |
| if an audit has listed more uploads of a route, a Spark job makes the next one | @JOB_ABOVE@ |
| uploads that such a job looks up in a second, at most | @READ_RATE@ |
| how long a job may queue for vCPU; then it ends, which counts as an attempt | @QUEUE_TIMEOUT@ |
| uploads of a batch before it is handed off, at most | @TARGET_OBJECTS@ |
| attempts at a batch before it halts | @ATTEMPTS@ |
| how long after the beginning of an attempt the next one may begin | @WAITS@ |
| how long a halted batch keeps its slot; then the route goes on without it | @STEP_ASIDE@ |
| how often a job maintains the tables | @MAINTAINED_EVERY@ |
| so many of the latest snapshots stay, of any age | @KEEP_LAST@ |
| older files that no snapshot names are deleted | @ORPHANS_AFTER@ |
| small files that one run rewrites in each table, at most | @COMPACT_BYTES@ |

## The policy of a key of your own

The stack cannot change the policy of a key that `encryption` names. It must leave the permissions of the account's
roles to IAM, as the default key policy does, and let services use the key in their own name, as a key of
`encryption = "customer"` does:

```json
@KEY_POLICY@
```

`REGION` and `ACCOUNT` are yours. The first statement also lists the accounts of `bucket_owner`. An uploader into a
bucket that the stack created needs `kms:GenerateDataKey` on the key, and `kms:Decrypt` for multipart uploads.
"""


KEY_POLICY = """\
[
  {"Sid": "SendS3", "Effect": "Allow", "Principal": {"Service": "s3.amazonaws.com"},
   "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*",
   "Condition": {"StringEquals": {"aws:SourceAccount": "ACCOUNT"}}},
  {"Sid": "SendSns", "Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"},
   "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*",
   "Condition": {"StringEquals": {"aws:SourceAccount": "ACCOUNT"}}},
  {"Sid": "SendEvents", "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"},
   "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*",
   "Condition": {"StringEqualsIfExists": {"aws:SourceAccount": "ACCOUNT"}}},
  {"Sid": "SendCloudwatch", "Effect": "Allow", "Principal": {"Service": "cloudwatch.amazonaws.com"},
   "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*",
   "Condition": {"StringEquals": {"aws:SourceAccount": "ACCOUNT"}}},
  {"Sid": "FunctionLogs", "Effect": "Allow", "Principal": {"Service": "logs.REGION.amazonaws.com"},
   "Action": ["kms:Decrypt*", "kms:Describe*", "kms:Encrypt*", "kms:GenerateDataKey*", "kms:ReEncrypt*"],
   "Resource": "*",
   "Condition": {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": "arn:aws:logs:REGION:ACCOUNT:log-group:*"}}},
  {"Sid": "JobLogs", "Effect": "Allow", "Principal": {"Service": "emr-serverless.amazonaws.com"},
   "Action": ["kms:Decrypt", "kms:GenerateDataKey"], "Resource": "*",
   "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:emr-serverless:REGION:ACCOUNT:/applications/*"},
                 "StringEquals": {"aws:SourceAccount": "ACCOUNT"}}}
]"""
"""The statements of `infra.encryption.Encryption.statements`; a test compares the two."""


def render() -> str:
    parts = [HEAD]
    for header, model in SECTIONS:
        about = textwrap.fill(" ".join((model.__doc__ or "").split()), 120)
        parts.append(f"\n## {header}\n\n{about}\n")
        parts.append("\n| field | default | meaning |\n|---|---|---|\n")
        for name, field in model.model_fields.items():
            cells = (f"`{field.alias or name}`", _default(field), _meaning(field))
            parts.append(f"| {' | '.join(map(_cell, cells))} |\n")
    tail = TAIL.replace("@KEY_POLICY@", KEY_POLICY)
    for name, value in _values().items():
        tail = tail.replace(f"@{name}@", value)
    return "".join(parts) + tail


def _values() -> dict[str, str]:
    """What stands between @ in the text: every number of `tidegate.settings.fixed`."""
    batch, upkeep = fixed.BATCH, fixed.MAINTENANCE
    waits = [duration(wait_before_next(attempt, batch)) for attempt in range(1, batch.attempts)]
    times = ("MESSAGES", "DEAD_LETTERS", "TRAVEL", "LOOK_BACK", "MIN_AGE", "MAX_AGE", "QUEUE_TIMEOUT", "JOB_TIMEOUT")
    numbers = ("CONCURRENCY", "SENT_RATE", "JOB_ABOVE", "READ_RATE")
    return {
        **{name: duration(getattr(fixed, name)) for name in (*times, "LONGEST_JOB", "MAINTAINED_EVERY")},
        **{name: f"{getattr(fixed, name):,}" for name in numbers},
        "USUAL_FILE": _size(fixed.USUAL_FILE),
        "TARGET_OBJECTS": f"{batch.target_objects:,}",
        "ATTEMPTS": str(batch.attempts),
        "WAITS": ", ".join(waits),
        "STEP_ASIDE": duration(batch.step_aside),
        "KEEP_LAST": str(upkeep.keep_last),
        "ORPHANS_AFTER": duration(upkeep.orphans_after),
        "COMPACT_BYTES": _size(upkeep.compact_bytes),
    }


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _meaning(field: FieldInfo) -> str:
    about = field.description or ""
    if _shows_its_kind(field) or _names_its_choices(field):
        return about
    return f"{about} *{_allowed(field.annotation, field.metadata)}*"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*required*"
    value: Any = field.default
    if value is None:
        return "*none*"
    if isinstance(value, BaseModel):
        return "its own defaults"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, ByteSize):
        return f'`"{_size(value)}"`'
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, tuple):
        return f"`[{', '.join(map(repr, value))}]`"
    return f"`{value}`"


def _shows_its_kind(field: FieldInfo) -> bool:
    """Whether the default says what else is allowed: a duration, a size, true or false, a list, any text."""
    if field.default is None:
        return False
    a_duration = any(type(each).__name__ == "BeforeValidator" for each in field.metadata)
    any_text = isinstance(field.default, str) and _allowed(field.annotation, field.metadata) == "text"
    return a_duration or any_text or isinstance(field.default, bool | ByteSize | tuple | BaseModel)


def _names_its_choices(field: FieldInfo) -> bool:
    choices = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
    return bool(choices) and all(len(each) > 1 and each in (field.description or "") for each in choices)


def _size(count: int) -> str:
    """Bytes as `tidegate.toml` writes them."""
    units = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
    return next((f"{count // factor}{unit}" for unit, factor in units if count % factor == 0), f"{count}B")


def _allowed(kind: Any, bounds: list[Any]) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(f"`{each}`" for each in get_args(kind))
    if kind is ByteSize:
        return "a size above 0"
    if any(type(each).__name__ == "BeforeValidator" for each in bounds):
        return "a duration"
    if kind is bool:
        return "`true`, `false`"
    if kind is float:
        return "a number from 0 to 1"
    if kind is int:
        lows = [each.ge if isinstance(each, Ge) else each.gt + 1 for each in bounds if isinstance(each, Ge | Gt)]
        high = next((each.le for each in bounds if isinstance(each, Le)), "")
        return f"{lows[0]} to {high}" if high != "" else f"from {lows[0]}"
    if get_origin(kind) is tuple:
        return "a list of texts"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "the section below"
    if get_origin(kind) in (Union, UnionType) and (inner := _optional(kind)):
        return _allowed(inner[0], [*bounds, *inner[1]])
    if get_origin(kind) in (Union, UnionType):
        raise TypeError(f"say how to describe {kind}")
    return _text(bounds)


def _optional(kind: Any) -> tuple[Any, list[Any]] | None:
    """The type and the bounds of `kind`, if it is one type or None."""
    others = [each for each in get_args(kind) if each is not NoneType]
    if len(others) != 1:
        return None
    if get_origin(others[0]) is Annotated:
        inner, *metadata = get_args(others[0])
        return inner, metadata
    return others[0], []


def _text(bounds: list[Any]) -> str:
    if rules := [each.words for each in bounds if isinstance(each, InWords)]:
        return rules[0]
    low = next((each.min_length for each in bounds if isinstance(each, MinLen)), 0)
    high = next((each.max_length for each in bounds if isinstance(each, MaxLen)), 0)
    if low == high == 1:
        return "one character"
    return f"at most {high} characters" if high else "text" + (", not empty" if low else "")


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE}")

"""Renders docs/configuration.md from the models in `tidegate.settings`.

Run it to write the page again. A test compares the page with the models.
"""

from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import BaseModel, ByteSize
from pydantic.fields import FieldInfo

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

One file, `tidegate.toml`, describes a deployment. Every field is optional unless its default is *required*. An unknown
field is a mistake. `tidegate check` reports every mistake with its line and with what is allowed there, types and
partitions included. It needs no stack. `docs/tidegate.schema.json` is the JSON Schema of the file: the first line of
the `tidegate.toml` in the checkout names it for editors.

The CDK app, the functions and the command line read the same file:

- The CDK app reads `tidegate.toml` in the checkout, or the file that the context `tidegate:config` names.
- A function reads the copy that was deployed with its code. The file is part of the bundle, so a change of it
  needs a deployment ([why](adr/0015-settings-travel-in-the-bundle.md)).
- The command line reads `--config`, else the file that `TIDEGATE_CONFIG` names, else `tidegate.toml` in the current
  folder.

A *duration* is a whole number and a unit in quotes: `"60s"`, `"15m"`, `"12h"`, `"14d"`. A *size* is a number of bytes,
or text with a unit: `"256MB"` is 256,000,000 bytes, `"1GiB"` is 1,073,741,824.

An example with every section:

```toml
[deployment]
name = "tidegate"

[retention]
claims = "90d"

[[route]]
name = "orders"
bucket = "example-landing"
prefix = "shop/orders/"
suffix = ".json.gz"
format = "json"
table = "lake.shop.orders"
schema = "id bigint not null, placed_at timestamp, total decimal(12,2)"
partition_by = ["days(placed_at)"]

[route.batch]
max_wait = "5m"
in_flight = 2

[[route]]
name = "stock"
bucket = "example-theirs"
existing = true
suffix = ".csv"
format = "csv"
delimiter = ";"
table = "lake.shop.stock"
schema = "sku string, amount int"
```
"""

TAIL = """
[formats.md](formats.md) lists what files of each `format` may hold, type by type.

## What is checked across fields

When the file is read (`tidegate.settings.model.Settings`, `tidegate.settings.sections.RetentionSettings`):

- There is at least one route. Names of routes differ.
- A route has options of its own format only.
- No key can belong to two routes of one bucket: prefixes or suffixes must exclude each other. Otherwise its rows would
  land twice. A `retired` route does not count, because it takes no uploads.
- Routes of one bucket agree on `existing`, `versioned`, `source` and `bucket_owner`.
- A catalog has the fields that its `type` needs, and no others. `[network]` has both of its fields or neither.
- Every table is in the catalog of `[catalog]`.
- `messages` and `dead_letters` are 14 days at most. SQS keeps no message longer
  ([Amazon SQS message quotas](https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html)).
- `look_back` is longer than 3 x `messages` + 2 x `dead_letters`, the time that a message can travel.
- `claims` is longer than `look_back`, by a day at least.
- `lanes` of a route is not more than `dispatch_concurrency` of `[limits]`. Each lane needs an invocation of its own.
- With a catalog of type s3tables, neither `enabled` of `[maintain]` nor `maintain` of a route is true. S3 Tables
  maintains its tables itself.
- `max_age` of `[audit]` is not longer than `look_back`, and `min_age` is shorter than it.

Not checked: what the settings were before. If you raise `claims`, the ledger has kept older claims for the old time
only. Raise `look_back` or `max_age` beyond the old `claims` only after the old claims have expired. Otherwise an audit
takes uploads that the ledger has forgotten for lost ones, and their rows land twice.

When the stack is synthesized (`infra.sizing.check`):

- `messages` is longer than a failing message is delivered again: 5 deliveries of 720 s each for a notice.
- `dead_letters` is longer than `messages`.
- `vcpu`, `memory_gb` and `disk_gb` hold a driver and one executor: 6 vCPU, 24 GB, 40 GB.
- `concurrent_jobs`, if given, leaves room for an executor beside the drivers of that many jobs.
- `queue_timeout` and `job_timeout` are less than 24 hours together: the hand-off's record of a started job lasts that
  long.

Not checked: two deployments that take uploads from the same bucket. S3 refuses notifications that overlap; EventBridge
and existing buckets' rules do not, and every row would land in both.

## The policy of a key of your own

With `kms_key_arn` the stack uses a key that it did not create, and whose policy it cannot change. That policy must

- leave the permissions of the account's roles to IAM, as the default key policy does;
- let services use the key in their own name. A key of `encryption = "customer"` gets these statements for that:

```json
@KEY_POLICY@
```

`REGION` and `ACCOUNT` are yours. The first statement also lists the accounts of `bucket_owner`. An uploader into a
bucket that the stack created needs `kms:GenerateDataKey` on the key, and `kms:Decrypt` for multipart uploads.

[architecture.md](architecture.md#how-long-things-are-remembered) explains the relations between the times.
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
        about = " ".join((model.__doc__ or "").split()).replace("see docs/architecture.md", "see below")
        parts.append(f"\n## {header}\n\n{about}\n")
        parts.append("\n| field | default | allowed | meaning |\n|---|---|---|---|\n")
        for name, field in model.model_fields.items():
            cells = (
                f"`{field.alias or name}`",
                _default(field),
                _allowed(field.annotation, field.metadata),
                field.description or "",
            )
            parts.append(f"| {' | '.join(map(_cell, cells))} |\n")
    return "".join(parts) + TAIL.replace("@KEY_POLICY@", KEY_POLICY)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


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
        return "a number above 0, at most 1"
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

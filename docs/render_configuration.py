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
- Without `subnets` there is no catalog of type rest, and no `linger`:
  [what a job reaches](https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/considerations.html).
- `look_back` is longer than 3 x `messages` + 2 x `dead_letters`, and `claims` longer by a day at least
  ([why](architecture.md#how-long-things-are-remembered)).
- `max_age` of `[audit]` is not longer than `look_back`, nor are `every` and `min_age` together. `min_age` is shorter
  than `max_age`.

When the stack is synthesized:

- `messages` is longer than a failing message is delivered again: for a notice 5 times 720 s. `dead_letters` is longer.
- `vcpu`, `memory_gb` and `disk_gb` hold a driver and one executor; with `concurrent_jobs`, that many drivers.
- `queue_timeout` and `job_timeout` are less than 24 hours together: the record of a started job lasts that long.

Not checked:

- **What the settings were before.** If you raise `claims`, older claims still expire after the old time. Until then
  raise neither `look_back` nor `max_age` beyond it. An audit would take forgotten uploads for lost ones, and their rows
  would land twice ([more](operations.md#how-long-things-are-kept)).
- **Two deployments that take uploads from one bucket.** S3 refuses notifications that overlap. EventBridge and existing
  buckets' rules do not, and every row would land in both.

## The policy of a key of your own

The stack cannot change the policy of the key of `kms_key_arn`. It must leave the permissions of the account's roles to
IAM, as the default key policy does, and let services use the key in their own name, as a key of
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
    return "".join(parts) + TAIL.replace("@KEY_POLICY@", KEY_POLICY)


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

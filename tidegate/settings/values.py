"""The values of `tidegate.toml`: durations, sizes, names. Each says what it may be, in words, when it is refused."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ByteSize, WithJsonSchema

from tidegate.core.audit import SOURCES
from tidegate.core.workers import ALWAYS, LONGEST

MINUTE = 60
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"s": 1, "m": MINUTE, "h": HOUR, "d": DAY}
SIZES = 'a size is a number and a unit in quotes, such as "256MB" or "1GiB"'


def duration(value: object) -> int:
    """The seconds in text such as "15m". Raises ValueError."""
    match = re.fullmatch(r"([1-9][0-9]*)\s*([smhd])", value) if isinstance(value, str) else None
    if not match:
        raise ValueError(
            'a duration is a whole number from 1 on and a unit (s, m, h, d) in quotes, such as "60s" or "14d"'
        )
    return int(match[1]) * _UNITS[match[2]]


Duration = Annotated[int, BeforeValidator(duration, json_schema_input_type=str)]
"""Seconds, written as "60s", "15m", "12h" or "14d"."""


def _stay(value: object) -> int:
    if value in ("0s", "always"):
        return ALWAYS if value == "always" else 0
    with suppress(ValueError):
        seconds = duration(value)
        if seconds <= LONGEST:
            return seconds
    raise ValueError('it is "always", or "0s" to "1h", such as "90s" or "10m"')


Stay = Annotated[int, BeforeValidator(_stay, json_schema_input_type=str)]
"""Seconds, written as "0s", "10m" or "always"."""


SIZE = re.compile(r"[0-9]+(\.[0-9]+)?\s*([A-Za-z]+)?")


def _size(value: object) -> object:
    # pydantic takes `true` for a size of 1 byte, and "1,5GB" too: it looks at the beginning only
    if isinstance(value, bool) or (isinstance(value, str) and not SIZE.fullmatch(value.strip())):
        raise ValueError(SIZES)
    return value


Size = Annotated[ByteSize, BeforeValidator(_size, json_schema_input_type=int | str)]
"""Bytes, written as 1000, "256MB" or "1GiB"."""


@dataclass(frozen=True, slots=True)
class InWords:
    """What a text may be, in words: nobody should have to read a pattern. It stands in docs/configuration.md, too."""

    words: str


def _text(pattern: str, rule: str, wrong: Callable[[str], str] | None = None) -> Any:
    """Text of this pattern. `wrong` says what is wrong with another text, if more than the rule can be said."""

    def check(given: str) -> str:
        if not re.fullmatch(pattern, given):
            raise ValueError(f"{given!r} is not {rule}" if wrong is None else wrong(given))
        return given

    schema = WithJsonSchema({"type": "string", "pattern": f"^(?:{pattern})$"})
    return Annotated[str, AfterValidator(check), schema, InWords(rule)]


NAME = "a lower-case letter, then at most 30 lower-case letters, digits and dashes"
BUCKET = "3 to 63 lower-case letters, digits, dots, dashes"
TABLE = "catalog.namespace.table in lower-case letters, digits and underscores, such as lake.shop.orders"
SOURCE = f"{', '.join(SOURCES)}, or the folder of an S3 Inventory: s3://BUCKET/PREFIX/SOURCE-BUCKET/CONFIGURATION"

_A_BUCKET = r"(?![0-9.]+(?:/|$))(?![a-z0-9.-]*\.\.)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
TABLE_BUCKET_ARN = r"arn:aws[a-z-]*:s3tables:[a-z0-9-]+:[0-9]{12}:bucket/[a-z0-9-]{3,63}"
_A_TABLE = r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*){2}"


def _short_name(given: str) -> str:
    if len(given) > 31:
        return f"{given!r} is too long: {NAME}"
    return f"{given!r} is no name: {NAME}, such as web-orders"


def _bucket(given: str) -> str:
    if given.startswith(("s3://", "arn:")):
        return f"{given!r}: write the bucket's name alone, such as {bucket_in(given) or 'example-landing'!r}"
    if not 3 <= len(given) <= 63:
        return f"bucket {given!r} is too {'short' if len(given) < 3 else 'long'}: {BUCKET}"
    if wrong := re.search(r"[^a-z0-9.-]", given):
        return f"bucket {given!r} has a {wrong[0]!r} in it: {BUCKET}"
    if ".." in given or re.fullmatch(r"[0-9.]+", given):
        return f"bucket {given!r} is refused by S3: no two dots in a row, and no address of the internet"
    return f"bucket {given!r} must begin and end with a letter or a digit: {BUCKET}"


def bucket_in(address: str) -> str:
    """The bucket's name in s3://bucket/prefix, or in an ARN; empty if there is none."""
    found = re.match(rf"(?:s3://|arn:aws[a-z-]*:s3:::)({_A_BUCKET})", address)
    return found[1] if found else ""


def _table(given: str) -> str:
    if given != given.lower() and re.fullmatch(_A_TABLE, given.lower()):
        return f"{given!r} has upper-case letters: write {given.lower()}"
    parts = given.count(".") + 1
    if parts != 3:
        return f"{given!r} has {parts} {'part' if parts == 1 else 'parts'}: a table is {TABLE}"
    return f"{given!r} is no name of a table: it is {TABLE}"


ShortName = _text(r"[a-z][a-z0-9-]{0,30}", NAME, _short_name)
BucketName = _text(_A_BUCKET, BUCKET, _bucket)
TableName = _text(_A_TABLE, TABLE, _table)
AccountId = _text(r"[0-9]{12}", 'the id of an account, 12 digits in quotes: "123456789012"')
EncryptionKey = _text(
    r"aws|customer|arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+",
    "aws, customer, or the ARN of a KMS key: arn:aws:kms:REGION:ACCOUNT:key/ID",
)
SecretArn = _text(
    r"arn:aws[a-z-]*:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[A-Za-z0-9/_+=.@-]+-[A-Za-z0-9]{6}",
    "the whole ARN of a secret: arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME-SUFFIX",
)
Email = _text(r"(?=.{1,254}$)[^@\s]+@[^@\s]+\.[^@\s]+", "an address of mail")
S3Uri = _text(rf"(?=.{{1,1100}}$)s3://{_A_BUCKET}(/.*)?", "a place in S3: s3://BUCKET/PREFIX")
AuditSource = _text(
    rf"{'|'.join(SOURCES)}|s3://{_A_BUCKET}/[^?*$]*[^/?*$]/?",
    SOURCE,
    lambda given: f"an audit finds uploads in {SOURCE.replace(', or the', ', or in the')}",
)
# a job is started with both among its parameters, which a function's environment of 4 KB holds
HttpsUri = _text(
    r"(?=.{1,256}$)https://[A-Za-z0-9._~:/?%=&-]+", "an address that begins with https://, of 256 characters at most"
)
WarehouseName = _text(r"[A-Za-z0-9._~:/=@+-]{1,256}", "a name of 256 characters at most, without blanks and quotes")
BusName = _text(
    r"[A-Za-z0-9._-]{0,256}", 'the name of an event bus: letters, digits, dots, dashes, underscores; or "" for none'
)

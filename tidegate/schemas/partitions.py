"""Iceberg's partition transforms, as a route states them.

https://iceberg.apache.org/spec/#partition-transforms has which types each takes. A test compares these verdicts with
tables that Spark and Iceberg make.
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.lineage import LINEAGE_COLUMNS
from tidegate.schemas.ddl import SchemaMistake
from tidegate.schemas.types import Decimal, Scalar, TextSpan, Type

COLUMN = r"[A-Za-z_][A-Za-z0-9_]*"
TRANSFORM = re.compile(
    rf"(?P<plain>{COLUMN})"
    rf"|(?P<period>years|months|days|hours)\((?P<time>{COLUMN})\)"
    rf"|(?P<cut>bucket|truncate)\((?P<number>[0-9]{{1,18}}), ?(?P<value>{COLUMN})\)"
)
ONLY_ONCE = "It is read when the table is created, and only then: leave it out if the table exists"
PERIODS = ("years", "months", "days", "hours")
ALLOWED = "a column, years(c), months(c), days(c), hours(c), bucket(n, c) and truncate(n, c)"

_TIMES = ("timestamp", "timestamp_ntz")
_TAKEN_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("years", "months", "days"), ("date", *_TIMES)),
    "hours": _TIMES,
    "bucket": ("int", "bigint", "decimal", "string", "binary", "date", *_TIMES),
    "truncate": ("int", "bigint", "decimal", "string", "binary"),
}
MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform of a column; `name` is "" for the column as it is. `at` is where the column stands in the text."""

    name: str
    column: str
    number: int
    at: TextSpan

    @property
    def field(self) -> str:
        """What Iceberg calls the field of the partition (`PartitionSpec.Builder`, source of Iceberg 1.11 read)."""
        ending = {"": "", "bucket": "_bucket", "truncate": "_trunc"}.get(self.name, f"_{self.name[:-1]}")
        return f"{self.column}{ending}"

    @property
    def redundant_with(self) -> str:
        """Two transforms of a column with the same of these are refused by Iceberg (`checkForRedundantPartitions`)."""
        return "time" if self.name in PERIODS else f"{self.name}{self.number or ''}"


def read(text: str) -> Transform | SchemaMistake:
    found = TRANSFORM.fullmatch(text)
    if found is None:
        return SchemaMistake(
            TextSpan(0, len(text)), f"{text!r} is not a partition transform; {_meant(text)}allowed are {ALLOWED}"
        )
    group = "plain" if found["plain"] else "time" if found["time"] else "value"
    name = found["period"] or found["cut"] or ""
    return Transform(name, found[group], int(found["number"] or 0), TextSpan(*found.span(group)))


def _meant(text: str) -> str:
    """Singular forms and Spark's other spellings of a period."""
    period = re.fullmatch(rf"(year|month|day|hour|date|date_hour)\(\s*({COLUMN})\s*\)", text)
    if not period:
        return ""
    name = {"date": "days", "date_hour": "hours"}.get(period[1], f"{period[1]}s")
    return f"did you mean {name}({period[2]})? "


def mistakes(
    partition_by: Sequence[str], columns: Mapping[str, Type], names: Sequence[str] = ()
) -> Iterator[tuple[int, SchemaMistake]]:
    """What is wrong, with the number of its entry, from 0. `columns` are all columns of the table, in lower case;
    `names` those of the schema, as it spells them."""
    spelled = {name.lower(): name for name in names}
    seen: list[Transform] = []
    for number, text in enumerate(partition_by):
        transform = read(text)
        wrong = transform if isinstance(transform, SchemaMistake) else _wrong(transform, columns, spelled, seen)
        if wrong:
            yield number, wrong
        elif isinstance(transform, Transform):
            seen.append(transform)


def _wrong(
    transform: Transform, columns: Mapping[str, Type], spelled: Mapping[str, str], seen: Sequence[Transform]
) -> SchemaMistake | None:
    column = transform.column
    kind = columns.get(column.lower())
    if kind is None:
        near = difflib.get_close_matches(column.lower(), columns, n=1, cutoff=0.6)
        meant = f"did you mean `{spelled.get(near[0], near[0])}`? " if near else ""
        own = [spelled.get(name, name) for name in columns if name not in LINEAGE_COLUMNS]
        return SchemaMistake(
            transform.at, f"the schema has no column `{column}`; {meant}it has {', '.join(own)}. {ONLY_ONCE}"
        )
    name = "decimal" if isinstance(kind, Decimal) else kind.name if isinstance(kind, Scalar) else ""
    if not name:
        return SchemaMistake(transform.at, f"column `{column}` is {kind}: a table is partitioned by single values only")
    if transform.name and name not in _TAKEN_BY[transform.name]:
        takes = ", ".join(_TAKEN_BY[transform.name])
        return SchemaMistake(transform.at, f"column `{column}` is {kind}, and {transform.name}() takes {takes}")
    if transform.name in ("bucket", "truncate") and not 1 <= transform.number <= MOST:
        return SchemaMistake(TextSpan(0, transform.at.start), f"{transform.name}(n, c) takes a number from 1 to {MOST}")
    return _clash(transform, columns, seen)


def _clash(transform: Transform, columns: Mapping[str, Type], seen: Sequence[Transform]) -> SchemaMistake | None:
    whole = TextSpan(0, transform.at.end)
    for other in seen:
        same = other.column.lower() == transform.column.lower()
        if same and other.redundant_with == transform.redundant_with:
            return SchemaMistake(whole, f"column `{transform.column}` is there already: Iceberg takes one of the two")
        if other.field.lower() == transform.field.lower():
            return SchemaMistake(
                whole, f"Iceberg would call two partition fields {transform.field}: it takes one of the two"
            )
    if transform.name and transform.field.lower() in columns:
        called = f"Iceberg would call this partition field {transform.field}, as a column is called"
        return SchemaMistake(whole, f"{called}: rename the column, or choose another transform")
    return None

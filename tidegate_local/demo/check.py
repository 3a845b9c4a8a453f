"""The judge: reads the table with PyIceberg, which shares no code with the path, and compares it with the source.

What must be there is computed from the package's own data frame and not from the objects that were uploaded: a
mistake in making the objects would show, too.
"""

import datetime
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate_local.demo.source import first_hours

COLUMNS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour"),
)
LINEAGE = ("_source_uri", "_source_version", "_source_row")
SHOWN = 3
"""How many offending rows a finding names."""

FlightRow = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked: what, whether it is so, and what was seen."""

    what: str
    holds: bool
    seen: str


def read_table(table: str, *, uri: str, warehouse: str) -> Any:
    """All rows of `table` (catalog.namespace.name) as an Arrow table, read by PyIceberg."""
    from pyiceberg.catalog.sql import SqlCatalog

    name, _, identifier = table.partition(".")
    return SqlCatalog(name, uri=uri, warehouse=warehouse).load_table(identifier).scan().to_arrow()


def query_code(table: str, *, uri: str, warehouse: str) -> str:
    """A line of Python that counts the table's rows."""
    name, _, identifier = table.partition(".")
    # JSON's quotes are Python's too, and unlike repr's they need no escaping between a shell's single quotes
    name, identifier, uri, warehouse = (json.dumps(each) for each in (name, identifier, uri, warehouse))
    return (
        "from pyiceberg.catalog.sql import SqlCatalog; "
        f"print(SqlCatalog({name}, uri={uri}, warehouse={warehouse}).load_table({identifier}).scan().count())"
    )


def expected_rows(flights: Any, objects: int, committed: Callable[[Mapping[str, Any]], bool]) -> Counter[FlightRow]:
    """How often each row must be in the table: the source's first hours, without those that were not committed."""
    sample = first_hours(flights, objects)
    rows: Counter[FlightRow] = Counter()
    for values in sample[list(COLUMNS)].to_dict("records"):
        if committed(values):
            rows[tuple(_value(name, values[name]) for name in COLUMNS)] += 1
    return rows


def _value(name: str, value: Any) -> Any:
    """A cell of the data frame as Iceberg would give it back."""
    if value is None or value != value:  # NaN, pandas' missing value, is the one that differs from itself
        return None
    if name == "time_hour":
        return datetime.datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.UTC)
    return int(value) if isinstance(value, float) else value


def rows_of(table: Any, columns: Sequence[str]) -> list[FlightRow]:
    """The rows of an Arrow table, these columns only."""
    return list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))


def compare(found: Iterable[FlightRow], expected: Counter[FlightRow]) -> list[Finding]:
    """Every expected row as often as expected, and none other."""
    there = Counter(found)
    missing = expected - there
    surplus = there - expected
    repeated = Counter({row: count for row, count in surplus.items() if row in expected})
    foreign = Counter({row: count for row, count in surplus.items() if row not in expected})
    return [
        Finding(
            f"every one of the {expected.total()} expected rows is in the table",
            not missing,
            _sight(missing, "missing") if missing else f"{(there & expected).total()} rows",
        ),
        Finding("none of them twice", not repeated, _sight(repeated, "repeated") if repeated else "0 repeated"),
        Finding("no other row is there", not foreign, _sight(foreign, "foreign") if foreign else "0 foreign"),
    ]


def check_lineage(table: Any, versions: Mapping[str, str]) -> list[Finding]:
    """Each row names the upload and the line that it came from, no two the same.

    `versions` holds what was uploaded last and must be there: URI to version.
    """
    places = rows_of(table, LINEAGE)
    repeated = Counter(places) - Counter(set(places))
    seen = {(uri, version) for uri, version, _ in places}
    wrong = sorted(seen ^ set(versions.items()))
    last: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for uri, _, row in places:
        last[uri] = max(last.get(uri, 0), row)
        counts[uri] += 1
    gaps = sorted(uri for uri, highest in last.items() if counts[uri] != highest + 1)
    return [
        Finding(
            "no two rows come from the same line of the same upload",
            not repeated,
            _sight(repeated, "repeated") if repeated else f"{len(places)} distinct places",
        ),
        Finding(
            "the rows come from the last version of each object, and from every object",
            not wrong,
            f"not so: {wrong[:SHOWN]}" if wrong else f"{len(seen)} uploads",
        ),
        Finding(
            "no line of an object is left out",
            not gaps,
            f"gaps in {gaps[:SHOWN]}" if gaps else "0 gaps",
        ),
    ]


def _sight(rows: Counter[FlightRow], what: str) -> str:
    examples = "; ".join(repr(row) for row in list(rows)[:SHOWN])
    return f"{rows.total()} {what}, such as {examples}"

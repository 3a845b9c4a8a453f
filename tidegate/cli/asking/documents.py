"""What `tidegate sql` prints, as documents: docs/json has their shapes."""

from collections.abc import Iterable, Sequence
from typing import Any

from tidegate.cli.asking.engine import Answered, connected, files_of, hand, metadata
from tidegate.cli.asking.files import ReadOnlyFiles
from tidegate.cli.asking.lakes import Lake
from tidegate.cli.values import plain

SPARK_NAMES = {
    "int": "int",
    "long": "bigint",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "fixed": "binary",
}
"""Iceberg's names of types that Spark, and so `tidegate.toml`, has other names for."""


def answer(answered: Answered, rows: Iterable[Sequence[Any]], *, more: bool) -> dict[str, Any]:
    """`more`: whether there are rows that are not among `rows`."""
    names = distinct([name for name, _ in answered.columns])
    return {
        # text: a 64-bit number does not survive JavaScript, nor every jq
        "snapshots": {name: None if each is None else str(each) for name, each in answered.snapshots.items()},
        "columns": [{"name": name, "type": kind} for name, (_, kind) in zip(names, answered.columns, strict=True)],
        "rows": [dict(zip(names, map(plain, row), strict=True)) for row in rows],
        "more": more,
    }


def distinct(names: Sequence[str]) -> list[str]:
    """The names, a number behind each one that was there before: an object of JSON has each name once."""
    found: list[str] = []
    for name in names:
        each, number = name, 1
        while each in found:
            number += 1
            each = f"{name}_{number}"
        found.append(each)
    return found


def tables(lake: Lake) -> list[dict[str, Any]]:
    """Each table with its rows and columns; null and none for a table that is not there yet."""
    files = files_of(lake)
    connection = connected(files)
    return [_table(name, lake, files, connection) for name in lake.listed()]


def _table(name: str, lake: Lake, files: ReadOnlyFiles, connection: Any) -> dict[str, Any]:
    _, namespace, short = name.split(".")
    located = lake.locate(namespace, short)
    if located is None:
        return {"table": name, "rows": None, "snapshot": None, "columns": []}
    hand(located, files)
    found = metadata(connection, located.metadata)
    return {
        "table": name,
        "rows": found.rows,
        "snapshot": None if found.snapshot is None else str(found.snapshot),
        "columns": [{"name": column, "type": type_name(kind)} for column, kind in found.columns],
    }


def type_name(iceberg: Any) -> str:
    """The type of a column, as table metadata has it, in the words of `tidegate.toml`."""
    match iceberg:
        case {"type": "struct", "fields": fields}:
            inner = (f"{each['name']}: {type_name(each['type'])}" for each in fields)
            return f"struct<{', '.join(inner)}>"
        case {"type": "list", "element": element}:
            return f"array<{type_name(element)}>"
        case {"type": "map", "key": key, "value": value}:
            return f"map<{type_name(key)}, {type_name(value)}>"
        case _:
            name = str(iceberg).replace(", ", ",")
            return SPARK_NAMES.get(name.partition("[")[0], name)

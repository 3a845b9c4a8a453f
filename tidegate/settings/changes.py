"""What `tidegate.toml` means for tables that are there."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidegate.core.routes import Route
from tidegate.formats.registry import adds
from tidegate.schemas.ddl import parse

SPARKS = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
"""Iceberg's names of types that Spark calls otherwise (https://iceberg.apache.org/spec/#primitive-types)."""


def unfit_tables(routes: Iterable[Route], tables: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """What to do about each of these `tables`, by the types of its columns, that lacks a column of a route or has
    another type: a job that finds it gives up, and its batch halts."""
    for route in routes:
        there = tables.get(route.dataset.table)
        if there is None or route.retired:
            continue
        unfit = []
        for column in parse(route.dataset.schema).columns:
            was, kind = there.get(column.name), str(column.type)
            if was is None and not (adds(route.dataset.options) and column.nullable):
                unfit.append(f"it has no {column.name}")
            elif was not in (None, kind):
                unfit.append(f"{column.name} is {was}, and the route says {kind}")
        if unfit:
            yield (
                f"table {route.dataset.table} does not fit route {route.name}, and its batches halt:"
                f" {'; '.join(unfit)}. Add or widen columns by ALTER TABLE, or give the route a new `table`"
                ' (docs/first-route.md, "Changing it later")'
            )


def column_types(metadata: Mapping[str, Any]) -> dict[str, str]:
    """The columns of a table's metadata file, and their types as Spark calls them."""
    now = metadata["current-schema-id"]
    schema = next(each for each in metadata["schemas"] if each["schema-id"] == now)
    return {field["name"]: _type(field["type"]) for field in schema["fields"]}


def _type(of: Any) -> str:
    if isinstance(of, str):
        return SPARKS.get(of, of.replace(", ", ","))
    match of["type"]:
        case "list":
            return f"array<{_type(of['element'])}>"
        case "map":
            return f"map<{_type(of['key'])},{_type(of['value'])}>"
        case _:
            fields = (f"{field['name']}:{_type(field['type'])}" for field in of["fields"])
            return f"struct<{','.join(fields)}>"

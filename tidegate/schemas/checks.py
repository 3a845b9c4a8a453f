"""What keeps a route's schema from becoming a table that files of its format fill."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tidegate.core.lineage import LINEAGE_COLUMNS
from tidegate.formats.registry import REST
from tidegate.schemas.ddl import SchemaMistake
from tidegate.schemas.types import Column, Map, Scalar, Struct, Type, nested, within

LINEAGE_TYPES: Mapping[str, Type] = {name: Scalar(kind) for name, kind in LINEAGE_COLUMNS.items()}

OF_ICEBERG = frozenset({"_file", "_pos", "_deleted", "_spec_id", "_partition"})
"""Columns that each table of Iceberg has already (`MetadataColumns`, source of Iceberg 1.11 read)."""

TEXT_KEYS = {"json": "the keys of an object are text", "avro": "the keys of an Avro map are text"}
"""Formats whose maps have keys of text only, with the reason."""


def mistakes(columns: Sequence[Column], format: str, *, keeps: bool = False) -> Iterator[SchemaMistake]:
    """What is wrong with these columns for files of this format, each at its place in the DDL. `keeps`: what
    they lack goes into a column."""
    yield from _names(columns, "column")
    if columns and all(each.generated_at for each in columns):
        yield SchemaMistake(columns[0].name_at, "all columns are generated: name one that is in the files")
    for column in columns:
        if column.name.lower() in LINEAGE_TYPES:
            why = "Tidegate adds this column itself, for the lineage of each row"
            yield SchemaMistake(column.name_at, f"`{column.name}`: {why}. Call yours otherwise")
        if column.name.lower() in OF_ICEBERG:
            why = "Iceberg has a column of this name itself, for where a row is"
            yield SchemaMistake(column.name_at, f"`{column.name}`: {why}. Call yours otherwise")
        if keeps and column.name.lower() == REST:
            why = "Tidegate adds this column itself, because of `unknown`"
            yield SchemaMistake(column.name_at, f"`{column.name}`: {why}. Call yours otherwise")
        if column.generated:
            fields = [field for each in within(column.type) if isinstance(each, Struct) for field in each.fields]
            if not all(field.nullable for field in fields):
                why = "leave `not null` out: what SQL makes of a row may be null"
                yield SchemaMistake(column.type_at, f"column `{column.name}`: {why}")
            continue  # no file has it
        if format == "csv" and nested(column.type):
            why = "a field of a CSV file is a single value"
            yield SchemaMistake(column.type_at, f"column `{column.name}` is {column.type}: {why}")
        if format == "json":
            yield from _no_json_names(column)
        for each in within(column.type):
            if isinstance(each, Struct):
                yield from _names(each.fields, "field")
                if not each.fields:
                    yield SchemaMistake(column.type_at, "a struct needs a field: `struct<name: string>`")
            if isinstance(each, Map) and format in TEXT_KEYS and each.key != Scalar("string"):
                said = f"{TEXT_KEYS[format]}: write `map<string,{each.value}>`"
                yield SchemaMistake(column.type_at, f"column `{column.name}` has a map with keys of {each.key}; {said}")


NOT_IN_JSON = re.compile(r'["\\\x00-\x1f]')
"""Characters that the decoder of JSON takes in no name (msgspec 0.22)."""


def _no_json_names(column: Column) -> Iterator[SchemaMistake]:
    fields = [field for each in within(column.type) if isinstance(each, Struct) for field in each.fields]
    for each in (column, *fields):
        if wrong := NOT_IN_JSON.search(each.name):
            said = f"the name {each.name!r} has {wrong[0]!r} in it, which no name of a JSON field may have here"
            yield SchemaMistake(each.name_at, said)


def _names(columns: Sequence[Column], what: str) -> Iterator[SchemaMistake]:
    """Spark ignores the case of names."""
    count: Counter[str] = Counter()
    for column in columns:
        count[column.name.lower()] += 1
        if count[column.name.lower()] == 2:
            yield SchemaMistake(
                column.name_at, f"{what} `{column.name}` is there twice (upper and lower case are the same)"
            )


def types_of(columns: Sequence[Column]) -> dict[str, Type]:
    """The type of each column of the table, those of the lineage too, by its name in lower case."""
    return {**{column.name.lower(): column.type for column in columns}, **LINEAGE_TYPES}

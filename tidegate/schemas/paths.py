"""The names of columns, and of fields within them, as paths: `customer.vip`, `lines[].colour`."""

from collections.abc import Iterator, Sequence

from tidegate.schemas.ddl import parse
from tidegate.schemas.types import Array, Column, Map, Struct, Type


def paths_of(ddl: str) -> frozenset[str]:
    """Every path of a schema, as the names that files have beyond it are told (`tidegate.formats.unknown`)."""
    return frozenset(_of_fields(parse(ddl).columns, ""))


def _of_fields(fields: Sequence[Column], before: str) -> Iterator[str]:
    for field in fields:
        yield before + field.name
        yield from _within(field.type, before + field.name)


def _within(kind: Type, path: str) -> Iterator[str]:
    match kind:
        case Struct():
            yield from _of_fields(kind.fields, f"{path}.")
        case Array():
            yield from _within(kind.element, f"{path}[]")
        case Map():
            yield from _within(kind.value, f"{path}[]")

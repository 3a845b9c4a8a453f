"""What makes a nested column of a table the one that a route has, if Iceberg can do it in place. Pure.

Iceberg adds a field anywhere, and widens one (https://iceberg.apache.org/docs/latest/spark-ddl/#alter-table-add-column).
Those that go, or stand in another order, are left to a person.
"""

from collections.abc import Callable, Iterator

from tidegate.formats.type_names import quoted_name
from tidegate.schemas.ddl import parse
from tidegate.schemas.types import Array, Map, Struct, Type


class _NotInPlace(Exception):
    """Iceberg has no such change."""


IsWider = Callable[[str, str], bool]
"""Whether Iceberg makes the first type the second one in place."""


def changes_within(column: str, there: str, wanted: str, is_wider: IsWider) -> list[str]:
    """What stands after ALTER TABLE, for one change after the other; `there` and `wanted` are types as Spark calls
    them. Empty if it cannot be done in place."""
    read = [parse(f"c {each}") for each in (there, wanted)]
    if any(each.mistakes or len(each.columns) != 1 for each in read):
        return []  # a name in it is no word
    has, wants = (each.columns[0].type for each in read)
    try:
        return list(_changes(quoted_name(column), has, wants, is_wider))
    except _NotInPlace:
        return []


def _changes(path: str, there: Type, wanted: Type, is_wider: IsWider) -> Iterator[str]:
    if isinstance(there, Struct) and isinstance(wanted, Struct):
        yield from _of_fields(path, there, wanted, is_wider)
    elif isinstance(there, Array) and isinstance(wanted, Array):
        yield from _changes(f"{path}.element", there.element, wanted.element, is_wider)
    elif isinstance(there, Map) and isinstance(wanted, Map) and str(there.key) == str(wanted.key):
        yield from _changes(f"{path}.value", there.value, wanted.value, is_wider)
    elif is_wider(str(there), str(wanted)):
        yield f"ALTER COLUMN {path} TYPE {wanted}"
    elif str(there) != str(wanted):
        raise _NotInPlace


def _of_fields(path: str, there: Struct, wanted: Struct, is_wider: IsWider) -> Iterator[str]:
    has = {field.name: field.type for field in there.fields}
    if list(has) != [field.name for field in wanted.fields if field.name in has]:
        raise _NotInPlace
    if len({field.name.lower() for field in wanted.fields}) < len(wanted.fields):
        raise _NotInPlace  # Spark does not tell them apart
    left, before = len(has), ""
    for field in wanted.fields:
        name = quoted_name(field.name)
        if field.name in has:
            left -= 1
            yield from _changes(f"{path}.{name}", has[field.name], field.type, is_wider)
        else:
            place = (f" AFTER {before}" if before else " FIRST") if left else ""
            yield f"ADD COLUMN {path}.{name} {field.type}{place}"
        before = name

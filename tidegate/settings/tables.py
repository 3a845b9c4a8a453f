"""What is wrong with the routes' schemas, partitions and keys: what would stop their first job, or take no upload.

It looks at the text of the file as it was parsed, so that it is said together with whatever else is wrong in it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidegate.formats.registry import KEEPING, REST, key_pattern
from tidegate.schemas import checks, ddl, partitions
from tidegate.schemas.types import Column, TextSpan, nested
from tidegate.settings.positions import Positions
from tidegate.settings.values import bucket_in
from tidegate.settings.words import Location, Mistake, named


def mistakes_of(data: Mapping[str, Any], positions: Positions) -> Iterator[Mistake]:
    """`data` is what TOML has. What is not of the type that it should be is left to whoever checks that."""
    given = data.get("route")
    routes = [each if isinstance(each, dict) else {} for each in given] if isinstance(given, list) else []
    parsed: list[Sequence[Column]] = []
    for number, route in enumerate(routes):
        found = _Route(("route", number), route, positions)
        yield from found.keys()
        columns, wrong = found.schema()
        parsed.append(columns)
        yield from wrong
    yield from _of_shared_tables(routes, parsed, positions)


class _Route:
    def __init__(self, at: Location, route: Mapping[str, Any], positions: Positions) -> None:
        self.at = at
        self.route = route
        self.positions = positions

    def text(self, name: str) -> str:
        value = self.route.get(name)
        return value if isinstance(value, str) else ""

    def mistake(self, message: str, *step: int | str, at: TextSpan | None = None, warning: bool = False) -> Mistake:
        location = (*self.at, *step)
        part = (at.start, at.end) if at else None
        return Mistake(named(location), message, self.positions.of(location, part), warning)

    def keys(self) -> Iterator[Mistake]:
        """Keys are compared character by character, so what looks like an address or a pattern takes nothing."""
        prefix = self.text("prefix")
        if prefix.startswith("s3://"):
            key = prefix.removeprefix("s3://").partition("/")[2]
            bucket = bucket_in(prefix) or "the bucket"
            yield self.mistake(f'a prefix is the beginning of keys, without the bucket: "{key}" in {bucket}', "prefix")
        elif prefix.startswith("/"):
            said = f'keys rarely begin with a slash; did you mean "{prefix.lstrip("/")}"?'
            yield self.mistake(said, "prefix", warning=True)
        for name in ("prefix", "suffix"):
            value = self.text(name)
            if "*" in value:
                plain = value.replace("*", "")
                said = f'`*` is no pattern here, it takes keys with an asterisk; did you mean "{plain}"?'
                yield self.mistake(said, name, warning=True)

    def schema(self) -> tuple[Sequence[Column], list[Mistake]]:
        """The columns, none if they could not be read, and what is wrong."""
        if not isinstance(self.route.get("schema"), str) or not self.text("schema"):
            return (), []
        parsed = ddl.parse(self.text("schema"))
        keeps = self.text("unknown") in KEEPING
        wrong = [*parsed.mistakes, *checks.mistakes(parsed.columns, self.text("format"), keeps=keeps)]
        found = [self.mistake(each.message, "schema", at=each.at) for each in wrong]
        if parsed.mistakes:
            return (), found
        transforms = self.route.get("partition_by", [])
        if isinstance(transforms, list) and all(isinstance(each, str) for each in transforms):
            columns = checks.types_of(parsed.columns)
            for number, each in partitions.mistakes(transforms, columns, [each.name for each in parsed.columns]):
                found.append(self.mistake(each.message, "partition_by", number, at=each.at))
        found += [self.mistake(each, "from_key") for each in self._of_key(parsed.columns)]
        more = ddl.parse(f"{REST} string").columns if keeps else ()
        return (*parsed.columns, *more), found

    def _of_key(self, columns: Sequence[Column]) -> Iterator[str]:
        try:
            names = re.compile(key_pattern(self.text("from_key"))).groupindex
        except ValueError:
            return  # the field says it
        there = {column.name: column.type for column in columns if not column.generated}
        for name in names:
            if name not in there:
                yield f"the schema has no column `{name}`; it has {', '.join(there)}"
            elif nested(there[name]):
                yield f"column `{name}` is {there[name]}: a key has single values only"
        if there and not there.keys() - names.keys():
            yield "all columns of the schema are in the key: name one that is in the files"


def _of_shared_tables(
    routes: Sequence[Mapping[str, Any]], parsed: Sequence[Sequence[Column]], positions: Positions
) -> Iterator[Mistake]:
    """Routes of one table must agree, because the job of each compares its schema with the table."""
    first: dict[str, int] = {}
    for number, route in enumerate(routes):
        table = route.get("table")
        if not isinstance(table, str) or not parsed[number] or route.get("retired") is True:
            continue
        other = first.setdefault(table, number)
        if other != number:
            here = _Route(("route", number), route, positions)
            yield from _disagreements(here, parsed[number], str(routes[other].get("name")), parsed[other])
            if route.get("partition_by", []) != routes[other].get("partition_by", []):
                said = f"route {routes[other].get('name')!r} partitions table {table} otherwise: the first job decides"
                yield here.mistake(said, "partition_by", warning=True)


def _disagreements(route: _Route, columns: Sequence[Column], other: str, theirs: Sequence[Column]) -> Iterator[Mistake]:
    by_name = {column.name.lower(): column for column in theirs}
    for column in columns:
        there = by_name.pop(column.name.lower(), None)
        if column.name == REST and (there is None or there.type != column.type):
            # the job adds it, to a table that has none
            if there is not None:
                said = f"column `{REST}` is {column.type} here and {there.type} in route {other!r} of the same table"
                yield route.mistake(said, "schema")
        elif there is None:
            said = f"column `{column.name}`: route {other!r} of the same table lacks it: {_TABLE_FIRST}"
            yield route.mistake(said, "schema", at=column.name_at, warning=True)
        elif there.name != column.name:
            said = (
                f"column `{column.name}` is called `{there.name}` in route {other!r} of the same table: it has one name"
            )
            yield route.mistake(said, "schema", at=column.name_at)
        elif there.type != column.type:
            said = f"column `{column.name}` is {column.type} here and {there.type} in route {other!r} of the same table"
            yield route.mistake(said, "schema", at=column.type_at)
        elif there.nullable != column.nullable:
            said = f"column `{column.name}` may be null in one route of the table and not in the other ({other!r})"
            yield route.mistake(f"{said}: {_TABLE_FIRST}", "schema", at=column.name_at, warning=True)
    by_name.pop(REST, None)
    for lacking in by_name.values():
        said = f"it lacks the column `{lacking.name}` of route {other!r} of the same table: {_TABLE_FIRST}"
        yield route.mistake(said, "schema", warning=True)


_TABLE_FIRST = "create the table yourself with the columns of both, or write the same columns"

"""What a change of `tidegate.toml` means for tables that are there."""

from collections.abc import Collection, Iterator

from tidegate.core.routes import Route
from tidegate.schemas.ddl import parse


def retyped(before: Collection[Route], now: Collection[Route], tables: Collection[str]) -> Iterator[str]:
    """What to do about each column of one of these `tables` whose type has changed: a job that finds it gives up, and
    its batch halts."""
    types = {route.dataset.table: _types(route) for route in before}
    for route in now:
        table = route.dataset.table
        for column, kind in _types(route).items() if table in tables else ():
            was = types.get(table, {}).get(column, kind)
            if was != kind:
                yield (
                    f"table {table} is there with {column} {was}, and route {route.name} now says {kind}: its batches"
                    " halt. Give it a new `table`, or widen the column by ALTER TABLE (docs/first-route.md, "
                    '"Changing it later")'
                )


def _types(route: Route) -> dict[str, str]:
    return {column.name: str(column.type) for column in parse(route.dataset.schema).columns}

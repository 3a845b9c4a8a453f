"""What is printed for people of columns that the schema of a route lacks."""

from collections.abc import Mapping

from tidegate.core.routes import Dataset
from tidegate.core.unknown import told
from tidegate.formats.registry import ADD, KEEP, UNKNOWN

WAYS_OUT = {
    KEEP: "their values are in the column `_unknown`: add them to the `schema` of the route if they should be columns",
    ADD: "new names have become columns of the table, and values that fit none are in the column `_unknown`",
}


def way_out(dataset: Dataset) -> str:
    """What became of the values in such columns of a route's files, or what to do."""
    unknown = dict(dataset.options).get(UNKNOWN.name, UNKNOWN.default)
    other = 'add them to the `schema` of the route, or set `unknown = "ignore"` if nobody wants them'
    return f"{WAYS_OUT.get(unknown, other)}: see docs/formats.md"


def of_route(route: str, unknown: Mapping[str, int]) -> str:
    return f"files of route {route} have columns that the schema lacks: {told(unknown)}"


def of_batch(unknown: Mapping[str, int]) -> str:
    return f"not in the schema: {told(unknown)}"

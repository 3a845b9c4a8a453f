"""What is printed for people of columns that the schema of a route lacks."""

from collections.abc import Mapping

from tidegate.core.unknown import told
from tidegate.flows.needs import NextStep

WAYS_OUT = NextStep(
    'add them to the `schema` of the route, or set `unknown = "ignore"` if nobody wants them: see docs/formats.md'
)


def of_route(route: str, unknown: Mapping[str, int]) -> str:
    return f"files of route {route} have columns that the schema lacks: {told(unknown)}"


def of_batch(unknown: Mapping[str, int]) -> str:
    return f"not in the schema: {told(unknown)}"

"""Mistakes with what is deployed: routes, tables, settings."""

from typing import Any

from tests.sim.faults import Kind
from tests.sim.mistakes.writes import Write
from tests.sim.planting import Bug, Strike, replaced, rewritten


def _configured_only(real: Any) -> Any:
    def routes_to_settle(configured: Any, **ports: Any) -> Any:
        return [route for route in real(configured, **ports) if route.name in configured]

    return routes_to_settle


def _sealed_for_no_table(write: Write) -> None:
    if write.value("state") == "SEALED":
        write.leaves("table")
        write.leaves("sealed_for")


BUGS = (
    Bug(
        "only configured routes are settled",
        "What a route had gathered is looked after only as long as the configuration has the route.",
        (replaced("tidegate.flows.settle:routes_to_settle", _configured_only),),
        "renamed_under_way",
    ),
    Bug(
        "the table of the moment",
        "An attempt writes to the table that the route has now, not to the one that its batch was sealed for.",
        (rewritten("b#", _sealed_for_no_table),),
        "moved_under_way",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
)

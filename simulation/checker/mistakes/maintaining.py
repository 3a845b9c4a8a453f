"""Mistakes of maintaining tables."""

from dataclasses import replace
from typing import Any

from simulation.checker.planting import Bug, Strike, replaced
from simulation.world.faults import Kind

FLOORS = "tidegate.flows.maintain:unfinished_floors"
REQUEST = "tidegate.flows.maintain:request_maintenance"


def _none(real: Any) -> Any:
    return lambda routes, ports: list(real(routes, ports))[:0]


def _of_any_age(real: Any) -> Any:
    def request_maintenance(*arguments: Any, **named: Any) -> Any:
        request = real(*arguments, **named)
        return replace(request, limits=replace(request.limits, orphans_after=-3_600))

    return request_maintenance


BUGS = (
    Bug(
        "floors of unfinished batches expire",
        "Maintenance does not ask for the floors of unfinished batches.",
        (replaced(FLOORS, _none),),
        "maintained",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "orphan files of any age are deleted",
        "A file that a driver has just written, and that no snapshot names yet, is deleted as an orphan.",
        (replaced(REQUEST, _of_any_age),),
        "maintained",
        (Strike("driver iceberg.swap", Kind.SLOW),),
    ),
)

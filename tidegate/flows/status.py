"""Status: where each route stands, and whether its sums hold. Reads a handful of items, whatever the traffic was."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.core.batches import Batch
from tidegate.core.outcomes import Conservation
from tidegate.core.routes import Route
from tidegate.flows.ports import Ledger


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """One route: the conservation of its uploads, its batches, and what was refused (rule 10). `configured` is whether
    the configuration still has it."""

    route: Route
    uploads: Conservation
    refused: int
    jobs: int
    unfinished: tuple[Batch, ...]
    committed_batches: int
    abandoned_batches: int
    configured: bool = True

    @property
    def halted(self) -> tuple[Batch, ...]:
        return tuple(batch for batch in self.unfinished if batch.halted)


def status(routes: Iterable[Route], *, ledger: Ledger) -> list[RouteStatus]:
    return [_status(route, ledger) for route in routes]


def everything(configured: Mapping[str, Route], *, ledger: Ledger) -> list[RouteStatus]:
    """The configured routes, and those that the configuration has lost while some of their uploads have not ended."""
    lost = [route for name, route in sorted(ledger.known_routes().items()) if name not in configured]
    left = (replace(each, configured=False) for each in status(lost, ledger=ledger))
    return [
        *status(configured.values(), ledger=ledger),
        *(each for each in left if each.uploads.pending or not each.uploads.holds),
    ]


def _status(route: Route, ledger: Ledger) -> RouteStatus:
    record = ledger.route(route.name)
    batches = tuple(batch for batch_id in record.unfinished if (batch := ledger.batch(batch_id)))
    # the uploads of an abandoned batch wait for a redrive: they have not ended
    pending = sum(batch.objects for batch in batches) + record.abandoned_objects
    notified = record.notified + sum(batch.objects for batch in batches)
    return RouteStatus(
        route=route,
        uploads=Conservation(notified, record.tally, pending),
        refused=record.refused,
        jobs=record.jobs,
        unfinished=batches,
        committed_batches=record.committed_batches,
        abandoned_batches=record.abandoned_batches,
    )

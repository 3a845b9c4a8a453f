"""Pause: a route hands off no new batch, until a person ends the pause.

Uploads are still claimed and gathered. Batches that are full, or a day old, are sealed and wait. Jobs that have begun
go on, and so do further attempts, `resume` and `abort`: what is on its way to the table ends.

One conditional write each way. The transaction that begins a batch's first attempt requires that its route is not
paused, so no hand-off that read the route before can overtake a pause.

    if it dies right after     the route is paused, or it is not; the person asks again
    if two people ask at once  the first pause counts, with its time
"""

from enum import Enum, auto

from tidegate.core.routes import Route
from tidegate.flows.ports import Ports


class PauseResult(Enum):
    """The result of a request to pause a route, or to end its pause."""

    DONE = auto()
    ALREADY = auto()
    NO_SUCH_ROUTE = auto()


def pause(name: str, configured: dict[str, Route], ports: Ports) -> PauseResult:
    if not _is_known(name, configured, ports):
        return PauseResult.NO_SUCH_ROUTE
    return PauseResult.DONE if ports.ledger.pause(name) else PauseResult.ALREADY


def unpause(name: str, configured: dict[str, Route], ports: Ports) -> PauseResult:
    """Settling hands off what has waited within a minute."""
    if not _is_known(name, configured, ports):
        return PauseResult.NO_SUCH_ROUTE
    return PauseResult.DONE if ports.ledger.unpause(name) else PauseResult.ALREADY


def _is_known(name: str, configured: dict[str, Route], ports: Ports) -> bool:
    return name in configured or ports.ledger.known_route(name) is not None

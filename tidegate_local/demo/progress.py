"""Where the demo stands, for whoever tells of it."""

from dataclasses import dataclass

from tidegate.flows.status import RouteStatus


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the demo stands: objects put so far, of how many, and what the ledger says."""

    uploaded: int
    objects: int
    expected: int
    status: RouteStatus

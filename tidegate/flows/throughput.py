"""Throughput: what a deployment has done between two looks at its status."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.flows.status import RouteStatus


@dataclass(frozen=True, slots=True)
class Throughput:
    """How many uploads have ended, in whichever way, and how many rows have landed, in so many seconds."""

    uploads: int
    rows: int
    seconds: int

    def a_second(self, count: int) -> float:
        return count / self.seconds if self.seconds else 0.0


def throughput(before: Sequence[RouteStatus], now: Sequence[RouteStatus], seconds: int) -> Throughput:
    """Of the routes that both looks have. An upload that comes back leaves the sums, so no difference is below 0."""
    then = {each.route.name: each.uploads.ended for each in before}
    ended = [(then[each.route.name], each.uploads.ended) for each in now if each.route.name in then]
    return Throughput(
        uploads=sum(max(0, last.uploads - first.uploads) for first, last in ended),
        rows=sum(max(0, last.rows - first.rows) for first, last in ended),
        seconds=seconds,
    )

"""A work bucket whose writes stay in this process's memory, for a rehearsal."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby

from tidegate.flows.ports import Work


@dataclass
class RehearsedWork:
    """`flows.ports.Work` that keeps every write in memory. It reads as the bucket `beneath` would after these writes,
    as long as no other process writes there."""

    beneath: Work
    kept: dict[str, bytes] = field(default_factory=dict)

    def get(self, name: str) -> bytes | None:
        return self.kept[name] if name in self.kept else self.beneath.get(name)

    def put(self, name: str, body: bytes) -> None:
        self.kept[name] = body

    def put_if_absent(self, name: str, body: bytes) -> bool:
        if self.get(name) is not None:
            return False
        self.kept[name] = body
        return True

    def names(self, prefix: str) -> Iterator[str]:
        return _once(self.beneath.names(prefix), sorted(name for name in self.kept if name.startswith(prefix)))

    def folders(self, prefix: str, first: str) -> Iterator[str]:
        inside = (name.removeprefix(prefix) for name in self.kept if name.startswith(prefix))
        kept = {name.partition("/")[0] for name in inside if "/" in name}
        return _once(self.beneath.folders(prefix, first), sorted(each for each in kept if each >= first))


def _once(one: Iterator[str], other: list[str]) -> Iterator[str]:
    """Two sorted streams as one, without repeats."""
    return (name for name, _ in groupby(merge(one, other)))

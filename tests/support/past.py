"""Deployments in memory with a past: batch ids that carry their time, as the real ones do."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.build import route
from tests.support.fakes import MemoryWork, play_publishing
from tests.support.world import World
from tidegate import wiring
from tidegate.core.outcomes import Outcome
from tidegate.flows.ports import Ports
from tidegate.flows.store import Store


@dataclass
class DatedWorld(World):
    """A world whose batch ids are made of the time."""

    def new_id(self) -> str:
        return wiring.smallest_id(self.clock.now)[:10] + f"{next(self._numbers):016}"

    def land(
        self, prefix: str = "flights/", ends: Mapping[str, tuple[Outcome, str]] | None = None, **about: Any
    ) -> str:
        """A batch of three uploads that is committed a minute after it was opened. Returns its id."""
        batch = self.submitted(prefix=prefix)
        self.clock.advance(60)
        play_publishing(self.work, batch.id, ends, **about)
        self.settle()
        return batch.id


def dated_world(**limits: int) -> DatedWorld:
    return DatedWorld(route("flights", **{"max_wait": 300, **limits}))


@dataclass
class Asked:
    """What was asked of the ledger's store and of the work bucket: by verb, how often."""

    counts: Counter[str] = field(default_factory=Counter)

    def of(self, beneath: Any) -> Any:
        asked = self.counts

        class Counting:
            def __getattr__(self, verb: str) -> Any:
                def ask(*arguments: Any) -> Any:
                    asked[verb] += 1
                    return getattr(beneath, verb)(*arguments)

                return ask

        return Counting()


def asked_of(world: World) -> tuple[Ports, Counter[str]]:
    """The world's ports, and what is asked through them from now on. S3 answers a list with 1,000 names; nothing here
    is longer."""
    asked = Asked()
    store: Store = asked.of(world.store)
    work: MemoryWork = asked.of(world.work)
    return replace(world.ports, ledger=replace(world.ledger, store=store), work=work), asked.counts

"""One deployment of two routes in memory: a clock that tests set, and jobs that tests play."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.build import BUCKET, route, uploads
from tests.support.fakes import (
    Counts,
    MemoryDeadLetters,
    MemoryEventBus,
    MemoryJobs,
    MemoryLineage,
    MemoryListing,
    MemoryScreens,
    MemoryTopic,
    MemoryWork,
)
from tests.support.ledgers import RETENTION, SettableClock
from tidegate.core.audit import Window
from tidegate.core.batches import LONGEST_RETRY_WAIT, Batch
from tidegate.core.claims import Claim
from tidegate.core.errors import TidegateError
from tidegate.core.items import Key, Value
from tidegate.core.manifests import batch_folder, decode_part
from tidegate.core.notices import Notice, pack
from tidegate.core.records import RouteRecord
from tidegate.core.routes import Route, encode_dataset
from tidegate.flows.dispatch import dispatch
from tidegate.flows.hand_off import hand_off_sealed
from tidegate.flows.ledger import Ledger
from tidegate.flows.ports import Ports
from tidegate.flows.seal import seal_if_due
from tidegate.flows.settle import settle
from tidegate.schedule import SCHEDULE
from tidegate.stores.memory import MemoryStore


@dataclass
class World:
    flights: Route
    store: MemoryStore = field(default_factory=MemoryStore)
    clock: SettableClock = field(default_factory=SettableClock)
    work: MemoryWork = field(default_factory=MemoryWork)
    jobs: MemoryJobs = field(default_factory=MemoryJobs)
    topic: MemoryTopic = field(default_factory=MemoryTopic)
    dead_letters: MemoryDeadLetters = field(default_factory=MemoryDeadLetters)
    count: Counts = field(default_factory=Counts)
    listing: MemoryListing = field(default_factory=MemoryListing)
    bus: MemoryEventBus | None = field(default_factory=MemoryEventBus)
    lineage: MemoryLineage = field(default_factory=MemoryLineage)
    screenings: list[tuple[str, str, Window]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def screens(self) -> MemoryScreens:
        return MemoryScreens(self.jobs, self.screenings)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.store, self.clock, RETENTION)

    @property
    def routes(self) -> dict[str, Route]:
        return {self.flights.name: self.flights, "weather": route("weather")}

    @property
    def ports(self) -> Ports:
        return Ports(
            ledger=self.ledger,
            work=self.work,
            topic=self.topic,
            jobs=self.jobs,
            dead_letters=self.dead_letters,
            notices_dead_letters=self.dead_letters,
            measure=self.count,
            clock=self.clock,
            new_id=self.new_id,
            listing=self.listing,
            bus=self.bus,
            lineage=self.lineage,
        )

    def new_id(self) -> str:
        return f"01B{next(self._numbers):05}"

    # ---- what the functions do

    def dispatch(self, notice: Notice | str) -> Route:
        body = notice if isinstance(notice, str) else notice.encode()
        return dispatch(body, self.ports, routes=self.routes)

    def seal_if_due(self, next_look: int = SCHEDULE) -> bool:
        return seal_if_due(self.flights, self.ports, next_look=next_look)

    def hand_off(self) -> int:
        return hand_off_sealed(self.flights, self.ports)

    def settle(self) -> list[TidegateError]:
        return settle(self.flights, self.ports)

    def wait(self) -> None:
        """Until the next attempt of a batch may begin, whichever attempt it is in."""
        self.clock.advance(LONGEST_RETRY_WAIT)

    # ---- what there is to see

    @property
    def record(self) -> RouteRecord:
        return self.ledger.route(self.flights.name)

    def batch(self, batch_id: str) -> Batch:
        found = self.ledger.batch(batch_id)
        assert found is not None
        return found

    @property
    def open(self) -> Batch:
        return self.batch(self.record.open_batch)

    def claim(self, key: str) -> Claim:
        (claim,) = self.ledger.claims(BUCKET, key)
        return claim

    def parts(self, batch_id: str) -> list[str]:
        """The names of all parts in the batch's folder, dead ones too."""
        folder = batch_folder(batch_id)
        return sorted(name.removeprefix(folder) for name in self.work.names(folder + "parts/"))

    def keys_in(self, batch_id: str, part: str) -> list[str]:
        body = self.work.get(batch_folder(batch_id) + part)
        assert body is not None
        return [item.upload.key for item in decode_part(body)]

    # ---- shortcuts

    def arrive(self, count: int = 3, *, prefix: str = "flights/", notices: int = 1) -> list[Notice]:
        """Dispatch so many notices, each with so many new uploads."""
        sent = []
        for number in range(notices):
            sent += list(pack("flights", BUCKET, uploads(count, f"{prefix}{number:04}-")))
        for notice in sent:
            self.dispatch(notice)
        return sent

    def sealed(self, *, prefix: str = "flights/") -> Batch:
        """A sealed batch of three uploads, not handed off."""
        self.arrive(prefix=prefix)
        batch = self.open
        dataset = self.flights.dataset
        assert self.ledger.seal(batch.id, "flights", dataset.table, encode_dataset(dataset))
        return self.batch(batch.id)

    def submitted(self, *, prefix: str = "flights/") -> Batch:
        """A batch of three uploads whose first job runs."""
        batch = self.sealed(prefix=prefix)
        assert self.hand_off() == 1
        return self.batch(batch.id)

    def edit(self, key: Key, **changed: Value | None) -> None:
        """Change the item's attributes without conditions; None removes one."""
        item = {**self.store.items[key], **changed}
        self.store.items[key] = {name: value for name, value in item.items() if value is not None}


def memory_ports(**given: Any) -> Ports:
    """Ports in memory, but for those that are given."""
    return replace(World(route()).ports, **given)


def small_world(**limits: int) -> World:
    return World(route("flights", **limits))

"""One deployment of two routes in moto: the real adapters, a clock that tests set, and jobs that tests play."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.build import BUCKET, route, uploads
from tests.support.fakes import Counts, MemoryJobs, MemoryTopic
from tests.support.ledgers import SettableClock, Table, moto_client, moto_table
from tidegate.aws.ledger import DynamoLedger
from tidegate.aws.work import S3Work
from tidegate.core.batches import Batch
from tidegate.core.claims import Claim
from tidegate.core.errors import TidegateError
from tidegate.core.manifests import batch_folder, decode_part
from tidegate.core.notices import Notice, pack
from tidegate.core.routes import Route, encode_dataset
from tidegate.flows.dispatch import dispatch
from tidegate.flows.hand_off import hand_off_sealed
from tidegate.flows.ports import RouteRecord, Work
from tidegate.flows.seal import SCHEDULE, seal_if_due
from tidegate.flows.settle import settle

WORK_BUCKET = "work"


@dataclass
class World:
    table: Table
    ledger: DynamoLedger
    work: Work
    flights: Route
    jobs: MemoryJobs = field(default_factory=MemoryJobs)
    topic: MemoryTopic = field(default_factory=MemoryTopic)
    count: Counts = field(default_factory=Counts)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def clock(self) -> SettableClock:
        return self.table.clock

    @property
    def routes(self) -> dict[str, Route]:
        return {self.flights.name: self.flights, "weather": route("weather")}

    def new_id(self) -> str:
        return f"01B{next(self._numbers):05}"

    # ---- what the functions do

    def dispatch(self, notice: Notice | str) -> Route:
        body = notice if isinstance(notice, str) else notice.encode()
        return dispatch(
            body,
            routes=self.routes,
            ledger=self.ledger,
            work=self.work,
            topic=self.topic,
            new_id=self.new_id,
            count=self.count,
        )

    def seal_if_due(self, next_look: int = SCHEDULE) -> bool:
        return seal_if_due(self.flights, ledger=self.ledger, clock=self.clock, next_look=next_look, count=self.count)

    def hand_off(self) -> int:
        return hand_off_sealed(self.flights, ledger=self.ledger, work=self.work, jobs=self.jobs, count=self.count)

    def settle(self) -> list[TidegateError]:
        return settle(
            self.flights,
            ledger=self.ledger,
            work=self.work,
            jobs=self.jobs,
            topic=self.topic,
            clock=self.clock,
            count=self.count,
        )

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
        """So many new uploads in each of so many notices, dispatched."""
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


@contextmanager
def moto_world(**limits: int) -> Iterator[World]:
    with moto_table() as table:
        s3 = moto_client("s3")
        s3.create_bucket(Bucket=WORK_BUCKET)
        yield World(table, table.ledger(), S3Work(s3, WORK_BUCKET), route("flights", **limits))

"""A small history of one route, the state of the ledger after each of its writes, and a table that its jobs publish to.

    B1  committed, an upload of it quarantined; that one came again, the same bytes, and is in B2
    B2  published, its receipt written, not settled
    B3  sealed, its manifest written; it waits for the slot
    B4  open

Every notice has been acknowledged: what the ledger forgets, no queue brings again.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.build import BUCKET
from tests.support.fakes import MemoryJobs, MemoryWork, play_publishing, uploads_of
from tests.support.world import World, moto_world
from tidegate.core.batches import JobState
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import Notice, pack
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Receipt
from tidegate.core.uploads import Upload
from tidegate.flows.ports import RestoredLedger, Topic, Work
from tidegate.flows.recover import Recovered, recover
from tidegate.wiring import made_at, smallest_id

Items = list[dict[str, Any]]
WRITES = ("PutItem", "UpdateItem", "TransactWriteItems")
AGAIN = "flights/broken.json"
EVERYTHING = ""
"""The batches from this id on: all there are."""


def upload(key: str, sequencer: str = "01") -> Upload:
    return Upload(BUCKET, f"flights/{key}.json", "etag:1", 10, sequencer)


def packed(*uploads: Upload) -> Notice:
    (notice,) = pack("flights", BUCKET, uploads)
    return notice


@dataclass
class History:
    world: World
    work: MemoryWork = field(default_factory=MemoryWork)
    moments: list[Items] = field(default_factory=list)
    """What the ledger held after each write; the first before any."""
    notices: list[Notice] = field(default_factory=list)
    """Every notice that was dispatched, in order."""
    published: dict[str, Receipt] = field(default_factory=dict)
    """What the table holds, by batch."""
    landed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often the rows of a key are in the table, and under which version."""
    batches: list[str] = field(default_factory=list)
    _final: tuple[dict[str, bytes], MemoryJobs, dict[str, Receipt], Counter[tuple[str, str]], int] | None = None

    # ---- what happens

    def new_id(self) -> str:
        self.world.clock.advance(10)
        self.batches.append(smallest_id(self.world.clock()))
        return self.batches[-1]

    def dispatch(self, *notices: Notice) -> None:
        """These, and what dispatch sends on because of them."""
        waiting = list(notices)
        while waiting:
            notice = waiting.pop(0)
            if notice not in self.notices:
                self.notices.append(notice)
            self.world.dispatch(notice)
            waiting += self.sent()

    def sent(self) -> list[Notice]:
        sent = list(self.world.topic.published)
        self.world.topic.published.clear()
        return sent

    def seal_and_hand_off(self) -> None:
        self.world.clock.advance(400)
        assert self.world.settle() == []

    def job(self, batch_id: str, *, receipt: bool = True) -> None:
        """The batch's job: what is in the table stays, and is said again."""
        work = self.world.work
        if batch_id not in self.published:
            first = {packed(*FIRST).id}
            broken = {item.upload.key for item in uploads_of(work, batch_id) if item.notice in first} & {AGAIN}
            ends = {key: (Outcome.QUARANTINED, "line 1: no JSON") for key in broken}
            self.published[batch_id] = play_publishing(work, batch_id, ends, receipt=False)
            for item in uploads_of(work, batch_id):
                self.landed[item.upload.key, item.upload.version] += item.upload.key not in broken
        if receipt:
            work.put(batch_folder(batch_id) + "receipt.json", self.published[batch_id].encode())

    def run_jobs(self) -> None:
        for run, report in list(self.world.jobs.runs.items()):
            if report.state is JobState.ACTIVE:
                batch_id, attempt = run.split("/")
                self.job(batch_id)
                self.world.jobs.end(batch_id, int(attempt))

    def settle_down(self) -> list[str]:
        """Jobs and looks until nothing is under way; returns the troubles of the last look."""
        for _ in range(12):
            self.world.clock.advance(400)
            self.run_jobs()
            troubles = [str(each) for each in self.world.settle()]
            self.dispatch(*self.sent())
            if not self.world.record.unfinished:
                break
        return troubles

    # ---- and is forgotten

    @contextmanager
    def recorded(self) -> Iterator[None]:
        client = self.world.table.client

        def note(**_: Any) -> None:
            self.moments.append(copy.deepcopy(self.world.table.items()))

        note()
        for operation in WRITES:
            client.meta.events.register(f"after-call.dynamodb.{operation}", note)
        try:
            yield
        finally:
            for operation in WRITES:
                client.meta.events.unregister(f"after-call.dynamodb.{operation}", note)

    def freeze(self) -> None:
        """Everything but the ledger is as it is now, whenever the ledger is restored."""
        now = self.world.clock.now
        self._final = copy.deepcopy((self.work.objects, self.world.jobs, self.published, self.landed, now))

    def restore(self, to: Items) -> None:
        """The ledger as it was then; all the rest as it was when `freeze` was called, the clock included: how old a
        batch is may not depend on how often this was done."""
        assert self._final is not None
        self.work.objects, self.world.jobs, self.published, self.landed, now = copy.deepcopy(self._final)
        self.world.clock.now = now
        put_items(self.world, to)
        self.world.topic.published.clear()

    def recover(
        self,
        *,
        oldest: str = EVERYTHING,
        ledger: RestoredLedger | None = None,
        work: Work | None = None,
        topic: Topic | None = None,
    ) -> Recovered:
        return recover(
            ledger=ledger or self.world.ledger,
            work=work or self.world.work,
            topic=topic or self.world.topic,
            configured=self.world.routes,
            oldest=oldest,
            made_at=made_at,
            clock=self.world.clock,
        )


def put_items(world: World, to: Items) -> None:
    """Replace what the ledger holds."""
    wanted = {(item["pk"]["S"], item["sk"]["S"]): item for item in to}
    there = {(item["pk"]["S"], item["sk"]["S"]): item for item in world.table.items()}
    for key in there.keys() - wanted.keys():
        item = there[key]
        world.table.client.delete_item(TableName=world.table.name, Key={"pk": item["pk"], "sk": item["sk"]})
    for key, item in wanted.items():
        if there.get(key) != item:
            world.table.client.put_item(TableName=world.table.name, Item=item)


FIRST = (upload("a1"), upload("a2"), upload("broken"))
ONCE_MORE = upload("broken", "02")
EVERY_UPLOAD = (
    *FIRST,
    *(upload(key) for key in ("b1", "b2", "c1", "c2", "d1", "d2", "e1", "e2", "e3")),
)


@contextmanager
def small_history() -> Iterator[History]:
    with moto_world(max_wait=300, in_flight=1, attempts=3) as world:
        # one claim after the other, so that every run has the same moments
        world.ledger._pool = ThreadPoolExecutor(1)
        history = History(world)
        world.work = history.work
        world.new_id = history.new_id  # type: ignore[method-assign]
        with history.recorded():
            history.dispatch(packed(*FIRST))
            history.dispatch(packed(upload("a1"), upload("b1"), upload("b2")))
            history.seal_and_hand_off()
            history.run_jobs()
            assert world.settle() == []
            history.dispatch(packed(upload("c1"), upload("c2")), packed(ONCE_MORE))
            history.seal_and_hand_off()
            history.dispatch(packed(upload("d1")), packed(upload("d2"), upload("c1")))
            assert world.ledger.seal(world.record.open_batch, "flights", world.flights.dataset.table)
            assert world.hand_off() == 0
            # this job ends after the last look: nobody has settled its receipt
            history.run_jobs()
            history.dispatch(packed(upload("e1"), upload("e2")), packed(upload("e3")))
        history.freeze()
        yield history

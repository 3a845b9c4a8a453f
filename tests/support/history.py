"""A small history of one route, the state of the ledger after each of its writes, and a table that its jobs publish to.

    B1  committed, an upload of it quarantined; that one came again, the same bytes, and is in B2
    B2  published, its receipt written, not settled
    B3  sealed, its manifest written; it waits for the slot
    B4  open

Every notice has been acknowledged: no queue delivers again what the ledger forgets.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.build import BUCKET
from tests.support.fakes import MemoryJobs, MemoryWork, play_publishing, uploads_of
from tests.support.world import World, small_world
from tidegate.core.batches import JobState
from tidegate.core.items import Applied, Item, Key, Refused, Transition
from tidegate.core.manifests import batch_folder
from tidegate.core.notices import ORIGIN_S3, Notice, pack
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Receipt
from tidegate.core.uploads import Upload
from tidegate.stores.memory import MemoryStore
from tidegate.wiring import smallest_id

Items = dict[Key, Item]
AGAIN = "flights/broken.json"


def upload(key: str, sequencer: str = "01") -> Upload:
    return Upload(BUCKET, f"flights/{key}.json", "etag:1", 10, sequencer)


def packed(*uploads: Upload, origin: str = ORIGIN_S3) -> Notice:
    (notice,) = pack("flights", BUCKET, uploads, origin=origin)
    return notice


@dataclass
class History:
    world: World
    work: MemoryWork = field(default_factory=MemoryWork)
    moments: list[Items] = field(default_factory=list)
    """The ledger's items after each write; the first entry is before any write."""
    notices: list[Notice] = field(default_factory=list)
    """Every notice that was dispatched, in order."""
    published: dict[str, Receipt] = field(default_factory=dict)
    """The rows in the table, by batch."""
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
        """Dispatch these, and the notices that dispatch sends because of them."""
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
        """Play the batch's job. Rows in the table stay, and the receipt is written again."""
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
        """Run jobs and settle until nothing is under way. Returns the troubles of the last run of settle."""
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
        self.world.store = recording = _Recording(self.world.store.items, moments=self.moments)
        self.moments.append(dict(recording.items))
        try:
            yield
        finally:
            self.world.store = MemoryStore(recording.items)

    def freeze(self) -> None:
        """Keep everything but the ledger as it is now, for each restore of the ledger."""
        now = self.world.clock.now
        self._final = copy.deepcopy((self.work.objects, self.world.jobs, self.published, self.landed, now))

    def restore(self, to: Items) -> None:
        """Restore the ledger to that write, and everything else to the state at `freeze`. That includes the clock, so
        that a batch's age does not depend on the number of restores."""
        assert self._final is not None
        self.work.objects, self.world.jobs, self.published, self.landed, now = copy.deepcopy(self._final)
        self.world.clock.now = now
        put_items(self.world, to)
        self.world.topic.published.clear()


@dataclass
class _Recording(MemoryStore):
    moments: list[Items] = field(default_factory=list)

    def apply(self, transition: Transition) -> Applied | Refused:
        done = super().apply(transition)
        self.moments.append(dict(self.items))
        return done


def put_items(world: World, to: Items) -> None:
    """Replace the ledger's items."""
    world.store.items.clear()
    world.store.items.update(to)


FIRST = (upload("a1"), upload("a2"), upload("broken"))
ONCE_MORE = upload("broken", "02")
EVERY_UPLOAD = (
    *FIRST,
    *(upload(key) for key in ("b1", "b2", "c1", "c2", "d1", "d2", "e1", "e2", "e3")),
)


def small_history() -> History:
    history = History(small_world(max_wait=300, in_flight=1, attempts=3))
    world = history.world
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
    return history

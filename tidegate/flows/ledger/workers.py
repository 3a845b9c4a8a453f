"""What there is to take, and who may take it (`core.workers`)."""

from dataclasses import dataclass

from tidegate.core import transitions
from tidegate.core.items import Applied, Refused
from tidegate.core.records import WORK, decode_offer, decode_worker, is_offer, offer_key, worker_key
from tidegate.core.workers import Offer, Pool, Worker
from tidegate.flows.ledger.records import LedgerRecords


@dataclass(frozen=True)
class LedgerWorkers(LedgerRecords):
    def pool(self) -> Pool:
        """All offers, those first that have waited for longest, and all workers."""
        items = [item for item in self.store.query(WORK, "what workers take") if self._live(item)]
        return Pool(
            tuple(sorted(map(decode_offer, filter(is_offer, items)), key=lambda each: each.submitted_at)),
            tuple(decode_worker(item) for item in items if not is_offer(item)),
        )

    def offer_of(self, batch_id: str) -> Offer | None:
        item = self._live(self.store.get(offer_key(batch_id)))
        return decode_offer(item) if item else None

    def worker(self, worker_id: str) -> Worker | None:
        item = self._live(self.store.get(worker_key(worker_id)))
        return decode_worker(item) if item else None

    def offer(self, offered: Offer) -> None:
        """Offer the first attempt of a batch, if nobody has taken it."""
        offering = transitions.offer(offered, now=self.clock())
        done = self.store.apply(offering)
        if isinstance(done, Refused) and not self._live(done.there[0]):
            # it has expired, and is still there
            self.withdraw(offered.batch)
            self.store.apply(offering)

    def take(self, batch_id: str, worker: str) -> bool:
        """False if another worker has taken it, or it is offered no more."""
        done = self.store.apply(transitions.take(batch_id, worker, now=self.clock()))
        # the client asks again if an answer is lost, and finds what it did
        return isinstance(done, Applied) or (done.there[0] or {}).get("worker") == worker

    def withdraw(self, batch_id: str) -> None:
        """Offer the batch no more."""
        self.store.apply(transitions.withdraw(batch_id))

    def note_started(self, worker: Worker) -> None:
        self.store.apply(transitions.note_started(worker))

    def note_alive(self, worker: Worker) -> None:
        self.store.apply(transitions.note_alive(worker))

    def leave(self, worker: str) -> None:
        """This worker takes no more."""
        self.store.apply(transitions.leave(worker))

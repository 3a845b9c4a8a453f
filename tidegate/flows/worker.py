"""Worker: a Spark job takes attempts, one after the other, until none comes for a while.

    step                             if the worker dies right after it        if a twin runs beside it
    1 say that it lives, idle        nobody counts on it for long             the note is of either
    2 is there an offer?             the same                                 the same
    3 take it, on condition          its job has ended, or it is silent: the  one of them takes it; or both make the
                                     batch has its next attempt, alone        attempt, and decision 3 lets one publish
    4 is it that attempt still?      the same                                 the same
    5 make the attempt               the same                                 the same
    6 withdraw the offer             as 2                                     the same
    7 none came for a while: leave   the next hand-off starts another         the other one says once more that it lives
    8 is there an offer, after all?  as 7: settling starts another for it     the same

Steps 7 and 8 are in this order, and hand-off first offers and then looks who is there. So an offer is seen by the
worker that leaves, or hand-off sees that it has left.

An attempt that fails ends the worker: the cause may be in this process. Its offer stays taken and its note stays, so
settling learns from the end of the job that the attempt has failed.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field

from tidegate.core.batches import Batch, State
from tidegate.core.errors import TidegateError
from tidegate.core.workers import BEAT, MOST_TAKEN, Offer, Worker, gives_way, is_offered, is_replaced
from tidegate.flows.ledger import Ledger

log = logging.getLogger("tidegate")

LOOK_EVERY = 1
"""Seconds. A look is one query of a few records, half a read unit or so."""

Beating = Callable[[Callable[[], None]], AbstractContextManager[None]]
"""Calls the function every `BEAT` seconds, beside what runs in the context."""


@contextmanager
def beating(beat: Callable[[], None]) -> Iterator[None]:
    """A thread that gives signs of life. What goes wrong with one of them is left to the next."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(BEAT):
            with suppress(Exception):
                beat()

    thread = threading.Thread(target=go_on, name="signs of life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass
class Taking:
    """One worker. `make` makes the attempt of a batch whose uploads' bucket has this owner, and returns 0 if the table
    has decided. `stay` is for how long it waits for a batch (seconds), `until` when it takes the last one (epoch
    seconds)."""

    id: str
    code: str
    ledger: Ledger
    make: Callable[[Batch, str], int]
    stay: int
    until: int
    sleep: Callable[[float], None]
    beats: Beating
    served: set[str] = field(default_factory=set)
    said_at: int = 0
    stayed: bool = False

    def run(self) -> int:
        """0 if all attempts that it has taken were decided. May raise what the ledger raises."""
        waits_since = self._say()
        while True:
            offer = self._take()
            if offer is None and self._takes_more() and self.now - waits_since < self.stay:
                if self.now - self.said_at >= BEAT:
                    self._say()
                self.sleep(LOOK_EVERY)
                continue
            if offer is None:
                self.ledger.leave(self.id)
                offer = self._take()
            if offer is None:
                return 0
            if code := self._serve(offer):
                return code
            # What came earlier than that needed no worker for now: its own time would have started one later. Else a
            # few uploads an hour would keep a worker for ever, however long their route may gather. Who has stayed for
            # long enough takes what is offered, and nothing more is sealed for it.
            now = self.now
            waits_since = now if offer.early <= self.stay else waits_since
            self.stayed = now - waits_since >= self.stay
            self._say()

    @property
    def now(self) -> int:
        return self.ledger.clock()

    def _takes_more(self) -> bool:
        return self.now < self.until and len(self.served) < MOST_TAKEN

    def _say(self, batch: str = "", *, since: int = 0, small: bool = True) -> int:
        """A sign of life. Returns when it was given."""
        self.said_at = now = self.now
        # who takes no more after this batch is not counted on
        until = now if self.stayed or len(self.served) >= MOST_TAKEN else self.until
        self.ledger.note_alive(
            Worker(self.id, self.code, until=until, seen_at=now, batch=batch, since=since, small=small)
        )
        return now

    def _take(self) -> Offer | None:
        """The oldest offer that this worker may take. One that says that it has taken it already is one whose answer
        was lost, or its twin's."""
        if not self._takes_more():
            return None
        pool = self.ledger.pool()
        for each in pool.offers:
            if each.code != self.code or each.batch in self.served or each.worker not in ("", self.id):
                continue
            if each.worker:
                return each
            if not gives_way(self.id, each, pool, now=self.now) and self.ledger.take(each.batch, self.id):
                return each
        if is_replaced(self.id, self.code, pool):
            self.until = self.now
        return None

    def _serve(self, offer: Offer) -> int:
        """Make the attempt, if it is still to be made. Returns 0 if the table has decided."""
        self.served.add(offer.batch)
        batch = self.ledger.batch(offer.batch)
        if batch is None or batch.state is not State.SUBMITTED or batch.halted or not is_offered(batch, last=False):
            self.ledger.withdraw(offer.batch)
            return 0
        began = self.now

        def beat() -> None:
            self._say(offer.batch, since=began, small=offer.small)

        beat()
        with self.beats(beat):
            code = self.make(batch, offer.owner)
        if code:
            self.until = self.now
        try:
            if code:
                beat()
            else:
                self.ledger.withdraw(offer.batch)
        except TidegateError as error:
            log.warning("the offer of batch %s stays as it is: %s", offer.batch, error)
        return code

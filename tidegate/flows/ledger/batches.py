"""The life of a batch, and of a route that waits."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tidegate.core import transitions
from tidegate.core.announcements import Announcement
from tidegate.core.batches import State, Wish
from tidegate.core.items import Applied, Refused
from tidegate.core.notices import Entry
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import (
    OUTBOX,
    Leftover,
    RouteRecord,
    decode_announcement,
    decode_claim,
)
from tidegate.core.uploads import Upload
from tidegate.flows.ledger.records import LedgerRecords


@dataclass(frozen=True)
class LedgerBatches(LedgerRecords):
    def seal(self, batch_id: str, route: str, table: str = "", dataset: str = "") -> bool:
        """OPEN to SEALED, with this table and this dataset (JSON); False if it was not open, or empty."""
        return self._applied(transitions.seal(batch_id, route, table=table, dataset=dataset, now=self.clock()))

    def note_manifest(self, batch_id: str, digest: str) -> bool:
        """Note the digest of the batch's manifest, once. False if the batch has another one, or is gone."""
        return self._applied(transitions.note_manifest(batch_id, digest))

    def begin_attempt(self, batch_id: str, route: str, attempt: int, in_flight: int) -> bool:
        """SEALED to SUBMITTED(1), or SUBMITTED(attempt - 1) to SUBMITTED(attempt). False if another process did it, if
        the batch has halted, or if attempt 1 would exceed the `in_flight` submitted batches of the route, or the route
        is paused."""
        return self._applied(transitions.begin_attempt(batch_id, route, attempt, in_flight=in_flight, now=self.clock()))

    def fix_dataset(self, batch_id: str, attempt: int, dataset: str) -> str | None:
        """How the attempt reads its files: the first write counts, and is returned. None if the batch has moved on."""
        done = self.store.apply(transitions.fix_dataset(batch_id, attempt, dataset))
        return str(done.item["dataset"]) if isinstance(done, Applied) and done.item else None

    def record_job(self, batch_id: str, attempt: int, job_run: str, *, taken: bool = False) -> None:
        """Record the job run of the attempt, if it is under way, and has none or is `taken` by a worker."""
        self.store.apply(transitions.record_job(batch_id, attempt, job_run, taken=taken))

    def record_endings(self, endings: Sequence[Ending]) -> tuple[Entry, ...]:
        """Write the endings of uploads that were not committed into their claims.

        Returns those that were uploaded again meanwhile, as entries for a new notice. To write the same endings again
        returns the same, until a notice has taken the claims over. Nothing is written into a claim that has expired.
        """
        now = self.clock()
        written = self.store.apply_each([transitions.record_ending(ending, now=now) for ending in endings])
        return tuple(_came_again(zip(endings, written, strict=True)))

    def note_endings(self, batch_id: str, done: int) -> None:
        """Record in the batch that `done` of its endings are complete."""
        self.store.apply(transitions.note_endings(batch_id, done))

    def commit(self, batch_id: str, route: str, receipt: Receipt, *, announce: bool = False) -> bool:
        """SUBMITTED to COMMITTED, or to ABANDONED if the receipt is of a fence; False if it had ended already.
        `announce`: a committed batch is noted in the outbox."""
        batch = self.batch(batch_id)
        if batch is None or batch.state is not State.SUBMITTED:
            return False
        return self._applied(
            transitions.end_batch(batch, receipt, announce=announce, now=self.clock(), retention=self.claim_retention)
        )

    def note_emptied(self, left: Leftover) -> None:
        """Record that no upload of the batch is in quarantine any more. If its record has expired, nothing is left to
        record."""
        self.store.apply(transitions.note_emptied(left))

    def note_oldest(self, there: RouteRecord, since: int, seen: int) -> bool:
        """Record since when the route has had uploads in quarantine, if its record is still as it was `there`, and no
        batch has quarantined anything meanwhile. `since` and `seen` as in `RouteRecord`."""
        return self._applied(transitions.note_oldest(there, since, seen))

    def outbox(self, most: int) -> Sequence[Announcement]:
        """What is still to be announced, of all routes: the first `most`, by the age of their batches."""
        return [decode_announcement(item) for item in self.store.query(OUTBOX, "the outbox", most)]

    def note_announced(self, events: Sequence[Announcement]) -> None:
        """These were sent. Another process may have noted it already."""
        self.store.apply_each([transitions.note_announced(event) for event in events])

    def halt(self, batch_id: str, attempt: int, reason: str, *, undecided: bool = False) -> None:
        """Start no more jobs for this batch until a person acts; if it is `undecided`, by `decide`. A sealed batch,
        which has no attempt yet, is only marked as halted: hand-off goes on trying."""
        self.store.apply(transitions.halt(batch_id, attempt, reason, undecided=undecided, now=self.clock()))

    def step_aside(self, batch_id: str, route: str, attempt: int) -> bool:
        """A batch that halted in this attempt gives up its slot. False if it has none, or has moved on meanwhile."""
        return self._applied(transitions.step_aside(batch_id, route, attempt, now=self.clock()))

    def resume(
        self, batch_id: str, route: str, attempt: int, fencing: bool, floors: int = 0, wish: Wish | None = None
    ) -> bool:
        """Begin `attempt` of a halted batch; or (`fencing`) of any submitted one, to fence it instead of publishing it,
        and then to do with its uploads what a person wants (`wish`). `floors` as in `Batch`. Settling starts the job; a
        free slot is not needed. False if the batch has moved on meanwhile."""
        return self._applied(
            transitions.resume(batch_id, route, attempt, fencing=fencing, floors=floors, now=self.clock(), wish=wish)
        )

    def give_up(self, batch_id: str, route: str, wish: Wish | None = None) -> bool:
        """SEALED to SUBMITTED(1), to fence the batch instead of publishing it; a free slot is not needed. Settling
        starts the job. `wish` as in `resume`. False if the batch has moved on meanwhile."""
        return self._applied(transitions.give_up(batch_id, route, now=self.clock(), wish=wish))

    def pause(self, route: str) -> bool:
        """Begin no new batch of the route until `unpause`. False if it is paused already."""
        return self._applied(transitions.pause(route, now=self.clock()))

    def unpause(self, route: str) -> bool:
        """False if the route is not paused."""
        return self._applied(transitions.unpause(route))


def _came_again(written: Iterable[tuple[Ending, Applied | Refused]]) -> Iterator[Entry]:
    for ending, done in written:
        later = decode_claim(done.item).later if isinstance(done, Applied) and done.item else ""
        if later:
            # the size is only a hint, and the claim does not store it
            yield Entry(Upload(ending.bucket, ending.key, ending.version, 0, later), takes_from=ending.notice)

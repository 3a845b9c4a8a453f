"""A ledger that is built anew (`flows.rebuild`)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core import transitions
from tidegate.core.batches import Batch
from tidegate.core.claims import Claim
from tidegate.core.errors import Retryable
from tidegate.core.items import Refused
from tidegate.core.notices import NoticeRecord
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import WHOLE, decode_notice
from tidegate.core.transitions.index import is_whole, whole_since
from tidegate.core.uploads import Upload
from tidegate.flows.ledger.records import LedgerRecords, in_the_way


@dataclass(frozen=True)
class LedgerIndex(LedgerRecords):
    def is_whole(self) -> bool:
        return is_whole(self.store.get(WHOLE))

    def begin_rebuild(self) -> None:
        """Nobody else reads or writes the ledger from now on. Raises Retryable if another rebuild ended just now."""
        there = self.store.get(WHOLE)
        if there is not None and not is_whole(there):
            return
        done = self.store.apply(transitions.begin_rebuild(whole_since(there)))
        if isinstance(done, Refused) and (done.there[0] is None or is_whole(done.there[0])):
            raise Retryable("the ledger became whole while this began: does another rebuild run? Run this again")

    def end_rebuild(self) -> None:
        """The ledger is whole."""
        self.store.apply(transitions.end_rebuild(now=self.clock()))

    def index_notices(self, records: Iterable[NoticeRecord]) -> Mapping[str, NoticeRecord]:
        """Write these records where there is none. Returns those that are there already, by id."""
        now = self.clock()
        wanted = [transitions.index_notice(each, now=now, retention=self.claim_retention) for each in records]
        done = self.store.apply_each(wanted)
        there = [decode_notice(each.there[0]) for each in done if isinstance(each, Refused) and each.there[0]]
        return {each.id: each for each in there}

    def index_claims(
        self, notice_id: str, uploads: Sequence[Upload], endings: Mapping[tuple[str, str, str], Ending]
    ) -> Mapping[Upload, Claim]:
        """Claim the uploads that nobody has claimed, with their `endings`. Returns the claims on the others."""
        now = self.clock()
        wanted = [
            transitions.index_claim(
                notice_id, each, endings.get(each.identity), now=now, retention=self.claim_retention
            )
            for each in uploads
        ]
        return in_the_way(uploads, self.store.apply_each(wanted))

    def index_over(self, notice_id: str, upload: Upload, ending: Ending | None, *, owner: str) -> bool:
        """Let the claim name this notice in place of `owner`. False if it does not name `owner` any more."""
        return self._applied(transitions.index_over(notice_id, upload, ending, owner=owner))

    def index_batch(
        self, batch: Batch, receipt: Receipt | None, back: Mapping[str, int], *, announce: bool = False
    ) -> bool:
        """Write the record of a batch, and count it if it has ended; with `announce`, note a committed one in the
        outbox. False if there is a record."""
        now, retention = self.clock(), self.claim_retention
        return self._applied(
            transitions.index_batch(batch, receipt, back, announce=announce, now=now, retention=retention)
        )

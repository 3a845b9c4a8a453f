"""A rehearsal: what recovering would do to a ledger, with nothing written.

It answers as the ledger would if what was written to it here had been: so a rehearsal counts what the real thing will
do, as long as nobody else changes the ledger in between. It keeps what it was told in memory.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tidegate.core.batches import Batch
from tidegate.core.claims import Claim
from tidegate.core.notices import Entry, Notice
from tidegate.core.receipts import Ending
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.ports import NoticeRecord, RestoredLedger, RouteRecord


class Rehearsal:
    """`flows.ports.RestoredLedger` before a ledger that it only reads."""

    def __init__(self, ledger: RestoredLedger) -> None:
        self._ledger = ledger
        self._notices: dict[str, NoticeRecord] = {}
        self._claims: dict[tuple[str, str, str], Claim] = {}

    def batch(self, batch_id: str) -> Batch | None:
        return self._ledger.batch(batch_id)

    def route(self, name: str) -> RouteRecord:
        return self._ledger.route(name)

    def known_routes(self) -> Mapping[str, Route]:
        return self._ledger.known_routes()

    def notice(self, notice_id: str) -> NoticeRecord | None:
        return self._notices.get(notice_id) or self._ledger.notice(notice_id)

    def notices(self, notice_ids: Iterable[str]) -> Mapping[str, NoticeRecord]:
        wanted = set(notice_ids)
        changed = {each: self._notices[each] for each in wanted & self._notices.keys()}
        return {**self._ledger.notices(wanted), **changed}

    def claims_on(self, uploads: Iterable[Upload]) -> Mapping[tuple[str, str, str], Claim]:
        wanted = list(uploads)
        changed = {each.identity: self._claims[each.identity] for each in wanted if each.identity in self._claims}
        return {**self._ledger.claims_on(wanted), **changed}

    def let_go(self, claim: Claim) -> bool:
        owner = self._notices.get(claim.notice)
        return bool(claim.outcome) or (owner.void if owner else self._ledger.let_go(claim))

    def take_back(self, notice_id: str, uploads: Sequence[Upload]) -> tuple[tuple[Upload, Claim], ...]:
        there = self.claims_on(uploads)
        refused = []
        for upload in uploads:
            claim = there.get(upload.identity)
            if claim and claim.notice != notice_id and not self.let_go(claim):
                refused.append((upload, claim))
            else:
                self._claims[upload.identity] = Claim(upload.version, notice_id, 0, 0, sequencer=upload.sequencer)
        return tuple(refused)

    def void(self, notice_id: str, route: str) -> bool:
        there = self.notice(notice_id)
        if there is None:
            there = self._notices[notice_id] = NoticeRecord(notice_id, route, "", "", 0, 0, 0)
        return there.void

    def write_notice(self, becomes: NoticeRecord, there: NoticeRecord | None, *, withdraw: bool = False) -> bool:
        self._notices[becomes.id] = becomes
        return True

    def record_endings(self, endings: Sequence[Ending]) -> tuple[Entry, ...]:
        for ending in endings:
            upload = Upload(ending.bucket, ending.key, ending.version, 0)
            claim = self.claims_on([upload]).get(upload.identity)
            if claim and claim.notice == ending.notice:
                self._claims[upload.identity] = replace(claim, outcome=ending.outcome)
        return ()

    def restore_batch(self, becomes: Batch, there: Batch | None) -> bool:
        return True


class SilentTopic:
    """`flows.ports.Topic` that takes everything and sends nothing."""

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        return frozenset(notice.id for notice in notices)

"""Decisions 1 and 2: this version of an object belongs to that notice; the notice to that batch, or void."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from tidegate.core import transitions
from tidegate.core.batches import Batch, State
from tidegate.core.claims import (
    NEEDS_OWNER,
    Claim,
    CountedAs,
    LetGo,
    Ownership,
    counted,
    has_let_go,
    in_table,
    is_news,
    judge,
    may_land_too,
)
from tidegate.core.errors import Retryable
from tidegate.core.items import Applied, Refused
from tidegate.core.manifests import Part
from tidegate.core.notices import Entry, Notice
from tidegate.core.records import decode_notice
from tidegate.core.uploads import Upload
from tidegate.flows.ledger.records import LedgerRecords, in_the_way
from tidegate.flows.store import NewId

OPENINGS = 10
"""How often a route's open batch may change while it is read."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The uploads that a notice owns after claiming, and those it was refused because another notice owns them.

    `again` are uploads whose owner let go, and whose same bytes were uploaded again later. This notice may not take
    them. A notice that names their owner may (rule 4). `back` is how many of the owned uploads are counted in the sums
    of a route already, and how: each was taken over from a notice that let go of it.
    """

    owned: tuple[Upload, ...]
    refused: tuple[Upload, ...]
    again: tuple[Entry, ...] = ()
    back: Mapping[CountedAs, int] = field(default_factory=dict)


class Registration(Enum):
    """The result of registering a notice. None of them is an error."""

    REGISTERED = auto()  # now, or by an earlier try of this same registration
    ELSEWHERE = auto()  # another delivery of this notice registered it first
    VOID = auto()  # the notice is void: its uploads belong to another notice
    BATCH_CLOSED = auto()  # the batch is not open any more: use the open one


@dataclass(frozen=True)
class Claiming(LedgerRecords):
    # ---- decision 1

    def claim(self, notice: Notice, table: str = "") -> Claimed:
        """Decision 1, for every upload of the notice. `table` is where its route's uploads go today."""
        ownership, back = self._claim(notice, table)
        return Claimed(
            owned=tuple(entry.upload for entry, owned in ownership if owned is Ownership.MINE),
            refused=tuple(entry.upload for entry, owned in ownership if owned is Ownership.DUPLICATE),
            again=tuple(owned for _, owned in ownership if isinstance(owned, Entry)),
            back=Counter(back),
        )

    def _claim(self, notice: Notice, table: str) -> tuple[list[tuple[Entry, Ownership | Entry]], list[CountedAs]]:
        """By entry: MINE, DUPLICATE, or the entry for a new notice that may take the upload over. And how the uploads
        that are MINE were counted before, if they were: what is taken over has that in its claim.

        step                                    if it dies right after, or a twin is as far
        1 claim every upload                    claims that name this notice are its own (rule 1)
        2 which owners have let go?             only reads, of facts that are final
        3 take over, or note in the claim       conditional on the owner of step 1: a late write is refused
        """
        now = self.clock()
        met = self._own(notice.id, [entry.upload for entry in notice.entries], now)
        judged = {entry: judge(met[entry.upload], notice, entry) for entry in notice.entries if entry.upload in met}
        asked = [met[entry.upload] for entry, owned in judged.items() if owned in NEEDS_OWNER]
        let_go = self.let_go(asked, table, reloads=notice.reloads)
        ended: dict[Entry, Ownership | Entry] = {}
        taken: dict[Upload, Claim] = {}
        back: list[CountedAs] = []
        noted: dict[Upload, Claim] = {}
        for entry, ownership in judged.items():
            upload, claim = entry.upload, met[entry.upload]
            if ownership not in NEEDS_OWNER:
                ended[entry] = ownership
                if ownership is Ownership.MINE:
                    back += [claim.before] if claim.before else []
            elif claim not in let_go or (ownership is Ownership.UPLOADED_AGAIN and let_go[claim].in_table):
                ended[entry] = Ownership.DUPLICATE
                if ownership is Ownership.UPLOADED_AGAIN and is_news(claim, upload):
                    noted[upload] = claim
            elif ownership is Ownership.UPLOADED_AGAIN:
                ended[entry] = Entry(upload, takes_from=claim.notice)
            else:
                taken[upload] = claim
        faster = self._take_over(notice.id, {each: (claim, let_go[claim]) for each, claim in taken.items()}, now)
        for entry in (each for each in judged if each.upload in taken):
            there = faster.get(entry.upload)
            mine = there is None or there.notice == notice.id
            ended[entry] = Ownership.MINE if mine else Ownership.DUPLICATE
            before = there.before if there else let_go[taken[entry.upload]].before
            if mine:
                back += [before] if before else []
        self._note_again(noted)
        return [(entry, ended.get(entry, Ownership.MINE)) for entry in notice.entries], back

    def _own(self, notice_id: str, uploads: Sequence[Upload], now: int) -> dict[Upload, Claim]:
        """Claim the unclaimed uploads. Returns the existing claims on the others."""
        wanted = [transitions.claim(notice_id, each, now=now, retention=self.claim_retention) for each in uploads]
        return in_the_way(uploads, self.store.apply_each(wanted))

    def _take_over(self, notice_id: str, owners: Mapping[Upload, tuple[Claim, LetGo]], now: int) -> dict[Upload, Claim]:
        """Take uploads over from the notices that let go of them: from which claim, and what comes with it. Returns
        the claims of those that another notice took first. Raises Retryable if an upload was dropped meanwhile: the
        next try counts it as that."""
        wanted = [
            transitions.take_over(
                notice_id, upload, owner=claim.notice, let_go=let_go, now=now, retention=self.claim_retention
            )
            for upload, (claim, let_go) in owners.items()
        ]
        faster = in_the_way(list(owners), self.store.apply_each(wanted))
        for upload, there in faster.items():
            if there.notice == owners[upload][0].notice != notice_id:
                raise Retryable(f"{upload} was dropped while it was being taken over; it will be tried again")
        return faster

    def _note_again(self, claims: Mapping[Upload, Claim]) -> None:
        """Record in these claims that their uploads were uploaded again."""
        now = self.clock()
        wanted = [
            transitions.note_again(claim, upload, now=now, retention=self.claim_retention)
            for upload, claim in claims.items()
        ]
        for upload, done in zip(claims, self.store.apply_each(wanted), strict=True):
            if isinstance(done, Refused):
                raise Retryable(f"the claim on {upload} changed while it was read; it will be tried again")

    def let_go(self, claims: Iterable[Claim], table: str = "", *, reloads: bool = False) -> Mapping[Claim, LetGo]:
        """The claims whose owners will never publish the upload, and those whose owners have, if it may go to `table`,
        too (`may_land_too`). Final."""
        judged: dict[Claim, LetGo] = {}
        for claim, (owner, batch) in self.owners(claims).items():
            if may_land_too(claim, batch, table, reloads=reloads) or has_let_go(claim, owner, batch):
                judged[claim] = LetGo(counted(claim, owner, batch), in_table(claim, batch))
        return judged

    def left_to(self, notice: Notice, table: str = "") -> tuple[Entry, ...]:
        """What a void notice leaves to a new one, which takes it from the void one.

        The void notice first claims all that it can, as any delivery of it does: a slow twin may still do so, and then
        a new notice that named the former owners would be refused.
        """
        ownership, _ = self._claim(notice, table)
        owned = (Entry(entry.upload, takes_from=notice.id) for entry, owned in ownership if owned is Ownership.MINE)
        return (*owned, *(owned for _, owned in ownership if isinstance(owned, Entry)))

    # ---- decision 2

    def open_batch(self, route: str, new_id: NewId) -> Batch:
        """The route's open batch, opened now if there is none."""
        for _ in range(OPENINGS):
            record = self.route(route)
            if record.open_batch and (batch := self.batch(record.open_batch)):
                return batch
            batch = Batch(new_id(), route, State.OPEN, opened_at=self.clock())
            if self._applied(transitions.open_batch(batch)):
                return batch
        raise Retryable(
            f"route {route}: its open batch changed {OPENINGS} times while it was read; it will be tried again"
        )

    def register(
        self,
        notice: Notice,
        batch_id: str,
        part: Part,
        back: Mapping[CountedAs, int] | None = None,
    ) -> Registration:
        """Decision 2: the notice belongs to the batch, if the batch is still open and the notice undecided. `back` as
        in `Claimed`."""
        now, retention = self.clock(), self.claim_retention
        done = self.store.apply(transitions.register(notice, batch_id, part, back or {}, now=now, retention=retention))
        if isinstance(done, Applied):
            return Registration.REGISTERED
        there = done.there[0]
        if there is None:
            return Registration.BATCH_CLOSED
        record = decode_notice(there)
        if record.void:
            return Registration.VOID
        # a store may repeat a transition whose answer was lost: then this same registration is already stored
        same = record.batch == batch_id and record.part == part.name
        return Registration.REGISTERED if same else Registration.ELSEWHERE

    def void(self, notice_id: str, route: str) -> bool:
        """Decision 2: the notice belongs to no batch. True if it is void, now or already."""
        done = self.store.apply(transitions.void(notice_id, route, now=self.clock(), retention=self.claim_retention))
        if isinstance(done, Applied):
            return True
        there = done.there[0]
        return there is not None and decode_notice(there).void

    def refuse(self, route: str, count: int) -> None:
        """Count uploads refused as duplicates: a statistic, exact except after crashes. A message that comes again is
        refused again, so the number is no part of the sum, and no decision reads it."""
        self.store.apply(transitions.count_refused(route, count))

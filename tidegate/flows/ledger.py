"""The ledger: decisions 1 and 2 and the life of batches, on a store.

Each method that writes applies a transition of `tidegate.core.transitions` and returns its result. Every method may
raise Retryable or OutcomeUnknown. To call it again with the same arguments is always safe: if a transition was applied
and its answer was lost, the stored item shows it.

Reads are consistent, because a decision follows most of them. Expired items count as absent, even if the store still
has them (rule 5).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from tidegate.core import transitions
from tidegate.core.announcements import Announcement
from tidegate.core.audit import AuditRun
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import (
    NEEDS_OWNER,
    Claim,
    CountedAs,
    LetGo,
    Ownership,
    counted,
    has_let_go,
    is_live,
    is_news,
    judge,
    may_land_too,
    rows_of_owners,
)
from tidegate.core.errors import Retryable
from tidegate.core.items import Applied, Item, Key, Refused, Transition
from tidegate.core.manifests import OwnedUpload, Part
from tidegate.core.notices import ORIGIN_REMOVED, Entry, Notice, NoticeRecord
from tidegate.core.outcomes import ABANDONED, Outcome
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import (
    AUDITS,
    OUTBOX,
    ROUTES,
    SHARED_JOB,
    WHOLE,
    Leftover,
    RouteRecord,
    audit_key,
    batch_key,
    claim_key,
    claims_pk,
    decode_announcement,
    decode_audit,
    decode_batch,
    decode_claim,
    decode_leftover,
    decode_notice,
    decode_settings,
    decode_shared_job,
    decode_standing,
    leftover_key,
    leftovers_pk,
    notice_key,
    route_key,
    settings_key,
)
from tidegate.core.routes import Place, Route
from tidegate.core.seats import SharedJob
from tidegate.core.transitions.index import is_whole, whole_since
from tidegate.core.uploads import Upload
from tidegate.flows.store import Clock, NewId, Store

OPENINGS = 10
"""How often a route's open batch may change while it is read."""

DROPS = 5
"""How often claims may change while their uploads are being dropped."""

CLOCKS = 60 * 60
"""Seconds by which two clocks may differ: S3's, which dates an upload, and a function's, which dates a claim."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """The uploads that a notice owns after claiming, and those it was refused because another notice owns them.

    `again` are uploads whose owner let go, and whose same bytes were uploaded again later. This notice may not take
    them. A notice that names their owner may (rule 4). `back` is how many of the owned uploads are counted in the sums
    of a route already, and how: each was taken over from a notice that let go of it. `rows_in` are the tables that have
    rows of owned uploads.
    """

    owned: tuple[Upload, ...]
    refused: tuple[Upload, ...]
    again: tuple[Entry, ...] = ()
    back: Mapping[CountedAs, int] = field(default_factory=dict)
    rows_in: frozenset[str] = frozenset()


class Registration(Enum):
    """The result of registering a notice. None of them is an error."""

    REGISTERED = auto()  # now, or by an earlier try of this same registration
    ELSEWHERE = auto()  # another delivery of this notice registered it first
    VOID = auto()  # the notice is void: its uploads belong to another notice
    BATCH_CLOSED = auto()  # the batch is not open any more: use the open one


@dataclass(frozen=True)
class Ledger:
    """`claim_retention` in seconds: how long the ledger remembers an upload (setting `retention.claims`)."""

    store: Store
    clock: Clock
    claim_retention: int

    # ---- reading

    def notice(self, notice_id: str) -> NoticeRecord | None:
        item = self._live(self.store.get(notice_key(notice_id)))
        return decode_notice(item) if item else None

    def notices(self, notice_ids: Iterable[str]) -> Mapping[str, NoticeRecord]:
        found = self._all((notice_key(each) for each in notice_ids), "notices")
        return {record.id: record for record in map(decode_notice, found.values())}

    def claims(self, bucket: str, key: str) -> Sequence[Claim]:
        """The live claims on all versions of one object."""
        items = self.store.query(claims_pk(bucket, key), f"the claims on s3://{bucket}/{key}")
        return [decode_claim(item) for item in items if self._live(item)]

    def claims_on(self, uploads: Iterable[Upload]) -> Mapping[tuple[str, str, str], Claim]:
        """The live claims on these uploads, by identity."""
        by_key = {claim_key(*each.identity): each.identity for each in uploads}
        return {by_key[key]: decode_claim(item) for key, item in self._all(by_key, "claims").items()}

    def batch(self, batch_id: str) -> Batch | None:
        item = self._live(self.store.get(batch_key(batch_id)))
        return decode_batch(item) if item else None

    def batches(self, batch_ids: Iterable[str]) -> Mapping[str, Batch]:
        found = self._all((batch_key(each) for each in batch_ids), "batches")
        return {batch.id: batch for batch in map(decode_batch, found.values())}

    def owners(self, claims: Iterable[Claim]) -> Mapping[Claim, tuple[NoticeRecord | None, Batch | None]]:
        """Of each claim its notice, if that is registered or void, and the notice's batch, if it has one: read in this
        order, each kind together."""
        found = list(claims)
        notices = self.notices({claim.notice for claim in found})
        batches = self.batches({notice.batch for notice in notices.values() if notice.batch})
        by_notice = {each: (notice, batches.get(notice.batch)) for each, notice in notices.items()}
        return {claim: by_notice.get(claim.notice, (None, None)) for claim in found}

    def route(self, name: str) -> RouteRecord:
        return decode_standing(name, self.store.get(route_key(name)))

    def routes(self, names: Iterable[str]) -> Mapping[str, RouteRecord]:
        """The records of these routes, read together. A route that never gathered uploads has an empty one."""
        wanted = list(names)
        found = self.store.get_many([route_key(each) for each in sorted(set(wanted))], "routes") if wanted else {}
        return {each: decode_standing(each, found.get(route_key(each))) for each in wanted}

    def known_routes(self) -> Mapping[str, Route]:
        """Every route that ever gathered uploads, by name, with its last deployed settings."""
        routes = map(decode_settings, self.store.query(ROUTES, "the routes"))
        return {route.name: route for route in routes}

    def known_route(self, name: str) -> Route | None:
        item = self.store.get(settings_key(name))
        return decode_settings(item) if item else None

    def leftovers(self, route: str) -> Sequence[Leftover]:
        """What the route's batches have left outside the table, by the age of the batch. It grows with the batches of
        `claim_retention`, and only with those that left something."""
        items = self.store.query(leftovers_pk(route), f"the leftovers of route {route}")
        return [decode_leftover(item) for item in items if self._live(item)]

    def may_have_forgotten(self, at: int) -> bool:
        """Whether claims on uploads that were created `at` (epoch seconds, 0 if unknown) may have expired already. A
        claim is made after its upload, so it expires later than `at` and `claim_retention`; `CLOCKS` for their
        difference."""
        return bool(at) and self.clock() >= at + self.claim_retention - CLOCKS

    def remember_route(self, route: Route) -> None:
        """Store the route's settings. If the configuration loses the route, its batches are finished with these."""
        self.store.apply(transitions.remember_route(route))

    def _live(self, item: Item | None) -> Item | None:
        expires_at = item.get("expires_at") if item else None
        return None if isinstance(expires_at, int) and not is_live(expires_at, self.clock()) else item

    def _all(self, keys: Iterable[Key], what: str) -> Mapping[Key, Item]:
        found = self.store.get_many(sorted(set(keys)), what)
        return {key: item for key, item in found.items() if self._live(item)}

    # ---- decision 1

    def claim(self, notice: Notice, table: str = "") -> Claimed:
        """Decision 1, for every upload of the notice. `table` is where its route's uploads go today.

        Raises Retryable if that table has rows of an upload that this notice owns already: it was claimed for another
        table, and the route's was changed since."""
        ownership, back, rows_in = self._claim(notice, table)
        if table in rows_in:
            raise Retryable(
                f"notice {notice.id} has claimed uploads for another table than {table}, which has rows of them: the"
                f" table of route {notice.route} was changed meanwhile. They go on when it is changed back"
            )
        return Claimed(
            owned=tuple(entry.upload for entry, owned in ownership if owned is Ownership.MINE),
            refused=tuple(entry.upload for entry, owned in ownership if owned is Ownership.DUPLICATE),
            again=tuple(owned for _, owned in ownership if isinstance(owned, Entry)),
            back=Counter(back),
            rows_in=rows_in,
        )

    def _claim(
        self, notice: Notice, table: str
    ) -> tuple[list[tuple[Entry, Ownership | Entry]], list[CountedAs], frozenset[str]]:
        """By entry: MINE, DUPLICATE, or the entry for a new notice that may take the upload over. And how the uploads
        that are MINE were counted before, if they were, and which tables have rows of them: what is taken over has both
        in its claim.

        step                                    if it dies right after, or a twin is as far
        1 claim every upload                    claims that name this notice are its own (rule 1)
        2 which owners have let go?             only reads, of facts that are final
        3 take over, or note in the claim       conditional on the owner of step 1: a late write is refused
        """
        now = self.clock()
        met = self._own(notice.id, [entry.upload for entry in notice.entries], now)
        judged = {entry: judge(met[entry.upload], notice.id, entry) for entry in notice.entries if entry.upload in met}
        removed = notice.origin.startswith(ORIGIN_REMOVED)
        asked = [met[entry.upload] for entry, owned in judged.items() if owned in NEEDS_OWNER]
        let_go = self.let_go(asked, table, removed=removed)
        ended: dict[Entry, Ownership | Entry] = {}
        taken: dict[Upload, Claim] = {}
        back: list[CountedAs] = []
        rows_in: set[str] = set()
        noted: dict[Upload, str] = {}
        for entry, ownership in judged.items():
            upload, claim = entry.upload, met[entry.upload]
            if ownership not in NEEDS_OWNER:
                ended[entry] = ownership
                if ownership is Ownership.MINE:
                    back += [claim.before] if claim.before else []
                    rows_in |= claim.rows_in
            elif claim not in let_go or (ownership is Ownership.UPLOADED_AGAIN and let_go[claim].landed):
                ended[entry] = Ownership.DUPLICATE
                if ownership is Ownership.UPLOADED_AGAIN and is_news(claim, upload):
                    noted[upload] = claim.notice
            elif ownership is Ownership.UPLOADED_AGAIN:
                ended[entry] = Entry(upload, takes_from=claim.notice)
            elif table in let_go[claim].rows_in:
                ended[entry] = Ownership.DUPLICATE
            else:
                taken[upload] = claim
        faster = self._take_over(notice.id, {each: (claim, let_go[claim]) for each, claim in taken.items()}, now)
        for entry in (each for each in judged if each.upload in taken):
            there = faster.get(entry.upload)
            mine = there is None or there.notice == notice.id
            ended[entry] = Ownership.MINE if mine else Ownership.DUPLICATE
            got = LetGo(there.before, there.rows_in) if there else let_go[taken[entry.upload]]
            if mine:
                back += [got.before] if got.before else []
                rows_in |= got.rows_in
        self._note_again(noted)
        return [(entry, ended.get(entry, Ownership.MINE)) for entry in notice.entries], back, frozenset(rows_in)

    def _own(self, notice_id: str, uploads: Sequence[Upload], now: int) -> dict[Upload, Claim]:
        """Claim the unclaimed uploads. Returns the existing claims on the others."""
        wanted = [transitions.claim(notice_id, each, now=now, retention=self.claim_retention) for each in uploads]
        return _in_the_way(uploads, self.store.apply_each(wanted))

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
        faster = _in_the_way(list(owners), self.store.apply_each(wanted))
        for upload, there in faster.items():
            if there.notice == owners[upload][0].notice != notice_id:
                raise Retryable(f"{upload} was dropped while it was being taken over; it will be tried again")
        return faster

    def _note_again(self, owners: Mapping[Upload, str]) -> None:
        """Record in the claims of these notices that their uploads were uploaded again."""
        now = self.clock()
        wanted = [
            transitions.note_again(owner, upload, now=now, retention=self.claim_retention)
            for upload, owner in owners.items()
        ]
        for upload, done in zip(owners, self.store.apply_each(wanted), strict=True):
            if isinstance(done, Refused):
                raise Retryable(f"the claim on {upload} changed while it was read; it will be tried again")

    def let_go(self, claims: Iterable[Claim], table: str = "", *, removed: bool = False) -> Mapping[Claim, LetGo]:
        """The claims whose owners will never publish the upload, and those whose owners have, if it may land in
        `table`, too (`removed` as in `may_land_too`). Final."""
        judged: dict[Claim, LetGo] = {}
        for claim, (owner, batch) in self.owners(claims).items():
            landed = may_land_too(claim, batch, table, removed=removed)
            if landed or has_let_go(claim, owner, batch):
                rows_in = rows_of_owners(claim, batch, table, removed=removed)
                judged[claim] = LetGo(counted(claim, owner, batch), rows_in, landed)
        return judged

    def left_to(self, notice: Notice, table: str = "") -> tuple[Entry, ...]:
        """What a void notice leaves to a new one, which takes it from the void one.

        The void notice first claims all that it can, as any delivery of it does: a slow twin may still do so, and then
        a new notice that named the former owners would be refused.
        """
        claimed = self.claim(notice, table)
        return (*(Entry(upload, takes_from=notice.id) for upload in claimed.owned), *claimed.again)

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
        table: str = "",
        dataset: str = "",
    ) -> Registration:
        """Decision 2: the notice belongs to the batch, if the batch is still open and the notice undecided. `back` as
        in `Claimed`. The notice is for `table`: a batch that is bound to another one counts as closed. With a `dataset`
        the batch is bound to that table, and is read so."""
        now, retention = self.clock(), self.claim_retention
        done = self.store.apply(
            transitions.register(
                notice, batch_id, part, back or {}, table=table, dataset=dataset, now=now, retention=retention
            )
        )
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

    # ---- the life of a batch

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

    def record_job(self, batch_id: str, attempt: int, job_run: str, *, rides: bool = False) -> None:
        """Record the job run of the attempt, if it is under way and has none. `rides` as in `Batch`."""
        self.store.apply(transitions.record_job(batch_id, attempt, job_run, rides=rides))

    def shared_job(self) -> SharedJob | None:
        """The job that was started last and may take batches along."""
        item = self._live(self.store.get(SHARED_JOB))
        return decode_shared_job(item) if item else None

    def note_shared_job(self, job: SharedJob) -> None:
        """This job was started last."""
        self.store.apply(transitions.note_shared_job(job))

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

    # ---- what becomes of the uploads of an abandoned batch

    def wish(self, batch: Batch, wish: Wish, *, skips: bool = False) -> bool:
        """Record what a person wants done with the uploads of a batch that is abandoned, or is being fenced. `skips` as
        in `Batch`. False if the batch has moved on meanwhile."""
        return self._applied(transitions.wish(batch, wish, skips=skips))

    def note_wish(self, batch_id: str, wish: Wish, parts: int, *, skips: bool = False) -> bool:
        """Record that the wish is carried out for `parts` of the batch's parts. False if there is another one now."""
        return self._applied(transitions.note_wish(batch_id, wish, parts, skips=skips))

    def end_wish(self, batch_id: str, route: str, wish: Wish, *, skips: bool = False) -> bool:
        """The wish is carried out. False if there is another one now, or if another process has recorded it."""
        return self._applied(transitions.end_wish(batch_id, route, wish, skips=skips))

    def forget_wish(self, batch_id: str, route: str, *, there: bool) -> bool:
        """The route lists a batch that has no wish, or (`there` is false) no record any more. False if it has one."""
        return self._applied(transitions.forget_wish(batch_id, route, there=there))

    def drop(self, batch_id: str, route: str, owned: Sequence[OwnedUpload]) -> int:
        """Drop those of the uploads whose claims say that they are abandoned, and that no other notice has taken over.
        Returns how many this call has dropped.

        Each claim is read, and then changed on the condition that it is as it was read, together with the route's sum.
        If it dies, or the answer is lost, the next call reads what is done.
        """
        listed = self._live(self.store.get(leftover_key(route, batch_id))) is not None
        return sum(
            self._drop(batch_id, route, owned[start : start + transitions.MOST_DROPPED], listed)
            for start in range(0, len(owned), transitions.MOST_DROPPED)
        )

    def _drop(self, batch_id: str, route: str, owned: Sequence[OwnedUpload], listed: bool) -> int:
        def drop(left: Sequence[OwnedUpload]) -> Transition:
            return transitions.drop(batch_id, route, left, leftover=listed, now=self.clock())

        return self._dropped(owned, ABANDONED, drop, f"batch {batch_id}")

    def drop_quarantined(self, route: str, owned: Sequence[OwnedUpload], reason: str) -> int:
        """Drop those of the uploads, `transitions.MOST_DROPPED` at most, that are still in quarantine. Returns how many
        this call has dropped. If it dies, or the answer is lost, the next call reads what is done."""

        def drop(left: Sequence[OwnedUpload]) -> Transition:
            return transitions.drop_quarantined(route, left, reason, now=self.clock())

        return self._dropped(owned, Outcome.QUARANTINED.value, drop, f"route {route}")

    def _dropped(
        self, owned: Sequence[OwnedUpload], were: str, drop: Callable[[Sequence[OwnedUpload]], Transition], whose: str
    ) -> int:
        for _ in range(DROPS):
            claims = self.claims_on(each.upload for each in owned)
            left = [
                each
                for each in owned
                if (claim := claims.get(each.upload.identity)) and (claim.notice, claim.outcome) == (each.notice, were)
            ]
            if not left:
                return 0
            if self._applied(drop(left)):
                return len(left)
        raise Retryable(
            f"{whose}: the claims on its uploads changed {DROPS} times while they were dropped; it will be tried again"
        )

    def note_removed(self, batch_id: str, *, sent: bool = False) -> bool:
        """The batch can never bring its rows again; with `sent` all that it landed was sent again. False if it is not
        committed."""
        return self._applied(transitions.note_removed(batch_id, sent=sent))

    # ---- a route that waits

    def pause(self, route: str) -> bool:
        """Begin no new batch of the route until `unpause`. False if it is paused already."""
        return self._applied(transitions.pause(route, now=self.clock()))

    def unpause(self, route: str) -> bool:
        """False if the route is not paused."""
        return self._applied(transitions.unpause(route))

    # ---- audits

    def audits(self) -> Sequence[AuditRun]:
        """How each place is watched, and its scheduled audit that began last. One that was left is among them for as
        long as an audit may look at it."""
        items = self.store.query(AUDITS, "how places are watched")
        return [decode_audit(item) for item in items if self._live(item)]

    def audit(self, place: Place, number: int = 1) -> AuditRun | None:
        """One of them."""
        item = self._live(self.store.get(audit_key(place, number)))
        return decode_audit(item) if item else None

    def begin_watch(self, run: AuditRun) -> bool:
        """Watch a place from now on: `run` is its first one. False if another process did."""
        return self._applied(transitions.begin_watch(run, self.clock()))

    def end_watch(self, run: AuditRun, at: int, horizon: int) -> bool:
        """No route takes the place any more, since `at`. It is forgotten after `horizon` (seconds), when no audit may
        look at anything of it. False if that was noted already."""
        return self._applied(transitions.end_watch(run, at, at + horizon))

    def resume_watch(self, run: AuditRun) -> bool:
        """A place that was left is watched as if it had not been. False if it is not as it was read."""
        return self._applied(transitions.resume_watch(run, self.clock()))

    def begin_audit(self, run: AuditRun, last: AuditRun) -> bool:
        """Begin `run` after `last`, which has ended. False if another process did."""
        return self._applied(transitions.begin_audit(run, last))

    def note_audit(self, run: AuditRun) -> bool:
        """Note that the run has done one more page. False if another process did, or if another run has begun."""
        return self._applied(transitions.note_audit(run))

    def note_screening(self, run: AuditRun) -> bool:
        """Note the job that screens the bucket for the run. False if another process noted one, or if the run has
        pages, or another one has begun."""
        return self._applied(transitions.note_screening(run))

    def give_up_audit(self, run: AuditRun) -> bool:
        """End the run without its findings: the next one begins where it did. False if it is not as it was read."""
        return self._applied(transitions.give_up_audit(run, self.clock()))

    # ---- built anew

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
        return _in_the_way(uploads, self.store.apply_each(wanted))

    def index_over(
        self, notice_id: str, upload: Upload, ending: Ending | None, *, owner: str, rows_in: str = ""
    ) -> bool:
        """Let the claim name this notice in place of `owner`. False if it does not name `owner` any more."""
        return self._applied(transitions.index_over(notice_id, upload, ending, owner=owner, rows_in=rows_in))

    def index_rows(self, owner: str, upload: Upload, table: str) -> bool:
        """Note in the claim that `table` has rows of the upload, too. False if it does not name `owner` any more."""
        return self._applied(transitions.index_rows(owner, upload, table))

    def index_batch(
        self, batch: Batch, receipt: Receipt | None, back: Mapping[str, int], *, announce: bool = False
    ) -> bool:
        """Write the record of a batch, and count it if it has ended; with `announce`, note a committed one in the
        outbox. False if there is a record."""
        now, retention = self.clock(), self.claim_retention
        return self._applied(
            transitions.index_batch(batch, receipt, back, announce=announce, now=now, retention=retention)
        )

    def _applied(self, transition: Transition) -> bool:
        return isinstance(self.store.apply(transition), Applied)


def _in_the_way(uploads: Sequence[Upload], done: Sequence[Applied | Refused]) -> dict[Upload, Claim]:
    found: dict[Upload, Claim] = {}
    for upload, each in zip(uploads, done, strict=True):
        if isinstance(each, Refused):
            if each.there[0] is None:
                # the write required an owner, and there is no claim: it expired and was deleted in between
                raise Retryable(f"the claim on {upload} changed while it was being taken; it will be tried again")
            found[upload] = decode_claim(each.there[0])
    return found


def _came_again(written: Iterable[tuple[Ending, Applied | Refused]]) -> Iterator[Entry]:
    for ending, done in written:
        later = decode_claim(done.item).later if isinstance(done, Applied) and done.item else ""
        if later:
            # the size is only a hint, and the claim does not store it
            yield Entry(Upload(ending.bucket, ending.key, ending.version, 0, later), takes_from=ending.notice)

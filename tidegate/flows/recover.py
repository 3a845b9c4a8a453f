"""Recover: write into a ledger that was restored to an earlier time what the work bucket has recorded since.

The ledger has lost everything after that time: claims, registrations, batches. The work bucket has lost nothing. Its
manifests are final, because only what a manifest lists can ever be in the table. So, batch by batch:

- Uploads that a manifest lists are claimed and registered again, for the same notices.
- Uploads that no manifest lists cannot be in the table. They are sent again, and claims decide which notice owns them.
- A notice that joined an open batch before this ran, and conflicts with the above, is taken out of that batch.
- An upload that an earlier batch has landed belongs to the later one whose manifest lists it, too. No other notice than
  that of a backfill lists what has landed: its rows were removed, or the later batch goes to another table.

Each line below is done for every batch before the next line begins, so that all claims exist before uploads are sent.

    line                                if it dies right after it             if a second recover runs beside it
    1 the notices of manifests          the next one finds them registered    conditional on what was read: one writes,
                                                                              the other finds the same
    2 strays are let go: their notice   void stays void; the claims still     the same
      is void, or the claim ABANDONED   name it, so line 4 finds them again
    3 claims of listed uploads, and     existing claims are read and left;    each claim is one conditional put, of the
      the endings of decided batches    the same endings again                same notice
      what each notice took over        the notice's record is still marked   one transaction takes the mark of line 1
      leaves the sums that it was in    as not counted: the next one counts   away, and counts
    4 send strays again                 the same uploads in the same notice,  two deliveries of one notice
                                        or fewer: claims refuse the rest
    5 the header of the batch           done                                  conditional on what was read: one writes

Line 5 is last for each batch. Until then a batch whose header differs from its manifest cannot settle, so none of its
uploads is recorded as committed while a stray could still be lost.

What may happen at the same time:

- Dispatch registers a notice in a batch before line 5: that changes the header, line 5 is refused, and the batch is
  read again.
- Dispatch has claimed uploads for a notice and not registered it: line 2 may void the notice, if it has a part. Line 4
  sends its part's uploads, and dispatch sends what the void notice still owns. One of the two takes each upload over.
- An audit finds uploads without claims, which line 3 has not claimed yet, and sends them. Their notices wait for
  dispatch. So switch dispatch and the audit off; if one was on, run recover once more.
- Settle seals and hands off consistent batches, and line 5 leaves these alone. It halts the others, and line 5 removes
  the halt. It settles a batch only after line 5, when the claims exist.
- A job reads the manifest and the table. It never reads the ledger.
- Settings change: the manifest names the route and the table. A route that neither the ledger nor the configuration
  has is reported, and its batches are left as they are. Uploads that no manifest lists go to the route of their batch,
  or to the one that would take them today.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim, CountedAs, LetGo
from tidegate.core.errors import Rejected, Retryable, TidegateError
from tidegate.core.manifests import Sealed, batch_folder, decode_part, decode_sealed, notice_of_part
from tidegate.core.notices import Entry, Notice, NoticeRecord, pack_entries
from tidegate.core.outcomes import ABANDONED, Outcome
from tidegate.core.receipts import Ending, Receipt, decode_outcomes, decode_receipt
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.ports import Ports

ORIGIN_RECOVER = "recover"
"""The origin of notices with uploads that no manifest lists."""
BATCHES = "batches/"
PORTION = 1_000
TRIES = 3
"""How often a batch that changes while it is put right is read again."""

Identity = tuple[str, str, str]


class Leaves(Enum):
    """How a notice leaves a batch that it joined after the ledger was restored."""

    FREELY = auto()  # that batch does not publish its uploads: its manifest lacks the notice, or it is abandoned
    WITHDRAWN = auto()  # that batch is open: subtract the notice from it
    NO_MORE = auto()  # that batch was sealed with the notice, which cannot leave


class SilentTopic:
    """`flows.ports.Topic` of a rehearsal: it accepts every notice and sends none."""

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        return frozenset(notice.id for notice in notices)


@dataclass(frozen=True, slots=True)
class Clash:
    """Uploads that the manifest of `batch` lists, and that `other` (a batch, or a notice without one) has, too."""

    batch: str
    other: str
    uploads: int
    example: str


@dataclass(slots=True)
class Recovered:
    """What was done, or in a rehearsal would be. `sealed` and `submitted` are batches whose header was put right,
    `withdrawn` notices taken out of an open batch, `sent` uploads sent again."""

    batches: int = 0
    claims: int = 0
    notices: int = 0
    withdrawn: int = 0
    sealed: int = 0
    submitted: int = 0
    sent: int = 0
    clashes: list[Clash] = field(default_factory=list)
    once_more: list[Clash] = field(default_factory=list)
    """What an earlier batch (`other`) has landed in the same table, and belongs to `batch` now."""
    unknown_routes: dict[str, list[str]] = field(default_factory=dict)
    """The batches of each route that neither the ledger nor the configuration has."""
    troubles: list[str] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return not (self.clashes or self.unknown_routes or self.troubles)


@dataclass(frozen=True, slots=True)
class _Look:
    """What was read of one batch. `header` and `records` (the notices of its parts) are the ledger's records."""

    id: str
    header: Batch | None
    sealed: Sealed | None
    names: tuple[str, ...]
    records: Mapping[str, NoticeRecord]

    @property
    def ended(self) -> bool:
        return self.header is not None and self.header.state in (State.COMMITTED, State.ABANDONED)

    @property
    def listed(self) -> dict[str, str]:
        """The part that the manifest lists, by notice; empty without a manifest."""
        return {notice_of_part(name): name for name in self.sealed.parts} if self.sealed else {}

    @property
    def route(self) -> str:
        return self.sealed.route if self.sealed else self.header.route if self.header else ""


@dataclass(frozen=True, slots=True)
class _Strays:
    """Uploads of one part that are in no manifest and in no open batch, and whose claim, if there is one, names the
    part's notice. `stays`: the notice is registered with other uploads, and remains so."""

    notice: str
    record: NoticeRecord | None
    uploads: Sequence[Upload]
    claimed: bool
    stays: bool


@dataclass(frozen=True, slots=True)
class _Landing:
    """A published batch: all its uploads have rows in `table` but for those `without_rows`."""

    route: str
    table: str
    without_rows: frozenset[Identity]


@dataclass(frozen=True, slots=True)
class WholeLedger:
    """What recovering does besides, if the ledger is lost as a whole (`tidegate.flows.rebuild`).

    `also`   unfinished batches before `oldest`, which a lost ledger cannot name
    `hold`   batches that must not be handed off, and why: their claims are written, their headers are not
    `end`    is called with each batch whose header is right, last of all
    `tell`   is called with the number of the line (1 to 4) and of its batches that are done, after each
    """

    also: tuple[str, ...] = ()
    hold: Mapping[str, str] = field(default_factory=dict)
    end: Callable[[str], None] = lambda batch_id: None
    tell: Callable[[int, int], None] = lambda line, batches: None


NOT_WHOLE = WholeLedger()


def recover(
    ports: Ports,
    *,
    configured: Mapping[str, Route],
    oldest: str,
    made_at: Callable[[str], int],
    whole: WholeLedger = NOT_WHOLE,
) -> Recovered:
    """Put right the ledger's records of every batch from the id `oldest` on, and of every unfinished one.

    `made_at` returns when a batch id was made. A damaged batch does not stop the others. Raises Retryable or
    OutcomeUnknown if AWS does not answer, or if the ledger keeps changing: call it again, it continues.
    """
    routes = {**ports.ledger.known_routes(), **configured}
    run = _Run(ports, routes, oldest, made_at, whole)
    for number, line in enumerate((run.notices, run.let_go, run.claims, run.send_and_put_right), start=1):
        for done, batch_id in enumerate(run.batch_ids(), start=1):
            run.do(line, batch_id)
            whole.tell(number, done)
    return run.report


@dataclass
class _Run:
    ports: Ports
    routes: Mapping[str, Route]
    oldest: str
    made_at: Callable[[str], int]
    whole: WholeLedger
    report: Recovered = field(default_factory=Recovered)
    left: set[str] = field(default_factory=set)
    """Batches with an error, or of an unknown route."""
    remembered: set[str] = field(default_factory=set)
    """The routes that the ledger knows."""
    landings: dict[str, _Landing] = field(default_factory=dict)

    def batch_ids(self) -> Iterator[str]:
        """The oldest first: a notice that takes an upload over comes after the one that let it go."""
        unfinished = {each for name in self.routes for each in self.ports.ledger.route(name).unfinished}
        unfinished.update(self.whole.also)
        yield from sorted(each for each in unfinished if each < self.oldest)
        yield from self.ports.work.folders(BATCHES, self.oldest)

    def do(self, line: Callable[[_Look], None], batch_id: str) -> None:
        if batch_id in self.left:
            return
        try:
            look = self.look(batch_id)
            if line == self.notices:
                self.report.batches += 1
                if look.route and look.route not in self.routes:
                    self.report.unknown_routes.setdefault(look.route, []).append(batch_id)
                    self.left.add(batch_id)
                    return
                self.remember(look.route)
            line(look)
        except Exception as error:
            if isinstance(error, TidegateError) and not isinstance(error, Rejected):
                raise
            # a file is damaged or missing: go on with the other batches
            self.left.add(batch_id)
            what = str(error) if isinstance(error, Rejected) else f"{type(error).__name__}: {error}"
            self.report.troubles.append(f"batch {batch_id}: {what}")

    def remember(self, name: str) -> None:
        """As dispatch does, before any notice joins: settling then finds the route's batches, even if the configuration
        loses it before settling runs again."""
        if name in self.routes and name not in self.remembered:
            if self.ports.ledger.known_route(name) is None:
                self.ports.ledger.remember_route(self.routes[name])
            self.remembered.add(name)

    def look(self, batch_id: str) -> _Look:
        # the header first: a later registration changes it, and line 5 is then refused
        header = self.ports.ledger.batch(batch_id)
        folder = batch_folder(batch_id)
        body = self.ports.work.get(folder + "sealed.json")
        sealed = decode_sealed(body) if body else None
        names = sorted(name.removeprefix(folder) for name in self.ports.work.names(folder + "parts/"))
        listed = sealed.parts if sealed else ()
        records = self.ports.ledger.notices({notice_of_part(name) for name in (*names, *listed)})
        return _Look(batch_id, header, sealed, tuple(names), records)

    def part(self, batch_id: str, name: str) -> list[Upload]:
        body = self.ports.work.get(batch_folder(batch_id) + name)
        if body is None:
            missing = batch_folder(batch_id) + name
            raise Rejected(f"{missing} is missing in the work bucket; restore it and run this again")
        return [item.upload for item in decode_part(body)]

    # ---- 1: the notices of manifests

    def notices(self, look: _Look) -> None:
        if look.sealed is None or look.ended:
            return
        for notice, name in look.listed.items():
            there = look.records.get(notice)
            if there and (there.batch, there.part) == (look.id, name):
                continue
            uploads = self.part(look.id, name)
            size = sum(each.size for each in uploads)
            becomes = NoticeRecord(notice, look.sealed.route, look.id, name, len(uploads), size, 0)
            leaves = self._leaves(there, look.id) if there else Leaves.FREELY
            if there and leaves is Leaves.NO_MORE:
                self.report.clashes.append(Clash(look.id, there.batch, len(uploads), str(uploads[0])))
                continue
            self._write(becomes, there, withdraw=leaves is Leaves.WITHDRAWN)
            self.report.notices += 1

    def _leaves(self, record: NoticeRecord, for_batch: str) -> Leaves:
        """How a notice leaves its batch in the ledger, for the batch whose manifest lists it."""
        if record.void or record.batch == for_batch:
            return Leaves.FREELY
        batch = self.ports.ledger.batch(record.batch)
        if batch and batch.state is State.OPEN:
            return Leaves.WITHDRAWN
        if batch and batch.state is State.ABANDONED:
            return Leaves.FREELY
        body = self.ports.work.get(batch_folder(record.batch) + "sealed.json")
        return Leaves.FREELY if body and record.part not in decode_sealed(body).parts else Leaves.NO_MORE

    def _write(self, becomes: NoticeRecord, there: NoticeRecord | None, *, withdraw: bool = False) -> None:
        if self.ports.ledger.write_notice(becomes, there, withdraw=withdraw):
            self.report.withdrawn += withdraw
            return
        now = self.ports.ledger.notice(becomes.id)
        if now is None or (now.batch, now.part) != (becomes.batch, becomes.part):
            raise Retryable(f"notice {becomes.id} changed while it was put right: is something running? Run this again")

    # ---- 2: strays are let go

    def strays(self, look: _Look) -> Iterator[_Strays]:
        for name in look.names:
            notice = notice_of_part(name)
            record = look.records.get(notice)
            counts = self._counts(look, notice, record)
            # the part of this name that counts has the same content
            if counts and counts[1] == name:
                continue
            kept = {each.identity for each in self.part(*counts)} if counts else set()
            uploads = [each for each in self.part(look.id, name) if each.identity not in kept]
            there = self.ports.ledger.claims_on(uploads)
            claims = [there.get(each.identity) for each in uploads]
            found = [each for each, claim in zip(uploads, claims, strict=True) if not claim or claim.notice == notice]
            if found:
                yield _Strays(notice, record, found, any(claims), stays=counts is not None)

    def _counts(self, look: _Look, notice: str, record: NoticeRecord | None) -> tuple[str, str] | None:
        """The batch and the part through which the notice's uploads may be published."""
        if notice in look.listed:
            return look.id, look.listed[notice]
        if record is None or record.void or (look.sealed and record.batch == look.id):
            return None
        return record.batch, record.part

    def let_go(self, look: _Look) -> None:
        for strays in self.strays(look):
            self._let_go(look, strays)

    def _let_go(self, look: _Look, strays: _Strays) -> None:
        if strays.stays:
            self._end([_abandoned(strays.notice, each) for each in strays.uploads])
        elif strays.record is None:
            # an unclaimed notice need not be void: if it is delivered, claims decide
            if strays.claimed:
                self.ports.ledger.void(strays.notice, self._route_of(look, strays.uploads[0]))
        elif not strays.record.void:
            self._write(_void(strays.record), strays.record)

    def _end(self, endings: Sequence[Ending]) -> None:
        for start in range(0, len(endings), PORTION):
            # uploads repeated meanwhile: settling this batch returns them too, or line 4 sends them
            self.ports.ledger.record_endings(endings[start : start + PORTION])

    # ---- 3: the claims of listed uploads

    def claims(self, look: _Look) -> None:
        if look.ended:
            return
        endings = self._endings(look)
        parts = look.listed or {
            notice: record.part
            for notice, record in look.records.items()
            if look.sealed is None and record.batch == look.id and record.part in look.names
        }
        for notice, name in parts.items():
            found = self.part(look.id, name)
            self._claim(look, notice, found, endings)
            record = look.records.get(notice)
            if record and record.uncounted:
                # before a later batch takes over from this one: its claims then tell of that
                self.ports.ledger.count_back(notice, found)
            self._end([endings[each.identity] for each in found if each.identity in endings])

    def _claim(self, look: _Look, notice: str, uploads: list[Upload], endings: Mapping[Identity, Ending]) -> None:
        there = self.ports.ledger.claims_on(uploads)
        others = {identity: claim for identity, claim in there.items() if claim.notice != notice}
        let_go = dict(self.ports.ledger.let_go(others.values()))
        landed = self._landed_before(look, {each: claim for each, claim in others.items() if claim not in let_go})
        let_go |= landed
        earlier = self._earlier([claim for claim in others.values() if claim in let_go], look.id) if endings else ()
        wanted: list[Upload] = []
        taken: list[tuple[Upload, Claim]] = []
        for upload in uploads:
            claim = there.get(upload.identity)
            if claim is None:
                wanted.append(upload)
            elif upload.identity in endings:
                # it ended without a row, so a notice of a later batch may have taken it over since
                if claim.notice in earlier:
                    wanted.append(upload)
            elif claim.notice == notice:
                # an ending that the receipt lacks is that of another batch, which had the notice and is abandoned
                if claim.outcome:
                    wanted.append(upload)
            elif claim in let_go:
                wanted.append(upload)
            else:
                taken.append((upload, claim))
        refused = self.ports.ledger.take_back(notice, wanted, landed)
        self.report.claims += len(wanted) - len(refused)
        by_owner: dict[str, list[Upload]] = defaultdict(list)
        # a twin may have moved what ended without a row on, to the batch that took it over
        for upload, claim in (*taken, *(each for each in refused if each[0].identity not in endings)):
            by_owner[claim.notice].append(upload)
        for owner, theirs in by_owner.items():
            record = self.ports.ledger.notice(owner)
            if record and self._leaves(record, look.id) is Leaves.WITHDRAWN:
                self._write(_void(record), record, withdraw=True)
                theirs = [each for each, _ in self.ports.ledger.take_back(notice, theirs)]
            if theirs:
                other = record.batch if record and record.batch else f"notice {owner}"
                self.report.clashes.append(Clash(look.id, other, len(theirs), str(theirs[0])))

    def _landed_before(self, look: _Look, claims: Mapping[Identity, Claim]) -> Mapping[Claim, LetGo]:
        """Of these claims on uploads that the batch's manifest lists: those of earlier batches that have landed them,
        and what the next owner gets with each."""
        if look.sealed is None or not claims:
            return {}
        owners = self.ports.ledger.notices({claim.notice for claim in claims.values()})
        earlier = {owner.batch: self._landing(owner.batch) for owner in owners.values() if "" < owner.batch < look.id}
        found: dict[Claim, LetGo] = {}
        same: dict[str, list[Identity]] = defaultdict(list)
        for identity, claim in claims.items():
            batch = owners[claim.notice].batch if claim.notice in owners else ""
            before = earlier.get(batch)
            if before is None or identity in before.without_rows:
                continue
            if before.table == look.sealed.table:
                same[batch].append(identity)
            rows_in = claim.rows_in | ({before.table} - {look.sealed.table})
            found[claim] = LetGo(CountedAs(before.route, Outcome.COMMITTED.value), rows_in, landed=True)
        for batch, uploads in same.items():
            bucket, key, version = uploads[0]
            self.report.once_more.append(Clash(look.id, batch, len(uploads), f"s3://{bucket}/{key} ({version})"))
        return found

    def _landing(self, batch_id: str) -> _Landing | None:
        """What a batch has landed, by its files, which are final by then; None if it is not published, or fenced."""
        if batch_id not in self.landings:
            look = self.look(batch_id)
            receipt = self._receipt(look)
            if look.sealed is None or receipt is None or receipt.fence:
                return None
            self.landings[batch_id] = _Landing(look.sealed.route, look.sealed.table, frozenset(self._endings(look)))
        return self.landings[batch_id]

    def _earlier(self, claims: Sequence[Claim], batch: str) -> frozenset[str]:
        """The notices of these claims that are of earlier batches."""
        owners = self.ports.ledger.notices({claim.notice for claim in claims}) if claims else {}
        return frozenset(each for each, owner in owners.items() if owner.batch and owner.batch < batch)

    def _endings(self, look: _Look) -> dict[Identity, Ending]:
        """The endings of a decided batch's uploads that ended without a row."""
        receipt = self._receipt(look)
        if look.sealed is None or receipt is None:
            return {}
        if receipt.fence:
            return {
                each.identity: _abandoned(notice, each)
                for notice, name in look.listed.items()
                for each in self.part(look.id, name)
            }
        name = f"{batch_folder(look.id)}outcomes/{receipt.staged}.jsonl.gz"
        body = self.ports.work.get(name)
        if body is None:
            raise Rejected(f"{name} is missing in the work bucket; restore it and run this again")
        return {(each.bucket, each.key, each.version): each for each in decode_outcomes(body).endings}

    def _receipt(self, look: _Look) -> Receipt | None:
        body = self.ports.work.get(batch_folder(look.id) + "receipt.json")
        return decode_receipt(body) if body else None

    # ---- 4 and 5: send strays again, and make the header match the manifest

    def send_and_put_right(self, look: _Look) -> None:
        for _ in range(TRIES):
            for strays in self.strays(look):
                self._let_go(look, strays)
                self._send(look, strays)
            if look.sealed is None or look.ended:
                return
            if look.id in self.whole.hold:
                raise Rejected(self.whole.hold[look.id])
            if self._put_right(look, look.sealed):
                self.whole.end(look.id)
                return
            look = self.look(look.id)
        raise Retryable(f"batch {look.id} changed {TRIES} times while it was put right: switch dispatch and settle off")

    def _send(self, look: _Look, strays: _Strays) -> None:
        by_place: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        owner = "" if strays.record is None and not strays.claimed else strays.notice
        for upload in strays.uploads:
            by_place[self._route_of(look, upload), upload.bucket].append(Entry(upload, takes_from=owner))
        for (route, bucket), entries in by_place.items():
            # no younger than the batch: dispatch sets aside what may have landed before the ledger's memory (rule 13)
            at = self.made_at(look.id)
            notices = list(pack_entries(route, bucket, entries, origin=ORIGIN_RECOVER, at=at))
            if len(self.ports.topic.publish(notices)) < len(notices):
                raise Retryable(f"batch {look.id}: the topic did not take the notice of {len(entries)} uploads")
            self.report.sent += len(entries)

    def _route_of(self, look: _Look, upload: Upload) -> str:
        if look.route:
            return look.route
        # a retired route only if no other would take it
        by_age = sorted(self.routes.values(), key=lambda each: each.retired)
        for route in by_age:
            if route.takes(upload):
                return route.name
        raise Rejected(f"no route takes {upload}, which is in no manifest; add one that does and run this again")

    def _put_right(self, look: _Look, sealed: Sealed) -> bool:
        """Make the header match the manifest; False if it changed meanwhile."""
        there = look.header
        decided = self._receipt(look) is not None
        if there and _fits(there, sealed):
            record = self.ports.ledger.route(sealed.route)
            if there.state is State.SUBMITTED and look.id in record.submitted:
                return True
            if there.state is State.SEALED and look.id in record.sealed and not decided:
                return True
        elif there and there.state is State.SUBMITTED:
            raise Rejected(
                f"it was handed off with {there.objects} uploads (digest {there.manifest}, table {there.table!r}), and"
                f" sealed.json lists {sealed.objects} (digest {sealed.digest}, table {sealed.table!r}): one of the two"
                " was changed by hand. It is left as it is"
            )
        now = self.ports.clock()
        submitted = decided or (there is not None and there.state is State.SUBMITTED)
        becomes = Batch(
            id=look.id,
            route=sealed.route,
            state=State.SUBMITTED if submitted else State.SEALED,
            opened_at=there.opened_at if there else self.made_at(look.id),
            objects=sealed.objects,
            bytes=sealed.size,
            notices=len(sealed.parts),
            attempt=max(1, there.attempt if there else 0) if submitted else 0,
            sealed_at=there.sealed_at if there and there.sealed_at else now,
            submitted_at=now if submitted else 0,
            # the table that a job got, if there was one: the header may have been sealed anew for the route's new table
            table=sealed.table or (there.table if there else "") or self.routes[sealed.route].dataset.table,
            manifest=sealed.digest,
        )
        if not self.ports.ledger.restore_batch(becomes, there):
            return False
        if submitted:
            self.report.submitted += 1
        else:
            self.report.sealed += 1
        return True


def _fits(header: Batch, sealed: Sealed) -> bool:
    says = (header.notices, header.objects, header.bytes)
    same_table = not sealed.table or header.table in ("", sealed.table)
    fits = says == (len(sealed.parts), sealed.objects, sealed.size) and header.manifest in ("", sealed.digest)
    return fits and same_table


def _void(record: NoticeRecord) -> NoticeRecord:
    return NoticeRecord(record.id, record.route, "", "", 0, 0, record.decided_at)


def _abandoned(notice: str, upload: Upload) -> Ending:
    return Ending(notice, upload.bucket, upload.key, upload.version, ABANDONED, "")

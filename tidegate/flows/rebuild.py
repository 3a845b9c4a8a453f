"""Rebuild: build a ledger anew, from the work bucket and from what the tables hold.

The ledger is an index of both. Whatever has happened to it (it is lost, damaged, or a backup of it is all that is left)
it is never put right: an empty table is filled, and its last record says that it is whole (`core.records.WHOLE`). While
that record is missing, every function and every other verb refuses to work (`stores.guarded`). So nothing else reads or
writes while this runs, but for a twin of it.

    line                                    if it dies right after it              if a twin runs beside it
    1 read the lineage of each table        nothing has happened                   both read the same, or one a later
                                                                                   snapshot
    2 parts of a batch without manifest     files that no manifest lists: line 8   the same names, or others beside them
                                            sends what no claim is on
    3 its outcomes and its receipt, also    a batch without a manifest is read by  either receipt is of a list of
      in place of one that is there         nobody; the next one writes both anew  uploads that are in the table
    4 its manifest, if there is none        done; the next one finds it            one writes it. If it is the other
                                                                                   twin's list, the receipt may not fit
                                                                                   it: the batch is told to differ
    5 the notices of each manifest          the next one finds them                each is written if there is none
    6 the claims of what they list          the next one finds them, or moves      a claim moves to the batch that ranks
                                            them to the batch that ranks higher    higher, whoever moves it
    7 the record of each batch, and sums    the next one finds the record, which   one transaction writes both, if there
                                            was counted with it                    is no record
    8 send what no manifest lists           the same uploads in the same notice,   two deliveries of one notice
                                            or fewer: claims refuse the rest
    9 the ledger is whole                   done                                   the same

Lines 1 to 4 are for what the tables hold and the work bucket does not know: that bucket is lost too, or an earlier
deployment filled the table. It is written into the work bucket as a folder with parts, manifest and receipt, as if this
deployment had published that batch. Each further line is done for every batch before the next line begins.

**Who owns an upload that several manifests list.** The batch that ranks highest: one that is undecided before one that
has landed it, that one before one that ended it without a row or whose rows were removed, and among equals the younger.
That is who took it over: an undecided batch never lets go, so nobody took it from there. Two
undecided batches cannot both own it, and the ledger does not become whole before a person has seen to it. Clocks
differ, and so do the times in ids: of two batches that gathered it within that difference and ended it without a row,
the claim may name the earlier. Both have let go, and the sums hold.

**Which claims.** Those of the batches from `oldest` on. A ledger that was never lost would remember uploads for
`claims`, and rule 13 sets aside what is older. A batch may gather for a day before it is sealed, so `oldest` is a day
and an hour before that (`core.batches.oldest_remembered`). Older batches that have not ended (a manifest, and no
receipt) are taken whatever their age: one may be halted for longer than `claims`, and still be published.

**What a backfill had under way.** It sends what has landed once more: for another table, or because its rows were
removed. That a batch never brings its rows again is in the work bucket before the ledger knows it (`removed.json`). So
its notice lands also if the ledger is lost before it is delivered; and what was gathered, and is in no manifest, is
sent again: the job sees what is there.

**The sums.** Each batch is counted once, with its record. What a batch of higher rank owns has left the sums again, as
if it had been gathered once more. What the sums have lost: batches before `oldest`, duplicates refused, and jobs. A
batch that line 4 wrote has the uploads with rows, as committed: files without a row, and those that ended otherwise,
have left no row. A person's word on uploads (dropped, to be sent again) is lost with the ledger. A batch that was to be
fenced is published, if its fence was not yet in the table.

**What is announced.** Nobody knows which announcements were sent before. So what was opened within a day is announced
again: an inbox drops what it has seen. An older batch whose announcement still waited is not announced.

**A job may run meanwhile.** If its manifest is there, the claims of all its uploads are, whatever the lineage says. If
its receipt comes after line 6, its claims are written once more with their endings, before its record. If the work
bucket is lost, a batch that is published after line 1 is in neither: wait until no job runs.

**Settings change.** The manifest that line 4 writes names the route and the table of today: the route that takes the
upload, among those of the table. A table that no route names is not read. An undecided batch of a route that the
configuration lacks is reported: a job could not read it. So are the routes of ended batches that it lacks, and then the
ledger is whole all the same.

**What it costs.** One lineage job for each table. For each batch a listing and some 9 reads of the work bucket, and
each of its parts twice. For each upload that is claimed: two reads of its claim, 100 of them with one request, and 1
write. Memory holds the uploads of a batch, and the id of each batch.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.core.batches import LONGEST_OPEN, Batch, State
from tidegate.core.claims import Claim, has_landed
from tidegate.core.errors import Rejected, Retryable, TidegateError
from tidegate.core.manifests import BATCHES, batch_folder, decode_part, notice_of_part, removed_name
from tidegate.core.notices import ORIGIN_RELOAD, Entry, NoticeRecord
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import Ending
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.batch_files import BatchFiles, endings_of, files_of, parts_of, unfinished_before
from tidegate.flows.from_rows import FromRows, Tell, write_from_rows
from tidegate.flows.ports import Ports
from tidegate.flows.send import send

ORIGIN_REBUILD = "rebuild"
"""The origin of notices with uploads that no manifest lists."""
TRIES = 3
"""How often a claim may change while it is moved: only a twin changes it."""
TOLD_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class Twice:
    """Uploads that `batch` owns, and that an earlier batch (`other`) has landed in the same table: their rows were
    removed in between, or are there twice. `reconcile` tells."""

    batch: str
    other: str
    uploads: int
    example: str


@dataclass(slots=True)
class Rebuilt:
    """What was done, or in a rehearsal would be.

    `rows`       what was found in the tables, and written into the work bucket
    `batches`    batches that were read
    `claims`     claims that were written, or moved
    `ended`      batches that were recorded as ended
    `waiting`    batches that were recorded as sealed: a job follows
    `sent`       uploads that were sent again
    `whole`      the ledger is whole
    """

    rows: FromRows = field(default_factory=FromRows)
    batches: int = 0
    claims: int = 0
    ended: int = 0
    waiting: int = 0
    sent: int = 0
    twice: list[Twice] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    """What a person must see to before the ledger can be whole."""
    unknown_routes: set[str] = field(default_factory=set)
    """Routes of batches that have ended, and that the configuration lacks. The lost ledger knew their settings. Nobody
    sees what these have in quarantine, or sends it, until they are named again."""
    whole: bool = False


def rebuild(
    ports: Ports,
    *,
    configured: Mapping[str, Route],
    oldest: str,
    made_at: Callable[[str], int],
    tell: Tell = lambda said: None,
) -> Rebuilt:
    """Build the ledger's records of every batch from the id `oldest` on, and of older ones that have not ended.

    The ledger of `ports` is not guarded. `made_at` returns when a batch id was made, and raises ValueError if it is
    none. Raises Rejected if the ledger is whole, or if a table's lineage cannot be used; Retryable or OutcomeUnknown if
    AWS does not answer: call it again, it continues.
    """
    # a new deployment, which has taken nothing yet, may take over tables that another one has filled
    if ports.ledger.is_whole() and next(iter(ports.work.folders(BATCHES, "")), None) is not None:
        raise Rejected(
            "the ledger is whole, and is never put right in place. If it is damaged, or was restored from a backup,"
            " delete its table, make an empty one of the same name, and rebuild that"
        )
    ports.ledger.begin_rebuild()
    run = _Rebuilding(ports, configured, oldest, made_at, tell)
    run.report.rows = write_from_rows(ports, routes=configured, oldest=oldest, made_at=made_at, tell=tell)
    for route in configured.values():
        ports.ledger.remember_route(route)
    tell("looking for older batches that have not ended")
    batches = [*unfinished_before(oldest, ports.work), *ports.work.folders(BATCHES, oldest)]
    run.each("claims", reversed(batches), run.claims)
    # a batch whose claims are missing would be left out of what others are counted for
    for line, do in (("records", run.record), ("uploads in no manifest", run.send)):
        if not run.report.troubles:
            run.each(line, batches, do)
    if not run.report.troubles:
        ports.ledger.end_rebuild()
        run.report.whole = True
    return run.report


@dataclass
class _Rebuilding:
    ports: Ports
    routes: Mapping[str, Route]
    oldest: str
    made_at: Callable[[str], int]
    tell: Tell
    report: Rebuilt = field(default_factory=Rebuilt)
    receipts: dict[str, bool] = field(default_factory=dict)
    """Batches that had a receipt when their claims were written, and whether it told of a fence."""
    _files: dict[str, BatchFiles | None] = field(default_factory=dict)
    """Of the batches that share an upload with another one."""
    _removed: dict[str, bool] = field(default_factory=dict)
    """Of these, whether their rows were removed."""

    def each(self, what: str, batches: Iterable[str], line: Callable[[str], None]) -> None:
        """Do a line for each batch. A damaged batch does not stop the others."""
        for done, batch_id in enumerate(batches, start=1):
            try:
                line(batch_id)
            except Exception as error:
                if isinstance(error, TidegateError) and not isinstance(error, Rejected):
                    raise
                said = str(error) if isinstance(error, Rejected) else f"{type(error).__name__}: {error}"
                trouble = f"batch {batch_id}: {said}"
                if trouble not in self.report.troubles:
                    self.report.troubles.append(trouble)
            if done % TOLD_EVERY == 0:
                self.tell(f"{what}: {done} batches done")

    # ---- 5 and 6: who owns what the manifests list

    def claims(self, batch_id: str) -> None:
        files = files_of(batch_id, self.ports.work)
        if files is None:
            return
        found = parts_of(batch_id, files, self.ports.work)
        endings = endings_of(batch_id, files, found, self.ports.work)
        if files.receipt:
            self.receipts[batch_id] = files.receipt.fence
        records = [
            NoticeRecord(
                notice_of_part(name),
                files.sealed.route,
                batch_id,
                name,
                len(owned),
                sum(each.upload.size for each in owned),
                0,
            )
            for name, owned in found.items()
        ]
        for known in self.ports.ledger.index_notices(records).values():
            if known.batch != batch_id:
                raise Rejected(f"notice {known.id} is in its manifest, and in that of batch {known.batch}: keep one")
        twice: dict[str, list[Upload]] = defaultdict(list)
        for record in records:
            uploads = [each.upload for each in found[record.part]]
            others = self.ports.ledger.index_claims(record.id, uploads, endings)
            self.report.claims += len(uploads) - len(others)
            for upload, there in others.items():
                ending = endings.get(upload.identity)
                if there.notice != record.id:
                    if other := self._settle_between(batch_id, files, record.id, upload, ending, there):
                        twice[other].append(upload)
                elif there.outcome != (str(ending.outcome) if ending else ""):
                    # it was written before the batch had its receipt, or while it had another one
                    self.ports.ledger.index_over(record.id, upload, ending, owner=record.id)
        for other, uploads in twice.items():
            self.report.twice.append(Twice(max(batch_id, other), min(batch_id, other), len(uploads), str(uploads[0])))

    def _settle_between(
        self, batch_id: str, files: BatchFiles, notice: str, upload: Upload, ending: Ending | None, there: Claim
    ) -> str:
        """Let the batch that ranks higher own the upload: this one, or that of the claim which is `there`. Returns the
        other batch if both have landed it in one table."""
        for _ in range(TRIES):
            owner = self.ports.ledger.notice(there.notice)
            theirs = self._files_of(owner.batch) if owner else None
            if owner is None or theirs is None:
                raise Rejected(
                    f"it lists {upload}, which notice {there.notice} owns, and no manifest has that notice: something"
                    " wrote into the ledger before it was rebuilt. Delete its table, make an empty one, and rebuild it"
                )
            mine_first = self._rank(batch_id, files, ending) > self._rank(owner.batch, theirs, there)
            lower = theirs if mine_first else files
            with_rows = ending is None and not there.outcome
            if with_rows and not lower.landed:
                raise Rejected(
                    f"it lists {upload}, and so does batch {owner.batch}; neither is decided. Restore the receipt of"
                    " the one that has ended, and run this again"
                )
            same = with_rows and files.sealed.table == theirs.sealed.table
            if not mine_first or self.ports.ledger.index_over(notice, upload, ending, owner=there.notice):
                self.report.claims += mine_first
                return owner.batch if same else ""
            there = self.ports.ledger.claims_on([upload])[upload.identity]
            if there.notice == notice:
                return ""
        raise Retryable(f"the claim on {upload} changed while it was moved: does another rebuild run? Run this again")

    def _rank(self, batch_id: str, files: BatchFiles, ended: Ending | Claim | None) -> tuple[int, str]:
        """How a batch ranks among those whose manifests list one upload, which it has `ended` so. One whose rows were
        removed ranks with those that ended the upload without a row: of these the latest tells what became of it."""
        if ended is not None and ended.outcome:
            return 0, batch_id
        if not files.landed:
            return 2, batch_id
        if batch_id not in self._removed:
            self._removed[batch_id] = self.ports.work.get(removed_name(batch_id)) is not None
        return int(not self._removed[batch_id]), batch_id

    def _files_of(self, batch_id: str) -> BatchFiles | None:
        if batch_id not in self._files:
            self._files[batch_id] = files_of(batch_id, self.ports.work)
        return self._files[batch_id]

    # ---- 7: the batches

    def record(self, batch_id: str) -> None:
        files = files_of(batch_id, self.ports.work)
        if files is None:
            return
        self.report.batches += 1
        sealed, receipt = files.sealed, files.receipt
        if batch_id in self.report.rows.held:
            raise Rejected(self.report.rows.held[batch_id])
        if sealed.route not in self.routes:
            if receipt is None:
                raise Rejected(
                    f"it waits for a job, and tidegate.toml has no route {sealed.route}, which reads it. Add the route"
                    " and run this again"
                )
            self.report.unknown_routes.add(sealed.route)
        batch = Batch(
            id=batch_id,
            route=sealed.route,
            state=State.SEALED,
            opened_at=self.made_at(batch_id),
            objects=sealed.objects,
            bytes=sealed.size,
            notices=len(sealed.parts),
            table=sealed.table,
            manifest=sealed.digest,
            rows_removed=files.landed and self.ports.work.get(removed_name(batch_id)) is not None,
        )
        if receipt and receipt.manifest and receipt.manifest != sealed.digest:
            raise Rejected(
                f"its receipt is of a manifest with the digest {receipt.manifest}, sealed.json has {sealed.digest}: one"
                " of the two was changed by hand"
            )
        if receipt and not receipt.fence and receipt.tally.uploads != sealed.objects:
            raise Rejected(
                f"its receipt accounts for {receipt.tally.uploads} uploads, its manifest for {sealed.objects}: one of"
                " the two was changed by hand"
            )
        if receipt and self.receipts.get(batch_id) is not receipt.fence:
            # its job has ended since, or it was fenced again
            self.claims(batch_id)
        back = self._owned_elsewhere(batch_id, files) if receipt else {}
        young = batch.opened_at >= self.ports.clock() - LONGEST_OPEN
        announce = self.ports.bus is not None and young and receipt is not None and bool(receipt.snapshot)
        if self.ports.ledger.index_batch(batch, receipt, back, announce=announce):
            self.report.ended += receipt is not None
            self.report.waiting += receipt is None

    def _owned_elsewhere(self, batch_id: str, files: BatchFiles) -> Mapping[str, int]:
        """How many of a decided batch's uploads a batch of higher rank owns, by what they are counted as here."""
        parts = parts_of(batch_id, files, self.ports.work)
        endings = endings_of(batch_id, files, parts, self.ports.work)
        found: Counter[str] = Counter()
        for owned in parts.values():
            claims = self.ports.ledger.claims_on(each.upload for each in owned)
            for each in owned:
                claim, ending = claims.get(each.upload.identity), endings.get(each.upload.identity)
                if claim is not None and claim.notice != each.notice:
                    found[str(ending.outcome) if ending else Outcome.COMMITTED.value] += 1
        return found

    # ---- 8: what no manifest lists

    def send(self, batch_id: str) -> None:
        """Uploads of the batch's parts that no manifest lists cannot be in a table: only what a manifest lists can."""
        if batch_id < self.oldest:
            return
        folder = batch_folder(batch_id)
        files = files_of(batch_id, self.ports.work)
        listed = files.sealed.parts if files else ()
        names = [name.removeprefix(folder) for name in self.ports.work.names(folder + "parts/")]
        found: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for name in sorted({*names} - {*listed}):
            body = self.ports.work.get(folder + name)
            owned = decode_part(body) if body else []
            origin = f"{ORIGIN_RELOAD}-{ORIGIN_REBUILD}" if any(each.reloads for each in owned) else ORIGIN_REBUILD
            for entry in self._strays(batch_id, [each.upload for each in owned]):
                found[self._route(files, entry.upload), origin].append(entry)
        for (route, origin), entries in found.items():
            # no younger than the batch: dispatch sets aside what may have landed before the ledger's memory (rule 13)
            send(route, entries, self.ports, origin=origin, at=self.made_at(batch_id))
            self.report.sent += len(entries)

    def _strays(self, batch_id: str, uploads: Sequence[Upload]) -> Iterator[Entry]:
        """Of the uploads of a part that no manifest lists: those that nobody owns, and those that an earlier batch has
        ended without a row, or has landed. The part's notice had taken these over when the part was written: what had
        landed, because a backfill or a resend asked for it. Dispatch refuses what may not land in its table, too."""
        claims = self.ports.ledger.claims_on(uploads)
        owners = self.ports.ledger.owners(claims.values())
        for upload in uploads:
            claim = claims.get(upload.identity)
            if claim is None:
                yield Entry(upload)
                continue
            batch = owners[claim][1]
            if batch and batch.id < batch_id and (has_landed(claim, batch) or claim.outcome):
                # a listing has no sequencer, and the claim may know it from S3's notification
                known = upload if upload.sequencer else replace(upload, sequencer=claim.sequencer)
                yield Entry(known, takes_from=claim.notice)

    def _route(self, files: BatchFiles | None, upload: Upload) -> str:
        if files and files.sealed.route in self.routes:
            return files.sealed.route
        # a retired route only if no other would take it
        for route in sorted(self.routes.values(), key=lambda each: each.retired):
            if route.takes(upload):
                return route.name
        raise Rejected(f"no route takes {upload}, which is in no manifest; add one that does and run this again")

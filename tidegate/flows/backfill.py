"""A backfill: send what is in a bucket and in no table, and is outside the ledger's memory.

    step                                        if the process dies right after it
    1 note the time, `at`                       nothing has happened
    2 list the bucket, and read the claims      nothing has happened
      page by page; keep both on this machine
    3 read which uploads are in the parts of    nothing has happened
      batches that have not ended
    4 read the lineage of the table             a job has run; its files stay in the work bucket
    5 compare, and publish what is missing,     what was published has claims soon, or is on its way. A new backfill
      in notices whose time is `at`             begins at 1, and publishes some of it again: claims refuse it
    6 of what has landed before, and has no     the batch never brings its rows again, and its uploads may be taken
      row in this table: note that its rows     over: the next backfill finds the same, and goes on with 7
      were removed, if they were in this one
    7 publish that, naming the owners           as in 5: of two notices one takes a claim over
    8 wait, so that the queue keeps up          nothing

**Why nothing lands twice.** An upload moves: it is claimed, then its notice is registered in a batch, then the batch is
in the table. Steps 2, 3 and 4 read these three places in the same order. Take an upload U that is in the table at last,
or will be, through a notice N whose claim was put at c.

- c is after 2 read U. Then c is after `at`. Our notice claims only before `at` + `claims` (dispatch sets it aside from
  then on, docs/adr/0044), and the claim of c lives longer. So ours is refused.
- c is before 2 read U, and the claim was live then. Then U is not missing.
- c is before 2 read U, and the claim had expired. A notice is as old as its uploads, or as the reading of their
  claims: older than c. Dispatch sets it aside `CLOCKS` before the claim expires. So N is registered already, or never
  will be. If its batch has not ended at 3, its part is among those that 3 reads: a part is written before its notice is
  registered (rule 2). If the batch has ended by then, it is in the table or abandoned, and 4 reads the table later.

Read in another order, U could move on between two readings. If 2 came last, N could register after 3, its batch be
published after 4, and its claim expire before 2: a notice that a person moved back from the dead letters after nearly
`claims`.

**What has landed before** (docs/adr/0050). The claim of U names a committed batch, and 4 finds no row of U. The batch
was committed when 2 read the claim, so its rows were in its table before 4 read this one.

- *Elsewhere*: the batch went to another table. It never goes to this one, because its table was fixed when it was
  sealed. U lands here once, because its claim moves once. If the route has the other table again by then, the job finds
  the rows there.
- *Removed*: the batch went to this table. So somebody deleted the rows, or rolled the table back past them. After a
  rollback a driver of the batch that is still alive could publish it once more. The history that ends at the snapshot
  that 4 has read tells: it must reach no floor of the batch without meeting it (`core.reconcile.is_fenced`). Else it
  is none of ours: `tidegate resend` of the batch fences it first. Both may act at the same time: each proves that the
  batch never lands again, both name the same owner, and one notice takes the claim over. A batch that only rows tell
  of has no floor. Of what ended as *present* that batch counts which had its rows: the claim names it.
- U has no rows (an empty file): its batch's outcomes say so. Nothing is sent.

**What else may happen.**

- A live notification of U comes at any time: one of the two notices claims U, the other is refused.
- Two backfills at once: both find U missing, and one notice claims it. A notice's id contains the backfill's, so
  neither is taken for a repeat of the other (docs/adr/0005).
- A notice of a backfill is delivered 61 days later, out of an archive or the dead letters: its time is `at`, so
  dispatch sets it aside.
- U is overwritten or deleted after 2: it ends as superseded or vanished.
- Rows were deleted from the table on purpose: what has no row lands again. Whoever starts a backfill is told. If the
  table is rolled back to before that deletion while it is under way, the job finds them, or its floor is gone.
- The table was compacted or rewritten: rows keep the lineage columns.
- An upload landed without a row, and the ledger has forgotten it: it is sent, and lands without a row.
- The route's table was changed: what landed in the former table lands in the new one, too.
- The ledger was made anew: it refuses to answer until it is rebuilt.
- A lineage run of an earlier command is not used: it was read before our step 3, and a batch may have ended in between.

Memory: a page, the uploads of unfinished batches under the prefix, and what listing and lineage have of one key.
"""

import gzip
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO

from tidegate.core.audit import BEGINNING, AuditLimits, Listed, Marker
from tidegate.core.backfill import (
    SENT,
    BackfillCounts,
    BackfillFinding,
    BackfillScope,
    Survey,
    Surveyed,
    compare,
)
from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim, has_landed
from tidegate.core.errors import Retryable
from tidegate.core.manifests import REMOVED, batch_folder, decode_part, removed_name
from tidegate.core.notices import ORIGIN_RELOAD, Entry
from tidegate.core.outcomes import Outcome
from tidegate.core.publication import History
from tidegate.core.quantities import counted
from tidegate.core.reconcile import is_fenced
from tidegate.core.uploads import Upload
from tidegate.flows.audit import Pace
from tidegate.flows.from_rows import NO_SNAPSHOT
from tidegate.flows.outcomes import floors_of, rows_of_uploads
from tidegate.flows.ports import Ports
from tidegate.flows.screen import Judged, judge_page
from tidegate.flows.send import send

AT_ONCE = 2_000
"""How many missing uploads are sent together: a few notices."""
ORIGIN_BACKFILL = "backfill"

TellFound = Callable[[Listed, BackfillFinding], None]
"""Is told of each upload that is not landed."""
TellProgress = Callable[[str], None]


class Surveyings:
    """What step 2 found, on the disk of this machine: it is read once more, in the same order, after the lineage."""

    def __init__(self) -> None:
        # it outlives this call
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="tidegate-backfill-")  # noqa: SIM115
        self._packed = gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=1)

    def add(self, found: Iterable[Surveyed]) -> None:
        for each in found:
            self._packed.write(each.encode())

    def __iter__(self) -> Iterator[Surveyed]:
        self._packed.close()
        self._file.seek(0)
        with gzip.GzipFile(fileobj=self._file, mode="rb") as lines:
            yield from map(Surveyed.decode, lines)

    def close(self) -> None:
        self._packed.close()
        self._file.close()


@dataclass(frozen=True, slots=True)
class Backfill:
    """One command: `id` is new for it. `limits` says how claims are judged, as an audit does."""

    id: str
    limits: AuditLimits
    progress: TellProgress = lambda said: None
    tell: TellFound = lambda listed, finding: None
    dry: bool = False


def survey(scope: BackfillScope, backfill: Backfill, kept: Surveyings, ports: Ports) -> Survey:
    """Steps 1 and 2. `kept` has every upload of the scope then."""
    found = Survey(at=ports.clock())
    after: Marker | None = BEGINNING
    while after:
        page = ports.listing.page(scope.route.bucket, scope.prefix, after, scope.route.owner)
        within = [each for each in page.listed if scope.has(each)]
        looked_at = judge_page(within, backfill.limits, ports.ledger, ports.clock())
        judged = _by_claims(looked_at)
        kept.add(judged)
        free = [each.listed.upload for each in judged if each.claimed is None or scope.reloads]
        elsewhere = [
            each.upload
            for each, said in looked_at.items()
            if not scope.reloads and said.table not in ("", scope.route.dataset.table)
        ]
        found = replace(
            found,
            listed=found.listed + len(page.listed),
            claimed=found.claimed + len(judged) - len(free),
            objects=found.objects + len(free),
            size=found.size + sum(each.size for each in free),
            elsewhere=found.elsewhere + len(elsewhere),
            elsewhere_size=found.elsewhere_size + sum(each.size for each in elsewhere),
            deletions=found.deletions + sum(each.listed.deletion and each.listed.latest for each in judged),
        )
        after = page.after
        backfill.progress(f"route {scope.route.name}: {found.listed:,} versions are listed")
    return found


def _by_claims(judged: Mapping[Listed, Judged]) -> list[Surveyed]:
    # an upload without a claim is free; one whose owner is void has a claim, too, and is not
    return [Surveyed(each, said.finding if said.notice else None, said.same_as) for each, said in judged.items()]


def unfinished_uploads(scope: BackfillScope, ports: Ports) -> set[tuple[str, str, str]]:
    """Step 3: the identities, under the scope's prefix, in all parts of batches that have not ended, of any route. Some
    of these parts may count for another batch, or for none.

    Of a route its record is read once, so no batch is missed that moves from one of its lists to another.
    """
    found: set[tuple[str, str, str]] = set()
    for route in sorted({scope.route.name, *ports.ledger.known_routes()}):
        for batch in ports.ledger.route(route).unfinished:
            for name in ports.work.names(f"{batch_folder(batch)}parts/"):
                body = ports.work.get(name)
                if body is None:
                    raise Retryable(f"{name} is listed in the work bucket, and is not there: run this again")
                found |= {
                    each.upload.identity
                    for each in decode_part(body)
                    if each.upload.bucket == scope.route.bucket and each.upload.key.startswith(scope.prefix)
                }
    return found


def send_missing(
    scope: BackfillScope, backfill: Backfill, surveyed: Survey, kept: Surveyings, ports: Ports, *, pace: Pace
) -> BackfillCounts:
    """Steps 3 to 8. Raises Retryable or OutcomeUnknown: run the command again."""
    unfinished = unfinished_uploads(scope, ports)
    backfill.progress(f"route {scope.route.name}: the lineage of {scope.route.dataset.table} is read")
    history, landed = ports.lineage.with_history(scope.route.dataset.table, scope.uri)
    again = Again(scope.route.dataset.table, history, ports, backfill.dry, scope.reloads, min(surveyed.at, scope.until))
    counts: Counter[BackfillFinding] = Counter()
    size = sent = 0
    replaces, reloads = scope.route.dataset.replaces, scope.reloads
    gone = reloads and scope.whole
    found = compare(kept, landed, unfinished, replaces=replaces, reloads=reloads, tells_gone=gone)
    # a table may have rows of other routes, too
    found = filter(lambda each: each[1] is not BackfillFinding.GONE or each[0].listed.is_of(scope.route), found)
    while portion := list(islice(found, AT_ONCE)):
        judged = again.judged(portion)
        counts.update(judged.values())
        entries: dict[str, list[Entry]] = {ORIGIN_BACKFILL: [], ORIGIN_RELOAD: []}
        for each, finding in judged.items():
            if finding is not BackfillFinding.LANDED:
                backfill.tell(each, finding)
            if finding in SENT:
                size += each.upload.size
                # what has no rows comes as what is missing does: only what had landed may be taken for outdated
                origin = ORIGIN_RELOAD if finding is BackfillFinding.RELOADED else ORIGIN_BACKFILL
                entries[origin].append(again.entry_of(each.upload))
        count = sum(map(len, entries.values()))
        sent += count
        if count and not backfill.dry:
            for origin, found_so in entries.items():
                send(scope.route.name, found_so, ports, origin=f"{origin}-{backfill.id}", at=surveyed.at)
            backfill.progress(f"route {scope.route.name}: {counted(sent, 'upload')} sent")
            pace(count)
    return BackfillCounts(counts, size)


@dataclass
class Again:
    """What has landed before, and has no row in `table` as 4 has read it: whether it may land there, and who owns it.
    With `dry` nothing is noted."""

    table: str
    history: History
    ports: Ports
    dry: bool = False
    reloads: bool = False
    surveyed_at: int = 0
    """Epoch seconds. What was put since is not in the listing, and may be in the table."""
    _claims: Mapping[tuple[str, str, str], Claim] = field(default_factory=dict)
    """Of the portion that was judged last."""

    def entry_of(self, upload: Upload) -> Entry:
        claim = self._claims.get(upload.identity)
        # a listing has no sequencer, and the claim may know it from S3's notification
        return Entry(replace(upload, sequencer=claim.sequencer), takes_from=claim.notice) if claim else Entry(upload)

    def judged(self, portion: list[tuple[Surveyed, BackfillFinding]]) -> dict[Listed, BackfillFinding]:
        """The finding on each upload, those that the ledger calls committed looked at again."""
        judged = {each.listed: finding for each, finding in portion}
        landed = [listed for listed, finding in judged.items() if finding is BackfillFinding.COMMITTED]
        asked = (BackfillFinding.COMMITTED, BackfillFinding.RELOADED, BackfillFinding.GONE)
        claimed = [listed.upload for listed, finding in judged.items() if finding in asked]
        self._claims = self.ports.ledger.claims_on(claimed) if claimed else {}
        for listed, finding in judged.items():
            claim = self._claims.get(listed.upload.identity) if finding is BackfillFinding.GONE else None
            if claim and claim.claimed_at >= self.surveyed_at:
                judged[listed] = BackfillFinding.LANDED
        identities = {each.upload.identity for each in landed}
        claims = {identity: claim for identity, claim in self._claims.items() if identity in identities}
        owners = self.ports.ledger.owners(claims.values()) if claims else {}
        batches = {batch.id: batch for _, batch in owners.values() if batch}
        rows = {each: rows_of_uploads(each, self.ports.work) for each in batches}
        batches |= self.ports.ledger.batches(sorted({each.rows_of for each in claims.values()} - {""}))
        closed = {
            each.id: self._never_again(each)
            for each in batches.values()
            if each.table == self.table and each.state is State.COMMITTED
        }
        for listed in landed:
            claim = claims.get(listed.upload.identity)
            owner, batch = owners[claim] if claim else (None, None)
            if claim is None or owner is None:
                continue
            if owner.void:
                judged[listed] = BackfillFinding.ELSEWHERE
            elif batch is not None and claim.outcome == Outcome.PRESENT:
                if batch.table != self.table:
                    judged[listed] = BackfillFinding.ELSEWHERE
                elif closed.get(claim.rows_of, True):  # the ledger may have forgotten it
                    judged[listed] = BackfillFinding.REMOVED
            elif batch is None or not has_landed(claim, batch):
                continue  # somebody has taken it over since
            elif rows[batch.id].get(listed.upload.identity) == 0:
                judged[listed] = BackfillFinding.RELOADED if self.reloads else BackfillFinding.LANDED
            elif batch.table != self.table:
                judged[listed] = BackfillFinding.ELSEWHERE
            elif closed.get(batch.id):
                judged[listed] = BackfillFinding.REMOVED
        return judged

    def _never_again(self, batch: Batch) -> bool:
        """Whether the batch can never bring its rows to the table again. It is noted."""
        floors = tuple(floors_of(batch.id, self.ports.work))
        if not floors and batch.snapshot != NO_SNAPSHOT:
            return False
        # what only rows tell of has no floor: the work bucket was lost, and its drivers are long gone
        if floors and not is_fenced(self.history, batch.id, floors):
            return False
        if self.dry or batch.rows_removed:
            return True
        # before the ledger knows it: the ledger may be lost while what was sent is under way
        self.ports.work.put(removed_name(batch.id), REMOVED)
        return self.ports.ledger.note_removed(batch.id)

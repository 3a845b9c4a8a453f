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
    6 wait, so that the queue keeps up          nothing

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

**What else may happen.**

- A live notification of U comes at any time: one of the two notices claims U, the other is refused.
- Two backfills at once: both find U missing, and one notice claims it. A notice's id contains the backfill's, so
  neither is taken for a repeat of the other (docs/adr/0005).
- A notice of a backfill is delivered 61 days later, out of an archive or the dead letters: its time is `at`, so
  dispatch sets it aside.
- U is overwritten or deleted after 2: it ends as superseded or vanished.
- Rows were deleted from the table on purpose, or the table was rolled back: what has no row is missing, and lands
  again, unless its claim is live. Whoever starts a backfill is told.
- The table was compacted or rewritten: rows keep the lineage columns.
- An upload landed without a row (an empty file): nothing in the table tells. It is sent, and lands without a row.
- The route's table was changed: what landed in the former table is missing in the new one.
- The ledger was restored: claims and batches are missing in it. Recover first (`tidegate ledger recover`).
- A lineage run of an earlier command is not used: it was read before our step 3, and a batch may have ended in between.

Memory: a page, the uploads of unfinished batches under the prefix, and what listing and lineage have of one key.
"""

import gzip
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import IO

from tidegate.core.audit import BEGINNING, AuditLimits, Listed, Marker
from tidegate.core.backfill import (
    BackfillCounts,
    BackfillFinding,
    BackfillScope,
    Survey,
    Surveyed,
    compare,
)
from tidegate.core.errors import Retryable
from tidegate.core.manifests import batch_folder, decode_part
from tidegate.core.notices import Entry, pack_entries
from tidegate.flows.audit import Pace
from tidegate.flows.ports import Ports
from tidegate.flows.screen import judge_page

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
        judged = _by_claims(within, backfill.limits, ports)
        kept.add(judged)
        free = [each.listed.upload for each in judged if each.claimed is None]
        found = replace(
            found,
            listed=found.listed + len(page.listed),
            claimed=found.claimed + len(judged) - len(free),
            objects=found.objects + len(free),
            size=found.size + sum(each.size for each in free),
        )
        after = page.after
        backfill.progress(f"route {scope.route.name}: {found.listed:,} versions are listed")
    return found


def _by_claims(within: list[Listed], limits: AuditLimits, ports: Ports) -> list[Surveyed]:
    judged = judge_page(within, limits, ports.ledger, ports.clock())
    # an upload without a claim is free; one whose owner is void has a claim, too, and is not
    return [Surveyed(each, said.finding if said.notice else None) for each, said in judged.items()]


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
    """Steps 3 to 6. Raises Retryable or OutcomeUnknown: run the command again."""
    unfinished = unfinished_uploads(scope, ports)
    backfill.progress(f"route {scope.route.name}: the lineage of {scope.route.dataset.table} is read")
    landed = ports.lineage.landed(scope.route.dataset.table, scope.uri)
    counting = _Counting(backfill.tell)
    missing = counting.missing_of(compare(kept, landed, unfinished))
    sent = 0
    while portion := list(islice(missing, AT_ONCE)):
        sent += len(portion)
        if not backfill.dry:
            _send(scope, backfill, portion, surveyed.at, ports)
            backfill.progress(f"route {scope.route.name}: {sent:,} uploads are sent")
            pace(len(portion))
    return BackfillCounts(counting.found, counting.size)


@dataclass
class _Counting:
    """Counts the findings as they pass, and lets the missing ones through."""

    tell: TellFound
    found: Counter[BackfillFinding] = field(default_factory=Counter)
    size: int = 0

    def missing_of(self, found: Iterable[tuple[Surveyed, BackfillFinding]]) -> Iterator[Listed]:
        for each, finding in found:
            self.found[finding] += 1
            if finding is not BackfillFinding.LANDED:
                self.tell(each.listed, finding)
            if finding is BackfillFinding.MISSING:
                self.size += each.listed.upload.size
                yield each.listed


def _send(scope: BackfillScope, backfill: Backfill, portion: list[Listed], at: int, ports: Ports) -> None:
    """Raises Retryable if the topic did not take all of them."""
    route = scope.route
    entries = [Entry(each.upload) for each in portion]
    notices = list(pack_entries(route.name, route.bucket, entries, origin=f"{ORIGIN_BACKFILL}-{backfill.id}", at=at))
    if len(ports.topic.publish(notices)) < len(notices):
        raise Retryable(
            f"route {route.name}: the topic did not take the notices of {len(portion)} uploads. Run the backfill again:"
            " what was sent before is not sent twice"
        )

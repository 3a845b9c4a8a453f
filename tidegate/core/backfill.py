"""A backfill: which uploads of a bucket the table lacks, and no batch will bring.

An audit compares a bucket with the ledger, which forgets. A backfill compares it with the table's own lineage, which
does not: with what was in the bucket before the deployment, or is older than the ledger's memory.

Three sources are read one after the other, and each upload is looked up in all of them: its claim, the batches that
have not ended, and the lineage of `main`. That is the order in which an upload moves: it is claimed, then registered in
a batch, then in the table. So it cannot slip through between two readings (docs/adr/0050).
"""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from tidegate.core.audit import AuditFinding, Listed
from tidegate.core.batches import BatchLimits
from tidegate.core.errors import Rejected
from tidegate.core.lineage import SCHEME, Landed
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload


class BackfillFinding(Enum):
    """What a backfill finds of an upload that is in the bucket."""

    MISSING = "missing"  # the table lacks it, and no batch will bring it: send it
    ELSEWHERE = "elsewhere"  # it landed in another table, from before the route had this one: send it
    REMOVED = "removed"  # it landed in this table, and its rows were deleted or rolled back: send it
    DELETED = "deleted"  # a deletion that the table does not follow yet: send it
    RELOADED = "reloaded"  # the table has rows of it, which what it gives today replaces: send it
    LANDED = "landed"  # the table has rows of it, or of a later version that replaces it, or it has none
    UNFINISHED = "unfinished"  # a batch that has not ended lists it, or may list it
    PENDING = "pending"  # claimed, and its notice or batch has not ended
    COMMITTED = "committed"  # its rows were in this table, and its batch could bring them again: nothing is sent
    QUARANTINED = "quarantined"
    ABANDONED = "abandoned"
    DROPPED = "dropped"  # a person has given it up for good
    LET_GO = "let_go"  # claimed, and its owner will not bring it: the audit sends it
    FORGOTTEN = "forgotten"  # claimed, and the ledger has forgotten what became of it
    GONE = "gone"  # of a reload: the table has rows of it, and the listing has not: they stay as they are


_BY_CLAIM = {
    AuditFinding.LOST: BackfillFinding.LET_GO,
    AuditFinding.STALE: BackfillFinding.LET_GO,
    AuditFinding.PENDING: BackfillFinding.PENDING,
    AuditFinding.COMMITTED: BackfillFinding.COMMITTED,
    AuditFinding.QUARANTINED: BackfillFinding.QUARANTINED,
    AuditFinding.ABANDONED: BackfillFinding.ABANDONED,
    AuditFinding.DROPPED: BackfillFinding.DROPPED,
    AuditFinding.FORGOTTEN: BackfillFinding.FORGOTTEN,
}

SENT = frozenset(
    {
        BackfillFinding.MISSING,
        BackfillFinding.ELSEWHERE,
        BackfillFinding.REMOVED,
        BackfillFinding.DELETED,
        BackfillFinding.RELOADED,
    }
)
"""These are sent."""

FINAL = frozenset(
    {BackfillFinding.LANDED, BackfillFinding.UNFINISHED, BackfillFinding.PENDING, BackfillFinding.DROPPED}
)
"""Nobody has to do anything about these."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """An upload of the listing, and what its live claim says; None without a live claim. `same_as`: the version that
    had its bytes before it (`core.same_bytes`); empty if it was read."""

    listed: Listed
    claimed: AuditFinding | None
    same_as: str = ""

    def encode(self) -> bytes:
        """One line."""
        upload = self.listed.upload
        told = self.claimed.value if self.claimed else ""
        where = [upload.bucket, upload.key, upload.version, upload.size]
        listed = [self.listed.modified, told, self.listed.latest, self.listed.deletion]
        line = json.dumps([*where, *listed, self.same_as])
        return f"{line}\n".encode()

    @staticmethod
    def decode(line: bytes) -> "Surveyed":
        bucket, key, version, size, modified, told, latest, deletion, same_as = json.loads(line)
        listed = Listed(Upload(bucket, key, version, size), modified, latest, deletion)
        return Surveyed(listed, AuditFinding(told) if told else None, same_as)


def compare(
    surveyed: Iterable[Surveyed],
    landed: Iterable[Landed],
    unfinished: Collection[tuple[str, str, str]],
    *,
    replaces: bool = False,
    reloads: bool = False,
    tells_gone: bool = False,
) -> Iterator[tuple[Surveyed, BackfillFinding]]:
    """The finding on each upload of one bucket.

    `surveyed` is in the order of S3's listing, by key; `landed` in the order of a lineage. What both have of one key is
    in memory, and no more. `unfinished` are the identities that batches list which have not ended.

    `replaces`: rows of a version stand for those of the earlier ones, which S3 lists after it. So does a deletion,
    which has landed if the table has no rows of the object.

    Rows that name an object and no version count as rows of each version: nobody can say which one they are of. Those
    of the version that it is the same as count for an upload.

    `reloads`: each version that has rows is loaded again, and of what has none the latest. `tells_gone`: also what has
    rows and is not listed, unless those that are take its place.

    Raises Rejected if the listing is not in order: what is in the table would be taken for missing.
    """
    by_object = groupby(landed, key=lambda each: (each.bucket, each.key))
    rows = ((place, frozenset(each.version for each in some)) for place, some in by_object)
    there = next(rows, None)
    versions: frozenset[str] = frozenset()
    listed: set[str] = set()
    given_way = stands = False
    last: tuple[str, str] | None = None
    for each in surveyed:
        upload = each.listed.upload
        place = (upload.bucket, upload.key)
        if last is not None and place < last:
            raise Rejected(f"S3 listed s3://{upload.bucket}/{upload.key} after s3://{last[0]}/{last[1]}: out of order")
        if place != last:
            if tells_gone and last and not stands:
                yield from _gone(last, versions - listed)
            former, last, versions, listed = last, place, frozenset(), {""}
            given_way = stands = False
            while there is not None and there[0] < place:
                if tells_gone and there[0] != former:
                    yield from _gone(*there)
                there = next(rows, None)
            if there is not None and there[0] == place:
                versions = there[1]
        listed |= {upload.version, each.same_as}
        nothing_to_do = given_way or (each.listed.deletion and not versions)
        finding = BackfillFinding.LANDED if nothing_to_do else _finding(each, versions, unfinished, reloads=reloads)
        if reloads and not each.listed.latest and finding is not BackfillFinding.RELOADED:
            finding = BackfillFinding.LANDED
        # without a row, perhaps; what has those of another version does not stand for it
        has_landed = upload.version in versions or (each.claimed is AuditFinding.COMMITTED and not each.same_as)
        given_way = given_way or each.listed.deletion or (replaces and has_landed)
        stands = stands or (replaces and (each.listed.deletion or finding in SENT or upload.version in versions))
        yield each, BackfillFinding.DELETED if each.listed.deletion and finding in SENT else finding
    if not tells_gone:
        return
    if last and not stands:
        yield from _gone(last, versions - listed)
    while there is not None:
        if there[0] != last:
            yield from _gone(*there)
        there = next(rows, None)


def _gone(place: tuple[str, str], versions: Iterable[str]) -> Iterator[tuple[Surveyed, BackfillFinding]]:
    for version in sorted(versions):
        # of 0 bytes it could be a folder's
        yield Surveyed(Listed(Upload(*place, version, 1), 0, latest=False), None), BackfillFinding.GONE


MAY_COME_BACK = (AuditFinding.COMMITTED, AuditFinding.QUARANTINED, AuditFinding.ABANDONED, AuditFinding.DROPPED)
"""What has rows may be reloaded, whatever became of an earlier reload."""


def _finding(
    each: Surveyed, versions: Collection[str], unfinished: Collection[tuple[str, str, str]], *, reloads: bool
) -> BackfillFinding:
    upload = each.listed.upload
    if reloads and upload.version in versions:
        if upload.identity in unfinished:
            return BackfillFinding.UNFINISHED
        if each.claimed is None or each.claimed in MAY_COME_BACK:
            return BackfillFinding.RELOADED
        return _BY_CLAIM[each.claimed]
    if any(name in versions for name in (upload.version, each.same_as, "")):
        return BackfillFinding.LANDED
    if upload.identity in unfinished:
        return BackfillFinding.UNFINISHED
    return BackfillFinding.MISSING if each.claimed is None else _BY_CLAIM[each.claimed]


# ---- what is asked for


@dataclass(frozen=True, slots=True)
class BackfillScope:
    """What one backfill looks at: the uploads of a route under `prefix` (a key's beginning), modified in [since, until]
    (epoch seconds). `versions`: all versions of an object that can be read, not only the one that is current.
    `reloads`: also what the table has (`compare`); `whole`: of all times."""

    route: Route
    prefix: str
    since: int
    until: int
    versions: bool = False
    reloads: bool = False
    whole: bool = False

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.route.bucket}/{self.prefix}"

    def has(self, listed: Listed) -> bool:
        return (
            (self.versions or self.reloads or listed.latest)
            and listed.can_be_read
            and self.since <= listed.modified <= self.until
            and listed.is_of(self.route)
        )


def routes_under(bucket: str, prefix: str, routes: Iterable[Route]) -> list[tuple[Route, str]]:
    """The routes that take keys under a prefix, each with the narrower of the two prefixes."""
    return [
        (route, max(prefix, route.prefix, key=len))
        for route in routes
        if not route.retired
        and route.bucket == bucket
        and (route.prefix.startswith(prefix) or prefix.startswith(route.prefix))
    ]


# ---- what it costs

LIST_DOLLARS = 0.005 / 1_000
"""A LIST request (docs/deploy.md, as the others)."""
READ_DOLLARS = 0.125 / 1_000_000
"""A read unit of DynamoDB: a claim."""
SENT_DOLLARS = 3.74 / 1_000_000
"""What an upload costs on its way, without Spark."""
JOB_DOLLARS = 0.01
"""A job of two minutes. A job that reads much takes longer."""
JOB_EVERY = 164
"""Seconds between the starts of two small jobs of a route."""
PAGE = 1_000
"""Versions in the answer to a LIST request."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What the first step found. `listed` counts all versions, `objects` and `size` (bytes) what is in the scope and
    has no live claim: so much is sent if the table lacks it all. Of a reload they count all that is in the scope.
    `elsewhere` and `elsewhere_size` are what has landed in another table by the ledger: it is sent if this table lacks
    it. `deletions` of objects are among these. `at` is before the first claim was read."""

    at: int
    listed: int = 0
    claimed: int = 0
    objects: int = 0
    size: int = 0
    elsewhere: int = 0
    elsewhere_size: int = 0
    deletions: int = 0

    def dollars(self, limits: BatchLimits, rate: int) -> float:
        """What it costs if all of it is missing: reading it, the lineage's job, and what is sent at `rate` a second."""
        read = math.ceil(self.listed / PAGE) * LIST_DOLLARS + (self.objects + 3 * self.claimed) * READ_DOLLARS
        return read + JOB_DOLLARS + self.most * SENT_DOLLARS + self.jobs(limits, rate) * JOB_DOLLARS

    @property
    def most(self) -> int:
        """How many uploads are sent if the table lacks all of them."""
        return self.objects + self.elsewhere

    def jobs(self, limits: BatchLimits, rate: int) -> int:
        """How many batches it will be, at least. They gather for `max_wait`, and while a job runs."""
        if not self.most:
            return 0
        seconds = self.most / rate / max(limits.max_wait, JOB_EVERY)
        size = self.size + self.elsewhere_size
        return math.ceil(max(self.most / limits.target_objects, size / limits.target_bytes, seconds))


@dataclass(frozen=True, slots=True)
class BackfillCounts:
    """How many uploads were found to be what; `size` are the bytes of those that are sent."""

    found: Counter[BackfillFinding]
    size: int = 0

    def as_dict(self) -> dict[str, int]:
        return {finding.value: self.found[finding] for finding in BackfillFinding}

    @property
    def sent(self) -> int:
        return sum(self.found[each] for each in SENT)

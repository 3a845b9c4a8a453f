"""The batches of a deployment, newest first, a page at a time.

The ledger has no list of the batches that have ended. The work bucket has a folder for each batch, since before its
first notice was registered (rule 2), and nothing in it expires. A batch's id begins with the time at which it was made,
so the folders of a time are listed together. S3 lists forwards only. So what was made before some time is listed in
windows, the latest first: a window grows while it finds little, and is cut while it finds more than an answer holds.

A page costs, whatever the deployment has done before:

    requests                                                          at most
    S3 lists: a window each                                           some 20
    batches of the ledger: 100 in each request, one for each list     20
    on the last page, the names of the routes, and their records      1, and 1 for each 100
    S3 reads: why an attempt failed, of a batch that had several      as many as batches on the page

A page that would cost more ends earlier, and says from where to go on. It sees as far back as the ledger remembers: an
older batch may have lost its record (`core.batches.oldest_remembered`).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from tidegate.core.batches import CLOCKS, LONGEST_OPEN, Batch, State, oldest_remembered
from tidegate.core.manifests import BATCHES, batch_folder, failure_name
from tidegate.core.receipts import decode_failure
from tidegate.flows.ports import Ports, Work

LISTED = 1_000
"""What an answer of S3's list holds
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html)."""
FIRST_WINDOW = CLOCKS + 60 * 60
"""Seconds. A clock that is ahead makes ids of the future: the first window ends `CLOCKS` after now."""
FEW = 100
"""If a window has found fewer batches, the next one is wider."""
WIDER = 4
TOGETHER = 100
"""Batches that the ledger is asked for at once."""
MOST_LOOKED_AT = 1_000
"""Batches that a page may look at."""
PAGES = 5
"""Pages that are looked at for one with something on it: a person who asks gets no empty page unless nothing is there,
or it is far."""


@dataclass(frozen=True, slots=True)
class BatchIds:
    """What is known of batch ids. `made_at` is when one was made (epoch seconds; ValueError if it is none), `smallest`
    the id before all that were made since a time."""

    made_at: Callable[[str], int]
    smallest: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which batches are meant: of this route ("" for any), in this state (None for any), that still gathered at `since`
    or later (epoch seconds); with `halted` only those that have halted, which are SEALED or SUBMITTED."""

    route: str = ""
    state: State | None = None
    since: int = 0
    halted: bool = False

    def has(self, batch: Batch) -> bool:
        if self.halted and not batch.halted:
            return False
        return self.route in ("", batch.route) and self.state in (None, batch.state) and not self.is_before(batch)

    def is_before(self, batch: Batch) -> bool:
        """Whether the batch was sealed before the time that is meant."""
        return bool(batch.sealed_at) and batch.sealed_at < self.since

    def ends_at(self, batch: Batch) -> bool:
        """Whether no older batch is meant: of a route one batch gathers after the other."""
        return batch.route == self.route and self.is_before(batch)


@dataclass(frozen=True, slots=True)
class PastBatch:
    """A batch, and what went wrong: why it has halted, or why its attempt before the last one gave up; "" if nothing
    did, or if a driver died and left no report."""

    batch: Batch
    error: str


@dataclass(frozen=True, slots=True)
class BatchPage:
    """`after` is the id from which to go on; "" if there is nothing more. `looked_at` batches were looked at, back to
    one that was made at `back_to` (epoch seconds, 0 if there was none)."""

    batches: tuple[PastBatch, ...]
    after: str
    looked_at: int
    back_to: int = 0


def batches_within(ports: Ports, ids: BatchIds, wanted: Wanted, *, after: str = "", limit: int) -> BatchPage:
    """The first page from `after` on that has something, of `PAGES` at most, with all that was looked at for it."""
    looked_at = 0
    for _ in range(PAGES):
        page = batch_page(ports, ids, wanted, after=after, limit=limit)
        looked_at, after = looked_at + page.looked_at, page.after
        if page.batches or not after:
            break
    return replace(page, looked_at=looked_at)


def batch_page(ports: Ports, ids: BatchIds, wanted: Wanted, *, after: str = "", limit: int) -> BatchPage:
    """The newest `limit` of the batches that are meant, made before the id `after`."""
    found: list[PastBatch] = []
    looked_at, batch_id = 0, ""
    for looked_at, (batch_id, batch) in enumerate(newest_batches(ports, ids, after=after, since=wanted.since), start=1):
        if batch is not None and wanted.ends_at(batch):
            break
        if batch is not None and wanted.has(batch):
            found.append(PastBatch(batch, _error(batch, ports.work)))
        if len(found) == limit or looked_at == MOST_LOOKED_AT:
            return BatchPage(tuple(found), batch_id, looked_at, ids.made_at(batch_id))
    return BatchPage(tuple(found), "", looked_at, ids.made_at(batch_id) if batch_id else 0)


def newest_batches(
    ports: Ports, ids: BatchIds, *, after: str = "", since: int = 0
) -> Iterator[tuple[str, Batch | None]]:
    """The batches made before the id `after`, newest first, back to those that may have gathered at `since`, or as far
    as the ledger remembers. None for a folder of which the ledger has no batch."""
    now = ports.clock()
    oldest = max(0, oldest_remembered(now, ports.ledger.claim_retention), since - LONGEST_OPEN)
    end = ids.made_at(after) + 1 if after else now + CLOCKS
    for found in newest_ids(ports.work, ids, before=after or ids.smallest(end), end=end, oldest=oldest):
        for start in range(0, len(found), TOGETHER):
            portion = found[start : start + TOGETHER]
            batches = ports.ledger.batches(portion)
            yield from ((each, batches.get(each)) for each in portion)
    yield from _older_ones(ports, ids, after, oldest)


def _older_ones(ports: Ports, ids: BatchIds, after: str, oldest: int) -> Iterator[tuple[str, Batch | None]]:
    """Batches that wait for a person for longer than the ledger remembers others, newest first."""
    records = ports.ledger.routes(ports.ledger.known_routes())
    found = {each for record in records.values() for each in record.unfinished}
    waiting = sorted(
        (each for each in found if ids.made_at(each) < oldest and (not after or each < after)), reverse=True
    )
    batches = ports.ledger.batches(waiting) if waiting else {}
    yield from ((each, batches.get(each)) for each in waiting)


def newest_ids(work: Work, ids: BatchIds, *, before: str, end: int, oldest: int) -> Iterator[list[str]]:
    """The ids of the folders before the id `before`, which was made at `end`, back to those made at `oldest`: what each
    list has found, if it is anything."""
    width = FIRST_WINDOW
    while end > oldest:
        begin = max(oldest, end - width)
        coming = _up_to(before, work.folders(BATCHES, ids.smallest(begin)))
        found = list(islice(coming, LISTED))
        if len(found) == LISTED and width > 1:
            width = max(1, width // WIDER)
            continue
        found += coming  # of a single second there may be more than an answer holds
        if found:
            yield found[::-1]
        before, end = ids.smallest(begin), begin
        if len(found) < FEW:
            width *= WIDER


def _up_to(before: str, names: Iterable[str]) -> Iterator[str]:
    return takewhile(lambda each: each < before, names)


def _error(batch: Batch, work: Work) -> str:
    if batch.halted or batch.attempt < 2:
        return batch.halted
    body = work.get(failure_name(batch_folder(batch.id), batch.attempt - 1))
    return decode_failure(body).reason if body else ""

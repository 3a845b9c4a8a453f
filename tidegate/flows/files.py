"""The files of a deployment: its uploads, those of the newest batches first, a page at a time.

Nothing lists the uploads of a route: a claim is found by its object only. So they are found through their batches
(`flows.batch_list`), whose parts list them, in the order in which the parts' names sort. Then their claims are read: an
upload that belongs to another notice by now is left out here, and is listed with the batch of that notice.

A page costs, whatever the deployment has done before, besides what finding the batches costs:

    requests                                                          at most
    S3 reads: of each batch its manifest and the parts that are       `MOST_READ`
      listed; of a committed one its receipt and outcomes, too
    claims of the ledger: 100 in each request                         `MOST_CLAIMS` / 100, and one for each batch
    claims on the other versions of what has landed: a query for      `flows.landed_versions.MOST_ASKED`
      each object of the page
    outcomes of batches that took the place of its rows               `flows.landed_versions.MOST_REPLACING`

Of a batch that is not sealed yet, its parts are listed, 1,000 in each request, and their notices read, 100 in each; a
request for notices counts as a read. What is quarantined, superseded or vanished is in the outcomes of its batch: then
no part is read. A page that would cost more ends earlier, and says from where to go on.

It does not see an upload whose notification or notice is on its way: nothing has registered it in a batch yet.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import islice

from tidegate.core.batches import Batch, State
from tidegate.core.file_states import PENDING, FileState, may_hold, state_in_batch
from tidegate.core.manifests import batch_folder, decode_part, decode_sealed, notice_of_part
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.receipts import Ending, Outcomes, rejected_in_parts, rows_in_parts
from tidegate.core.uploads import Upload
from tidegate.flows.batch_list import MOST_LOOKED_AT, PAGES, BatchIds, Wanted, newest_batches
from tidegate.flows.landed_versions import Left, keeps_latest_only, versions_of
from tidegate.flows.outcomes import published_outcomes
from tidegate.flows.ports import Ports

MOST_READ = 200
"""Reads of the work bucket for one page. It is more than one batch needs to go on."""
MOST_CLAIMS = 2_000
"""Claims that are read for one page."""
TOGETHER = 100
"""Claims that are read in one request."""
IN_THE_OUTCOMES = (Outcome.QUARANTINED.value, Outcome.SUPERSEDED.value, Outcome.VANISHED.value, Outcome.PRESENT.value)
PARTS, PART = "parts/", ".jsonl.gz"


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a page ended: after the upload of this `number` in this part, or in the outcomes if that is "". Without a
    number, after the whole batch."""

    batch: str
    part: str = ""
    number: int = -1

    def __str__(self) -> str:
        return self.batch if self.number < 0 else f"{self.batch}:{self.part}:{self.number}"


def spot(text: str) -> Spot:
    """The spot that was printed as this. Raises ValueError if it is none."""
    batch, *rest = text.split(":")
    if not rest:
        return Spot(batch)
    part, number = rest
    if int(number) < 0:
        raise ValueError(text)
    return Spot(batch, part, int(number))


@dataclass(frozen=True, slots=True)
class WantedFiles:
    """Which files are meant: of `batches`, in the state `outcome` (one of `core.file_states.FILE_STATES`, "" for any),
    with keys that match `key`, a pattern with `*`, `?` and `[...]`."""

    batches: Wanted = field(default_factory=Wanted)
    outcome: str = ""
    key: str = ""

    def may_be_in(self, batch: Batch) -> bool:
        return self.batches.has(batch) and may_hold(batch, self.outcome)

    def has_key(self, key: str) -> bool:
        return not self.key or fnmatchcase(key, self.key)


@dataclass(frozen=True, slots=True)
class KnownFile:
    """One upload, and what became of it. `rows` is None if it has none, or if nobody recorded how many, and so is
    `rejected`, of its rows that do not fit. `claimed_at` (epoch seconds) is 0 if its claim has expired. `versions` is
    how many of its object have landed in its table, with this one; None if it has not landed, or was not asked."""

    upload: Upload
    notice: str
    batch: Batch
    state: FileState
    rows: int | None
    claimed_at: int
    rejected: int | None = None
    versions: int | None = None
    replaced: int = 0
    """How many rows have left the table for it: of earlier versions, or its own if it was reloaded."""
    deletion: bool = False
    """Whether it is a deletion of the object, and no file."""
    left: Left | None = None
    """If its own rows have left the table since."""


@dataclass(frozen=True, slots=True)
class FilesPage:
    """`after` says from where to go on; None if there is nothing more. `troubles` are files that the work bucket lacks:
    what they list is left out. `read` counts the reads of the work bucket, `looked_at` the batches; the oldest of these
    was made at `back_to` (epoch seconds, 0 if there was none)."""

    files: tuple[KnownFile, ...]
    after: Spot | None
    troubles: tuple[str, ...] = ()
    read: int = 0
    looked_at: int = 0
    back_to: int = 0


def files_within(
    ports: Ports, ids: BatchIds, wanted: WantedFiles, *, after: Spot | None = None, limit: int
) -> FilesPage:
    """The first page from `after` on that has something, of `PAGES` at most, with all that was read for it."""
    read, looked_at = 0, 0
    troubles: list[str] = []
    for _ in range(PAGES):
        page = files_page(ports, ids, wanted, after=after, limit=limit)
        read, looked_at, after = read + page.read, looked_at + page.looked_at, page.after
        troubles += page.troubles
        if page.files or after is None:
            break
    files = _with_versions(page.files, ports)
    return replace(page, files=files, read=read, looked_at=looked_at, troubles=tuple(troubles))


def _with_versions(files: Sequence[KnownFile], ports: Ports) -> tuple[KnownFile, ...]:
    landed = [each for each in files if each.state.outcome == Outcome.COMMITTED]
    counts, left = versions_of(((each.upload.bucket, each.upload.key) for each in landed), ports)

    def told(each: KnownFile) -> KnownFile:
        found = counts.get((each.upload.bucket, each.upload.key))
        if each.state.outcome != Outcome.COMMITTED:
            return each
        versions = None if found is None or keeps_latest_only(each.batch) else max(1, found.get(each.batch.table, 0))
        gone = left.get((each.upload.uri, each.upload.version, each.batch.id))
        return replace(each, versions=versions, left=gone)

    return tuple(map(told, files))


def files_page(
    ports: Ports,
    ids: BatchIds,
    wanted: WantedFiles,
    *,
    after: Spot | None = None,
    limit: int,
    most_read: int = MOST_READ,
) -> FilesPage:
    """The newest `limit` of the files that are meant, after `after`."""
    look = _FilesLook(ports, ids, wanted, most_read)
    coming = look.uploads(after)
    found: list[KnownFile] = []
    claims_read = 0
    ended: Spot | None = None
    # what only the claims can tell is looked for in many of them at once
    blind = wanted.outcome in (PENDING, DROPPED)
    while len(found) < limit and claims_read < MOST_CLAIMS:
        portion = list(islice(coming, TOGETHER if blind else min(TOGETHER, limit - len(found))))
        if not portion:
            ended = look.stopped
            break
        claims = ports.ledger.claims_on(each.upload for each in portion)
        claims_read += len(portion)
        for each in portion:
            ended = each.spot
            claim = claims.get(each.upload.identity)
            state = state_in_batch(each.notice, claim, each.batch, each.ending, known=each.known)
            if state is not None and wanted.outcome in ("", state.outcome):
                rows, bad = (each.rows, each.rejected) if state.outcome == Outcome.COMMITTED else (None, None)
                at = claim.claimed_at if claim else 0
                known = KnownFile(each.upload, each.notice, each.batch, state, rows, at, bad)
                found.append(replace(known, replaced=each.replaced, deletion=each.deletion))
            if len(found) == limit:
                break
    back_to = ids.made_at(look.oldest) if look.oldest else 0
    return FilesPage(tuple(found), ended, tuple(look.troubles), look.read, look.looked_at, back_to)


@dataclass(frozen=True, slots=True)
class _Uploaded:
    """An upload as its batch's files have it."""

    spot: Spot
    upload: Upload
    notice: str
    batch: Batch
    ending: Ending | None = None
    rows: int | None = None
    rejected: int | None = None
    known: bool = True
    """Whether the batch's outcomes were read, if it has some."""
    replaced: int = 0
    deletion: bool = False


class _EnoughRead(Exception):
    """The page may read no more."""


@dataclass
class _FilesLook:
    """One page's look at the batches. `stopped` is where it stopped because enough was read; None if it came to the
    end."""

    ports: Ports
    ids: BatchIds
    wanted: WantedFiles
    most_read: int
    read: int = 0
    looked_at: int = 0
    oldest: str = ""
    stopped: Spot | None = None
    troubles: list[str] = field(default_factory=list)

    def uploads(self, after: Spot | None) -> Iterator[_Uploaded]:
        last = after
        try:
            for batch_id, batch in self._batches(after):
                if self.looked_at == MOST_LOOKED_AT:
                    raise _EnoughRead
                self.looked_at += 1
                self.oldest = batch_id
                if batch is not None and self.wanted.batches.ends_at(batch):
                    return
                if batch is not None and self.wanted.may_be_in(batch):
                    begin = after if after and after.batch == batch_id else None
                    for each in self._of(batch, begin):
                        last = each.spot
                        if self.wanted.has_key(each.upload.key):
                            yield each
                last = Spot(batch_id)
        except _EnoughRead:
            self.stopped = last

    def _batches(self, after: Spot | None) -> Iterator[tuple[str, Batch | None]]:
        """With the one that the last page ended in, if it did not list the whole of it."""
        if after and after.number >= 0:
            yield after.batch, self.ports.ledger.batch(after.batch)
        before = after.batch if after else ""
        yield from newest_batches(self.ports, self.ids, after=before, since=self.wanted.batches.since)

    def _of(self, batch: Batch, begin: Spot | None) -> Iterator[_Uploaded]:
        if self.wanted.outcome in IN_THE_OUTCOMES:
            return self._of_outcomes(batch, begin)
        return self._of_parts(batch, begin)

    def _of_outcomes(self, batch: Batch, begin: Spot | None) -> Iterator[_Uploaded]:
        outcomes = self._outcomes(batch)
        for number, each in enumerate(outcomes.endings if outcomes else ()):
            if each.outcome == self.wanted.outcome and (begin is None or number > begin.number):
                upload = Upload(each.bucket, each.key, each.version, size=0)
                yield _Uploaded(Spot(batch.id, "", number), upload, each.notice, batch, each)

    def _of_parts(self, batch: Batch, begin: Spot | None) -> Iterator[_Uploaded]:
        body = self._get(batch_folder(batch.id) + "sealed.json") if batch.state is not State.OPEN else None
        sealed = decode_sealed(body) if body else None
        if sealed is None and batch.state is not State.OPEN:
            self.troubles.append(f"batch {batch.id}: sealed.json is missing in the work bucket")
        # of a single upload the header says all
        alone, alone_bad = (batch.tally.rows, batch.tally.rejected) if batch.tally.committed == 1 else (None, None)
        outcomes = None
        changes = batch.tally.replaced or (keeps_latest_only(batch) and alone == 0)
        if batch.state is State.COMMITTED and (changes or not (batch.objects == 1 and alone is not None)):
            outcomes = self._outcomes(batch)
        told = outcomes is not None or batch.state is not State.COMMITTED or alone is not None
        endings = {(each.bucket, each.key, each.version): each for each in (outcomes.endings if outcomes else ())}
        rows = rows_in_parts(sealed, outcomes) if sealed and outcomes else {}
        bad = rejected_in_parts(sealed, outcomes) if sealed and outcomes else {}
        deleted = frozenset(outcomes.deleted if outcomes else ())
        # one version has taken the place of all; where a route appends, each of its own rows only
        latest_only = keeps_latest_only(batch)
        replaced = Counter[tuple[str, str]]()
        for held in outcomes.replaced if outcomes else ():
            replaced[held.uri, "" if latest_only else held.version] += held.rows
        for name in sorted(sealed.parts) if sealed else self._registered(batch, begin):
            short = name.removeprefix(PARTS).removesuffix(PART)
            if begin and short < begin.part:
                continue
            body = self._get(batch_folder(batch.id) + name)
            if body is None:
                self.troubles.append(f"batch {batch.id}: {name} is missing in the work bucket")
                continue
            owned, counts = decode_part(body), rows.get(name, ())
            known = len(counts) == len(owned)
            for number, each in enumerate(owned):
                if begin and short == begin.part and number <= begin.number:
                    continue
                ending = endings.get(each.upload.identity)
                rows_of_it = counts[number] if known else alone
                yield _Uploaded(
                    Spot(batch.id, short, number),
                    each.upload,
                    each.notice,
                    batch,
                    ending,
                    rows_of_it,
                    (bad[name][number] if name in bad else 0) if known else alone_bad,
                    told,
                    0 if ending else replaced[each.upload.uri, "" if latest_only else each.upload.version],
                    each.upload.uri in deleted and not ending and not rows_of_it,
                )

    def _registered(self, batch: Batch, begin: Spot | None) -> Iterator[str]:
        """The parts of a batch that has no manifest yet, as the ledger has registered them."""
        folder = batch_folder(batch.id)
        coming = (name.removeprefix(folder) for name in self.ports.work.names(folder + PARTS))
        names = (name for name in coming if not begin or name >= f"{PARTS}{begin.part}")
        while portion := list(islice(names, TOGETHER)):
            self._count()
            records = self.ports.ledger.notices(map(notice_of_part, portion))
            for name in portion:
                record = records.get(notice_of_part(name))
                if record and (record.batch, record.part) == (batch.id, name):
                    yield name

    def _outcomes(self, batch: Batch) -> Outcomes | None:
        self._count(2)
        outcomes = published_outcomes(batch.id, self.ports.work)
        if outcomes is None:
            self.troubles.append(f"batch {batch.id}: its receipt or its outcomes are missing in the work bucket")
        return outcomes

    def _get(self, name: str) -> bytes | None:
        self._count()
        return self.ports.work.get(name)

    def _count(self, reads: int = 1) -> None:
        if self.read + reads > self.most_read:
            raise _EnoughRead
        self.read += reads

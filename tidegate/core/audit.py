"""The audit: what the listing of a bucket and the ledger say of one upload.

S3 announces uploads "probably once": some notifications never come, and some messages expire. An audit lists a route's
bucket, compares each upload with the ledger, and sends what is lost through the same path as every other upload. What
it finds is a suspicion. Decision 1 decides: an upload that was claimed meanwhile is refused.

The ledger must remember longer than an audit looks back. An audit looks at uploads, and voids owners of claims, that
are not older than the *horizon* (`tidegate.settings.fixed.LOOK_BACK`), which is shorter than claims are kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum

from tidegate.core.batches import Batch, State
from tidegate.core.claims import Claim, was_put_again
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome
from tidegate.core.routes import Place, Route
from tidegate.core.uploads import Upload

LISTING = "listing"
METADATA_INVENTORY = "s3-metadata-inventory"
METADATA_JOURNAL = "s3-metadata-journal"
SOURCES = (LISTING, METADATA_INVENTORY, METADATA_JOURNAL)
"""Where an audit finds a bucket's uploads. Any other source is the URI of the folder of an S3 Inventory."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One upload of a listing. `modified` is S3's Last-Modified in epoch seconds: when the object was put, or when its
    multipart upload was begun. `latest`: it is the object's current version. `deletion`: it is a delete marker."""

    upload: Upload
    modified: int
    latest: bool = True
    deletion: bool = False

    def is_of(self, route: Route) -> bool:
        """Whether the route takes it."""
        return route.takes(self.upload) and (route.dataset.removes or not self.deletion)

    @property
    def can_be_read(self) -> bool:
        """Whether a GET reads this upload. One without a version id is read by its ETag, and that names the object's
        current version only. So where versioning was suspended, what was put then can be read until the next put of
        the key. After it the upload would end as superseded each time that it is sent."""
        return self.latest or self.upload.version_id is not None


@dataclass(frozen=True, slots=True)
class Marker:
    """Where a listing goes on: after this version of this key. The empty marker is the beginning."""

    key: str = ""
    version: str = ""


BEGINNING = Marker()


@dataclass(frozen=True, slots=True)
class Window:
    """Which uploads are compared: those that can be read, and were modified in [since, until] (epoch seconds).

    `min_age` (seconds): how long a claim may stay without a decision on its notice. `horizon` (seconds): nothing older
    is touched.
    """

    since: int
    until: int
    min_age: int
    horizon: int

    def has(self, listed: Listed, now: int) -> bool:
        """A run may last for days, and the horizon moves on."""
        return listed.can_be_read and max(self.since, now - self.horizon) <= listed.modified <= self.until


class AuditFinding(Enum):
    """What the ledger says of an upload that is in the bucket."""

    LOST = "lost"  # no notice will bring it: send it
    STALE = "stale"  # claimed by a notice that never registered: void that notice, then send the upload
    PENDING = "pending"
    COMMITTED = "committed"
    QUARANTINED = "quarantined"
    ABANDONED = "abandoned"  # its batch was given up: a person decides what becomes of it
    DROPPED = "dropped"  # a person has given it up for good
    FORGOTTEN = "forgotten"  # its claim has outlived the record of its notice or batch, which had been registered


SENT = frozenset({AuditFinding.LOST, AuditFinding.STALE})


def judge_listed(
    listed: Listed,
    claim: Claim | None,
    owner: NoticeRecord | None,
    batch: Batch | None,
    *,
    now: int,
    min_age: int,
    horizon: int,
) -> AuditFinding:
    """What has become of an upload that is in the bucket now, and was modified within the horizon.

    `owner` is the record of the notice in the claim, `batch` that of the notice's batch. `min_age` and `horizon` are in
    seconds.

    **An upload without a claim is lost.** A claim is put after its upload, hence within the horizon, and expires only
    after it.

    **A claim whose owner has no record is stale** if it is at least `min_age` old and not older than the horizon. The
    danger is an owner that did register, in a batch that may be committed, and whose record has expired: its uploads
    must never be sent again, and `void` takes an expired record for none. A notice registers after it has claimed, and
    its record is kept for longer than `claims`, counted from then. So while the claim was made within the horizon,
    which is shorter than `claims`, the record of a registered owner is still there. An older claim proves nothing: it
    lives on while its bytes come again (docs/adr/0030), and its owner's record may have expired. It counts as
    FORGOTTEN, and nothing is done.

    This rests on `horizon` being shorter than `claims` was when the claim was made: it is a constant, and `claims` is
    never shorter.

    **What a rolled back batch still owns is lost**, if all of it was sent again: its new notice never arrived. What
    ended as present is committed.

    **An upload that ended without a row is lost again** if it was put again and no notification told of that. In a
    bucket with versions a version is put once. A version that had vanished and is listed is there all the same. One
    that was superseded has given way to a later one, and stays so. A version id cannot tell the same bytes apart in a
    bucket without versions, but time can: the object was modified after it was claimed. So it is for an upload that was
    dropped: nothing of it is sent, but the same bytes that somebody put later are an upload of their own, which nobody
    has dropped.
    """
    if claim is None:
        return AuditFinding.LOST
    if claim.outcome:
        return _judge_ended(listed, claim)
    if owner is None:
        age = now - claim.claimed_at
        if age > horizon:
            return AuditFinding.FORGOTTEN
        return AuditFinding.PENDING if age < min_age else AuditFinding.STALE
    if owner.void:
        return AuditFinding.LOST
    if batch is None:
        return AuditFinding.FORGOTTEN
    if batch.state is State.ABANDONED:
        # settling is about to write it into the claim, unless its part was missing and skipped
        return AuditFinding.LOST if was_put_again(claim, listed.upload, listed.modified) else AuditFinding.ABANDONED
    if batch.state is State.COMMITTED:
        # its table was rolled back past it, and all that it had landed was sent: the claim would have another owner
        return AuditFinding.LOST if batch.sent_again else AuditFinding.COMMITTED
    return AuditFinding.PENDING


def _judge_ended(listed: Listed, claim: Claim) -> AuditFinding:
    if claim.outcome == Outcome.PRESENT:
        return AuditFinding.COMMITTED
    if claim.outcome == Outcome.SUPERSEDED and listed.upload.etag is None:
        return AuditFinding.COMMITTED
    if claim.outcome in (Outcome.VANISHED, Outcome.SUPERSEDED):
        return AuditFinding.LOST
    if was_put_again(claim, listed.upload, listed.modified):
        return AuditFinding.LOST
    others = {ABANDONED: AuditFinding.ABANDONED, DROPPED: AuditFinding.DROPPED}
    return others.get(claim.outcome, AuditFinding.QUARANTINED)


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """How many uploads were listed, and how many of them are outside the window, or were found to be what. `outside`
    has those, too, that no route takes today."""

    listed: int = 0
    outside: int = 0
    lost: int = 0
    stale: int = 0
    pending: int = 0
    committed: int = 0
    quarantined: int = 0
    abandoned: int = 0
    dropped: int = 0
    forgotten: int = 0
    gone: int = 0
    """Suspects of a screening that the bucket does not have (see `tidegate.core.screening`)."""

    @property
    def sent(self) -> int:
        """Uploads that were lost, for whichever reason."""
        return self.lost + self.stale

    @property
    def holds(self) -> bool:
        """Whether each listed upload is counted once."""
        return self.listed == sum(self.as_dict().values()) - self.listed

    def __add__(self, other: "AuditCounts") -> "AuditCounts":
        return AuditCounts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def as_dict(self) -> dict[str, int]:
        return asdict(self)

    @staticmethod
    def from_dict(values: Mapping[str, int]) -> "AuditCounts":
        return AuditCounts(**{field.name: values.get(field.name, 0) for field in fields(AuditCounts)})


def count_findings(listed: int, findings: Iterable[AuditFinding]) -> AuditCounts:
    """Of `listed` uploads those with a finding are within the window."""
    found = Counter(each.value for each in findings)
    return AuditCounts(listed=listed, outside=listed - found.total(), **found)


# ---- runs


@dataclass(frozen=True, slots=True)
class AuditLimits:
    """When a scheduled run begins, and what it looks at; in seconds (`[audit]`, and `tidegate.settings.fixed`).

    `job_above`: if a run has listed more uploads than this, a job screens the bucket for the next one.
    """

    min_age: int
    max_age: int
    every: int
    horizon: int
    job_above: int = 5_000_000


@dataclass(frozen=True, slots=True)
class AuditRun:
    """How a place is watched, and the scheduled run that began there last, as the ledger has it. Times are in epoch
    seconds, 0 for "not yet".

    The place is watched from `watched_since` to `left_at`, while some route takes exactly it: what was put there before
    or after, nobody has asked for. `number` counts the times that it came back after long.

    `page` is how many pages are done, and `after` where the next one begins. `source` is empty if the run lists the
    bucket itself. Else a job screens the bucket first, and this is where it finds the uploads
    (`tidegate.core.screening`). `job` is that job run, empty before it is started. A run whose job failed, or whose
    findings are gone, is given up: it has `finished_at`, and the next one begins where it did.
    """

    place: Place
    id: str
    started_at: int
    since: int
    until: int
    watched_since: int
    number: int = 1
    left_at: int = 0
    page: int = 0
    after: Marker = BEGINNING
    counts: AuditCounts = AuditCounts()
    finished_at: int = 0
    source: str = ""
    job: str = ""
    given_up: bool = False

    def window(self, limits: AuditLimits) -> Window:
        return Window(self.since, self.until, limits.min_age, limits.horizon)


def first_run(place: Place, former: AuditRun | None, limits: AuditLimits, *, run_id: str, now: int) -> AuditRun:
    """The place is watched from now on. The bucket may have been there for years: nobody announced what was in it, nor
    asked for it to be loaded. So the first run has nothing to look at, and has ended. `former`: how the place was
    watched before, until long ago."""
    return AuditRun(
        place=place,
        id=run_id,
        started_at=now,
        since=now,
        until=now - limits.min_age,
        watched_since=now,
        number=former.number + 1 if former else 1,
        finished_at=now,
    )


def was_never_left(last: AuditRun, limits: AuditLimits, *, now: int) -> bool:
    """Whether a place that comes back is watched on as if it had not been left: it was away for so short a time that
    two versions of a deployment took turns, or that one was rolled back."""
    return now - last.left_at <= limits.every + limits.min_age


def next_run(last: AuditRun, limits: AuditLimits, *, run_id: str, now: int, source: str = LISTING) -> AuditRun | None:
    """The run that follows `last`, before its first page; None if none is due. `source` is where the uploads are found.

    A run that has not finished goes on, however long ago it began. The next one begins `every` after it did, if there
    is something to look at. In a place that was left there is until `max_age` after that: each of its uploads is looked
    at for as long as it would have been.
    """
    if not last.finished_at or now - last.started_at < limits.every:
        return None
    since, until = now - limits.max_age, now - limits.min_age
    if not 0 < last.left_at <= last.until:
        # from where the last run ended, if that is longer ago than `max_age`: it ran for long, or runs are rare
        since = min(since, last.until)
    if last.left_at:
        until = min(until, last.left_at)
    since = max(last.watched_since, now - limits.horizon, since)
    if since > until:
        return None
    return replace(
        AuditRun(last.place, run_id, now, since, until, last.watched_since, last.number, last.left_at),
        source=source if is_large(last, limits) or source != LISTING else "",
    )


def is_large(last: AuditRun | None, limits: AuditLimits) -> bool:
    """Whether a job screens the bucket though it has no other source than its listing. A run that was given up has not
    counted."""
    if last is None:
        return False
    return last.counts.listed > limits.job_above or (last.given_up and last.source == LISTING)


def watch_of(place: Place, runs: Iterable[AuditRun]) -> AuditRun | None:
    """The last time that the place was watched, whether or not it was left since."""
    return max((run for run in runs if run.place == place), key=lambda run: run.number, default=None)


def scope_of(run: AuditRun, routes: Iterable[Route]) -> Route | None:
    """The place of the run, as a route. Of a place that was left, as one of the routes that take a part of it today:
    its bucket is listed, which belongs to the same account. None if no route takes anything of it."""
    there = [route for route in routes if not route.retired and route.place.overlaps(run.place)]
    if not run.left_at:
        return next((route for route in there if route.place == run.place), None)
    # what other source the place had may be gone
    return next(
        (replace(each, prefix=run.place.prefix, suffix=run.place.suffix, audit_from=LISTING) for each in there), None
    )

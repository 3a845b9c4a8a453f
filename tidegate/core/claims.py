"""Decision 1: which notice an upload belongs to, judged from the claim that exists."""

from dataclasses import dataclass
from enum import Enum, auto

from tidegate.core.batches import Batch, State
from tidegate.core.notices import ORIGIN_S3, Entry, Notice, NoticeRecord
from tidegate.core.outcomes import ABANDONED, ROWS_OF, SAME_BYTES, Outcome
from tidegate.core.uploads import Upload, is_later

MARGIN = 60
"""Seconds by which S3's clock and a function's may differ."""


@dataclass(frozen=True, slots=True)
class CountedAs:
    """How an upload is counted: in the sums of `route`, with the uploads of this `outcome`, one of `Outcome` or
    `core.outcomes.ABANDONED`."""

    route: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Claim:
    """An upload's owner: a notice. `outcome` is set only if the upload was not committed. Times are in epoch seconds.

    `sequencer` is the claimed upload's, if its notification had one. `later` is the last sequencer with which the same
    bytes were uploaded again before the outcome was known. `before` is how the upload was counted when this notice took
    it over, None if it was not: it leaves those sums when this notice is registered.
    """

    version: str
    notice: str
    claimed_at: int
    expires_at: int
    outcome: str = ""
    error: str = ""
    sequencer: str = ""
    later: str = ""
    before: CountedAs | None = None

    @property
    def rows_of(self) -> str:
        """The batch whose rows the upload had in its table, if it ended as present; else empty."""
        return self._present[0] if self.outcome == Outcome.PRESENT else ""

    @property
    def why_present(self) -> str:
        """Why it keeps these rows although it was to be reloaded, or that they are of the same bytes; empty if it came
        again."""
        return self._present[2] if self.outcome == Outcome.PRESENT else ""

    @property
    def same_as(self) -> str:
        """The version whose bytes it has (`core.same_bytes`), and which has these rows; empty if it has its own."""
        why = self.why_present
        return why.removeprefix(SAME_BYTES) if why.startswith(SAME_BYTES) else ""

    @property
    def _present(self) -> tuple[str, str, str]:
        return self.error.removeprefix(ROWS_OF).partition(": ")


class Ownership(Enum):
    """What an existing claim means for a notice that lists the same upload."""

    MINE = auto()  # a retry, or the SDK's own retry of a put whose answer was lost
    DUPLICATE = auto()  # another notice owns it: refuse it
    ASK_OWNER = auto()  # this notice takes it over, if its owner has let go of it
    UPLOADED_AGAIN = auto()  # the same bytes were uploaded later: a new upload, if the owner has let go of the old one


NEEDS_OWNER = frozenset({Ownership.ASK_OWNER, Ownership.UPLOADED_AGAIN})
"""These depend on whether the claim's owner has let go (`has_let_go`)."""


def judge(existing: Claim, notice: Notice, entry: Entry) -> Ownership:
    """Rules 1 and 4: only the owner in the claim decides. A refused put alone proves nothing. `entry` is one of
    `notice`."""
    if existing.notice == notice.id:
        return Ownership.MINE
    if entry.takes_from and existing.notice == entry.takes_from:
        return Ownership.ASK_OWNER
    if is_later(entry.upload.sequencer, existing.sequencer):
        return Ownership.UPLOADED_AGAIN
    # what a listing found has no sequencer: time has to tell, as it tells an audit. Only S3's own notice has that of
    # the put: who makes one for uploads of another stamps it when it is sent
    announced = notice.origin == ORIGIN_S3 and entry.upload.sequencer and not existing.sequencer
    if announced and was_put_again(existing, entry.upload, notice.at):
        return Ownership.UPLOADED_AGAIN
    return Ownership.DUPLICATE


def was_put_again(claim: Claim, upload: Upload, at: int) -> bool:
    """Whether what was put `at` (epoch seconds, S3's clock) was put after it was claimed: the same bytes, in a bucket
    without versions."""
    return upload.etag is not None and at > claim.claimed_at + MARGIN


def has_let_go(claim: Claim, owner: NoticeRecord | None, batch: Batch | None) -> bool:
    """Whether the claim's owner will never publish the upload. `owner` is the ledger's record of the notice in the
    claim, `batch` that of the notice's batch. Each of these facts is final."""
    if claim.outcome:
        # recorded after the table decided: the batch is published, without a row of this upload
        return True
    if owner is None:
        return False
    return owner.void or (batch is not None and batch.state is State.ABANDONED)


def has_landed(claim: Claim, batch: Batch | None) -> bool:
    """Whether the upload has landed in `batch`, that of its claim's owner; also if its rows were removed since."""
    return batch is not None and batch.state is State.COMMITTED and not claim.outcome


def in_table(claim: Claim, batch: Batch | None) -> bool:
    """Whether the upload has landed in `batch`, or was in its table already."""
    return batch is not None and batch.state is State.COMMITTED and claim.outcome in ("", Outcome.PRESENT)


def may_land_too(claim: Claim, batch: Batch | None, table: str, *, reloads: bool = False) -> bool:
    """Whether an upload that has landed in its claim's `batch` may go to `table`, too, if a notice names that owner.

    To another table, yes: the batch's table was fixed when it was sealed, so it never lands there. To the same table
    only if the batch can never bring rows again (`Batch.rows_removed`), or if its rows give way (`reloads`). Each of
    these facts is final. Whether rows of the upload are there is for the job to see (`flows.publish.Attempt.stage`)."""
    if batch is None or not has_landed(claim, batch) or not table:
        return False
    return batch.table != table or batch.rows_removed or reloads


@dataclass(frozen=True, slots=True)
class LetGo:
    """What the next owner of a claim gets with it: `Claim.before`. `in_table`: the upload is in the owner's table, so
    only a notice that was made for this claim may take it."""

    before: CountedAs | None
    in_table: bool = False


def counted(claim: Claim, owner: NoticeRecord | None, batch: Batch | None) -> CountedAs | None:
    """How the upload of a claim that was let go is counted. `owner` and `batch` as in `has_let_go`.

    A void notice was never registered, so it is counted as it was before that notice. None also if the owner's record
    has expired: then the upload is counted twice from now on, once for each of two registrations.
    """
    if owner is None:
        return None
    if owner.void:
        return claim.before
    if claim.outcome:
        return CountedAs(owner.route, claim.outcome)
    ended = {State.ABANDONED: ABANDONED, State.COMMITTED: Outcome.COMMITTED.value}
    as_what = ended.get(batch.state) if batch is not None else None
    return CountedAs(owner.route, as_what) if as_what else None


def is_news(claim: Claim, upload: Upload) -> bool:
    """Whether the claim has recorded neither this upload of the same bytes nor a later one."""
    return claim.later != upload.sequencer and not is_later(claim.later, upload.sequencer)


def is_live(expires_at: int, now: int) -> bool:
    """Rule 5: an expired item counts as absent. DynamoDB deletes expired items late, "typically within two days"
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html)."""
    return expires_at > now

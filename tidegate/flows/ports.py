"""What the flows need from the world. `tidegate.aws` answers on AWS; a simulation may answer as well."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from tidegate.core.batches import Batch, JobState
from tidegate.core.claims import Claim
from tidegate.core.manifests import Part
from tidegate.core.notices import Entry, Notice
from tidegate.core.outcomes import NO_TALLY, Tally
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.routes import Dataset, Route
from tidegate.core.uploads import Upload

Clock = Callable[[], int]
"""Now, in epoch seconds."""

NewId = Callable[[], str]
"""A new batch id: random, never given twice, sortable by time (a ULID)."""


@dataclass(frozen=True, slots=True)
class NoticeRecord:
    """What became of a notice: registered in `batch`, or void (`batch` is then empty). Final either way."""

    id: str
    route: str
    batch: str
    part: str
    objects: int
    bytes: int
    decided_at: int

    @property
    def void(self) -> bool:
        return not self.batch


@dataclass(frozen=True, slots=True)
class RouteRecord:
    """Where a route stands: its batches that have not ended, and the sums over those that have."""

    name: str
    open_batch: str = ""
    sealed: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    refused: int = 0
    jobs: int = 0
    notified: int = 0
    tally: Tally = NO_TALLY
    committed_batches: int = 0
    abandoned_batches: int = 0
    abandoned_objects: int = 0

    @property
    def unfinished(self) -> tuple[str, ...]:
        return (*((self.open_batch,) if self.open_batch else ()), *self.sealed, *self.running)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a notice owns after claiming, and what it was refused because another notice owns it.

    `again` are uploads that ended without a row and came again, later and with the same bytes: this notice may not
    have them, but one that is made to take them from their owner may (rule 4).
    """

    owned: tuple[Upload, ...]
    refused: tuple[Upload, ...]
    again: tuple[Entry, ...] = ()


class Registration(Enum):
    """How registering a notice ended. Each is expected; none is an error."""

    REGISTERED = auto()  # now, or by an earlier try of the very same registration
    ELSEWHERE = auto()  # another delivery of this notice registered it first
    VOID = auto()  # an audit voided it: what it claimed belongs to another notice now
    BATCH_CLOSED = auto()  # the batch is not open any more: take the one that is


class Ledger(Protocol):
    """Decisions 1 and 2 and the life of batches, each change one conditional write.

    Every method may raise Retryable or OutcomeUnknown; calling it again with the same arguments is always safe.
    """

    def notice(self, notice_id: str) -> NoticeRecord | None: ...

    def notices(self, notice_ids: Iterable[str]) -> Mapping[str, NoticeRecord]: ...

    def claims(self, bucket: str, key: str) -> Sequence[Claim]:
        """The live claims on all versions of one object."""
        ...

    def claim(self, notice: Notice) -> Claimed:
        """Decision 1, for every upload of the notice."""
        ...

    def open_batch(self, route: str, new_id: NewId) -> Batch:
        """The route's open batch, opened now if there is none."""
        ...

    def register(self, notice: Notice, batch_id: str, part: Part) -> Registration:
        """Decision 2: the notice is the batch's, if the batch is still open and the notice undecided."""
        ...

    def void(self, notice_id: str, route: str) -> bool:
        """Decision 2, the other way: True if the notice is void, now or already."""
        ...

    def refuse(self, route: str, count: int) -> None:
        """Count uploads refused as duplicates: a statistic, exact but for crashes."""
        ...

    def batch(self, batch_id: str) -> Batch | None: ...

    def route(self, name: str) -> RouteRecord: ...

    def known_routes(self) -> Mapping[str, Route]:
        """Every route that ever gathered uploads, by name, with its settings as they were last deployed."""
        ...

    def known_route(self, name: str) -> Route | None: ...

    def remember_route(self, route: Route) -> None:
        """Keep the route's settings: what is under way is brought to its end by them if the configuration loses it."""
        ...

    def seal(self, batch_id: str, route: str, table: str = "", dataset: str = "") -> bool:
        """OPEN to SEALED, for this table and as this dataset (JSON); False if it was not open, or empty."""
        ...

    def note_manifest(self, batch_id: str, digest: str) -> bool:
        """Note the digest of the batch's manifest, once. False if the batch has another one, or is gone."""
        ...

    def begin_attempt(self, batch_id: str, route: str, attempt: int, in_flight: int) -> bool:
        """SEALED to SUBMITTED(1), or SUBMITTED(attempt - 1) to SUBMITTED(attempt); False if somebody else did, or if
        attempt 1 would make more than `in_flight` batches of the route submitted."""
        ...

    def fix_dataset(self, batch_id: str, attempt: int, dataset: str) -> str | None:
        """How the attempt reads its files: the first answer counts, and is returned. None if the batch has moved on."""
        ...

    def record_job(self, batch_id: str, attempt: int, job_run: str) -> None: ...

    def record_endings(self, endings: Sequence[Ending]) -> tuple[Entry, ...]:
        """Write how uploads ended, where that is not plain success, into their claims.

        Returns those that had been uploaded again meanwhile, as entries of the notice to be made for them. Writing the
        same endings again returns the same, until a notice has taken the claims over.
        """
        ...

    def note_endings(self, batch_id: str, done: int) -> None:
        """Note in the batch that `done` of its endings need no further look."""
        ...

    def commit(self, batch_id: str, route: str, receipt: Receipt) -> bool:
        """SUBMITTED to COMMITTED, or to ABANDONED if the receipt is of a fence; False if it had ended already."""
        ...

    def halt(self, batch_id: str, attempt: int, reason: str) -> None:
        """Start nothing more for this batch until a person has looked. A sealed batch, which has no attempt yet, is
        only marked so: hand-off goes on trying."""
        ...

    def resume(self, batch_id: str, route: str, attempt: int, fencing: bool, floors: int = 0) -> bool:
        """Begin `attempt` of a halted batch; or (`fencing`) of any submitted one, to fence it off instead of publishing
        it. `floors` as in `Batch`. Whoever settles next starts the job. False if the batch has moved on meanwhile."""
        ...


class RestoredLedger(Protocol):
    """What recovering needs of a ledger that was restored to an earlier time. What also `Ledger` has means the same."""

    def notice(self, notice_id: str) -> NoticeRecord | None: ...

    def notices(self, notice_ids: Iterable[str]) -> Mapping[str, NoticeRecord]: ...

    def batch(self, batch_id: str) -> Batch | None: ...

    def route(self, name: str) -> RouteRecord: ...

    def known_routes(self) -> Mapping[str, Route]: ...

    def void(self, notice_id: str, route: str) -> bool: ...

    def record_endings(self, endings: Sequence[Ending]) -> tuple[Entry, ...]: ...

    def claims_on(self, uploads: Iterable[Upload]) -> Mapping[tuple[str, str, str], Claim]:
        """The live claims on these uploads, by identity."""
        ...

    def let_go(self, claim: Claim) -> bool:
        """Whether the claim's owner will never publish the upload. Final."""
        ...

    def take_back(self, notice_id: str, uploads: Sequence[Upload]) -> tuple[tuple[Upload, Claim], ...]:
        """Claim for a notice whose uploads are in a manifest. Returns those that a notice has which did not let go."""
        ...

    def write_notice(self, becomes: NoticeRecord, there: NoticeRecord | None, *, withdraw: bool = False) -> bool:
        """Put right what a restored ledger says of a notice, if it still says `there`. `withdraw`: the batch that the
        notice is in no longer counts it; only an open one can do that. False if anything has changed meanwhile."""
        ...

    def restore_batch(self, becomes: Batch, there: Batch | None) -> bool:
        """Put right the header of a sealed or submitted batch, and where its route lists it, if the ledger still says
        `there`."""
        ...


class Work(Protocol):
    """The work bucket. Names are relative to it; an object is written whole or not at all."""

    def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, body: bytes) -> None: ...

    def put_if_absent(self, name: str, body: bytes) -> bool:
        """True if this call created it (S3 conditional write, `If-None-Match: *`)."""
        ...

    def names(self, prefix: str) -> Iterator[str]: ...

    def folders(self, prefix: str, first: str) -> Iterator[str]:
        """The names of the folders right under `prefix`, in order and without their slash, from `first` on."""
        ...


class Topic(Protocol):
    """The FIFO topic that carries notices to dispatch."""

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        """The ids of the notices that were accepted."""
        ...


class DeadLetters(Protocol):
    """Where messages go that can never succeed as they are."""

    def set_aside(self, body: str, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class JobReport:
    """What the job service says of a run; `details` are its words, for people."""

    state: JobState
    details: str = ""


class Jobs(Protocol):
    """The service that runs the Spark step."""

    def start(self, batch: Batch, dataset: Dataset, *, owner: str, last: bool) -> str | None:
        """The id of the run of this batch's current attempt; None if somebody else is starting it right now.

        `owner` is the account of the uploads' bucket, empty for the deployment's own. `last` tells the job that no
        other attempt follows by itself.
        """
        ...

    def report(self, job_run: str) -> JobReport: ...


class Counter(Protocol):
    """Metrics: how often something happened, by route."""

    def __call__(self, name: str, value: int, route: str = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message of a queue: the id to answer for, and its text."""

    id: str
    body: str

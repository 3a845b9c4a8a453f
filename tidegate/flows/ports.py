"""The ports of the flows. `tidegate.aws` implements them on AWS; a simulation may implement them too."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.announcements import Announcement
from tidegate.core.audit import Listed, Marker, Window
from tidegate.core.batches import Batch, JobState
from tidegate.core.lineage import Landed
from tidegate.core.notices import Notice
from tidegate.core.publication import History
from tidegate.core.routes import Dataset, Route
from tidegate.flows.ledger import Ledger
from tidegate.flows.store import Clock, NewId
from tidegate.metrics import Metric


class Work(Protocol):
    """The work bucket. Names are relative to it. An object is written whole or not at all."""

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
        """The ids of the notices that were accepted. If none was, it may raise TidegateError, which says why."""
        ...


class DeadLetters(Protocol):
    """A queue for messages that can never succeed as they are."""

    def set_aside(self, body: str, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class JobReport:
    """The job service's report of a run. `details` is its text, for people. `running`: its driver runs."""

    state: JobState
    details: str = ""
    running: bool = False


class Jobs(Protocol):
    """The service that runs the Spark step."""

    @property
    def code(self) -> str:
        """What a job that is started now runs; empty if there are no workers: each job makes one attempt."""
        ...

    @property
    def takes_for(self) -> int:
        """Seconds after its start in which a worker takes batches."""
        ...

    @property
    def stay(self) -> int:
        """Seconds for which a worker waits for a batch; `core.workers.ALWAYS` if one has always to be there."""
        ...

    def start_worker(self, worker: str) -> str:
        """Start a worker of this id for no batch. The id of its run; the same one if it was started before."""
        ...

    def start(self, batch: Batch, dataset: Dataset, *, owner: str, last: bool) -> str | None:
        """The id of the run that is started for this batch's current attempt, which is a worker's if that is offered
        (`core.workers.is_offered`); None if another process is starting it right now.

        `owner` is the account of the uploads' bucket, empty for the deployment's own. `last`: no other attempt follows
        by itself.
        """
        ...

    def report(self, job_run: str) -> JobReport: ...


@dataclass(frozen=True, slots=True)
class ListedPage:
    """Some uploads of a listing, in its order, and where the next page begins; None after the last page."""

    listed: tuple[Listed, ...]
    after: Marker | None


class Listing(Protocol):
    """The listings of the landing buckets."""

    def page(self, bucket: str, prefix: str, after: Marker, owner: str) -> ListedPage:
        """The versions of objects under `prefix` that follow `after`, without delete markers. In a bucket without
        versions these are its objects. `owner` is the account that owns the bucket, empty for the deployment's own."""
        ...


class EventBus(Protocol):
    """Where batches are announced, for whoever wants to know."""

    def send(self, announcements: Sequence[Announcement]) -> Mapping[str, str]:
        """Send at most ten. Returns the ids of those that were not taken, each with the reason."""
        ...


class Screens(Protocol):
    """Starts jobs that screen buckets. Only an audit asks for them."""

    def start(self, run: str, route: Route, source: str, window: Window) -> str:
        """The id of the job run: the same one, if the same run is started again."""
        ...

    def log_of(self, job_run: str) -> str:
        """A sentence, without its full stop, that says where the log of a job run is."""
        ...


class Maintenance(Protocol):
    """Starts jobs that maintain tables. The request is in the work bucket."""

    def start(self, run: str) -> str:
        """The id of the job run, or its name for people: the same one, if the same run is started again."""
        ...


class Lineage(Protocol):
    """The uploads that have rows in the tables."""

    def landed(self, table: str, prefix: str = "") -> Iterator[Landed]:
        """What one snapshot of `main` holds, read now or later, never earlier than this call. `prefix` is
        `s3://bucket/prefix`, or empty for all. By bucket and key in the order of their UTF-8 bytes, as S3 lists, then
        by version and batch. Nothing, if there is no such table. Its memory does not grow with the table.

        Raises one of the three errors, also while it is read: whoever has read all of it knows that nothing was left
        out.
        """
        ...

    def with_history(self, table: str, prefix: str = "") -> tuple[History, Iterator[Landed]]:
        """What `landed` reads, and the history of `main` that ends at the snapshot that was read. The
        history of a table that does not exist has no ancestors."""
        ...


class Fencer(Protocol):
    """Fences a batch whose table was rolled back past it. No function does that: only a command asks for it."""

    def fence(self, batch: Batch, dataset: Dataset, *, owner: str) -> None:
        """Returns when the batch can never land again, and has no row in its table. `owner` as in `Jobs.start`. Raises
        Rejected if the job refused, and Retryable if it failed; both with its reason."""
        ...


class Measure(Protocol):
    """Writes one metric, by route if the metric is: the increase of a counter, or the current value of a gauge."""

    def __call__(self, metric: Metric, value: int, route: str = ...) -> None: ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one deployment."""

    ledger: Ledger
    work: Work
    topic: Topic
    jobs: Jobs
    dead_letters: DeadLetters
    """For records that are no notifications."""
    notices_dead_letters: DeadLetters
    """For messages that are no notices."""
    measure: Measure
    clock: Clock
    new_id: NewId
    listing: Listing
    bus: EventBus | None
    """None if this deployment announces nothing."""
    lineage: Lineage


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message of a queue: its id and its text."""

    id: str
    body: str

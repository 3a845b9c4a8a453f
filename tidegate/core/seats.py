"""Shared jobs: a job that takes further batches along after its own, and the seats that they get in it.

In the folder of the batch that the job was started for:

    seats/<attempt>/000001.json   a batch that rides along, or that the job takes no more

Each seat is written once (`If-None-Match: *`), by hand-off with a batch or by the job to close. So a seat is either
taken or closed, and no batch is given to a job that has ended its search for more.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from tidegate.core.batches import Batch, State
from tidegate.core.manifests import batch_folder
from tidegate.core.versions import check_version

VERSION = 1

SMALL_BYTES = 64_000_000
SMALL_OBJECTS = 5_000
"""A batch within both is small: its rows land in a minute or so."""
MOST_SEATS = 100
LONGEST_SHARED = 60 * 60
"""Seconds after its start for which a job takes further batches, at most: see `shared_for`."""
MOST_IN_LINE = 20
LATEST_IN = 5 * 60
"""Seconds. If the batch that a job is at was given to it longer ago than this, the job may be stuck: nothing gets in
line."""
TO_A_SEAT = 4
"""Seconds that a batch may take from its sealing to its seat, with those from a receipt to the ledger."""
RIDER_PATIENCE = 30 * 60
LARGE_PATIENCE = 4 * 60 * 60
"""Seconds after which a batch that rides gets a job of its own: see `patience`."""


@dataclass(frozen=True, slots=True)
class SharedJob:
    """The job that was started last and that may take batches along: of which attempt it was the job, its run, when it
    was started, and until when it takes batches (epoch seconds). `code` is what it runs (`flows.ports.Jobs.code`).
    `latest` is the batch that got into it last, as far as that was noted."""

    batch: str
    attempt: int
    job_run: str
    code: str
    started_at: int
    until: int
    latest: str

    @property
    def seats(self) -> str:
        return seats_folder(self.batch, self.attempt)


@dataclass(frozen=True, slots=True)
class Seat:
    """A batch in a seat: what a job needs to know to make its first attempt. The fields are those of the job's command
    line (`tidegate.spark.job`). `line` are the batches that were before it and had not ended, the first one first;
    `small`: whether it and they are (`is_small`)."""

    batch: str
    digest: str
    last: bool
    dataset: str
    landing_owner: str
    small: bool
    line: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1).encode()


CLOSED = json.dumps({"v": VERSION, "closed": True}, indent=1).encode()


def code_of_job(entry_point: str, spark_parameters: str) -> str:
    """A short name of the code that a job runs: its script and its modules are called by the hash of what is in
    them."""
    return hashlib.sha256(f"{entry_point}\0{spark_parameters}".encode()).hexdigest()[:16]


def decode_seat(body: bytes) -> Seat | None:
    """None if it is closed. Raises Rejected if newer code wrote it."""
    data = json.loads(body)
    check_version(data.pop("v"), "a seat", VERSION)
    return None if data.get("closed") else Seat(**{**data, "line": tuple(data["line"])})


def seats_folder(batch_id: str, attempt: int) -> str:
    return f"{batch_folder(batch_id)}seats/{attempt}/"


def seat_name(folder: str, number: int) -> str:
    """The seat with this number, from 1."""
    return f"{folder}{number:06}.json"


def is_small(batch: Batch) -> bool:
    return batch.bytes <= SMALL_BYTES and batch.objects <= SMALL_OBJECTS


def may_ride(batch: Batch, *, last: bool) -> bool:
    """Whether a batch may go to a job that another batch started. Only in its first attempt: what made an attempt fail
    must not fail others with it. Not in its `last` one: what fails a neighbour must not halt it. And a fence, for which
    a person waits, has a job of its own."""
    return batch.attempt == 1 and not batch.fencing and not last


def shared_for(job_timeout: int) -> int:
    """Seconds after its start for which a job takes further batches. Half of its time at most, so that the last of them
    has the other half. And an hour at most: so whatever a process leaves behind, such as memory, is left for an hour.
    """
    return min(LONGEST_SHARED, job_timeout // 2)


def takes_along(job: SharedJob, code: str, *, now: int) -> bool:
    """Whether the job may still be taking batches, as far as its record tells. `code` is what a job that was started
    now would run: a job of other code might read the seat otherwise."""
    return job.code == code and now < job.until


def waits(job: SharedJob, latest: Batch | None, code: str, *, linger: int, now: int) -> bool:
    """Whether the job has decided all that it was given, and waits for a batch. `latest` is the batch that got into it
    last, `linger` for how many seconds a job waits. It may have failed meanwhile: then who counts on it needs a job."""
    if latest is None or latest.state not in (State.COMMITTED, State.ABANDONED):
        return False
    return takes_along(job, code, now=now) and now - latest.ended_at < linger - TO_A_SEAT


def line_before(job: SharedJob, ahead: Sequence[Batch | None], *, now: int) -> tuple[str, ...] | None:
    """The batches that a new one would stand behind: of those that got into the job last, the ones that have not ended.
    None: it must not get in line, because the job may be stuck.

    A job makes its attempts one after the other. So it is stuck if it has had one of these for long, or if one of them
    was taken from it: it is in a later attempt, which has another job. None in `ahead`: the ledger does not know it.
    """
    if any(each is None or each.attempt != 1 or each.job_run not in ("", job.job_run) for each in ahead):
        return None
    under_way = [each for each in ahead if each is not None and each.state is State.SUBMITTED]
    if any(now - each.submitted_at >= LATEST_IN for each in under_way) or len(under_way) >= MOST_IN_LINE:
        return None
    return tuple(each.id for each in under_way)


def patience(batch: Batch) -> int:
    """Seconds after which a batch that rides gets its next attempt, in a job of its own. If it is served meanwhile,
    that is one attempt too many, and one of the two publishes. A large one rides only where it is served at once, and
    takes longer."""
    return RIDER_PATIENCE if is_small(batch) else LARGE_PATIENCE

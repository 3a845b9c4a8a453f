"""Ride: a batch goes to a job that another batch has started, instead of starting one.

A driver costs more than the work of a small batch, and takes longer to start. So a job that has published its batch
waits a moment for the next one (`tidegate.spark.job`), and hand-off looks for such a job first.

step                                if the process dies right after it    if a twin runs beside it
1 which job takes batches along?    nothing has happened                  the same
2 is it under way, with room?       the same                              the same
3 write the batch into a seat       settling finds an attempt without a   the batch has two seats, or a seat and a job:
                                    job and gives it a seat again, or a   decision 3 lets one publish
                                    job
4 note that it got in last          the job seems to wait while it works  the note names either of two batches
5 hand-off records the job run      done

A seat is written by one process only: two batches cannot get one seat, and a batch cannot get one that the job has
closed. If the job dies, the attempts of all batches in its seats have ended without a receipt, and each has its next
attempt in a job of its own. If the job hangs, those in it do not wait for ever (`core.seats.patience`), and no other
gets in (`core.seats.line_before`).

A job that waits is a reason to seal what gathers, however short a time it has gathered (`a_job_waits`): it costs
nothing more, and its rows are there in seconds.

Nothing here is needed for correctness: which job reads a batch, and how many do, is the table's to decide. So trouble
with any step means that the batch gets a job of its own.
"""

from dataclasses import replace

from tidegate.core.batches import Batch, JobState
from tidegate.core.errors import Rejected, TidegateError
from tidegate.core.seats import (
    MOST_SEATS,
    Seat,
    SharedJob,
    decode_seat,
    is_small,
    line_before,
    may_ride,
    seat_name,
    takes_along,
    waits,
)
from tidegate.flows.ports import Ports


def ride(batch: Batch, dataset: str, ports: Ports, *, owner: str, last: bool) -> str | None:
    """Give the batch a seat in the shared job. Returns its run; None if there is none, or no room in it. `dataset`
    (JSON) is how the attempt reads."""
    code = ports.jobs.code
    if not code or not may_ride(batch, last=last):
        return None
    try:
        return _ride(batch, dataset, code, ports, owner=owner)
    except TidegateError:
        return None


def _ride(batch: Batch, dataset: str, code: str, ports: Ports, *, owner: str) -> str | None:
    job = ports.ledger.shared_job()
    if job is None or job.batch == batch.id or not takes_along(job, code, now=ports.clock()):
        return None
    room = _room(job, ports)
    if room is None:
        return None
    taken, seat = room
    if seat and seat.batch == batch.id:
        return job.job_run  # a twin was faster, or an earlier try died before it was recorded
    ahead = (*seat.line, seat.batch) if seat else (job.batch,)
    found = ports.ledger.batches(ahead)
    line = line_before(job, [found.get(each) for each in ahead], now=ports.clock())
    small = is_small(batch) and (seat.small if seat else is_small(found[job.batch])) if line else is_small(batch)
    if line is None or (line and not small):
        return None
    new = Seat(batch.id, batch.manifest, False, dataset, owner, small, line)
    if not ports.work.put_if_absent(seat_name(job.seats, taken + 1), new.encode()):
        return None  # the job has closed, or another batch was faster
    ports.ledger.note_shared_job(replace(job, latest=batch.id))
    return job.job_run


def shared_job(ports: Ports) -> SharedJob | None:
    """The job that was started last, if jobs take batches along."""
    return ports.ledger.shared_job() if ports.jobs.code else None


def a_job_waits(job: SharedJob | None, ports: Ports) -> bool:
    """Whether this job has nothing to do, and room. It costs a read of the ledger, and if that says so a question to
    the service and two reads of the seats: the ledger may have heard late of what was decided last."""
    if job is None:
        return False
    latest = ports.ledger.batch(job.latest)
    now, linger = ports.clock(), ports.jobs.linger
    return waits(job, latest, ports.jobs.code, linger=linger, now=now) and _room(job, ports) is not None


def _room(job: SharedJob, ports: Ports) -> tuple[int, Seat | None] | None:
    """How many seats of the job are taken, and the last of them. None if it is not under way, or takes no more: it may
    be called active for a while after it has closed."""
    if ports.jobs.report(job.job_run).state is not JobState.ACTIVE:
        return None
    taken = sum(1 for _ in ports.work.names(job.seats))
    seat = _read(seat_name(job.seats, taken), ports) if taken else None
    return None if taken >= MOST_SEATS or (taken and seat is None) else (taken, seat)


def share(batch: Batch, job_run: str, ports: Ports, *, last: bool) -> None:
    """Record that the job of this attempt takes batches along. The job that was started last is the one that counts."""
    if ports.jobs.code and may_ride(batch, last=last):
        now = ports.clock()
        job = SharedJob(
            batch.id,
            batch.attempt,
            job_run,
            ports.jobs.code,
            started_at=now,
            until=now + ports.jobs.shared_for,
            latest=batch.id,
        )
        ports.ledger.note_shared_job(job)


def _read(name: str, ports: Ports) -> Seat | None:
    """None if it is closed, or written by newer code, whose job is not ours to fill."""
    body = ports.work.get(name)
    try:
        return decode_seat(body) if body else None
    except Rejected:
        return None

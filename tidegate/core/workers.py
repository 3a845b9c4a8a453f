"""Workers: Spark jobs that take attempts, one after the other. And offers: the attempts that are there to be taken.

Both are in one partition of the ledger. Nothing here is needed for correctness: any job may attempt any batch at any
time, and the table lets one of them publish (decision 3). So it need not be exact who takes what, and who lives.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.batches import Batch, BatchLimits, is_full

SMALL_BYTES = 64_000_000
SMALL_OBJECTS = 5_000
"""A batch within both is small: its rows land in a minute or so."""

LONGEST = 60 * 60
"""Seconds after its start in which a worker takes batches, at most: see `takes_for`."""
ALWAYS = 10**9
"""Seconds that a worker stays which is always there: until it takes no more. Then there is another one."""
STAY = 10 * 60
"""Seconds that a worker stays by default: as long as that is cheaper than a start (`cost.bill.break_even`)."""
FOR_NO_BATCH = "always-"
HANDOVER = 2 * 60
"""Seconds: so long before the worker that is always there takes no more, the next one is started."""
MOST_TAKEN = 2_000
"""After so many batches a worker ends, and with it whatever a process leaves behind, such as memory. It is more than an
hour has of the quickest: the worker that is always there ends by the hour, when the next one runs."""
BEAT = 10
"""Seconds between two signs of life."""
ALIVE = 3 * BEAT
"""Seconds: who has given a sign of life as lately as that is counted on."""
SILENT = 120
"""Seconds without a sign of life after which an attempt is taken from its worker."""
GIVES_WAY = 5
"""Seconds for which a worker leaves an offer to another one that waits, too."""
MOST_WAITING = 20
"""So many small batches may wait for one worker."""
SOON = 5 * 60
"""Seconds. A worker that is at one batch for longer may be stuck: nobody waits for it. A batch that was not taken for
longer gets a worker of its own, unless one is queued: then another would be queued behind it."""
SMALL_PATIENCE = 30 * 60
"""Seconds after which a small batch is taken from a worker that gives signs of life. A large one may take hours: the
service ends a job that hangs."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The first attempt of a batch, which a worker may take. `code` is what a worker must run
    (`flows.ports.Jobs.code`), `owner` the account of the uploads' bucket. It waits since `submitted_at` (epoch
    seconds). It was sealed `early`, so many seconds before it would have been without a worker that waits. `worker`
    has taken it `taken_at`; empty if nobody has."""

    batch: str
    code: str
    owner: str
    small: bool
    submitted_at: int
    early: int = 0
    worker: str = ""
    taken_at: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """A job that takes attempts. `id` is what it was started under, `job_run` its run, "" if nobody has noted that.
    Times are epoch seconds. `seen_at` is its last sign of life, 0 before the first. It takes batches `until` then.
    `batch` is what it is at `since` then, empty if it waits for one."""

    id: str
    code: str
    job_run: str = ""
    started_at: int = 0
    until: int = 0
    seen_at: int = 0
    batch: str = ""
    since: int = 0
    small: bool = True


@dataclass(frozen=True, slots=True)
class Pool:
    """What there is to take, and who may take it."""

    offers: tuple[Offer, ...] = ()
    workers: tuple[Worker, ...] = ()


def code_of_job(application: str, entry_point: str, spark_parameters: str) -> str:
    """A short name of the code that a job runs: its script and its modules are called by the hash of what is in
    them. A new release of EMR is a new application, which knows nothing of the runs of the one before."""
    return hashlib.sha256(f"{application}\0{entry_point}\0{spark_parameters}".encode()).hexdigest()[:16]


def offer_of(batch: Batch, code: str, owner: str, limits: BatchLimits) -> Offer:
    """What is offered of a batch whose attempt has begun."""
    early = 0 if is_full(batch, limits) else max(0, batch.opened_at + limits.max_wait - batch.submitted_at)
    return Offer(batch.id, code, owner, is_small(batch), batch.submitted_at, early)


def is_small(batch: Batch) -> bool:
    return batch.bytes <= SMALL_BYTES and batch.objects <= SMALL_OBJECTS


def is_offered(batch: Batch, *, last: bool) -> bool:
    """Whether any worker may make the batch's current attempt. Only the first one: what made an attempt fail must not
    fail others with it. Not the `last` one: what fails a neighbour must not halt it. And a fence, for which a person
    waits, has a job of its own."""
    return batch.attempt == 1 and not batch.fencing and not last


def worker_id(batch: Batch) -> str:
    """The id of the worker that is started for this batch, if none is there."""
    return f"{batch.id}-{batch.attempt}"


def takes_for(job_timeout: int) -> int:
    """Seconds after its start in which a worker takes batches. Half of its time at most, so that the last of them has
    the other half."""
    return min(LONGEST, job_timeout // 2)


def waits(worker: Worker, code: str, ended: Iterable[str] = (), *, now: int) -> bool:
    """Whether the worker waits for a batch, or will as soon as it runs. It does, too, if what it was at last is one of
    the `ended` ones: it has yet to say so."""
    if worker.code != code or now >= worker.until:
        return False
    if is_queued(worker):
        return worker.small
    return abs(now - worker.seen_at) < ALIVE and (not worker.batch or worker.batch in ended)


def is_idle(worker: Worker, code: str, *, now: int) -> bool:
    """Whether the worker runs, and waits for a batch."""
    return not is_queued(worker) and waits(worker, code, now=now)


def always_id(now: int, every: int) -> str:
    """The id of a worker that is started for no batch: twins that look in the same `every` seconds start the same."""
    return f"{FOR_NO_BATCH}{now // every}"


def always_there(pool: Pool, code: str, *, now: int, takes_for: int) -> list[Worker]:
    """The workers that were started for no batch, and are queued, or take batches for `HANDOVER` from now on at least:
    if the service says so. Their signs of life do not count here: another machine's clock may differ."""
    return [
        each
        for each in pool.workers
        if each.id.startswith(FOR_NO_BATCH)
        and each.code == code
        and each.job_run
        and (is_queued(each) or now + HANDOVER < each.started_at + takes_for)
        and not is_replaced(each.id, code, pool)
    ]


def gives_way(worker: str, offer: Offer, pool: Pool, *, now: int) -> bool:
    """Whether the worker of this id leaves the offer to another one that waits: so what comes after a burst keeps one
    of those that took the burst, and not all of them. One that is always there goes first, and does not end anyway."""
    if now - offer.submitted_at >= GIVES_WAY:
        return False
    return any(_turn(each.id) < _turn(worker) for each in pool.workers if is_idle(each, offer.code, now=now))


def is_replaced(worker: str, code: str, pool: Pool) -> bool:
    """Whether a worker that was always to be there has nothing more to wait for: other code was deployed since, and its
    own worker started. Nobody offers anything to this one's any more."""
    later = (each for each in pool.workers if each.id.startswith(FOR_NO_BATCH) and each.id > worker)
    return worker.startswith(FOR_NO_BATCH) and any(each.code != code for each in later)


def is_served(offer: Offer, pool: Pool, *, now: int) -> bool:
    """Whether a worker has taken this offer, or those that there are will soon: a large one at once, a small one after
    others. If not, it needs one more."""
    if any(each.worker for each in pool.offers if each.batch == offer.batch):
        return True
    queued = any(is_queued(each) and each.code == offer.code and now < each.until for each in pool.workers)
    if now - offer.submitted_at >= SOON and not queued:
        return False
    others = (each for each in pool.offers if each.batch != offer.batch)
    waiting = 1 + sum(1 for each in others if not each.worker and each.code == offer.code)
    idle = sum(is_idle(each, offer.code, now=now) for each in pool.workers)
    if not offer.small:
        return waiting <= idle
    return waiting <= MOST_WAITING * sum(_is_quick(each, offer.code, now=now) for each in pool.workers)


def is_queued(worker: Worker) -> bool:
    """Whether it has not begun to run. Settling asks the service whether it ever will (`flows.pool`)."""
    return not worker.seen_at


def _turn(worker: str) -> tuple[bool, str]:
    return not worker.startswith(FOR_NO_BATCH), worker


def _is_quick(worker: Worker, code: str, *, now: int) -> bool:
    """Whether the worker will take a batch soon: it waits for one, or is at a small one since just now, which will have
    ended. One that is queued waits: before it has run another would not run either."""
    at_a_small_one = worker.small and now - worker.since < SOON
    return waits(worker, code, (worker.batch,) if at_a_small_one else (), now=now)


def is_stuck(batch: Batch, offer: Offer, worker: Worker | None, *, now: int) -> bool:
    """Whether the batch must not wait for its worker any longer: for the one that has taken it, else for the one that
    was started for it. The attempt may go on meanwhile: that is one too many, and one of the two publishes."""
    if not offer.worker:
        if worker is None or is_queued(worker):
            return False
        # it lives, and does something else
        at_another = bool(worker.batch) and now - worker.since >= SOON
        return now - batch.submitted_at >= (SOON if at_another else SMALL_PATIENCE)
    if worker is None or now - max(worker.seen_at, offer.taken_at) >= SILENT:
        # the worker's clock may be behind, and what is asked about was begun by this one
        return now - max(offer.taken_at, batch.submitted_at) >= SILENT
    return is_small(batch) and now - offer.taken_at >= SMALL_PATIENCE

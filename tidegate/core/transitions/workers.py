"""The transitions of what workers take, and of the workers. None of them decides whether a batch is published."""

from tidegate.core.items import Delete, Has, Item, Lacks, Put, Transition, Update, Write
from tidegate.core.records import DAY, VERSION, offer_key, worker_key
from tidegate.core.transitions.common import single
from tidegate.core.workers import Offer, Worker


def offer(offered: Offer, *, now: int) -> Transition:
    """It replaces one that nobody has taken: what a worker runs may have changed since."""
    item: Item = {
        "v": VERSION,
        "code": offered.code,
        "owner": offered.owner,
        "small": offered.small,
        "submitted_at": offered.submitted_at,
        "early": offered.early,
        "expires_at": now + DAY,
    }
    return single(f"offer batch {offered.batch}", Write(offer_key(offered.batch), Put(item), (Lacks("worker"),)))


def take(batch_id: str, worker: str, *, now: int) -> Transition:
    taken = Update(sets={"worker": worker, "taken_at": now})
    return single(f"take batch {batch_id}", Write(offer_key(batch_id), taken, (Has("code"), Lacks("worker"))))


def withdraw(batch_id: str) -> Transition:
    return single(f"withdraw the offer of batch {batch_id}", Write(offer_key(batch_id), Delete()))


def note_started(worker: Worker) -> Transition:
    """It was started. It may have said meanwhile that it lives, and that stays."""
    known: Item = {"code": worker.code, "started_at": worker.started_at, "until": worker.until, "small": worker.small}
    change = Update(
        sets={"v": VERSION, "job_run": worker.job_run, "expires_at": worker.started_at + DAY}, sets_once=known
    )
    return single(f"note that worker {worker.id} was started", Write(worker_key(worker.id), change))


def note_alive(worker: Worker) -> Transition:
    """A sign of life: what it is at, and until when it takes batches."""
    said: Item = {
        "v": VERSION,
        "code": worker.code,
        "until": worker.until,
        "seen_at": worker.seen_at,
        "batch": worker.batch,
        "since": worker.since,
        "small": worker.small,
        "expires_at": worker.seen_at + DAY,
    }
    return single(f"note that worker {worker.id} lives", Write(worker_key(worker.id), Update(sets=said)))


def leave(worker: str) -> Transition:
    return single(f"note that worker {worker} leaves", Write(worker_key(worker), Delete()))

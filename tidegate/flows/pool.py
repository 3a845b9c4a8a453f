"""The pool of workers, as settling looks after it. None of this is needed for correctness (`core.workers`)."""

from collections.abc import Iterable
from dataclasses import replace

from tidegate.core.batches import JobState, State
from tidegate.core.errors import Retryable
from tidegate.core.routes import Route
from tidegate.core.workers import ALWAYS, FOR_NO_BATCH, SOON, Pool, Worker, always_id, always_there, is_queued, waits
from tidegate.flows.hand_off import hand_off_sealed
from tidegate.flows.ports import JobReport, Ports
from tidegate.flows.seal import seal_if_due
from tidegate.schedule import SCHEDULE


def look_after_workers(routes: Iterable[Route], ports: Ports, *, wanted: bool) -> list[Exception]:
    """Forget who will never run. Start a worker if one has always to be there, and is `wanted`. And seal what
    gathers, if a worker waits for a batch: it needs no job then, and its rows are there in seconds. The worker waits
    anew after it.

    Each batch is handed off as any other. Returns the errors: one route's does not stop the others. It costs two reads,
    and two for each route while a worker waits.
    """
    troubles: list[Exception] = []
    if not ports.jobs.code:
        return troubles
    pool = ports.ledger.pool()
    troubles += _forget_dead(pool, ports)
    try:
        if wanted and ports.jobs.stay == ALWAYS and not _one_is_there(pool, ports):
            _start(ports)
    except Exception as error:
        troubles.append(error)
    for route in routes if a_worker_waits(ports, pool) else ():
        try:
            if seal_if_due(route, ports, next_look=SCHEDULE, share=0):
                hand_off_sealed(route, ports, patient=False)
        except Exception as error:
            troubles.append(error)
    return troubles


def _forget_dead(pool: Pool, ports: Ports) -> list[Exception]:
    """Who is queued is counted on while the service says so, for as long as it would take batches: with many batches
    and few vCPU that takes long.
    One that has ended gives no sign of life, ever: each look asks. One that runs and has given none for long is as one
    that gave its last when it was started: it may hang, or has just begun, and says so itself.

    One that was always to be there is not started anew each minute if it dies at once: its note stays for a while, and
    says when it was started. A second one that does is a trouble."""
    troubles: list[Exception] = []
    died = []
    for worker in pool.workers:
        age = ports.clock() - worker.started_at
        if worker.seen_at > worker.started_at or age < SCHEDULE:
            continue
        try:
            report = ports.jobs.report(worker.job_run) if worker.job_run else JobReport(JobState.ENDED)
            ended = report.state is JobState.ENDED
            stays = ended and age < 3 * SOON and worker.id.startswith(FOR_NO_BATCH)
            if stays:
                died.append(report.details)
            if ended and not stays:
                ports.ledger.leave(worker.id)
            elif is_queued(worker) and (ended or (report.running and age >= SOON)):
                ports.ledger.note_alive(replace(worker, seen_at=worker.started_at))
        except Exception as error:
            troubles.append(error)
    if len(died) > 1:
        troubles.append(Retryable(f"{len(died)} workers that were to be always there ended at once: {died[-1]}"))
    return troubles


def _one_is_there(pool: Pool, ports: Ports) -> bool:
    """Whether a worker that was started for no batch runs or is queued, by the service. One that was started `SOON` ago
    counts in any case: who dies at once is not started every minute."""
    now = ports.clock()
    there = always_there(pool, ports.jobs.code, now=now, takes_for=ports.jobs.takes_for)
    if any(now - each.started_at < SOON for each in there):
        return True
    return any(ports.jobs.report(each.job_run).state is JobState.ACTIVE for each in there)


def _start(ports: Ports) -> None:
    """Start a worker for no batch. A twin in the same minute starts the same one. If the process dies before the note,
    the worker says itself that it lives, or the next minute starts one too many, which ends like any other."""
    now = ports.clock()
    worker = always_id(now, SCHEDULE)
    run = ports.jobs.start_worker(worker)
    ports.ledger.note_started(Worker(worker, ports.jobs.code, run, started_at=now, until=now + ports.jobs.takes_for))


def a_worker_waits(ports: Ports, pool: Pool | None = None) -> bool:
    """Whether a worker has nothing to do, and nothing is there for it to take. `pool` if it was read just now."""
    if not ports.jobs.code:
        return False
    pool = pool or ports.ledger.pool()
    if any(not each.worker and each.code == ports.jobs.code for each in pool.offers):
        return False
    at = ports.ledger.batches(each.batch for each in pool.workers if each.batch)
    ended = [each.id for each in at.values() if each.state in (State.COMMITTED, State.ABANDONED)]
    return any(waits(each, ports.jobs.code, ended, now=ports.clock()) for each in pool.workers)

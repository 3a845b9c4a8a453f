"""Hand-off: a sealed batch becomes an attempt, and there is a Spark job to make it.

step                        if the process dies right after it
1 write the manifest        the next hand-off finds it written
2 SEALED -> SUBMITTED(1)    settling finds an attempt without a job and goes on at step 3
3 fix how it reads          the same: the first write counts
4 offer it                  the same, and finds the offer; or a worker takes it
5 is a worker there to      the same
  take it?
6 or start one              the same: Powertools or the client token return the same run; if both fail there is a worker
                            too many, which finds nothing to take, and ends
7 record the job run        the same
8 note the worker           it says itself that it lives, as soon as it does

A driver costs more than the work of a small batch, and takes longer to start. So a job takes one attempt after the
other, from whichever batch (`flows.worker`). A later attempt, and a fence, has a job of its own (`core.workers`): it
is started at step 6, without 4 and 5.
"""

from collections.abc import Iterator
from dataclasses import replace

from tidegate.core.batches import Batch, State
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.records import RouteRecord
from tidegate.core.routes import Dataset, Route, decode_dataset, encode_dataset
from tidegate.core.workers import Worker, is_offered, is_served, offer_of, worker_id
from tidegate.flows.ports import Ports
from tidegate.flows.seal import ensure_manifest
from tidegate.metrics import Metric

TOGETHER = 100
"""Sealed batches that are read together. A backlog may be long, and few of it get a slot."""


def hand_off_sealed(route: Route, ports: Ports, *, patient: bool = True) -> int:
    """Hand off the route's sealed batches, oldest first, while slots are free. Returns how many.

    The route's record says how many slots are free. It may have changed since it was read: `begin` asks for a slot once
    more, and a slot that becomes free is found by the next run.

    A batch whose manifest cannot be written is skipped, and its OutcomeUnknown is raised after the other batches.
    Manifests are written even without a free slot: the notices' records that they are made from expire. Who is not
    `patient` leaves that to the schedule, and the batches that halted over their files, too.
    """
    record = ports.ledger.route(route.name)
    slots = 0 if record.paused else route.limits.in_flight - len(record.running)
    handed, trouble = 0, None
    for batch in _sealed(record, ports) if patient or slots > 0 else ():
        if slots <= 0 and not patient:
            break
        if batch.state is not State.SEALED or (batch.halted and not patient) or (batch.manifest and slots <= 0):
            continue
        try:
            ensure_manifest(batch, ports)
        except OutcomeUnknown as error:
            trouble = error
            continue
        if slots > 0:
            begun = begin(route, batch.id, 1, ports)
            handed += begun
            slots = slots - 1 if begun else 0
    if trouble:
        raise trouble
    return handed


def _sealed(record: RouteRecord, ports: Ports) -> Iterator[Batch]:
    """The batches that the route lists as sealed, oldest first: `TOGETHER` in a read."""
    waiting = sorted(record.sealed)  # ULIDs sort by age
    for start in range(0, len(waiting), TOGETHER):
        portion = waiting[start : start + TOGETHER]
        batches = ports.ledger.batches(portion)
        yield from (batches[each] for each in portion if each in batches)


def begin(route: Route, batch_id: str, attempt: int, ports: Ports) -> bool:
    """Begin an attempt and start its job; False if no slot is free, or another process began it."""
    if not ports.ledger.begin_attempt(batch_id, route.name, attempt, route.limits.in_flight):
        return False
    batch = ports.ledger.batch(batch_id)
    if batch is not None and batch.attempt == attempt:
        start_job(route, batch, ports)
    return True


def start_job(route: Route, batch: Batch, ports: Ports) -> None:
    """See to it that a job makes the batch's current attempt, and record the one that is started for it.

    This decides how the batch's files are read, once for each attempt. So a halted batch gets a corrected schema with
    its next attempt, and two jobs of one attempt read alike.
    """
    wanted = encode_dataset(dataset_of(batch, route))
    dataset = batch.dataset or ports.ledger.fix_dataset(batch.id, batch.attempt, wanted)
    if not dataset:
        return
    last = batch.attempt >= route.limits.attempts
    code = ports.jobs.code
    offer = offer_of(batch, code, route.owner, route.limits) if code and is_offered(batch, last=last) else None
    if offer:
        ports.ledger.offer(offer)
        if is_served(offer, ports.ledger.pool(), now=ports.clock()):
            return
    job_run = ports.jobs.start(batch, decode_dataset(dataset), owner=route.owner, last=last)
    if job_run:
        ports.ledger.record_job(batch.id, batch.attempt, job_run)
        ports.measure(Metric.JOBS_STARTED, 1, route.name)
        if offer:
            now = ports.clock()
            until = now + ports.jobs.takes_for
            started = Worker(worker_id(batch), code, job_run, started_at=now, until=until, small=offer.small)
            ports.ledger.note_started(started)


def dataset_of(batch: Batch, route: Route) -> Dataset:
    """The route's current dataset, unless its table is not the one that the batch was sealed for. Then whatever changed
    with the table (its schema, as a rule) does not apply to this batch. A batch that was rebuilt from its manifest has
    only the table."""
    if batch.table == route.dataset.table:
        return route.dataset
    recorded = batch.sealed_for or batch.dataset
    return decode_dataset(recorded) if recorded else replace(route.dataset, table=batch.table)

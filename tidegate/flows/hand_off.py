"""Hand-off: a sealed batch becomes a Spark job.

step                        if the process dies right after it
1 write the manifest        the next one finds it written
2 SEALED -> SUBMITTED(1)    settling finds an attempt without a job and goes on at step 3
3 fix how it reads          the same: the first answer counts
4 start the job             the same: Powertools or the client token give the same run; if both fail there are two
                            drivers, and decision 3 lets one of them count
5 record the job run
"""

from dataclasses import replace

from tidegate.core.batches import Batch, State
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.routes import Dataset, Route, decode_dataset, encode_dataset
from tidegate.flows.ports import Counter, Jobs, Ledger, Work
from tidegate.flows.seal import ensure_manifest


def hand_off_sealed(
    route: Route, *, ledger: Ledger, work: Work, jobs: Jobs, count: Counter, halted_too: bool = True
) -> int:
    """Hand off the route's sealed batches, oldest first, while slots are free. Returns how many.

    A batch whose manifest cannot be written is passed over, and raised as OutcomeUnknown after the others had their
    turn. Manifests are written slot or not: the records they are made of do not live for ever.
    """
    handed, slots, trouble = 0, True, None
    for batch_id in sorted(ledger.route(route.name).sealed):  # ULIDs sort by age
        batch = ledger.batch(batch_id)
        if batch is None or batch.state is not State.SEALED or (batch.halted and not halted_too):
            continue
        if batch.manifest and not slots:
            continue
        try:
            ensure_manifest(batch, ledger=ledger, work=work)
        except OutcomeUnknown as error:
            trouble = error
            continue
        if slots and (slots := begin(route, batch_id, 1, ledger=ledger, jobs=jobs, count=count)):
            handed += 1
    if trouble:
        raise trouble
    return handed


def begin(route: Route, batch_id: str, attempt: int, *, ledger: Ledger, jobs: Jobs, count: Counter) -> bool:
    """Begin an attempt and start its job; False if no slot is free, or somebody else began it."""
    if not ledger.begin_attempt(batch_id, route.name, attempt, route.limits.in_flight):
        return False
    batch = ledger.batch(batch_id)
    if batch is not None and batch.attempt == attempt:
        start_job(route, batch, ledger=ledger, jobs=jobs, count=count)
    return True


def start_job(route: Route, batch: Batch, *, ledger: Ledger, jobs: Jobs, count: Counter) -> None:
    """Start the job of the batch's current attempt, or find the one that was started, and record its run.

    How the batch's files are read is decided here, once for the attempt: a corrected schema reaches a halted batch with
    its next attempt, and two jobs of one attempt read alike.
    """
    dataset = batch.dataset or ledger.fix_dataset(batch.id, batch.attempt, encode_dataset(_dataset(batch, route)))
    if not dataset:
        return
    last = batch.attempt >= route.limits.attempts
    job_run = jobs.start(batch, decode_dataset(dataset), owner=route.owner, last=last)
    if job_run:
        ledger.record_job(batch.id, batch.attempt, job_run)
        count("JobsStarted", 1, route.name)


def _dataset(batch: Batch, route: Route) -> Dataset:
    """The route's dataset of now, unless it is for another table than the one that the batch was sealed for: then what
    has changed with the table (its schema, as a rule) is not meant for this batch."""
    if not batch.table or batch.table == route.dataset.table:
        return route.dataset
    return decode_dataset(batch.sealed_for) if batch.sealed_for else replace(route.dataset, table=batch.table)

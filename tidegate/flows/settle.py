"""Settle: record what the table has decided about submitted batches, and keep the route moving.

Runs on job events (best effort) and once a minute (correctness rests on this). It never opens the table: it reads the
receipt that a job wrote. Every step may be repeated, by settling itself or by a twin:

    endings are written into claims   the same values again, if the claim still names this batch's notice. The batch
                                      records how many are written, so that the next run continues there. Of a fenced
                                      batch they are all its uploads, as ABANDONED
    uploads repeated meanwhile        are sent again, in a new notice, before the endings are noted as written
    SUBMITTED -> COMMITTED            conditional on SUBMITTED, with the route's sums in the same transaction
    SUBMITTED(k) -> SUBMITTED(k + 1)  conditional on k, and not before a wait after the beginning of k. The wait is
                                      counted from the ledger's record, so a death or a twin does not begin it anew
    a halted batch steps aside        conditional on k, on the halt and on its slot. If the process dies before, the
                                      next run does it; after it, another batch of the route gets the slot. What is
                                      aside is looked at as before. If the setting changes meanwhile, the batch that is
                                      aside stays there until it is resumed or ends
    what was corrected is given up    in one look of each hour: see `tidegate.flows.drop_quarantined`
    a wish is carried out             for a batch that is abandoned: see `tidegate.flows.wishes`
    since when uploads are quarantined is moved forward, if the record may be behind: see `flows.quarantine_age`
    committed batches are announced   last, when every route is settled: see `flows.announce`
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.batches import Batch, JobState, State, Step, gives_way, next_step
from tidegate.core.errors import OutcomeUnknown, TidegateError
from tidegate.core.manifests import batch_folder, decode_part, failure_name, outcomes_name
from tidegate.core.quarantine import is_behind
from tidegate.core.receipts import Ending, Receipt, decode_endings, decode_failure, decode_receipt, given_up
from tidegate.core.records import RouteRecord
from tidegate.core.routes import Route
from tidegate.core.workers import is_offered, is_stuck, worker_id
from tidegate.flows.announce import announce
from tidegate.flows.drop_quarantined import drop_corrected, is_its_minute
from tidegate.flows.hand_off import begin, hand_off_sealed, start_job
from tidegate.flows.missing import known_parts
from tidegate.flows.pool import a_worker_waits, look_after_workers
from tidegate.flows.ports import JobReport, Ports
from tidegate.flows.quarantine_age import look_for_oldest
from tidegate.flows.seal import ensure_manifest, halted, seal_if_due
from tidegate.flows.send import send
from tidegate.flows.status import standing
from tidegate.flows.wishes import carry_out
from tidegate.metrics import Metric
from tidegate.schedule import SCHEDULE

ENDINGS_PER_WRITE = 1_000
ENDINGS_PER_LOOK = 20_000
PART_COST = 20
"""A wrong schema can quarantine a whole batch. One run must fit a function's timeout, and leave time for the other
routes. The next run continues where this one stopped. To read a part takes as long as to write `PART_COST` endings."""

SETTLED = {
    "committed": Metric.SETTLED_COMMITTED,
    "quarantined": Metric.SETTLED_QUARANTINED,
    "superseded": Metric.SETTLED_SUPERSEDED,
    "vanished": Metric.SETTLED_VANISHED,
    "present": Metric.DUPLICATES_REFUSED,
    "rows": Metric.SETTLED_ROWS,
    "rejected": Metric.SETTLED_REJECTED,
}
"""The metric for each number of a receipt's tally. A metric costs by the month: what was replaced or left out has
none."""


def settle_all(configured: Mapping[str, Route], ports: Ports) -> list[Exception]:
    """Settle every route once. Returns the errors: one route's error does not stop the others.

    What the event bus refuses is returned, too, and is not counted as trouble of settling: no batch waits for it, and
    how long announcements wait is measured.
    """
    troubles: list[Exception] = []
    routes = list(configured.values())
    unconfigured = 0
    well: list[Route] = []
    wanted = False
    try:
        routes = routes_to_settle(configured, ports)
    except Exception as error:
        # an error in the ledger's own list of routes must not stop the configured routes
        troubles.append(error)
    for route in routes:
        try:
            record = ports.ledger.route(route.name)
            unfinished = bool(record.unfinished)
            if not is_idle(record, ports):
                troubles += settle(route, ports, record)
                record = ports.ledger.route(route.name)
            its_minute = record.quarantined_since and is_its_minute(route.name, ports.clock(), SCHEDULE)
            if its_minute and drop_corrected(route.name, ports):
                record = ports.ledger.route(route.name)
            now = standing(route, record, ports)
            there = route.name in configured
            wanted = wanted or (there and not route.retired and not record.paused)
            unconfigured += 0 if there else now.unfinished
            # A metric costs by the month, and the ledger keeps every route. After the last batch of a removed one its
            # alarms need a zero.
            if there or unfinished:
                ports.measure(Metric.OLDEST_PENDING_SECONDS, now.oldest_pending, route.name)
                ports.measure(Metric.LATE_NOW, now.late, route.name)
                ports.measure(Metric.HALTED_NOW, now.halted, route.name)
            if there or unfinished or now.oldest_quarantined:
                ports.measure(Metric.QUARANTINED_NOW, now.quarantined, route.name)
                ports.measure(Metric.OLDEST_QUARANTINED_SECONDS, now.oldest_quarantined, route.name)
            well.append(route)
        except Exception as error:
            troubles.append(error)
    try:
        troubles += look_after_workers(well, ports, wanted=wanted)
    except Exception as error:
        troubles.append(error)
    ports.measure(Metric.UNCONFIGURED_NOW, unconfigured)
    of_the_bus: list[TidegateError] = []
    try:
        # last, and a bus that does not answer costs seconds: no route waits for it
        of_the_bus = announce(ports)
    except Exception as error:
        troubles.append(error)
    ports.measure(Metric.SETTLING_TROUBLES, len(troubles))
    return [*troubles, *of_the_bus]


def routes_to_settle(configured: Mapping[str, Route], ports: Ports) -> list[Route]:
    """The configured routes, and those that only the ledger has: their batches are finished with the settings of their
    last deployment.

    The configured routes are stored as they are now. During a deployment two versions of the configuration may
    overwrite each other. The next run after it stores the one that stays.
    """
    known = ports.ledger.known_routes()
    for name, route in configured.items():
        if known.get(name) != route:
            ports.ledger.remember_route(route)
    return [*configured.values(), *(route for name, route in sorted(known.items()) if name not in configured)]


def is_idle(record: RouteRecord, ports: Ports) -> bool:
    """Whether there is nothing to settle. An idle route costs one read, removed or not. A batch that is opened after it
    is settled in a minute."""
    return not record.unfinished and not record.wished and not _is_behind(record, ports)


def _is_behind(record: RouteRecord, ports: Ports) -> bool:
    return is_behind(record, now=ports.clock(), retention=ports.ledger.claim_retention)


def settle(route: Route, ports: Ports, record: RouteRecord | None = None) -> list[TidegateError]:
    """Settle the route's submitted batches, seal what is due, hand off what is sealed. `record` is the route's, if it
    was read just now.

    Returns the errors, by batch: one batch's error does not stop the others.
    """
    troubles: list[TidegateError] = []
    record = record or ports.ledger.route(route.name)
    if is_idle(record, ports):
        return troubles
    behind = _is_behind(record, ports)
    for batch_id in record.submitted:
        batch = ports.ledger.batch(batch_id)
        if batch is None or batch.state is not State.SUBMITTED:
            continue
        try:
            if batch_id in record.running:
                # first: what is wrong with a batch's files is raised by every look at it
                step_aside_if_due(route, batch, ports)
            settle_batch(route, batch, ports)
        except Exception as error:
            troubles.append(_trouble(f"settling batch {batch_id}", error))
    for batch_id in record.wished:
        try:
            carry_out(batch_id, route.name, ports)
        except Exception as error:
            troubles.append(_trouble(f"carrying out the wish for batch {batch_id}", error))
    try:
        advance(route, ports, next_look=SCHEDULE)
    except Exception as error:
        troubles.append(_trouble(f"handing off batches of route {route.name}", error))
    if behind:
        try:
            look_for_oldest(route.name, ports)
        except Exception as error:
            troubles.append(_trouble(f"looking for what route {route.name} has in quarantine", error))
    return troubles


def _trouble(what: str, error: Exception) -> TidegateError:
    """Any error as a TidegateError: an unreadable receipt must not keep other batches from being settled."""
    return error if isinstance(error, TidegateError) else OutcomeUnknown(f"{what}: {type(error).__name__}: {error}")


def advance(route: Route, ports: Ports, *, next_look: int, share: float = 1) -> None:
    """Seal the open batch if it is due, and hand off all sealed batches, also those that a dead process sealed.

    `next_look` and `share` as in `seal_if_due`.
    """
    seal_if_due(route, ports, next_look=next_look, share=share)
    # a batch that halted over its manifest is tried again by the schedule only: adding it up takes seconds
    hand_off_sealed(route, ports, patient=next_look == SCHEDULE)


def advance_each(routes: Iterable[Route], ports: Ports) -> list[Exception]:
    """Seal and hand off for routes whose notices were dispatched: at once, if a worker waits for a batch. Returns the
    errors. The notices are registered, and the schedule hands them off, so none of them is given back."""
    troubles: list[Exception] = []
    share = 1.0
    try:
        share = 0.0 if a_worker_waits(ports) else share
    except Exception as error:
        troubles.append(error)
    for route in routes:
        try:
            advance(route, ports, next_look=0, share=share)
        except Exception as error:
            troubles.append(error)
            ports.measure(Metric.HAND_OFFS_FAILED, 1, route.name)
    return troubles


def settle_batch(route: Route, batch: Batch, ports: Ports) -> Step:
    """Settle one submitted batch once. Returns the step that was taken."""
    folder = batch_folder(batch.id)
    # the job first and the receipt second: see `next_step`
    report, stuck = _its_job(batch, ports)
    receipt = ports.work.get(folder + "receipt.json")
    failure = ports.work.get(failure_name(folder, batch.attempt))
    reported = decode_failure(failure) if failure else None
    step = next_step(
        batch,
        report.state,
        receipt=receipt is not None,
        hopeless=reported is not None and reported.hopeless,
        stuck=stuck,
        limits=route.limits,
        now=ports.clock(),
    )
    match step:
        case Step.SETTLE:
            assert receipt is not None
            record_receipt(route, batch, decode_receipt(receipt), ports)
        case Step.HAND_OFF:
            digest = ensure_manifest(batch, ports).digest
            start_job(route, replace(batch, manifest=digest), ports)
        case Step.NEXT_ATTEMPT:
            ports.measure(Metric.ATTEMPTS_FAILED, 1, route.name)
            ensure_manifest(batch, ports)
            begin(route, batch.id, batch.attempt + 1, ports)
            if batch.attempt == 1:
                ports.ledger.withdraw(batch.id)
        case Step.HALT:
            reason = reported.reason if reported else report.details or "the job ended without a receipt or a reason"
            # counted first: a process that dies in between counts it twice, and not never
            ports.measure(Metric.BATCHES_HALTED, 1, route.name)
            ports.ledger.halt(batch.id, batch.attempt, reason, undecided=bool(reported and reported.undecided))
        case Step.WAIT:
            pass
    return step


def _its_job(batch: Batch, ports: Ports) -> tuple[JobReport, bool]:
    """What the service says of the job that makes the batch's attempt; and whether the batch must not wait for it any
    longer. If a worker has taken the attempt, that is the worker's job, and it is recorded."""
    offer, worker, run = None, None, batch.job_run
    if is_offered(batch, last=False):
        offer = ports.ledger.offer_of(batch.id)
        worker = ports.ledger.worker(offer.worker or worker_id(batch)) if offer else None
    if offer and offer.worker:
        run = worker.job_run if worker else run
        if run not in ("", batch.job_run):
            ports.ledger.record_job(batch.id, batch.attempt, run, taken=True)
    nobody_says = JobState.ACTIVE if offer and offer.worker else JobState.UNKNOWN
    report = ports.jobs.report(run) if run else JobReport(nobody_says)
    if worker and worker.id == worker_id(batch) and report.state is JobState.ENDED:
        ports.ledger.leave(worker.id)  # nobody counts on it any more
    if offer is None:
        return report, False
    # its worker has lived and has not made the attempt, so there is no failure of it to wait after
    never_made = report.state is JobState.ENDED and not offer.worker and worker is not None and bool(worker.seen_at)
    return report, never_made or is_stuck(batch, offer, worker, now=ports.clock())


def step_aside_if_due(route: Route, batch: Batch, ports: Ports) -> bool:
    """Let a batch of the route that has been halted for long give up its slot. True if this call did it."""
    return gives_way(batch, route.limits, now=ports.clock()) and ports.ledger.step_aside(
        batch.id, route.name, batch.attempt
    )


def record_receipt(route: Route, batch: Batch, receipt: Receipt, ports: Ports) -> None:
    """Record what the table has decided about a submitted batch: its endings, as many as fit into a look, and after the
    last one that the batch has ended. Raises FilesDiffer if the receipt is not of what this ledger has registered."""
    portions = _abandoned(batch, ports) if receipt.fence else _ended(batch, receipt, ports)
    budget = ENDINGS_PER_LOOK
    for portion in portions:
        if budget <= 0:
            return
        again = ports.ledger.record_endings(portion.endings)
        # before they are noted as done: a repeat finds the same uploads, and sends the same notice
        send(route.name, again, ports)
        ports.ledger.note_endings(batch.id, portion.done)
        budget -= portion.cost
    if ports.ledger.commit(batch.id, route.name, receipt, announce=ports.bus is not None):
        ports.measure(Metric.BATCHES_ABANDONED if receipt.fence else Metric.BATCHES_COMMITTED, 1, route.name)
        for ending, metric in SETTLED.items():
            ports.measure(metric, receipt.tally.as_dict()[ending], route.name)
        if receipt.unknown.uploads:
            # a metric costs by the month, and most routes have no such uploads
            ports.measure(Metric.UNKNOWN_COLUMNS, receipt.unknown.uploads, route.name)
        if receipt.slowly:
            ports.measure(Metric.BATCHES_SLOW, 1, route.name)


@dataclass(frozen=True, slots=True)
class Portion:
    """Endings to write together. `done` is what the batch then records as written: how many endings, or, of a fenced
    batch, how many parts. `cost` is how much of a run's budget they take."""

    endings: Sequence[Ending]
    done: int
    cost: int


def _ended(batch: Batch, receipt: Receipt, ports: Ports) -> Iterator[Portion]:
    """The endings of a published batch's uploads that were not committed, from where the last run stopped. Raises
    OutcomeUnknown if what was published is not what this ledger has registered."""
    digest = ensure_manifest(batch, ports).digest
    # a driver that was given no digest has compared nothing, and its receipt names none
    if receipt.manifest and receipt.manifest != digest:
        raise halted(
            batch,
            f"batch {batch.id}: its receipt is of a manifest with the digest {receipt.manifest}, the ledger has noted"
            f" {digest}: what was published is not what this ledger has registered. The ledger is damaged: see"
            " docs/operations.md, `A lost ledger`",
            ports,
        )
    if receipt.tally.uploads != batch.objects:
        raise halted(
            batch,
            f"batch {batch.id}: its receipt accounts for {receipt.tally.uploads} uploads, its header for"
            f" {batch.objects}. It stays as it is; compare parts/ and outcomes/ in the work bucket",
            ports,
        )
    name = outcomes_name(batch_folder(batch.id), receipt.staged)
    body = ports.work.get(name)
    if body is None:
        raise halted(batch, f"batch {batch.id}: it is published, but {name} is missing in the work bucket", ports)
    for done, endings in decode_endings(body, batch.endings, min(ENDINGS_PER_WRITE, ENDINGS_PER_LOOK)):
        yield Portion(endings, done, len(endings))


def _abandoned(batch: Batch, ports: Ports) -> Iterator[Portion]:
    """Every upload of a fenced batch, part by part. The fence is in the table, so their owners have let go for good. If
    the same bytes were uploaded again before this was known, they are sent again now.

    Finished parts are counted, so that they are not read again. The parts' names come from the manifest, because the
    notices may have expired before a batch that halted for long is given up. A person may have said to go on without
    the parts that are missing (`flows.missing`).
    """
    folder = batch_folder(batch.id)
    names = known_parts(batch, ports) if batch.skips else ensure_manifest(batch, ports).parts
    for done, name in enumerate(names[batch.endings :], start=batch.endings + 1):
        part = ports.work.get(folder + name)
        if part is None and batch.skips:
            continue
        if part is None:
            raise halted(batch, f"batch {batch.id}: {name} is missing in the work bucket", ports)
        endings = [given_up(each) for each in decode_part(part)]
        yield Portion(endings, done, max(PART_COST, len(endings)))

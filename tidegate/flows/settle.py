"""Settle: record what the table has decided about submitted batches, and keep the route moving.

Runs on job events (best effort) and once a minute (what correctness rests on). It never opens the table: it reads
the receipt that a job left. Every step may be repeated, by itself or by a twin:

    endings are written into claims   the same values again; only where the claim still names this batch's notice; the
                                      batch notes how many are written, so that a look goes on where the last one ended.
                                      Of a fenced batch they are all its uploads, as ABANDONED
    what came again meanwhile         is sent again, in a notice made for it, before they are noted as written
    SUBMITTED -> COMMITTED            conditional on SUBMITTED, with the route's sums in the same transaction
    SUBMITTED(k) -> SUBMITTED(k + 1)  conditional on k
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.core.batches import Batch, JobState, State, Step, next_step
from tidegate.core.errors import OutcomeUnknown, TidegateError
from tidegate.core.manifests import batch_folder, decode_part
from tidegate.core.outcomes import ABANDONED
from tidegate.core.receipts import Ending, Receipt, decode_failure, decode_outcomes, decode_receipt
from tidegate.core.routes import Route
from tidegate.flows.hand_off import begin, hand_off_sealed, start_job
from tidegate.flows.ports import Clock, Counter, JobReport, Jobs, Ledger, Topic, Work
from tidegate.flows.seal import SCHEDULE, ensure_manifest, halted, seal_if_due
from tidegate.flows.send_again import send_again
from tidegate.flows.status import status

ENDINGS_PER_WRITE = 1_000
ENDINGS_PER_LOOK = 20_000
PART_COST = 20
"""A wrong schema can quarantine a whole batch. What one look does must fit a function's time, and leave some of it to
the other routes; the next look goes on where this one stopped. To read a part takes as long as to write so many."""


def routes_to_settle(configured: Mapping[str, Route], *, ledger: Ledger) -> list[Route]:
    """The configured routes, and those that the configuration has lost and the ledger has not: what is under way there
    is brought to its end, by the settings of their last deployment.

    The configured ones are remembered as they are now. Two versions of the configuration that run side by side, while
    one is deployed, may write in turns: the next look after that writes the one that stays.
    """
    known = ledger.known_routes()
    for name, route in configured.items():
        if known.get(name) != route:
            ledger.remember_route(route)
    return [*configured.values(), *(route for name, route in sorted(known.items()) if name not in configured)]


def settle(
    route: Route, *, ledger: Ledger, work: Work, jobs: Jobs, topic: Topic, clock: Clock, count: Counter
) -> list[TidegateError]:
    """Settle the route's submitted batches, seal what is due, hand off what is sealed.

    Returns what went wrong, batch by batch: one batch in trouble holds up no other.
    """
    troubles: list[TidegateError] = []
    record = ledger.route(route.name)
    if not record.unfinished:
        # a quiet route costs one read; what opens a batch after it is looked at in a minute
        return troubles
    for batch_id in sorted(record.running):
        batch = ledger.batch(batch_id)
        if batch is None or batch.state is not State.SUBMITTED:
            continue
        try:
            settle_batch(route, batch, ledger=ledger, work=work, jobs=jobs, topic=topic, count=count)
        except Exception as error:
            troubles.append(_trouble(f"settling batch {batch_id}", error))
    try:
        advance(route, ledger=ledger, work=work, jobs=jobs, clock=clock, next_look=SCHEDULE, count=count)
    except Exception as error:
        troubles.append(_trouble(f"handing off batches of route {route.name}", error))
    return troubles


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a route has not ended: the age of its oldest batch (seconds, 0 if there is none), how many batches there
    are, and how many of them have halted."""

    oldest_pending: int
    halted: int
    unfinished: int


def standing(route: Route, *, ledger: Ledger, clock: Clock) -> Standing:
    """How the route stands after a look.

    The age counts from when the batch was opened. That is a moment before its first notice joined, or longer if whoever
    opened it died right then: never too young. While nothing has joined, nothing is pending.
    """
    (found,) = status([route], ledger=ledger)
    now = clock()
    ages = [now - batch.opened_at for batch in found.unfinished if batch.notices]
    return Standing(oldest_pending=max([0, *ages]), halted=len(found.halted), unfinished=len(ages))


def _trouble(what: str, error: Exception) -> TidegateError:
    """Any error as one of the four: an unreadable receipt must not keep other batches from being settled."""
    return error if isinstance(error, TidegateError) else OutcomeUnknown(f"{what}: {type(error).__name__}: {error}")


def advance(
    route: Route, *, ledger: Ledger, work: Work, jobs: Jobs, clock: Clock, next_look: int, count: Counter
) -> None:
    """Seal the open batch if it is due, and hand off whatever is sealed: also what somebody sealed and then died.

    `next_look` as in `seal_if_due`.
    """
    seal_if_due(route, ledger=ledger, clock=clock, next_look=next_look, count=count)
    # a batch whose manifest is in the way is tried again by the schedule only: adding it up takes seconds
    patient = next_look == SCHEDULE
    hand_off_sealed(route, ledger=ledger, work=work, jobs=jobs, count=count, halted_too=patient)


def settle_batch(
    route: Route, batch: Batch, *, ledger: Ledger, work: Work, jobs: Jobs, topic: Topic, count: Counter
) -> Step:
    """One look at one submitted batch; returns the step that was taken."""
    folder = batch_folder(batch.id)
    # the job first and the receipt second: see `next_step`
    report = jobs.report(batch.job_run) if batch.job_run else JobReport(JobState.UNKNOWN)
    receipt = work.get(folder + "receipt.json")
    failure = work.get(f"{folder}failures/{batch.attempt}.json")
    reported = decode_failure(failure) if failure else None
    step = next_step(
        batch,
        report.state,
        receipt=receipt is not None,
        hopeless=reported is not None and reported.hopeless,
        limits=route.limits,
    )
    match step:
        case Step.SETTLE:
            assert receipt is not None
            _record(route, batch, decode_receipt(receipt), ledger=ledger, work=work, topic=topic, count=count)
        case Step.HAND_OFF:
            digest = ensure_manifest(batch, ledger=ledger, work=work).digest
            start_job(route, replace(batch, manifest=digest), ledger=ledger, jobs=jobs, count=count)
        case Step.NEXT_ATTEMPT:
            count("AttemptsFailed", 1, route.name)
            ensure_manifest(batch, ledger=ledger, work=work)
            begin(route, batch.id, batch.attempt + 1, ledger=ledger, jobs=jobs, count=count)
        case Step.HALT:
            reason = reported.reason if reported else report.details or "the job ended without a receipt or a reason"
            ledger.halt(batch.id, batch.attempt, reason)
            count("BatchesHalted", 1, route.name)
        case Step.WAIT:
            pass
    return step


def _record(
    route: Route, batch: Batch, receipt: Receipt, *, ledger: Ledger, work: Work, topic: Topic, count: Counter
) -> None:
    if receipt.fence:
        portions = _abandoned(batch, ledger=ledger, work=work)
    else:
        portions = _ended(batch, receipt, ledger=ledger, work=work)
    budget = ENDINGS_PER_LOOK
    for portion in portions:
        if budget <= 0:
            return
        again = ledger.record_endings(portion.endings)
        # before they are noted as done: whoever repeats this finds the same uploads, and sends the same notice
        send_again(route.name, again, topic=topic, count=count)
        ledger.note_endings(batch.id, portion.done)
        budget -= portion.cost
    if ledger.commit(batch.id, route.name, receipt):
        count("BatchesAbandoned" if receipt.fence else "BatchesCommitted", 1, route.name)
        for ending, how_many in receipt.tally.as_dict().items():
            count(f"Settled{ending.title()}", how_many, route.name)


@dataclass(frozen=True, slots=True)
class Portion:
    """Endings to write together; `done` is what the batch then notes as written: how many endings, or, of a fenced
    batch, how many parts. `cost` is how much of a look's budget they take."""

    endings: Sequence[Ending]
    done: int
    cost: int


def _ended(batch: Batch, receipt: Receipt, *, ledger: Ledger, work: Work) -> Iterator[Portion]:
    """The endings of a published batch that are not plain success, from where the last look has stopped. Raises
    OutcomeUnknown if what was published is not what this ledger has registered."""
    # of a batch that was handed off by version 0.1.0 nobody noted a digest, nor did its job write one
    digest = ensure_manifest(batch, ledger=ledger, work=work).digest
    if receipt.manifest and receipt.manifest != digest:
        raise halted(
            batch,
            f"batch {batch.id}: its receipt is of a manifest with the digest {receipt.manifest}, the ledger has noted"
            f" {digest}: what was published is not what this ledger has registered. The ledger was restored to a time"
            " before the batch was sealed; see `tidegate ledger recover --help`",
            ledger,
        )
    if receipt.tally.uploads != batch.objects:
        raise halted(
            batch,
            f"batch {batch.id}: its receipt accounts for {receipt.tally.uploads} uploads, its header for"
            f" {batch.objects}. It stays as it is; compare parts/ and outcomes/ in the work bucket",
            ledger,
        )
    name = f"{batch_folder(batch.id)}outcomes/{receipt.staged}.jsonl.gz"
    body = work.get(name)
    if body is None:
        raise halted(batch, f"batch {batch.id}: it is published, but {name} is missing in the work bucket", ledger)
    endings = decode_outcomes(body).endings
    size = min(ENDINGS_PER_WRITE, ENDINGS_PER_LOOK)
    for start in range(batch.endings, len(endings), size):
        portion = endings[start : start + size]
        yield Portion(portion, start + len(portion), len(portion))


def _abandoned(batch: Batch, *, ledger: Ledger, work: Work) -> Iterator[Portion]:
    """Every upload of a fenced batch, part by part: the fence is in the table, so their owners have let go of them for
    good. A claim that was told of the same bytes while nobody knew that is answered here.

    What is counted as done are parts: those that an earlier look has written are not read again. The manifest names
    them, because the notices may have expired before a batch that halted for long is given up.
    """
    folder = batch_folder(batch.id)
    names = ensure_manifest(batch, ledger=ledger, work=work).parts
    for done, name in enumerate(names[batch.endings :], start=batch.endings + 1):
        part = work.get(folder + name)
        if part is None:
            raise halted(batch, f"batch {batch.id}: {name} is missing in the work bucket", ledger)
        endings = [
            Ending(item.notice, item.upload.bucket, item.upload.key, item.upload.version, ABANDONED, "")
            for item in decode_part(part)
        ]
        yield Portion(endings, done, max(PART_COST, len(endings)))

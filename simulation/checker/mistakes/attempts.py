"""Mistakes with attempts and their jobs: beginning them, ending them, giving them up."""

import uuid
from dataclasses import replace
from typing import Any

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Call, Planting, Strike, answered, but, replaced, rewired, rewritten
from simulation.world.faults import Kind
from tidegate.core.batches import JobState, Step
from tidegate.core.outcomes import NO_TALLY, Tally
from tidegate.core.receipts import Receipt
from tidegate.flows.abort import Aborted

NO_MEMORY = rewritten("h#", lambda write: write.unconditional())
"""Powertools' records never prevent a start."""


def _one_token_per_batch(parameters: dict[str, Any]) -> dict[str, Any]:
    (batch,) = (
        each.removeprefix("--batch=")
        for each in parameters["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        if each.startswith("--batch=")
    )
    return {**parameters, "clientToken": batch}


def _a_token_each_time(parameters: dict[str, Any]) -> dict[str, Any]:
    return {**parameters, "clientToken": str(uuid.uuid4())}


def _in_any_state(write: WriteRequest) -> None:
    if write.sets("attempt") and not write.sets("fencing") and "Item" not in write.request:
        write.unconditional()


def _ended_is_done(real: Any) -> Any:
    def begin(route: Any, batch_id: str, attempt: int, ports: Any) -> bool:
        if attempt == 1:
            return bool(real(route, batch_id, attempt, ports))
        return bool(ports.ledger.commit(batch_id, route.name, Receipt(batch_id, 0, 0, False, NO_TALLY)))

    return begin


def _without_a_fence(real: Any) -> Any:
    def abort(batch_id: str, ports: Any, wish: Any = None) -> Aborted:
        batch = ports.ledger.batch(batch_id)
        done = ports.ledger.commit(batch_id, batch.route, Receipt(batch_id, 0, 0, True, NO_TALLY))
        return Aborted.FENCING if done else Aborted.MOVED_ON

    return abort


def _never_careful(real: Any) -> Any:
    return lambda earlier, *, last: False


def _reports_do_not_count(real: Any) -> Any:
    """Only a driver that left no report is a death."""
    return lambda earlier, *, last: real((each for each in earlier if each is None), last=last)


def _receipt_first(real: Any) -> Any:
    def settle_batch(route: Any, batch: Any, ports: Any) -> Any:
        name, work = f"batches/{batch.id}/receipt.json", ports.work
        early = work.get(name)
        first = but(work, get=lambda asked: early if asked == name else work.get(asked))
        return real(route, batch, replace(ports, work=first))

    return settle_batch


def _stepped(was: Step, becomes: Step) -> Planting:
    def make(real: Any) -> Any:
        def next_step(*arguments: Any, **seen: Any) -> Step:
            step: Step = real(*arguments, **seen)
            return becomes if step is was else step

        return next_step

    return replaced("tidegate.core.batches:next_step", make)


def _halted_for_good(real: Any) -> Any:
    return lambda batch, *job, **seen: Step.WAIT if batch.halted else real(batch, *job, **seen)


def _success_is_enough(real: Any) -> Any:
    def settle_batch(route: Any, batch: Any, ports: Any) -> Any:
        if batch.job_run and not batch.fencing and ports.jobs.report(batch.job_run).state is JobState.ENDED:
            ports.ledger.commit(batch.id, route.name, Receipt(batch.id, 0, 0, False, Tally(committed=batch.objects)))
            return Step.SETTLE
        return real(route, batch, ports)

    return settle_batch


def _to_publish(real: Any) -> Any:
    def resume(batch_id: str, ports: Any) -> Any:
        def resumed(*begun: Any) -> Any:
            batch, route, attempt, _, floors = begun
            return ports.ledger.resume(batch, route, attempt, False, floors)

        return real(batch_id, replace(ports, ledger=but(ports.ledger, resume=resumed)))

    return resume


def _never_decided(real: Any) -> Any:
    def abort(batch_id: str, ports: Any, wish: Any = None) -> Any:
        def resumed(*begun: Any, fencing: bool, floors: int, wish: Any = None) -> Any:
            return ports.ledger.resume(*begun, fencing=fencing, floors=0, wish=wish)

        return real(batch_id, replace(ports, ledger=but(ports.ledger, resume=resumed)), wish)

    return abort


def _no_fence_any_more(real: Any) -> Any:
    def begin(*arguments: Any) -> Any:
        *about, ports = arguments

        def batch(asked: str) -> Any:
            found = ports.ledger.batch(asked)
            return found and replace(found, fencing=False)

        return real(*about, replace(ports, ledger=but(ports.ledger, batch=batch)))

    return begin


def _running_or_not(real: Any) -> Any:
    def resume(batch_id: str, ports: Any) -> Any:
        def batch(asked: str) -> Any:
            found = ports.ledger.batch(asked)
            return found and replace(found, halted=found.halted or "it takes too long")

        return real(batch_id, replace(ports, ledger=but(ports.ledger, batch=batch)))

    return resume


def _keeps_its_job(write: WriteRequest) -> None:
    if write.sets("attempt"):
        write.leaves("job_run")


def _begins_or_resumes(write: WriteRequest) -> None:
    if write.sets("fencing"):
        write.forgets("attempt")


def _gives_up_in_any_state(write: WriteRequest) -> None:
    if write.sets("fencing") and write.sets("state"):
        write.unconditional()


def _recorded_late(write: WriteRequest) -> None:
    if write.sets("job_run"):
        write.unconditional()


def _not_recorded(ask: Call) -> Call:
    return lambda parameters: {"Attributes": {}} if WriteRequest(parameters).sets("job_run") else ask(parameters)


def _whatever_runs(real: Any) -> Any:
    def hand_off_sealed(route: Any, ports: Any, **named: Any) -> Any:
        return real(replace(route, limits=replace(route.limits, in_flight=1_000)), ports, **named)

    return hand_off_sealed


BUGS = (
    Bug(
        "one client token for each batch",
        "No Powertools, and no attempt in the client token: a second attempt gets the first one's run.",
        (NO_MEMORY, rewired("emr-serverless", "StartJobRun", _one_token_per_batch)),
        strikes=(Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "an attempt begins in any state",
        "An attempt begins without a condition on the batch's state or attempt.",
        (rewritten("b#", _in_any_state),),
        strikes=(Strike("settle dynamodb.TransactWriteItems b,r", Kind.LATE, 2),),
    ),
    Bug(
        "the job ended, so it is done",
        "Settling commits a batch when its job has ended, without a receipt, instead of a second attempt.",
        (replaced("tidegate.flows.hand_off:begin", _ended_is_done),),
        strikes=(Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "given up without a fence",
        "Giving a batch up makes it ABANDONED at once, without a fence: a driver that still runs can publish it.",
        (replaced("tidegate.flows.abort:abort", _without_a_fence),),
        "aborted",
        (Strike("driver iceberg.swap", Kind.PAUSE, 2),),
    ),
    Bug(
        "a lost job is waited for",
        "If no job is recorded for an attempt, settling waits for one.",
        (_stepped(Step.HAND_OFF, Step.WAIT),),
        strikes=(Strike("settle dynamodb.TransactWriteItems b,r", Kind.DIE_AFTER, 2),),
    ),
    Bug(
        "a failed attempt is waited for",
        "If a job ended without a receipt, settling waits as if it still ran.",
        (_stepped(Step.NEXT_ATTEMPT, Step.WAIT),),
        strikes=(Strike("driver s3.GetObject floor", Kind.DIE_BEFORE),),
    ),
    Bug(
        "used up, and not halted",
        "A batch whose attempts are used up is not marked as halted.",
        (_stepped(Step.HALT, Step.WAIT),),
        strikes=tuple(Strike("driver iceberg.load", Kind.DIE_BEFORE, time) for time in (1, 2, 3)),
    ),
    Bug(
        "the job says it succeeded",
        "Settling commits a batch as soon as its job has ended, and does not wait for the receipt.",
        (replaced("tidegate.flows.settle:settle_batch", _success_is_enough),),
    ),
    Bug(
        "jobs are not recorded",
        "The job run of an attempt is not recorded.",
        (answered("dynamodb", "UpdateItem", _not_recorded),),
        strikes=(Strike("driver s3.GetObject floor", Kind.DIE_BEFORE),),
    ),
    Bug(
        "the new attempt has the old one's job",
        "When an attempt begins, the old attempt's job run stays on record.",
        (rewritten("b#", _keeps_its_job),),
        "given_up_after_a_decision",
    ),
    Bug(
        "resumed twice",
        "Resuming and giving up do not check the batch's attempt.",
        (rewritten("b#", _begins_or_resumes),),
        "given_up_by_two",
    ),
    Bug(
        "given up in any state",
        "A sealed batch is given up although it was handed off meanwhile, and has ended.",
        (rewritten("b#", _gives_up_in_any_state),),
        "given_up_while_it_gathers",
        (Strike("person dynamodb.TransactWriteItems b,r", Kind.PAUSE, 2),),
    ),
    Bug(
        "a file kills each attempt",
        "No attempt reads carefully: a file that kills its reader halts its batch, and its neighbours never land.",
        (replaced("tidegate.core.receipts:reads_carefully", _never_careful),),
        "a_file_that_kills_its_reader",
    ),
    Bug(
        "deaths that were reported do not count",
        "An attempt reads carefully only if drivers died, and not if those that read files for them did.",
        (replaced("tidegate.core.receipts:reads_carefully", _reports_do_not_count),),
        "a_file_that_kills_its_reader",
    ),
    Bug(
        "halted for good",
        "Settling skips a halted batch, although a driver may have published it.",
        (replaced("tidegate.core.batches:next_step", _halted_for_good),),
        "history_expired",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "resumed, and not fenced any more",
        "A batch that halted while it was being fenced is published when it is resumed.",
        (replaced("tidegate.flows.resume:resume", _to_publish),),
        "given_up_for_a_day",
        (Strike("driver iceberg.load", Kind.DIE_BEFORE), Strike("driver iceberg.load", Kind.DIE_BEFORE, 2)),
    ),
    Bug(
        "the next attempt of a fence",
        "If an attempt to fence a batch fails, the next one publishes it.",
        (replaced("tidegate.flows.hand_off:begin", _no_fence_any_more),),
        "told_while_given_up",
        (Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "given up, and the decision forgotten",
        "Giving a batch up forgets a person's decision about it: the fence checks only the lost floor.",
        (replaced("tidegate.flows.abort:abort", _never_decided),),
        "given_up_after_a_decision",
    ),
)

HARMLESS = (
    Bug(
        "no memory of started jobs",
        "More drivers run than needed; one counts.",
        (
            NO_MEMORY,
            rewired("emr-serverless", "StartJobRun", _a_token_each_time),
        ),
    ),
    Bug(
        "a new attempt does not check",
        "The commit checks whether the batch is in the table.",
        (replaced("tidegate.flows.publish:Attempt.look", lambda real: lambda attempt: None),),
    ),
    Bug(
        "any number of jobs",
        "Jobs of a route run side by side.",
        (
            rewritten("r#", lambda write: write.unconditional() if write.adds("running") else None),
            replaced("tidegate.flows.hand_off:hand_off_sealed", _whatever_runs),
        ),
        "a_job_that_takes_days",
    ),
    Bug(
        "the receipt first, the job second",
        "One more attempt finds the batch published.",
        (replaced("tidegate.flows.settle:settle_batch", _receipt_first),),
    ),
    Bug(
        "resumed while it runs",
        "Two drivers run; one counts.",
        (
            replaced("tidegate.flows.resume:resume", _running_or_not),
            rewritten("b#", lambda write: write.forgets("halted") if write.sets("fencing") else None),
        ),
        "resumed_in_passing",
    ),
    Bug(
        "a job recorded for another attempt",
        "One more attempt runs.",
        (rewritten("b#", _recorded_late),),
        "a_second_job_that_is_slow",
        (Strike("settle dynamodb.UpdateItem b", Kind.LATE, 3), Strike("driver iceberg.load", Kind.DIE_BEFORE)),
    ),
)

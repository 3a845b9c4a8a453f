"""Mistakes with attempts and their jobs: beginning them, ending them, giving them up."""

import uuid
from typing import Any

from tests.sim.faults import Kind
from tests.sim.mistakes.writes import Write
from tests.sim.planting import Bug, Strike, but, replaced, rewired, rewritten
from tidegate.core.outcomes import NO_TALLY
from tidegate.core.receipts import Receipt
from tidegate.flows.resume import Resumed

NO_MEMORY = rewritten("h#", lambda write: write.unconditional())
"""Powertools' records never stand in the way."""


def _one_token_per_batch(parameters: dict[str, Any]) -> dict[str, Any]:
    (batch,) = (
        each.removeprefix("--batch=")
        for each in parameters["jobDriver"]["sparkSubmit"]["entryPointArguments"]
        if each.startswith("--batch=")
    )
    return {**parameters, "clientToken": batch}


def _a_token_each_time(parameters: dict[str, Any]) -> dict[str, Any]:
    return {**parameters, "clientToken": str(uuid.uuid4())}


def _in_any_state(write: Write) -> None:
    if write.sets("attempt") and not write.sets("fencing") and "Item" not in write.request:
        write.unconditional()


def _ended_is_done(real: Any) -> Any:
    def begin(route: Any, batch_id: str, attempt: int, *, ledger: Any, **ports: Any) -> bool:
        if attempt == 1:
            return bool(real(route, batch_id, attempt, ledger=ledger, **ports))
        return bool(ledger.commit(batch_id, route.name, Receipt(batch_id, 0, 0, False, NO_TALLY)))

    return begin


def _without_a_fence(real: Any) -> Any:
    def abort(batch_id: str, *, ledger: Any) -> Resumed:
        batch = ledger.batch(batch_id)
        done = ledger.commit(batch_id, batch.route, Receipt(batch_id, 0, 0, True, NO_TALLY))
        return Resumed.DONE if done else Resumed.MOVED_ON

    return abort


def _receipt_first(real: Any) -> Any:
    def settle_batch(route: Any, batch: Any, *, work: Any, **ports: Any) -> Any:
        name = f"batches/{batch.id}/receipt.json"
        early = work.get(name)
        return real(
            route, batch, work=but(work, get=lambda asked: early if asked == name else work.get(asked)), **ports
        )

    return settle_batch


BUGS = (
    Bug(
        "the client token for a fence",
        "No Powertools, and no attempt in the client token: a second attempt is told of the first one's run.",
        (NO_MEMORY, rewired("emr-serverless", "StartJobRun", _one_token_per_batch)),
        strikes=(Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "an attempt begins in any state",
        "Beginning an attempt asks neither for the batch's state nor for its attempt.",
        (rewritten("b#", _in_any_state),),
        strikes=(Strike("settle dynamodb.TransactWriteItems b,r", Kind.LATE, 2),),
    ),
    Bug(
        "the job ended, so it is done",
        "Settling takes the end of the job for the batch's commit, and needs no receipt.",
        (replaced("tidegate.flows.hand_off:begin", _ended_is_done),),
        strikes=(Strike("driver iceberg.load", Kind.DIE_BEFORE),),
    ),
    Bug(
        "given up without a fence",
        "A request to abort makes the batch ABANDONED at once: a driver that still runs can publish it.",
        (replaced("tidegate.flows.abort:abort", _without_a_fence),),
        "aborted",
        (Strike("driver iceberg.swap", Kind.PAUSE, 2),),
    ),
)

HARMLESS = (
    Bug(
        "no memory of started jobs",
        "Powertools is left out, and the client token is new each time: more drivers than needed, one of which counts.",
        (
            NO_MEMORY,
            rewired("emr-serverless", "StartJobRun", _a_token_each_time),
        ),
    ),
    Bug(
        "a new attempt does not ask",
        "An attempt reads and stages without asking first whether the batch is in the table: the commit asks.",
        (replaced("tidegate.spark.job:Attempt.look", lambda real: lambda attempt: None),),
    ),
    Bug(
        "any number of jobs",
        "Beginning an attempt asks for no free slot: jobs of one route run side by side.",
        (rewritten("r#", lambda write: write.unconditional() if write.adds("running") else None),),
    ),
    Bug(
        "the receipt first, the job second",
        "Settling looks for the receipt before it asks for the job: an attempt too many finds the batch published.",
        (replaced("tidegate.flows.settle:settle_batch", _receipt_first),),
    ),
)

"""Mistakes in the endings of uploads, in their records, and in the sums."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Call, Planting, Strike, answered, but, replaced, rewired, rewritten
from simulation.world.faults import Kind
from tidegate.core.outcomes import Outcome
from tidegate.flows.send import send

DECODE_RECEIPT = "tidegate.core.receipts:decode_receipt"
SETTLE_BATCH = "tidegate.flows.settle:settle_batch"
RECORD_ENDINGS = "tidegate.flows.ledger:Ledger.record_endings"


def _reported(becomes: Callable[[Any], Any]) -> Planting:
    """Changes what the reader reports of each file, but not the rows that it emits."""

    def make(real: Any) -> Any:
        def read(reader: Any, items: Any, report: Any) -> Any:
            return real(reader, items, lambda position, ended: report(position, becomes(ended)))

        return read

    return replaced("tidegate.reading.reader:Reader.read", make)


def _as(was: Outcome, becomes: Outcome) -> Planting:
    return _reported(lambda ended: replace(ended, outcome=becomes) if ended.outcome is was else ended)


def _without_superseded(real: Any) -> Any:
    def tally_of(outcomes: Any, *counts: int) -> Any:
        return real([each for each in outcomes if each is not Outcome.SUPERSEDED], *counts)

    return tally_of


def _without_left_out(real: Any) -> Any:
    return lambda outcomes, *counts: real(outcomes, *counts[:-1])


def _one_of_each_portion_skipped(real: Any) -> Any:
    return lambda ledger, endings: real(ledger, endings[1:])


def _noted_before(real: Any) -> Any:
    def settle_batch(route: Any, batch: Any, ports: Any) -> Any:
        ledger = ports.ledger

        def record_endings(endings: Any) -> Any:
            ledger.note_endings(batch.id, batch.endings + len(endings))
            return ledger.record_endings(endings)

        return real(route, batch, replace(ports, ledger=but(ledger, record_endings=record_endings)))

    return settle_batch


def _endings_after(real: Any) -> Any:
    def settle_batch(route: Any, batch: Any, ports: Any) -> Any:
        kept: list[Any] = []

        def keep(endings: Any) -> Any:
            kept.append(endings)
            return ()

        step = real(route, batch, replace(ports, ledger=but(ports.ledger, record_endings=keep)))
        for endings in kept:
            send(route.name, ports.ledger.record_endings(endings), ports)
        return step

    return settle_batch


def _of_what_was_staged(parameters: dict[str, Any]) -> dict[str, Any]:
    if parameters["Key"].endswith("/receipt.json"):
        receipt = json.loads(parameters["Body"])
        parameters["Body"] = json.dumps({**receipt, "snapshot": receipt["staged"]}).encode()
    return parameters


def _ends(write: WriteRequest) -> bool:
    """Whether the write ends a batch, or adds its sums to the route."""
    return write.value("state") in ("COMMITTED", "ABANDONED") or write.adds("notified")


def _one_by_one(ask: Call) -> Call:
    def transact(parameters: dict[str, Any]) -> Any:
        actions = parameters["TransactItems"]
        if not all("Update" in action and _ends(WriteRequest(action["Update"])) for action in actions):
            return ask(parameters)
        for action in actions:
            ask({**parameters, "TransactItems": [action]})
        return {}

    return transact


BUGS = (
    Bug(
        "a good upload recorded as quarantined",
        "A file that was read is recorded as quarantined; its rows land nevertheless.",
        (_as(Outcome.COMMITTED, Outcome.QUARANTINED),),
        "again_thrice",
    ),
    Bug(
        "what vanished counts as committed",
        "A vanished file counts as committed, with no row.",
        (_as(Outcome.VANISHED, Outcome.COMMITTED),),
        "returning",
    ),
    Bug(
        "a tally without one ending",
        "The tally omits superseded uploads.",
        (replaced("tidegate.core.receipts:tally_of", _without_superseded),),
        "outcomes",
    ),
    Bug(
        "rows that are left out are not counted",
        "The tally omits the rows that the route's `where` leaves out.",
        (replaced("tidegate.core.receipts:tally_of", _without_left_out),),
        seed=2518,
    ),
    Bug(
        "the first ending of a portion is skipped",
        "The first ending of each portion is not written.",
        (replaced(RECORD_ENDINGS, _one_of_each_portion_skipped),),
        "returning",
    ),
    Bug(
        "an ending without an outcome",
        "A claim gets the error only, without the outcome.",
        (rewritten("o#", lambda write: write.leaves("outcome") if write.sets("outcome") else None),),
        "returning",
    ),
    Bug(
        "noted before written",
        "The batch notes its endings as written before they are.",
        (replaced(SETTLE_BATCH, _noted_before),),
        "returning",
        strikes=(Strike("settle dynamodb.UpdateItem b", Kind.DIE_AFTER, 4),),
    ),
    Bug(
        "ended first, endings after",
        "A batch ends before its endings are written into the claims.",
        (replaced(SETTLE_BATCH, _endings_after),),
        "returning",
        (Strike("settle dynamodb.TransactWriteItems b,r", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "the receipt names what was staged",
        "The receipt names the staged snapshot instead of the published one.",
        (rewired("s3", "PutObject", _of_what_was_staged),),
    ),
    Bug(
        "abandoned batches are not counted",
        "The route's count of batches does not grow when a batch is abandoned.",
        (rewritten("r#", lambda write: write.leaves("abandoned_batches")),),
        "told_while_given_up",
    ),
    Bug(
        "notices counted for uploads",
        "A route's `notified` grows by one for each batch that ends, not by the batch's uploads.",
        (rewritten("r#", lambda write: write.counts("notified", 1)),),
    ),
    Bug(
        "ended twice",
        "A batch's end is written without the condition that it has not ended already.",
        (
            rewritten("b#", lambda write: write.unconditional() if _ends(write) else None),
            rewritten("r#", lambda write: write.unconditional() if _ends(write) else None),
        ),
        strikes=(Strike("settle dynamodb.TransactWriteItems b,r", Kind.LATE, 3),),
    ),
    Bug(
        "the sums in a write of their own",
        "A batch ends in one write, and its route's sums grow in a later one.",
        (answered("dynamodb", "TransactWriteItems", _one_by_one),),
        strikes=(Strike("settle dynamodb.TransactWriteItems b", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "a fence's receipt is like any other",
        "A receipt of a fence is treated like any other.",
        (replaced(DECODE_RECEIPT, lambda real: lambda body: replace(real(body), fence=False)),),
        "told_while_given_up",
    ),
    Bug(
        "what was broken counts as committed",
        "A file that cannot be decoded counts as committed, with no row.",
        (_as(Outcome.QUARANTINED, Outcome.COMMITTED),),
        "outcomes",
    ),
    Bug(
        "what was overwritten counts as vanished",
        "A superseded upload counts as vanished.",
        (_as(Outcome.SUPERSEDED, Outcome.VANISHED),),
        "outcomes",
    ),
)

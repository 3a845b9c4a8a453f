"""Mistakes in how uploads end, in what is written of that, and in the sums."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.sim.faults import Kind
from tests.sim.mistakes.writes import Write
from tests.sim.planting import Bug, Call, Planting, Strike, answered, but, replaced, rewired, rewritten
from tidegate.core.outcomes import Outcome
from tidegate.flows.send_again import send_again

DECODE_RECEIPT = "tidegate.core.receipts:decode_receipt"
SETTLE_BATCH = "tidegate.flows.settle:settle_batch"
RECORD_ENDINGS = "tidegate.aws.ledger:DynamoLedger.record_endings"


def _reported(becomes: Callable[[Any], Any]) -> Planting:
    """What the reader reports of each file is changed, and what it emits is not."""

    def make(real: Any) -> Any:
        def read(reader: Any, items: Any, report: Any) -> Any:
            return real(reader, items, lambda position, ended: report(position, becomes(ended)))

        return read

    return replaced("tidegate.spark.read:Reader.read", make)


def _as(was: Outcome, becomes: Outcome) -> Planting:
    return _reported(lambda ended: replace(ended, outcome=becomes) if ended.outcome is was else ended)


def _without_superseded(real: Any) -> Any:
    def tally_of(outcomes: Any, rows: int) -> Any:
        return real([each for each in outcomes if each is not Outcome.SUPERSEDED], rows)

    return tally_of


def _one_of_each_portion_skipped(real: Any) -> Any:
    return lambda ledger, endings: real(ledger, endings[1:])


def _noted_before(real: Any) -> Any:
    def settle_batch(route: Any, batch: Any, *, ledger: Any, **ports: Any) -> Any:
        def record_endings(endings: Any) -> Any:
            ledger.note_endings(batch.id, batch.endings + len(endings))
            return ledger.record_endings(endings)

        return real(route, batch, ledger=but(ledger, record_endings=record_endings), **ports)

    return settle_batch


def _endings_after(real: Any) -> Any:
    def settle_batch(route: Any, batch: Any, *, ledger: Any, **ports: Any) -> Any:
        kept: list[Any] = []

        def keep(endings: Any) -> Any:
            kept.append(endings)
            return ()

        step = real(route, batch, ledger=but(ledger, record_endings=keep), **ports)
        for endings in kept:
            send_again(route.name, ledger.record_endings(endings), topic=ports["topic"], count=ports["count"])
        return step

    return settle_batch


def _of_what_was_staged(parameters: dict[str, Any]) -> dict[str, Any]:
    if parameters["Key"].endswith("/receipt.json"):
        receipt = json.loads(parameters["Body"])
        parameters["Body"] = json.dumps({**receipt, "snapshot": receipt["staged"]}).encode()
    return parameters


def _ends(write: Write) -> bool:
    """Whether a batch ends, or a route is told of it."""
    return write.value("state") in ("COMMITTED", "ABANDONED") or write.adds("notified")


def _one_by_one(ask: Call) -> Call:
    def transact(parameters: dict[str, Any]) -> Any:
        actions = parameters["TransactItems"]
        if not all("Update" in action and _ends(Write(action["Update"])) for action in actions):
            return ask(parameters)
        for action in actions:
            ask({**parameters, "TransactItems": [action]})
        return {}

    return transact


BUGS = (
    Bug(
        "a good upload recorded as quarantined",
        "The ending of a file that was read is written down as that of a broken one; its rows land all the same.",
        (_as(Outcome.COMMITTED, Outcome.QUARANTINED),),
        "again_thrice",
    ),
    Bug(
        "what vanished counts as committed",
        "A file that was gone before it was read is counted as read, with no row.",
        (_as(Outcome.VANISHED, Outcome.COMMITTED),),
        "returning",
    ),
    Bug(
        "a tally without one ending",
        "Superseded uploads are left out of the tally.",
        (replaced("tidegate.core.receipts:tally_of", _without_superseded),),
        "outcomes",
    ),
    Bug(
        "the first ending of a portion is skipped",
        "Endings are written from the second of each portion on.",
        (replaced(RECORD_ENDINGS, _one_of_each_portion_skipped),),
        "returning",
    ),
    Bug(
        "an ending without an outcome",
        "What is written into a claim is the error only, not how the upload ended.",
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
        "The receipt says the staged snapshot where the published one belongs.",
        (rewired("s3", "PutObject", _of_what_was_staged),),
    ),
    Bug(
        "abandoned batches are not counted",
        "The route's count of batches is left alone when one ends as abandoned.",
        (rewritten("r#", lambda write: write.leaves("abandoned_batches")),),
        "told_while_given_up",
    ),
    Bug(
        "notices counted for uploads",
        "A route's sum of what was notified grows by one for each batch that ends, not by its uploads.",
        (rewritten("r#", lambda write: write.counts("notified", 1)),),
    ),
    Bug(
        "ended twice",
        "That a batch ends is written without asking whether it had ended already.",
        (
            rewritten("b#", lambda write: write.unconditional() if _ends(write) else None),
            rewritten("r#", lambda write: write.unconditional() if _ends(write) else None),
        ),
        strikes=(Strike("settle dynamodb.TransactWriteItems b,r", Kind.LATE, 3),),
    ),
    Bug(
        "the sums in a write of their own",
        "A batch ends in one write, and its route's sums grow in another one after it.",
        (answered("dynamodb", "TransactWriteItems", _one_by_one),),
        strikes=(Strike("settle dynamodb.TransactWriteItems b", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "a fence's receipt is like any other",
        "That a receipt is of a fence is not looked at.",
        (replaced(DECODE_RECEIPT, lambda real: lambda body: replace(real(body), fence=False)),),
        "told_while_given_up",
    ),
    Bug(
        "what was broken counts as committed",
        "A file that cannot be decoded is counted as read, with no row.",
        (_as(Outcome.QUARANTINED, Outcome.COMMITTED),),
        "outcomes",
    ),
    Bug(
        "what was overwritten counts as vanished",
        "Superseded and vanished are taken for the same.",
        (_as(Outcome.SUPERSEDED, Outcome.VANISHED),),
        "outcomes",
    ),
)

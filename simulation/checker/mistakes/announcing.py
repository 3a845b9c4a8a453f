"""Mistakes of announcing committed batches, and of a consumer's inbox."""

import itertools
import json
from typing import Any

from simulation.checker.planting import Bug, Strike, but, replaced, rewired
from simulation.world.faults import Kind
from tidegate.core.announcements import Announcement

SEND = "tidegate.flows.announce:_send"


def _noted_first(real: Any) -> Any:
    def send(group: Any, bus: Any, ports: Any) -> Any:
        ports.ledger.note_announced(group)
        return real(group, bus, but(ports, ledger=but(ports.ledger, note_announced=lambda events: None)))

    return send


def _never_noted(real: Any) -> Any:
    return lambda group, bus, ports: dict(bus.send(group))


def _announced_at_the_receipt(real: Any) -> Any:
    def record(route: Any, batch: Any, receipt: Any, ports: Any) -> None:
        if ports.bus is not None and not receipt.fence:
            told = Announcement(batch.id, batch.route, batch.table, receipt.snapshot, receipt.tally, ports.clock())
            ports.bus.send([told])
        real(route, batch, receipt, ports)

    return record


def _fences_too(real: Any) -> Any:
    def note(batch: Any, receipt: Any, **named: Any) -> Any:
        from dataclasses import replace

        written = real(batch, replace(receipt, fence=False), **named)
        ended = real(batch, receipt, **named)
        return replace(ended, writes=(*ended.writes, *(each for each in written.writes if each.key.pk == "outbox")))

    return note


def _without_the_outbox(parameters: dict[str, Any]) -> dict[str, Any]:
    kept = [each for each in parameters["TransactItems"] if _pk(each) != "outbox"]
    return {**parameters, "TransactItems": kept}


def _pk(action: dict[str, Any]) -> str:
    (write,) = action.values()
    return str((write.get("Key") or write["Item"])["pk"]["S"])


_numbers = itertools.count()


def _another_id(parameters: dict[str, Any]) -> dict[str, Any]:
    for entry in parameters["Entries"]:
        entry["Detail"] = json.dumps({**json.loads(entry["Detail"]), "id": f"event-{next(_numbers)}"})
    return parameters


def _all_taken(real: Any) -> Any:
    def send(bus: Any, announcements: Any) -> Any:
        real(bus, announcements)
        return {}

    return send


def _in_two_writes(first: str) -> Any:
    """The record and the effect are written one after the other."""

    def make(real: Any) -> Any:
        def once(inbox: Any, event_id: str, writes: Any) -> bool:
            if first == "record":
                if not real(inbox, event_id, []):
                    return False
                inbox._client.transact_write_items(TransactItems=writes)
                return True
            if inbox._remembers(event_id, int(inbox._clock())):
                return False
            inbox._client.transact_write_items(TransactItems=writes)
            return bool(real(inbox, event_id, []))

        return once

    return make


def _unremembered(real: Any) -> Any:
    def once(inbox: Any, event_id: str, writes: Any) -> bool:
        inbox._client.transact_write_items(TransactItems=list(writes))
        return True

    return once


BUGS = (
    Bug(
        "noted before it is sent",
        "An announcement leaves the outbox before the bus has taken it.",
        (replaced(SEND, _noted_first),),
        "announced",
        (Strike("settle events.PutEvents", Kind.DIE_BEFORE),),
    ),
    Bug(
        "announced before it is committed",
        "Settling announces a batch when it has read its receipt. Nothing in the ledger says that it is committed.",
        (replaced("tidegate.flows.settle:record_receipt", _announced_at_the_receipt),),
        "announced",
    ),
    Bug(
        "a fence is announced",
        "A batch that was given up is announced, too.",
        (replaced("tidegate.core.transitions:end_batch", _fences_too),),
        "announced_and_given_up",
    ),
    Bug(
        "the outbox is not part of the transaction",
        "The transaction that ends a batch writes no announcement.",
        (rewired("dynamodb", "TransactWriteItems", _without_the_outbox),),
        "announced",
    ),
    Bug(
        "a new id for each send",
        "Each time it is sent an event has another id, by which nobody can tell a repeat.",
        (rewired("events", "PutEvents", _another_id),),
        "announced",
        (Strike("settle events.PutEvents", Kind.DIE_AFTER),),
    ),
    Bug(
        "what is refused counts as sent",
        "The answer to PutEvents is not read: an entry that was refused leaves the outbox.",
        (replaced("tidegate.aws.bus:EventBridge.send", _all_taken),),
        "announced",
    ),
    Bug(
        "announced for ever",
        "What was sent stays in the outbox, and is sent every minute.",
        (replaced(SEND, _never_noted),),
        "announced",
    ),
    Bug(
        "remembered, then written",
        "A consumer remembers an event, and then writes its effect.",
        (replaced("tidegate.inbox:Inbox.once", _in_two_writes("record")),),
        "announced",
        (Strike("consumer dynamodb.TransactWriteItems", Kind.DIE_AFTER),),
    ),
    Bug(
        "written, then remembered",
        "A consumer writes an event's effect, and then remembers the event.",
        (replaced("tidegate.inbox:Inbox.once", _in_two_writes("effect")),),
        "announced",
        (Strike("consumer dynamodb.TransactWriteItems", Kind.DIE_AFTER),),
    ),
    Bug(
        "nothing is remembered",
        "A consumer has no inbox.",
        (replaced("tidegate.inbox:Inbox.once", _unremembered),),
        "announced",
        (Strike("settle events.PutEvents", Kind.DIE_AFTER),),
    ),
)

"""Mistakes in what people send again: what a redrive names, who may take over, and how often an upload is counted."""

from dataclasses import replace
from typing import Any

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Call, Planting, Strike, answered, but, replaced, rewired
from simulation.world.faults import Kind
from tidegate.core import transitions
from tidegate.core.batches import State
from tidegate.core.items import Transition, Update, Write
from tidegate.core.notices import Entry
from tidegate.core.outcomes import Outcome
from tidegate.core.receipts import decode_outcomes
from tidegate.core.records import route_key

REDRIVE = "tidegate.flows.redrive"
SEND_AGAIN = "tidegate.flows.send_again:send_again"


def _entries(change: Any) -> Planting:
    """Changes each entry that a redrive sends."""

    def make(real: Any) -> Any:
        return lambda route, entries, ports, **said: real(route, [change(each) for each in entries], ports, **said)

    return replaced(SEND_AGAIN, make, within=REDRIVE)


def _whoever_owns_it(real: Any) -> Any:
    def still_owned(owned: Any, ports: Any) -> list[Entry]:
        claims = ports.ledger.claims_on(each.upload for each in owned)
        return [Entry(each.upload, takes_from=claims[each.upload.identity].notice) for each in owned]

    return still_owned


def _whatever_its_state(real: Any) -> Any:
    def redrive_batch(batch_id: str, ports: Any, **said: Any) -> Any:
        def batch(wanted: str) -> Any:
            found = ports.ledger.batch(wanted)
            return replace(found, state=State.ABANDONED) if found else None

        return real(batch_id, replace(ports, ledger=but(ports.ledger, batch=batch)), **said)

    return redrive_batch


REDRIVEN_AT_ANY_TIME = replaced(f"{REDRIVE}:redrive_batch", _whatever_its_state)
TRUSTED = replaced("tidegate.core.claims:has_let_go", lambda real: lambda claim, owner, batch: True)
"""Dispatch believes a notice that its owner has let go."""


def _of_any_snapshot(real: Any) -> Any:
    def endings(batch_id: str, ports: Any) -> Any:
        bodies = [ports.work.get(name) for name in ports.work.names(f"batches/{batch_id}/outcomes/")]
        found = decode_outcomes(bodies[-1]).endings if bodies else ()
        return [each for each in found if each.outcome == Outcome.QUARANTINED]

    return endings


def _counted_at_once(real: Any) -> Any:
    def register(ledger: Any, notice: Any, batch: Any, part: Any, back: Any = None) -> Any:
        for route, left in transitions._sums_left(back or {}).items():
            ledger.store.apply(Transition("count", (Write(route_key(route), Update(adds=left)),)))
        return real(ledger, notice, batch, part)

    return register


def _nothing_listed(ask: Call) -> Call:
    def transact(parameters: dict[str, Any]) -> Any:
        kept = [
            each
            for each in parameters["TransactItems"]
            if not WriteRequest(next(iter(each.values()))).pk.startswith("l#")
        ]
        return ask({**parameters, "TransactItems": kept})

    return transact


def _of_one_page(ask: Call) -> Call:
    def query(parameters: dict[str, Any]) -> Any:
        answer = ask(parameters)
        if any(str(value.get("S", "")).startswith("l#") for value in parameters["ExpressionAttributeValues"].values()):
            answer.pop("LastEvaluatedKey", None)
        return answer

    return query


def _without_what_it_was(parameters: dict[str, Any]) -> dict[str, Any]:
    parameters["Item"].pop("was", None)
    parameters["Item"].pop("was_of", None)
    return parameters


BUGS = (
    Bug(
        "a redrive names no owner",
        "A redrive's notice does not name the owners of its uploads: dispatch refuses it.",
        (_entries(lambda entry: replace(entry, takes_from="")),),
        "redriven",
    ),
    Bug(
        "a release names no owner",
        "The notice of a release does not name the owners of its uploads.",
        (_entries(lambda entry: replace(entry, takes_from="")),),
        "released",
    ),
    Bug(
        "a redrive takes from whoever owns it now",
        "A redrive sends uploads that another notice took over, names that one as their owner, and dispatch believes"
        " that it has let go.",
        (replaced(f"{REDRIVE}:_still_owned", _whoever_owns_it), TRUSTED),
        "redriven_again",
    ),
    Bug(
        "a batch is redriven while its job runs",
        "A redrive does not ask whether its batch is abandoned, and dispatch believes that the owners have let go.",
        (REDRIVEN_AT_ANY_TIME, TRUSTED),
        "redriven_in_passing",
    ),
    Bug(
        "a redrive is believed",
        "Dispatch believes a notice that names an owner that this one has let go.",
        (TRUSTED,),
        "redriven_by_name_in_passing",
    ),
    Bug(
        "released by what was staged",
        "A release reads the outcomes of a snapshot that was staged, and not published.",
        (replaced("tidegate.flows.quarantine:_endings", _of_any_snapshot),),
        "released_from_two_snapshots",
    ),
    Bug(
        "what came back is counted at each delivery",
        "The sums that an upload leaves are written before the notice is registered, so a repeat writes them again.",
        (replaced("tidegate.flows.ledger:Ledger.register", _counted_at_once),),
        "redriven",
        (Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.DIE_BEFORE, 2),),
    ),
    Bug(
        "what came back is counted twice",
        "An upload that comes back stays in the sums that it was in.",
        (replaced("tidegate.core.transitions:_sums_left", lambda real: lambda back: {}),),
        "returning",
    ),
    Bug(
        "a claim forgets how its upload was counted",
        "A claim that was taken over does not record how the upload was counted: after a crash nobody knows.",
        (rewired("dynamodb", "PutItem", _without_what_it_was),),
        "redriven",
        (Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.DIE_BEFORE, 2),),
    ),
    Bug(
        "a batch leaves nothing behind",
        "The end of a batch writes no leftover: nobody finds what it quarantined.",
        (answered("dynamodb", "TransactWriteItems", _nothing_listed),),
        "outcomes",
    ),
    Bug(
        "only the first page of the leftovers",
        "A release reads the first page of a route's leftovers only.",
        (answered("dynamodb", "Query", _of_one_page),),
        "released_page_by_page",
    ),
)

HARMLESS = (
    Bug(
        "a redrive of any batch",
        "A redrive does not ask whether its batch is abandoned: dispatch refuses its notices.",
        (REDRIVEN_AT_ANY_TIME,),
        "redriven_in_passing",
    ),
    Bug(
        "a redrive of what belongs to others by now",
        "A redrive sends uploads that another notice took over: dispatch refuses them.",
        (replaced(f"{REDRIVE}:_still_owned", _whoever_owns_it),),
        "redriven_again",
    ),
)

"""Mistakes in what people send again: what a resend names, who may take over, and how often an upload is counted."""

from dataclasses import replace
from typing import Any

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Call, Planting, Strike, answered, but, replaced, rewired, rewritten
from simulation.world.faults import Kind
from tidegate.core import transitions
from tidegate.core.audit import AuditFinding
from tidegate.core.batches import State
from tidegate.core.items import Transition, Update, Write
from tidegate.core.notices import Entry
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.receipts import decode_outcomes
from tidegate.core.records import route_key
from tidegate.core.transitions.common import sums_left

RESEND = "tidegate.flows.resend"
SEND_AGAIN = "tidegate.flows.send:send"


def _entries(change: Any) -> Planting:
    """Changes each entry that a resend sends."""

    def make(real: Any) -> Any:
        return lambda route, entries, ports, **said: real(route, [change(each) for each in entries], ports, **said)

    return replaced(SEND_AGAIN, make, within=RESEND)


def _whoever_owns_it(real: Any) -> Any:
    def to_send(owned: Any, claims: Any, let_go: Any) -> list[Entry]:
        return [Entry(each.upload, takes_from=claims[each.upload.identity].notice) for each in owned]

    return to_send


def _whatever_its_state(real: Any) -> Any:
    def resend_batch(batch_id: str, ports: Any, **said: Any) -> Any:
        def batch(wanted: str) -> Any:
            found = ports.ledger.batch(wanted)
            return replace(found, state=State.ABANDONED) if found else None

        return real(batch_id, replace(ports, ledger=but(ports.ledger, batch=batch)), **said)

    return resend_batch


RESENT_AT_ANY_TIME = replaced(f"{RESEND}:resend_batch", _whatever_its_state)
TRUSTED = replaced("tidegate.core.claims:has_let_go", lambda real: lambda claim, owner, batch: True)
"""Dispatch believes a notice that its owner has let go."""


def _of_any_snapshot(real: Any) -> Any:
    def endings(batch_id: str, ports: Any) -> Any:
        bodies = [ports.work.get(name) for name in ports.work.names(f"batches/{batch_id}/outcomes/")]
        found = decode_outcomes(bodies[-1]).endings if bodies else ()
        return [each for each in found if each.outcome == Outcome.QUARANTINED]

    return endings


def _counted_at_once(real: Any) -> Any:
    def register(ledger: Any, notice: Any, batch: Any, part: Any, back: Any = None, *bound: str) -> Any:
        for route, left in sums_left(back or {}).items():
            ledger.store.apply(Transition("count", (Write(route_key(route), Update(adds=left)),)))
        return real(ledger, notice, batch, part, None, *bound)

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


def _of_what_was_dropped(write: WriteRequest) -> None:
    if write.value("outcome") == "dropped":
        write.forgets("outcome")
        write.forgets("notice")


def _abandoned_anew(write: WriteRequest) -> None:
    if write.value("outcome") == "abandoned":
        write.forgets("outcome")


def _taken_over_anyhow(write: WriteRequest) -> None:
    if write.value("was") == "abandoned":
        write.forgets("outcome")


def _counted_before(real: Any) -> Any:
    def drop(batch_id: str, route: str, owned: Any, *, leftover: bool, now: int) -> Transition:
        whole = real(batch_id, route, owned, leftover=leftover, now=now)
        return Transition(whole.what, tuple(each for each in whole.writes if each.key != route_key(route)))

    return drop


def _then_counted(real: Any) -> Any:
    def drop(ledger: Any, batch_id: str, route: str, owned: Any) -> int:
        ledger.store.apply(Transition("count", (Write(route_key(route), Update(adds={"dropped": len(owned)})),)))
        return int(real(ledger, batch_id, route, owned))

    return drop


def _sent_by_the_audit(real: Any) -> Any:
    return lambda listed, claim: AuditFinding.LOST if claim.outcome == DROPPED else real(listed, claim)


def _dropped_unread(ledger: Any, batch_id: str, route: str, owned: Any, listed: bool) -> int:
    now = ledger.clock()
    ledger.store.apply(transitions.drop(batch_id, route, owned, leftover=listed, now=now))
    return len(owned)


BUGS = (
    Bug(
        "a drop takes what others own",
        "A drop asks neither who owns the upload by now nor whether it is abandoned.",
        (
            replaced("tidegate.flows.ledger:Ledger._drop", lambda real: _dropped_unread),
            rewritten("o#", _of_what_was_dropped),
        ),
        "resent_and_dropped",
    ),
    Bug(
        "a take-over does not ask what was dropped",
        "An upload that was dropped while it was being taken over counts as come back from the abandoned ones.",
        (rewritten("o#", _taken_over_anyhow),),
        "dropped_and_resent",
    ),
    Bug(
        "abandoned anew",
        "A slow twin of settling writes into a claim that its upload is abandoned, after a person has dropped it.",
        (rewritten("o#", _abandoned_anew),),
        "dropped",
        (Strike("settle dynamodb.UpdateItem o", Kind.LATE),),
    ),
    Bug(
        "a wish is not listed",
        "What becomes of a batch's uploads is noted with the batch only, and settling does not see it.",
        (replaced("tidegate.core.transitions.wishes:listed_wish", lambda real: lambda batch_id, wish: {}),),
        "dropped",
    ),
    Bug(
        "dropped uploads are counted first",
        "The route counts the uploads as dropped before their claims say so: after a crash it counts them again.",
        (
            replaced("tidegate.core.transitions:drop", _counted_before),
            replaced("tidegate.flows.ledger:Ledger.drop", _then_counted),
        ),
        "dropped",
        (Strike("settle dynamodb.TransactWriteItems o", Kind.DIE_BEFORE),),
    ),
    Bug(
        "the audit sends what was dropped",
        "An audit takes an upload for lost that a person has given up.",
        (replaced("tidegate.core.audit:_judge_ended", _sent_by_the_audit),),
        "dropped_and_audited",
    ),
    Bug(
        "a resend names no owner",
        "A resend's notice does not name the owners of its uploads: dispatch refuses it.",
        (_entries(lambda entry: replace(entry, takes_from="")),),
        "resent",
    ),
    Bug(
        "a release names no owner",
        "The notice of a release does not name the owners of its uploads.",
        (_entries(lambda entry: replace(entry, takes_from="")),),
        "released",
    ),
    Bug(
        "a resend takes from whoever owns it now",
        "A resend sends uploads that another notice took over, names that one as their owner, and dispatch believes"
        " that it has let go.",
        (replaced(f"{RESEND}:_to_send", _whoever_owns_it), TRUSTED),
        "again_twice_at_once",
    ),
    Bug(
        "a batch is resent while its job runs",
        "A resend does not ask whether its batch is abandoned, and dispatch believes that the owners have let go.",
        (RESENT_AT_ANY_TIME, TRUSTED),
        "resent_in_passing",
    ),
    Bug(
        "a resend is believed",
        "Dispatch believes a notice that names an owner that this one has let go.",
        (TRUSTED,),
        "resent_by_name_in_passing",
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
        "resent",
        (Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.DIE_BEFORE, 2),),
    ),
    Bug(
        "what came back is counted twice",
        "An upload that comes back stays in the sums that it was in.",
        (replaced("tidegate.core.transitions.common:sums_left", lambda real: lambda back: {}),),
        "returning",
    ),
    Bug(
        "a claim forgets how its upload was counted",
        "A claim that was taken over does not record how the upload was counted: after a crash nobody knows.",
        (rewired("dynamodb", "PutItem", _without_what_it_was),),
        "resent",
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
        "a resend of any batch",
        "Dispatch refuses the notices if the batch is not abandoned.",
        (RESENT_AT_ANY_TIME,),
        "resent_in_passing",
    ),
    Bug(
        "a resend of what belongs to others by now",
        "Dispatch refuses what another notice took over.",
        (replaced(f"{RESEND}:_to_send", _whoever_owns_it),),
        "resent_again",
    ),
)

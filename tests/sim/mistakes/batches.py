"""Mistakes in decision 2, this notice belongs to that batch, and in sealing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from tests.sim.faults import Kind
from tests.sim.mistakes.writes import Write
from tests.sim.planting import Bug, Call, Strike, answered, but, replaced, rewritten
from tidegate.core.manifests import Sealed, batch_folder, notice_of_part
from tidegate.core.notices import decode

REGISTERED = "tidegate.flows.seal:registered"


def _in_any_batch(write: Write) -> None:
    if write.adds("notices"):
        write.unconditional()


def _registers(parameters: dict[str, Any]) -> bool:
    writes = [Write(request) for action in parameters["TransactItems"] for request in action.values()]
    return any(write.pk.startswith("b#") and write.adds("notices") for write in writes)


def _closed_will_do(ask: Call) -> Call:
    def transact(parameters: dict[str, Any]) -> Any:
        try:
            return ask(parameters)
        except ClientError as error:
            reasons = [each["Code"] for each in error.response.get("CancellationReasons", ())]
            if _registers(parameters) and reasons == ["None", "ConditionalCheckFailed"]:
                return {}
            raise

    return transact


@contextmanager
def _written_after() -> Iterator[None]:
    kept: dict[str, tuple[Call, dict[str, Any]]] = {}

    def put_later(ask: Call) -> Call:
        def put(parameters: dict[str, Any]) -> Any:
            if "/parts/" not in parameters["Key"]:
                return ask(parameters)
            kept[parameters["Key"].split("/parts/")[1]] = (ask, parameters)
            return {}

        return put

    def then_put(ask: Call) -> Call:
        def transact(parameters: dict[str, Any]) -> Any:
            answer = ask(parameters)
            if _registers(parameters):
                for action in parameters["TransactItems"]:
                    if part := Write(*action.values()).value("part"):
                        put, late = kept.pop(part.removeprefix("parts/"))
                        put(late)
            return answer

        return transact

    with (
        answered("s3", "PutObject", put_later)(),
        answered("dynamodb", "TransactWriteItems", then_put)(),
    ):
        yield


def _named_by_notice_alone(real: Any) -> Any:
    def make_part(notice_id: str, *arguments: Any) -> Any:
        return replace(real(notice_id, *arguments), name=f"parts/{notice_id}-part.jsonl.gz")

    return make_part


def _whatever_lies_there(real: Any) -> Any:
    def registered(batch: Any, *, ledger: Any, work: Any) -> Sealed:
        folder = batch_folder(batch.id)
        there = sorted(name.removeprefix(folder) for name in work.names(folder + "parts/"))
        return replace(real(batch, ledger=ledger, work=work), parts=tuple(there))

    return registered


def _uncounted(real: Any) -> Any:
    def registered(batch: Any, *, ledger: Any, work: Any) -> Sealed:
        folder = batch_folder(batch.id)
        names = {name.removeprefix(folder) for name in work.names(folder + "parts/")}
        notices = ledger.notices({notice_of_part(name) for name in names})
        found = [each for each in notices.values() if each.batch == batch.id and each.part in names]
        objects, size = sum(each.objects for each in found), sum(each.bytes for each in found)
        return Sealed(batch.id, batch.route, tuple(sorted(each.part for each in found)), objects, size, batch.table)

    return registered


def _not_asked_first(real: Any) -> Any:
    def dispatch(body: str, *, ledger: Any, **ports: Any) -> Any:
        mine = decode(body).id
        unasked = but(ledger, notice=lambda notice_id: None if notice_id == mine else ledger.notice(notice_id))
        return real(body, ledger=unasked, **ports)

    return dispatch


BUGS = (
    Bug(
        "registered in any batch",
        "Registering does not ask whether the batch is still open.",
        (rewritten("b#", _in_any_batch),),
        "slow_dispatch",
    ),
    Bug(
        "a closed batch will do",
        "That the batch was sealed meanwhile is taken for an answer, not for a reason to try the next one.",
        (answered("dynamodb", "TransactWriteItems", _closed_will_do),),
        "slow_dispatch",
    ),
    Bug(
        "registered first, written after",
        "The notice is registered before its part is written.",
        (_written_after,),
        strikes=(Strike("dispatch dynamodb.TransactWriteItems n,b", Kind.DIE_AFTER),),
    ),
    Bug(
        "parts named by notice alone",
        "A part's name does not hold the hash of its content, so a twin writes over it.",
        (replaced("tidegate.core.manifests:make_part", _named_by_notice_alone),),
        "notices_purged",
        (Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER), Strike("dispatch s3.PutObject parts", Kind.PAUSE)),
    ),
    Bug(
        "the sealed batch stays the open one",
        "Sealing leaves the batch where notices look for an open one.",
        (rewritten("r#", lambda write: write.leaves("open_batch") if write.removes("open_batch") else None),),
        "growing",
    ),
    Bug(
        "whatever lies there is in the batch",
        "The manifest lists the parts that are found, not those that are registered.",
        (replaced(REGISTERED, _whatever_lies_there),),
        "outcomes",
        (Strike("dispatch s3.PutObject parts", Kind.DIE_AFTER, 2),),
    ),
    Bug(
        "sealed without counting",
        "The manifest is not held against the batch's header.",
        (replaced(REGISTERED, _uncounted),),
        "part_mislaid",
    ),
)

HARMLESS = (
    Bug(
        "decided or not, claim again",
        "Dispatch does not look first whether the notice is registered already.",
        (replaced("tidegate.flows.dispatch:dispatch", _not_asked_first),),
    ),
)

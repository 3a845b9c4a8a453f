"""Mistakes in decision 2, this notice belongs to that batch, and in sealing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Call, Planting, Strike, answered, but, replaced, rewired, rewritten
from simulation.world.faults import Kind
from tidegate.core.batches import LONGEST_OPEN
from tidegate.core.manifests import Sealed, batch_folder, notice_of_part
from tidegate.core.notices import decode

REGISTERED = "tidegate.flows.seal:registered"


def _in_any_batch(write: WriteRequest) -> None:
    if write.adds("notices"):
        write.unconditional()


def _registers(parameters: dict[str, Any]) -> bool:
    writes = [WriteRequest(request) for action in parameters["TransactItems"] for request in action.values()]
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
                    if part := WriteRequest(*action.values()).value("part"):
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
    def make_part(notice_id: str, *arguments: Any, **said: Any) -> Any:
        return replace(real(notice_id, *arguments, **said), name=f"parts/{notice_id}-part.jsonl.gz")

    return make_part


def _whatever_lies_there(real: Any) -> Any:
    def registered(batch: Any, ports: Any) -> Sealed:
        folder = batch_folder(batch.id)
        there = sorted(name.removeprefix(folder) for name in ports.work.names(folder + "parts/"))
        sealed: Sealed = real(batch, ports)
        return replace(sealed, parts=tuple(there))

    return registered


def _uncounted(real: Any) -> Any:
    def registered(batch: Any, ports: Any) -> Sealed:
        folder = batch_folder(batch.id)
        names = {name.removeprefix(folder) for name in ports.work.names(folder + "parts/")}
        notices = ports.ledger.notices({notice_of_part(name) for name in names})
        found = [each for each in notices.values() if each.batch == batch.id and each.part in names]
        objects, size = sum(each.objects for each in found), sum(each.bytes for each in found)
        return Sealed(batch.id, batch.route, tuple(sorted(each.part for each in found)), objects, size, batch.table)

    return registered


def _not_asked_first(real: Any) -> Any:
    def dispatch(body: str, ports: Any, **routes: Any) -> Any:
        mine, ledger = decode(body).id, ports.ledger
        unasked = but(ledger, notice=lambda notice_id: None if notice_id == mine else ledger.notice(notice_id))
        return real(body, replace(ports, ledger=unasked), **routes)

    return dispatch


def _decided_or_not(write: WriteRequest) -> None:
    if write.sets("batch"):
        write.unconditional()


def _void_or_not(ask: Call) -> Call:
    def transact(parameters: dict[str, Any]) -> Any:
        try:
            return ask(parameters)
        except ClientError as error:
            there = [each["Item"] for each in error.response.get("CancellationReasons", ()) if "Item" in each]
            if _registers(parameters) and there and "decided_at" in there[0] and "batch" not in there[0]:
                for action in parameters["TransactItems"]:
                    WriteRequest(*action.values()).unconditional()
                return ask(parameters)
            raise

    return transact


def _empty_too(write: WriteRequest) -> None:
    if write.value("state") == "SEALED":
        write.forgets("notices")


def _whoever_is_in_it(real: Any) -> Any:
    return lambda batch, limits, **when: real(replace(batch, notices=max(1, batch.notices)), limits, **when)


def _not_after_a_day(real: Any) -> Any:
    def is_due(batch: Any, limits: Any, *, now: int, **when: Any) -> Any:
        return real(replace(batch, opened_at=max(batch.opened_at, now - LONGEST_OPEN + 1)), limits, now=now, **when)

    return is_due


def _no_digest(parameters: dict[str, Any]) -> dict[str, Any]:
    arguments = parameters["jobDriver"]["sparkSubmit"]["entryPointArguments"]
    arguments[:] = [each for each in arguments if not each.startswith("--digest=")]
    return parameters


def _as_put(names: str) -> Planting:
    def change(parameters: dict[str, Any]) -> dict[str, Any]:
        if names in parameters["Key"]:
            parameters.pop("IfNoneMatch", None)
        return parameters

    return rewired("s3", "PutObject", change)


def _opened_beside(write: WriteRequest) -> None:
    if write.sets("open_batch"):
        write.unconditional()


BUGS = (
    Bug(
        "registered in any batch",
        "Registering does not check that the batch is still open.",
        (rewritten("b#", _in_any_batch),),
        "slow_dispatch",
    ),
    Bug(
        "a sealed batch counts as joined",
        "If the batch was sealed meanwhile, the notice counts as registered. The next batch is not tried.",
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
        "A part's name does not contain the hash of its content, so a twin overwrites it.",
        (replaced("tidegate.core.manifests:make_part", _named_by_notice_alone),),
        "notices_purged",
        (Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER), Strike("dispatch s3.PutObject parts", Kind.PAUSE)),
    ),
    Bug(
        "the sealed batch stays the open one",
        "Sealing leaves the batch as the route's open batch.",
        (rewritten("r#", lambda write: write.leaves("open_batch") if write.removes("open_batch") else None),),
        "growing",
    ),
    Bug(
        "unregistered parts in the manifest",
        "The manifest lists all parts in the folder, not only the registered ones.",
        (replaced(REGISTERED, _whatever_lies_there),),
        "outcomes",
        (Strike("dispatch s3.PutObject parts", Kind.DIE_AFTER, 2),),
    ),
    Bug(
        "sealed without counting",
        "The manifest's sums are not compared with the batch's header.",
        (replaced(REGISTERED, _uncounted),),
        "part_mislaid",
    ),
    Bug(
        "registered again",
        "A notice is registered without the condition that it is not decided yet.",
        (rewritten("n#", _decided_or_not),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.PAUSE),),
    ),
    Bug(
        "open for ever",
        "A batch that gathers behind a halted one is not sealed after a day.",
        (replaced("tidegate.core.batches:is_due", _not_after_a_day),),
        "a_job_that_takes_days",
    ),
    Bug(
        "two open batches",
        "A route gets a new open batch without the condition that it has none.",
        (rewritten("r#", _opened_beside),),
        "late_at_the_second",
        (Strike("dispatch dynamodb.TransactWriteItems b,r", Kind.LATE),),
    ),
    Bug(
        "void, and registered all the same",
        "A void notice is registered when it is delivered.",
        (answered("dynamodb", "TransactWriteItems", _void_or_not),),
        "audited_under_way",
        (Strike("dispatch dynamodb.GetItem r", Kind.PAUSE),),
    ),
    Bug(
        "the digest is not compared",
        "The job does not compare its manifest with the digest in the ledger, and its outcomes do not name it.",
        (rewired("emr-serverless", "StartJobRun", _no_digest),),
        "core",
    ),
)

HARMLESS = (
    Bug(
        "decided or not, claim again",
        "Dispatch does not check first whether the notice is registered.",
        (replaced("tidegate.flows.dispatch:dispatch", _not_asked_first),),
    ),
    Bug(
        "an empty batch is sealed",
        "A job runs and publishes nothing.",
        (rewritten("b#", _empty_too), replaced("tidegate.core.batches:is_due", _whoever_is_in_it)),
        "chance",
        seed=23,
    ),
)

UNSEEN = (
    Bug(
        "the manifest is written again",
        "Hand-off always writes the manifest, even if there is one.",
        (_as_put("sealed.json"),),
        because="harmless: the registrations are final by then, so every process writes the same",
    ),
)

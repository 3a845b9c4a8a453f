"""Mistakes in requests to AWS and in the use of its answers: stale reads, and incomplete answers."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from simulation.checker.planting import Bug, Call, Planting, Strike, answered, replaced, rewired
from simulation.world.faults import Kind
from tidegate.core.errors import TidegateError


def _eventually(operation: str, pk: str = "") -> Planting:
    """Reads of items whose key begins with `pk` may be stale."""

    def stale(parameters: dict[str, Any]) -> dict[str, Any]:
        if parameters.get("Key", {}).get("pk", {}).get("S", pk).startswith(pk):
            parameters.pop("ConsistentRead", None)
        for wanted in parameters.get("RequestItems", {}).values():
            wanted.pop("ConsistentRead", None)
        return parameters

    return rewired("dynamodb", operation, stale)


def _answer(service: str, operation: str, change: Callable[[Any], None]) -> Planting:
    def make(ask: Call) -> Call:
        def call(parameters: dict[str, Any]) -> Any:
            answer = ask(parameters)
            change(answer)
            return answer

        return call

    return answered(service, operation, make)


def _one_page(answer: Any) -> None:
    for more in ("NextContinuationToken", "LastEvaluatedKey"):
        answer.pop(more, None)
    if "IsTruncated" in answer:
        answer["IsTruncated"] = False


def _failed_is_done(answer: Any) -> None:
    answer["Successful"] = [*answer.get("Successful", ()), *answer.pop("Failed", ())]


def _sent_is_accepted(real: Any) -> Any:
    def publish(topic: Any, notices: Any) -> frozenset[str]:
        with suppress(TidegateError):
            real(topic, notices)
        return frozenset(notice.id for notice in notices)

    return publish


BUGS = (
    Bug(
        "sent is accepted",
        "Every notice sent to the topic counts as accepted, whatever the answer.",
        (replaced("tidegate.aws.topic:SnsTopic.publish", _sent_is_accepted),),
        strikes=(Strike("intake sns.PublishBatch", Kind.THROTTLE),),
    ),
    Bug(
        "unprocessed keys ignored",
        "Keys that DynamoDB leaves unprocessed count as absent.",
        (_answer("dynamodb", "BatchGetItem", lambda answer: answer.update(UnprocessedKeys={})),),
        "one_at_a_time",
    ),
    Bug(
        "only the first page of a listing",
        "Only the first page of a folder's listing is read.",
        (_answer("s3", "ListObjectsV2", _one_page),),
        "one_at_a_time",
    ),
    Bug(
        "only the first page of a query",
        "Only the first page of the ledger's routes is read.",
        (_answer("dynamodb", "Query", _one_page),),
        "one_at_a_time",
    ),
    Bug(
        "failed entries are accepted",
        "A notice that the topic refused counts as accepted if the topic accepted others of the batch.",
        (_answer("sns", "PublishBatch", _failed_is_done),),
        "refused_beside",
    ),
)

HARMLESS = (
    Bug(
        "a stale read of a notice",
        "It claims again, and is refused.",
        (_eventually("GetItem", "n#"),),
        "replicas_behind",
    ),
    Bug(
        "a stale read of a batch",
        "Its job starts one run of settling later.",
        (_eventually("GetItem", "b#"),),
        "replicas_behind",
    ),
    Bug(
        "a stale read of a route",
        "A notice may be given back for it.",
        (_eventually("GetItem", "r#"),),
        "replicas_behind",
    ),
    Bug(
        "a stale read of registrations",
        "The next run of settling adds them up again.",
        (_eventually("BatchGetItem"),),
        "replicas_behind",
    ),
    Bug(
        "a stale read of the routes",
        "One more write changes nothing.",
        (_eventually("Query"),),
        "replicas_behind",
    ),
)

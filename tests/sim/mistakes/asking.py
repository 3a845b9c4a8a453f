"""Mistakes in how AWS is asked, and in what is made of an answer: stale reads, and answers that are not all of it."""

from collections.abc import Callable
from typing import Any

from tests.sim.faults import Kind
from tests.sim.planting import Bug, Call, Planting, Strike, answered, replaced, rewired


def _eventually(operation: str, pk: str = "") -> Planting:
    """Reads of items whose key begins so may be of a moment ago."""

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
        real(topic, notices)
        return frozenset(notice.id for notice in notices)

    return publish


BUGS = (
    Bug(
        "sent is accepted",
        "Every notice that was sent to the topic is taken for accepted, whatever the topic said.",
        (replaced("tidegate.aws.topic:SnsTopic.publish", _sent_is_accepted),),
        strikes=(Strike("intake sns.PublishBatch", Kind.THROTTLE),),
    ),
    Bug(
        "unprocessed keys ignored",
        "What DynamoDB leaves unread of many keys is taken for what is not there.",
        (_answer("dynamodb", "BatchGetItem", lambda answer: answer.update(UnprocessedKeys={})),),
        "one_at_a_time",
    ),
    Bug(
        "only the first page of a listing",
        "Of the files in a folder only the first thousand are seen.",
        (_answer("s3", "ListObjectsV2", _one_page),),
        "one_at_a_time",
    ),
    Bug(
        "only the first page of a query",
        "Of the routes in the ledger only the first megabyte is seen.",
        (_answer("dynamodb", "Query", _one_page),),
        "one_at_a_time",
    ),
    Bug(
        "failed entries are accepted",
        "A notice that the topic refused, of a batch that it took, counts as accepted.",
        (_answer("sns", "PublishBatch", _failed_is_done),),
        "refused_beside",
    ),
)

HARMLESS = (
    Bug(
        "a notice as it was a moment ago",
        "Whether a notice is decided is read without asking for a consistent answer: it claims again, and is refused.",
        (_eventually("GetItem", "n#"),),
        "replicas_behind",
    ),
    Bug(
        "a batch as it was a moment ago",
        "A batch's header is read without asking for a consistent answer: its job starts a look later.",
        (_eventually("GetItem", "b#"),),
        "replicas_behind",
    ),
    Bug(
        "a route as it was a moment ago",
        "Which batches a route has is read without asking for a consistent answer: a notice may be given back for it.",
        (_eventually("GetItem", "r#"),),
        "replicas_behind",
    ),
    Bug(
        "registrations as they were a moment ago",
        "What is registered is read without asking for a consistent answer: the next look adds up again.",
        (_eventually("BatchGetItem"),),
        "replicas_behind",
    ),
    Bug(
        "routes as they were a moment ago",
        "Which routes there are is read without asking for a consistent answer: one more write that changes nothing.",
        (_eventually("Query"),),
        "replicas_behind",
    ),
)

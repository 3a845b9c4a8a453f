"""Mistakes in what S3 said, and what becomes of it: notifications, notices, the topic and the queues."""

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_plus

from tests.sim.faults import Kind
from tests.sim.planting import Bug, Planting, Strike, replaced, rewired
from tidegate.core.notices import decode
from tidegate.core.notifications import Notified

PARSE = "tidegate.core.notifications:parse"
DISPATCH = "lambdas.dispatch.app:handler"


def _encoded(change: Callable[[str], str]) -> Planting:
    """What S3 wrote for a key is changed before it is read."""

    def make(real: Any) -> Any:
        def parse(body: str) -> Any:
            message = json.loads(body)
            for record in message.get("Records", ()):
                record["s3"]["object"]["key"] = change(record["s3"]["object"]["key"])
            return real(json.dumps(message))

        return parse

    return replaced(PARSE, make)


def _decoded(real: Any) -> Any:
    def parse(body: str) -> Any:
        return [
            Notified(replace(each.upload, key=unquote_plus(each.upload.key))) if isinstance(each, Notified) else each
            for each in real(body)
        ]

    return parse


def _nothing_of_sequencers(real: Any) -> Any:
    def make_notice(route: str, bucket: str, origin: str, entries: Any, **options: Any) -> Any:
        entries = list(entries)
        # what wire version 1 did
        return replace(
            real(route, bucket, origin, entries, **options), id=real(route, bucket, origin, entries, wire=1).id
        )

    return make_notice


def _all_is_well(real: Any) -> Any:
    def intake(*arguments: Any, **named: Any) -> frozenset[str]:
        real(*arguments, **named)
        return frozenset()

    return intake


def _swallowed(real: Any) -> Any:
    def dispatch(body: str, **ports: Any) -> Any:
        try:
            return real(body, **ports)
        except Exception:
            return ports["routes"][decode(body).route]

    return dispatch


def _deduplicated_by_notice(parameters: dict[str, Any]) -> dict[str, Any]:
    for entry in parameters["PublishBatchRequestEntries"]:
        entry["MessageDeduplicationId"] = json.loads(entry["Message"])["id"]
    return parameters


def _first_failure(real: Any) -> Any:
    def handler(event: Any, context: Any) -> Any:
        return {"batchItemFailures": real(event, context)["batchItemFailures"][:1]}

    return handler


def _one_by_one(real: Any) -> Any:
    def handler(event: Any, context: Any) -> Any:
        answers = [real({"Records": [record]}, context) for record in event["Records"]]
        return {"batchItemFailures": [each for answer in answers for each in answer["batchItemFailures"]]}

    return handler


def _without_sequencer(real: Any) -> Any:
    def parse(body: str) -> Any:
        return [
            Notified(replace(each.upload, sequencer="")) if isinstance(each, Notified) else each for each in real(body)
        ]

    return parse


BUGS = (
    Bug(
        "plus stays plus",
        "The key is decoded with `unquote`, which leaves `+` alone, instead of `unquote_plus`.",
        (_encoded(lambda key: key.replace("+", "%2B")),),
    ),
    Bug(
        "decoded twice",
        "The key is decoded once more than S3 has encoded it.",
        (_encoded(unquote_plus),),
    ),
    Bug(
        "EventBridge's key decoded",
        "EventBridge's key is decoded like that of an S3 event, though it is not encoded.",
        (replaced(PARSE, _decoded),),
        "eventbridge",
    ),
    Bug(
        "a new notice each delivery",
        "A notice is given a new random id whenever it is read from the queue.",
        (replaced("tidegate.core.notices:decode", lambda real: lambda body: replace(real(body), id=uuid.uuid4().hex)),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER),),
    ),
    Bug(
        "the same bytes, the same notice",
        "The sequencer is no part of a notice's id: the same bytes uploaded again look like the old notice come twice.",
        (replaced("tidegate.core.notices:make_notice", _nothing_of_sequencers),),
        "again_alone",
    ),
    Bug(
        "intake acknowledges whatever happened",
        "Intake says that all is well, also if the topic did not take the notices.",
        (replaced("tidegate.flows.intake:intake", _all_is_well),),
        strikes=(Strike("intake sns.PublishBatch", Kind.THROTTLE),),
    ),
    Bug(
        "one deduplication id per notice",
        "The topic's deduplication id is the notice's, so what a later attempt publishes is swallowed.",
        (rewired("sns", "PublishBatch", _deduplicated_by_notice),),
        "stuck_behind_the_topic",
    ),
    Bug(
        "dispatch swallows errors",
        "Any error in dispatch is logged, and the message acknowledged.",
        (replaced("tidegate.flows.dispatch:dispatch", _swallowed),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.THROTTLE),),
    ),
    Bug(
        "only the first failure given back",
        "Of a group only the message that failed is given back; those behind it, not yet handled, are acknowledged.",
        (replaced(DISPATCH, _first_failure),),
        "outcomes",
        (Strike("platform dispatch receive", Kind.DROP), Strike("dispatch dynamodb.GetItem n", Kind.THROTTLE)),
    ),
    Bug(
        "the sequencer is not read",
        "What S3 says of the order of a key's uploads is left out.",
        (replaced(PARSE, _without_sequencer),),
        "again_alone",
    ),
)

HARMLESS = (
    Bug(
        "no order within a route",
        "A message that failed is given back alone, and those behind it go first.",
        (replaced(DISPATCH, _one_by_one),),
    ),
)

"""Mistakes with notifications, notices, the topic and the queues."""

import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import unquote_plus

from simulation.checker.planting import Bug, Planting, Strike, replaced, rewired
from simulation.world.faults import Kind
from tidegate.core.notices import decode
from tidegate.core.notifications import Notified

PARSE = "tidegate.core.notifications:parse"
DISPATCH = "lambdas.dispatch.app:handler"


def _encoded(change: Callable[[str], str]) -> Planting:
    """Changes a notification's key before it is parsed."""

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
        bare = [replace(each, upload=replace(each.upload, sequencer="")) for each in entries]
        return replace(real(route, bucket, origin, entries, **options), id=real(route, bucket, origin, bare).id)

    return make_notice


def _all_is_well(real: Any) -> Any:
    def intake(*arguments: Any, **named: Any) -> frozenset[str]:
        real(*arguments, **named)
        return frozenset()

    return intake


def _swallowed(real: Any) -> Any:
    def dispatch(body: str, ports: Any, **routes: Any) -> Any:
        try:
            return real(body, ports, **routes)
        except Exception:
            return routes["routes"][decode(body).route]

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
        "The key is decoded with `unquote`, which leaves `+` alone.",
        (_encoded(lambda key: key.replace("+", "%2B")),),
    ),
    Bug(
        "decoded twice",
        "The key is decoded twice; S3 encodes it once.",
        (_encoded(unquote_plus),),
    ),
    Bug(
        "EventBridge's key decoded",
        "EventBridge's key is decoded like that of an S3 event. It is not encoded.",
        (replaced(PARSE, _decoded),),
        "eventbridge",
    ),
    Bug(
        "a new notice each delivery",
        "A notice gets a new random id each time it is read from the queue.",
        (replaced("tidegate.core.notices:decode", lambda real: lambda body: replace(real(body), id=uuid.uuid4().hex)),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER),),
    ),
    Bug(
        "the same bytes, the same notice",
        "The sequencer is not part of a notice's id: the same bytes, uploaded again, look like a second delivery of"
        " the old notice.",
        (replaced("tidegate.core.notices:make_notice", _nothing_of_sequencers),),
        "returning",
    ),
    Bug(
        "intake acknowledges everything",
        "Intake reports success even if the topic did not accept the notices.",
        (replaced("tidegate.flows.intake:intake", _all_is_well),),
        strikes=(Strike("intake sns.PublishBatch", Kind.THROTTLE),),
    ),
    Bug(
        "one deduplication id per notice",
        "The topic's deduplication id is the notice's id, so the topic drops what a later attempt publishes.",
        (rewired("sns", "PublishBatch", _deduplicated_by_notice),),
        "stuck_behind_the_topic",
    ),
    Bug(
        "dispatch swallows errors",
        "Dispatch logs any error and acknowledges the message.",
        (replaced("tidegate.flows.dispatch:dispatch", _swallowed),),
        strikes=(Strike("dispatch dynamodb.PutItem o", Kind.THROTTLE),),
    ),
    Bug(
        "only the first failure given back",
        "Only the failed message of a group is given back. Those behind it, not yet handled, are acknowledged.",
        (replaced(DISPATCH, _first_failure),),
        "outcomes",
        (Strike("platform dispatch receive", Kind.DROP), Strike("dispatch dynamodb.GetItem n", Kind.THROTTLE)),
    ),
    Bug(
        "the sequencer is not read",
        "The sequencer, S3's order of a key's uploads, is ignored.",
        (replaced(PARSE, _without_sequencer),),
        "returning",
    ),
)

HARMLESS = (
    Bug(
        "no order within a route",
        "Messages behind a failed one go first.",
        (replaced(DISPATCH, _one_by_one),),
    ),
)

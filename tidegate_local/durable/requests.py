"""What a request to an emulated service is about: what it reads, what it changes, what it defines.

A request that is not listed here might change what nobody keeps. So it is refused.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import parse_qs, unquote

SERVICES = ("s3", "sqs", "sns", "dynamodb")


class Effect(Enum):
    READS = "reads"
    WRITES = "writes"
    """It changes objects, messages or items."""
    WAITS = "waits"
    """It changes messages, and may wait for them."""
    MAKES = "makes"
    """It makes a bucket, a queue, a topic, a subscription or a table, unless it is there."""
    SETS = "sets"
    """It sets something of one of these."""
    ENDS = "ends"
    """It ends one of these, or takes a setting away."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """A request. `resource` is what is defined: a bucket, a queue, a topic or a table; `part` is a part of it that
    comes and goes by itself. `label` tells apart what is set of it."""

    service: str
    operation: str
    effect: Effect
    resource: str = ""
    part: str = ""
    label: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    """Of an object whose description the request changes."""


_NAMES: dict[str, dict[Effect, str]] = {
    "sqs": {
        Effect.READS: "GetQueueUrl GetQueueAttributes ListQueues ListQueueTags ListDeadLetterSourceQueues",
        Effect.WRITES: "SendMessage SendMessageBatch DeleteMessage DeleteMessageBatch ChangeMessageVisibility"
        " ChangeMessageVisibilityBatch PurgeQueue",
        Effect.WAITS: "ReceiveMessage",
        Effect.MAKES: "CreateQueue",
        Effect.SETS: "SetQueueAttributes TagQueue UntagQueue",
        Effect.ENDS: "DeleteQueue",
    },
    "sns": {
        Effect.READS: "GetTopicAttributes GetSubscriptionAttributes ListSubscriptions ListSubscriptionsByTopic"
        " ListTagsForResource ListTopics",
        Effect.WRITES: "Publish PublishBatch",
        Effect.MAKES: "CreateTopic Subscribe",
        Effect.SETS: "SetTopicAttributes SetSubscriptionAttributes TagResource UntagResource",
        Effect.ENDS: "DeleteTopic Unsubscribe",
    },
    "dynamodb": {
        Effect.READS: "BatchGetItem DescribeContinuousBackups DescribeEndpoints DescribeTable DescribeTimeToLive"
        " GetItem ListTables ListTagsOfResource Query Scan TransactGetItems",
        Effect.WRITES: "BatchExecuteStatement BatchWriteItem DeleteItem PutItem TransactWriteItems UpdateItem",
        Effect.MAKES: "CreateTable",
        Effect.SETS: "TagResource UntagResource UpdateContinuousBackups UpdateTable UpdateTimeToLive",
        Effect.ENDS: "DeleteTable",
    },
}
_EFFECTS = {
    service: {name: effect for effect, names in effects.items() for name in names.split()}
    for service, effects in _NAMES.items()
}

_OF_A_BUCKET = frozenset(
    (
        *("accelerate", "acl", "cors", "encryption", "inventory", "lifecycle", "logging", "notification"),
        *("object-lock", "ownershipControls", "policy", "publicAccessBlock", "replication", "requestPayment"),
        *("tagging", "versioning", "website"),
    )
)
"""What can be set of a bucket."""


def asked(environ: Mapping[str, Any], service: str, body: bytes) -> AskedRequest:
    """What this request to one of the services is about; `environ` as WSGI has it."""
    if service == "s3":
        return _s3(environ)
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if target:
        operation = target.rpartition(".")[2]
        try:
            said = json.loads(body or b"{}")
        except ValueError:
            said = {}
        values = said if isinstance(said, dict) else {}
    else:
        form = parse_qs(body.decode("utf-8", "replace")) or parse_qs(str(environ.get("QUERY_STRING", "")))
        values = {name: given[-1] for name, given in form.items()}
        operation = str(values.get("Action", ""))
    effect = _EFFECTS[service].get(operation, Effect.UNKNOWN)
    return _defining(AskedRequest(service, operation, effect, body=values))


def subscription_arn(topic: str, protocol: str, endpoint: str) -> str:
    """The same each time, so that what was said of a subscription still names it after a start."""
    return f"{topic}:{uuid.uuid5(uuid.NAMESPACE_URL, f'{topic} {protocol} {endpoint}')}"


def _defining(request: AskedRequest) -> AskedRequest:
    """With what it defines, if it does."""
    if request.effect not in (Effect.MAKES, Effect.SETS, Effect.ENDS):
        return request
    values, part = request.body, ""
    match request.service:
        case "sqs":
            resource = values.get("QueueName") or str(values.get("QueueUrl", "")).rpartition("/")[2]
        case "dynamodb":
            resource = values.get("TableName") or str(values.get("ResourceArn", "")).rpartition("/")[2]
        case _:
            part = str(values.get("SubscriptionArn", ""))
            resource = values.get("TopicArn") or values.get("ResourceArn") or values.get("Name")
            if request.operation == "Subscribe":
                part = subscription_arn(str(resource), values.get("Protocol", ""), values.get("Endpoint", ""))
            elif request.operation == "CreateTopic":
                resource = f":{resource}"
            resource = str(part.rpartition(":")[0] or resource).rpartition(":")[2]
    # a later request replaces an earlier one that set the same, and leaves the others
    detail = "" if request.effect is Effect.MAKES else _subject(values)
    label = f"{request.operation} {detail}".strip()
    return AskedRequest(request.service, request.operation, request.effect, str(resource), part, label, values)


def _subject(values: Mapping[str, Any]) -> str:
    """Which settings a request sets: the names in it, without their values."""
    names: list[str] = []
    for name, value in sorted(values.items()):
        if isinstance(value, list):
            # of a list the members tell what is set: tags, indexes
            names.append(f"{name}={json.dumps(value, sort_keys=True, default=str)}")
            continue
        inner = value if isinstance(value, dict) else {}
        names += [f"{name}.{each}" for each in sorted(inner)] or [name]
        if name in ("AttributeName", "TagKeys") or re.fullmatch(r"(Tags|TagKeys)\.member\.\d+(\.Key)?", name):
            names.append(str(value))
    return " ".join(names)


def _s3(environ: Mapping[str, Any]) -> AskedRequest:
    method = str(environ.get("REQUEST_METHOD", ""))
    path = unquote(str(environ.get("REQUEST_URI") or environ.get("PATH_INFO", "")).partition("?")[0])
    bucket, _, key = path.lstrip("/").partition("/")
    query = parse_qs(str(environ.get("QUERY_STRING", "")), keep_blank_values=True)
    about = {name for name in query if name not in _ASIDE and not name.lower().startswith("x-amz-")}
    operation = f"{method} {'?' + '&'.join(sorted(about)) if about else 'object' if key else 'bucket'}"
    if method in ("GET", "HEAD", "OPTIONS") or "select" in about:
        return AskedRequest("s3", operation, Effect.READS)
    if key:
        if about <= _WRITING and method in ("PUT", "POST", "DELETE"):
            return AskedRequest("s3", operation, Effect.WRITES)
        if about == {"tagging"}:
            return AskedRequest("s3", operation, Effect.WRITES, bucket, key=key)
        return AskedRequest("s3", operation, Effect.UNKNOWN)
    if method == "POST" and about <= {"delete"}:
        return AskedRequest("s3", operation, Effect.WRITES)  # several objects, or one from a form
    if not about:
        effect = {"PUT": Effect.MAKES, "DELETE": Effect.ENDS}.get(method, Effect.UNKNOWN)
        return AskedRequest("s3", operation, effect, bucket, label="bucket")
    part = "&".join([*sorted(about), *query.get("id", [])])
    effect = (
        {"PUT": Effect.SETS, "DELETE": Effect.ENDS}.get(method, Effect.UNKNOWN)
        if about <= _OF_A_BUCKET
        else Effect.UNKNOWN
    )
    return AskedRequest("s3", operation, effect, bucket, part, "set")


_WRITING = frozenset({"partNumber", "uploadId", "uploads"})
"""What a request that writes an object may be about."""
_ASIDE = frozenset({"x-id", "id", "versionId", "AWSAccessKeyId", "Signature", "Expires"})
"""What says nothing of what a request changes: which operation it is, of which one, who asks."""

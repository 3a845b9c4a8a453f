"""The SNS FIFO topic that carries notices, and the dead-letter queues."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from tidegate.aws.errors import asking
from tidegate.core.errors import TidegateError
from tidegate.core.notices import Notice

# https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html: 10 messages, 256 KiB together
MAX_MESSAGES = 10
MAX_BATCH_BYTES = 262_144
MAX_ATTRIBUTE_CHARACTERS = 1_000


class SnsTopic:
    """`flows.ports.Topic` on an SNS FIFO topic, group = route.

    `attempt` is new for every invocation and part of each deduplication id: what a retry publishes must not be
    swallowed because an earlier attempt under the same id got stuck behind the topic. A repeat costs a read.
    """

    def __init__(self, client: Any, arn: str, attempt: str) -> None:
        self._client = client
        self._arn = arn
        self._attempt = attempt

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        accepted: set[str] = set()
        for group in _batches(notices):
            try:
                accepted |= self._publish(group)
            except TidegateError:
                continue  # what is not among the accepted is given back by the caller
        return frozenset(accepted)

    def _publish(self, group: Sequence[tuple[Notice, str]]) -> set[str]:
        entries = [
            {
                "Id": str(position),
                "Message": body,
                "MessageGroupId": notice.route,
                "MessageDeduplicationId": f"{notice.id}-{self._attempt}"[:128],
            }
            for position, (notice, body) in enumerate(group)
        ]
        with asking(f"publish {len(entries)} notices to {self._arn}"):
            answer = self._client.publish_batch(TopicArn=self._arn, PublishBatchRequestEntries=entries)
        return {group[int(done["Id"])][0].id for done in answer.get("Successful", ())}


def _batches(notices: Sequence[Notice]) -> Iterator[list[tuple[Notice, str]]]:
    batch: list[tuple[Notice, str]] = []
    size = 0
    for notice in notices:
        body = notice.encode()
        if batch and (len(batch) == MAX_MESSAGES or size + len(body) > MAX_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((notice, body))
        size += len(body)
    if batch:
        yield batch


class SqsDeadLetters:
    """`flows.ports.DeadLetters` on a queue, standard or FIFO; the reason travels as an attribute.

    Setting aside comes before acknowledging: a crash between the two leaves the message here twice, never nowhere.
    """

    def __init__(self, client: Any, url: str) -> None:
        self._client = client
        self._url = url

    def set_aside(self, body: str, reason: str) -> None:
        attributes = {
            "reason": {"DataType": "String", "StringValue": _printable(reason)[:MAX_ATTRIBUTE_CHARACTERS] or "unknown"}
        }
        fifo: dict[str, str] = {}
        if self._url.endswith(".fifo"):
            # a new id each time: set aside again within five minutes, the same id would make it vanish
            fifo = {"MessageGroupId": "set-aside", "MessageDeduplicationId": uuid.uuid4().hex}
        with asking(f"set a message aside in {self._url}"):
            self._client.send_message(
                QueueUrl=self._url, MessageBody=_sendable(body) or "(empty)", MessageAttributes=attributes, **fifo
            )


def _sendable(text: str) -> str:
    """Half a surrogate pair cannot be sent: it is escaped, as JSON writes it."""
    return text.encode("utf-8", "backslashreplace").decode()


def _printable(text: str) -> str:
    """SQS takes XML's characters only; anything else would have the message refused."""
    return "".join(character if character.isprintable() else "?" for character in text)

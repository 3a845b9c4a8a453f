"""The SNS FIFO topic that carries notices, and the dead-letter queues."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from tidegate.aws.errors import asking
from tidegate.core.errors import TidegateError
from tidegate.core.lanes import group_of
from tidegate.core.notices import Notice

if TYPE_CHECKING:
    from types_boto3_sns import SNSClient
    from types_boto3_sns.type_defs import PublishBatchRequestEntryTypeDef
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.type_defs import MessageAttributeValueTypeDef

# https://docs.aws.amazon.com/sns/latest/api/API_PublishBatch.html: 10 messages, 256 KiB together
MAX_MESSAGES = 10
MAX_BATCH_BYTES = 262_144
MAX_ATTRIBUTE_CHARACTERS = 1_000


class SnsTopic:
    """`flows.ports.Topic` on an SNS FIFO topic, a message group for each lane of a route.

    `attempt` is new for every invocation and part of each deduplication id. Otherwise a retry's notice would be dropped
    as a duplicate even if the earlier one got stuck behind the topic. A repeated notice costs one read. `lanes` has the
    lanes of the routes that have several.
    """

    def __init__(self, client: "SNSClient", arn: str, attempt: str, lanes: Mapping[str, int] | None = None) -> None:
        self._client = client
        self._arn = arn
        self._attempt = attempt
        self._lanes = lanes or {}

    def publish(self, notices: Sequence[Notice]) -> frozenset[str]:
        assert self._attempt, "to publish needs an attempt"
        accepted: set[str] = set()
        trouble: TidegateError | None = None
        for group in _batches(notices):
            try:
                accepted |= self._publish(group)
            except TidegateError as error:
                trouble = error  # the caller gives back what was not accepted
        if trouble and not accepted:
            raise trouble  # nothing else says why
        return frozenset(accepted)

    def _publish(self, group: Sequence[tuple[Notice, str]]) -> set[str]:
        entries: list[PublishBatchRequestEntryTypeDef] = [
            {
                "Id": str(position),
                "Message": body,
                "MessageGroupId": group_of(notice, self._lanes.get(notice.route, 1)),
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


class _Place(TypedDict, total=False):
    """The group and deduplication id of a message in a FIFO queue; empty for a standard queue."""

    MessageGroupId: str
    MessageDeduplicationId: str


def send(client: "SQSClient", url: str, body: str, texts: Mapping[str, str], *, group: str) -> None:
    """Send a message to a queue, with these attributes. `group` is used if it is a FIFO queue."""
    attributes: dict[str, MessageAttributeValueTypeDef] = {
        name: {"DataType": "String", "StringValue": text} for name, text in texts.items()
    }
    fifo: _Place = {}
    if url.endswith(".fifo"):
        # a new id each time: SQS would drop a message of the same id within five minutes
        fifo = {"MessageGroupId": group, "MessageDeduplicationId": uuid.uuid4().hex}
    client.send_message(QueueUrl=url, MessageBody=body, MessageAttributes=attributes, **fifo)


class SqsDeadLetters:
    """`flows.ports.DeadLetters` on a queue, standard or FIFO; the reason travels as an attribute.

    A message is set aside before it is acknowledged: after a crash between the two it may be here twice, but it is
    never lost.
    """

    def __init__(self, client: "SQSClient", url: str) -> None:
        self._client = client
        self._url = url

    def set_aside(self, body: str, reason: str) -> None:
        texts = {"reason": _printable(reason)[:MAX_ATTRIBUTE_CHARACTERS] or "unknown"}
        with asking(f"set a message aside in {self._url}"):
            send(self._client, self._url, _sendable(body) or "(empty)", texts, group="set-aside")


def _sendable(text: str) -> str:
    """Half a surrogate pair cannot be sent: it is escaped as in JSON."""
    return text.encode("utf-8", "backslashreplace").decode()


def _printable(text: str) -> str:
    """SQS accepts only XML's characters, and refuses a message with any other."""
    return "".join(character if character.isprintable() else "?" for character in text)

"""A dead-letter queue on SQS, and the queue that its letters came from."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tidegate.aws.errors import asking
from tidegate.aws.topic import send
from tidegate.flows.letters import Letter

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.literals import QueueAttributeNameType
    from types_boto3_sqs.type_defs import (
        MessageAttributeValueOutputTypeDef,
        MessageTypeDef,
    )

HIDDEN = 15 * 60
"""Seconds for which a letter that was received is hidden from others."""
PATIENCE = 2
"""Seconds. A receive that waits asks all of SQS's servers; one that does not may miss letters
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-short-and-long-polling.html)."""
COUNTED: tuple["QueueAttributeNameType", ...] = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
)
REASON, JUDGED = "reason", "judged"


class SqsLetters:
    """`flows.letters.LetterBox`. `letters` and `queue` are URLs, both of FIFO queues or both of standard ones."""

    def __init__(self, client: "SQSClient", letters: str, queue: str) -> None:
        self._client = client
        self._letters = letters
        self._queue = queue
        self._fifo = letters.endswith(".fifo")

    def receive(self) -> Sequence[Letter]:
        with asking(f"receive from {self._letters}"):
            answer = self._client.receive_message(
                QueueUrl=self._letters,
                MaxNumberOfMessages=10,
                VisibilityTimeout=HIDDEN,
                WaitTimeSeconds=PATIENCE,
                MessageAttributeNames=[REASON, JUDGED],
            )
        return [_letter(message) for message in answer.get("Messages", ())]

    def count(self) -> int:
        """SQS's numbers are approximate
        (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_GetQueueAttributes.html)."""
        with asking(f"count the letters in {self._letters}"):
            answer = self._client.get_queue_attributes(QueueUrl=self._letters, AttributeNames=[*COUNTED])
        return sum(int(answer["Attributes"][name]) for name in COUNTED)

    def move_back(self, letter: Letter, group: str) -> None:
        self._send(self._queue, letter, group)
        self._delete(letter)

    def leave(self, letter: Letter, run: str) -> bool:
        if not self._fifo:
            return True  # it hides no other
        self._send(self._letters, letter, "judged", {JUDGED: run, **({REASON: letter.reason} if letter.reason else {})})
        self._delete(letter)
        return False

    def show(self, letter: Letter) -> None:
        with asking(f"show a dead letter of {self._letters} again"):
            self._client.change_message_visibility(
                QueueUrl=self._letters, ReceiptHandle=letter.handle, VisibilityTimeout=0
            )

    def _send(self, url: str, letter: Letter, group: str, texts: Mapping[str, str] | None = None) -> None:
        with asking(f"send a dead letter to {url}"):
            send(self._client, url, letter.body, texts or {}, group=group)

    def _delete(self, letter: Letter) -> None:
        with asking(f"delete a dead letter from {self._letters}"):
            self._client.delete_message(QueueUrl=self._letters, ReceiptHandle=letter.handle)


def _letter(message: "MessageTypeDef") -> Letter:
    attributes: Mapping[str, MessageAttributeValueOutputTypeDef] = message.get("MessageAttributes", {})
    texts = {name: each.get("StringValue", "") for name, each in attributes.items()}
    return Letter(
        id=message["MessageId"],
        handle=message["ReceiptHandle"],
        body=message["Body"],
        reason=texts.get(REASON, ""),
        judged_in=texts.get(JUDGED, ""),
    )

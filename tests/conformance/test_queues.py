"""The simulated queues and topic do as SQS and SNS do, in time that is moved by hand. The same body runs on moto."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from simulation.world.differences import MOTO, SIMULATED
from simulation.world.sns import Sns
from simulation.world.sqs import Queue, Sqs
from tests.conformance.backends import Clock, code_of, expect_differences, moto, simulated, stopped_clock

VISIBILITY = 30
RECEIVES = 3
RETENTION = 3_600
ARN = "arn:aws:sqs:us-east-1:123456789012:"
GROUPS = ("g", "h")


@dataclass(frozen=True)
class Received:
    """`handle` is what the message is deleted with."""

    body: str
    group: str
    receives: int
    handle: Any


class QueueHere(Protocol):
    """A queue with dead letters behind it."""

    def send(self, body: str, group: str = "g", deduplication: str = "") -> None: ...

    def receive(self, most: int = 10) -> list[Received]: ...

    def delete(self, received: Received) -> None: ...

    def dead(self) -> list[str]:
        """The dead letters' bodies. Asked once: it takes them."""
        ...


class SimulatedQueue:
    def __init__(self, client: Any, queue: Queue) -> None:
        self._client = client
        self._queue = queue

    def send(self, body: str, group: str = "g", deduplication: str = "") -> None:
        self._client.send_message(
            QueueUrl=f"{URL}/{self._queue.name}", **_message(self._queue, body, group, deduplication)
        )

    def receive(self, most: int = 10) -> list[Received]:
        return [
            Received(message.body, message.group, message.receives, (message.id, message.receipt))
            for message in self._queue.receive(most)
        ]

    def delete(self, received: Received) -> None:
        self._queue.delete(*received.handle)

    def dead(self) -> list[str]:
        assert self._queue.dead_letters is not None
        return [message.body for message in self._queue.dead_letters.receive(10)]


URL = "https://sqs.us-east-1.amazonaws.com/123456789012"


def _message(queue: Queue, body: str, group: str, deduplication: str) -> dict[str, str]:
    fifo = {"MessageGroupId": group, "MessageDeduplicationId": deduplication or f"once-{body}"}
    return {"MessageBody": body, **(fifo if queue.fifo else {})}


class MotoQueue:
    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        fifo = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        self._dead = client.create_queue(QueueName=f"dead-{name}", Attributes=fifo)["QueueUrl"]
        attributes = {
            "VisibilityTimeout": str(VISIBILITY),
            "MessageRetentionPeriod": str(RETENTION),
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": f"{ARN}dead-{name}", "maxReceiveCount": RECEIVES}),
        }
        self.url = client.create_queue(QueueName=name, Attributes=fifo | attributes)["QueueUrl"]
        self._fifo = bool(fifo)

    def send(self, body: str, group: str = "g", deduplication: str = "") -> None:
        fifo = {"MessageGroupId": group, "MessageDeduplicationId": deduplication or f"once-{body}"}
        self._client.send_message(QueueUrl=self.url, MessageBody=body, **(fifo if self._fifo else {}))

    def receive(self, most: int = 10) -> list[Received]:
        answer = self._client.receive_message(
            QueueUrl=self.url, MaxNumberOfMessages=most, MessageSystemAttributeNames=["All"], WaitTimeSeconds=0
        )
        return [
            Received(
                message["Body"],
                message["Attributes"].get("MessageGroupId", ""),
                int(message["Attributes"]["ApproximateReceiveCount"]),
                message["ReceiptHandle"],
            )
            for message in answer.get("Messages", ())
        ]

    def delete(self, received: Received) -> None:
        self._client.delete_message(QueueUrl=self.url, ReceiptHandle=received.handle)

    def dead(self) -> list[str]:
        answer = self._client.receive_message(QueueUrl=self._dead, MaxNumberOfMessages=10)
        return [message["Body"] for message in answer.get("Messages", ())]


@dataclass(frozen=True)
class Here:
    """Queues, and the clock that they go by."""

    clock: Clock
    make: Callable[[str], QueueHere]

    def standard(self) -> QueueHere:
        return self.make("queue")

    def fifo(self) -> QueueHere:
        return self.make("queue.fifo")


def _simulated_queue(clock: Clock, sqs: Sqs, name: str) -> Queue:
    dead = sqs.add(Queue(clock.kernel, f"dead-{name}"))
    return sqs.add(
        Queue(
            clock.kernel,
            name,
            visibility=VISIBILITY,
            receives=RECEIVES,
            dead_letters=dead,
            retention=RETENTION,
        )
    )


@contextmanager
def opened(backend: str) -> Iterator[Here]:
    with stopped_clock() as clock:
        if backend == SIMULATED:
            sqs = Sqs(clock.kernel)
            with simulated("sqs", sqs.answer) as client:
                yield Here(clock, lambda name: SimulatedQueue(client, _simulated_queue(clock, sqs, name)))
            return
        with moto("sqs") as client:
            yield Here(clock, lambda name: MotoQueue(client, name))


@pytest.fixture(params=[SIMULATED, MOTO])
def queues(request: pytest.FixtureRequest) -> Iterator[Here]:
    expect_differences(request, request.param)
    with opened(request.param) as here:
        yield here


def bodies(received: Sequence[Received]) -> list[str]:
    return [each.body for each in received]


# ---- every queue

kinds = pytest.mark.parametrize("name", ["queue", "queue.fifo"])


@kinds
def test_what_was_received_is_hidden_for_a_while_and_comes_again(queues: Here, name: str) -> None:
    queue = queues.make(name)
    queue.send("a")
    assert bodies(queue.receive()) == ["a"]
    queues.clock.advance(VISIBILITY - 1)
    assert queue.receive() == []
    queues.clock.advance(2)
    assert [(each.body, each.receives) for each in queue.receive()] == [("a", 2)]


@kinds
def test_what_was_deleted_is_gone(queues: Here, name: str) -> None:
    queue = queues.make(name)
    queue.send("a")
    (received,) = queue.receive()
    queue.delete(received)
    queue.delete(received)
    queues.clock.advance(VISIBILITY + 1)
    assert queue.receive() == []
    assert queue.dead() == []


@kinds
def test_what_was_received_too_often_is_a_dead_letter(queues: Here, name: str) -> None:
    queue = queues.make(name)
    queue.send("a")
    for receives in range(1, RECEIVES + 1):
        assert [each.receives for each in queue.receive()] == [receives]
        queues.clock.advance(VISIBILITY + 1)
    assert queue.dead() == []
    assert queue.receive() == []
    assert queue.dead() == ["a"]


@kinds
def test_what_is_too_old_is_lost(queues: Here, name: str) -> None:
    queue = queues.make(name)
    queue.send("old")
    queues.clock.advance(RETENTION + 1)
    queue.send("new")
    assert bodies(queue.receive()) == ["new"]
    assert queue.dead() == []


def test_a_receipt_is_good_after_the_message_came_again(queues: Here) -> None:
    """In a standard queue (https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessage.html)."""
    queue = queues.standard()
    queue.send("a")
    (first,) = queue.receive()
    queues.clock.advance(VISIBILITY + 1)
    assert queue.receive()
    queue.delete(first)
    queues.clock.advance(VISIBILITY + 1)
    assert queue.receive() == []


def test_a_standard_queue_takes_the_same_message_twice(queues: Here) -> None:
    queue = queues.standard()
    queue.send("a")
    queue.send("a")
    assert bodies(queue.receive()) == ["a", "a"]


# ---- FIFO queues: order


def test_a_groups_messages_come_in_order_and_as_one_batch(queues: Here) -> None:
    queue = queues.fifo()
    for body in "abc":
        queue.send(body)
    assert bodies(queue.receive(2)) == ["a", "b"]


def test_a_group_is_blocked_while_a_message_of_it_is_in_flight(queues: Here) -> None:
    queue = queues.fifo()
    for body in "abc":
        queue.send(body)
    first, second = queue.receive(2)
    assert queue.receive() == []
    queue.delete(first)
    assert queue.receive() == []
    queue.delete(second)
    assert bodies(queue.receive()) == ["c"]


def test_a_group_does_not_block_another(queues: Here) -> None:
    queue = queues.fifo()
    queue.send("a", "g")
    queue.send("b", "h")
    assert bodies(queue.receive(1)) == ["a"]
    queue.send("c", "g")
    assert bodies(queue.receive()) == ["b"]


def test_a_message_that_arrives_behind_one_in_flight_waits(queues: Here) -> None:
    queue = queues.fifo()
    queue.send("a")
    (first,) = queue.receive()
    queue.send("b")
    assert queue.receive() == []
    queue.delete(first)
    assert bodies(queue.receive()) == ["b"]


def test_a_batch_that_was_not_deleted_comes_again_whole_and_in_order(queues: Here) -> None:
    queue = queues.fifo()
    for body in "abc":
        queue.send(body)
    assert bodies(queue.receive()) == ["a", "b", "c"]
    queues.clock.advance(VISIBILITY + 1)
    assert bodies(queue.receive()) == ["a", "b", "c"]


def test_what_was_given_back_comes_before_what_waited_behind_it(queues: Here) -> None:
    queue = queues.fifo()
    for body in "abc":
        queue.send(body)
    first, _ = queue.receive(2)
    queue.delete(first)
    queues.clock.advance(VISIBILITY + 1)
    assert bodies(queue.receive()) == ["b", "c"]


def test_a_dead_letter_lets_its_group_go_on(queues: Here) -> None:
    queue = queues.fifo()
    queue.send("a")
    for _ in range(RECEIVES):
        queue.receive(1)
        queues.clock.advance(VISIBILITY + 1)
    queue.send("b")
    assert bodies(queue.receive()) == ["b"]
    assert queue.dead() == ["a"]


def test_an_expired_receipt_deletes_nothing_of_a_fifo_queue(queues: Here) -> None:
    queue = queues.fifo()
    queue.send("a")
    (first,) = queue.receive()
    queues.clock.advance(VISIBILITY + 1)
    assert queue.receive()
    try:
        queue.delete(first)
    except Exception as refused:  # AWS may say so or keep silent
        assert "receipt" in str(refused).lower()  # noqa: PT017
    queues.clock.advance(VISIBILITY + 1)
    assert bodies(queue.receive()) == ["a"]


# ---- FIFO queues: repeats


def test_a_repeat_within_five_minutes_is_dropped(queues: Here) -> None:
    queue = queues.fifo()
    queue.send("a", deduplication="x")
    queues.clock.advance(299)
    queue.send("b", deduplication="x")
    assert bodies(queue.receive()) == ["a"]


def test_a_repeat_after_five_minutes_is_taken(queues: Here) -> None:
    queue = queues.fifo()
    queue.send("a", deduplication="x")
    queues.clock.advance(301)
    queue.send("b", deduplication="x")
    assert bodies(queue.receive()) == ["a", "b"]


def test_a_repeat_does_not_begin_the_five_minutes_again(queues: Here) -> None:
    queue = queues.fifo()
    for seconds, body in ((0, "a"), (200, "b"), (200, "c")):
        queues.clock.advance(seconds)
        queue.send(body, deduplication="x")
    assert bodies(queue.receive()) == ["a", "c"]


def test_a_repeat_of_another_group_is_dropped(queues: Here) -> None:
    queue = queues.fifo()
    queue.send("a", "g", deduplication="x")
    queue.send("b", "h", deduplication="x")
    assert bodies(queue.receive()) == ["a"]


def test_a_repeat_of_what_was_received_and_deleted_is_dropped(queues: Here) -> None:
    """https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/using-messagededuplicationid-property.html:
    SQS "continues to keep track of the message deduplication ID even after the message is received and deleted"."""
    queue = queues.fifo()
    queue.send("a", deduplication="x")
    (received,) = queue.receive()
    queue.delete(received)
    queue.send("b", deduplication="x")
    assert queue.receive() == []


# ---- any sequence on a standard queue

WAITS = (7, 17, VISIBILITY + 1)
"""No sum of them is exactly the visibility timeout: who is faster at that moment is for nobody to say."""

OPERATIONS = st.lists(
    st.tuples(st.just("send"), st.integers(0, 9))
    | st.tuples(st.just("receive"), st.integers(1, 4))
    | st.tuples(st.just("delete"), st.integers(0, 9))
    | st.tuples(st.just("wait"), st.sampled_from(WAITS)),
    min_size=4,
    max_size=25,
)


def play(backend: str, operations: Sequence[tuple[str, int]]) -> list[Any]:
    """What a consumer sees. Which of its receipts it deletes goes by their number."""
    found: list[Any] = []
    receipts: list[Received] = []
    with opened(backend) as here:
        queue = here.standard()
        for verb, number in operations:
            if verb == "send":
                queue.send(str(number))
            elif verb == "receive":
                received = queue.receive(number)
                receipts += received
                found.append([(each.body, each.receives) for each in received])
            elif verb == "delete" and receipts:
                queue.delete(receipts[number % len(receipts)])
            elif verb == "wait":
                here.clock.advance(number)
        found.append(queue.dead())
    return found


@settings(phases=[Phase.explicit, Phase.generate])
@given(operations=OPERATIONS)
def test_any_sequence_gives_what_it_gives_on_moto(operations: list[tuple[str, int]]) -> None:
    assert play(SIMULATED, operations) == play(MOTO, operations)


# ---- a FIFO topic in front of a FIFO queue


@dataclass(frozen=True)
class TopicHere:
    client: Any
    arn: str
    queue: QueueHere
    clock: Clock

    def publish(self, *messages: tuple[str, str, str]) -> list[str]:
        """Publish (body, group, deduplication id) as one batch; the positions of those that were accepted."""
        entries = [
            {"Id": str(position), "Message": body, "MessageGroupId": group, "MessageDeduplicationId": deduplication}
            for position, (body, group, deduplication) in enumerate(messages)
        ]
        answer = self.client.publish_batch(TopicArn=self.arn, PublishBatchRequestEntries=entries)
        self.clock.advance(5)  # a delivery takes a moment
        assert not answer.get("Failed")
        return [done["Id"] for done in answer["Successful"]]


@pytest.fixture(params=[SIMULATED, MOTO])
def topic(request: pytest.FixtureRequest) -> Iterator[TopicHere]:
    expect_differences(request, request.param)
    with stopped_clock() as clock:
        if request.param == SIMULATED:
            sqs, sns = Sqs(clock.kernel), Sns(clock.kernel)
            queue = _simulated_queue(clock, sqs, "notices.fifo")
            sns.subscribers.append(queue)
            with simulated("sns", sns.answer) as client:
                yield TopicHere(client, "arn:aws:sns:us-east-1:123456789012:t.fifo", SimulatedQueue(None, queue), clock)
            return
        with moto("sqs") as in_sqs, moto("sns") as client:
            behind = MotoQueue(in_sqs, "notices.fifo")
            arn = client.create_topic(Name="t.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
            raw = {"RawMessageDelivery": "true"}
            client.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=f"{ARN}notices.fifo", Attributes=raw)
            yield TopicHere(client, arn, behind, clock)


def test_what_is_published_arrives_raw_with_its_group_and_in_order(topic: TopicHere) -> None:
    bodies_sent = ['{"n": 1}', "é & <日> 😀", "plain"]
    messages = [(body, "route", f"d{position}") for position, body in enumerate(bodies_sent)]
    assert topic.publish(*messages) == ["0", "1", "2"]
    received = topic.queue.receive()
    assert [(each.body, each.group) for each in received] == [(body, "route") for body in bodies_sent]


def test_a_repeat_is_accepted_and_not_delivered(topic: TopicHere) -> None:
    assert topic.publish(("a", "g", "x"), ("b", "g", "x")) == ["0", "1"]
    assert topic.publish(("c", "g", "x")) == ["0"]
    assert bodies(topic.queue.receive()) == ["a"]


def test_what_is_published_again_after_five_minutes_is_delivered(topic: TopicHere) -> None:
    topic.publish(("a", "g", "x"))
    topic.clock.advance(310)
    topic.publish(("b", "g", "x"))
    assert bodies(topic.queue.receive()) == ["a", "b"]


def test_a_repeat_of_what_was_consumed_is_not_delivered(topic: TopicHere) -> None:
    topic.publish(("a", "g", "x"))
    (received,) = topic.queue.receive()
    topic.queue.delete(received)
    topic.publish(("b", "g", "x"))
    assert topic.queue.receive() == []


def test_more_than_ten_at_once_are_refused(topic: TopicHere) -> None:
    with pytest.raises(topic.client.exceptions.TooManyEntriesInBatchRequestException):
        topic.publish(*((str(number), "g", str(number)) for number in range(11)))
    assert topic.queue.receive() == []


def test_too_many_bytes_at_once_are_refused(topic: TopicHere) -> None:
    both = ("a" * 200_000, "g", "1"), ("b" * 100_000, "g", "2")
    assert code_of(lambda: topic.publish(*both)) == "BatchRequestTooLong"
    assert topic.queue.receive() == []

"""The topic and the dead-letter queues, on moto's SNS and SQS."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto import mock_aws

from tests.support.build import BUCKET, notice, uploads
from tests.support.faults import ANSWERED, Raw
from tests.support.ledgers import moto_client
from tidegate.aws.topic import MAX_ATTRIBUTE_CHARACTERS, SnsTopic, SqsDeadLetters
from tidegate.core.errors import Retryable, TidegateError
from tidegate.core.lanes import group_of
from tidegate.core.notices import Notice, decode, pack
from tidegate.core.uploads import Upload


@dataclass
class Bus:
    """A FIFO topic whose messages arrive raw in a FIFO queue, and a dead-letter queue of each kind."""

    topic: str
    queue: str
    standard: str
    fifo: str

    def messages(self, url: str | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while (
            batch := moto_client("sqs")
            .receive_message(
                QueueUrl=url or self.queue,
                MaxNumberOfMessages=10,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            .get("Messages")
        ):
            for message in batch:
                moto_client("sqs").delete_message(QueueUrl=url or self.queue, ReceiptHandle=message["ReceiptHandle"])
            found += batch
        return found

    def publish(self, notices: list[Notice], attempt: str = "attempt-1", **lanes: int) -> frozenset[str]:
        return SnsTopic(moto_client("sns"), self.topic, attempt, lanes).publish(notices)


@pytest.fixture
def bus() -> Iterator[Bus]:
    with mock_aws():
        sqs, sns = moto_client("sqs"), moto_client("sns")
        fifo = {"FifoQueue": "true"}
        queue = sqs.create_queue(QueueName="notices.fifo", Attributes=fifo)["QueueUrl"]
        topic = sns.create_topic(Name="notices.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
        sns.subscribe(
            TopicArn=topic,
            Protocol="sqs",
            Endpoint="arn:aws:sqs:us-east-1:123456789012:notices.fifo",
            Attributes={"RawMessageDelivery": "true"},
        )
        yield Bus(
            topic=topic,
            queue=queue,
            standard=sqs.create_queue(QueueName="dead")["QueueUrl"],
            fifo=sqs.create_queue(QueueName="dead.fifo", Attributes=fifo)["QueueUrl"],
        )


# ---- the topic


def test_notices_travel_as_they_are_grouped_by_route(bus: Bus):
    sent = [notice("a b+c.json"), notice("é.json", route="weather")]
    assert bus.publish(sent) == {each.id for each in sent}
    found = bus.messages()
    assert {decode(message["Body"]) for message in found} == set(sent)
    assert {decode(each["Body"]).route: each["Attributes"]["MessageGroupId"] for each in found} == {
        "flights": "flights",
        "weather": "weather",
    }


def test_notices_of_a_route_with_lanes_are_spread_over_them(bus: Bus):
    sent = [notice(f"{number}.json") for number in range(40)] + [notice("a.json", route="weather")]
    bus.publish(sent, "first", flights=4)
    bus.publish(sent, "second", flights=4)
    groups: dict[str, set[str]] = {}
    for each in bus.messages():
        groups.setdefault(decode(each["Body"]).id, set()).add(each["Attributes"]["MessageGroupId"])
    # a repeat is in the same lane
    assert groups == {each.id: {group_of(each, 4 if each.route == "flights" else 1)} for each in sent}
    assert set().union(*groups.values()) == {"flights", "flights/1", "flights/2", "flights/3", "weather"}


def test_what_a_retry_publishes_is_not_swallowed_as_a_repetition(bus: Bus):
    of = notice("a")
    bus.publish([of], "first")
    bus.publish([of], "second")
    assert len(bus.messages()) == 2


def test_the_same_attempt_twice_is_one_message(bus: Bus):
    bus.publish([notice("a")], "first")
    bus.publish([notice("a")], "first")
    assert len(bus.messages()) == 1


def test_a_deduplication_id_has_at_most_128_characters(bus: Bus):
    assert len(bus.publish([notice("a")], "x" * 500)) == 1
    (message,) = bus.messages()
    assert len(message["Attributes"]["MessageDeduplicationId"]) == 128


def test_more_than_ten_notices_go_in_several_requests(bus: Bus):
    sent = [notice(f"key{number}") for number in range(25)]
    sizes = requests_of(lambda: bus.publish(sent))
    assert [count for count, _ in sizes] == [10, 10, 5]
    assert [decode(message["Body"]).id for message in bus.messages()] == [each.id for each in sent]


def test_a_request_holds_at_most_256_kib(bus: Bus):
    sent = list(pack("flights", BUCKET, uploads(900, "flights/" + "k" * 900)))
    assert len(sent) == 4
    sizes = requests_of(lambda: bus.publish(sent))
    assert all(size <= 262_144 for _, size in sizes)
    assert sum(count for count, _ in sizes) == 4
    received = [entry.upload for message in bus.messages() for entry in decode(message["Body"]).entries]
    assert sorted(received, key=lambda each: each.key) == uploads(900, "flights/" + "k" * 900)


def test_nothing_to_publish_asks_nothing(bus: Bus):
    assert requests_of(lambda: bus.publish([])) == []


def test_a_topic_that_is_gone_says_so(bus: Bus):
    moto_client("sns").delete_topic(TopicArn=bus.topic)
    with pytest.raises(Retryable, match=r"could not publish 1 notices to .*NotFound"):
        bus.publish([notice("a")])


def test_what_the_topic_refuses_is_not_among_the_accepted(bus: Bus):
    sent = [notice(f"key{number}") for number in range(3)]
    body = """<PublishBatchResponse xmlns="https://sns.amazonaws.com/doc/2010-03-31/"><PublishBatchResult>
        <Successful><member><Id>2</Id><MessageId>m</MessageId></member>
        <member><Id>0</Id><MessageId>m</MessageId></member></Successful>
        <Failed><member><Id>1</Id><Code>InternalError</Code><SenderFault>false</SenderFault></member></Failed>
        </PublishBatchResult></PublishBatchResponse>"""
    with sns_answers((200, body)):
        assert bus.publish(sent) == {sent[0].id, sent[2].id}


def test_one_request_that_fails_loses_its_own_notices_only(bus: Bus):
    sent = [notice(f"key{number}") for number in range(25)]
    refusal = "<ErrorResponse><Error><Code>AuthorizationError</Code><Message>no</Message></Error></ErrorResponse>"
    with sns_answers(None, (403, refusal)):
        assert bus.publish(sent) == {each.id for each in sent[:10] + sent[20:]}
    assert len(bus.messages()) == 15


# ---- dead letters


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_a_message_is_set_aside_to_the_letter_with_its_reason(bus: Bus, kind: str):
    url = getattr(bus, kind)
    body = json.dumps({"Records": [{"key": "naïve 😀"}]}, ensure_ascii=False)
    SqsDeadLetters(moto_client("sqs"), url).set_aside(body, "the key does not decode")
    (message,) = bus.messages(url)
    assert message["Body"] == body
    assert message["MessageAttributes"]["reason"]["StringValue"] == "the key does not decode"


@pytest.mark.parametrize(
    ("reason", "kept"),
    [
        ("line\nbreak\ttab\0nul\x1b", "line?break?tab?nul?"),
        ("naïve 日本語 😀", "naïve 日本語 😀"),
        ("half a pair \ud83d", "half a pair ?"),
        ("", "unknown"),
        ("r" * 5000, "r" * MAX_ATTRIBUTE_CHARACTERS),
    ],
    ids=["controls", "unicode", "surrogate", "empty", "long"],
)
def test_any_reason_can_travel(bus: Bus, reason: str, kept: str):
    SqsDeadLetters(moto_client("sqs"), bus.standard).set_aside("body", reason)
    (message,) = bus.messages(bus.standard)
    assert message["MessageAttributes"]["reason"]["StringValue"] == kept


def test_an_empty_message_is_set_aside_though_sqs_takes_none(bus: Bus):
    SqsDeadLetters(moto_client("sqs"), bus.standard).set_aside("", "the message is not JSON")
    (message,) = bus.messages(bus.standard)
    assert message["Body"] == "(empty)"


def test_a_letter_set_aside_again_within_minutes_does_not_vanish(bus: Bus):
    letters = SqsDeadLetters(moto_client("sqs"), bus.fifo)
    for body in ("one", "two", "one"):
        letters.set_aside(body, "garbage")
    assert [message["Body"] for message in bus.messages(bus.fifo)] == ["one", "two", "one"]


@pytest.mark.parametrize("kind", ["standard", "fifo"])
def test_half_a_surrogate_pair_is_escaped_since_a_queue_has_no_bytes_for_it(bus: Bus, kind: str):
    SqsDeadLetters(moto_client("sqs"), getattr(bus, kind)).set_aside("half a pair \ud83d", "garbage")
    (message,) = bus.messages(getattr(bus, kind))
    assert message["Body"] == r"half a pair \ud83d"


def test_a_queue_that_is_gone_says_that_it_may_be_tried_again(bus: Bus):
    moto_client("sqs").delete_queue(QueueUrl=bus.standard)
    with pytest.raises(Retryable, match="could not set a message aside"):
        SqsDeadLetters(moto_client("sqs"), bus.standard).set_aside("body", "reason")


@pytest.mark.parametrize(
    "body", ["\0", "\x1b[31m", "\ufffe", "b" * 1_100_000], ids=["nul", "escape", "no character", "too long"]
)
def test_text_that_a_queue_does_not_take_is_set_aside_or_refused_but_breaks_nothing(bus: Bus, body: str):
    refused = False
    try:
        SqsDeadLetters(moto_client("sqs"), bus.standard).set_aside(body, "garbage")
    except TidegateError:
        refused = True
    assert len(bus.messages(bus.standard)) == (0 if refused else 1)


# ---- looking at requests


def requests_of(act: Any) -> list[tuple[int, int]]:
    """Of every request that `act` makes of SNS: how many messages it holds, and their bytes together."""
    seen: list[tuple[int, int]] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        entries = params["PublishBatchRequestEntries"]
        seen.append((len(entries), sum(len(entry["Message"].encode()) for entry in entries)))

    events = moto_client("sns").meta.events
    events.register("provide-client-params.sns.PublishBatch", note)
    try:
        act()
    finally:
        events.unregister("provide-client-params.sns.PublishBatch", note)
    return seen


class sns_answers:  # noqa: N801
    """SNS gives these answers in turn, (status, body) or None for its own; after them its own."""

    def __init__(self, *answers: tuple[int, str] | None) -> None:
        self.answers = list(answers)

    def __call__(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        given = self.answers.pop(0) if self.answers else None
        if given is None:
            return None
        request.headers[ANSWERED] = "yes"
        return AWSResponse(request.url, given[0], {}, Raw(given[1].encode()))

    def __enter__(self) -> None:
        moto_client("sns").meta.events.register_first("before-send.sns.PublishBatch", self)

    def __exit__(self, *_: Any) -> None:
        moto_client("sns").meta.events.unregister("before-send.sns.PublishBatch", self)


def test_an_upload_of_every_kind_of_key_crosses_the_bus(bus: Bus):
    keys = ["plain", "a b", "a+b", "a%2Bb", "naïve/日本語/😀", "quote'\"", "line\nbreak", "nul\0", "\u2028"]
    of = notice(*(Upload(BUCKET, key, "v1", 1) for key in keys))
    bus.publish([of])
    (message,) = bus.messages()
    assert decode(message["Body"]) == of

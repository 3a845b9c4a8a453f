"""What the emulated services keep: which requests change what, and that moto still has what is kept of it."""

import json
import threading
import time

import pytest
from moto.s3.models import FakeKey
from moto.sqs.models import Message

from tests.support.patience import HANGING
from tidegate_local.durable import items, objects, text
from tidegate_local.durable.changes import Changes
from tidegate_local.durable.database import Database, Transaction
from tidegate_local.durable.requests import Effect, asked, subscription_arn

# --- changes ---


def test_a_step_tells_all_that_it_touched_when_it_ends():
    changes, kept = Changes(), []
    changes.keep = lambda touched: kept.append(dict(touched)) or len(kept)
    with changes.step():
        changes.touch("a", 1)
        with changes.step():
            changes.touch("b", value="x")
        changes.touch("a", 1)
        assert kept == []
    assert kept == [{("a", 1): None, ("b",): "x"}]
    assert changes.ticket() == 1


def test_a_step_that_fails_is_kept_too_and_what_is_outside_of_one_is_not():
    changes, kept = Changes(), []
    changes.keep = lambda touched: kept.append(dict(touched)) or len(kept)
    changes.touch("outside")

    def fail():
        with changes.step():
            changes.touch("half")
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert kept == [{("half",): None}]


def test_no_step_begins_while_another_one_lasts():
    changes, order = Changes(), []

    def other():
        with changes.step():
            order.append("second")

    with changes.step():
        thread = threading.Thread(target=other)
        thread.start()
        time.sleep(0.05)
        order.append("first")
    thread.join(HANGING)
    assert order == ["first", "second"]


# --- the file ---


def test_transactions_are_committed_in_order_and_whoever_waits_first_commits_for_all(tmp_path):
    database = Database(tmp_path)
    done = []
    numbers = []
    for name in "abc":
        transaction = Transaction(afterwards=[lambda name=name: done.append(name)])
        transaction.say("INSERT INTO items VALUES ('t', 'k', ?, '{}')", name)
        numbers.append(database.queue(transaction))
    assert numbers == [1, 2, 3]
    assert database.queue(Transaction()) == 3, "one without a change has nothing to wait for but what was before"
    assert done == []
    database.wait(2)
    assert done == ["a", "b", "c"]
    assert [name for (name,) in database.rows("SELECT range FROM items ORDER BY range")] == ["a", "b", "c"]
    database.close()


def test_bytes_are_cut_and_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr("tidegate_local.durable.database.CHUNK", 3)
    from tidegate_local.durable.database import chunks

    database = Database(tmp_path)
    transaction = Transaction()
    for number, part in chunks(b"1234567"):
        transaction.say("INSERT INTO contents VALUES (1, ?, ?)", number, part)
    assert len(transaction.statements) == 3
    database.wait(database.queue(transaction))
    assert database.content(1) == b"1234567"
    assert database.content(2) == b""
    stored = objects.StoredContent(database, 1)
    assert (stored.read(2), stored.read(), stored.seek(5), stored.read()) == (b"12", b"34567", 5, b"67")
    database.close()


def test_json_carries_bytes():
    value = {"a": [b"\0\xff", "x", 1, None], "b": {"c": b""}}
    assert text.loads(text.dumps(value)) == value
    with pytest.raises(TypeError):
        text.dumps({"a": object()})


# --- what moto holds ---


def test_moto_has_what_is_kept_of_an_object():
    key = FakeKey("k", b"x", "123456789012", "us-east-1")
    assert set(objects.ATTRIBUTES) <= vars(key).keys()
    known = {"name", "account_id", "region_name", "partition", "bucket_name", "last_modified", "_metadata"}
    # what ends with the process: who may read it, a restored copy's end, parts, and how moto holds its bytes
    left_out = {"acl", "_expiry", "multipart", "_max_buffer_size", "_value_buffer", "disposed", "lock"}
    left_out |= {"_transitions", "_status", "_tick", "_time_progressed", "model_name"}
    assert vars(key).keys() - set(objects.ATTRIBUTES) - known <= left_out


def test_all_of_a_message_can_be_kept():
    message = Message("id", "body", {"AWSTraceHeader": {"DataType": "String", "StringValue": "x"}})
    message.message_attributes = {"a": {"DataType": "Binary", "BinaryValue": b"\0"}}
    message.mark_sent()
    message.mark_received(30)
    assert text.loads(text.dumps(vars(message))) == vars(message)


# --- requests ---


def of_s3(method, uri):
    path, _, query = uri.partition("?")
    return asked({"REQUEST_METHOD": method, "REQUEST_URI": uri, "PATH_INFO": path, "QUERY_STRING": query}, "s3", b"")


@pytest.mark.parametrize(
    ("method", "uri", "effect"),
    [
        ("GET", "/b/k?tagging", Effect.READS),
        ("HEAD", "/b", Effect.READS),
        ("PUT", "/b/k", Effect.WRITES),
        ("PUT", "/b/k?x-id=PutObject", Effect.WRITES),
        ("PUT", "/b/k?partNumber=1&uploadId=u", Effect.WRITES),
        ("POST", "/b/k?uploads", Effect.WRITES),
        ("POST", "/b/k?uploadId=u", Effect.WRITES),
        ("DELETE", "/b/k?versionId=v", Effect.WRITES),
        ("DELETE", "/b/k?uploadId=u", Effect.WRITES),
        ("POST", "/b?delete", Effect.WRITES),
        ("POST", "/b", Effect.WRITES),
        ("PUT", "/b/a%20b?tagging", Effect.WRITES),
        ("PUT", "/b/k?legal-hold", Effect.UNKNOWN),
        ("PUT", "/b/k?acl", Effect.UNKNOWN),
        ("POST", "/b/k?restore", Effect.UNKNOWN),
        ("PUT", "/b", Effect.MAKES),
        ("PUT", "/b/", Effect.MAKES),
        ("DELETE", "/b", Effect.ENDS),
        ("PUT", "/b?notification", Effect.SETS),
        ("PUT", "/b?versioning", Effect.SETS),
        ("DELETE", "/b?tagging", Effect.ENDS),
        ("PUT", "/b?intelligent-tiering&id=x", Effect.UNKNOWN),
        ("PUT", "/b/k?X-Amz-Signature=x&X-Amz-Expires=9", Effect.WRITES),
        ("PUT", "/b/k?new-thing", Effect.UNKNOWN),
        ("POST", "/b/k?select&select-type=2", Effect.READS),
        ("PATCH", "/b", Effect.UNKNOWN),
    ],
)
def test_what_a_request_to_s3_changes(method, uri, effect):
    assert of_s3(method, uri).effect is effect


def test_what_is_set_of_a_bucket_replaces_only_the_same():
    acl, tagging = (of_s3("PUT", f"/b?{what}") for what in ("acl", "tagging"))
    assert (acl.resource, acl.label) == (tagging.resource, tagging.label)
    assert acl.part != tagging.part
    assert of_s3("PUT", "/b?tagging").part == of_s3("DELETE", "/b?tagging").part
    assert of_s3("PUT", "/b/a%20b?tagging").key == "a b"


def json_request(service, operation, body):
    return asked({"HTTP_X_AMZ_TARGET": f"Any.{operation}"}, service, json.dumps(body).encode())


def test_what_is_set_of_a_queue_replaces_only_the_same():
    url = "http://127.0.0.1:1/123456789012/q"
    made = json_request("sqs", "CreateQueue", {"QueueName": "q", "Attributes": {"DelaySeconds": "1"}})
    assert (made.effect, made.resource, made.label) == (Effect.MAKES, "q", "CreateQueue")
    labels = [
        json_request("sqs", "SetQueueAttributes", {"QueueUrl": url, "Attributes": attributes}).label
        for attributes in ({"DelaySeconds": "1"}, {"DelaySeconds": "2"}, {"Policy": ""})
    ]
    assert labels[0] == labels[1] != labels[2]
    assert json_request("sqs", "DeleteQueue", {"QueueUrl": url}).resource == "q"
    assert json_request("sqs", "ReceiveMessage", {}).effect is Effect.WAITS
    assert json_request("sqs", "AddPermission", {}).effect is Effect.UNKNOWN


def test_what_is_said_of_a_subscription_belongs_to_it():
    topic = "arn:aws:sns:us-east-1:123456789012:t"
    arn = subscription_arn(topic, "sqs", "arn:q")

    def form(text):
        return asked({}, "sns", text.encode())

    made = form(f"Action=Subscribe&TopicArn={topic}&Protocol=sqs&Endpoint=arn%3Aq")
    said = form(f"Action=SetSubscriptionAttributes&SubscriptionArn={arn}&AttributeName=FilterPolicy&AttributeValue=x")
    over = form(f"Action=Unsubscribe&SubscriptionArn={arn}")
    assert {(each.resource, each.part) for each in (made, said, over)} == {("t", arn)}
    assert (made.effect, said.effect, over.effect) == (Effect.MAKES, Effect.SETS, Effect.ENDS)
    topics = [form(f"Action={action}") for action in ("CreateTopic&Name=t", f"DeleteTopic&TopicArn={topic}")]
    assert {(each.resource, each.part) for each in topics} == {("t", "")}


def test_the_items_that_a_request_may_change():
    key = {"pk": {"S": "a"}}
    insert = {"Statement": "INSERT INTO \"t\" VALUE {'pk': ?}", "Parameters": [{"S": "a"}]}
    for operation, body in (
        ("PutItem", {"TableName": "t", "Item": key}),
        ("UpdateItem", {"TableName": "t", "Key": key}),
        ("DeleteItem", {"TableName": "t", "Key": key}),
        ("BatchWriteItem", {"RequestItems": {"t": [{"PutRequest": {"Item": key}}]}}),
        ("BatchWriteItem", {"RequestItems": {"t": [{"DeleteRequest": {"Key": key}}]}}),
        ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": {"TableName": "t", "Key": key}}]}),
        ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "t", "Item": key}}]}),
        ("BatchExecuteStatement", {"Statements": [insert]}),
    ):
        assert list(items.named(operation, body)) == [("t", key)]
    with pytest.raises(ValueError, match="not kept"):
        list(items.named("BatchExecuteStatement", {"Statements": [{"Statement": "DELETE FROM t WHERE pk = 'a'"}]}))


@pytest.mark.parametrize(
    "value",
    [
        {"$bytes": {"S": "z"}},
        {"$pairs": [["$bytes", "x"]]},
        {"$bytes": b"\x00"},
        [{"$bytes": {"$bytes": b"a"}}],
        {"a": b""},
    ],
    ids=str,
)
def test_what_looks_like_kept_bytes_is_kept_as_it_is(value: object):
    assert text.loads(text.dumps(value)) == value

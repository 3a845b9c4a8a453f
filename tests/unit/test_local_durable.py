"""What the emulated services keep: which requests change what, and moto's objects as bytes and back."""

import os
import pickle
import threading
import time

import pytest
from moto.s3.models import FakeKey
from moto.sqs.models import Message

from tests.support.patience import HANGING
from tidegate_local.durable.changes import CHANGES, Changes
from tidegate_local.durable.database import Database, Transaction
from tidegate_local.durable.keeper import StoredContent
from tidegate_local.durable.pickled import dumps, loads
from tidegate_local.services import operation_of, touch

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
    stored = StoredContent(database, 1)
    assert (stored.read(2), stored.read(), stored.seek(5), stored.read()) == (b"12", b"34567", 5, b"67")
    database.close()


# --- what moto holds ---


def test_bytes_of_an_object_are_not_among_what_is_kept_of_it():
    key = FakeKey("k", b"many bytes", "123456789012", "us-east-1", bucket_name="b", version_id="v")
    key.set_metadata({"who": "me"})
    content = dumps(key)
    assert b"many bytes" not in content
    found = loads(content)
    own = {"_value_buffer", "lock", "_metadata"}
    assert {name: value for name, value in vars(found).items() if name not in own and name != "acl"} == {
        name: value for name, value in vars(key).items() if name not in own and name != "acl"
    }
    assert found.metadata["who"] == "me"


def test_all_of_a_message_is_kept():
    message = Message("id", "body", {"AWSTraceHeader": {"DataType": "String", "StringValue": "x"}})
    message.message_attributes = {"a": {"DataType": "Binary", "BinaryValue": b"\0"}}
    message.mark_sent()
    message.mark_received(30)
    assert vars(loads(dumps(message))) == vars(message)


def test_what_a_newer_moto_has_added_is_as_it_makes_it(monkeypatch):
    content = dumps(Message("id", "body"))
    original = Message.__init__

    def newer(message, *arguments, **options):
        original(message, *arguments, **options)
        message.added = "since"

    monkeypatch.setattr(Message, "__init__", newer)
    assert loads(content).added == "since"


class Trap:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    "trap", [Trap(), Trap, os.system, getattr, dumps], ids=["object", "class", "system", "getattr", "dumps"]
)
def test_a_file_that_somebody_else_made_runs_nothing(trap):
    with pytest.raises(pickle.UnpicklingError, match="is no part of what the services hold"):
        loads(pickle.dumps({"a": trap}))


# --- requests ---


def touched_by(method="POST", uri="/", **environ):
    path, _, query = uri.partition("?")
    asked = {"REQUEST_METHOD": method, "REQUEST_URI": uri, "PATH_INFO": path, "QUERY_STRING": query, **environ}
    kept = []
    CHANGES.keep = lambda touched: kept.extend(touched) or 0
    try:
        with CHANGES.step():
            touch(asked, operation_of(asked, b""))
    finally:
        CHANGES.keep = None
    return kept


DEFINES = [("definitions",)]


@pytest.mark.parametrize(
    ("method", "uri", "touched"),
    [
        ("GET", "/b/k?tagging", []),
        ("HEAD", "/b", []),
        ("PUT", "/b/k?x-id=PutObject", []),
        ("POST", "/b/k?uploads", []),
        ("DELETE", "/b/k?versionId=v", []),
        ("POST", "/b?delete", []),
        ("PUT", "/b/a%20b?tagging", [("description", "b", "a b")]),
        ("PUT", "/b", DEFINES),
        ("DELETE", "/b/", DEFINES),
        ("PUT", "/b?notification", DEFINES),
        ("PUT", "/b?what-nobody-has-heard-of", DEFINES),
    ],
)
def test_what_a_request_to_s3_changes_beside_objects(method, uri, touched):
    assert touched_by(method, uri) == touched


@pytest.mark.parametrize(
    ("operation", "touched"),
    [
        ("ReceiveMessage", []),
        ("TransactWriteItems", []),
        ("DeleteMessageBatch", []),
        ("CreateQueue", DEFINES),
        ("DeleteQueue", DEFINES),
        ("UpdateTimeToLive", DEFINES),
        ("WhatNobodyHasHeardOf", DEFINES),
    ],
)
def test_what_another_request_changes_beside_messages_and_items(operation, touched):
    assert touched_by(HTTP_X_AMZ_TARGET=f"Any.{operation}") == touched


def test_sns_names_its_operation_in_a_form():
    asked = {"HTTP_AUTHORIZATION": "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/sns/aws4_request, b"}
    assert operation_of(asked, b"Action=Subscribe&Protocol=sqs") == "Subscribe"

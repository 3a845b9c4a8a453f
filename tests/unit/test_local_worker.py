"""What a worker does with messages and answers, without a queue."""

import dataclasses
import json
import threading
import time
from types import SimpleNamespace

import pytest

from tests.support.patience import HANGING
from tidegate_local import worker
from tidegate_local.description import EventSourceMapping, Function
from tidegate_local.sandbox import InvocationResult, Sandbox, Stopped
from tidegate_local.worker import Invocations, Poller, failed_ids, record

STANDARD = EventSourceMapping("http://q", "arn:aws:sqs:us-east-1:1:q", 25, 0, True)
FIFO = EventSourceMapping("http://q.fifo", "arn:aws:sqs:us-east-1:1:q.fifo", 100, 0, True)
FUNCTION = Function("f", "arn:f", "m.handler", "/", {}, 600, 128)


def answer(*ids):
    return InvocationResult(json.dumps({"batchItemFailures": [{"itemIdentifier": each} for each in ids]}))


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (InvocationResult("null"), set()),
        (InvocationResult("{}"), set()),
        (InvocationResult('{"batchItemFailures": null}'), set()),
        (answer(), set()),
        (answer("a"), {"a"}),
        (answer("a", "b"), {"a", "b"}),
        (InvocationResult(error={"errorType": "E"}), {"a", "b"}),
        (answer("unknown"), {"a", "b"}),
        (answer(""), {"a", "b"}),
        (answer(None), {"a", "b"}),
        (InvocationResult('{"batchItemFailures": [{"id": "a"}]}'), {"a", "b"}),
        (InvocationResult('{"batchItemFailures": ["a"]}'), {"a", "b"}),
        (InvocationResult('{"batchItemFailures": "a"}'), {"a", "b"}),
        (InvocationResult('"a"'), {"a", "b"}),
        (InvocationResult('[{"itemIdentifier": "a"}]'), {"a", "b"}),
    ],
)
def test_an_answer_that_makes_no_sense_fails_everything(result, failed):
    assert failed_ids(result, {"a", "b"}, reports_failures=True) == failed


def test_without_partial_answers_only_an_error_counts():
    assert failed_ids(answer("a"), {"a", "b"}, reports_failures=False) == set()
    assert failed_ids(InvocationResult(error={"errorType": "E"}), {"a"}, reports_failures=False) == {"a"}


def test_a_record_has_the_shape_that_lambda_gives_it():
    message = {
        "MessageId": "1",
        "ReceiptHandle": "h",
        "Body": "b",
        "MD5OfBody": "m",
        "Attributes": {"ApproximateReceiveCount": "1"},
        "MessageAttributes": {"k": {"DataType": "String", "StringValue": "v"}},
    }
    assert record(message, STANDARD) == {
        "messageId": "1",
        "receiptHandle": "h",
        "body": "b",
        "md5OfBody": "m",
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {
            "k": {"dataType": "String", "stringValue": "v", "stringListValues": [], "binaryListValues": []}
        },
        "eventSource": "aws:sqs",
        "eventSourceARN": STANDARD.queue_arn,
        "awsRegion": "us-east-1",
    }


class Queue:
    """An SQS client that gives what it was told to, and remembers what became of it."""

    def __init__(self, *receives):
        self.receives = list(receives)
        self.asked, self.deleted, self.given_back = [], [], []

    def receive_message(self, **asked):
        self.asked.append(asked["MaxNumberOfMessages"])
        ids = self.receives.pop(0) if self.receives else ()
        return {"Messages": [{"MessageId": each, "ReceiptHandle": f"h-{each}", "Body": each} for each in ids]}

    def delete_message_batch(self, *, Entries, **_):  # noqa: N803
        assert len(Entries) <= 10
        self.deleted += [entry["ReceiptHandle"] for entry in Entries]
        return {}

    def change_message_visibility(self, *, ReceiptHandle, VisibilityTimeout, **_):  # noqa: N803
        assert VisibilityTimeout == 0
        self.given_back.append(ReceiptHandle)


def poller(queue, source=STANDARD, invoke=None, stopping=None):
    return Poller(source, queue, invoke, stopping or threading.Event())


def test_a_standard_batch_is_gathered_until_it_is_full():
    queue = Queue("abcdefghij", "klmnopqrst", "uvwxy")
    source = dataclasses.replace(STANDARD, window=60)
    assert len(poller(queue, source).gather()) == 25
    assert queue.asked == [10, 10, 5]


def test_the_window_ends_a_batch_that_does_not_fill(monkeypatch):
    source = EventSourceMapping("http://q", "arn:q", 1000, 1, True)
    queue = Queue("ab", "", "c")
    now = [1_000.0]
    # each look at the clock is a third of a second later
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now.append(now[-1] + 0.3) or now[-1]))
    assert [each["MessageId"] for each in poller(queue, source).gather()] == ["a", "b", "c"]
    assert queue.asked == [10, 10, 10], "it asks again until the window is over, and not after it"


def test_a_fifo_batch_is_one_receive():
    queue = Queue("abc", "def")
    assert len(poller(queue, FIFO).gather()) == 3
    assert queue.asked == [10]


def test_what_did_not_fail_is_deleted():
    queue = Queue()
    messages = [{"MessageId": str(i), "ReceiptHandle": f"h-{i}", "Body": ""} for i in range(25)]
    poller(queue, invoke=lambda event: answer("3", "20")).deliver(messages)
    assert sorted(queue.deleted) == sorted(f"h-{i}" for i in range(25) if i not in (3, 20))
    assert queue.given_back == []


def test_a_stopping_worker_gives_back_what_it_did_not_begin():
    stopping = threading.Event()
    queue = Queue("ab")
    stopping.set()
    assert poller(queue, stopping=stopping).gather() == []
    assert queue.given_back == ["h-a", "h-b"]


# --- the sandbox ---


@pytest.fixture
def sandbox_of():
    running = []

    def start(handler):
        sandbox = Sandbox(FUNCTION, handler)
        thread = threading.Thread(target=sandbox.run, daemon=True)
        thread.start()
        running.append((sandbox, thread))
        return sandbox

    yield start
    for sandbox, thread in running:
        sandbox.stopping.set()
        thread.join(HANGING)
        assert not thread.is_alive()


def test_a_handler_gets_an_event_and_a_context(sandbox_of):
    def handler(event, context):
        assert 0 < context.get_remaining_time_in_millis() <= 600_000
        assert context.invoked_function_arn == "arn:f"
        return [event["x"], context.function_name, bool(context.aws_request_id)]

    assert json.loads(sandbox_of(handler).invoke({"x": 1}).payload) == [1, "f", True]


def test_an_exception_is_a_result(sandbox_of):
    def handler(event, context):
        raise LookupError("gone")

    error = sandbox_of(handler).invoke({}).error
    assert (error["errorType"], error["errorMessage"]) == ("LookupError", "gone")


def test_an_answer_that_is_no_json_is_an_error(sandbox_of):
    assert sandbox_of(lambda event, context: object()).invoke({}).error["errorType"] == "TypeError"


def test_invocations_never_overlap(sandbox_of):
    inside = threading.Lock()

    def handler(event, context):
        assert inside.acquire(blocking=False)
        time.sleep(0.01)
        inside.release()

    sandbox = sandbox_of(handler)
    results = []
    threads = [threading.Thread(target=lambda: results.append(sandbox.invoke({}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.error for result in results] == [None] * 8


def test_stopping_finishes_the_current_invocation_and_refuses_the_next(sandbox_of):
    entered, release = threading.Event(), threading.Event()

    def handler(event, context):
        entered.set()
        release.wait(HANGING)
        return "done"

    sandbox = sandbox_of(handler)
    results = []

    def invoke():
        try:
            results.append(sandbox.invoke({}).payload)
        except Stopped:
            results.append("refused")

    first = threading.Thread(target=invoke)
    first.start()
    assert entered.wait(HANGING), "the handler was never called"
    second = threading.Thread(target=invoke)
    second.start()
    time.sleep(0.05)
    sandbox.stopping.set()
    release.set()
    first.join(HANGING)
    second.join(HANGING)
    with pytest.raises(Stopped):
        sandbox.invoke({})
    assert sorted(results) == ['"done"', "refused"]


def test_an_asynchronous_event_is_tried_three_times(sandbox_of):
    seen = []

    def handler(event, context):
        seen.append(context.aws_request_id)
        raise LookupError

    Invocations(sandbox_of(handler), retry_delays=(0.01, 0.01))._try({})
    assert len(seen) == 3
    assert len(set(seen)) == 1  # a retry is the same request

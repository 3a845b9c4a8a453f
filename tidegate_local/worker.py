"""Runs one function of the stack, as Lambda does.

    python -m tidegate_local.worker FUNCTION --dir DIR

One process is one sandbox: the handler is imported once, and runs one invocation at a time, with the environment that
the template gives it. It is invoked by its SQS event sources and by Lambda's Invoke API. A handler
that exceeds its timeout is ended with the process, which the supervisor starts again: what Lambda does, too.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate_local import description
from tidegate_local.description import EventSourceMapping, Function
from tidegate_local.endpoint import Endpoint, RefusedRequest, Request, Response, answer
from tidegate_local.environment import REGION, client
from tidegate_local.hurry import hurry
from tidegate_local.processes import follow_lifeline, inherited_listener
from tidegate_local.sandbox import InvocationResult, Sandbox, Stopped, log

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.type_defs import DeleteMessageBatchRequestEntryTypeDef

RECEIVE = 10
"""Messages in one ReceiveMessage or DeleteMessageBatch; SQS allows no more."""
WAIT_SECONDS = 2
PAYLOAD_BYTES = 6 * 1024 * 1024
"""The most that Lambda passes to one invocation."""
RECORD_BYTES = 1024
"""What a record's envelope adds to its body, about."""
ASYNC_RETRY_DELAYS = (60.0, 120.0)
"""Lambda tries a failed asynchronous invocation twice more, "one minute before the first, two before the second"
(https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html)."""


# --- SQS event sources ---


def record(message: Mapping[str, Any], source: EventSourceMapping) -> dict[str, Any]:
    """A received message as Lambda passes it to a function."""
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": {key: str(value) for key, value in message.get("Attributes", {}).items()},
        "messageAttributes": {
            name: {
                "stringListValues": [],
                "binaryListValues": [],
                "dataType": value["DataType"],
                **({"stringValue": value["StringValue"]} if "StringValue" in value else {}),
            }
            for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message.get("MD5OfBody", ""),
        "eventSource": "aws:sqs",
        "eventSourceARN": source.queue_arn,
        "awsRegion": REGION,
    }


def failed_ids(result: InvocationResult, ids: set[str], *, reports_failures: bool) -> set[str]:
    """The messages to keep, of those with `ids`: all of them after an error or an answer that makes no sense
    (https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html)."""
    if result.error is not None:
        return ids
    if not reports_failures:
        return set()
    try:
        failures = (json.loads(result.payload) or {}).get("batchItemFailures") or []
        named = {each["itemIdentifier"] for each in failures}
    except (AttributeError, KeyError, TypeError):
        return ids
    return named if named <= ids else ids


class Poller:
    """Feeds a function from one queue, one batch at a time.

    A standard queue is gathered up to the batch size, or until the window is over, counted from the first message.
    What failed is left alone: it becomes visible again after the queue's visibility timeout, and a FIFO queue gives
    nothing more of its group until then.
    """

    def __init__(
        self,
        source: EventSourceMapping,
        sqs: SQSClient,
        invoke: Callable[[Any], InvocationResult],
        stopping: threading.Event,
    ) -> None:
        self.source = source
        self.sqs = sqs
        self.invoke = invoke
        self.stopping = stopping

    def run(self) -> None:
        pause = 1.0
        while not self.stopping.is_set():
            try:
                if messages := self.gather():
                    self.deliver(messages)
                pause = 1.0
            except Stopped:
                return
            except Exception as error:
                # the services may be starting or stopping; the supervisor says so if it lasts
                log("poller.error", queue=self.source.queue_arn, errorMessage=f"{type(error).__name__}: {error}")
                self.stopping.wait(pause)
                pause = min(pause * 2, 30.0)

    def gather(self) -> list[Mapping[str, Any]]:
        """The messages of the next invocation; empty if none came, or the worker is stopping."""
        size = min(self.source.batch_size, RECEIVE) if self.source.fifo else self.source.batch_size
        messages = self.receive(min(size, RECEIVE), WAIT_SECONDS)
        deadline = time.monotonic() + self.source.window
        room = PAYLOAD_BYTES - sum(map(_bytes, messages))
        while messages and not self.source.fifo and len(messages) < size and room > 0:
            remaining = deadline - time.monotonic()
            if self.stopping.is_set() or remaining <= 0:
                break
            # receive never waits longer than asked, so that the window holds to a second
            more = self.receive(min(size - len(messages), RECEIVE), min(WAIT_SECONDS, int(remaining)))
            messages += more
            room -= sum(map(_bytes, more))
            if not more:
                self.stopping.wait(min(0.1, max(0.0, deadline - time.monotonic())))
        if messages and self.stopping.is_set():
            self.give_back(messages)
            return []
        return messages

    def receive(self, count: int, wait: int) -> list[Mapping[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=self.source.queue_url,
            MaxNumberOfMessages=count,
            WaitTimeSeconds=wait,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return list(answer.get("Messages", []))

    def deliver(self, messages: list[Mapping[str, Any]]) -> None:
        result = self.invoke({"Records": [record(message, self.source) for message in messages]})
        ids = {message["MessageId"] for message in messages}
        failed = failed_ids(result, ids, reports_failures=self.source.reports_failures)
        if failed:
            log("poller.failed", queue=self.source.queue_arn, messages=len(messages), failed=len(failed))
        self.delete([message for message in messages if message["MessageId"] not in failed])

    def delete(self, messages: list[Mapping[str, Any]]) -> None:
        for start in range(0, len(messages), RECEIVE):
            entries: list[DeleteMessageBatchRequestEntryTypeDef] = [
                {"Id": str(position), "ReceiptHandle": message["ReceiptHandle"]}
                for position, message in enumerate(messages[start : start + RECEIVE])
            ]
            answer = self.sqs.delete_message_batch(QueueUrl=self.source.queue_url, Entries=entries)
            if refused := answer.get("Failed"):
                log("poller.not_deleted", queue=self.source.queue_arn, reasons=[each["Message"] for each in refused])

    def give_back(self, messages: list[Mapping[str, Any]]) -> None:
        for message in messages:
            self.sqs.change_message_visibility(
                QueueUrl=self.source.queue_url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
            )


def _bytes(message: Mapping[str, Any]) -> int:
    return len(message["Body"].encode()) + RECORD_BYTES


# --- Lambda's Invoke API ---


class Invocations:
    """`POST /2015-03-31/functions/<name>/invocations`, synchronous or (`Event`) asynchronous."""

    def __init__(self, sandbox: Sandbox, retry_delays: tuple[float, ...] = ASYNC_RETRY_DELAYS) -> None:
        self.sandbox = sandbox
        self.retry_delays = retry_delays

    def invoke(self, request: Request, name: str) -> Response:
        function = self.sandbox.function
        if name not in (function.name, function.arn):
            raise RefusedRequest(404, "ResourceNotFoundException", f"this is {function.name}, not {name}")
        event = request.json
        kind = request.headers.get("X-Amz-Invocation-Type", "RequestResponse")
        if kind == "Event":
            threading.Thread(target=self._try, args=(event,), daemon=True).start()
            return answer(status=202)
        try:
            result = self.sandbox.invoke(event)
        except Stopped:
            raise RefusedRequest(503, "ServiceException", f"{function.name} is stopping") from None
        if result.error is not None:
            return answer(result.error, headers={"X-Amz-Function-Error": "Unhandled"})
        return answer(json.loads(result.payload))

    def _try(self, event: Any) -> None:
        request_id = str(uuid.uuid4())
        for delay in (*self.retry_delays, None):
            try:
                result = self.sandbox.invoke(event, request_id)
            except Stopped:
                return
            if result.error is None:
                return
            if delay is None or self.sandbox.stopping.wait(delay):
                break
        log("platform.dropped", requestId=request_id, errorMessage="an event failed every time and was dropped")


# --- the process ---


def enter(function: Function, stack: description.Description) -> None:
    """Make this process look like the function's sandbox: its environment, folder and import path."""
    os.environ.update(stack.environment)
    os.environ.update(
        {
            "AWS_LAMBDA_FUNCTION_NAME": function.name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{function.name}",
            "AWS_LAMBDA_LOG_STREAM_NAME": "local",
            "LAMBDA_TASK_ROOT": function.code,
            "POWERTOOLS_TRACE_DISABLED": "true",
            "TZ": ":UTC",
        }
    )
    os.environ.update(function.environment)
    time.tzset()
    os.chdir(function.code)
    sys.path.insert(0, function.code)


def import_handler(name: str) -> Callable[[Any, Any], Any]:
    module, _, attribute = name.rpartition(".")
    handler: Callable[[Any, Any], Any] = getattr(importlib.import_module(module), attribute)
    return handler


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate_local.worker")
    parser.add_argument("function")
    parser.add_argument("--dir", type=Path, required=True)
    arguments = parser.parse_args()
    listener = inherited_listener()
    follow_lifeline()
    stack = description.read(arguments.dir.resolve())
    function = stack.functions[arguments.function]
    enter(function, stack)
    hurry()
    try:
        handler = import_handler(function.handler)
    except Exception as error:
        log("platform.initError", errorType=type(error).__name__, errorMessage=str(error))
        raise
    sandbox = Sandbox(function, handler)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sandbox.stopping.set())
    pollers = [
        threading.Thread(target=Poller(source, client("sqs", stack.environment), sandbox.invoke, sandbox.stopping).run)
        for source in function.sources
    ]
    if listener is not None:
        invocations = Invocations(sandbox)
        endpoint = Endpoint(listener, [("POST", "/2015-03-31/functions/<name>/invocations", invocations.invoke)])
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    for poller in pollers:
        poller.start()
    log("platform.initEnd", function=function.name, sources=[source.queue_arn for source in function.sources])
    sandbox.run()
    for poller in pollers:
        poller.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""One process is one sandbox of Lambda's: it runs one invocation at a time, and ends with one that takes too long."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tidegate_local.description import Function

TIMED_OUT = 124


def log(kind: str, **fields: Any) -> None:
    """One line of JSON; the handler's own lines go to the same file."""
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + "Z"
    print(json.dumps({"time": now, "type": kind, **fields}), flush=True)


@dataclass(slots=True)
class Context:
    """What Lambda passes as the second argument."""

    function_name: str
    invoked_function_arn: str
    memory_limit_in_mb: int
    deadline: float
    aws_request_id: str
    function_version: str = "$LATEST"
    log_group_name: str = ""
    log_stream_name: str = ""
    identity: None = None
    client_context: None = None

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline - time.monotonic()) * 1000))


@dataclass(slots=True)
class InvocationResult:
    """What an invocation came to: a payload of JSON, or an error."""

    payload: str = "null"
    error: Mapping[str, Any] | None = None


class Stopped(Exception):
    """The sandbox takes no more invocations."""


class Sandbox:
    """Any thread may ask for an invocation. It waits for its turn, and runs there."""

    def __init__(self, function: Function, handler: Callable[[Any, Any], Any]) -> None:
        self.function = function
        self.handler = handler
        self.stopping = threading.Event()
        self._turn = threading.Lock()

    def invoke(self, event: Any, request_id: str = "") -> InvocationResult:
        """Run the handler and wait for it. Raises Stopped."""
        with self._turn:
            if self.stopping.is_set():
                raise Stopped
            return self._execute(event, request_id or str(uuid.uuid4()))

    def run(self) -> None:
        """Return once the sandbox is stopped, and its last invocation has ended."""
        self.stopping.wait()
        with self._turn:
            pass

    def _execute(self, event: Any, request_id: str) -> InvocationResult:
        function = self.function
        started = time.monotonic()
        context = Context(
            function_name=function.name,
            invoked_function_arn=function.arn,
            memory_limit_in_mb=function.memory,
            deadline=started + function.timeout,
            aws_request_id=request_id,
            log_group_name=f"/aws/lambda/{function.name}",
        )
        watch = threading.Timer(function.timeout, self._time_out, args=(request_id,))
        watch.daemon = True
        watch.start()
        log("platform.start", requestId=request_id)
        try:
            # through JSON both ways, so that nothing passes here which Lambda could not carry
            answer = self.handler(json.loads(json.dumps(event)), context)
            result = InvocationResult(json.dumps(answer))
        except Exception as error:
            result = InvocationResult(
                error={
                    "errorMessage": str(error),
                    "errorType": type(error).__name__,
                    "requestId": request_id,
                    "stackTrace": traceback.format_exception(error),
                }
            )
            log("platform.error", **result.error or {})
        finally:
            watch.cancel()
        log(
            "platform.report",
            requestId=request_id,
            status="error" if result.error else "success",
            durationMs=round((time.monotonic() - started) * 1000, 1),
        )
        return result

    def _time_out(self, request_id: str) -> None:
        log(
            "platform.report",
            requestId=request_id,
            status="timeout",
            errorMessage=f"Task timed out after {self.function.timeout}.00 seconds",
        )
        sys.stdout.flush()
        os._exit(TIMED_OUT)

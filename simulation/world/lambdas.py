"""Lambda: invocations that time out, queues that are polled as event source mappings poll them, asynchronous events."""

import json
from collections.abc import Callable
from typing import Any

from simulation.world.faults import Kind
from simulation.world.kernel import Kernel, Process
from simulation.world.network import Network
from simulation.world.sqs import Message, Queue

REMEMBER = 60.0


class SimulatedContext:
    """The context of an invocation."""

    function_name = "tidegate"
    memory_limit_in_mb = 1024
    invoked_function_arn = "arn:aws:lambda:us-east-1:123456789012:function:tidegate"

    def __init__(self, kernel: Kernel, request_id: str, ends: float) -> None:
        self._kernel = kernel
        self._ends = ends
        self.aws_request_id = request_id

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._ends - self._kernel.now) * 1000))


class SimulatedFunction:
    """One function. An invocation that does not answer in time has failed. If it was frozen, it may still go on."""

    def __init__(self, kernel: Kernel, name: str, handler: Callable[[Any, Any], Any], timeout: float) -> None:
        self.kernel = kernel
        self.name = name
        self.timeout = timeout
        self.running = 0
        self.on_invoke: Callable[[], None] = lambda: None
        self.skew: Callable[[], float] = lambda: 0.0
        """By how many seconds the clock of the next invocation is fast."""
        self.errors: list[BaseException] = []
        self._processes: list[Process] = []
        self._handler = handler
        self._invocations = 0

    def invoke(self, event: Any, answered: Callable[[Any, bool], None]) -> None:
        """`answered` gets the result, and whether it is an answer."""
        self._invocations += 1
        self.on_invoke()
        context = SimulatedContext(self.kernel, f"{self.name}-{self._invocations}", self.kernel.now + self.timeout)
        told = False

        def tell(answer: Any, good: bool) -> None:
            nonlocal told
            if not told:
                told = True
                self.running -= 1
                answered(answer, good)

        def done(process: Process) -> None:
            if process.error is not None:
                self.errors.append(process.error)
            tell(process.answer, not process.failed)

        self.running += 1
        # as JSON, which is what reaches a function
        text = json.dumps(event)
        spawned = self.kernel.spawn(context.aws_request_id, lambda: self._handler(json.loads(text), context), done)
        spawned.skew = self.skew()
        self._processes.append(spawned)
        self.kernel.after(self.timeout, lambda: tell(None, False), background=True)

    def kill_all(self) -> None:
        """Frozen invocations of the function never go on."""
        for process in self._processes:
            process.kill()

    def invoke_asynchronously(self, event: Any, retries: int = 2) -> None:
        """Invoke as EventBridge does: Lambda retries a failure twice, after one minute and after two."""

        def answered(answer: Any, good: bool) -> None:
            if not good and retries:
                wait = 60.0 * (3 - retries)
                self.kernel.after(wait, lambda: self.invoke_asynchronously(event, retries - 1))

        self.invoke(event, answered)


class EventSource:
    """Feeds a function from a queue: receives, invokes, and deletes the messages that the answer does not give back."""

    def __init__(
        self,
        network: Network,
        queue: Queue,
        function: SimulatedFunction,
        *,
        batch_size: int,
        window: float = 0.0,
        concurrency: int = 2,
    ) -> None:
        self.kernel = network.kernel
        self.network = network
        self.queue = queue
        self.function = function
        self.batch_size = batch_size
        self.window = window
        self.concurrency = concurrency
        self.enabled = True
        self._busy: set[str] = set()
        self._running = 0
        self._wakes_at = float("inf")

    def wake(self, seconds: float | None = None) -> None:
        """Poll the queue in so many seconds (default: the window)."""
        at = self.kernel.now + (self.window if seconds is None else max(0.0, seconds))
        if at < self._wakes_at:
            self._wakes_at = at
            self.kernel.after(at - self.kernel.now, self._look)

    def _look(self) -> None:
        if self.kernel.now < self._wakes_at:
            return
        self._wakes_at = float("inf")
        while self.enabled and self._running < self.concurrency:
            messages = self.queue.receive(self.batch_size, busy_groups=sorted(self._busy))
            if not messages:
                break
            struck = self.network.platform(f"{self.function.name} receive")
            if struck is Kind.TWICE and not self.queue.fifo:
                # a standard queue may give a message to two receivers
                for message in messages:
                    message.visible_at = self.kernel.now
            if struck is not Kind.DROP:
                self._deliver(messages)
        # what is hidden comes again by itself; what waits behind it is looked at when an invocation has answered
        hidden = [
            message.visible_at for message in self.queue.messages.values() if message.visible_at > self.kernel.now
        ]
        if hidden and self.enabled:
            self.wake(min(hidden) - self.kernel.now)

    def _look_again(self) -> None:
        """After an invocation. What came during it waits for company, unless it is a whole batch
        (https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventsourcemapping.html)."""
        waits = [message.visible_at - self.kernel.now for message in self.queue.messages.values()]
        come = sum(wait <= 0 for wait in waits)
        if not self.window or come >= self.batch_size:
            self.wake(0.0)
        elif waits:
            self.wake(None if come else min(waits))

    def _deliver(self, messages: list[Message]) -> None:
        groups = {message.group for message in messages} if self.queue.fifo else set()
        receipts = {message.id: message.receipt for message in messages}
        self._running += 1
        self._busy |= groups

        def answered(answer: Any, good: bool) -> None:
            self._running -= 1
            self._busy -= groups
            if good:
                failed = {each["itemIdentifier"] for each in (answer or {}).get("batchItemFailures", ())}
                unknown = failed - set(receipts)
                assert not unknown, f"{self.function.name} gave back what it was not given: {unknown}"
                kinds = (Kind.DROP,) if self.queue.fifo else (Kind.DROP, Kind.TWICE)
                struck = self.network.platform(f"{self.function.name} delete", kinds)
                for message in messages if struck is not Kind.DROP else ():
                    if message.id not in failed:
                        self.queue.delete(message.id, receipts[message.id])
                        if struck is Kind.TWICE:
                            self.queue.put_back(message)
            self._look_again()

        self.function.invoke({"Records": [_record(message, self.queue) for message in messages]}, answered)


def _record(message: Message, queue: Queue) -> dict[str, Any]:
    attributes = {"ApproximateReceiveCount": str(message.receives), "SentTimestamp": str(int(message.sent_at * 1000))}
    if queue.fifo:
        attributes["MessageGroupId"] = message.group
    return {
        "messageId": message.id,
        "receiptHandle": f"{message.id}/{message.receipt}",
        "body": message.body,
        "attributes": attributes,
        "messageAttributes": {},
        "md5OfBody": "unchecked",
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:us-east-1:123456789012:{queue.name}",
        "awsRegion": "us-east-1",
    }

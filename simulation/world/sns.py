"""An SNS FIFO topic before SQS FIFO queues: order by group, 5 minutes of deduplication, delivery a moment later."""

from collections.abc import Callable, Mapping
from typing import Any

from simulation.world.kernel import Kernel
from simulation.world.sqs import DEDUPLICATION_SECONDS, Queue
from simulation.world.wire import Refusal

MOST_BYTES = 262_144


class Sns:
    """One topic. `delay` gives the seconds of a delivery; `on_delivery` is called when one has arrived."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.subscribers: list[Queue] = []
        self.delay: Callable[[], float] = lambda: 0.05
        self.refuses: Callable[[], bool] = lambda: False
        """Whether one message of a PublishBatch is refused, and the others are not."""
        self.ordered = True
        """Whether a group's messages arrive in the order in which they were published, and repeats are dropped."""
        self.on_delivery: Callable[[], None] = lambda: None
        self._seen: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "PublishBatch", f"SNS {operation} is not simulated"
        entries = request["PublishBatchRequestEntries"]
        if len(entries) > 10:
            raise Refusal(400, "TooManyEntriesInBatchRequest", "at most 10")
        if sum(len(entry["Message"].encode()) for entry in entries) > MOST_BYTES:
            raise Refusal(400, "BatchRequestTooLong", f"at most {MOST_BYTES} bytes")
        taken, failed = [], []
        for entry in entries:
            if self.refuses():
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
            else:
                self._publish(entry["Message"], entry["MessageGroupId"], entry["MessageDeduplicationId"])
                taken.append({"Id": entry["Id"], "MessageId": "m"})
        return {"Successful": taken, "Failed": failed}

    def _publish(self, message: str, group: str, deduplication: str) -> None:
        now = self.kernel.now
        if self.ordered and now - self._seen.get(deduplication, float("-inf")) < DEDUPLICATION_SECONDS:
            return
        self._seen[deduplication] = now
        arrives = max(now + self.delay(), self._last.get(group, 0.0) if self.ordered else 0.0)
        self._last[group] = arrives

        def deliver() -> None:
            for queue in self.subscribers:
                queue.send(message, group=group, deduplication=deduplication)
            self.on_delivery()

        self.kernel.after(arrives - now, deliver)

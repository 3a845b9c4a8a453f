"""An SNS FIFO topic before SQS FIFO queues: order by group, 5 minutes of deduplication, delivery a moment later."""

from collections.abc import Callable
from urllib.parse import parse_qs

from tests.sim.kernel import Kernel
from tests.sim.sqs import DEDUPLICATION_SECONDS, Queue
from tests.sim.wire import Answer, Refusal

MOST_BYTES = 262_144


class Sns:
    """One topic. `delay` says how long a delivery takes (seconds); `on_delivery` is told when one has arrived."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.subscribers: list[Queue] = []
        self.delay: Callable[[], float] = lambda: 0.05
        self.on_delivery: Callable[[], None] = lambda: None
        self._seen: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def answer(self, operation: str, body: bytes) -> Answer:
        assert operation == "PublishBatch", f"SNS {operation} is not simulated"
        fields = {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}
        entries, number = [], 1
        while (prefix := f"PublishBatchRequestEntries.member.{number}.") + "Id" in fields:
            names = ("Id", "Message", "MessageGroupId", "MessageDeduplicationId")
            entries.append(tuple(fields[prefix + name] for name in names))
            number += 1
        if len(entries) > 10:
            raise Refusal(400, "TooManyEntriesInBatchRequest", "at most 10")
        if sum(len(message.encode()) for _, message, _, _ in entries) > MOST_BYTES:
            raise Refusal(400, "BatchRequestTooLong", f"at most {MOST_BYTES} bytes")
        for _, message, group, deduplication in entries:
            self._publish(message, group, deduplication)
        members = "".join(
            f"<member><Id>{entry[0]}</Id><MessageId>m</MessageId><SequenceNumber>1</SequenceNumber></member>"
            for entry in entries
        )
        text = (
            f"<PublishBatchResponse><PublishBatchResult><Successful>{members}</Successful><Failed/>"
            "</PublishBatchResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></PublishBatchResponse>"
        )
        return Answer(200, text.encode(), {"Content-Type": "text/xml"})

    def _publish(self, message: str, group: str, deduplication: str) -> None:
        now = self.kernel.now
        if now - self._seen.get(deduplication, float("-inf")) < DEDUPLICATION_SECONDS:
            return
        self._seen[deduplication] = now
        # a group's messages arrive in the order in which they were published
        arrives = max(now + self.delay(), self._last.get(group, 0.0))
        self._last[group] = arrives

        def deliver() -> None:
            for queue in self.subscribers:
                queue.send(message, group=group, deduplication=deduplication)
            self.on_delivery()

        self.kernel.after(arrives - now, deliver)

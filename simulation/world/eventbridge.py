"""EventBridge with one rule, whose target is a standard queue: what is accepted is delivered once or more."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from simulation.world.kernel import Kernel
from simulation.world.sqs import Queue
from simulation.world.wire import Refusal

MOST_ENTRIES = 10
"""https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html"""


class SimulatedBus:
    """`refuses` says whether one entry of a PutEvents is refused, and the others are not. `on_sent` is called with the
    detail of each entry that is accepted."""

    def __init__(self, kernel: Kernel, target: Queue, deliver: Callable[[str], None]) -> None:
        self.kernel = kernel
        self.target = target
        self.delay: Callable[[], float] = lambda: 0.05
        self.refuses: Callable[[], bool] = lambda: False
        self.on_sent: Callable[[Mapping[str, Any]], None] = lambda detail: None
        self._deliver = deliver

    def answer(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "PutEvents", f"EventBridge {operation} is not simulated"
        entries = request["Entries"]
        if not 1 <= len(entries) <= MOST_ENTRIES:
            raise Refusal(400, "ValidationException", f"1 to {MOST_ENTRIES} entries")
        told: list[dict[str, Any]] = []
        for entry in entries:
            if self.refuses():
                told.append({"ErrorCode": "InternalFailure", "ErrorMessage": "refused"})
                continue
            told.append({"EventId": "e"})
            detail = json.loads(entry["Detail"])
            self.on_sent(detail)
            event = {"source": entry["Source"], "detail-type": entry["DetailType"], "detail": detail}
            body = json.dumps(event)
            self.kernel.after(self.delay(), lambda body=body: self._deliver(body))
        return {"Entries": told, "FailedEntryCount": sum("ErrorCode" in each for each in told)}

"""Tells the event bus of this machine what happened, in order; best effort, as on AWS."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from types_boto3_events import EventBridgeClient


class Announcer:
    """`log` gets a line for an event that the bus did not take."""

    def __init__(self, events: EventBridgeClient, log: Callable[[str], None]) -> None:
        self.events = events
        self.log = log
        self.queue: queue.SimpleQueue[tuple[str, str, dict[str, Any], str]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def publish(self, source: str, kind: str, detail: dict[str, Any], resource: str) -> None:
        self.queue.put((source, kind, detail, resource))

    def _run(self) -> None:
        while True:
            source, kind, detail, resource = self.queue.get()
            entry = {"Source": source, "DetailType": kind, "Detail": json.dumps(detail), "Resources": [resource]}
            try:
                self.events.put_events(Entries=[entry])  # type: ignore[list-item]
            except Exception as error:
                self.log(f"an event was lost: {type(error).__name__}: {error}")

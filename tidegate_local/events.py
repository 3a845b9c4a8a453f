"""A minimal EventBridge: rules of the loaded stack, by pattern or at a rate, invoke the workers.

    python -m tidegate_local.events --dir DIR

It speaks `PutEvents`, so whoever has an event to tell uses the `events` client of boto3.
"""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tidegate_local import description
from tidegate_local.description import Rule
from tidegate_local.endpoint import Endpoint, RefusedRequest, Request, Response, answer
from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.processes import follow_lifeline, inherited_listener, listen, url_of

MINUTE, SOON = 60, 0.5

OPERATORS: Mapping[str, Callable[[str, str], bool]] = {"suffix": str.endswith}
"""How a pattern may compare a text, besides with a value."""


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether an event has one of the listed values at each place that the pattern names."""
    for name, expected in pattern.items():
        if name not in event:
            return False
        value = event[name]
        if isinstance(expected, Mapping):
            if not isinstance(value, Mapping) or not matches(expected, value):
                return False
        else:
            values = value if isinstance(value, list) else [value]
            if not any(_is(each, found) for each in expected for found in values):
                return False
    return True


def _is(expected: Any, value: Any) -> bool:
    if not isinstance(expected, Mapping):
        return bool(expected == value)
    ((operator, text),) = expected.items()
    return isinstance(value, str) and OPERATORS[operator](value, text)


def make_event(source: str, kind: str, detail: Any, resources: list[str]) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": kind,
        "source": source,
        "account": ACCOUNT,
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": resources,
        "detail": detail,
    }


class Bus:
    """`invoke` says where each function answers. Delivery is asynchronous and, as on AWS, not more than attempted."""

    def __init__(self, rules: tuple[Rule, ...], invoke: Mapping[str, str]) -> None:
        self.rules = rules
        self.invoke = invoke

    def publish(self, event: dict[str, Any]) -> int:
        """Deliver to the targets of every rule that matches; returns how many rules did."""
        matching = [rule for rule in self.rules if rule.pattern is not None and matches(rule.pattern, event)]
        for rule in matching:
            self.deliver(rule, event)
        return len(matching)

    def deliver(self, rule: Rule, event: dict[str, Any]) -> None:
        for target in rule.targets:
            payload = rule.inputs.get(target, event)
            threading.Thread(target=self._invoke, args=(rule, target, payload), daemon=True).start()

    def _invoke(self, rule: Rule, target: str, payload: Any) -> None:
        request = urllib.request.Request(
            f"{self.invoke[target]}/2015-03-31/functions/{target}/invocations",
            data=json.dumps(payload).encode(),
            headers={"X-Amz-Invocation-Type": "Event"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                answer.read()
        except OSError as error:
            _log("an event was not delivered", rule=rule.name, target=target, reason=str(error))
        else:
            _log("delivered", rule=rule.name, target=target)

    def tick(self, rule: Rule) -> None:
        arn = f"arn:aws:events:{REGION}:{ACCOUNT}:rule/{rule.name}"
        self.deliver(rule, make_event("aws.events", "Scheduled Event", {}, [arn]))

    def run_schedules(self, stop: threading.Event) -> None:
        """Tick every rule that has a rate until `stop` is set; the first time one period from now, or soon for one of a
        minute: a first upload need not wait that long for a worker."""
        now = time.monotonic()
        due = {rule.name: now + (rule.every if rule.every > MINUTE else SOON) for rule in self.rules if rule.every}
        while due and not stop.wait(max(0.0, min(due.values()) - time.monotonic())):
            for rule in self.rules:
                if rule.every and due[rule.name] <= time.monotonic():
                    due[rule.name] += rule.every
                    self.tick(rule)

    def put_events(self, request: Request) -> Response:
        if not request.headers.get("X-Amz-Target", "").endswith(".PutEvents"):
            raise RefusedRequest(400, "UnknownOperationException", "only PutEvents is imitated on this machine")
        entries = []
        for entry in request.json["Entries"]:
            try:
                detail = json.loads(entry["Detail"])
            except ValueError:
                entries.append({"ErrorCode": "MalformedDetail", "ErrorMessage": "Detail is malformed."})
                continue
            event = make_event(entry["Source"], entry["DetailType"], detail, entry.get("Resources", []))
            bus = entry.get("EventBusName", "default")
            # the only place where the events that no rule takes can be seen
            _log("received", bus=bus, event={name: event[name] for name in ("source", "detail-type", "detail")})
            self.publish(event)
            entries.append({"EventId": event["id"]})
        return answer({"Entries": entries, "FailedEntryCount": sum("ErrorCode" in each for each in entries)})


def _log(message: str, **fields: Any) -> None:
    print(json.dumps({"time": time.time(), "message": message, **fields}), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate_local.events")
    parser.add_argument("--dir", type=Path, required=True)
    folder: Path = parser.parse_args().dir
    listener = inherited_listener() or listen()
    stop = threading.Event()
    follow_lifeline()
    stack = description.read(folder)
    bus = Bus(stack.rules, stack.invoke)
    endpoint = Endpoint(listener, [("POST", "/", bus.put_events)])
    threading.Thread(target=endpoint.serve_forever, daemon=True).start()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    _log("serving", url=url_of(listener))
    bus.run_schedules(stop)
    stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

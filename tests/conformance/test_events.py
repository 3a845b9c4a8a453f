"""EventBridge's PutEvents, here and in moto: entries are answered in order, and delivered to the target of a rule."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from simulation.world.eventbridge import SimulatedBus
from simulation.world.sqs import Queue, Sqs
from tests.conformance.backends import code_of, moto, simulated, stopped_clock

SIMULATED, MOTO = "simulated", "moto"


@dataclass
class BusHere:
    """A bus with a rule that takes everything of one source, and the queue that it is sent to."""

    client: Any
    received: Any

    def put(self, *details: Any) -> Sequence[Any]:
        entries = [
            {"Source": "tidegate", "DetailType": "Batch Committed", "Detail": json.dumps(each)} for each in details
        ]
        answer = self.client.put_events(Entries=entries)
        assert answer["FailedEntryCount"] == 0
        entries = answer["Entries"]
        return entries


@pytest.fixture(params=[SIMULATED, MOTO])
def bus(request: pytest.FixtureRequest) -> Iterator[BusHere]:
    if request.param == SIMULATED:
        with stopped_clock() as clock:
            queue = Sqs(clock.kernel).add(Queue(clock.kernel, "events"))
            there = SimulatedBus(clock.kernel, queue, queue.send)

            def received() -> list[str]:
                clock.advance(5)  # a delivery takes a moment
                return [each.body for each in queue.messages.values()]

            with simulated("events", there.answer) as client:
                yield BusHere(client, received)
        return
    with moto("sqs") as sqs, moto("events") as client:
        url = sqs.create_queue(QueueName="events")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        client.put_rule(Name="all", EventPattern=json.dumps({"source": ["tidegate"]}))
        client.put_targets(Rule="all", Targets=[{"Id": "queue", "Arn": arn}])

        def taken() -> list[str]:
            found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
            return [each["Body"] for each in found]

        yield BusHere(client, taken)


def test_each_entry_is_answered_and_arrives_as_an_event(bus: BusHere) -> None:
    entries = bus.put({"n": 1}, {"n": 2})
    assert len(entries) == 2
    assert all(each["EventId"] for each in entries)
    events = [json.loads(body) for body in bus.received()]
    assert sorted(each["detail"]["n"] for each in events) == [1, 2]
    assert {(each["source"], each["detail-type"]) for each in events} == {("tidegate", "Batch Committed")}


def test_a_call_takes_ten_entries(bus: BusHere) -> None:
    bus.put(*({"n": number} for number in range(10)))
    assert code_of(lambda: bus.put(*({"n": number} for number in range(11)))) == "ValidationException"

"""Announcing: every committed batch is told of at least once under one id, and nothing else is."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from moto import mock_aws

from tests.support.fakes import Died, Life, MemoryEventBus, every_death, play_fencing, play_publishing
from tests.support.faults import answered
from tests.support.ledgers import moto_client
from tests.support.world import World, small_world
from tidegate.aws.bus import EventBridge
from tidegate.core.announcements import DETAIL_TYPE, SOURCE, Announcement
from tidegate.core.batches import Batch, State
from tidegate.core.errors import Retryable
from tidegate.core.outcomes import Outcome, Tally
from tidegate.core.records import OUTBOX
from tidegate.flows import announce as announcing
from tidegate.flows.announce import Unannounced, announce, unannounced
from tidegate.flows.ledger import Ledger
from tidegate.flows.settle import settle_all
from tidegate.metrics import Metric


def committed(world: World, *, prefix: str = "flights/", snapshot: int = 77) -> Batch:
    """A batch that is settled as committed, and not announced yet."""
    batch = world.submitted(prefix=prefix)
    play_publishing(world.work, batch.id, snapshot=snapshot, rows=2)
    assert world.settle() == []
    return world.batch(batch.id)


def waiting(world: World) -> list[str]:
    return [each.batch for each in world.ledger.outbox(1_000)]


def heard(world: World) -> MemoryEventBus:
    assert world.bus is not None
    return world.bus


def look(world: World) -> list[Exception]:
    return settle_all({"flights": world.flights}, world.ports)


def test_a_committed_batch_is_announced_in_the_run_that_committed_it(world: World):
    batch = world.submitted()
    bad = next(iter(f"flights/0000-{number:05}.json" for number in range(3)))
    play_publishing(world.work, batch.id, {bad: (Outcome.QUARANTINED, "no JSON")}, rows=10, snapshot=2**62)
    world.clock.advance(60)
    assert look(world) == []
    (sent,) = heard(world).sent
    table = world.flights.dataset.table
    assert sent == Announcement(
        batch.id, "flights", table, 2**62, Tally(committed=2, quarantined=1, rows=20), world.clock.now
    )
    assert waiting(world) == []
    assert look(world) == []
    assert len(heard(world).sent) == 1


def test_what_a_consumer_is_told():
    event = Announcement("01B", "flights", "lake.air.flights", 2**62, Tally(committed=2, vanished=1, rows=20), 0)
    assert event.detail("prod") == {
        "id": "01B",
        "deployment": "prod",
        "batch": "01B",
        "route": "flights",
        "table": "lake.air.flights",
        # text, because JavaScript would round the number
        "snapshot": str(2**62),
        "uploads": {"committed": 2, "quarantined": 0, "superseded": 0, "vanished": 1, "present": 0},
        "rows": 20,
        "rejected_rows": 0,
        "replaced_rows": 0,
        "left_out_rows": 0,
        "committed_at": "1970-01-01T00:00:00Z",
    }


def test_a_batch_that_was_fenced_is_not_announced(world: World):
    batch = world.submitted()
    play_fencing(world.work, batch.id)
    assert look(world) == []
    assert world.batch(batch.id).state is State.ABANDONED
    assert heard(world).sent == []


def test_a_batch_is_announced_whatever_call_the_process_dies_at():
    def run(life: Life) -> World:
        world = small_world()
        batch = world.submitted()
        play_publishing(world.work, batch.id)
        settle_all({"flights": world.flights}, life.over(world.ports))
        return world

    life = Life()
    run(life)
    assert "send" in life.names
    assert life.names.index("commit") < life.names.index("send") < life.names.index("note_announced")
    for death in every_death(life.made):
        world = small_world()
        batch = world.submitted()
        play_publishing(world.work, batch.id)
        mortal = Life(death.calls, death.after)
        with pytest.raises(Died):
            settle_all({"flights": world.flights}, mortal.over(world.ports))
        for each in heard(world).sent:
            assert world.batch(each.batch).state is State.COMMITTED
        world.clock.advance(60)
        assert look(world) == []
        ids = [each.id for each in heard(world).sent]
        assert ids in ([batch.id], [batch.id] * 2), f"died at {mortal.last}"
        assert waiting(world) == []


def test_twins_send_the_same_event_and_both_go_on(world: World):
    batch = committed(world)
    # the twin is done between this one's reading and its sending
    life = Life(calls=2, before=lambda: announce(world.ports))
    assert announce(life.over(world.ports)) == []
    assert [each.id for each in heard(world).sent] == [batch.id] * 2
    assert waiting(world) == []


def test_a_bus_that_does_not_answer_for_a_day_stops_nothing_and_is_asked_once_a_minute(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    heard(world).broken = True
    for number in range(25):
        batch = world.submitted(prefix=f"flights/{number}-")
        play_publishing(world.work, batch.id)
        world.clock.advance(3_600)
        (trouble,) = look(world)
        assert isinstance(trouble, Retryable)
        assert world.batch(batch.id).state is State.COMMITTED
        assert heard(world).calls == number + 1
    assert len(waiting(world)) == 25
    # a record for each batch, and none of them has grown
    sizes = {len(json.dumps(item, default=str)) for key, item in world.store.items.items() if key.pk == OUTBOX}
    assert max(sizes) < 500
    world.count.values.clear()
    announce(world.ports)
    assert world.count[Metric.OLDEST_UNANNOUNCED_SECONDS] == 24 * 3_600

    heard(world).broken = False
    monkeypatch.setattr(announcing, "AT_A_LOOK", 21)
    before = heard(world).calls
    assert look(world) == []
    assert (len(heard(world).sent), heard(world).calls - before) == (21, 3)
    assert look(world) == []
    assert len({each.id for each in heard(world).sent}) == 25
    assert waiting(world) == []
    # the first of the two looks has sent 21, and the oldest of the others has been waiting for four hours
    assert world.count.values[Metric.OLDEST_UNANNOUNCED_SECONDS, ""] == (24 + 4) * 3_600


def test_trouble_of_the_bus_is_told_and_is_none_of_settling(world: World, monkeypatch: pytest.MonkeyPatch):
    committed(world)
    heard(world).broken = True
    assert len(look(world)) == 1
    assert world.count[Metric.SETTLING_TROUBLES] == 0

    def fails(*_: Any) -> None:
        raise Retryable("the ledger is not to be reached")

    monkeypatch.setattr(Ledger, "outbox", fails)
    assert len(look(world)) == 1
    assert world.count[Metric.SETTLING_TROUBLES] == 1, "what waits could not even be read"


def test_a_person_sees_how_many_wait_and_since_when(world: World, monkeypatch: pytest.MonkeyPatch):
    assert unannounced(world.ports) == Unannounced()
    first = committed(world, prefix="flights/a-")
    world.clock.advance(60)
    committed(world, prefix="flights/b-")
    world.bus = None
    assert unannounced(world.ports) == Unannounced(2, world.batch(first.id).ended_at), "also if nothing is announced"
    for most, more in ((1, True), (2, False)):
        monkeypatch.setattr(announcing, "COUNTED", most)
        found = unannounced(world.ports)
        assert (found.batches, found.more) == (most, more)


def test_what_the_bus_refuses_is_sent_again_and_the_rest_is_done(world: World):
    first, second = (committed(world, prefix=f"flights/{each}-") for each in "ab")
    heard(world).refuses = lambda each: each.batch == first.id
    (trouble,) = announce(world.ports)
    assert str(trouble) == f"could not announce batch {first.id}: InternalFailure; it will be sent again"
    assert waiting(world) == [first.id]
    heard(world).refuses = lambda each: False
    assert announce(world.ports) == []
    assert [each.batch for each in heard(world).sent] == [second.id, first.id]


def test_what_waits_while_announcing_is_off_is_sent_when_it_is_on_again(world: World):
    on = heard(world)
    before = committed(world, prefix="flights/a-")
    world.bus = None
    reads = Life()
    assert announce(reads.over(world.ports)) == []
    assert reads.names == []
    meanwhile = committed(world, prefix="flights/b-")
    assert waiting(world) == [before.id]
    world.bus = on
    assert look(world) == []
    assert [each.batch for each in on.sent] == [before.id]
    assert world.batch(meanwhile.id).state is State.COMMITTED


def test_an_idle_route_costs_one_read_more_for_all_routes_together(world: World):
    settle_all(world.routes, world.ports)
    asked = []
    for bus in (None, world.bus):
        world.bus = bus
        life = Life()
        settle_all(world.routes, life.over(world.ports))
        asked.append(life.names)
    off, on = asked
    assert len(world.routes) == 2
    assert on == [*off, "outbox"]


def test_after_a_restore_the_same_id_is_sent_again(world: World):
    batch = world.submitted()
    earlier = dict(world.store.items)
    play_publishing(world.work, batch.id)
    look(world)
    world.store.items = earlier
    world.clock.advance(5_000)
    look(world)
    first, second = heard(world).sent
    assert first.id == second.id
    assert replace(second, committed_at=first.committed_at) == first


# ---- EventBridge


@pytest.fixture
def queue() -> Iterator[str]:
    """The URL of a queue to which moto's EventBridge delivers every event of Tidegate's."""
    with mock_aws():
        url: str = moto_client("sqs").create_queue(QueueName="heard")["QueueUrl"]
        arn = moto_client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        events = moto_client("events")
        events.put_rule(Name="heard", EventPattern=json.dumps({"source": [SOURCE], "detail-type": [DETAIL_TYPE]}))
        events.put_targets(Rule="heard", Targets=[{"Id": "queue", "Arn": arn["QueueArn"]}])
        yield url


def test_an_event_reaches_a_rule(queue: str):
    sent = [Announcement(f"01B{n}", "flights", "lake.air.flights", n, Tally(rows=n), 60) for n in range(3)]
    assert EventBridge(moto_client("events"), "default", "prod").send(sent) == {}
    told: list[Any] = []
    while batch := moto_client("sqs").receive_message(QueueUrl=queue).get("Messages"):
        for message in batch:
            told.append(json.loads(message["Body"]))
            moto_client("sqs").delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert [each["detail"] for each in sorted(told, key=lambda each: each["detail"]["id"])] == [
        dict(each.detail("prod")) for each in sent
    ]
    assert {(each["source"], each["detail-type"]) for each in told} == {("tidegate", "Batch Committed")}


def test_an_entry_that_is_refused_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    client = moto_client("events")
    entries = [{"EventId": "e"}, {"ErrorCode": "ThrottlingException", "ErrorMessage": "too many"}]
    monkeypatch.setattr(client, "put_events", lambda Entries: {"Entries": entries, "FailedEntryCount": 1})  # noqa: N803
    sent = [Announcement(f"01B{n}", "flights", "lake.air.flights", n, Tally(), 60) for n in range(2)]
    assert EventBridge(client, "default", "prod").send(sent) == {
        "01B1": "bus default answered ThrottlingException: too many"
    }


@mock_aws
def test_events_for_a_bus_that_is_not_there_are_not_sent():
    """PutEvents would take them, and drop them."""
    sent = [Announcement("01B", "flights", "lake.air.flights", 1, Tally(), 60)]
    client = moto_client("events")
    bus = EventBridge(client, "renamed", "prod")
    with pytest.raises(Retryable, match="could not look up bus renamed: ResourceNotFoundException"):
        bus.send(sent)
    client.create_event_bus(Name="renamed")
    assert bus.send(sent) == {}
    client.delete_event_bus(Name="renamed")


def test_a_bus_that_refuses_is_named():
    sent = [Announcement("01B", "flights", "lake.air.flights", 1, Tally(), 60)]
    client = moto_client("events")
    body = {"__type": "AccessDeniedException", "message": "no"}
    told = "could not send 1 events to bus default: AccessDeniedException: no"
    with answered(client, "PutEvents", 400, body), pytest.raises(Retryable, match=told):
        EventBridge(client, "default", "prod").send(sent)

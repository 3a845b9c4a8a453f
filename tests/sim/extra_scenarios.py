"""Worlds for the mistakes that none of `scenarios.py` would show: each has a person in it, or an accident.

Without a fault all of them end well under the product as it is; `bugs.py` says which mistake each of them is for.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from tests.sim.kernel import START
from tests.sim.landing import notification
from tests.sim.s3 import Version
from tests.sim.scenarios import GOOD, MORE, Scenario
from tests.sim.sqs import Queue
from tests.sim.table import Metadata, Stored
from tests.sim.world import World
from tidegate import wiring
from tidegate.core.publication import STAGED_WAP_ID, Snapshot
from tidegate.flows.abort import abort
from tidegate.flows.resume import Resumed

DAY = 86_400
TABLE = "lake.sim.events"
WAP = "write.wap.enabled"


# ---- the same bytes again, in an unversioned bucket


def again_alone(world: World) -> None:
    """An upload is deleted before it is read, and comes again with the same bytes, alone both times."""
    world.upload("b.json", GOOD, bucket="plain")
    world.remove("b.json", bucket="plain", after=6.0)
    world.upload("b.json", GOOD, bucket="plain", after=900.0)


def again_thrice(world: World) -> None:
    """The same, and once more after it has landed: that is no new upload."""
    again_alone(world)
    world.upload("b.json", GOOD, bucket="plain", after=3_000.0)


def again_in_company(world: World) -> None:
    """It comes again right after it was missed, before that can be on record, and a new upload comes with it."""
    world.upload("b.json", GOOD, bucket="plain")
    world.remove("b.json", bucket="plain", after=6.0)
    for name in "bx":
        world.upload(f"{name}.json", GOOD, bucket="plain", after=102.0)


# ---- what S3 says


def eventbridge(world: World) -> None:
    """EventBridge announces the uploads, and encodes no key."""
    _announced_as(world, _eventbridge)
    for name in ("a+b", "50%25"):
        world.upload(f"events/{name}.json", GOOD)


def uneven_sequencers(world: World) -> None:
    """The second sequencer of a key is later, and shorter.

    "The sequencers can be different lengths. To compare these values, right-pad the shorter value with zeros"
    (https://repost.aws/knowledge-center/s3-duplicate-sqs-messages).
    """
    sequencers = iter(("0055AED6DCD90281E5", "0055AED6DCD902A1"))

    def message(version: Version) -> dict[str, Any]:
        said = notification(version)
        said["Records"][0]["s3"]["object"]["sequencer"] = next(sequencers)
        return said

    _announced_as(world, message)
    again_alone(world)


# ---- queues and records that people, and time, take away


def stuck_behind_the_topic(world: World) -> None:
    """The topic takes a notice and cannot deliver it; S3 announces the upload once more a minute later."""
    world.sns.subscribers[:] = [_Blocked(world.notices)]  # type: ignore[list-item]
    world.announce = lambda version: [1.0, 60.0]
    world.upload("events/a.json", GOOD)


def notices_purged(world: World) -> None:
    """A person purges the notices' queue. The claim of what was in it lives on, until it expires. The upload is
    announced again shortly before that, together with a new one, and jobs start slowly that day."""
    world.emr.startup = lambda: 1_000.0
    world.announce = lambda version: [1.0, 100.0] if version.key.endswith("b.json") else [1.0]
    world.upload("events/b.json", GOOD)
    world.upload("events/a.json", GOOD, after=99.0)
    world.kernel.after(50.0, world.notices.messages.clear)

    def age() -> None:
        for (_, pk, _), item in world.dynamodb.items.items():
            if pk.startswith("o#"):
                item["expires_at"] -= 61 * DAY

    world.kernel.after(600.0, age)


def slow_dispatch(world: World) -> None:
    """Dispatch is slow when the second upload comes: the batch that it finds open is sealed before it can register."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=51.0)

    def latency() -> float:
        caller = world.kernel.current
        late = caller is not None and caller.name.startswith("dispatch") and world.kernel.now > START + 50.0
        return 1.0 if late else 0.005

    world.network.latency = latency


def part_mislaid(world: World) -> None:
    """Somebody tidies up in the work bucket, and puts everything back two minutes after the batch was sealed."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=4.0)
    work = world.s3.buckets["work"].current
    taken: dict[str, Version] = {}

    def take() -> None:
        for name in [name for name in work if "/parts/" in name][:1]:
            taken[name] = work.pop(name)

    world.kernel.after(30.0, take)
    world.kernel.after(200.0, lambda: work.update(taken))


# ---- what happens to the table


def history_expired(world: World) -> None:
    """Somebody else's maintenance expires the table's history under a snapshot of its own; later that is undone."""
    world.upload("events/a.json", GOOD)
    expired: dict[int, Stored] = {}

    def expire(metadata: Metadata) -> Metadata:
        expired.update(metadata.snapshots)
        number = next(world.catalog.ids)
        mine = Stored(Snapshot(number, metadata.head, {STAGED_WAP_ID: "maintenance"}), ())
        return replace(metadata, version=metadata.version + 1, head=number, snapshots={number: mine})

    def undo(metadata: Metadata) -> Metadata:
        return replace(metadata, version=metadata.version + 1, snapshots={**expired, **metadata.snapshots})

    world.kernel.after(120.0, lambda: _alter(world, expire))
    world.kernel.after(1_800.0, lambda: _alter(world, undo))


def staging_switched_off(world: World) -> None:
    """Somebody switches `write.wap.enabled` off between two batches, and on again half an hour later."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=210.0)
    world.kernel.after(200.0, lambda: _set_property(world, WAP, "false"))
    world.kernel.after(1_800.0, lambda: _set_property(world, WAP, "true"))


# ---- what people ask for


def aborted(world: World) -> None:
    """A person gives up whatever runs after two minutes. The same bytes come again when everybody has calmed down."""
    world.upload("a.json", GOOD, bucket="plain")

    def give_up() -> None:
        for _, pk, _ in list(world.dynamodb.items):
            if pk.startswith("b#"):
                world.kernel.spawn("person", partial(_abort, pk[2:]))

    world.kernel.after(130.0, give_up)
    world.upload("a.json", GOOD, bucket="plain", after=3_000.0)


EXTRA: dict[str, Scenario] = {
    each.__name__: each
    for each in (
        again_alone,
        again_thrice,
        again_in_company,
        eventbridge,
        uneven_sequencers,
        stuck_behind_the_topic,
        notices_purged,
        slow_dispatch,
        part_mislaid,
        history_expired,
        staging_switched_off,
        aborted,
    )
}


BEYOND = frozenset({"stuck_behind_the_topic", "notices_purged"})
"""Their accident destroys a notice, or makes the ledger forget a claim before its time: outside of what is promised
without an audit. Tidegate gets over it here because nothing else happens, so nothing else is made to happen."""

# ---- means


class _Blocked:
    """A subscription whose first delivery is refused, for good: the topic does not try client-side errors again."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._refused = False

    def send(self, body: str, **options: Any) -> bool:
        if self._refused:
            return self._queue.send(body, **options)
        self._refused = True
        return False


def _announced_as(world: World, message: Callable[[Version], dict[str, Any]]) -> None:
    """S3 announces each upload once, a second later, in this shape."""

    def announce(version: Version) -> list[float]:
        body = json.dumps(message(version))

        def send() -> None:
            world.notified[version.number] = world.notified.get(version.number, 0) + 1
            world.buffer.send(body)
            world.from_buffer.wake()

        world.kernel.after(1.0, send)
        return []

    world.announce = announce


def _eventbridge(version: Version) -> dict[str, Any]:
    described = {
        "key": version.key,
        "size": len(version.body),
        "etag": version.etag,
        "version-id": version.version_id,
        "sequencer": version.sequencer,
    }
    return {
        "detail-type": "Object Created",
        "source": "aws.s3",
        "detail": {"bucket": {"name": version.bucket}, "object": described, "reason": "PutObject"},
    }


def _alter(world: World, change: Callable[[Metadata], Metadata]) -> None:
    if TABLE in world.catalog.tables:
        world.catalog.tables[TABLE] = change(world.catalog.tables[TABLE])


def _set_property(world: World, name: str, value: str) -> None:
    _alter(world, lambda table: replace(table, properties={**table.properties, name: value}))


def _abort(batch: str) -> Resumed:
    return abort(batch, ledger=wiring.application().ledger())

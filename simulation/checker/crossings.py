"""Worlds in which two ways back meet: what is void, released, resent by name, recovered or rolled back, and the same
bytes again. Each shows mistakes that no single way back shows.

Without a fault the product keeps every promise in all of them.
"""

import itertools
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from simulation.checker.accidents import (
    ask_of_each_batch,
    expire_claims,
    first_starts_in,
    of_each_batch,
    release_all,
    upload_each,
)
from simulation.checker.scenarios import BAD, GOOD, MORE
from simulation.world import foreign, letters, people, replayed, resending
from simulation.world.emr import SimulatedJobRun
from simulation.world.kernel import START
from simulation.world.product import deploy
from simulation.world.rebuilt import lose
from simulation.world.sent import claims_pk
from simulation.world.table import Metadata
from simulation.world.world import CONFIG, World
from tidegate.flows.drop_quarantined import is_its_minute

HOUR, DAY = 3_600, 86_400


def void_with_what_came_again(world: World) -> None:
    """An upload vanishes, and the same bytes come again in a notice with a new upload. The topic does not take what
    dispatch sends again. Meanwhile a person audits what was put after those bytes, and the notice becomes void."""
    world.knobs = replace(world.knobs, audit=60.0)
    _vanished(world)
    world.announce = lambda version: [{"b": 3.0, "x": 1.0}.get(version.key[0], 1.0)]
    world.upload("b.json", GOOD, bucket="plain", after=300.0)
    world.upload("x.json", GOOD, bucket="plain", after=302.0)
    world.sns.refuses = lambda: _caller(world) == "dispatch" and 300.0 < world.kernel.now - START < 500.0
    world.kernel.after(450.0, lambda: people.audit(world, since=START + 301.0))


def void_while_it_registers(world: World) -> None:
    """The same, and the audit comes while dispatch is slow with that notice, before it registers."""
    world.knobs = replace(world.knobs, audit=2.0)
    _vanished(world)
    world.announce = lambda version: [{"b": 3.0, "x": 1.0}.get(version.key[0], 1.0)]
    world.upload("b.json", GOOD, bucket="plain", after=300.0)
    world.upload("x.json", GOOD, bucket="plain", after=302.0)

    def latency() -> float:
        return 2.5 if _caller(world) == "dispatch" and 300.0 < world.kernel.now - START < 340.0 else 0.005

    world.network.latency = latency
    for after in range(312, 336, 2):
        world.kernel.after(float(after), lambda: people.audit(world, since=START + 301.0))


def released_and_gone(world: World) -> None:
    """S3 refuses an object until its batch has ended. It is released, and vanishes before it is read. Then the same
    bytes are put again."""
    world.knobs = replace(world.knobs, attempts=1, releases=1)
    _one_refused(world, 400.0)
    release_all(world, 500.0)
    world.remove("b.json", bucket="plain", after=520.0)
    world.upload("b.json", GOOD, bucket="plain", after=1_500.0)


def resent_by_name_and_gone(world: World) -> None:
    """The same, and the person resends the object by its name."""
    world.knobs = replace(world.knobs, attempts=1, releases=1)
    _one_refused(world, 400.0)
    _resend(world, "plain", "b.json", 500.0)
    world.remove("b.json", bucket="plain", after=520.0)
    world.upload("b.json", GOOD, bucket="plain", after=1_500.0)


def resent_by_name_twice_over(world: World) -> None:
    """Three versions of one object, and all of them are refused until their batch has ended. A person resends the
    object by its name, and releases nothing."""
    world.knobs = replace(world.knobs, attempts=1)
    world.asked_for.add(("landing", "events/a.json"))
    world.upload("events/n.json", GOOD)
    for number, body in enumerate((GOOD, MORE, GOOD + MORE)):
        world.upload("events/a.json", body, after=float(number))
    world.refuse("landing", "events/a.json", "AccessDenied", 400.0)
    _resend(world, "landing", "events/a.json", 500.0)


def quarantined_out_of_turn(world: World) -> None:
    """Three batches of a route quarantine a file, and the first one ends last. What the third one quarantined comes
    back."""
    world.knobs = replace(world.knobs, in_flight=3, attempts=1)
    first_starts_in(world, 1_500.0)
    for name, body, after in (("a", BAD, 0.0), ("b", BAD, 150.0), ("c", GOOD, 300.0), ("d", GOOD, 300.0)):
        world.upload(f"events/{name}.json", body, after=after)
    world.refuse("landing", "events/c.json", "AccessDenied", 900.0)
    _resend(world, "landing", "events/c.json", 2_000.0)


def released_while_somebody_looks(world: World) -> None:
    """Two batches have quarantined an object each. The first one comes back. Settling looks for the oldest, and right
    after it has read the claim on the second one, that comes back, too."""
    world.knobs = replace(world.knobs, attempts=1)
    for name, after in (("a", 0.0), ("n", 0.0), ("b", 200.0), ("m", 200.0)):
        world.upload(f"events/{name}.json", GOOD, after=after)
    for name in "ab":
        world.refuse("landing", f"events/{name}.json", "AccessDenied", 900.0)
    _resend(world, "landing", "events/a.json", 1_000.0)
    the_claim = claims_pk("landing", "events/b.json")
    slow: list[float] = []

    def looked(operation: str, asked: Mapping[str, Any]) -> None:
        of_claims = operation == "BatchGetItem" and the_claim in str(asked)
        if of_claims and _caller(world) == "settle" and not slow and world.kernel.now > START + 1_000.0:
            slow.append(world.kernel.now)
            _resend(world, "landing", "events/b.json", 0.1)

    _on_dynamodb(world, looked)
    world.network.latency = lambda: 5.0 if slow and _caller(world) == "settle" else 0.005


def fence_rolled_back(world: World) -> None:
    """The table's history is cut while the first driver works, and a person decides that nothing is in the table. The
    batch is given up. Days later the table is rolled back past the fence, and the first floor is gone for good."""
    world.upload("events/a.json", GOOD)
    world.lasts = 3 * DAY
    drivers = itertools.count(1)

    def begins(run: SimulatedJobRun) -> None:
        if (number := next(drivers)) == 1:
            world.kernel.after(0.1, lambda: foreign.commit(world, foreign.cut))
        elif number == 2:
            world.kernel.after(0.15, lambda: people.give_up(world))
            world.kernel.after(0.2, run.drivers[-1].kill)

    world.emr.on_driver = begins
    world.kernel.after(2 * DAY, lambda: foreign.commit(world, _before_its_fence))


def lost_before_it_registered(world: World) -> None:
    """Dispatch is slow with a notice. The ledger is lost when its upload is claimed and not registered yet."""
    world.lasts = 6_000.0
    world.upload("events/a.json", GOOD)
    world.network.latency = lambda: 1.5 if _caller(world) == "dispatch" and world.kernel.now < START + 60.0 else 0.005
    lose(world, 8.0)


def lost_with_what_came_again(world: World) -> None:
    """An upload vanishes, and the same bytes come again together with a new upload. While they gather, the ledger is
    lost."""
    world.lasts = 6_000.0
    _vanished(world)
    upload_each(world, "bx", plain=True, after=300.0)
    lose(world, 340.0)


def replayed_for_months(world: World) -> None:
    """An upload vanishes, and the same bytes come again. A version lands, one is resent, and one is found by an
    audit. Every notice arrives once more around `claims`, and long after."""
    world.knobs = replace(world.knobs, horizon=70.0 * DAY, replayed=1.0, attempts=1, audit=120.0, releases=1)
    world.lasts = 80.0 * DAY
    _vanished(world)
    world.upload("b.json", GOOD, bucket="plain", after=900.0)
    world.announce = lambda version: [] if version.key == "events/c.json" else [1.0]
    upload_each(world, "acn", after=100.0)
    world.refuse("landing", "events/a.json", "AccessDenied", 800.0)
    _resend(world, "landing", "events/a.json", 1_000.0)
    world.kernel.after(2_000.0, lambda: people.audit(world))
    replayed.begin(world)


def renamed_and_released(world: World) -> None:
    """What a route has quarantined is released after another one took its keys: it goes through that one."""
    world.knobs = replace(world.knobs, attempts=1, releases=1)
    upload_each(world, "ab")
    world.refuse("landing", "events/b.json", "AccessDenied", 400.0)
    world.kernel.after(450.0, partial(deploy, CONFIG.replace('name = "events"', 'name = "things"')))

    def look() -> None:
        batches = [item for _, item in world.dynamodb.items.on("b#") if item["opened_at"] > START + 480.0]
        if {item["route"] for item in batches} != {"things"}:
            world.noticed.append("people: what was released did not go through the route that takes its key today")

    world.kernel.after(1_500.0, look)
    release_all(world, 500.0)


def given_up_in_portions(world: World) -> None:
    """A batch of several notices is given up with its uploads, and a run of settling takes one of its parts only. The
    same bytes of each come again before the fence is published."""
    _in_portions(world)
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)
    upload_each(world, "abcd", plain=True, after=130.0)


def dropped_in_portions(world: World) -> None:
    """A batch of several notices is given up, and its uploads are dropped one part in each run of settling."""
    _in_portions(world)
    world.knobs = replace(world.knobs, resends=True)
    of_each_batch(world, partial(people.drop_one, world), after=100.0)


def resent_in_portions(world: World) -> None:
    """The same, and its uploads are sent again."""
    _in_portions(world)
    of_each_batch(world, partial(people.resend_one_at_once, world), after=100.0)


def dropped_too_late(world: World) -> None:
    """A person gives a batch and its uploads up, and its job publishes it before the fence."""
    first_starts_in(world, 100.0)
    world.upload("a.json", GOOD, bucket="plain")
    of_each_batch(world, partial(people.drop_one, world), after=130.0)


def dropped_without_a_part(world: World) -> None:
    """Somebody deletes one of the parts of a batch that is given up. A person goes on without it, and drops what the
    others list. The part is restored later, and the person drops the rest."""
    _in_portions(world)
    world.lasts = 6_000.0
    world.knobs = replace(world.knobs, resends=True)
    work = world.s3.buckets["work"].current
    taken: dict[str, Any] = {}

    def take() -> None:
        name = min(name for name in work if "/parts/" in name)
        taken[name] = work.pop(name)

    of_each_batch(world, partial(people.drop_one, world), after=100.0)
    world.kernel.after(150.0, take)
    of_each_batch(world, partial(people.drop_without_missing, world), after=2_000.0)
    world.kernel.after(5_000.0, lambda: work.update(taken))
    of_each_batch(world, partial(people.drop_one, world), after=5_100.0)


def released_in_portions(world: World) -> None:
    """S3 refuses three objects until their batch has ended. A person releases all that is in quarantine, one object at
    a time, and nobody releases anything again."""
    world.knobs = replace(world.knobs, small=True, attempts=1)
    upload_each(world, "abcn")
    for name in "abc":
        world.refuse("landing", f"events/{name}.json", "AccessDenied", 900.0)
        world.asked_for.add(("landing", f"events/{name}.json"))
    release_all(world, 1_000.0)


def looked_for_in_portions(world: World) -> None:
    """Three batches quarantine an object each, and all of these come back at once. A run of settling asks about one
    batch only when it looks for the oldest."""
    world.knobs = replace(world.knobs, small=True, attempts=1)
    for name, after in (("a", 0.0), ("b", 250.0), ("c", 500.0)):
        world.upload(f"events/{name}.json", GOOD, after=after)
        world.upload(f"events/{name}n.json", GOOD, after=after)
        world.refuse("landing", f"events/{name}.json", "AccessDenied", 900.0)
    release_all(world, 1_500.0)


def quarantined_again(world: World) -> None:
    """A batch quarantines two broken files. A person resends one of them, which is quarantined once more."""
    for name in "ab":
        world.upload(f"events/{name}.json", BAD)
    _resend(world, "landing", "events/a.json", 500.0)


def resent_in_parts(world: World) -> None:
    """A batch of several notices is given up, and a person resends it by its name, and nobody else does."""
    _in_portions(world)
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)
    world.knobs = replace(world.knobs, resends=True)


def fence_that_halts_is_dropped(world: World) -> None:
    """A batch is given up, and the job of its fence fails, so it halts. Then a person drops its uploads."""
    _in_portions(world)
    world.knobs = replace(world.knobs, attempts=1, resends=True)
    ends = iter((None, 1.0))
    world.emr.cancelled_after = lambda: next(ends, None)
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)
    of_each_batch(world, partial(people.drop_one, world), after=600.0)


def resumed_while_aside(world: World) -> None:
    """Each attempt at a batch fails. It halts and steps aside, and a person resumes it, and later once more."""
    world.knobs = replace(world.knobs, attempts=1, step_aside=600.0)
    world.lasts = 6 * HOUR
    ends = iter((1.0, 1.0))
    world.emr.cancelled_after = lambda: next(ends, None)
    world.upload("events/a.json", GOOD)
    for after in (5_000.0, 10_000.0):
        of_each_batch(world, partial(people.resume_one, world), after=after)


def released_claimed_and_void(world: World) -> None:
    """What was quarantined is released, and dispatch claims it, but cannot write its part. An audit voids that notice
    and sends the upload again."""
    world.knobs = replace(world.knobs, attempts=1, audit=60.0)
    upload_each(world, "ab")
    world.refuse("landing", "events/b.json", "AccessDenied", 400.0)
    world.asked_for.add(("landing", "events/b.json"))
    world.notices.receives = 1
    release_all(world, 500.0)
    world.kernel.after(500.12, lambda: world.s3.closed.update(work="AccessDenied"))
    world.kernel.after(700.0, lambda: people.audit(world))
    world.kernel.after(701.0, world.s3.closed.clear)
    world.kernel.after(900.0, lambda: people.audit(world))


def resent_after_its_claims(world: World) -> None:
    """A batch is given up and resent, and lands. Its claims expire, and a person resends the batch once more. (That
    takes months; here their expiry is set to the past.)"""
    _in_portions(world)
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)
    ask_of_each_batch(world, resending.resend_one_batch, after=1_000.0)
    world.kernel.after(4_000.0, lambda: expire_claims(world))
    ask_of_each_batch(world, resending.resend_one_batch, after=4_100.0)
    world.lasts = 6_000.0


def audited_after_quarantine(world: World) -> None:
    """S3 refuses an object of a bucket without versions until its batch has ended. It was put seconds before its claim,
    and a person audits."""
    world.knobs = replace(world.knobs, attempts=1, audit=60.0)
    _one_refused(world, 1_500.0)
    world.kernel.after(600.0, lambda: people.audit(world))


def slow_with_many(world: World) -> None:
    """Dispatch is so slow that half of its time is over after the first of several notices, which come together."""
    world.knobs = replace(world.knobs, small=True)
    for name in "abc":
        upload_each(world, name)
        upload_each(world, name, plain=True)

    def latency() -> float:
        return 12.0 if _caller(world) == "dispatch" and world.kernel.now < START + 100.0 else 0.005

    world.network.latency = latency


def older_one_found_later(world: World) -> None:
    """S3 announces the second version of an object only, and refuses it. An audit finds the first one, which lands. The
    second one stays in quarantine, for a person."""
    world.knobs = replace(world.knobs, attempts=1, audit=60.0, releases=1)
    world.announce = lambda version: [1.0] if version.number > 1 else []
    world.upload("events/a.json", MORE)
    world.upload("events/a.json", GOOD, after=10.0)
    world.upload("events/n.json", GOOD, after=10.0)
    key = ("landing", "events/a.json")
    world.refuse(*key, "AccessDenied", 400.0)
    world.kernel.after(600.0, lambda: people.audit(world))
    looks = next(at for at in range(3_600, 7_200, 60) if is_its_minute("events", int(START) + at, 60))
    world.lasts = looks + 900.0
    world.upload("events/c.json", GOOD, after=looks - 30.0)


def letters_moved_back(world: World) -> None:
    """What fails once is a dead letter. The topic takes nothing for a while, and then the work bucket does not: a
    notification and a notice of two uploads become dead letters, beside two messages that can never succeed. A person
    moves back what may succeed."""
    world.buffer.receives = world.notices.receives = 1
    for after, body in ((1.0, "nonsense"), (2.0, "no notice")):
        world.kernel.after(after, partial(_arrives, world, body))
    for name, after in (("a", 0.0), ("b", 5.0), ("c", 10.0)):
        world.upload(f"events/{name}.json", GOOD, after=after)
    world.s3.closed["work"] = "AccessDenied"
    world.kernel.after(60.0, world.s3.closed.clear)
    world.sns.refuses = lambda: world.kernel.now < START + 5.0

    def left() -> None:
        for queue, expected in ((world.dead_letters, 0), (world.notices_dead_letters, 2)):
            if len(queue.messages) != expected:
                world.noticed.append(f"people: {len(queue.messages)} letters stay in {queue.name}, not {expected}")

    for after in (3_000.0, 6_000.0):
        world.kernel.after(after, lambda: world.kernel.spawn("person", partial(letters.resend_all, world)))
        world.kernel.after(after + 2_000.0, left)
    world.lasts = 9_000.0


# ---- means


def _vanished(world: World) -> None:
    """Unversioned: an upload is deleted before it is read."""
    world.upload("b.json", GOOD, bucket="plain")
    world.remove("b.json", bucket="plain", after=6.0)


def _one_refused(world: World, seconds: float) -> None:
    """Two uploads to a bucket without versions. S3 refuses the second one for so long."""
    upload_each(world, "ab", plain=True)
    world.refuse("plain", "b.json", "AccessDenied", seconds)


def _in_portions(world: World) -> None:
    """Four uploads, each in a notice of its own. Their job does not start for long."""
    world.knobs = replace(world.knobs, small=True)
    first_starts_in(world, 1_500.0)
    upload_each(world, "abcd", plain=True)


def _resend(world: World, bucket: str, key: str, after: float) -> None:
    act = partial(resending.resend_one_object, bucket, key)
    world.kernel.after(after, lambda: world.kernel.spawn("person", act))


def _arrives(world: World, body: str) -> None:
    world.notices.send(body, group=body, deduplication=body)
    world.from_notices.wake(0.0)


def _caller(world: World) -> str:
    caller = world.kernel.current
    return caller.role if caller else ""


def _on_dynamodb(world: World, told: Any) -> None:
    """`told` is called with each request before it is answered."""
    services: Any = world.network._services
    real = services["dynamodb"]

    def answer(operation: str, asked: Mapping[str, Any]) -> Any:
        told(operation, asked)
        return real(operation, asked)

    services["dynamodb"] = answer


def _before_its_fence(world: World, table: Metadata) -> Metadata:
    """Right before the last fence in its history."""
    for snapshot in table.ancestors():
        if snapshot.summary.get("published-wap-id") and not table.snapshots[snapshot.id].files:
            return table.rolled_back(snapshot.parent) if snapshot.parent in table.snapshots else table
    return table

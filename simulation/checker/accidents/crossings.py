"""Worlds in which two ways back meet: what is void, released, resent by name, recovered or rolled back, and the same
bytes again. Each shows mistakes that no single way back shows.

Without a fault the product keeps every promise in all of them.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from simulation.checker.accidents.scene import DAY, HOUR, RENAMED, Scene, place
from simulation.checker.accidents.tables import given_up_after_a_decision
from simulation.checker.scenarios import BAD, GOOD, MORE
from simulation.world import letters, people, replayed
from simulation.world.kernel import START
from simulation.world.product import deploy
from simulation.world.rebuilt import lose
from simulation.world.sent import claims_pk
from simulation.world.table import Metadata


def void_with_what_came_again(world: Scene) -> None:
    """An upload vanishes, and the same bytes come again in a notice with a new upload. The topic does not take what
    dispatch sends again. Meanwhile a person audits what was put after those bytes, and the notice becomes void."""
    world.turn(audit=60.0)
    _again_with_a_new_one(world)
    world.sns.refuses = lambda: world.is_called_by("dispatch") and 300.0 < world.kernel.now - START < 500.0
    world.at(partial(people.audit, since=START + 301.0), 450.0)


def void_while_it_registers(world: Scene) -> None:
    """The same, and the audit comes while dispatch is slow with that notice, before it registers."""
    world.turn(audit=2.0)
    _again_with_a_new_one(world)
    world.slow_down_dispatch(2.5, since=300.0, until=340.0)
    world.at(partial(people.audit, since=START + 301.0), *map(float, range(312, 336, 2)))


def released_and_gone(world: Scene) -> None:
    """S3 refuses an object until its batch has ended. It is released, and vanishes before it is read. Then the same
    bytes are put again."""
    world.turn(attempts=1, releases=1)
    _one_refused(world, 400.0)
    world.release_all(500.0)
    world.remove("b.json", bucket="plain", after=520.0)
    world.upload_each("b", plain=True, after=1_500.0)


def resent_by_name_and_gone(world: Scene) -> None:
    """The same, and the person resends the object by its name."""
    world.turn(attempts=1, releases=1)
    _one_refused(world, 400.0)
    world.resend_by_name("b", 500.0, plain=True)
    world.remove("b.json", bucket="plain", after=520.0)
    world.upload_each("b", plain=True, after=1_500.0)


def resent_by_name_twice_over(world: Scene) -> None:
    """Three versions of one object, and all of them are refused until their batch has ended. A person resends the
    object by its name, and releases nothing."""
    world.turn(attempts=1)
    world.asked_for.add(place("a"))
    world.upload_each("n")
    for number, body in enumerate((GOOD, MORE, GOOD + MORE)):
        world.upload_each("a", body, after=float(number))
    world.refuse_each("a", 400.0)
    world.resend_by_name("a", 500.0)


def quarantined_out_of_turn(world: Scene) -> None:
    """Three batches of a route quarantine a file, and the first one ends last. What the third one quarantined comes
    back."""
    world.turn(in_flight=3, attempts=1)
    world.first_starts_in(1_500.0)
    for name, body, after in (("a", BAD, 0.0), ("b", BAD, 150.0), ("c", GOOD, 300.0), ("d", GOOD, 300.0)):
        world.upload_each(name, body, after=after)
    world.refuse_each("c", 900.0)
    world.resend_by_name("c", 2_000.0)


def released_while_somebody_looks(world: Scene) -> None:
    """Two batches have quarantined an object each. The first one comes back. Settling looks for the oldest, and right
    after it has read the claim on the second one, that comes back, too."""
    world.turn(attempts=1)
    for name, after in (("a", 0.0), ("n", 0.0), ("b", 200.0), ("m", 200.0)):
        world.upload_each(name, after=after)
    world.refuse_each("ab", 900.0)
    world.resend_by_name("a", 1_000.0)
    the_claim = claims_pk(*place("b"))
    slow: list[float] = []

    def looked(operation: str, asked: Mapping[str, Any]) -> None:
        of_claims = operation == "BatchGetItem" and the_claim in str(asked)
        if of_claims and world.is_called_by("settle") and not slow and world.kernel.now > START + 1_000.0:
            slow.append(world.kernel.now)
            world.resend_by_name("b", 0.1)

    _on_dynamodb(world, looked)
    world.network.latency = lambda: 5.0 if slow and world.is_called_by("settle") else 0.005


def fence_rolled_back(world: Scene) -> None:
    """The table's history is cut while the first driver works, and a person decides that nothing is in the table. The
    batch is given up. Days later the table is rolled back past the fence, and the first floor is gone for good."""
    given_up_after_a_decision(world)
    world.lasts = 3 * DAY
    world.commit(_before_its_fence, 2 * DAY)


def lost_before_it_registered(world: Scene) -> None:
    """Dispatch is slow with a notice. The ledger is lost when its upload is claimed and not registered yet."""
    world.lasts = 6_000.0
    world.upload_each("a")
    world.slow_down_dispatch(1.5, until=60.0)
    lose(world, 8.0)


def lost_with_what_came_again(world: Scene) -> None:
    """An upload vanishes, and the same bytes come again together with a new upload. While they gather, the ledger is
    lost."""
    world.lasts = 6_000.0
    world.vanish()
    world.upload_each("bx", plain=True, after=300.0)
    lose(world, 340.0)


def replayed_for_months(world: Scene) -> None:
    """An upload vanishes, and the same bytes come again. A version lands, one is resent, and one is found by an
    audit. Every notice arrives once more around `claims`, and long after."""
    world.turn(horizon=70.0 * DAY, replayed=1.0, attempts=1, audit=120.0, releases=1)
    world.lasts = 80.0 * DAY
    world.vanish()
    world.upload_each("b", plain=True, after=900.0)
    world.announce = lambda version: [] if version.key == "events/c.json" else [1.0]
    world.upload_each("acn", after=100.0)
    world.refuse_each("a", 800.0)
    world.resend_by_name("a", 1_000.0)
    world.at(people.audit, 2_000.0)
    replayed.begin(world)


def renamed_and_released(world: Scene) -> None:
    """What a route has quarantined is released after another one took its keys: it goes through that one."""
    world.turn(attempts=1, releases=1)
    world.upload_each("ab")
    world.refuse_each("b", 400.0)
    world.kernel.after(450.0, partial(deploy, RENAMED))

    def look() -> None:
        batches = [item for _, item in world.dynamodb.items.on("b#") if item["opened_at"] > START + 480.0]
        if {item["route"] for item in batches} != {"things"}:
            world.noticed.append("people: what was released did not go through the route that takes its key today")

    world.kernel.after(1_500.0, look)
    world.release_all(500.0)


def given_up_in_portions(world: Scene) -> None:
    """A batch of several notices is given up with its uploads, and a run of settling takes one of its parts only. The
    same bytes of each come again before the fence is published."""
    _in_portions(world)
    world.give_up(100.0)
    world.upload_each("abcd", plain=True, after=130.0)


def dropped_in_portions(world: Scene) -> None:
    """A batch of several notices is given up, and its uploads are dropped one part in each run of settling."""
    _in_portions(world)
    world.turn(resends=True)
    world.of_each_batch(people.drop_one, 100.0)


def resent_in_portions(world: Scene) -> None:
    """The same, and its uploads are sent again."""
    _in_portions(world)
    world.of_each_batch(people.resend_one_at_once, 100.0)


def dropped_too_late(world: Scene) -> None:
    """A person gives a batch and its uploads up, and its job publishes it before the fence."""
    world.first_starts_in(100.0)
    world.upload_each("a", plain=True)
    world.of_each_batch(people.drop_one, 130.0)


def dropped_without_a_part(world: Scene) -> None:
    """Somebody deletes one of the parts of a batch that is given up. A person goes on without it, and drops what the
    others list. The part is restored later, and the person drops the rest."""
    _in_portions(world)
    world.lasts = 6_000.0
    world.turn(resends=True)
    world.mislay_part(after=150.0, until=5_000.0)
    world.of_each_batch(people.drop_one, 100.0, 5_100.0)
    world.of_each_batch(people.drop_without_missing, 2_000.0)


def released_in_portions(world: Scene) -> None:
    """S3 refuses three objects until their batch has ended. A person releases all that is in quarantine, one object at
    a time, and nobody releases anything again."""
    world.turn(small=True, attempts=1)
    world.upload_each("abcn")
    for name in "abc":
        world.refuse_each(name, 900.0)
        world.asked_for.add(place(name))
    world.release_all(1_000.0)


def looked_for_in_portions(world: Scene) -> None:
    """Three batches quarantine an object each, and all of these come back at once. A run of settling asks about one
    batch only when it looks for the oldest."""
    world.turn(small=True, attempts=1)
    for name, after in (("a", 0.0), ("b", 250.0), ("c", 500.0)):
        world.upload_each(name, after=after)
        world.upload_each([f"{name}n"], after=after)
        world.refuse_each(name, 900.0)
    world.release_all(1_500.0)


def quarantined_again(world: Scene) -> None:
    """A batch quarantines two broken files. A person resends one of them, which is quarantined once more."""
    world.upload_each("ab", BAD)
    world.resend_by_name("a", 500.0)


def resent_in_parts(world: Scene) -> None:
    """A batch of several notices is given up, and a person resends it by its name, and nobody else does."""
    _in_portions(world)
    world.give_up(100.0)
    world.turn(resends=True)


def fence_that_halts_is_dropped(world: Scene) -> None:
    """A batch is given up, and the job of its fence fails, so it halts. Then a person drops its uploads."""
    _in_portions(world)
    world.turn(attempts=1, resends=True)
    ends = iter((None, 1.0))
    world.emr.cancelled_after = lambda: next(ends, None)
    world.give_up(100.0)
    world.of_each_batch(people.drop_one, 600.0)


def resumed_while_aside(world: Scene) -> None:
    """Each attempt at a batch fails. It halts and steps aside, and a person resumes it, and later once more."""
    world.turn(attempts=1, step_aside=600.0)
    world.lasts = 6 * HOUR
    ends = iter((1.0, 1.0))
    world.emr.cancelled_after = lambda: next(ends, None)
    world.upload_each("a")
    world.of_each_batch(people.resume_one, 5_000.0, 10_000.0)


def released_claimed_and_void(world: Scene) -> None:
    """What was quarantined is released, and dispatch claims it, but cannot write its part. An audit voids that notice
    and sends the upload again."""
    world.turn(attempts=1, audit=60.0)
    world.upload_each("ab")
    world.refuse_each("b", 400.0)
    world.asked_for.add(place("b"))
    world.notices.receives = 1
    world.release_all(500.0)
    world.kernel.after(500.12, lambda: world.s3.closed.update(work="AccessDenied"))
    world.at(people.audit, 700.0)
    world.kernel.after(701.0, world.s3.closed.clear)
    world.at(people.audit, 900.0)


def resent_after_its_claims(world: Scene) -> None:
    """A batch is given up and resent, and lands. Its claims expire, and a person resends the batch once more. (That
    takes months; here their expiry is set to the past.)"""
    _in_portions(world)
    world.give_up(100.0)
    world.resend_each(1_000.0)
    world.expire_claims(4_000.0)
    world.resend_each(4_100.0)
    world.lasts = 6_000.0


def audited_after_quarantine(world: Scene) -> None:
    """S3 refuses an object of a bucket without versions until its batch has ended. It was put seconds before its claim,
    and a person audits."""
    world.turn(attempts=1, audit=60.0)
    _one_refused(world, 1_500.0)
    world.at(people.audit, 600.0)


def slow_with_many(world: Scene) -> None:
    """Dispatch is so slow that half of its time is over after the first of several notices, which come together."""
    world.turn(small=True)
    for name in "abc":
        world.upload_each(name)
        world.upload_each(name, plain=True)
    world.slow_down_dispatch(12.0, until=100.0)


def older_one_found_later(world: Scene) -> None:
    """S3 announces the second version of an object only, and refuses it. An audit finds the first one, which lands. The
    second one stays in quarantine, for a person."""
    world.turn(attempts=1, audit=60.0, releases=1)
    world.announce = lambda version: [1.0] if version.number > 1 else []
    world.upload_each("a", MORE)
    world.upload_each("a", after=10.0)
    world.upload_each("n", after=10.0)
    world.refuse_each("a", 400.0)
    world.at(people.audit, 600.0)
    world.have_settling_look()


def letters_moved_back(world: Scene) -> None:
    """What fails once is a dead letter. The topic takes nothing for a while, and then the work bucket does not: a
    notification and a notice of two uploads become dead letters, beside two messages that can never succeed. A person
    moves back what may succeed."""
    world.buffer.receives = world.notices.receives = 1
    for after, body in ((1.0, "nonsense"), (2.0, "no notice")):
        world.kernel.after(after, partial(_arrives, world, body))
    for name, after in (("a", 0.0), ("b", 5.0), ("c", 10.0)):
        world.upload_each(name, after=after)
    world.s3.closed["work"] = "AccessDenied"
    world.kernel.after(60.0, world.s3.closed.clear)
    world.sns.refuses = lambda: world.kernel.now < START + 5.0

    def left() -> None:
        for queue, expected in ((world.dead_letters, 0), (world.notices_dead_letters, 2)):
            if len(queue.messages) != expected:
                world.noticed.append(f"people: {len(queue.messages)} letters stay in {queue.name}, not {expected}")

    for after in (3_000.0, 6_000.0):
        world.asks(partial(letters.resend_all, world), after)
        world.kernel.after(after + 2_000.0, left)
    world.lasts = 9_000.0


# ---- means


def _again_with_a_new_one(world: Scene) -> None:
    """An upload vanishes, and the same bytes come again in a notice with a new upload."""
    world.vanish()
    world.announce = lambda version: [3.0 if version.key == "b.json" else 1.0]
    world.upload_each("b", plain=True, after=300.0)
    world.upload_each("x", plain=True, after=302.0)


def _one_refused(world: Scene, seconds: float) -> None:
    """Two uploads to a bucket without versions. S3 refuses the second one for so long."""
    world.upload_each("ab", plain=True)
    world.refuse_each("b", seconds, plain=True)


def _in_portions(world: Scene) -> None:
    """Four uploads, each in a notice of its own. Their job does not start for long."""
    world.turn(small=True)
    world.first_starts_in(1_500.0)
    world.upload_each("abcd", plain=True)


def _arrives(world: Scene, body: str) -> None:
    world.notices.send(body, group=body, deduplication=body)
    world.from_notices.wake(0.0)


def _on_dynamodb(world: Scene, told: Any) -> None:
    """`told` is called with each request before it is answered."""
    services: Any = world.network._services
    real = services["dynamodb"]

    def answer(operation: str, asked: Mapping[str, Any]) -> Any:
        told(operation, asked)
        return real(operation, asked)

    services["dynamodb"] = answer


def _before_its_fence(world: Scene, table: Metadata) -> Metadata:
    """Right before the last fence in its history."""
    for snapshot in table.ancestors():
        if snapshot.summary.get("published-wap-id") and not table.snapshots[snapshot.id].files:
            return table.rolled_back(snapshot.parent) if snapshot.parent in table.snapshots else table
    return table

"""What comes again: the same bytes, in a bucket without versions, and what people send again, give up or release."""

from functools import partial

from simulation.checker.accidents.scene import DAY, HOUR, Scene
from simulation.checker.scenarios import BAD, GOOD, MORE, returning
from simulation.world import backfills, people, resending
from simulation.world.kernel import START
from simulation.world.s3 import Version

# ---- the same bytes again


def again_thrice(world: Scene) -> None:
    """An upload is deleted before it is read. The same bytes are uploaded again, and once more after they have landed:
    that is no new upload."""
    returning(world)
    world.upload_each("b", plain=True, after=3_000.0)


def again_in_company(world: Scene) -> None:
    """The same bytes are uploaded again right after the first were found gone, before that is recorded, together with a
    new upload."""
    world.vanish()
    world.upload_each("bx", plain=True, after=102.0)


def again_while_it_is_tried(world: Scene) -> None:
    """The same bytes are uploaded again a quarter of an hour after the first ones, which were not deleted."""
    for after in (0.0, 900.0):
        world.upload_each("a", plain=True, after=after)


def again_twice_at_once(world: Scene) -> None:
    """An upload is deleted before it is read, and the same bytes are uploaded again twice. The notices' queue keeps no
    order, and several notices are handled at once."""
    world.several_at_once()
    returning(world)
    world.upload_each("b", plain=True, after=920.0)


def again_while_it_is_claimed(world: Scene) -> None:
    """The same bytes are uploaded again 20 seconds after the first ones. The notices' queue keeps no order, and several
    notices are handled at once."""
    world.several_at_once()
    for after in (0.0, 20.0):
        world.upload_each("b", plain=True, after=after)


def again_unannounced(world: Scene) -> None:
    """Without versions, the same bytes are put twice within seconds, and S3 announces the first only. A person gives
    its batch up. An audit that compares times cannot tell the second from the first."""
    world.audit_hourly(min_age=1.0)
    puts = iter(([1.0], []))
    world.announce = lambda version: next(puts, [1.0])
    for after in (3.0, 6.0):
        world.upload_each("a", plain=True, after=after)
    world.at(people.give_up, 20.0)


def again_after_memory(world: Scene) -> None:
    """Without versions, the same bytes are put again after a month, and S3 announces that two months late: the ledger
    has forgotten the first by then. To it they are a new upload."""
    world.turn(horizon=90.0 * DAY)
    world.lasts = 90.0 * DAY
    world.announce = lambda version: [1.0] if world.kernel.now < START + DAY else [59.0 * DAY]
    for after in (60.0, 30.0 * DAY):
        world.upload_each("b", plain=True, after=after)


def again_after_a_listing(world: Scene) -> None:
    """Without versions, a person loads what S3 has not announced, and it is deleted before it is read. The same bytes
    are put again a quarter of an hour later, and S3 announces these."""
    world.announce = lambda version: [1.0] if world.kernel.now > START + 600.0 else []
    world.upload_each("b", plain=True)
    world.kernel.after(10.0, lambda: backfills.reload_all(world))
    world.remove("b.json", bucket="plain", after=140.0)
    world.upload_each("b", plain=True, after=900.0)


def uneven_sequencers(world: Scene) -> None:
    """The second sequencer of a key is later, and shorter.

    "The sequencers can be different lengths. To compare these values, right-pad the shorter value with zeros"
    (https://repost.aws/knowledge-center/s3-duplicate-sqs-messages).
    """
    earlier, later = "0055AED6DCD90281E5", "0055AED6DCD902A1"
    world.s3.sequencer_of = lambda number: earlier if world.kernel.now < START + 600.0 else later
    returning(world)


def aborted(world: Scene) -> None:
    """After two minutes a person gives up the submitted batches. The same bytes are uploaded again when everything is
    at rest."""
    world.upload_each("a", plain=True)
    world.give_up(130.0)
    world.upload_each("a", plain=True, after=3_000.0)


def told_while_given_up(world: Scene) -> None:
    """A job does not start for long, and a person gives its batch up. The same bytes are uploaded again before the
    fence is published."""
    world.first_starts_in(1_500.0)
    world.upload_each("a", plain=True)
    world.upload_each("a", plain=True, after=110.0)
    world.give_up(100.0)


def given_up_too_late(world: Scene) -> None:
    """A person gives a batch up, and the same bytes are uploaded again. Then the job publishes the batch before the
    fence."""
    world.first_starts_in(100.0)
    world.upload_each("a", plain=True)
    world.give_up(130.0)
    world.upload_each("a", plain=True, after=140.0)


def given_up_again_and_again(world: Scene) -> None:
    """Unversioned, one key or two, few contents; put, deleted and announced late at random. Twice a person gives up the
    submitted batches. The same bytes are uploaded again when everything is at rest."""
    random = world.kernel.random

    def announce(version: Version) -> list[float]:
        times = random.choices((1, 2, 3), (12, 5, 1))[0]
        return [random.choice((0.2, 1.0, 5.0, 70.0, 150.0, 300.0, 700.0)) for _ in range(times)]

    world.announce = announce
    when = 0.0
    for _ in range(random.randrange(3, 9)):
        key = random.choice(("a.json", "a.json", "b.json"))
        when += random.choice((0.5, 3.0, 30.0, 60.0, 95.0, 120.0, 200.0, 600.0))
        if random.random() < 0.35:
            world.remove(key, bucket="plain", after=when)
        else:
            world.upload(key, random.choice((GOOD, GOOD, MORE, BAD)), bucket="plain", after=when)

    world.give_up(*(random.uniform(50, when + 200) for _ in range(2)))
    world.upload_each("ab", plain=True, after=40_000.0)
    world.lasts = 40_000.0


# ---- given up


def given_up_for_a_day(world: Scene) -> None:
    """A job does not start for more than a day, and a person gives its batch up after two minutes."""
    world.first_starts_in(30 * HOUR)
    world.lasts = 30 * HOUR
    world.upload_each("a")
    world.give_up(100.0)


def given_up_by_two(world: Scene) -> None:
    """Two people give up the same batch at once."""
    world.upload_each("a")
    world.give_up(90.0, 90.0)


def given_up_while_it_gathers(world: Scene) -> None:
    """A person gives up a batch that is still open. The next upload joins another batch."""
    world.upload_each("a")
    world.give_up(20.0)
    world.upload_each("b", after=30.0)


def resumed_in_passing(world: Scene) -> None:
    """A person resumes a batch whose job runs."""
    world.upload_each("a")
    world.of_each_batch(people.resume_one, 90.0)


# ---- resent and dropped


def _late(world: Scene, names: str, *, plain: bool = False, after: float = 0.0) -> None:
    """The job of these uploads does not start for long."""
    world.first_starts_in(1_500.0)
    world.upload_each(names, plain=plain, after=after)


def resent(world: Scene) -> None:
    """A job does not start for long, and a person gives its batch up. The person on call resends it."""
    world.turn(resends=True)
    _late(world, "ab")
    world.give_up(100.0)


def resent_again(world: Scene) -> None:
    """The same, and two other people resend it too: at once, and when its uploads have landed."""
    resent(world)
    world.resend_each(1_700.0, 1_700.0, 3_000.0)


def resent_at_once(world: Scene) -> None:
    """A person gives up a batch and has its uploads sent again, in one command. Nobody else resends anything."""
    _late(world, "ab")
    world.of_each_batch(people.resend_one_at_once, 100.0)


def resent_in_passing(world: Scene) -> None:
    """A person resends a batch whose job runs, against the runbook, and again when it is in the table."""
    world.upload_each("ab")
    world.resend_each(90.0, 300.0)


def resent_by_name_in_passing(world: Scene) -> None:
    """The same with the batch's objects, by two people at once. The notices' queue keeps no order, and several notices
    are handled at once."""
    world.several_at_once()
    for name in "ab":
        world.upload_each(name)
        world.resend_by_name(name, 90.0, 90.0, 300.0)


def dropped(world: Scene) -> None:
    """A job does not start for long, and a person gives its batch and its uploads up. The person on call resends what
    others have given up. One upload is put again when everything is at rest, in a bucket without versions."""
    world.turn(resends=True)
    _late(world, "ab", plain=True)
    world.of_each_batch(people.drop_one, 100.0)
    world.upload_each("a", plain=True, after=3_000.0)


def dropped_and_audited(world: Scene) -> None:
    """A person gives up a batch with its uploads, and the schedule audits the bucket."""
    world.audit_hourly(min_age=600.0)
    world.turn(resends=True)
    _late(world, "ab", after=10.0)
    world.of_each_batch(people.drop_one, 110.0)


def dropped_and_resent(world: Scene) -> None:
    """The same without the last upload, and others resend what is being dropped. The notices' queue keeps no order,
    and several notices are handled at once."""
    world.turn(resends=True)
    world.several_at_once()
    _late(world, "abc")
    world.give_up(100.0)
    # settling carries it out at the full minute
    world.of_each_batch(people.drop_one, 590.0)
    world.resend_each(599.93, 600.02)


def resent_and_dropped(world: Scene) -> None:
    """A person resends an abandoned batch, and another one gives its uploads up when they are gathered anew."""
    world.turn(resends=True)
    _late(world, "ab")
    world.give_up(100.0)

    def first(world: Scene) -> str:
        return min(pk[2:] for (_, pk, _), _ in world.dynamodb.items.on("b#"))

    world.at(lambda world: world.asks(partial(resending.resend_one_batch, first(world)), 0.0), 590.0)
    world.at(lambda world: people.drop_one(world, first(world)), 595.0)


# ---- released


def released(world: Scene) -> None:
    """S3 refuses an object until its batch has ended, and one file is broken. The person on call releases both."""
    world.turn(attempts=1, releases=1)
    world.upload_each("ab")
    world.upload_each("c", BAD)
    world.refuse_each("b", 400.0)


def released_page_by_page(world: Scene) -> None:
    """Two batches of a route quarantine a file, and a page has one item."""
    world.turn(attempts=1, releases=1)
    world.s3.page = world.dynamodb.page = 1
    world.upload_each("c", BAD)
    world.upload_each("ab", after=100.0)
    world.refuse_each("b", 600.0)


def released_by_two(world: Scene) -> None:
    """S3 refuses an object for a while, and one file is broken. Two other people release both at once, and again a
    minute later. The notices' queue keeps no order, and several notices are handled at once."""
    world.several_at_once()
    released(world)
    world.release_all(500.0, 500.0, 560.0)


def released_from_two_snapshots(world: Scene) -> None:
    """S3 refuses an object to the first driver of a run, and hands it out to the second one, which stages it. The first
    one publishes. The person on call releases the object."""
    world.turn(attempts=1, releases=1)
    world.emr.twin_after = lambda: 0.06
    world.upload_each("ab")
    world.as_each_driver_begins(lambda number, run: number == 1 and world.refuse_each("b", 0.15))

"""What S3 says, how AWS answers, and what becomes of messages, records and jobs."""

import datetime
import itertools
import json
from dataclasses import replace
from functools import partial
from typing import Any

from simulation.checker.accidents.people import aborted
from simulation.checker.accidents.scene import HOUR, Scene
from simulation.checker.scenarios import ALL_BAD, BAD, GOOD, MORE
from simulation.world import backfills, letters, resending
from simulation.world.configs import configured
from simulation.world.driver import DEADLY
from simulation.world.expiring import expire
from simulation.world.kernel import START
from simulation.world.product import deploy
from simulation.world.s3 import MARKER, Version
from simulation.world.sqs import Queue
from simulation.world.world import CONFIG, World

# ---- what S3 says


def eventbridge(world: Scene) -> None:
    """EventBridge announces the uploads, once each and a second later, with keys that are not encoded."""

    def announce(version: Version) -> list[float]:
        body = json.dumps(_eventbridge(version))

        def send() -> None:
            world.notified[version.number] = world.notified.get(version.number, 0) + 1
            world.buffer.send(body)
            world.from_buffer.wake()

        world.kernel.after(1.0, send)
        return []

    world.announce = announce
    for name in ("a+b", "50%25"):
        world.upload(f"events/{name}.json", GOOD)


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
        "time": datetime.datetime.fromtimestamp(version.at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": {"bucket": {"name": version.bucket}, "object": described, "reason": "PutObject"},
    }


def strange_records(world: Scene) -> None:
    """Messages of S3's have records besides that cannot be read or that no route takes, before and after those of the
    uploads. One message waits among the dead letters until a person looks."""
    kinds = itertools.cycle(("before of no route", "before unreadable", "after of no route", "after unreadable"))
    world.turn(strange=1.0)
    world.strange = lambda: next(kinds)
    world.bundled = lambda: 0.5
    for number in range(4):
        world.upload_each(str(number), after=30.0 * number)
    world.upload_each("4", after=HOUR)
    # nothing takes the last message, until it is a dead letter
    world.kernel.after(HOUR - 10, lambda: setattr(world.from_buffer, "enabled", False))

    def set_aside() -> None:
        for message in list(world.buffer.messages.values()):
            del world.buffer.messages[message.id]
            world.dead_letters.send(message.body)
        world.from_buffer.enabled = True
        world.kernel.spawn("person", lambda: letters.resend_all(world))

    world.lasts = HOUR + 120.0
    world.kernel.after(HOUR + 60, set_aside)


# ---- what is in an object, and who may read it


def unended(world: Scene) -> None:
    """The last line of a file has no line break."""
    world.upload_each("a", GOOD.rstrip())


def refused_for_a_while(world: Scene) -> None:
    """The KMS key of one object is disabled, and enabled again later."""
    world.upload_each("ab")
    world.refuse_each("b", 120.0)


def a_file_that_kills_its_reader(world: Scene) -> None:
    """One file of three kills each process that decodes it. Attempts end before anybody must help."""
    for name, body in (("a", GOOD), ("b", DEADLY), ("c", MORE)):
        world.upload_each(name, body)


def _sets_aside(world: Scene) -> None:
    """The route sets rows aside that do not fit."""
    world.sets_aside = True
    asked = 'format = "json"\nbad_rows_share = 1.0'
    world.kernel.after(0.0, lambda: deploy(CONFIG.replace('format = "json"', asked)))


def bad_rows(world: Scene) -> None:
    """Two batches, each with a file that has a bad row, beside one without, and one that has no other row."""
    _sets_aside(world)
    for name, body in (("a", GOOD), ("b", BAD), ("c", ALL_BAD)):
        world.upload_each(name, body)
    world.upload_each("d", BAD, after=95.0)


def bad_rows_and_twins(world: Scene) -> None:
    """Each job run has a second driver, a moment after the first."""
    _sets_aside(world)
    world.emr.twin_after = lambda: 0.06
    world.upload_each("a", BAD)


def bad_rows_given_up(world: Scene) -> None:
    """A person gives a batch up whose driver is slow: the driver comes before the fence, or after it."""
    _sets_aside(world)
    world.first_starts_in(100.0)
    world.upload_each("a", BAD, plain=True)
    world.give_up(130.0)


def corrected_in_place(world: Scene) -> None:
    """The route replaces. A file is corrected, and its first version is announced once more when both have landed. Of
    another one the later version comes first. Of a third one two versions come together, and then one that is broken,
    and one that is sent by an audit."""
    world.turn(replaces=True)
    world.audit_hourly(min_age=1_800.0)
    waits = {"a": [1.0, 2_000.0], "b": [600.0], "d": []}
    world.announce = lambda version: waits.get(version.key[-6], [1.0]) if version.body == GOOD else [1.0]
    world.upload_each("a")
    world.upload_each("a", MORE, after=200.0)
    world.upload_each("b", after=201.0)
    world.upload_each("b", MORE, after=202.0)
    world.upload_each("c", after=203.0)
    world.upload_each("c", MORE, after=204.0)
    world.upload_each("c", BAD, after=900.0)
    world.upload_each("d", after=1_000.0)
    world.upload_each("d", MORE, after=1_001.0)


def deleted_in_place(world: Scene) -> None:
    """The route removes what is deleted. A file is deleted after it has landed; another one's deletion is announced
    first. A third one is deleted at once, and put again. Of a fourth one's deletion nobody hears: an audit sends it."""
    world.turn(replaces=True, removes=True)
    world.audit_hourly(min_age=1_800.0)
    waits = {("b", False): [700.0], ("d", True): []}
    world.announce = lambda version: waits.get((version.key[-6], version.how == MARKER), [1.0])
    for name, put, deleted in (("a", 0.0, 200.0), ("b", 201.0, 203.0), ("c", 201.0, 204.0), ("d", 0.0, 600.0)):
        world.upload_each(name, after=put)
        world.remove(f"events/{name}.json", bucket="landing", after=deleted)
    world.upload_each("c", MORE, after=206.0)


def same_bytes_skipped(world: Scene) -> None:
    """The route skips the same bytes. A file comes again when it has landed, and again with others between. Another one
    comes twice at once, and of a third one the later version is announced first. A fourth one is broken both times."""
    world.turn(skips=True)
    world.audit_hourly(min_age=1_800.0)
    waits = {"c": [600.0, 1.0]}
    world.announce = lambda version: [waits[version.key[-6]].pop(0)] if waits.get(version.key[-6]) else [1.0]
    world.upload_each("ac")
    world.upload_each("bbcd", after=201.0)
    world.upload_each("d", BAD, after=202.0)
    world.upload_each("a", after=400.0)
    world.upload_each("a", MORE, after=600.0)
    world.upload_each("a", after=800.0)
    world.upload_each("dd", BAD, after=801.0)


def same_bytes_expired(world: Scene) -> None:
    """The route skips the same bytes, and what is not current expires soon after. The same file comes again and again,
    twice at once in between."""
    world.turn(skips=True)
    for after in (800.0, 1_500.0, 2_400.0, 2_900.0):
        world.kernel.after(after, lambda: expire(world))
    for name, after in (("a", 0.0), ("a", 200.0), ("a", 1_000.0), ("aa", 1_600.0), ("a", 3_000.0)):
        world.upload_each(name, after=after)


def same_bytes_reloaded(world: Scene) -> None:
    """The route skips the same bytes, and the version with the rows expires. The next one takes its place by a reload,
    and is reloaded once more."""

    def reload_the_last(_: World) -> None:
        last = max(pk[2:] for (_, pk, _), _ in world.dynamodb.items.on("b#"))
        world.kernel.spawn("person", partial(resending.reload_one_batch, last))

    world.turn(skips=True)
    world.upload_each("a")
    world.upload_each("a", after=200.0)
    world.kernel.after(800.0, lambda: expire(world))
    world.at(reload_the_last, 900.0, 2_000.0)


def reloaded_in_place(world: Scene) -> None:
    """Two people reload what has landed, batch by batch, and then all of it at once, while a new file comes. One file
    was corrected, and both of its versions have rows."""
    world.upload_each("ab")
    world.upload_each("a", MORE, after=200.0)
    for after in (400.0, 401.0):
        world.kernel.after(after, lambda: backfills.reload_batches(world))
    world.upload_each("c", after=410.0)
    for after in (900.0, 901.0):
        world.kernel.after(after, lambda: backfills.reload_all(world))


# ---- how AWS answers


def refused_beside(world: Scene) -> None:
    """The topic accepts one message of a batch, and refuses another."""
    answers = iter((False, True))
    world.sns.refuses = lambda: next(answers, False)
    world.upload_each("a", plain=True)
    world.upload_each("a")


def one_at_a_time(world: Scene) -> None:
    """A page has one key or item, and BatchGetItem returns one item at a time. A route gets another name while a batch
    of it gathers."""
    world.s3.page = world.dynamodb.page = 1
    world.dynamodb.holds_back = lambda: True
    world.upload_each("a")
    world.upload_each("a", plain=True, after=62.0)
    world.upload_each("b", MORE, plain=True, after=66.0)
    world.kernel.after(90.0, lambda: deploy(CONFIG.replace('name = "plain"', 'name = "other"')))


def claims_together(world: Scene) -> None:
    """The claims of a notice are inserted together. Three uploads are announced at once, two of them once more with a
    fourth one, and three again when all have landed. Of the first three inserts one fails, and one has been carried out
    though its answer is an error."""
    world.turn(inserted=True)
    failures = iter([("ThrottlingError", False), ("", True), ("InternalServerError", True)])
    world.dynamodb.fails = lambda: next(failures, ("", True))
    times = {"a": [1.0, 2_000.0], "b": [1.0, 60.0], "c": [1.0, 60.0, 2_000.0], "d": [60.0, 2_000.0]}
    world.announce = lambda version: times[version.key[-6]]
    world.upload_each("abcd")


def in_lanes(world: Scene) -> None:
    """A route has four lanes, and several functions claim its uploads at once. All uploads are announced again when the
    route has two lanes, and all of these notices arrive together."""
    world.turn(lanes=4, small=True)
    world.from_notices.concurrency, world.from_notices.batch_size = 4, 1
    world.announce = lambda version: [1.0, 12.0 if version.key < "events/d" else 16.0]
    world.sns.delay = lambda: max(0.05, START + 40.0 - world.kernel.now)
    world.upload_each("abcdef")
    world.kernel.after(10.0, lambda: deploy(configured(replace(world.knobs, lanes=2))))


def replicas_behind(world: Scene) -> None:
    """Reads without `ConsistentRead` return the state of five seconds ago. Uploads are announced twice. One comes right
    after the first one, one right before their batch is sealed, and one while the job runs. A setting is changed
    shortly before a run of settle that another one follows at once."""
    world.dynamodb.behind = lambda: 5.0
    world.emr.startup = lambda: 57.0
    world.announce = lambda version: [1.0, 4.0]
    for name, after in (("a", 0.0), ("b", 3.5), ("c", 54.0), ("d", 95.0)):
        world.upload_each(name, after=after)
    changed = CONFIG.replace('format = "json"', 'format = "json"\nmax_object_bytes = 1000000')
    world.kernel.after(110.0, lambda: deploy(changed))


# ---- queues and records that people, and time, take away


class _Blocked:
    """A subscription that refuses its first delivery. The topic does not retry client-side errors."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._refused = False

    def send(self, body: str, **options: Any) -> bool:
        if self._refused:
            return self._queue.send(body, **options)
        self._refused = True
        return False


def stuck_behind_the_topic(world: Scene) -> None:
    """The topic accepts a notice and cannot deliver it. S3 announces the upload again a minute later."""
    world.sns.subscribers[:] = [_Blocked(world.notices)]  # type: ignore[list-item]
    world.announce = lambda version: [1.0, 60.0]
    world.upload_each("a")


def notices_purged(world: Scene) -> None:
    """A person purges the notices' queue. The claim of the purged notice stays until it expires. The upload is
    announced again shortly before that, together with a new one, and jobs start slowly."""
    world.emr.startup = lambda: 1_000.0
    world.announce = lambda version: [1.0, 100.0] if version.key.endswith("b.json") else [1.0]
    world.upload_each("b")
    world.upload_each("a", after=99.0)
    world.kernel.after(50.0, world.notices.messages.clear)
    world.make_older("o#", 61, after=600.0)


def slow_dispatch(world: Scene) -> None:
    """Dispatch is slow with the second upload: the batch that it found open is sealed before it registers."""
    world.upload_each("a")
    world.upload_each("b", MORE, after=50.0)
    world.slow_down_dispatch(1.0, since=49.0)


def part_mislaid(world: Scene) -> None:
    """A person deletes a part from the work bucket, and puts it back two minutes after the batch was sealed."""
    world.upload_each("a")
    world.upload_each("b", MORE, after=4.0)
    world.mislay_part(after=30.0, until=200.0)


def a_job_that_takes_days(world: Scene) -> None:
    """The first job does not start for more than a day. Uploads gather behind it, and the records of its notices
    expire. (That takes months; here their expiry is set to the past.)"""
    world.first_starts_in(27 * HOUR)
    world.lasts = 27 * HOUR
    world.upload_each("a")
    world.upload_each("b", MORE, after=200.0)
    world.make_older("n#", 62, after=26 * HOUR)


def a_second_job_that_is_slow(world: Scene) -> None:
    """A second job takes three quarters of an hour to start."""
    startups = iter((40.0, 2_700.0))
    world.emr.startup = lambda: next(startups, 40.0)
    world.upload_each("a")


def late_at_the_second(world: Scene) -> None:
    """An upload comes just before the late request of the first one is applied."""
    world.upload_each("a")
    world.upload_each("b", MORE, after=1_498.0)


# ---- announced


def announced(world: Scene) -> None:
    """Two batches one after the other, with a broken file. EventBridge refuses the first entry that it gets, and the
    same one from a twin: two runs of settling meet there, and send the same two."""
    world.turn(announced=True)
    refusals = iter([True, False, True])
    world.eventbridge.refuses = lambda: next(refusals, False)
    world.upload_each("a")
    world.upload_each("b", BAD)
    world.upload_each("a", MORE, plain=True)
    world.upload_each("c", MORE, after=95.0)


def announced_and_given_up(world: Scene) -> None:
    """One batch is given up, another one is committed."""
    world.turn(announced=True)
    aborted(world)


# ---- workers


def one_worker(world: Scene) -> None:
    """The batches of two routes are due at once, and one worker takes both. A second batch of the first route comes
    while it waits for one."""
    world.turn(stay=20, max_wait=1)
    world.upload_each("a")
    world.upload_each("p", plain=True)
    world.upload_each("b", MORE, after=75.0)

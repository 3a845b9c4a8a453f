"""Worlds for the mistakes that the scenarios of `scenarios.py` do not show. Each has a person or an accident.

Without a fault the product keeps every promise in all of them. `bugs.py` names the mistakes that each one shows.
"""

import datetime
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from inspect import isfunction
from typing import Any

from simulation.checker import crossings
from simulation.checker.accidents import (
    ask_of_each_batch,
    expire_claims,
    first_starts_in,
    release_all,
    several_at_once,
    upload_each,
)
from simulation.checker.scenarios import ALL_BAD, BAD, CORE, GOOD, MORE, Scenario
from simulation.world import audits, backfills, foreign, letters, maintaining, people, resending, rolling_back
from simulation.world.configs import configured
from simulation.world.driver import DEADLY
from simulation.world.emr import SimulatedJobRun
from simulation.world.kernel import START
from simulation.world.knobs import Knobs
from simulation.world.product import deploy
from simulation.world.rebuilt import lose
from simulation.world.s3 import Version
from simulation.world.sqs import Queue
from simulation.world.table import Metadata, Stored
from simulation.world.world import CONFIG, World
from tidegate import wiring
from tidegate.core.records import WHOLE
from tidegate.flows.drop_quarantined import is_its_minute
from tidegate.flows.resume import Resumed, resume
from tidegate.sinks.iceberg.marks import IcebergSnapshot

HOUR, DAY = 3_600, 86_400
TABLE = "lake.sim.events"


# ---- the same bytes again, in an unversioned bucket


def again_alone(world: World) -> None:
    """An upload is deleted before it is read, and the same bytes are uploaded again. It is alone in its notice both
    times."""
    world.upload("b.json", GOOD, bucket="plain")
    world.remove("b.json", bucket="plain", after=6.0)
    world.upload("b.json", GOOD, bucket="plain", after=900.0)


def again_thrice(world: World) -> None:
    """The same, and once more after it has landed: that is no new upload."""
    again_alone(world)
    world.upload("b.json", GOOD, bucket="plain", after=3_000.0)


def again_in_company(world: World) -> None:
    """The same bytes are uploaded again right after the first were found gone, before that is recorded, together with a
    new upload."""
    world.upload("b.json", GOOD, bucket="plain")
    world.remove("b.json", bucket="plain", after=6.0)
    upload_each(world, "bx", plain=True, after=102.0)


def again_while_it_is_tried(world: World) -> None:
    """The same bytes are uploaded again a quarter of an hour after the first ones, which were not deleted."""
    for after in (0.0, 900.0):
        world.upload("a.json", GOOD, bucket="plain", after=after)


def again_twice_at_once(world: World) -> None:
    """An upload is deleted before it is read, and the same bytes are uploaded again twice. The notices' queue keeps no
    order, and several notices are handled at once."""
    several_at_once(world)
    again_alone(world)
    world.upload("b.json", GOOD, bucket="plain", after=920.0)


def again_while_it_is_claimed(world: World) -> None:
    """The same bytes are uploaded again 20 seconds after the first ones. The notices' queue keeps no order, and several
    notices are handled at once."""
    several_at_once(world)
    for after in (0.0, 20.0):
        world.upload("b.json", GOOD, bucket="plain", after=after)


# ---- what S3 says


def eventbridge(world: World) -> None:
    """EventBridge announces the uploads, with keys that are not encoded."""
    _announced_as(world, _eventbridge)
    for name in ("a+b", "50%25"):
        world.upload(f"events/{name}.json", GOOD)


def uneven_sequencers(world: World) -> None:
    """The second sequencer of a key is later, and shorter.

    "The sequencers can be different lengths. To compare these values, right-pad the shorter value with zeros"
    (https://repost.aws/knowledge-center/s3-duplicate-sqs-messages).
    """
    earlier, later = "0055AED6DCD90281E5", "0055AED6DCD902A1"
    world.s3.sequencer_of = lambda number: earlier if world.kernel.now < START + 600.0 else later
    again_alone(world)


# ---- what is in an object, and who may read it


def strange_records(world: World) -> None:
    """Messages of S3's have records besides that cannot be read or that no route takes, before and after those of the
    uploads. One message waits among the dead letters until a person looks."""
    kinds = itertools.cycle(("before of no route", "before unreadable", "after of no route", "after unreadable"))
    world.knobs = replace(world.knobs, strange=1.0)
    world.strange = lambda: next(kinds)
    world.bundled = lambda: 0.5
    for number in range(4):
        world.upload(f"events/{number}.json", GOOD, after=30.0 * number)
    world.upload("events/4.json", GOOD, after=HOUR)
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


def unended(world: World) -> None:
    """The last line of a file has no line break."""
    world.upload("events/a.json", GOOD.rstrip())


def refused_for_a_while(world: World) -> None:
    """The KMS key of one object is disabled, and enabled again later."""
    upload_each(world, "ab")
    world.refuse("landing", "events/b.json", "AccessDenied", 120.0)


# ---- how AWS answers


def refused_beside(world: World) -> None:
    """The topic accepts one message of a batch, and refuses another."""
    answers = iter((False, True))
    world.sns.refuses = lambda: next(answers, False)
    world.upload("a.json", GOOD, bucket="plain")
    world.upload("events/a.json", GOOD)


def one_at_a_time(world: World) -> None:
    """A page has one key or item, and BatchGetItem returns one item at a time. A route gets another name while a batch
    of it gathers."""
    world.s3.page = world.dynamodb.page = 1
    world.dynamodb.holds_back = lambda: True
    world.upload("events/a.json", GOOD)
    world.upload("a.json", GOOD, bucket="plain", after=62.0)
    world.upload("b.json", MORE, bucket="plain", after=66.0)
    world.kernel.after(90.0, lambda: deploy(CONFIG.replace('name = "plain"', 'name = "other"')))


def claims_together(world: World) -> None:
    """The claims of a notice are inserted together. Three uploads are announced at once, two of them once more with a
    fourth one, and three again when all have landed. Of the first three inserts one fails, and one has been carried out
    though its answer is an error."""
    world.knobs = replace(world.knobs, inserted=True)
    failures = iter([("ThrottlingError", False), ("", True), ("InternalServerError", True)])
    world.dynamodb.fails = lambda: next(failures, ("", True))
    times = {"a": [1.0, 2_000.0], "b": [1.0, 60.0], "c": [1.0, 60.0, 2_000.0], "d": [60.0, 2_000.0]}
    world.announce = lambda version: times[version.key[-6]]
    for name in times:
        world.upload(f"events/{name}.json", GOOD)


def in_lanes(world: World) -> None:
    """A route has four lanes, and several functions claim its uploads at once. All uploads are announced again when the
    route has two lanes, and all of these notices arrive together."""
    world.knobs = replace(world.knobs, lanes=4, small=True)
    world.from_notices.concurrency, world.from_notices.batch_size = 4, 1
    world.announce = lambda version: [1.0, 12.0 if version.key < "events/d" else 16.0]
    world.sns.delay = lambda: max(0.05, START + 40.0 - world.kernel.now)
    upload_each(world, "abcdef")
    world.kernel.after(10.0, lambda: deploy(configured(replace(world.knobs, lanes=2))))


def replicas_behind(world: World) -> None:
    """Reads without `ConsistentRead` return the state of five seconds ago. Uploads are announced twice. One comes right
    after the first one, one right before their batch is sealed, and one while the job runs. A setting is changed
    shortly before a run of settle that another one follows at once."""
    world.dynamodb.behind = lambda: 5.0
    world.emr.startup = lambda: 57.0
    world.announce = lambda version: [1.0, 4.0]
    for name, after in (("a", 0.0), ("b", 3.5), ("c", 54.0), ("d", 95.0)):
        world.upload(f"events/{name}.json", GOOD, after=after)
    changed = CONFIG.replace('format = "json"', 'format = "json"\nmax_object_bytes = 1000000')
    world.kernel.after(110.0, lambda: deploy(changed))


# ---- queues and records that people, and time, take away


def stuck_behind_the_topic(world: World) -> None:
    """The topic accepts a notice and cannot deliver it. S3 announces the upload again a minute later."""
    world.sns.subscribers[:] = [_Blocked(world.notices)]  # type: ignore[list-item]
    world.announce = lambda version: [1.0, 60.0]
    world.upload("events/a.json", GOOD)


def notices_purged(world: World) -> None:
    """A person purges the notices' queue. The claim of the purged notice stays until it expires. The upload is
    announced again shortly before that, together with a new one, and jobs start slowly."""
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
    """Dispatch is slow with the second upload: the batch that it found open is sealed before it registers."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=50.0)

    def latency() -> float:
        caller = world.kernel.current
        late = caller is not None and caller.name.startswith("dispatch") and world.kernel.now > START + 49.0
        return 1.0 if late else 0.005

    world.network.latency = latency


def part_mislaid(world: World) -> None:
    """A person deletes a part from the work bucket, and puts it back two minutes after the batch was sealed."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=4.0)
    work = world.s3.buckets["work"].current
    taken: dict[str, Version] = {}

    def take() -> None:
        for name in [name for name in work if "/parts/" in name][:1]:
            taken[name] = work.pop(name)

    world.kernel.after(30.0, take)
    world.kernel.after(200.0, lambda: work.update(taken))


def a_job_that_takes_days(world: World) -> None:
    """The first job does not start for more than a day. Uploads gather behind it, and the records of its notices
    expire. (That takes months; here their expiry is set to the past.)"""
    first_starts_in(world, 27 * HOUR)
    world.lasts = 27 * HOUR
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=200.0)

    def age() -> None:
        for (_, pk, _), item in world.dynamodb.items.items():
            if pk.startswith("n#"):
                item["expires_at"] -= 62 * DAY

    world.kernel.after(26 * HOUR, age)


def a_second_job_that_is_slow(world: World) -> None:
    """A second job takes three quarters of an hour to start."""
    startups = iter((40.0, 2_700.0))
    world.emr.startup = lambda: next(startups, 40.0)
    world.upload("events/a.json", GOOD)


def late_at_the_second(world: World) -> None:
    """An upload comes just before the late request of the first one is applied."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=1_498.0)


# ---- what nobody announces


def unannounced(world: World) -> None:
    """Of three uploads S3 announces only one. An audit runs each hour."""
    _audited(world, min_age=120.0)
    world.announce = lambda version: [1.0] if version.key.endswith("a.json") else []
    world.upload("events/a.json", GOOD, after=60.0)
    world.upload("events/b.json", MORE, after=60.0)
    world.upload("b.json", GOOD, bucket="plain", after=60.0)


def unannounced_versions(world: World) -> None:
    """An object is overwritten twice, and S3 announces none of the three. A page of a listing has one version."""
    _audited(world, min_age=120.0)
    world.s3.page = 1
    world.announce = lambda version: []
    for number, body in enumerate((GOOD, MORE, GOOD)):
        world.upload("events/a.json", body, after=60.0 + number)


def screened(world: World) -> None:
    """Of three uploads S3 announces only one. A job screens the buckets for each audit, from an inventory that names
    each version in two ways."""
    world.knobs = replace(world.knobs, screened=True)
    unannounced(world)


def split_unannounced(world: World) -> None:
    """A route is split, and one of the parts has its name. Later a third route takes what none has taken since. S3
    announces none of the uploads. An audit runs each hour."""
    _audited(world, min_age=120.0)
    world.lasts = 18_000.0
    world.announce = lambda version: []
    parts = [_split(world, *"ab"), _split(world, *"abc")]
    for after, config in ((1_000.0, parts[0]), (9_000.0, parts[1])):
        world.kernel.after(after, partial(deploy, config))
    for number, after in enumerate((60.0, 1_100.0, 3_690.0, 8_000.0)):
        for part in "ab":
            world.upload(f"events/{part}/{number}.json", GOOD, after=after)
    world.upload("events/c/asked.json", MORE, after=60.0)
    world.upload("events/c/unasked.json", MORE, after=8_500.0)
    world.upload("events/c/later.json", MORE, after=17_000.0)


def corrected(world: World) -> None:
    """A file that cannot be decoded is put again under its key, corrected, and lands. Another one lands, and is put
    again as one that cannot be decoded. An audit runs each hour, and another upload has settling look in the minute in
    which it looks for what was corrected."""
    _audited(world, min_age=120.0)
    looks = next(at for at in range(3_600, 7_200, 60) if is_its_minute("events", int(START) + at, 60))
    world.upload("events/a.json", BAD)
    world.upload("events/b.json", GOOD)
    world.upload("events/a.json", GOOD, after=900.0)
    world.upload("events/b.json", BAD, after=900.0)
    world.lasts = looks + 900.0
    world.upload("events/c.json", GOOD, after=looks - 30.0)


def claimed_and_purged(world: World) -> None:
    """A person purges the queue of notices. An audit runs each hour."""
    _audited(world, min_age=120.0)
    world.upload("events/a.json", GOOD, after=60.0)
    world.kernel.after(300.0, world.notices.messages.clear)


def audited_under_way(world: World) -> None:
    """Dispatch is slow with a notice of two uploads. Meanwhile a person audits twice what was put after the first one.
    No schedule audits the buckets."""
    world.knobs = replace(world.knobs, audit=6.0)
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=1.5)

    def latency() -> float:
        caller = world.kernel.current
        return 0.9 if caller is not None and caller.name.startswith("dispatch") else 0.005

    world.network.latency = latency
    for after in (9.8, 14.8):
        world.kernel.after(after, lambda: people.audit(world, since=START + 1.0))


def audited_for_months(world: World) -> None:
    """Unversioned: the same bytes are uploaded on the first day, on day 40, and on day 70. S3 announces the first two,
    so the claim lives on, and its notice's record expires. Another object stays as it is. An audit runs every six
    days."""
    _audited(world, min_age=7_200.0, horizon=72.0 * DAY)
    world.lasts = 72.0 * DAY
    world.announce = lambda version: [1.0] if world.kernel.now < START + 50 * DAY else []
    world.upload("events/a.json", GOOD, after=60.0)
    for day in (0, 40, 70):
        world.upload("a.json", GOOD, bucket="plain", after=60.0 + day * DAY)


def overwritten_while_suspended(world: World) -> None:
    """Versioning was suspended when an object was put, and is on again when it is put once more. The bucket still lists
    what was put first, and nobody can read it by its ETag any more. S3 announces the second. An audit runs each hour,
    and a person backfills in the end."""
    world.knobs = replace(world.knobs, backfills=1)
    _audited(world, min_age=120.0)
    bucket = world.s3.buckets["landing"]
    bucket.suspended = True
    world.announce = lambda version: [] if bucket.suspended else [1.0]
    world.upload("events/a.json", GOOD, after=60.0)

    def resume_versioning() -> None:
        bucket.suspended = False

    world.kernel.after(70.0, resume_versioning)
    world.upload("events/a.json", MORE, after=80.0)


def again_unannounced(world: World) -> None:
    """Without versions, the same bytes are put twice within seconds, and S3 announces the first only. A person gives
    its batch up. An audit that compares times cannot tell the second from the first."""
    _audited(world, min_age=1.0)
    puts = iter(([1.0], []))
    world.announce = lambda version: next(puts, [1.0])
    for after in (3.0, 6.0):
        world.upload("a.json", GOOD, bucket="plain", after=after)
    world.kernel.after(20.0, lambda: people.give_up(world))


def again_after_memory(world: World) -> None:
    """Without versions, the same bytes are put again after a month, and S3 announces that two months late: the ledger
    has forgotten the first by then. To it they are a new upload."""
    world.knobs = replace(world.knobs, horizon=90.0 * DAY)
    world.lasts = 90.0 * DAY
    world.announce = lambda version: [1.0] if world.kernel.now < START + DAY else [59.0 * DAY]
    for after in (60.0, 30.0 * DAY):
        world.upload("b.json", GOOD, bucket="plain", after=after)


def backfilled_by_jobs_that_are_cancelled(world: World) -> None:
    """Of the jobs that read a lineage for the backfill in the end, the first twelve are cancelled. The upload was there
    before the deployment, and S3 announces it never."""
    world.knobs = replace(world.knobs, backfills=1)
    world.announce = lambda version: []
    cancelled = iter([1.0] * 12)
    world.emr.cancelled_after = lambda: next(cancelled, None)
    world.upload("events/a.json", GOOD)


def backfilled(world: World) -> None:
    """Two uploads were there before the deployment, in two buckets, and a third one is announced. A person backfills
    twice at once, and again an hour later."""
    _backfilled(world)
    world.announce = lambda version: [1.0] if version.key.endswith("a.json") else []
    world.upload("events/a.json", GOOD, after=60.0)
    world.upload("events/b.json", MORE)
    world.upload("b.json", GOOD, bucket="plain")
    for after in (60.0, 60.0, 3_600.0):
        world.kernel.after(after, lambda: backfills.act(world))


def backfilled_around_a_batch(world: World) -> None:
    """A job does not start for two hours. Meanwhile the claims of its uploads expire, and a person backfills. (That
    takes months; here their expiry is set to the past.)"""
    _backfilled(world)
    first_starts_in(world, 2.0 * HOUR)
    world.lasts = 2.0 * HOUR
    world.upload("events/a.json", GOOD)
    world.kernel.after(300.0, lambda: expire_claims(world))
    world.kernel.after(400.0, lambda: backfills.act(world))


def backfilled_while_it_is_published(world: World) -> None:
    """The same, and the job starts soon after the backfill has begun."""
    _backfilled(world)
    first_starts_in(world, 410.0)
    world.upload("events/a.json", GOOD)
    world.kernel.after(300.0, lambda: expire_claims(world))
    world.kernel.after(400.0, lambda: backfills.act(world))


def deleted_and_backfilled(world: World) -> None:
    """Two batches land. Somebody deletes all rows, and two people backfill them at once, and again later. Another one
    asks to send the batches again."""
    world.knobs = replace(world.knobs, backfills=1)
    _landing_twice(world)
    world.kernel.after(600.0, lambda: foreign.commit(world, foreign.delete_rows))
    for after in (700.0, 700.0, 1_500.0):
        world.kernel.after(after, lambda: backfills.act(world))
    for after in (705.0, 1_700.0):
        world.kernel.after(after, lambda: rolling_back.act(world))


def rolled_back(world: World) -> None:
    """Two batches land. The table is rolled back past both, and two people send them again at once, and later."""
    _rolled_back(world)
    for after in (700.0, 700.0, 1_500.0):
        world.kernel.after(after, lambda: rolling_back.act(world))


def rolled_back_after_maintenance(world: World) -> None:
    """The same, and what was rolled back expires before anybody sends it again."""
    _rolled_back(world)
    world.kernel.after(650.0, lambda: foreign.commit(world, foreign.expire))
    world.kernel.after(700.0, lambda: rolling_back.act(world))


def landed_and_resent(world: World) -> None:
    """Nothing was rolled back: a person sends again what is there, while other batches land."""
    _landing_twice(world)
    for after in (120.0, 180.0, 260.0):
        world.kernel.after(after, lambda: rolling_back.act(world))


def maintained(world: World) -> None:
    """Batches land. Others write to the table, and it is maintained every minute, down to what the batches need."""
    _landing_twice(world)
    for minute in range(1, 16):
        world.kernel.after(60.0 * minute, lambda: foreign.commit(world, foreign.append))
        world.kernel.after(60.0 * minute + 10.0, lambda: maintaining.act(world))


def _rolled_back(world: World) -> None:
    _landing_twice(world)
    world.kernel.after(600.0, lambda: foreign.commit(world, rolling_back.roll_back_all))


def _landing_twice(world: World) -> None:
    world.lasts = 3_000.0
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=95.0)
    world.upload("events/c.json", BAD, after=95.0)


def backfilled_for_months(world: World) -> None:
    """An upload lands. After 62 days, when its claim has expired, a person backfills."""
    _backfilled(world)
    world.upload("events/a.json", GOOD)
    world.lasts = 62.0 * DAY
    world.kernel.after(62.0 * DAY, lambda: backfills.act(world))


def backfilled_and_replayed(world: World) -> None:
    """A person backfills an upload that was there before the deployment. Every notice is replayed after 62 days."""
    _backfilled(world)
    world.announce = lambda version: []
    world.upload("events/a.json", GOOD)
    world.lasts = 63.0 * DAY
    world.kernel.after(60.0, lambda: backfills.act(world))
    send = world.notices.send

    def sent(body: str, **options: Any) -> bool:
        if world.kernel.now < START + DAY:
            again = {**options, "deduplication": "replayed"}
            world.kernel.after(62.0 * DAY, lambda: send(body, **again) and world.from_notices.wake(0.0))
        return send(body, **options)

    world.notices.send = sent  # type: ignore[method-assign]


# ---- what happens to the table


def twins(world: World) -> None:
    """Each job run gets a second driver, a second after the first."""
    world.emr.twin_after = lambda: 1.0
    upload_each(world, "ab")


def history_expired(world: World) -> None:
    """Somebody else's maintenance adds a snapshot and expires the history below it. Eight hours later that history
    comes back. A person is called before that."""
    world.lasts = 8 * HOUR
    world.upload("events/a.json", GOOD)
    expired: dict[int, Stored] = {}

    def expire(metadata: Metadata) -> Metadata:
        expired.update(metadata.snapshots)
        number = next(world.catalog.ids)
        mine = Stored(IcebergSnapshot(number, metadata.head, {"foreign": "maintenance"}), ())
        return replace(metadata, head=number, snapshots={**metadata.snapshots, number: mine}).expired()

    def undo(metadata: Metadata) -> Metadata:
        return metadata.remembered(expired)

    world.kernel.after(120.0, lambda: _alter(world, expire))
    world.kernel.after(8 * HOUR, lambda: _alter(world, undo))


def maintenance_under_way(world: World) -> None:
    """Every two minutes somebody appends to the table and expires all history below the head of `main`. After an hour
    the history comes back, so that all batches can end."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=300.0)
    forgotten: dict[int, Stored] = {}

    def maintain(metadata: Metadata) -> Metadata:
        number = next(world.catalog.ids)
        mine = Stored(IcebergSnapshot(number, metadata.head, {"foreign": "append"}), ())
        forgotten.update(metadata.snapshots)
        return replace(metadata, head=number, snapshots={**metadata.snapshots, number: mine}).expired()

    def remember(metadata: Metadata) -> Metadata:
        return metadata.remembered(forgotten)

    for minute in range(2, 60, 2):
        world.kernel.after(60.0 * minute, lambda: _alter(world, maintain))
    world.kernel.after(HOUR, lambda: _alter(world, remember))


def cleaned_under_way(world: World) -> None:
    """Two routes write to one table. Somebody expires its history. The files that only those snapshots refer to are
    deleted."""
    world.kernel.after(0.0, lambda: deploy(configured(Knobs(one_table=True))))
    world.upload("events/a.json", GOOD)
    world.upload("a.json", MORE, bucket="plain")

    def expire(metadata: Metadata) -> Metadata:
        left = metadata.expired()
        kept = {name for stored in left.snapshots.values() for name in stored.files} | {name for _, name in left.held()}
        for number in left.gone.keys() - metadata.gone.keys():
            for name in set(left.gone[number].files) - kept:
                del world.catalog.files[name]
        return left

    world.kernel.after(600.0, lambda: _alter(world, expire))


def given_up_after_a_decision(world: World) -> None:
    """The table's history is cut while the first driver works, and a person decides. The batch is given up after the
    second driver has read the table. The second driver dies before it publishes."""
    drivers = itertools.count(1)
    world.upload("events/a.json", GOOD)

    def begins(run: SimulatedJobRun) -> None:
        number = next(drivers)
        if number == 1:
            world.kernel.after(0.1, lambda: foreign.commit(world, foreign.cut))
        if number == 2:
            world.kernel.after(0.15, lambda: people.give_up(world))
            world.kernel.after(0.2, run.drivers[-1].kill)

    world.emr.on_driver = begins


def expired_to_the_floor(world: World) -> None:
    """While a driver works somebody appends, and expires all earlier history. The remaining history begins right after
    the driver's floor."""
    world.upload("events/a.json", GOOD)
    world.emr.on_driver = lambda run: world.kernel.after(0.1, lambda: foreign.commit(world, foreign.append_and_expire))


def decided_unasked(world: World) -> None:
    """S3 refuses the only object of a batch until its attempts are used up. A person tries to decide all the time."""
    world.upload("events/a.json", GOOD)
    world.refuse("landing", "events/a.json", "AccessDenied", 2_000.0)
    for minute in range(2, 30, 2):
        world.kernel.after(60.0 * minute, lambda: people.decide_unasked(world))


def decided_twice(world: World) -> None:
    """The table's history is cut while each of the first two drivers works, and each time a person decides. The history
    of the first cut comes back before the third driver begins."""
    drivers = itertools.count(1)
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=4.0)

    def begins(run: SimulatedJobRun) -> None:
        number = next(drivers)
        if number <= 2:
            world.kernel.after(0.1, lambda: foreign.commit(world, foreign.cut))
        else:
            foreign.commit(world, foreign.remember)

    world.emr.on_driver = begins


def decided_in_vain(world: World) -> None:
    """The first driver publishes, and the answer is lost. Then the table's history is cut. A person finds the rows.
    Each job run has a second driver, so two snapshots are staged."""
    world.emr.twin_after = lambda: 0.02
    world.upload("events/a.json", GOOD)
    drivers = itertools.count(1)

    def begins(run: SimulatedJobRun) -> None:
        if next(drivers) == 1:
            world.kernel.after(0.22, lambda: foreign.commit(world, foreign.cut))

    world.emr.on_driver = begins


# ---- what happens to the ledger


def lost_with_everything_landed(world: World) -> None:
    """When everything has landed, the ledger is lost. S3 announces each upload again. One file is broken."""
    world.announce = lambda version: [1.0, 2_000.0 + 100.0 * version.number]
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", BAD)
    world.upload("c.json", GOOD, bucket="plain")
    lose(world, 400.0)


def lost_while_it_gathers(world: World) -> None:
    """An upload is claimed and registered. Before its batch is sealed, the ledger is lost."""
    world.upload("events/a.json", GOOD)
    lose(world, 40.0)


def lost_under_way(world: World) -> None:
    """The ledger is lost while the job of a batch runs. Each upload is announced again."""
    world.announce = lambda version: [1.0, 2_000.0]
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=30.0)
    lose(world, 80.0)


def lost_with_its_work_bucket(world: World) -> None:
    """When everything has landed, in several batches, the ledger and the work bucket are lost. Each upload is announced
    again, and a new one comes."""
    world.announce = lambda version: [1.0, 3_000.0 + 100.0 * version.number]
    for number in range(3):
        world.upload(f"events/{number}.json", GOOD, after=300.0 * number)
        world.upload(f"{number}.json", MORE, bucket="plain", after=300.0 * number)
    world.lasts = 4 * HOUR
    lose(world, 1_400.0, work=True)
    world.upload("events/new.json", GOOD, after=2_900.0)


def first_of_all(world: World) -> None:
    """Nothing has run before the first upload: the ledger is empty, and nobody has called it whole."""
    del world.dynamodb.items["ledger", *WHOLE]
    world.upload("events/a.json", GOOD)
    world.upload("c.json", MORE, bucket="plain", after=1.0)


def lost_with_its_job(world: World) -> None:
    """The ledger is lost while the job of a batch starts, and then each driver of the job is killed."""
    first_starts_in(world, 900.0)

    def begins(run: SimulatedJobRun) -> None:
        if START + 900.0 < world.kernel.now < START + 1_100.0:
            world.kernel.after(0.05, run.drivers[-1].kill)

    world.emr.on_driver = begins
    world.upload("events/a.json", GOOD)
    lose(world, 250.0)


def lost_with_what_came_back(world: World) -> None:
    """An upload vanishes, the same bytes come again and land. Then the ledger is lost, and another upload comes."""
    world.upload("b.json", GOOD, bucket="plain")
    world.remove("b.json", bucket="plain", after=6.0)
    world.upload("b.json", GOOD, bucket="plain", after=300.0)
    world.lasts = 4 * HOUR
    lose(world, 900.0)
    world.upload("n.json", GOOD, bucket="plain", after=2_000.0)


def lost_and_nobody_switches_off(world: World) -> None:
    """When everything has landed, the ledger is lost. The functions go on, S3 announces each upload again, and a new
    one comes, all before somebody rebuilds."""
    world.announce = lambda version: [1.0, 1_500.0 + 10.0 * version.number]
    world.upload("events/a.json", GOOD)
    world.upload("c.json", GOOD, bucket="plain")
    world.lasts = 3 * HOUR
    lose(world, 400.0, switched_off=False, waits=2_000.0)
    world.upload("events/new.json", GOOD, after=900.0)


# ---- what is deployed


def renamed_under_way(world: World) -> None:
    """A route gets another name while a batch of it gathers. Then an upload is announced again, and another one
    comes."""
    world.announce = lambda version: [1.0, 2_000.0] if version.key.endswith("a.json") else [1.0]
    upload_each(world, "ab")
    world.upload("events/c.json", MORE, after=300.0)
    world.kernel.after(20.0, lambda: deploy(CONFIG.replace('name = "events"', 'name = "things"')))


def moved_under_way(world: World) -> None:
    """A route gets another table while a batch of it is handed off, and again while one gathers."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=200.0)
    for after, table in ((75.0, "lake.sim.later"), (230.0, "lake.sim.last")):
        world.kernel.after(after, partial(deploy, CONFIG.replace('"lake.sim.events"', f'"{table}"')))


def moved_with_its_format(world: World) -> None:
    """A route gets another table, for files of another format, while the first job starts."""
    world.upload("events/a.json", GOOD)
    moved = CONFIG.replace('"lake.sim.events"', '"lake.sim.later"').replace('format = "json"', 'format = "csv"', 1)

    def startup() -> float:
        deploy(moved)
        return 40.0

    world.emr.startup = startup


# ---- what people ask for


def aborted(world: World) -> None:
    """After two minutes a person gives up the submitted batches. The same bytes are uploaded again when everything is
    at rest."""
    world.upload("a.json", GOOD, bucket="plain")

    ask_of_each_batch(world, partial(people.give_up_one, world), after=130.0)
    world.upload("a.json", GOOD, bucket="plain", after=3_000.0)


def told_while_given_up(world: World) -> None:
    """A job does not start for long, and a person gives its batch up. The same bytes are uploaded again before the
    fence is published."""
    first_starts_in(world, 1_500.0)
    world.upload("a.json", GOOD, bucket="plain")
    world.upload("a.json", GOOD, bucket="plain", after=110.0)
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)


def given_up_for_a_day(world: World) -> None:
    """A job does not start for more than a day, and a person gives its batch up after two minutes."""
    first_starts_in(world, 30 * HOUR)
    world.lasts = 30 * HOUR
    world.upload("events/a.json", GOOD)
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)


def given_up_too_late(world: World) -> None:
    """A person gives a batch up, and the same bytes are uploaded again. Then the job publishes the batch before the
    fence."""
    first_starts_in(world, 100.0)
    world.upload("a.json", GOOD, bucket="plain")
    ask_of_each_batch(world, partial(people.give_up_one, world), after=130.0)
    world.upload("a.json", GOOD, bucket="plain", after=140.0)


def given_up_by_two(world: World) -> None:
    """Two people give up the same batch at once."""
    world.upload("events/a.json", GOOD)
    for _ in range(2):
        ask_of_each_batch(world, partial(people.give_up_one, world), after=90.0)


def given_up_while_it_gathers(world: World) -> None:
    """A person gives up a batch that is still open. The next upload joins another batch."""
    world.upload("events/a.json", GOOD)
    ask_of_each_batch(world, partial(people.give_up_one, world), after=20.0)
    world.upload("events/b.json", GOOD, after=30.0)


def resumed_in_passing(world: World) -> None:
    """A person resumes a batch whose job runs."""
    world.upload("events/a.json", GOOD)
    ask_of_each_batch(world, _resume, after=90.0)


def given_up_again_and_again(world: World) -> None:
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

    for _ in range(2):
        ask_of_each_batch(world, partial(people.give_up_one, world), after=random.uniform(50, when + 200))
    for key in ("a.json", "b.json"):
        world.upload(key, GOOD, bucket="plain", after=40_000.0)
    world.lasts = 40_000.0


# ---- what people send again


def resent(world: World) -> None:
    """A job does not start for long, and a person gives its batch up. The person on call resends it."""
    world.knobs = replace(world.knobs, resends=True)
    first_starts_in(world, 1_500.0)
    upload_each(world, "ab")
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)


def resent_again(world: World) -> None:
    """The same, and two other people resend it too: at once, and when its uploads have landed."""
    resent(world)
    for after in (1_700.0, 1_700.0, 3_000.0):
        ask_of_each_batch(world, resending.resend_one_batch, after=after)


def dropped(world: World) -> None:
    """A job does not start for long, and a person gives its batch and its uploads up. The person on call resends what
    others have given up. One upload is put again when everything is at rest, in a bucket without versions."""
    world.knobs = replace(world.knobs, resends=True)
    first_starts_in(world, 1_500.0)
    upload_each(world, "ab", plain=True)
    ask_of_each_batch(world, partial(people.drop_one, world), after=100.0)
    world.upload("a.json", GOOD, bucket="plain", after=3_000.0)


def dropped_and_audited(world: World) -> None:
    """A person gives up a batch with its uploads, and the schedule audits the bucket."""
    _audited(world, min_age=600.0)
    first_starts_in(world, 1_500.0)
    world.knobs = replace(world.knobs, resends=True)
    upload_each(world, "ab", after=10.0)
    ask_of_each_batch(world, partial(people.drop_one, world), after=110.0)


def dropped_and_resent(world: World) -> None:
    """The same without the last upload, and others resend what is being dropped. The notices' queue keeps no order,
    and several notices are handled at once."""
    world.knobs = replace(world.knobs, resends=True)
    several_at_once(world)
    first_starts_in(world, 1_500.0)
    upload_each(world, "abc")
    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)
    # settling carries it out at the full minute
    ask_of_each_batch(world, partial(people.drop_one, world), after=590.0)
    for after in (599.93, 600.02):
        ask_of_each_batch(world, resending.resend_one_batch, after=after)


def resent_and_dropped(world: World) -> None:
    """A person resends an abandoned batch, and another one gives its uploads up when they are gathered anew."""
    first_starts_in(world, 1_500.0)
    upload_each(world, "ab")
    world.knobs = replace(world.knobs, resends=True)

    def first(ask: Callable[[str], Any]) -> None:
        ask(min(pk[2:] for _, pk, _ in list(world.dynamodb.items) if pk.startswith("b#")))

    ask_of_each_batch(world, partial(people.give_up_one, world), after=100.0)
    world.kernel.after(
        590.0, lambda: first(lambda batch: world.kernel.spawn("person", partial(resending.resend_one_batch, batch)))
    )
    world.kernel.after(595.0, lambda: first(partial(people.drop_one, world)))


def resent_at_once(world: World) -> None:
    """A person gives up a batch and has its uploads sent again, in one command. Nobody else resends anything."""
    first_starts_in(world, 1_500.0)
    upload_each(world, "ab")
    ask_of_each_batch(world, partial(people.resend_one_at_once, world), after=100.0)


def resent_in_passing(world: World) -> None:
    """A person resends a batch whose job runs, against the runbook, and again when it is in the table."""
    upload_each(world, "ab")
    for after in (90.0, 300.0):
        ask_of_each_batch(world, resending.resend_one_batch, after=after)


def resent_by_name_in_passing(world: World) -> None:
    """The same with the batch's objects, by two people at once. The notices' queue keeps no order, and several notices
    are handled at once."""
    several_at_once(world)
    for name in "ab":
        world.upload(f"events/{name}.json", GOOD)
        act = partial(resending.resend_one_object, "landing", f"events/{name}.json")
        for after in (90.0, 90.0, 300.0):
            world.kernel.after(after, lambda act=act: world.kernel.spawn("person", act))


def released(world: World) -> None:
    """S3 refuses an object until its batch has ended, and one file is broken. The person on call releases both."""
    world.knobs = replace(world.knobs, attempts=1, releases=1)
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", GOOD)
    world.upload("events/c.json", BAD)
    world.refuse("landing", "events/b.json", "AccessDenied", 400.0)


def a_file_that_kills_its_reader(world: World) -> None:
    """One file of three kills each process that decodes it. Attempts end before anybody must help."""
    for name, body in (("a", GOOD), ("b", DEADLY), ("c", MORE)):
        world.upload(f"events/{name}.json", body)


def released_page_by_page(world: World) -> None:
    """Two batches of a route quarantine a file, and a page has one item."""
    world.knobs = replace(world.knobs, attempts=1, releases=1)
    world.s3.page = world.dynamodb.page = 1
    world.upload("events/c.json", BAD)
    upload_each(world, "ab", after=100.0)
    world.refuse("landing", "events/b.json", "AccessDenied", 600.0)


def released_by_two(world: World) -> None:
    """S3 refuses an object for a while, and one file is broken. Two other people release both at once, and again a
    minute later. The notices' queue keeps no order, and several notices are handled at once."""
    several_at_once(world)
    released(world)
    for after in (500.0, 500.0, 560.0):
        release_all(world, after)


def released_from_two_snapshots(world: World) -> None:
    """S3 refuses an object to the first driver of a run, and hands it out to the second one, which stages it. The first
    one publishes. The person on call releases the object."""
    world.knobs = replace(world.knobs, attempts=1, releases=1)
    world.emr.twin_after = lambda: 0.06
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", GOOD)
    drivers = itertools.count(1)

    def begins(run: SimulatedJobRun) -> None:
        if next(drivers) == 1:
            world.refuse("landing", "events/b.json", "AccessDenied", 0.15)

    world.emr.on_driver = begins


# ---- rows that do not fit


def _sets_aside(world: World) -> None:
    world.sets_aside = True
    asked = 'format = "json"\nbad_rows_share = 1.0'
    world.kernel.after(0.0, lambda: deploy(CONFIG.replace('format = "json"', asked)))


def bad_rows(world: World) -> None:
    """Two batches, each with a file that has a bad row, beside one without, and one that has no other row."""
    _sets_aside(world)
    for name, body in (("a", GOOD), ("b", BAD), ("c", ALL_BAD)):
        world.upload(f"events/{name}.json", body)
    world.upload("events/d.json", BAD, after=95.0)


def bad_rows_and_twins(world: World) -> None:
    """Each job run has a second driver, a moment after the first."""
    _sets_aside(world)
    world.emr.twin_after = lambda: 0.06
    world.upload("events/a.json", BAD)


def bad_rows_given_up(world: World) -> None:
    """A person gives a batch up whose driver is slow: the driver comes before the fence, or after it."""
    _sets_aside(world)
    first_starts_in(world, 100.0)
    world.upload("a.json", BAD, bucket="plain")
    ask_of_each_batch(world, partial(people.give_up_one, world), after=130.0)


# ---- announced


def announced(world: World) -> None:
    """Two batches one after the other, with a broken file. EventBridge refuses the first entry that it gets, and the
    same one from a twin: two runs of settling meet there, and send the same two."""
    world.knobs = replace(world.knobs, announced=True)
    refusals = iter([True, False, True])
    world.eventbridge.refuses = lambda: next(refusals, False)
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", BAD)
    world.upload("a.json", MORE, bucket="plain")
    world.upload("events/c.json", MORE, after=95.0)


def announced_and_given_up(world: World) -> None:
    """One batch is given up, another one is committed."""
    world.knobs = replace(world.knobs, announced=True)
    aborted(world)


# ---- batches that ride along


def riding_along(world: World) -> None:
    """The batches of two routes are due at once, and one rides in the other's job. A second batch of the first route
    comes while the job waits for one."""
    world.knobs = replace(world.knobs, linger=20, max_wait=1)
    world.upload("events/a.json", GOOD)
    world.upload("p.json", GOOD, bucket="plain")
    world.upload("events/b.json", MORE, after=75.0)


def _scenarios_of(functions: Mapping[str, Any], module: str) -> dict[str, Scenario]:
    """The public functions of a module, by name, in their order. Those that it imports are no scenarios."""
    return {
        name: each
        for name, each in functions.items()
        if isfunction(each) and each.__module__ == module and not name.startswith("_")
    }


EXTRA = _scenarios_of(globals(), __name__) | _scenarios_of(vars(crossings), crossings.__name__)


BEYOND = frozenset({"stuck_behind_the_topic", "notices_purged", "a_job_that_takes_days"})
"""Their accident destroys a notice, or makes the ledger lose a record before its expiry. Without an audit Tidegate does
not promise to recover from that. Here it does, because nothing else happens; so no faults are added."""

CROSSED = ("returning", "again_in_company", "again_while_it_is_claimed", "told_while_given_up")
"""Scenarios in which an upload comes again while it is open how the first one ends."""
SHARED = (*CORE, *CROSSED, "announced", "unannounced", "screened")
"""Of the faults of these `make test-all` tries a share, `make faults` every one."""

# ---- means


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


def _audited(world: World, *, min_age: float, horizon: float = 0.0) -> None:
    """From the beginning the schedule audits the buckets."""
    world.knobs = replace(world.knobs, audit=min_age, horizon=horizon)
    audits.begin(world)


def _split(world: World, *parts: str) -> str:
    """The configuration in which a route takes each of these folders of what one route takes now. The first one has the
    name of that route."""
    before, first, *others = configured(world.knobs).split("[[route]]")
    routes = [first.replace('prefix = "events/', f'prefix = "events/{part}/') for part in parts]
    names = ["events", *parts[1:]]
    renamed = [each.replace('name = "events"', f'name = "{name}"') for each, name in zip(routes, names, strict=True)]
    return "[[route]]".join([before, *renamed, *others])


def _backfilled(world: World) -> None:
    """The person on call backfills at the end."""
    world.knobs = replace(world.knobs, backfills=1)


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
        "time": datetime.datetime.fromtimestamp(version.at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "detail": {"bucket": {"name": version.bucket}, "object": described, "reason": "PutObject"},
    }


def _alter(world: World, change: Callable[[Metadata], Metadata]) -> None:
    if TABLE in world.catalog.tables:
        world.catalog.tables[TABLE] = change(world.catalog.tables[TABLE])


def _resume(batch: str) -> Resumed:
    return resume(batch, wiring.this_deployment().ports())

"""What nobody announces, and what a table has lost: audits and backfills."""

from functools import partial
from typing import Any

from simulation.checker.accidents.scene import DAY, HOUR, Scene
from simulation.checker.scenarios import BAD, GOOD, MORE
from simulation.world import backfills, foreign, maintaining, people, rolling_back
from simulation.world.configs import configured
from simulation.world.kernel import START
from simulation.world.product import deploy
from simulation.world.rebuilt import lose
from simulation.world.world import CONFIG

# ---- audited


def unannounced(world: Scene) -> None:
    """Of three uploads S3 announces only one. An audit runs each hour."""
    world.audit_hourly(min_age=120.0)
    world.announce_only("a")
    world.upload_each("a", after=60.0)
    world.upload_each("b", MORE, after=60.0)
    world.upload_each("b", plain=True, after=60.0)


def unannounced_versions(world: Scene) -> None:
    """An object is overwritten twice, and S3 announces none of the three. A page of a listing has one version."""
    world.audit_hourly(min_age=120.0)
    world.s3.page = 1
    world.announce = lambda version: []
    for number, body in enumerate((GOOD, MORE, GOOD)):
        world.upload_each("a", body, after=60.0 + number)


def screened(world: Scene) -> None:
    """Of three uploads S3 announces only one. A job screens the buckets for each audit, from an inventory that names
    each version in two ways."""
    world.turn(screened=True)
    unannounced(world)


def split_unannounced(world: Scene) -> None:
    """A route is split, and one of the parts has its name. Later a third route takes what none has taken since. S3
    announces none of the uploads. An audit runs each hour."""
    world.audit_hourly(min_age=120.0)
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


def _split(world: Scene, *parts: str) -> str:
    """The configuration in which a route takes each of these folders of what one route takes now. The first one has the
    name of that route."""
    before, first, *others = configured(world.knobs).split("[[route]]")
    routes = [first.replace('prefix = "events/', f'prefix = "events/{part}/') for part in parts]
    names = ["events", *parts[1:]]
    renamed = [each.replace('name = "events"', f'name = "{name}"') for each, name in zip(routes, names, strict=True)]
    return "[[route]]".join([before, *renamed, *others])


def corrected(world: Scene) -> None:
    """A file that cannot be decoded is put again under its key, corrected, and lands. Another one lands, and is put
    again as one that cannot be decoded. An audit runs each hour, and another upload has settling look in the minute in
    which it looks for what was corrected."""
    world.audit_hourly(min_age=120.0)
    world.upload_each("a", BAD)
    world.upload_each("b", GOOD)
    world.upload_each("a", GOOD, after=900.0)
    world.upload_each("b", BAD, after=900.0)
    world.have_settling_look()


def claimed_and_purged(world: Scene) -> None:
    """A person purges the queue of notices. An audit runs each hour."""
    world.audit_hourly(min_age=120.0)
    world.upload_each("a", after=60.0)
    world.kernel.after(300.0, world.notices.messages.clear)


def audited_under_way(world: Scene) -> None:
    """Dispatch is slow with a notice of two uploads. Meanwhile a person audits twice what was put after the first one.
    No schedule audits the buckets."""
    world.turn(audit=6.0)
    world.upload_each("a")
    world.upload_each("b", MORE, after=1.5)
    world.slow_down_dispatch(0.9)
    world.at(partial(people.audit, since=START + 1.0), 9.8, 14.8)


def audited_for_months(world: Scene) -> None:
    """Unversioned: the same bytes are uploaded on the first day, on day 40, and on day 70. S3 announces the first two,
    so the claim lives on, and its notice's record expires. Another object stays as it is. An audit runs every six
    days."""
    world.audit_hourly(min_age=7_200.0, horizon=72.0 * DAY)
    world.lasts = 72.0 * DAY
    world.announce = lambda version: [1.0] if world.kernel.now < START + 50 * DAY else []
    world.upload_each("a", after=60.0)
    for day in (0, 40, 70):
        world.upload_each("a", plain=True, after=60.0 + day * DAY)


def overwritten_while_suspended(world: Scene) -> None:
    """Versioning was suspended when an object was put, and is on again when it is put once more. The bucket still lists
    what was put first, and nobody can read it by its ETag any more. S3 announces the second. An audit runs each hour,
    and a person backfills in the end."""
    world.turn(backfills=1)
    world.audit_hourly(min_age=120.0)
    bucket = world.s3.buckets["landing"]
    bucket.suspended = True
    world.announce = lambda version: [] if bucket.suspended else [1.0]
    world.upload_each("a", after=60.0)
    world.kernel.after(70.0, partial(setattr, bucket, "suspended", False))
    world.upload_each("a", MORE, after=80.0)


# ---- backfilled: the person on call backfills at the end, too


def backfilled(world: Scene) -> None:
    """Two uploads were there before the deployment, in two buckets, and a third one is announced. A person backfills
    twice at once, and again an hour later."""
    world.turn(backfills=1)
    world.announce_only("a")
    world.upload_each("a", after=60.0)
    world.upload_each("b", MORE)
    world.upload_each("b", plain=True)
    world.at(backfills.act, 60.0, 60.0, 3_600.0)


def backfilled_by_jobs_that_are_cancelled(world: Scene) -> None:
    """Of the jobs that read a lineage for the backfill in the end, the first twelve are cancelled. The upload was there
    before the deployment, and S3 announces it never."""
    world.turn(backfills=1)
    world.announce = lambda version: []
    cancelled = iter([1.0] * 12)
    world.emr.cancelled_after = lambda: next(cancelled, None)
    world.upload_each("a")


def _backfilled_without_claims(world: Scene, starts_in: float) -> None:
    """A person backfills when the claims of a batch have expired whose job starts late. (That takes months; here their
    expiry is set to the past.)"""
    world.turn(backfills=1)
    world.first_starts_in(starts_in)
    world.upload_each("a")
    world.expire_claims(300.0)
    world.at(backfills.act, 400.0)


def backfilled_around_a_batch(world: Scene) -> None:
    """A job does not start for two hours. Meanwhile the claims of its uploads expire, and a person backfills."""
    world.lasts = 2.0 * HOUR
    _backfilled_without_claims(world, 2.0 * HOUR)


def backfilled_while_it_is_published(world: Scene) -> None:
    """The same, and the job starts soon after the backfill has begun."""
    _backfilled_without_claims(world, 410.0)


def backfilled_for_months(world: Scene) -> None:
    """An upload lands. After 62 days, when its claim has expired, a person backfills."""
    world.turn(backfills=1)
    world.upload_each("a")
    world.lasts = 62.0 * DAY
    world.at(backfills.act, 62.0 * DAY)


def backfilled_and_replayed(world: Scene) -> None:
    """A person backfills an upload that was there before the deployment. Every notice is replayed after 62 days."""
    world.turn(backfills=1)
    world.announce = lambda version: []
    world.upload_each("a")
    world.lasts = 63.0 * DAY
    world.at(backfills.act, 60.0)
    send = world.notices.send

    def sent(body: str, **options: Any) -> bool:
        if world.kernel.now < START + DAY:
            again = {**options, "deduplication": "replayed"}
            world.kernel.after(62.0 * DAY, lambda: send(body, **again) and world.from_notices.wake(0.0))
        return send(body, **options)

    world.notices.send = sent  # type: ignore[method-assign]


# ---- what has landed is deleted, rolled back, sent again, or maintained


def _landing_twice(world: Scene) -> None:
    world.lasts = 3_000.0
    world.upload_each("a")
    world.upload_each("b", MORE, after=95.0)
    world.upload_each("c", BAD, after=95.0)


def deleted_and_backfilled(world: Scene) -> None:
    """Two batches land. Somebody deletes all rows, and two people backfill them at once, and again later. Another one
    asks to send the batches again."""
    world.turn(backfills=1)
    _landing_twice(world)
    world.commit(foreign.delete_rows, 600.0)
    world.at(backfills.act, 700.0, 700.0, 1_500.0)
    world.at(rolling_back.act, 705.0, 1_700.0)


def _rolled_back(world: Scene) -> None:
    _landing_twice(world)
    world.commit(rolling_back.roll_back_all, 600.0)


def rolled_back(world: Scene) -> None:
    """Two batches land. The table is rolled back past both, and two people send them again at once, and later."""
    _rolled_back(world)
    world.at(rolling_back.act, 700.0, 700.0, 1_500.0)


def rolled_back_after_maintenance(world: Scene) -> None:
    """The same, and what was rolled back expires before anybody sends it again."""
    _rolled_back(world)
    world.commit(foreign.expire, 650.0)
    world.at(rolling_back.act, 700.0)


def rolled_back_twice(world: Scene) -> None:
    """The same as at first, and when all has landed again, the table is rolled back past that, too."""
    _rolled_back(world)
    world.at(rolling_back.act, 700.0)
    world.commit(rolling_back.roll_back_all, 1_100.0)
    world.at(rolling_back.act, 1_200.0, 1_200.0, 2_000.0)


def rolled_back_past_a_deletion(world: Scene) -> None:
    """Two batches land. Somebody deletes all rows, and a person backfills them. Then the table is rolled back to before
    the deletion, and two people send all batches again."""
    _landing_twice(world)
    before = rolling_back.to_where_it_is(world, 590.0)
    world.commit(foreign.delete_rows, 600.0)
    world.at(backfills.act, 700.0)
    world.commit(before, 1_100.0)
    world.lasts = 8_000.0
    world.at(rolling_back.act, 1_200.0, 1_200.0, 2_000.0, 5_000.0, 7_000.0)


def rolled_back_and_moved(world: Scene) -> None:
    """Two batches land, and the table is rolled back past both. Their route gets another table, and two people send
    them again. The former table is rolled back once more, and somebody asks again."""
    _rolled_back(world)
    world.kernel.after(650.0, partial(deploy, CONFIG.replace('"lake.sim.events"', '"lake.sim.later"')))
    world.at(rolling_back.act, 700.0, 700.0)
    world.at(rolling_back.act, 1_500.0, 2_200.0)


def rolled_back_and_moved_back(world: Scene) -> None:
    """Two batches land, and each driver has a twin that begins late. Their route gets another table, and a person
    backfills it. The route gets its former table back before that has landed, and this table is rolled back past both
    batches."""
    world.turn(backfills=1)
    world.emr.twin_after = lambda: 900.0
    _landing_twice(world)
    world.lasts = 8_000.0
    world.kernel.after(600.0, partial(deploy, CONFIG.replace('"lake.sim.events"', '"lake.sim.later"')))
    world.at(backfills.act, 650.0)
    world.kernel.after(690.7, partial(deploy, CONFIG))  # it has been gathered, and is not sealed
    world.commit(rolling_back.roll_back_all, 695.0)
    world.at(rolling_back.act, 4_000.0)


def lost_while_a_backfill_gathers(world: Scene) -> None:
    """Two batches land. Somebody deletes all rows, and a person backfills them. While they gather, the ledger is
    lost."""
    _landing_twice(world)
    world.lasts = 6_000.0
    world.commit(foreign.delete_rows, 600.0)
    world.at(backfills.act, 700.0)
    lose(world, 740.7)


def landed_and_resent(world: Scene) -> None:
    """Nothing was rolled back: a person sends again what is there, while other batches land."""
    _landing_twice(world)
    world.at(rolling_back.act, 120.0, 180.0, 260.0)


def maintained(world: Scene) -> None:
    """Batches land. Others write to the table, and it is maintained every minute, down to what the batches need."""
    _landing_twice(world)
    for minute in range(1, 16):
        world.commit(foreign.append, 60.0 * minute)
        world.at(maintaining.act, 60.0 * minute + 10.0)

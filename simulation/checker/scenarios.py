"""What is uploaded, and when S3 announces it. The scenarios are small, because every fault strikes every call."""

from collections.abc import Callable

from simulation.world.s3 import Version
from simulation.world.world import World

GOOD = b'{"id": 1}\n{"id": 2}\n'
MORE = b'{"id": 3}\n{"id": 4}\n{"id": 5}\n'
ALL_BAD = b'{"id": \n{"id": \n'
BAD = b'{"id": 6}\n{"id": \n'

Scenario = Callable[[World], None]


def core(world: World) -> None:
    """Three uploads, one of them announced twice: at once, and again after everything was committed."""
    world.announce = lambda version: [1.0, 2_000.0] if version.key.endswith("b.json") else [1.0]
    for name in ("a", "b", "c d+e"):
        world.upload(f"events/{name}.json", GOOD)


def growing(world: World) -> None:
    """A second wave arrives while the first one's job runs."""
    world.upload("events/a.json", GOOD)
    world.upload("events/b.json", MORE, after=95.0)


def outcomes(world: World) -> None:
    """Unversioned: an upload is overwritten before it is read, another one is broken."""
    world.upload("a.json", GOOD, bucket="plain")
    world.upload("a.json", MORE, bucket="plain", after=5.0)
    world.upload("c.json", BAD, bucket="plain")


def returning(world: World) -> None:
    """Unversioned: an upload is deleted before it is read, and the same bytes are uploaded again."""
    world.upload("b.json", GOOD, bucket="plain")
    world.remove("b.json", bucket="plain", after=6.0)
    world.upload("b.json", GOOD, bucket="plain", after=900.0)


def chance(world: World) -> None:
    """A few uploads to all buckets, overwritten, deleted and broken at random; announced late, often, never."""
    random, knobs = world.kernel.random, world.knobs
    delays = (0.2, 1.0, 5.0, 70.0, 700.0, 9_000.0, *((0.5 * knobs.horizon, knobs.horizon) if knobs.horizon else ()))
    # a ledger that was rebuilt may have forgotten that a claim lives on
    much_later = (0.5 * knobs.horizon,) if knobs.horizon and not knobs.lost else ()
    laters = (3.0, 100.0, 900.0, 5_000.0, *much_later)
    moments = (0.0, 3.0, 30.0, 60.0, 95.0, 200.0, 1_000.0)
    buckets = ("landing", "landing", "plain", *(("closed",) if knobs.closed_bucket else ()))
    ways = ("Put", "Copy", "CompleteMultipartUpload") if knobs.bundled else ("Put",)

    def announce(version: Version) -> list[float]:
        if knobs.backfills and not knobs.two_versions and random.random() < 0.3:
            return []  # as if it had been there before the deployment
        times = random.choices((0, 1, 2, 3), (1, 12, 5, 1))[0]
        return [random.choice(delays) for _ in range(times)]

    world.announce = announce
    world.lasts = max(world.lasts, knobs.horizon * 2)
    if knobs.refused_objects:
        _switch_off_keys(world)
    for _ in range(random.randrange(1, 8)):
        bucket = random.choice(buckets)
        key = ("events/" if bucket == "landing" else "") + random.choice("abc") + ".json"
        when = random.choice(moments)
        body = random.choice((GOOD, GOOD, MORE, BAD))
        world.upload(key, body, bucket=bucket, after=when, how=random.choice(ways))
        if random.random() < 0.2:
            world.remove(key, bucket=bucket, after=when + random.choice((1.0, 50.0, 90.0)))
        if random.random() < 0.15:
            # the same bytes again
            world.upload(key, body, bucket=bucket, after=when + random.choice(laters))

    if knobs.horizon:
        # a key of its own: what has the same bytes as an upload that was forgotten is taken for a new one
        world.upload("events/d.json", MORE, after=0.7 * knobs.horizon)


def _switch_off_keys(world: World) -> None:
    """S3 refuses some keys for a while or for good, and serves the others."""
    for bucket, folder in (("landing", "events/"), ("plain", "")):
        code = world.kernel.random.choice(("AccessDenied", "KMS.DisabledException"))
        world.upload(f"{folder}neighbour.json", GOOD, bucket=bucket)
        world.refuse(bucket, f"{folder}b.json", code, world.knobs.refused_objects)


CHANCE = "chance"
SCENARIOS: dict[str, Scenario] = {each.__name__: each for each in (core, growing, outcomes, returning, chance)}
PLAIN = ("core", "growing", "outcomes", "returning")
"""The scenarios without an accident. Those with one are in `extra_scenarios`."""
CORE = ("core", "outcomes")
"""`make test-all` strikes each of their calls with a share of the faults, and each call site with every fault."""

"""`python -m simulation traffic`: sends 104 hours of measured traffic to the real product in virtual time.

The figures are those of one user's bucket (https://www.hydrogen18.com/blog/aws-s3-event-notifications-probably-once.html,
E. Urban 2019): how many notifications came, for how many keys, and how far apart those of one key were. That page does
not say when in the 104 hours the uploads came, nor how the gaps lie between the shortest and the longest, other than
that most are within 15 seconds. Here the uploads come evenly at random, `NEAR` of the gaps are within 15 seconds, and
within either part every order of magnitude is as likely as the next.

A receiver cannot count notifications that never came. So losses are added: further uploads that S3 never notifies of.
There are no other faults here; `simulation.checker.explore` has those.
"""

import argparse
import gc
import math
import sys
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from simulation.checker.books import named
from simulation.checker.oracle import Judgement, judge
from simulation.world import course, driver, product
from simulation.world.faults import Kind
from simulation.world.kernel import START
from simulation.world.lambdas import SimulatedFunction
from simulation.world.s3 import Version
from simulation.world.world import CONFIG, World
from tidegate import wiring
from tidegate.cost.bill import JOB_SECONDS
from tidegate.flows.status import RouteStatus, status
from tidegate.schedule import LEAST_WINDOW

KEYS = 507_549
NOTIFICATIONS = 507_706
DOUBLED = 151
TRIPLED = 3
"""154 keys had duplicates, "some of them three times". With 157 notifications beyond the first it must be three."""
SECONDS = 104 * 3_600
SHORTEST_GAP = 0.062
LONGEST_GAP = 22_162.0
NEAR_GAP = 15.0
NEAR = 0.8
"""Ours: the share of the gaps within 15 seconds, of which the measurement says "most"."""
LOSS = 1 / 10_000
"""Ours: uploads without a notification, for each notification."""

NOTIFIED_AFTER = 1.0
"""Seconds from a put to its first notification."""

UNIT_BYTES = 1_024
"""What one write unit holds; a read unit holds four times as much."""


# ---- what S3 says


@dataclass(frozen=True)
class Traffic:
    """Uploads in order of time. `at` is when each one was put (seconds), `gaps` the seconds between the notifications
    of those that have several, and `lost` are those without a notification."""

    at: Sequence[float]
    gaps: dict[int, tuple[float, ...]]
    lost: frozenset[int]

    @property
    def keys(self) -> int:
        """Keys with a notification."""
        return len(self.at) - len(self.lost)

    @property
    def delivered(self) -> int:
        return self.keys + sum(map(len, self.gaps.values()))

    @property
    def sent(self) -> int:
        return self.delivered + len(self.lost)

    def notified(self, number: int) -> list[float]:
        """When (seconds after the put) there is a notification of this upload."""
        if number in self.lost:
            return []
        found = [NOTIFIED_AFTER]
        for gap in self.gaps.get(number, ()):
            found.append(found[-1] + gap)
        return found

    @property
    def ends(self) -> float:
        """When the last notification comes."""
        late = (self.at[number] + self.notified(number)[-1] for number in self.gaps)
        return max(self.at[-1] + NOTIFIED_AFTER, *late)


def generate(scale: int = 1, loss: float = LOSS, seed: int = 0) -> Traffic:
    """The measured traffic, or one part in `scale` of it: as dense, and shorter. Gaps are not scaled, and there is at
    least one key of each kind, so that a part may end long after its last upload."""
    random = Random(seed)
    tripled = max(1, round(TRIPLED / scale))
    doubled = max(4, round(DOUBLED / scale))
    lost = round(loss * (KEYS + DOUBLED + 2 * TRIPLED) / scale)
    seconds = SECONDS / scale
    uploads = round(KEYS / scale) + lost
    at = sorted(random.uniform(0, seconds) for _ in range(uploads))
    waits = _gaps(random, doubled + 2 * tripled)
    gaps: dict[int, tuple[float, ...]] = {}
    for position in range(doubled + tripled):
        few = tuple(waits.pop() for _ in range(2 if position < tripled else 1))
        # all that was measured was measured within the 104 hours
        most = bisect_right(at, seconds - NOTIFIED_AFTER - sum(few)) or uploads
        while (number := random.randrange(most)) in gaps:
            pass
        gaps[number] = few
    spared = [number for number in range(uploads) if number not in gaps]
    return Traffic(at, gaps, frozenset(random.sample(spared, lost)))


def _gaps(random: Random, count: int) -> list[float]:
    far = max(2, round((1 - NEAR) * count))
    found = [SHORTEST_GAP, LONGEST_GAP]
    found += [_any_magnitude(random, SHORTEST_GAP, NEAR_GAP) for _ in range(count - far - 1)]
    found += [_any_magnitude(random, NEAR_GAP, LONGEST_GAP) for _ in range(far - 1)]
    random.shuffle(found)
    return found


def _any_magnitude(random: Random, least: float, most: float) -> float:
    return round(math.exp(random.uniform(math.log(least), math.log(most))), 3)


# ---- what is counted beside the product


class Calls:
    """A count of each call, in place of the network's list of all calls, which would have millions."""

    def __init__(self) -> None:
        self.by_site: Counter[str] = Counter()
        self._number = 0

    def __len__(self) -> int:
        return self._number

    def append(self, call: tuple[str, tuple[Kind, ...]]) -> None:
        self._number += 1
        self.by_site[call[0]] += 1

    def of_the_sdk(self) -> Counter[str]:
        """By "service.Operation", whoever called."""
        found: Counter[str] = Counter()
        for site, times in self.by_site.items():
            caller, what = site.split()[:2]
            if caller != "platform" and not what.startswith("iceberg."):
                found[what] += times
        return found

    def platform(self, what: str) -> int:
        return self.by_site[f"platform {what}"]


@dataclass
class Counts:
    """The counts of a run, taken at the simulated services."""

    invocations: Counter[str] = field(default_factory=Counter)
    merged: int = 0
    """Repeated notifications of an upload in the same invocation of intake: one notice takes both."""
    notices: int = 0
    """Messages that dispatch received."""
    write_units: int = 0
    read_units: float = 0.0
    jobs: list[tuple[float, float]] = field(default_factory=list)
    """When the workers of each job began and ended, in virtual time."""

    def watch(self, world: World) -> None:
        for function in (world.intake, world.dispatch, world.settle):
            self._watch_function(function)
        self._watch_units(world)

    def _watch_function(self, function: SimulatedFunction) -> None:
        invoke = function.invoke

        def watched(event: Any, answered: Callable[[Any, bool], None]) -> None:
            self.invocations[function.name] += 1
            if function.name == "intake":
                records = event["Records"]
                self.merged += len(records) - len({record["body"] for record in records})
            if function.name == "dispatch":
                self.notices += len(event["Records"])
            invoke(event, answered)

        function.invoke = watched  # type: ignore[method-assign]

    def _watch_units(self, world: World) -> None:
        """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html: a refused write
        costs as much. At the end the items are checked to fit one unit each."""
        answer = world.dynamodb.answer

        def watched(operation: str, asked: Mapping[str, Any]) -> dict[str, Any]:
            if operation == "TransactWriteItems":
                self.write_units += 2 * len(asked["TransactItems"])
            elif operation in ("PutItem", "UpdateItem", "DeleteItem"):
                self.write_units += 1
            elif operation == "BatchExecuteStatement":
                self.write_units += len(asked["Statements"])
            elif operation == "BatchGetItem":
                self.read_units += sum(len(each["Keys"]) for each in asked["RequestItems"].values())
            elif operation == "Query":
                # the settings of the routes, or what workers take, read together: a unit is 4 KB of them
                pk = asked["ExpressionAttributeValues"][":pk"]["S"]
                assert pk in ("routes", "work")
                found = [item for (_, each, _), item in world.dynamodb.items.on(pk) if each == pk]
                self.read_units += max(1, -(-sum(map(item_bytes, found)) // 4_096))
            else:
                assert operation == "GetItem", f"nobody has said what a {operation} costs"
                self.read_units += 1 if asked.get("ConsistentRead") else 0.5
            return answer(operation, asked)

        world.dynamodb.answer = watched  # type: ignore[method-assign]


def item_bytes(item: Any) -> int:
    """https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html, rounded up."""
    if isinstance(item, dict):
        return 3 + sum(len(str(name).encode()) + 1 + item_bytes(value) for name, value in item.items())
    if isinstance(item, (list, frozenset)):
        return 3 + sum(1 + item_bytes(each) for each in item)
    return 21 if isinstance(item, int) else len(str(item).encode())


# ---- what came of it


@dataclass(frozen=True)
class Used:
    """The counts: notifications received, invocations, pollers' calls by queue, SDK calls by "service.Operation" (the
    Spark driver's too), and DynamoDB's units."""

    notifications: int
    invocations: int
    buffer_polls: int
    notices_polls: int
    notices: int
    calls: Mapping[str, int]
    write_units: int
    read_units: float


@dataclass(frozen=True)
class Replayed:
    """The results of one run. `status` has the ledger's sums. `judgement` and `times_landed` (how often -> how many
    uploads) are from the oracle."""

    traffic: Traffic
    delivered: int
    told: int
    came_to_rest: bool
    status: RouteStatus
    judgement: Judgement
    times_landed: Counter[int]
    counts: Counts
    calls: Calls
    largest_item: int
    errors: tuple[str, ...]
    dead_letters: int
    virtual_seconds: float
    real_seconds: float

    @property
    def problems(self) -> list[str]:
        """The sums that do not hold."""
        uploads, ended = self.status.uploads, self.status.uploads.ended
        lost = len(self.traffic.lost)
        sums = {
            "notifications sent = lost + delivered": (self.traffic.sent, lost + self.delivered),
            "notifications delivered, as generated": (self.delivered, self.traffic.delivered),
            "uploads told of, as generated": (self.told, self.traffic.keys),
            "uploads told of = uploads in the ledger": (self.told, uploads.notified),
            "uploads in the ledger = ended + pending": (uploads.notified, ended.uploads + uploads.pending),
            "uploads told of = committed": (self.told, ended.committed),
            "rows by the ledger = rows by the oracle": (ended.rows, self.times_landed.total() - self.times_landed[0]),
            "uploads told of = in the table once": (self.told, self.times_landed[1]),
            "uploads lost = never in the table": (lost, self.times_landed[0]),
            "uploads lost = never heard of": (lost, self.judgement.unheard),
            "delivered - told of = refused + merged": (
                self.delivered - self.told,
                self.status.refused + self.counts.merged,
            ),
            "batches committed = jobs": (self.status.committed_batches, self.status.jobs),
            "jobs of the route that ran side by side": (_overlapping(self.counts.jobs), 0),
            "batches abandoned or unfinished": (
                self.status.abandoned_batches + sum(batch.notices > 0 for batch in self.status.unfinished),
                0,
            ),
            "dead letters": (self.dead_letters, 0),
        }
        found = [f"{name}: {one:,} and {other:,}" for name, (one, other) in sums.items() if one != other]
        if not self.came_to_rest:
            found.append("it did not come to rest")
        if self.largest_item > UNIT_BYTES:
            found.append(f"an item of {self.largest_item} bytes: the write units are counted wrong")
        return [*found, *self.judgement.broken, *self.errors]

    @property
    def used(self) -> Used:
        return Used(
            notifications=self.delivered,
            invocations=self.counts.invocations.total(),
            buffer_polls=sum(self.calls.platform(f"intake {what}") for what in ("receive", "delete")),
            notices_polls=sum(self.calls.platform(f"dispatch {what}") for what in ("receive", "delete")),
            notices=self.counts.notices,
            calls=self.calls.of_the_sdk(),
            write_units=self.counts.write_units,
            read_units=self.counts.read_units,
        )


@contextmanager
def simulation(max_wait: str = "60s", stay: str = "0s") -> Iterator[None]:
    """The product, installed in this process, with this `max_wait` for every route; a worker stays for so long."""
    config = CONFIG.replace("[route.batch]\n", f'[route.batch]\nmax_wait = "{max_wait}"\n')
    config = config.replace('stay = "0s"', f'stay = "{stay}"')
    with (
        TemporaryDirectory(prefix="tidegate-sim-") as folder,
        product.installed(config, Path(folder)),
        driver.installed(),
    ):
        yield


def replay(
    traffic: Traffic, progress: Callable[[float], None] = lambda share: None, window: int = LEAST_WINDOW
) -> Replayed:
    """Run the replay. Only within `simulation()`. `progress` gets the share of the uploads that were put. `window` is
    intake's, in seconds."""
    counts, calls = Counts(), Calls()
    began = time.perf_counter()
    with patch.object(driver, "drive", _timed(driver.drive, counts)):
        world = World(lasts=traffic.ends)
        world.asked = False
    world.kernel.most_events = sys.maxsize
    world.every_look = True
    world.from_buffer.window = window
    world.network.calls = calls  # type: ignore[assignment]
    world.announce = lambda version: traffic.notified(_number(version))
    counts.watch(world)
    _put(world, traffic, 0, progress)
    # what is alive here stays alive: looking through millions of objects for garbage, over and over, is half the time
    gc.collect()
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(100_000, 50, 1_000)
    try:
        came_to_rest = course.run(world)
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
    virtual = world.kernel.now - START
    world.network.calls = Calls()  # type: ignore[assignment]
    seen = replace(counts)
    rows = Counter(
        (uri, version) for table in world.catalog.tables for _, (uri, version, *_) in world.catalog.rows(table)
    )
    return Replayed(
        traffic=traffic,
        delivered=sum(world.notified.values()),
        told=len(world.notified),
        came_to_rest=came_to_rest,
        status=_status(world),
        judgement=judge(world, came_to_rest),
        times_landed=Counter(rows[named(version)] for version in world.history),
        counts=seen,
        calls=calls,
        largest_item=max(map(item_bytes, world.dynamodb.items.values())),
        errors=tuple(dict.fromkeys(f"{type(error).__name__}: {error}" for error in world.errors)),
        dead_letters=len(world.dead_letters.messages) + len(world.notices_dead_letters.messages),
        virtual_seconds=virtual,
        real_seconds=time.perf_counter() - began,
    )


def _put(world: World, traffic: Traffic, number: int, progress: Callable[[float], None]) -> None:
    """Put this upload at its time, and then schedule the next one. Each has one row."""

    def put() -> None:
        world.s3.put("landing", f"events/{number:07}.json", b'{"id": %d}\n' % number)
        progress((number + 1) / len(traffic.at))
        if number + 1 < len(traffic.at):
            _put(world, traffic, number + 1, progress)

    world.kernel.after(START + traffic.at[number] - world.kernel.now, put)


def _number(version: Version) -> int:
    return int(version.key.removeprefix("events/").removesuffix(".json"))


def _timed(drive: driver.Drive, counts: Counts) -> driver.Drive:
    """The model of a table takes no time, and the next job of a route waits for this one: so Spark takes what is
    assumed of it before the driver asks for anything."""

    def timed(arguments: Sequence[str]) -> int:
        kernel = product.HERE.kernel
        assert kernel is not None
        began = kernel.now
        kernel.sleep(JOB_SECONDS)
        try:
            return drive(arguments)
        finally:
            counts.jobs.append((began, kernel.now))

    return timed


def _overlapping(jobs: Sequence[tuple[float, float]]) -> int:
    """How many jobs began before the previous one had ended."""
    ordered = sorted(jobs)
    return sum(began < ended for (_, ended), (began, _) in pairwise(ordered))


def _status(world: World) -> RouteStatus:
    """The route's status, from the same flow as the command line's."""

    def ask() -> RouteStatus:
        deployment = wiring.this_deployment()
        (found,) = status([deployment.routes["events"]], deployment.ports())
        return found

    with product.inhabited(world.kernel, world.network):
        person = world.kernel.spawn("person", ask)
        world.kernel.run(lambda: person.ended, world.kernel.now + 60)
    if person.error:
        raise person.error
    assert isinstance(person.answer, RouteStatus)
    return person.answer


# ---- in print


def conservation(run: Replayed) -> str:
    uploads, ended = run.status.uploads, run.status.uploads.ended
    landed = run.times_landed
    return _table(
        ("", "count", "counted by"),
        ("notifications sent", run.traffic.sent, "the generator"),
        ("notifications lost", len(run.traffic.lost), "the generator"),
        ("notifications delivered", run.delivered, "the buffer"),
        ("keys uploaded", len(run.traffic.at), "the generator"),
        ("keys notified", run.told, "the buffer"),
        ("keys notified twice", sum(len(gaps) == 1 for gaps in run.traffic.gaps.values()), "the generator"),
        ("keys notified three times", sum(len(gaps) == 2 for gaps in run.traffic.gaps.values()), "the generator"),
        ("uploads in the ledger", uploads.notified, "status"),
        ("uploads committed", ended.committed, "status"),
        ("uploads quarantined", ended.quarantined, "status"),
        ("uploads superseded", ended.superseded, "status"),
        ("uploads vanished", ended.vanished, "status"),
        ("uploads pending", uploads.pending, "status"),
        ("uploads whose rows are in the table once", landed[1], "the oracle"),
        ("uploads whose rows are there twice or more", landed.total() - landed[0] - landed[1], "the oracle"),
        ("uploads whose rows are not there", landed[0], "the oracle"),
        ("of these notified", landed[0] - run.judgement.unheard, "the oracle"),
        ("duplicates refused by a claim", run.status.refused, "status"),
        ("duplicates met within one invocation of intake", run.counts.merged, "intake's door"),
        ("batches committed", run.status.committed_batches, "status"),
        ("Spark jobs", run.status.jobs, "status"),
    )


def work(run: Replayed) -> str:
    calls = run.calls
    rows: list[tuple[str, int, str]] = [
        (f"{name} invocations", times, f"{run.told / times:.1f} uploads each")
        for name, times in sorted(run.counts.invocations.items())
    ]
    rows += [
        (f"Lambda's {what} for {name}", calls.platform(f"{name} {what}"), "by batch")
        for name in ("intake", "dispatch")
        for what in ("receive", "delete")
    ]
    rows += [
        (what, times, f"{times / run.told:.3f} for an upload") for what, times in sorted(calls.of_the_sdk().items())
    ]
    return _table(("", "calls", ""), *rows)


def pace(run: Replayed) -> str:
    slowest = max((ended - began for began, ended in run.counts.jobs), default=0.0)
    return (
        f"{run.virtual_seconds / 3_600:,.1f} virtual hours in {run.real_seconds:,.0f} seconds:"
        f" {run.told / run.real_seconds:,.0f} uploads a second. {len(run.calls):,} calls. The longest job took"
        f" {slowest:.1f} virtual seconds, the largest item of the ledger has {run.largest_item} bytes at most."
    )


def _table(head: tuple[str, str, str], *rows: tuple[str, int, str]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---|---:|---|"]
    return "\n".join(lines + [f"| {name} | {number:,} | {note} |" for name, number, note in rows])


def _progress() -> Callable[[float], None]:
    told = 0

    def tell(share: float) -> None:
        nonlocal told
        if int(share * 20) > told:
            told = int(share * 20)
            print(f"{told * 5:3d} %", end="\r", file=sys.stderr, flush=True)

    return tell


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m simulation traffic", description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=int, default=1, help="play one part in so many (default: all of it)")
    parser.add_argument("--loss", type=float, default=LOSS, help="uploads nobody is told of, for each notification")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--max-wait", default="60s", help="of the routes (default: 60s)")
    options = parser.parse_args(arguments)
    if options.scale < 1 or not 0 <= options.loss <= 1:
        parser.error("--scale is 1 or more, --loss between 0 and 1")
    with simulation(options.max_wait):
        run = replay(generate(options.scale, options.loss, options.seed), _progress())
    print(conservation(run), work(run), pace(run), sep="\n\n")
    if run.problems:
        print("These do not hold:", *run.problems, sep="\n  ")
    return 1 if run.problems else 0

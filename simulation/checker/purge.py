"""TTL changes no outcome: a world is run twice, with a ledger that deletes expired items at once, and with one that
never deletes them.

DynamoDB deletes an expired item some time after it has expired, and promises no time. Rule 5 says that such an item
counts as absent. So both runs must make the same calls in the same order, and end with the same tables, the same
records, and the same files. A random choice of a world may depend on how many calls there were before it. As long as
the calls are the same, so are the choices; a difference in the calls is reported, and what follows from it too.

Items live for months. The worlds have two ways to get there:

- Months pass in which nothing happens. Then the same keys are uploaded again, old messages are replayed, and people
  act on what the ledger has forgotten.
- In the middle of the work all items become older at once (`_age`), as if everything had stood still for months. No
  request and no process is under way at that moment: none would live as long.

What is not compared: an item that expires *between* the read and the write of one process. The write is then refused
if TTL was fast, and the message is delivered again. The rows are the same, and which notice brings them is not.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from simulation.checker.draws import Chance, drawn
from simulation.checker.scenarios import GOOD
from simulation.checker.scenarios import chance as uploads_by_chance
from simulation.world import course, people, resending
from simulation.world.course import DAY
from simulation.world.dynamodb import DynamoDb, Ttl
from simulation.world.faults import Kind
from simulation.world.kernel import Process, Stuck
from simulation.world.knobs import Knobs
from simulation.world.lambdas import EventSource
from simulation.world.sqs import Queue
from simulation.world.world import World
from tidegate.stores import inserts

MOST_FAULTS = 4
GAPS = (59.9, 60.2, 61.2, 62.3, 65.0)
"""Days that pass. A claim lives for 60, a notice's record for 61, and a batch's for 62 after it has ended."""
AGES = (1.5, 60.2, 61.2, 62.3, 65.0)
"""Days by which all items become older at once. The record of a hand-off lives for one."""
NOT_DRAWN = ("page", "horizon", "expiry_at_once", "away")
"""Knobs of a seed that are not turned. An expired item fills a page of a query, so that there is a call more; the next
two are what this module does itself; and who waits for days costs too much time."""
SELDOM = ("audit", "audits")
"""Nor these, where months pass: an audit an hour would take most of the time."""


@dataclass(frozen=True)
class EndOfRun:
    """How a run has ended. The parts are compared one by one. `met` as in `Pair`; it is not compared."""

    parts: Mapping[str, Any]
    met: Counter[tuple[str, str]]


@dataclass(frozen=True)
class Pair:
    """`differing` names the parts of the outcome that differ. `ended` is how the run that keeps expired items ended.
    `met` counts the expired items that requests found in that run, by (prefix of the key, "read" or "write")."""

    seed: int
    differing: tuple[str, ...]
    ended: str
    met: Counter[tuple[str, str]]

    def __str__(self) -> str:
        return f"seed {self.seed}: {', '.join(self.differing) or 'the same'}"


def compared(seed: int) -> Pair:
    """Only within `explore.simulation()`."""
    deleted, kept = (outcome(seed, ttl) for ttl in (Ttl.AT_ONCE, Ttl.NEVER))
    differing = tuple(name for name, value in deleted.parts.items() if kept.parts[name] != value)
    return Pair(seed, differing, kept.parts["how it ended"], kept.met)


def months_pass(seed: int) -> bool:
    return seed % 5 < 2


def a_job_is_forgotten(seed: int) -> bool:
    return seed % 5 == 2


def an_upload_comes_again(seed: int) -> bool:
    return seed % 5 == 3


CALLS_MORE = ("inserted", "failed_inserts")
"""An insert that meets an expired claim costs a read and a put, so the calls would differ: here each upload is claimed
by a put. That nothing else differs, tests/contract/test_inserts.py shows."""
PUT_ONE_BY_ONE = 1_000_000


def knobs_of(seed: int) -> Knobs:
    return drawn(seed, (*NOT_DRAWN, *CALLS_MORE, *(SELDOM if months_pass(seed) else ())))


@dataclass
class _Plan(Chance):
    """And whoever is the first to start a job dies right afterwards; `then` happens."""

    then: Callable[[], None] | None = None

    def strike(self, number: int, site: str, kinds: tuple[Kind, ...]) -> Kind | None:
        if self.then and "StartJobRun" in site:
            self.then()
            self.then = None
            return Kind.DIE_AFTER
        return super().strike(number, site, kinds)


def outcome(seed: int, ttl: Ttl, *, keep_trace: bool = False) -> EndOfRun:
    """One of the two runs of a seed. Only within `explore.simulation()`."""
    plan = _Plan(seed, MOST_FAULTS)
    world = World(seed, plan, knobs_of(seed))
    course.begin(world)
    world.kernel.keep_trace = keep_trace
    for table in (world.dynamodb, world.totals):
        table.ttl = ttl
    months(world, plan)
    try:
        with patch.object(inserts, "FEW", PUT_ONE_BY_ONE):
            ended = "at rest" if course.run(world) else "not at rest"
    except Stuck:
        ended = "stuck"
    work = world.s3.buckets["work"].current
    parts = {
        "how it ended": ended,
        "the tables": {name: sorted(map(repr, world.catalog.rows(name))) for name in world.catalog.tables},
        "the sums": _items(world.dynamodb, "r#"),
        "the uploads": _items(world.dynamodb, "o#"),
        "the records": _items(world.dynamodb),
        "what a consumer counted": _items(world.totals),
        "the work bucket": {name: version.body for name, version in work.items()},
        "the events": [json.dumps(each, sort_keys=True) for each in world.sent],
        "the dead letters": [sorted(each.messages) for each in (world.dead_letters, world.notices_dead_letters)],
        "the calls": world.kernel.trace if keep_trace else world.kernel.digest,
    }
    return EndOfRun(parts, world.dynamodb.met + world.totals.met)


def _items(table: DynamoDb, prefix: str = "") -> dict[Any, Any]:
    """What the ledger remembers in the end. Expired items are not in it."""
    table._let_expire()
    return {key: dict(item) for key, item in table.items.items() if key[1].startswith(prefix)}


# ---- the worlds


def months(world: World, plan: _Plan) -> None:
    """Uploads by chance, and what comes months later."""
    uploads_by_chance(world)
    random = world.kernel.random
    spawned = _watched(world)
    replay = _remembered(world)
    if months_pass(world.seed):
        gap = random.choice(GAPS) * DAY
        world.lasts = gap + 0.2 * DAY
        world.kernel.after(gap, lambda: uploads_by_chance(world))
        moments = [gap]
    else:
        moments = [random.choice((100.0, 400.0, 1_000.0, 6_000.0)) for _ in range(random.randrange(1, 3))]
        for moment in moments:
            days = random.choice(AGES)
            world.kernel.after(moment, lambda days=days: _age(world, days, spawned))
    if a_job_is_forgotten(world.seed):
        plan.then = lambda: world.kernel.after(1.0, lambda: _age(world, AGES[0], spawned))
    if an_upload_comes_again(world.seed):
        _come_again(world, spawned)
    for moment in moments:
        for _ in range(3):
            later = moment + random.choice((60.0, 300.0, 2_000.0, 8_000.0))
            act = random.choice((replay, replay, *_PEOPLE))
            world.kernel.after(later, lambda act=act: act(world))


def _come_again(world: World, spawned: list[Process]) -> None:
    """While a batch is undecided, the bytes of one of its uploads come again. All claims expire, and then a person
    gives the batch up."""
    announce = world.announce
    world.announce = lambda version: [1.0] if version.key == "again.json" else announce(version)
    for after in (0.0, world.knobs.max_wait + 40.0):
        world.upload("again.json", GOOD, bucket="plain", after=after)
    world.kernel.after(world.knobs.max_wait + 60.0, lambda: _age(world, 60.2, spawned))
    world.kernel.after(world.knobs.max_wait + 70.0, lambda: people.give_up(world))


def _remembered(world: World) -> Callable[[World], None]:
    """What replays the archive of the topic, and the events: every message from now on."""
    messages: list[Callable[[str], object]] = []
    for queue, source in ((world.notices, world.from_notices), (world.events, world.from_events)):
        queue.send = _remembering(queue, source, messages)  # type: ignore[method-assign]

    def replay(world: World) -> None:
        for number, send in enumerate(list(messages)):
            send(f"replayed-{number}-{world.kernel.now}")

    return replay


def _remembering(queue: Queue, source: EventSource, messages: list[Callable[[str], object]]) -> Callable[..., bool]:
    send = queue.send

    def remembering(body: str, **options: Any) -> bool:
        messages.append(lambda name: (send(body, **{**options, "deduplication": name}), source.wake(0.0)))
        return send(body, **options)

    return remembering


def _ask_for_the_forgotten(world: World) -> None:
    """A person resends batches that have ended long ago, and another one gives them up."""
    ended = sorted(world.ended)
    for batch in world.kernel.random.sample(ended, min(2, len(ended))):
        world.kernel.spawn("person", lambda batch=batch: resending.resend_one_batch(batch))
        people.drop_one(world, batch)


_PEOPLE: tuple[Callable[[World], None], ...] = (
    resending.meddle,
    resending.meddle,
    people.wish,
    people.give_up,
    people.meddle,
    _ask_for_the_forgotten,
    _ask_for_the_forgotten,
)


def _watched(world: World) -> list[Process]:
    """Every process of the world, from now on."""
    spawned: list[Process] = []
    spawn = world.kernel.spawn

    def watching(*arguments: Any, **named: Any) -> Process:
        spawned.append(spawn(*arguments, **named))
        return spawned[-1]

    world.kernel.spawn = watching  # type: ignore[method-assign]
    return spawned


def _age(world: World, days: float, spawned: list[Process]) -> None:
    """All items become older, as soon as nobody is at work. What is frozen, and what is late, is gone by then."""
    functions = (world.intake, world.dispatch, world.settle, world.audit, world.consumer)
    persons = any(each.role == "person" and not each.ended for each in spawned)
    if persons or any(function.running for function in functions):
        world.kernel.after(1.0, lambda: _age(world, days, spawned))
        return
    for function in functions:
        function.kill_all()
    world.network.era += 1
    for table in (world.dynamodb, world.totals):
        for item in table.items.values():
            if "expires_at" in item:
                item["expires_at"] -= int(days * DAY)

"""What happens in a world: what people and accidents do there meanwhile, and its run until it is at rest."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

from simulation.world import (
    asking,
    audits,
    backfills,
    driver,
    expiring,
    foreign,
    people,
    product,
    rebuilt,
    replayed,
    resending,
    seen,
)
from simulation.world.configs import configured, pace
from simulation.world.emr import SimulatedJobRun
from simulation.world.kernel import START
from simulation.world.knobs import PLAIN, Knobs
from simulation.world.world import LOOK, SCHEDULE, World
from tidegate.core import notices
from tidegate.stores import inserts

HOUR = 3_600.0
DAY = 24 * HOUR
PATIENCE = 12 * HOUR
"""How long after its last fault a world may take to come to rest: five deliveries of a notice take one hour, five
attempts of a batch with half an hour of silence each, and the waits between them, another three."""
LOOKS_IN_VAIN = 6 * 60
"""After so many runs of the schedule without a change a person is called."""
MOST_LOOKS = 15
"""How many runs of the schedule may change something when nothing is under way: each takes a portion."""
MOST_CUTS = 4
MOST_VISITS = 20
"""How many times the person on call comes. After each time everything goes on as far as it can by itself."""
SMALL = {
    "flows.settle": ("ENDINGS_PER_WRITE", "ENDINGS_PER_LOOK"),
    "flows.wishes": ("UPLOADS_PER_LOOK",),
    "core.transitions": ("MOST_DROPPED",),
    "flows.resend": ("AT_ONCE",),
    "flows.backfill": ("AT_ONCE",),
    "flows.quarantine": ("CLAIMS_AT_ONCE",),
    "flows.quarantine_age": ("BATCHES_PER_LOOK",),
    "flows.hand_off": ("TOGETHER",),
    "flows.reconcile": ("HEADERS",),
    "flows.screen": ("PAGE",),
    "flows.files": ("TOGETHER",),
    "flows.batch_list": ("TOGETHER",),
}
"""The product's portions that a small world makes one."""


# ---- what happens meanwhile


def begin(world: World) -> None:
    """Have the knobs of the world that are people's, and accidents, take their course: before anything is uploaded. In
    a plain world nothing does."""
    knobs, chance, after = world.knobs, world.kernel.random, world.kernel.after
    meddlers = [foreign.commit_one] * knobs.foreign
    meddlers += [people.give_up] * knobs.aborts + [people.meddle] * knobs.resumes
    meddlers += [resending.meddle] * knobs.releases + [people.wish] * knobs.drops
    _at_some_times(world, meddlers)
    if knobs.horizon:
        _visit_daily(world)
    if knobs.replayed and knobs.horizon > DAY:
        replayed.begin(world)
    if knobs.two_versions:
        _deploy_slowly(world)
    if knobs.suspended:
        landing, moment = world.s3.buckets["landing"], _some_time(world)
        for seconds, suspended in ((0.0, True), (900.0, False)):
            after(moment + seconds, partial(setattr, landing, "suspended", suspended))
    if knobs.closed_bucket:
        world.s3.closed["closed"] = knobs.closed_bucket
        after(chance.choice((600.0, 3 * HOUR)), world.s3.closed.clear)
    if knobs.cut:
        _cut_histories(world)
    if knobs.lost:
        rebuilt.lose(
            world,
            _some_time(world) + knobs.lost,
            switched_off=(off := chance.random() < 0.5),
            waits=0.0 if off else chance.choice((0.0, 900.0, 9_000.0)),
            then=lambda: people.ask_again(world),
        )
    if knobs.audit:
        audits.begin(world)
        _at_some_times(world, [people.audit] * knobs.audits)
    if backfills.wanted(knobs):
        _at_some_times(world, [backfills.act] * knobs.backfills)
    if not knobs.two_versions:
        _at_some_times(world, [backfills.reload] * knobs.reloads)
    if knobs.skips and not (knobs.replaces or knobs.foreign or knobs.cut or knobs.suspended):
        _at_some_times(world, [expiring.expire] * knobs.expires)


def _at_some_times(world: World, acts: list[Callable[[World], object]]) -> None:
    for act in acts:
        world.kernel.after(_some_time(world), partial(act, world))


def _some_time(world: World) -> float:
    """The time of an unexpected act: most happen while the first batches are under way."""
    chance = world.kernel.random
    return chance.choice((chance.uniform(0, 130), chance.uniform(60, 400), chance.uniform(0, 4_000)))


def _visit_daily(world: World) -> None:
    """The person on call comes at the end of the horizon, and a dead letter lives for two weeks. What ended without a
    row is resent before the ledger forgets it; the run waits for these visits."""
    after, horizon = world.kernel.after, world.knobs.horizon
    for letters in (world.dead_letters, world.notices_dead_letters):
        letters.on_message = lambda: after(DAY, lambda: people.move_back(world))
    if world.knobs.resends or world.knobs.releases:
        world.lasts = max(world.lasts, 2 * horizon)
        for day in range(1, int(2 * horizon / DAY) + 1):
            after(day * DAY, lambda: [people.ask_again(world), resending.look_after(world)])


def _cut_histories(world: World) -> None:
    """While a driver works, somebody adds a snapshot and expires all history below it."""
    knobs, chance, after = world.knobs, world.kernel.random, world.kernel.after
    cuts = iter(range(MOST_CUTS))

    def begins(run: SimulatedJobRun) -> None:
        if chance.random() >= knobs.cut or next(cuts, None) is None:
            return
        moment = chance.choice((0.0, 0.05, 0.3, 2.0, 20.0))
        after(moment, lambda: foreign.commit(world, foreign.cut))
        if knobs.cut_undone:
            after(moment + chance.choice((300.0, 3 * HOUR)), lambda: foreign.commit(world, foreign.remember))

    world.emr.on_driver = begins


def _deploy_slowly(world: World) -> None:
    """Deploy another configuration, and later the old one. For a while functions have either of the two."""
    old = configured(world.knobs)
    new = world.kernel.random.choice(
        (
            old.replace('format = "json"', 'format = "json"\nmax_object_bytes = 1000000'),
            old.replace('table = "lake.sim.events"', 'table = "lake.sim.later"'),
            old.replace('name = "events"', 'name = "things"'),
            # its predecessor stays to finish what it has gathered
            configured(world.knobs, retired=("events",)).replace('name = "events"', 'name = "things"', 1),
        )
    )
    begin = _some_time(world)
    for after, versions in ((0.0, (old, new)), (200.0, (new,)), (700.0, (new, old)), (900.0, (old,))):
        world.kernel.after(begin + after, partial(product.deploy, *versions))
        # the schedule looks though nothing is under way: it notes what is deployed
        for minute in (1, 2, 3):
            world.kernel.after(begin + after + minute * SCHEDULE, lambda: world.tell_settle(LOOK))


# ---- its run


LONGEST_LOOKED = 2 * DAY
"""Seconds of a play for which its looks are granted events: what goes round in a circle is to be found soon."""


def run(world: World) -> bool:
    """Run until everything is at rest; False if that takes too long (liveness is lost)."""
    # meanwhile the schedule looks at what waits for a person: once in a minute, sixty events or so
    world.kernel.most_events += min(int(world.lasts), LONGEST_LOOKED)
    with (
        product.inhabited(world.kernel, world.network, "" if world.knobs == PLAIN else configured(world.knobs)),
        driver.CATALOG.belonging(world.network, world.catalog),
        _limits(world.knobs),
        pace(world.knobs),
    ):
        rests = _run(world)
        world.deployments = product.HERE.deployments
        return rests


def _run(world: World) -> bool:
    knobs, kernel = world.knobs, world.kernel
    world.wake_schedule()
    # a person who comes once a day may have to come a second time
    patience = PATIENCE + (3 * DAY if knobs.away or knobs.horizon else 0)
    deadline = START + world.lasts + patience
    quiet = False
    for _ in range(MOST_VISITS):
        kernel.run(lambda: world.at_rest or _waits_for_a_person(world), deadline)
        quiet = world.at_rest
        acts = people.attend(world)
        world.acts += acts
        world.looks_in_vain = 0
        if not acts and not (quiet and (audits.again(world) or backfills.again(world))):
            break
        # the next runs of the schedule do what the person requested
        kernel.run(lambda: False, kernel.now + 2 * SCHEDULE)
        deadline = max(kernel.now, START + world.lasts) + patience
    quiet = quiet and _stays_at_rest(world)
    if quiet and world.asked and world.seed % 2 == 0:  # it costs a tenth of a run
        asking.ask(world)
    kernel.note("at rest" if quiet else "NOT AT REST")
    seen.in_the_end(world.happened, (item for _, item in world.dynamodb.items.on("b#")))
    return quiet


def _waits_for_a_person(world: World) -> bool:
    """Whether a batch has halted and nothing else is under way, or nothing has changed for hours."""
    busy = world.kernel.busy or world.buffer.messages or world.notices.messages
    patience = LOOKS_IN_VAIN * (8 if world.knobs.away else 1)
    if world.looks_in_vain < patience and (busy or world.knobs.away):
        return False
    return bool(people.halted(world))


def _stays_at_rest(world: World) -> bool:
    """Whether one of a few further runs of the schedule changes nothing. The first ones may still record what was
    deployed."""
    for _ in range(MOST_LOOKS):
        writes = world.dynamodb.writes
        world.tell_settle(LOOK)
        world.kernel.run(lambda: not world.kernel.busy, world.kernel.now + PATIENCE)
        if world.at_rest and world.dynamodb.writes == writes:
            return True
    return False


@contextmanager
def _limits(knobs: Knobs) -> Iterator[None]:
    """Make the product's portions small, so that there are several of them."""
    with ExitStack() as stack:
        if knobs.small:
            for module, names in SMALL.items():
                for name in names:
                    stack.enter_context(patch(f"tidegate.{module}.{name}", 1))
            for packs in (notices.pack, notices.pack_entries):
                stack.enter_context(patch.dict(packs.__kwdefaults__, max_bytes=350))
        if knobs.inserted:
            for name, value in (("FEW", 0), ("PROBE", 1), ("WAVE", 2), ("INSERTS", 2)):
                stack.enter_context(patch.object(inserts, name, value))
        yield

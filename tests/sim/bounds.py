"""What it may cost: time to land, people's acts, attempts, jobs and calls. Tight where nothing was struck and the world
disturbs nobody; with faults as much more as they explain.
"""

from collections.abc import Iterator

from tests.sim.knobs import Knobs
from tests.sim.seen import MOVED_BACK
from tests.sim.world import SCHEDULE, World

CALLS_OF_A_JOB = 45
"""A driver of a small batch makes fewer."""
CALLS_OF_A_LOOK = 40
"""Of settle, for each route, and of dispatch after it has registered."""


LONGEST_OPEN = 30 * 3_600
"""A day, and what faults, the thinned looks of a quiet world and clocks that differ add."""
CLOSED = ("closed",)


def exceeded(world: World) -> list[str]:
    always = [*_slots(world), *_open(world)]
    # a bucket that is closed must cost nobody else anything
    if not world.knobs.without(["closed_bucket"]).undisturbed:
        return always
    if world.knobs.closed_bucket:
        return [*always, *_time(world)]
    return [*always, *_acts(world), *_jobs(world), *_time(world)]


def _slots(world: World) -> Iterator[str]:
    """Never more batches of a route at once than its `in_flight`, whatever else goes wrong."""
    if world.knobs.restored:
        return  # what is recovered is under way, whatever else is
    allowed = world.knobs.in_flight
    for route, running in world.most_running.items():
        if running > allowed:
            yield f"slots: {running} batches of route {route} were submitted at once, in_flight is {allowed}"


def _open(world: World) -> Iterator[str]:
    """A batch gathers for a day at most, and until somebody looks, even behind one that has halted for longer."""
    for _, item in world.dynamodb.items.on("b#"):
        gathered = item.get("sealed_at", 0) - item["opened_at"]
        # one that was opened by somebody who died then may be empty until the notice comes again, as a dead letter late
        if gathered > LONGEST_OPEN and not world.knobs.horizon and not world.happened[MOVED_BACK]:
            yield f"open: {item['pk']} gathered for {gathered} s"


def strikes(world: World) -> int:
    return sum(world.network.struck.values())


def _acts(world: World) -> Iterator[str]:
    """Nobody is called for one fault: whatever it is, the next delivery, look or attempt gets over it."""
    if world.acts and strikes(world) <= 1 and world.knobs.attempts > 1:
        yield f"people: {world.acts} acts after {strikes(world)} faults"


def _jobs(world: World) -> Iterator[str]:
    """As many attempts as batches, and one more for each fault; as many runs as attempts, and two more for each fault:
    a start whose answer is lost is made again, by whoever made it and by the next look."""
    batches = [item for _, item in world.dynamodb.items.on("b#")]
    for item in batches:
        if item["attempt"] > 1 + strikes(world):
            yield f"attempts: {item['attempt']} of {item['pk']} after {strikes(world)} faults"
    attempts = sum(item["attempt"] for item in batches)
    if len(world.emr.runs) > attempts + 2 * strikes(world):
        yield f"jobs: {len(world.emr.runs)} runs for {attempts} attempts after {strikes(world)} faults"


def longest(knobs: Knobs) -> float:
    """Seconds from when an upload is heard of until its rows are there, if nothing is struck."""
    latency, calls = 2 * max(knobs.latency), CALLS_OF_A_LOOK + CALLS_OF_A_JOB
    travels = 5.0 + max(knobs.delivery) + 20 * latency
    # until the batch is due, and a look comes that seals it
    gathers = knobs.max_wait + SCHEDULE + CALLS_OF_A_LOOK * latency
    job = max(knobs.startup) + calls * latency
    # the batch before it may just have been handed off; its end is looked at within a minute
    return travels + gathers + 2 * job + SCHEDULE


def _time(world: World) -> Iterator[str]:
    if strikes(world) or "missed_looks" in world.knobs.turned() or "twins" in world.knobs.turned():
        return
    allowed = longest(world.knobs)
    for put in world.history:
        heard, landed = world.heard_at.get(put.number), world.landed_at(put)
        if put.bucket in CLOSED and world.knobs.closed_bucket:
            continue
        if heard is not None and landed is not None and landed - heard > allowed:
            yield f"time: s3://{put.bucket}/{put.key} landed {landed - heard:.0f} s after it was heard of"

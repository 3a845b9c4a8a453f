"""The bounds of a run: time to land, people's acts, attempts, jobs and calls. They are tight without faults in a
harmless world. Each fault allows as much more as it explains.
"""

from collections.abc import Iterator

from simulation.world.knobs import Knobs
from simulation.world.seen import DECIDED, MAINTAINED, MOVED_BACK
from simulation.world.world import SCHEDULE, World

CALLS_OF_A_JOB = 45
"""A driver of a small batch makes fewer calls."""
CALLS_OF_A_LOOK = 40
"""Calls of settle, for each route, and of dispatch after it has registered."""


LONGEST_OPEN = 30 * 3_600
"""A day, plus the delay by faults, by the fewer runs of the schedule in a quiet world, and by differing clocks."""
CLOSED = ("closed",)

HARMLESS = frozenset(
    {
        *("latency", "delivery", "startup", "behind", "held_back", "page", "skew", "expiry_at_once", "bundled"),
        *("in_flight", "attempts", "max_wait", "one_table", "small", "forgotten_tokens", "unordered"),
        *("horizon", "missed_looks", "resends", "announced", "inserted", "failed_inserts", "lanes", "replayed"),
    }
)
"""Knobs that cost nobody time, and no further job."""


def undisturbed(knobs: Knobs) -> bool:
    """Whether all knobs of the world are harmless: none can cost a person time, or a further job."""
    return not set(knobs.turned()) - HARMLESS


def exceeded(world: World) -> list[str]:
    always = [*_slots(world), *_open(world)]
    # a closed bucket must not affect other routes
    if not undisturbed(world.knobs.without(["closed_bucket"])):
        return always
    if world.knobs.closed_bucket:
        return [*always, *_time(world)]
    return [*always, *_acts(world), *_jobs(world), *_time(world)]


def _slots(world: World) -> Iterator[str]:
    """Never more submitted batches of a route in a slot than its `in_flight`, whatever else fails; but for those that a
    person gave up, and those that were resumed after they had stepped aside."""
    allowed = world.knobs.in_flight
    for route, running in world.most_running.items():
        if running > allowed:
            yield f"slots: {running} batches of route {route} were submitted at once, in_flight is {allowed}"


def _open(world: World) -> Iterator[str]:
    """A batch gathers for a day at most, plus the time to the next run of the schedule, even behind a halted one."""
    joined: dict[str, int] = {}
    for _, item in world.dynamodb.items.on("n#"):
        if batch := item.get("batch"):
            joined[batch] = min(item["decided_at"], joined.get(batch, item["decided_at"]))
    for (_, pk, _), item in world.dynamodb.items.on("b#"):
        # one that was opened by somebody who died then may be empty for days
        gathered = item.get("sealed_at", 0) - joined.get(pk[2:], item["opened_at"])
        if gathered > LONGEST_OPEN and not world.knobs.horizon and not world.happened[MOVED_BACK]:
            yield f"open: {item['pk']} gathered for {gathered} s"


def decisions(world: World) -> Iterator[str]:
    """Where only maintenance expires, the table can always say whether a batch is in it."""
    if world.happened[MAINTAINED] and world.happened[DECIDED]:
        yield f"decisions: a person decided {world.happened[DECIDED]} times about a table that was maintained"


def strikes(world: World) -> int:
    """The faults that struck, and the deaths of those that read files."""
    return sum(world.network.struck.values()) + world.network.readers_died


def _acts(world: World) -> Iterator[str]:
    """One fault calls no person: the next delivery, run of the schedule or attempt recovers from it."""
    if world.acts and strikes(world) <= 1 and world.knobs.attempts > 1:
        yield f"people: {world.acts} acts after {strikes(world)} faults"


def _jobs(world: World) -> Iterator[str]:
    """As many attempts as batches, and one more for each fault; as many runs as attempts, and two more for each fault.
    A start whose answer is lost is repeated by its caller and by the next run of settle."""
    batches = [item for _, item in world.dynamodb.items.on("b#")]
    for item in batches:
        if item["attempt"] > 1 + strikes(world):
            yield f"attempts: {item['attempt']} of {item['pk']} after {strikes(world)} faults"
    attempts = sum(item["attempt"] for item in batches)
    if len(world.emr.runs) > attempts + 2 * strikes(world):
        yield f"jobs: {len(world.emr.runs)} runs for {attempts} attempts after {strikes(world)} faults"


def longest(knobs: Knobs) -> float:
    """Seconds from an upload's first notification until its rows are in the table, without faults."""
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

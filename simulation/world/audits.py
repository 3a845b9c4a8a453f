"""The schedule of the audit, and what it has looked at.

EventBridge invokes the function once an hour. An invocation with nothing to do is not simulated: in a world of months
they would be thousands.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from simulation.world.knobs import Knobs
from tidegate.core.audit import AuditLimits, next_run
from tidegate.core.transitions import begin_audit, note_audit
from tidegate.stores.memory import MemoryStore

if TYPE_CHECKING:
    from simulation.world.world import World

HOUR = 3_600.0
DAY = 24 * HOUR
LATER = 60.0
"""A run is due a little after the hour: clocks differ, and an invocation takes its time."""
MOST_RUNS = 6
"""How many runs may follow each other at the end until one finds nothing lost."""
EVENT = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


def begin(world: "World") -> None:
    """The first invocation comes with the deployment: from then on the buckets are watched."""
    world.audited = True

    def tick() -> None:
        _invoke(world)
        under_way = any(not run.get("finished_at") for run in _runs(world).values())
        world.kernel.after((HOUR if under_way else world.knobs.audit_every) + LATER, tick, background=True)

    world.kernel.after(0.0, tick, background=True)


def begun_before(world: "World", seconds: float) -> None:
    """The deployment is so old: the first audit of each route has ended, and the buckets are watched since then."""
    at = int(world.kernel.now - seconds)
    store = MemoryStore()
    for name in audited(world.knobs):
        run = next_run(name, None, AuditLimits(0, 0, 0, int(DAY)), run_id=f"first-{name}", now=at)
        store.apply(begin_audit(run, None))
        store.apply(note_audit(replace(run, page=1, finished_at=at)))
    world.dynamodb.items.update({("ledger", *key): dict(item) for key, item in store.items.items()})


def again(world: "World") -> bool:
    """Have the schedule audit once more, when everything is at rest and old enough. False if the last run has looked at
    everything and found nothing: then there is nothing left to do."""
    if not world.audited:
        return False
    last_put = max((each.at for each in world.history), default=0.0)
    _note_what_is_over(world)
    if all((name, last_put) in world.audits_over for name in audited(world.knobs)):
        return False
    # a job takes its time: the run goes on in the hour after it was begun, or later
    if world.audited_at_the_end == MOST_RUNS * (3 if world.knobs.screened else 1):
        world.noticed.append("audit: each run finds lost uploads again")
        return False
    world.audited_at_the_end += 1
    world.kernel.run(lambda: False, max(world.kernel.now, last_put + world.knobs.audit) + world.knobs.audit_every)
    _invoke(world)
    world.kernel.run(lambda: not world.kernel.busy, world.kernel.now + HOUR)
    return True


def watched_since(world: "World") -> Mapping[str, int]:
    """Since when each bucket is audited (epoch seconds), as the ledger records it for its route."""
    if not world.audited:
        return {}
    runs = _runs(world)
    return {bucket: runs[name]["watched_since"] for name, bucket in audited(world.knobs).items() if name in runs}


def audited(knobs: Knobs) -> Mapping[str, str]:
    """The buckets that are audited, by route."""
    return {"events": "landing", "plain": "plain", **({"closed": "closed"} if knobs.closed_bucket else {})}


def _invoke(world: "World") -> None:
    _note_what_is_over(world)
    if world.rules_enabled:
        world.audit.invoke_asynchronously(EVENT)


def _note_what_is_over(world: "World") -> None:
    """The runs of the routes need not end together: each is noted before the next one replaces it."""
    last_put = max((each.at for each in world.history), default=0.0)
    world.audits_over |= {(name, last_put) for name, run in _runs(world).items() if _is_over(run, last_put)}


def _is_over(run: Mapping[str, Any], last_put: float) -> bool:
    counts = run.get("counts", {})
    found = counts.get("lost", 0) + counts.get("stale", 0)
    return bool(run.get("finished_at")) and run["until"] >= int(last_put) and not found


def _runs(world: "World") -> dict[str, Mapping[str, Any]]:
    """The last run of each route."""
    return {pk[2:]: item for (_, pk, _), item in world.dynamodb.items.on("a#")}

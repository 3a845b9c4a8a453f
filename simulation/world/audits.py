"""The schedule of the audit, and what it has looked at.

EventBridge invokes the function once an hour. An invocation with nothing to do is not simulated: in a world of months
they would be thousands.
"""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from simulation.world.configs import configured
from simulation.world.knobs import Knobs
from simulation.world.s3 import Version
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.audit import AuditLimits, first_run
from tidegate.core.records import AUDITS
from tidegate.core.routes import Place, Route, route_of
from tidegate.core.transitions import begin_watch
from tidegate.core.uploads import Upload
from tidegate.settings import parse
from tidegate.stores.memory import MemoryStore

HOUR = 3_600.0
DAY = 24 * HOUR
LATER = 60.0
"""A run is due a little after the hour: clocks differ, and an invocation takes its time."""
MOST_RUNS = 6
"""How many runs may follow each other at the end until one finds nothing lost."""
EVENT = {"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}


def begin(world: World) -> None:
    """The first invocation comes with the deployment: from then on the buckets are watched."""
    world.audited = True

    def tick() -> None:
        _invoke(world)
        under_way = any(not run.get("finished_at") for run in _runs(world).values())
        world.kernel.after((HOUR if under_way else world.knobs.audit_every) + LATER, tick, background=True)

    world.kernel.after(0.0, tick, background=True)


def begun_before(world: World, seconds: float) -> None:
    """The deployment is so old: the buckets are watched since then."""
    at = int(world.kernel.now - seconds)
    store = MemoryStore()
    for place in _places(_routes(configured(world.knobs))):
        run = first_run(place, None, AuditLimits(0, 0, 0, int(DAY)), run_id="first", now=at)
        store.apply(begin_watch(run, at))
    world.dynamodb.items.update({("ledger", *key): dict(item) for key, item in store.items.items()})


def again(world: World) -> bool:
    """Have the schedule audit once more, when everything is at rest and old enough. False if the last run has looked at
    everything and found nothing: then there is nothing left to do."""
    if not world.audited:
        return False
    last_put = max((each.at for each in world.history), default=0.0)
    _note_what_is_over(world)
    runs = _runs(world)
    taken = _places(wiring.this_deployment().routes.values())
    watched = {_place(run) for run in runs.values() if not run.get("left_at")}
    looked_at = [name for name, run in runs.items() if any(each.overlaps(_place(run)) for each in taken)]
    if taken <= watched and all((name, last_put) in world.audits_over for name in looked_at):
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


def watched_since(world: World) -> Mapping[str, int]:
    """Since when each bucket is audited (epoch seconds), as the ledger records it for the first place in it."""
    if not world.audited:
        return {}
    found: dict[str, int] = {}
    for run in _runs(world).values():
        bucket, since = str(run["bucket"]), int(run["watched_since"])
        found[bucket] = min(since, found.get(bucket, since))
    return {bucket: since for bucket, since in found.items() if bucket in audited(world.knobs).values()}


def asked_for(world: World, put: Version) -> tuple[bool, bool]:
    """Whether some deployed route took the upload at all times shortly before it was put; and whether at any. Between
    the two an audit may not have looked yet at what is deployed."""
    begins = [at for at, _ in world.deployments]
    in_force = [
        any(_takes(config, put.bucket, put.key) for config in configs)
        for (at, configs), ends in zip(world.deployments, [*begins[1:], math.inf], strict=True)
        if at <= put.at and ends >= put.at - 2 * world.knobs.audit_every
    ]
    return all(in_force), any(in_force)


@lru_cache(maxsize=4_096)
def _takes(config: str, bucket: str, key: str) -> bool:
    return route_of(Upload(bucket, key, "", 1), _routes(config)) is not None


@lru_cache(maxsize=64)
def _routes(config: str) -> list[Route]:
    return parse(config).core_routes()


def audited(knobs: Knobs) -> Mapping[str, str]:
    """The buckets that are audited, by route."""
    return {"events": "landing", "plain": "plain", **({"closed": "closed"} if knobs.closed_bucket else {})}


def _invoke(world: World) -> None:
    _note_what_is_over(world)
    if world.rules_enabled:
        world.audit.invoke_asynchronously(EVENT)


def _note_what_is_over(world: World) -> None:
    """The runs of the places need not end together: each is noted before the next one replaces it."""
    last_put = max((each.at for each in world.history), default=0.0)
    world.audits_over |= {(name, last_put) for name, run in _runs(world).items() if _is_over(run, last_put)}


def _is_over(run: Mapping[str, Any], last_put: float) -> bool:
    counts = run.get("counts", {})
    found = counts.get("lost", 0) + counts.get("stale", 0)
    return (
        bool(run.get("finished_at")) and run["until"] >= min(int(last_put), run.get("left_at", math.inf)) and not found
    )


def _places(routes: Iterable[Route]) -> set[Place]:
    return {route.place for route in routes if not route.retired}


def _place(run: Mapping[str, Any]) -> Place:
    return Place(run["bucket"], run["prefix"], run["suffix"])


def _runs(world: World) -> dict[str, Mapping[str, Any]]:
    """The last run of each place."""
    return {sk: item for (_, _, sk), item in world.dynamodb.items.on(AUDITS[:2])}

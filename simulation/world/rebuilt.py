"""Loses the ledger as a whole, and the work bucket too, and rebuilds it by the runbook: disable the writers, make an
empty table, rebuild, enable the writers (docs/operations.md). Or nobody disables anything: then the functions fail
until the ledger is whole."""

import re
import uuid
from collections.abc import Callable, Iterable

from infra.sizing import DISPATCH, INTAKE, SETTLE_TIMEOUT
from simulation.world import product
from simulation.world.configs import configured
from simulation.world.kernel import Process
from simulation.world.seen import REBUILT, REBUILT_AGAIN
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.batches import oldest_remembered
from tidegate.core.records import WHOLE
from tidegate.flows.rebuild import Rebuilt, rebuild

LONGEST_RUN = float(max(INTAKE.timeout, DISPATCH.timeout, SETTLE_TIMEOUT))
"""How long a function may run, in seconds. People wait only for that; Lambda's retries run later."""
GONE = 300.0
"""How long there is no table, in seconds: no invocation that has read the old one still runs when the new one
exists."""
AGAIN = 900.0
"""Seconds until a rebuild that failed or found a problem is repeated."""


def lose(
    world: World,
    at: float,
    *,
    work: bool = False,
    switched_off: bool = True,
    waits: float = 0.0,
    then: Callable[[], object] = lambda: None,
) -> None:
    """In `at` seconds the ledger is lost; with `work` the work bucket too, when no job runs. `switched_off`: a person
    has disabled what writes. `waits`: how many seconds an empty table is there before somebody rebuilds. `then` is done
    when the ledger is whole."""

    def drop() -> None:
        # invocations that have timed out by now are gone, and so are their requests
        for function in (world.intake, world.dispatch, world.settle):
            function.kill_all()
        world.network.era += 1
        world.dynamodb.drop()
        if work:
            _lose_work(world)

    def begin_anew() -> None:
        world.dynamodb.become({})
        world.forgotten_from = world.started
        world.rebuilt_at = world.kernel.now
        world.happened[REBUILT] += 1
        for known in (world.sent_again, world.answered, world.corrected, world.dropped):
            known.clear()
        world.kernel.after(waits, lambda: _rebuild(world, then))

    if switched_off:
        world.kernel.after(at, lambda: switch(world, False))
    world.kernel.after(at + LONGEST_RUN, drop)
    world.kernel.after(at + LONGEST_RUN + GONE, begin_anew)


def _lose_work(world: World) -> None:
    """Whatever is in the work bucket is gone. What batches have published is in the tables."""
    world.only_rows |= {batch for batch, _, stored in world.published() if stored.files}
    world.s3.buckets["work"].current.clear()
    world.s3.buckets["work"].versions.clear()
    world.ended.clear()
    world.committed.clear()  # their snapshots are not on record any more
    world.manifests.clear()


def switch(world: World, on: bool) -> None:
    """Disable or enable both event sources and both rules."""
    world.kernel.note("switched", "on" if on else "off")
    world.rules_enabled = on
    for source in (world.from_buffer, world.from_notices):
        source.enabled = on
        source.wake(0.0)
    world.wake_schedule()


def _rebuild(world: World, then: Callable[[], object]) -> None:
    def ended(process: Process) -> None:
        # the answer to the last write may have been lost: then the next run says that the ledger is whole
        if "since" not in world.dynamodb.items.get(("ledger", *WHOLE), {}):
            world.happened[REBUILT_AGAIN] += 1
            if not process.failed:
                add_routes(world, re.findall(r"has no route ([\w-]+),", " ".join(process.answer.troubles)))
            world.kernel.after(AGAIN, lambda: _rebuild(world, then))
        else:
            world.whole_at = world.kernel.now
            switch(world, True)
            then()

    world.kernel.spawn("person", rebuild_all, ended)


def add_routes(world: World, names: Iterable[str]) -> None:
    """Deploy routes that the configuration has lost: what the ledger has forgotten is retired."""
    usual = configured(world.knobs)
    retired = sorted(name for name in set(names) if f'name = "{name}"' not in usual)
    if retired:
        product.deploy(configured(world.knobs, retired=tuple(retired)))


def rebuild_all() -> Rebuilt:
    """`tidegate ledger rebuild`, with the same flow."""
    deployment = wiring.this_deployment()
    ports = deployment.ports(f"rebuild-{uuid.uuid4().hex}", guarded=False)
    oldest = wiring.smallest_id(max(0, oldest_remembered(ports.clock(), deployment.settings.retention.claims)))
    return rebuild(ports, configured=deployment.routes, oldest=oldest, made_at=wiring.made_at)

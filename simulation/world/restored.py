"""Restores the ledger to an earlier time by the runbook: disable the writers, restore the table, recover, enable the
writers (docs/operations.md)."""

import copy
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from infra.sizing import DISPATCH, INTAKE, SETTLE_TIMEOUT
from simulation.world import product
from simulation.world.configs import configured
from simulation.world.kernel import Process
from simulation.world.seen import RECOVERED_AGAIN, RESTORED
from tidegate import wiring
from tidegate.flows.recover import Recovered, recover

if TYPE_CHECKING:
    from simulation.world.world import World

LONGEST_RUN = float(max(INTAKE.timeout, DISPATCH.timeout, SETTLE_TIMEOUT))
"""How long a function may run, in seconds. People wait only for that; Lambda's retries run later."""
GONE = 300.0
"""How long there is no table, in seconds: no invocation that has read the old one still runs when the new one
exists."""
MARGIN = 3_600
"""How many more seconds recovering covers, as `tidegate ledger recover` does: clocks differ."""
AGAIN = 900.0
"""Seconds until a recovery that failed or found a problem is repeated."""


def restore(world: "World", at: float, forgets: float) -> None:
    """In `at` seconds somebody begins to restore the ledger to its state of `forgets` seconds before."""
    then = max(0.0, at - forgets)
    kept: dict[object, object] = {}

    def keep() -> None:
        kept.update(copy.deepcopy(world.dynamodb.items.data))

    def drop() -> None:
        # invocations that have timed out by now are gone, and so are their requests
        for function in (world.intake, world.dispatch, world.settle):
            function.kill_all()
        world.network.era += 1
        world.dynamodb.drop()

    def bring_back() -> None:
        world.dynamodb.become(kept)  # type: ignore[arg-type]
        world.forgotten_from = world.started + then
        world.happened[RESTORED] += 1
        # a notice that was dispatched while the ledger was behind may have been refused
        world.sent_again.clear()
        world.answered.clear()
        world.corrected = {place: at for place, at in world.corrected.items() if at <= world.forgotten_from}
        world.dropped = {place: at for place, at in world.dropped.items() if at <= world.forgotten_from}
        _recover(world)

    world.kernel.after(then, keep)
    world.kernel.after(at, lambda: switch(world, False))
    world.kernel.after(at + LONGEST_RUN, drop)
    world.kernel.after(at + LONGEST_RUN + GONE, bring_back)


def switch(world: "World", on: bool) -> None:
    """Disable or enable both event sources and both rules."""
    world.kernel.note("switched", "on" if on else "off")
    world.rules_enabled = on
    for source in (world.from_buffer, world.from_notices):
        source.enabled = on
        source.wake(0.0)
    world.wake_schedule()


def _recover(world: "World") -> None:
    since = int(world.forgotten_from)

    def ended(process: Process) -> None:
        if process.failed or not process.answer.complete:
            world.happened[RECOVERED_AGAIN] += 1
            if not process.failed and process.answer.unknown_routes:
                add_routes(world, process.answer.unknown_routes)
            world.kernel.after(AGAIN, lambda: _recover(world))
        else:
            switch(world, True)

    world.kernel.spawn("person", lambda: recovered(since), ended)


def add_routes(world: "World", names: Iterable[str]) -> None:
    """Deploy routes that neither the configuration nor the ledger knows: what the ledger has forgotten is retired."""
    usual = configured(world.knobs)
    retired = sorted(name for name in set(names) if f'name = "{name}"' not in usual)
    product.deploy(configured(world.knobs, retired=tuple(retired)))


def recover_once_more(world: "World") -> None:
    """With everything disabled again while it runs."""
    switch(world, False)
    world.happened[RECOVERED_AGAIN] += 1
    world.kernel.after(LONGEST_RUN, lambda: _recover(world))


def recovered(since: int) -> Recovered:
    """`tidegate ledger recover`, with the same flow."""
    deployment = wiring.this_deployment()
    return recover(
        deployment.ports(f"recover-{uuid.uuid4().hex}"),
        configured=deployment.routes,
        oldest=wiring.smallest_id(since - MARGIN),
        made_at=wiring.made_at,
    )

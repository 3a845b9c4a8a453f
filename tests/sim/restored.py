"""A ledger that is restored to an earlier time, by the runbook: switch off what writes, bring the table back, recover,
switch on again (docs/operations.md)."""

import copy
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from infra.limits import DISPATCH, INTAKE, SETTLE_TIMEOUT
from tests.sim import product
from tests.sim.configs import configured
from tests.sim.kernel import Process
from tests.sim.seen import RECOVERED_AGAIN, RESTORED
from tidegate import wiring
from tidegate.flows.recover import Recovered, recover

if TYPE_CHECKING:
    from tests.sim.world import World

LONGEST_RUN = float(max(INTAKE.timeout, DISPATCH.timeout, SETTLE_TIMEOUT))
"""How long a function may run, in seconds. People are hasty, and wait for that; what Lambda repeats runs later."""
GONE = 300.0
"""How long there is no table, in seconds: no run that has read the old one lives to see the new one."""
MARGIN = 3_600
"""How many seconds more are walked, as `tidegate ledger recover` does: clocks differ."""
AGAIN = 900.0
"""When somebody whose recovery failed, or found something amiss, tries again."""


def restore(world: "World", at: float, forgets: float) -> None:
    """In `at` seconds somebody begins to restore the ledger to what it was `forgets` seconds before."""
    then = max(0.0, at - forgets)
    kept: dict[object, object] = {}

    def keep() -> None:
        kept.update(copy.deepcopy(world.dynamodb.items.data))

    def drop() -> None:
        # whoever has timed out by now is gone, and so is what they had sent
        for function in (world.intake, world.dispatch, world.settle):
            function.kill_all()
        world.network.era += 1
        world.dynamodb.drop()

    def bring_back() -> None:
        world.dynamodb.become(kept)  # type: ignore[arg-type]
        world.forgotten_from = world.started + then
        world.happened[RESTORED] += 1
        _recover(world)

    world.kernel.after(then, keep)
    world.kernel.after(at, lambda: switch(world, False))
    world.kernel.after(at + LONGEST_RUN, drop)
    world.kernel.after(at + LONGEST_RUN + GONE, bring_back)


def switch(world: "World", on: bool) -> None:
    """Both event sources and both rules."""
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
    """With everything switched off again for as long as it takes."""
    switch(world, False)
    world.happened[RECOVERED_AGAIN] += 1
    world.kernel.after(LONGEST_RUN, lambda: _recover(world))


def recovered(since: int) -> Recovered:
    """What `tidegate ledger recover` does, by the same means."""
    application = wiring.application()
    return recover(
        ledger=application.ledger(),
        work=application.work(),
        topic=application.topic(f"recover-{uuid.uuid4().hex}"),
        configured=application.routes,
        oldest=wiring.smallest_id(since - MARGIN),
        made_at=wiring.made_at,
        clock=wiring.clock,
    )

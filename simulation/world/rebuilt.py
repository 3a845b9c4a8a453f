"""Loses the ledger as a whole, and the work bucket too, and rebuilds it by the runbook: disable the writers, make an
empty table, rebuild, enable the writers (docs/operations.md)."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from simulation.world.kernel import Process
from simulation.world.restored import AGAIN, GONE, LONGEST_RUN, switch
from simulation.world.seen import REBUILT
from tidegate import wiring
from tidegate.core.batches import oldest_remembered
from tidegate.flows.rebuild import Rebuilt, rebuild

if TYPE_CHECKING:
    from simulation.world.world import World


def lose(world: "World", at: float, *, work: bool = False) -> None:
    """In `at` seconds the ledger is lost; with `work` the work bucket too, when no job runs."""

    def drop() -> None:
        # invocations that have timed out by now are gone, and so are their requests
        for function in (world.intake, world.dispatch, world.settle):
            function.kill_all()
        world.network.era += 1
        world.dynamodb.drop()
        if work:
            world.lose_work()

    def begin_anew() -> None:
        world.dynamodb.become({})
        world.forgotten_from = world.started
        world.happened[REBUILT] += 1
        world.sent_again.clear()
        before_rebuilding(world, lambda: _rebuild(world))

    world.kernel.after(at, lambda: switch(world, False))
    world.kernel.after(at + LONGEST_RUN, drop)
    world.kernel.after(at + LONGEST_RUN + GONE, begin_anew)


def before_rebuilding(world: "World", go_on: Callable[[], None]) -> None:
    """Nothing: traffic waits until the ledger is rebuilt."""
    go_on()


def _rebuild(world: "World") -> None:
    def ended(process: Process) -> None:
        if process.failed or not process.answer.complete:
            world.kernel.after(AGAIN, lambda: _rebuild(world))
        else:
            switch(world, True)

    world.kernel.spawn("person", rebuild_all, ended)


def rebuild_all() -> Rebuilt:
    """`tidegate ledger rebuild`, with the same flow."""
    deployment = wiring.this_deployment()
    ports = deployment.ports(f"rebuild-{uuid.uuid4().hex}")
    oldest = wiring.smallest_id(max(0, oldest_remembered(ports.clock(), deployment.settings.retention.claims)))
    return rebuild(ports, configured=deployment.routes, oldest=oldest, made_at=wiring.made_at)

"""What several scenarios have in common: slow jobs, several functions at once, and what people ask for."""

from collections.abc import Callable
from functools import partial
from typing import Any

from simulation.checker.scenarios import GOOD
from simulation.world import resending
from simulation.world.world import World


def upload_each(world: World, names: str, *, plain: bool = False, after: float = 0.0) -> None:
    """One good upload for each letter, to the bucket without versions if `plain`."""
    for name in names:
        if plain:
            world.upload(f"{name}.json", GOOD, bucket="plain", after=after)
        else:
            world.upload(f"events/{name}.json", GOOD, after=after)


def several_at_once(world: World) -> None:
    """The notices' queue keeps no order, and several notices are handled at once."""
    world.notices.fifo = world.sns.ordered = False
    world.from_notices.concurrency = 4


def first_starts_in(world: World, seconds: float) -> None:
    """The first job has its driver after so long, the others after 40 seconds."""
    startups = iter((seconds,))
    world.emr.startup = lambda: next(startups, 40.0)


def of_each_batch(world: World, act: Callable[[str], Any], *, after: float) -> None:
    """Whatever batches there are by then."""

    def acts() -> None:
        for _, pk, _ in list(world.dynamodb.items):
            if pk.startswith("b#"):
                act(pk[2:])

    world.kernel.after(after, acts)


def ask_of_each_batch(world: World, ask: Callable[[str], Any], *, after: float) -> None:
    """A person asks, in a process that faults may strike."""
    of_each_batch(world, lambda batch: world.kernel.spawn("person", partial(ask, batch)), after=after)


def release_all(world: World, after: float) -> None:
    """A person releases all that is in quarantine."""
    world.kernel.after(after, lambda: world.kernel.spawn("person", resending.release_all))


def expire_claims(world: World) -> None:
    for (_, pk, _), item in world.dynamodb.items.items():
        if pk.startswith("o#"):
            item["expires_at"] = int(world.kernel.now) - 1

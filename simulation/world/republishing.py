"""A table is rolled back past batches that have landed, and people publish these again, as the command line does."""

from typing import TYPE_CHECKING

from simulation.world.table import Metadata
from tidegate import wiring
from tidegate.core.errors import TidegateError
from tidegate.flows.republish import republish

if TYPE_CHECKING:
    from simulation.world.world import World


def roll_back_all(world: "World", table: Metadata) -> Metadata:
    """To the first snapshot that is still in the history."""
    *_, first = table.ancestors()
    return table.rolled_back(first.id)


def act(world: "World") -> None:
    world.kernel.spawn("person", republish_all)


def republish_all() -> None:
    """`tidegate resend` of each batch there is. One that is refused does not stop the others."""
    deployed = wiring.this_deployment()
    ports = deployed.ports()
    for batch_id in list(ports.work.folders("batches/", "")):
        try:
            republish(batch_id, ports, deployed.republisher(lambda said: None), deployed.settings.job_timeout)
        except TidegateError:
            continue

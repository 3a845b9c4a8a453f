"""A table is rolled back past batches that have landed, and people send these again, as the command line does."""

from contextlib import suppress

from simulation.world.foreign import Change
from simulation.world.resending import resend_one_batch
from simulation.world.table import Metadata
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.batches import State
from tidegate.core.errors import TidegateError


def roll_back_all(world: World, table: Metadata) -> Metadata:
    """To the first snapshot that is still in the history."""
    *_, first = table.ancestors()
    return table.rolled_back(first.id)


def to_where_it_is(world: World, after: float) -> Change:
    """Rolls each table back to the snapshot that it will be at in `after` seconds."""
    heads: dict[str, int] = {}

    def look() -> None:
        heads.update((table.uuid, table.head) for table in world.catalog.tables.values() if table.head is not None)

    world.kernel.after(after, look)
    return lambda _, table: table.rolled_back(heads[table.uuid]) if table.uuid in heads else table


def act(world: World) -> None:
    world.kernel.spawn("person", resend_all)


def resend_all() -> None:
    """`tidegate resend` of each batch that has landed. One that is refused does not stop the others."""
    ports = wiring.this_deployment().ports()
    for batch_id in list(ports.work.folders("batches/", "")):
        batch = ports.ledger.batch(batch_id)
        if batch is not None and batch.state is State.COMMITTED:
            with suppress(TidegateError):
                resend_one_batch(batch_id)

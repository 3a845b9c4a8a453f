"""Tables are maintained while batches land: the request is the product's, the job a model of Iceberg's procedures.

The model expires as `RemoveSnapshots` does, and deletes the files that no snapshot names any more; orphan files by age.
"""

from collections.abc import Iterator
from dataclasses import replace

from simulation.world import foreign
from simulation.world.seen import MAINTAINED
from simulation.world.table import Metadata, base_of
from simulation.world.world import World
from tidegate import wiring
from tidegate.core.maintenance import AgedSnapshot, MaintainLimits, Retention, retention
from tidegate.flows import maintain

STARTS_IN = 5.0
"""Seconds from the request to the job's first step."""
AT_ONCE = MaintainLimits(keep_for=0, keep_last=1, orphans_after=7 * 86_400, compact_bytes=10**9)
"""Nothing stays but for a batch's sake."""


def act(world: World) -> None:
    world.kernel.spawn("person", lambda: maintain_all(world))


def maintain_all(world: World) -> None:
    """`tidegate maintain`, without its job's start: between two of its steps others go on."""
    deployed = wiring.this_deployment()
    tables = sorted({route.dataset.table for route in deployed.routes.values()})
    request = maintain.request_maintenance(tables, AT_ONCE, deployed.ports(), routes=deployed.routes)
    world.kernel.sleep(STARTS_IN)
    for table in tables:
        if table not in world.catalog.tables:
            continue
        if world.catalog.deleted & {base_of(name) for _, name in world.catalog.tables[table].held()}:
            return  # the procedure fails
        world.catalog.tables[table] = foreign.compact(world, world.catalog.tables[table])
        world.kernel.sleep(1.0)
        metadata = world.catalog.tables[table]
        line = _aged(world, metadata)
        keep = retention(line, metadata.uuid, request.unfinished, request.limits, request.at)
        world.kernel.sleep(1.0)
        _expire(world, table, keep)
        world.happened[MAINTAINED] += 1
        world.kernel.sleep(1.0)
        _remove_orphans(world, request.at - request.limits.orphans_after)


def _aged(world: World, metadata: Metadata) -> list[AgedSnapshot]:
    """The ancestors of main, its head first. What others committed is as old as what it was committed on."""
    found: list[AgedSnapshot] = []
    at = 0.0
    for each in reversed(list(metadata.ancestors())):
        at = max(at, world.catalog.came_at.get(each.id, at))
        found.append(AgedSnapshot(each.id, int(1_000 * at), each.parent))
    return found[::-1]


def _expire(world: World, table: str, keep: Retention) -> None:
    metadata = world.catalog.tables[table]
    if keep.held_by:
        return
    young = {each.id for each in _aged(world, metadata) if each.at >= keep.older_than}
    after = metadata.expired_but(keep.keep_last, young)
    world.catalog.tables[table] = after
    named = set(_named(world))
    world.catalog.deleted |= {name for stored in after.gone.values() for name in stored.files} - named


def _remove_orphans(world: World, older_than: int) -> None:
    named = set(_named(world))
    old = {name for name, at in world.catalog.written_at.items() if at < older_than}
    world.catalog.deleted |= old - named


def _named(world: World) -> Iterator[str]:
    """Every file that a snapshot of any table names."""
    for metadata in world.catalog.tables.values():
        for end in metadata.snapshots:
            yield from (base_of(name) for _, name in replace(metadata, head=end).held())

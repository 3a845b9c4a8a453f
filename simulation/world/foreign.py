"""Other writers of a table: what people and their tools commit between two commits of Tidegate.

They leave Tidegate's rows as they are, or move them to other files. Tidegate does not answer for rows that others
delete, unless they are backfilled afterwards.
"""

from collections.abc import Callable

from simulation.world.table import Metadata
from simulation.world.world import World

Change = Callable[[World, Metadata], Metadata]


def append(world: World, table: Metadata) -> Metadata:
    return table.appended(next(world.catalog.ids))


def compact(world: World, table: Metadata) -> Metadata:
    """All files become one, which holds their rows."""
    held = [name for _, name in table.held()]
    number = next(world.catalog.ids)
    made = f"compacted-{number}"
    world.catalog.files[made] = tuple(row for name in held for row in world.catalog.files[name])
    return table.rewritten(number, frozenset(held), (made,))


def delete_rows(world: World, table: Metadata) -> Metadata:
    """`DELETE FROM` of all rows, by whoever is about to load them again."""
    held = frozenset(name for _, name in table.held())
    return table.overwritten(next(world.catalog.ids), held) if held else table


def alter(world: World, table: Metadata) -> Metadata:
    return table.altered()


def expire(world: World, table: Metadata) -> Metadata:
    """All history but the heads: also what a job needs that is under way."""
    return table.expired()


def expire_some(world: World, table: Metadata) -> Metadata:
    """The older half of the history."""
    known = list(table.snapshots)
    return table.expired(known[len(known) // 2]) if known else table


def append_and_expire(world: World, table: Metadata) -> Metadata:
    return expire(world, append(world, table))


def cut(world: World, table: Metadata) -> Metadata:
    """Append and expire so much that the history no longer reaches the former head."""
    return append_and_expire(world, append(world, table))


def remember(world: World, table: Metadata) -> Metadata:
    """A backup of the metadata is restored: the history is whole again."""
    return table.remembered(table.gone)


def roll_back_own(world: World, table: Metadata) -> Metadata:
    """Somebody rolls back their own commits, if they are the newest."""
    to = None
    for snapshot in table.ancestors():
        if "foreign" not in snapshot.summary:
            break
        to = snapshot.parent
    return table.rolled_back(to) if to is not None and to in {each.id for each in table.ancestors()} else table


HANDS: tuple[tuple[Change, int], ...] = (
    (append, 5),
    (compact, 3),
    (alter, 2),
    (expire_some, 2),
    (expire, 1),
    (append_and_expire, 2),
    (roll_back_own, 2),
)
"""The acts, and their relative frequency."""


def commit(world: World, change: Change) -> None:
    for name, table in list(world.catalog.tables.items()):
        world.catalog.tables[name] = change(world, table)
        world.happened[f"somebody else: {change.__name__}"] += 1
        world.kernel.note("somebody else:", change.__name__, name)


def commit_one(world: World) -> None:
    changes, weights = zip(*HANDS, strict=True)
    commit(world, world.kernel.random.choices(changes, weights)[0])

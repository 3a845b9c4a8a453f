"""The plainest oracle of a route whose table follows its source: a dictionary of the last version of each key.

It holds where nothing but uploads and deletions changes anything: nobody else writes the table or changes the settings,
nobody gives uploads up, an audit finds what S3 does not announce, and S3 hands out what it has. Else `oracle` judges.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from simulation.checker.books import named, rows_of
from simulation.checker.second_opinion import Name
from simulation.world import audits
from simulation.world.s3 import MARKER
from simulation.world.world import World

OTHERS = (
    *("foreign", "aborts", "drops", "lost", "cut", "cut_undone", "one_table", "two_versions", "away"),
    *("suspended", "refused_objects", "closed_bucket", "horizon", "replayed"),
)
"""The knobs that turn somebody else on, or make S3 refuse what it has."""
FOLLOWS = (("replaces", True), ("removes", True), ("audit", 120.0))
"""What such a route says, and that its bucket is audited."""


RowCount = Counter[tuple[int, int | str]]


def differs(world: World) -> Iterator[str]:
    """Of the first route, in such a world: each key whose rows are not those of its last version that has any."""
    knobs = world.knobs
    if not (knobs.replaces and knobs.removes and knobs.audit) or knobs.turned().keys() & set(OTHERS):
        return
    there: dict[Name, RowCount] = defaultdict(Counter)
    for table in world.catalog.tables:
        for _, (uri, version, number, value) in world.catalog.rows(table):
            if str(uri).startswith("s3://landing/"):
                there[str(uri), str(version)][number, value] += 1  # type: ignore[index]
    expected = last_versions(world)
    # what came before the first audit, and was never announced, may be missing
    since = audits.watched_since(world).get("landing", math.inf)
    untold = {named(put)[0] for put in world.history if not world.notified.get(put.number) and put.at < since}
    for name in sorted(there.keys() | expected.keys()):
        if name[0] not in untold and there.get(name) != expected.get(name):
            yield f"dictionary: {name} has {dict(there.get(name, {}))}, and not {dict(expected.get(name, {}))}"


def last_versions(world: World) -> dict[Name, RowCount]:
    """The rows of each key: none once it is deleted, and those of the version before if a later one is broken."""
    found: dict[str, tuple[Name, RowCount] | None] = {}
    for put in world.history:
        if put.bucket == "landing":
            if put.how == MARKER:
                found[put.key] = None
            elif rows := rows_of(put, sets_aside=world.sets_aside, where=world.knobs.where):
                found[put.key] = named(put), Counter(rows)
    return dict(each for each in found.values() if each)

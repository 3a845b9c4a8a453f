"""Checks what was announced, and what a consumer made of it. Nothing here imports the product.

Every committed batch is announced at least once, under one id, with the facts of its record. Nothing else is announced,
and nothing before it is in its table. A consumer with an inbox has counted each row of each table once.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from simulation.world.observed import REJECTED
from simulation.world.world import World


def misannounced(world: World) -> Iterator[str]:
    """What is wrong, in words."""
    if not world.knobs.announced:
        return
    ids: dict[str, set[str]] = defaultdict(set)
    said: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for detail in world.sent:
        ids[detail["batch"]].add(detail["id"])
        said[detail["batch"]].append(detail)
    batches = {**world.ended, **{pk[2:]: item for (_, pk, _), item in world.dynamodb.items.on("b#")}}
    committed = {batch: item for batch, item in batches.items() if item["state"] == "COMMITTED"}
    for batch, item in committed.items():
        if batch not in ids:
            yield f"announced: batch {batch} is committed, and nobody was told"
        for detail in said[batch]:
            facts = (detail["table"], detail["snapshot"], detail["rows"])
            if facts != (item["table"], str(item["snapshot"]), item["tally"]["rows"]):
                yield f"announced: batch {batch} was announced as {facts}, and is {dict(item)}"
    for batch, found in ids.items():
        if len(found) > 1:
            yield f"announced: batch {batch} was announced under {len(found)} ids"
        if batch not in committed and not _fenced_again(world, batches.get(batch, {}), said[batch]):
            yield f"announced: batch {batch} was announced, and is not committed"
    if repeated := [
        each for each, times in Counter(each for found in ids.values() for each in found).items() if times > 1
    ]:
        yield f"announced: {repeated} are ids of several batches"
    totals = {pk[len("rows#") :]: item["rows"] for (_, pk, _), item in world.totals.items.on("ro")}
    for table in (each for each in world.catalog.tables if not each.endswith(REJECTED)):
        rows = sum(1 for _ in world.catalog.rows(table))
        if totals.get(table, 0) != rows:
            yield f"announced: {table} has {rows} rows, and the consumer has counted {totals.get(table, 0)}"


def _fenced_again(world: World, item: Mapping[str, Any], said: list[Mapping[str, Any]]) -> bool:
    """Whether a rebuilt ledger has found the fence of a batch that had landed, and that a rollback had taken out: its
    announcement was true."""
    rebuilt = world.forgotten_from < math.inf and item.get("state") == "ABANDONED"
    return rebuilt and all(int(detail["snapshot"]) < item["snapshot"] for detail in said)

"""What must be true, judged from what was uploaded and what is in the table, and never from the ledger.

The ledger is looked at for two things only, which are about the ledger: what it calls COMMITTED is in the table, and
what has ended stays as it ended.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.sim.s3 import Version
from tests.sim.world import World


@dataclass
class Judgement:
    """`broken` names each promise that was broken; `lost`, `repeated` and `unheard` (never notified) count uploads."""

    broken: list[str] = field(default_factory=list)
    lost: int = 0
    repeated: int = 0
    unheard: int = 0

    @property
    def good(self) -> bool:
        return not self.broken


def judge(world: World, came_to_rest: bool) -> Judgement:
    judgement = Judgement()
    if not came_to_rest:
        judgement.broken.append("liveness: something was still pending long after the last fault")
    rows = _rows(world, judgement)
    # in an unversioned bucket the same bytes under the same key are one version, put several times
    last = {named(version): version for version in uploads(world)}
    for version in uploads(world):
        _judge_upload(world, version, last[named(version)], rows, judgement)
    _nothing_else(world, rows, judgement)
    _each_batch_once(world, judgement)
    _ledger(world, judgement)
    _sums(world, judgement)
    return judgement


def uploads(world: World) -> list[Version]:
    """Every version that was ever put into a landing bucket, in order."""
    return world.history


def _rows(world: World, judgement: Judgement) -> dict[tuple[str, str], Counter[int]]:
    """How often each row of each (uri, version) is in the tables."""
    found: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    for table in world.catalog.tables:
        try:
            for _, (uri, version, number) in world.catalog.rows(table):
                found[uri, version][number] += 1
        except KeyError as missing:
            judgement.broken.append(f"a file that {table} refers to was deleted: {missing}")
    return found


def named(version: Version) -> tuple[str, str]:
    return f"s3://{version.bucket}/{version.key}", version.version_id or f"etag:{version.etag}"


def _judge_upload(
    world: World,
    version: Version,
    last: Version,
    rows: dict[tuple[str, str], Counter[int]],
    judgement: Judgement,
) -> None:
    there = rows.get(named(version), Counter())
    lines = version.body.count(b"\n")
    good = b'"id": \n' not in version.body
    # uploads of the same bytes under one key are told apart by what came between: they land once, unless an earlier
    # one had ended without its rows
    most = 1
    if any(count > most for count in there.values()):
        judgement.repeated += 1
        judgement.broken.append(f"repeated: {named(version)} has rows {dict(there)}, at most {most} each")
    if there and (not good or set(there) != set(range(lines)) or len(set(there.values())) > 1):
        judgement.broken.append(f"torn: {named(version)} has rows {dict(there)} of {lines}, good={good}")
    if not world.notified.get(version.number):
        judgement.unheard += not there and version is last
        return
    if not there and good and _always_readable(world, version):
        judgement.lost += 1
        judgement.broken.append(f"lost: {named(version)} was notified, could be read all the time, and is not there")


def _always_readable(world: World, version: Version) -> bool:
    """Whether the version could be read from its put to the end: then nothing but its rows is a right ending."""
    return bool(version.version_id) or world.s3.buckets[version.bucket].current.get(version.key) is version


def _nothing_else(world: World, rows: dict[tuple[str, str], Counter[int]], judgement: Judgement) -> None:
    known = {named(version) for version in uploads(world)}
    for foreign in set(rows) - known:
        judgement.broken.append(f"foreign: rows of {foreign}, which nobody uploaded")


def _each_batch_once(world: World, judgement: Judgement) -> None:
    for table in world.catalog.tables:
        published: Counter[str] = Counter()
        for stored in world.catalog.ancestry(table):
            summary = stored.snapshot.summary
            batch = summary.get("published-wap-id")
            if "foreign" in summary or "tidegate.begun" in summary:
                continue
            if batch is None:
                judgement.broken.append(f"snapshot {stored.snapshot.id} of {table} went past the check")
            else:
                published[batch] += 1
        for batch, times in published.items():
            if times > 1:
                judgement.broken.append(f"batch {batch} is in {table} {times} times")


def _ledger(world: World, judgement: Judgement) -> None:
    in_table: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for table in world.catalog.tables:
        for stored in world.catalog.ancestry(table):
            summary = stored.snapshot.summary
            batch = summary.get("published-wap-id") or ""
            in_table[batch].append((stored.snapshot.id, bool(stored.files)))
    for (_, pk, _), item in world.dynamodb.items.items():
        if not pk.startswith("b#"):
            continue
        batch, state = pk[2:], item["state"]
        before = world.committed.get(pk)
        if before and before != (state, item["snapshot"]):
            judgement.broken.append(f"batch {batch} was {before} and is now {(state, item['snapshot'])}")
        if state == "COMMITTED" and (item["snapshot"], True) not in in_table[batch]:
            judgement.broken.append(
                f"batch {batch} is COMMITTED as {item['snapshot']}, the table says {in_table[batch]}"
            )
        if state == "ABANDONED" and any(files for _, files in in_table[batch]):
            judgement.broken.append(f"batch {batch} is ABANDONED, and rows of it are in the table")


def _sums(world: World, judgement: Judgement) -> None:
    """Each batch that has ended is in its route's sums once (rule 10)."""
    items = [(pk, item) for (_, pk, _), item in world.dynamodb.items.items()]
    for pk, route in items:
        if not pk.startswith("r#"):
            continue
        ended = [
            item
            for key, item in items
            if key.startswith("b#") and item["route"] == pk[2:] and item["state"] in ("COMMITTED", "ABANDONED")
        ]
        counted = route.get("committed_batches", 0) + route.get("abandoned_batches", 0)
        notified = sum(item["objects"] for item in ended)
        if (counted, route.get("notified", 0)) != (len(ended), notified):
            judgement.broken.append(
                f"sums: {len(ended)} batches of route {pk[2:]} with {notified} uploads have ended, the route says"
                f" {counted} with {route.get('notified', 0)}"
            )

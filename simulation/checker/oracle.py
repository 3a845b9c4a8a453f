"""Judges a run by what was uploaded and what is in the table.

It imports nothing of the product. This module checks that the rows of every upload are in the table exactly once;
`books` checks the records in the ledger and the work bucket; `bounds` checks the cost. `second_opinion`, written from
the definition alone, repeats the first check. If the two differ, one of them is wrong.
"""

import itertools
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from simulation.checker import dictionary, second_opinion
from simulation.checker.announced import misannounced
from simulation.checker.books import (
    deleted_after,
    dropped_for_good,
    gave_way,
    lands,
    let_go,
    mistaken,
    named,
    of_same_bytes,
    read_by_etag,
    removing,
    replacing,
    rows_at_most_once,
    rows_of,
    skipping,
)
from simulation.checker.bounds import decisions
from simulation.checker.sent import missent
from simulation.checker.told import mistold
from simulation.world import audits, backfills
from simulation.world.diary import ManifestUpload
from simulation.world.landing import STRANGE
from simulation.world.observed import REJECTED
from simulation.world.s3 import MARKER, SUSPENDED, Version
from simulation.world.world import World

MOVED_TO = {"lake.sim.later", "lake.sim.last"}
"""The tables of a route that has got another one."""


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
        pending = "; ".join(world.pending) or "what comes is not over"
        judgement.broken.append(f"liveness: long after the last fault there was still pending: {pending}")
    try:
        rows = [row for table in world.catalog.tables for _, row in world.catalog.rows(table)]
    except KeyError as missing:
        judgement.broken.append(f"a file that a table refers to was deleted: {missing}")
        return judgement
    _judge_uploads(world, rows, judgement)
    judgement.broken += _misplaced(world)
    judgement.broken += _beside_each_other(world) if world.knobs.replaces else ()
    judgement.broken += _same_bytes_twice(world)
    judgement.broken += _stays(world, rows)
    judgement.broken += dictionary.differs(world)
    judgement.broken += _loaded_unasked(world, rows)
    _compare(world, rows, judgement)
    _each_batch_once(world, judgement)
    judgement.broken += [
        *mistaken(world),
        *missent(world),
        *mistold(world),
        *misannounced(world),
        *decisions(world),
        *_thrown_away(world),
        *world.noticed,
    ]
    return judgement


def _misplaced(world: World) -> Iterator[str]:
    """What fits is in a table, and what does not in that of the rejected rows."""
    for table in world.catalog.tables:
        for _, (uri, _, number, value) in world.catalog.rows(table):
            if isinstance(value, str) is not table.endswith(REJECTED):
                yield f"misplaced: row {number} of {uri} is in {table}"


def _beside_each_other(world: World) -> Iterator[str]:
    """No version of a table has had rows of two versions of an object of the first route, if that replaces."""
    for table, metadata in world.catalog.tables.items():
        for stored in metadata.line():
            versions: dict[object, set[object]] = defaultdict(set)
            for _, name in replace(metadata, head=stored.snapshot.id).held():
                for uri, version, *_ in world.catalog.files[name]:
                    versions[uri].add(version)
            for uri, found in versions.items():
                if len(found) > 1 and str(uri).split("/")[2] in replacing(world):
                    yield f"beside each other: {uri} has rows of {found} in version {stored.snapshot.id} of {table}"


def _same_bytes_twice(world: World) -> Iterator[str]:
    """No table has rows of two versions with the same bytes, one after the other, if the route skips such. Where its
    versioning was suspended, a list of versions has another order."""
    suspended = {(put.bucket, put.key) for put in world.history if put.version_id == SUSPENDED}
    for table in world.catalog.tables:
        there = {(uri, version) for _, (uri, version, *_) in world.catalog.rows(table)}
        for put in world.history if skipping(world) else ():
            beside = [each.version_id for each in of_same_bytes(world, put) if named(each) in there]
            if named(put) in there and beside and (put.bucket, put.key) not in suspended:
                yield f"same bytes: {named(put)} has rows in {table}, and so has {beside}"


def _stays(world: World, rows: list[tuple[object, ...]]) -> Iterator[str]:
    """No version has rows that is older than a deletion of its object of which anybody has heard. In a table that its
    route has left they stay: a deletion lands in the table that the route has by then."""
    if MOVED_TO & world.catalog.tables.keys():
        return
    there = {(uri, version) for uri, version, *_ in rows}
    for put in world.history:
        for marker in deleted_after(world, put) if put.bucket in removing(world) and named(put) in there else ():
            heard = world.notified.get(marker.number) or marker.number in to_be_found(world)
            if heard and not _excused(world, marker):
                yield f"stays: {named(put)} is there, and {marker.version_id} has deleted it"


UNREADABLE = json.dumps(STRANGE["unreadable"])


def _thrown_away(world: World) -> Iterator[str]:
    """Each record that cannot be read waits among the dead letters for a person, at least once."""
    dead = world.dead_letters.messages.values()
    kept = sum("reason" in each.attributes or UNREADABLE in each.body for each in dead)
    if kept < world.unreadable:
        yield f"dead letters: of {world.unreadable} records that cannot be read {kept} wait for a person"


def _judge_uploads(world: World, rows: list[tuple[object, ...]], judgement: Judgement) -> None:
    found: dict[second_opinion.Name, Counter[tuple[int, int | str]]] = defaultdict(Counter)
    for uri, version, number, value in rows:
        found[uri, version][number, value] += 1  # type: ignore[index]
    before = set(found)
    # uploads of the same bytes under one key are told apart by what came between: they land once, unless an earlier
    # one had ended without its rows. The last one that anybody heard of has to be there
    forgets = came_after_memory(world)
    puts: dict[second_opinion.Name, list[Version]] = defaultdict(list)
    for version in world.history:
        puts[named(version)].append(version)
    for name, versions in puts.items():
        there = found.pop(name, Counter())
        expected = rows_of(versions[0], sets_aside=world.sets_aside, where=world.knobs.where)
        times = Counter({number: 0 for number, _ in there})
        for (number, _), count in there.items():
            times[number] += count
        if any(count > 1 for count in times.values()) and name not in forgets:
            judgement.repeated += 1
            judgement.broken.append(f"repeated: {name} has rows {dict(times)}, at most 1 each")
        if there and set(there) != set(expected):
            judgement.broken.append(f"torn: {name} has rows {sorted(there)}, its file has {expected or 'none'}")
        heard = [each for each in versions if world.notified.get(each.number) or each.number in to_be_found(world)]
        judgement.unheard += not there and not world.notified.get(versions[-1].number)
        gave_way = _gave_way(world, heard[-1].number if heard else 0, versions[-1], before)
        if not there and expected and heard and not gave_way and not _excused(world, heard[-1]):
            judgement.lost += 1
            judgement.broken.append(f"lost: {name} was announced or audited, could be read, and is not there")
    for name in found:
        judgement.broken.append(f"foreign: rows of {name}, which nobody uploaded")


def _gave_way(world: World, number: int, version: Version, there: set[second_opinion.Name]) -> bool:
    """Whether a later version of the object is there, and the route replaces; or one of the same bytes, if it skips
    such."""
    if any(named(put) in there for put in of_same_bytes(world, version)):
        return True
    if version.bucket not in replacing(world):
        return False
    later = [
        put for put in world.history if (put.bucket, put.key) == (version.bucket, version.key) and put.number > number
    ]
    return any(named(put) in there for put in (*later, *read_by_etag(world, version)))


MEMORY = 58 * 86_400
"""Seconds between two landings after which the claim of the first may have expired before the second: the setting
`claims`, less what a batch may take."""


def came_after_memory(world: World) -> set[second_opinion.Name]:
    """The uploads without a version that landed again after the ledger had forgotten them: the same bytes are a new
    upload then (docs/guarantee.md), if they were put again since. A version id is new with each put, so it never
    is."""
    landed: dict[second_opinion.Name, list[float]] = defaultdict(list)
    for _, _, stored in world.published():
        for uri, version, *_ in gave_way(world, stored):
            landed[uri, version].clear()  # what was reloaded has left the table
        for uri, version, number, _ in (row for name in stored.files for row in world.catalog.files[name]):
            if number == 0 and version.startswith("etag:"):
                landed[uri, version].append(world.catalog.came_at[stored.snapshot.id])
    put_at: dict[second_opinion.Name, list[float]] = defaultdict(list)
    for put in world.history:
        put_at[named(put)].append(put.at)
    return {
        name
        for name, times in landed.items()
        if all(
            later - earlier >= MEMORY and any(earlier < at for at in put_at[name])
            for earlier, later in itertools.pairwise(sorted(times))
        )
    }


def _excused(world: World, version: Version) -> bool:
    """Whether the upload may end without its rows: it could not be read, a person gave it up, or it was overwritten or
    deleted where that destroys it."""
    place = (version.bucket, version.key)
    if version.bucket in removing(world) and deleted_after(world, version):
        return True
    if (
        place in refused(world)
        or version.number in replaced(world)
        or (*place, version.sequencer) in may_be_missing(world)
    ):
        return True
    if version.version_id not in ("", SUSPENDED):
        return False
    later = [each for each in world.history if (each.bucket, each.key) == place and each.number > version.number]
    return any(each.etag != version.etag for each in later) or any(
        (bucket, key) == place and at >= version.at for at, bucket, key in world.removed
    )


def refused(world: World) -> set[tuple[str, str]]:
    """(bucket, key) of the objects that S3 refused. If the person on call releases what S3 hands out again, only of
    those that it refuses to the end."""
    return set(world.s3.refused) if world.knobs.releases else world.refused - world.asked_for


def replaced(world: World) -> set[int]:
    """The numbers of the puts that S3 refused for a while, and of whose object a later version has landed: that settles
    them, and no release brings them back."""
    there = {(uri, version) for table in world.catalog.tables for _, (uri, version, *_) in world.catalog.rows(table)}
    landed = {(put.bucket, put.key): put.number for put in world.history if named(put) in there}
    return {
        put.number
        for put in world.history
        if (put.bucket, put.key) in world.refused and put.number < landed.get((put.bucket, put.key), 0)
    }


def may_be_missing(world: World) -> set[tuple[str, str, str]]:
    """(bucket, key, sequencer) of the puts that may end without their rows, whatever the bucket has."""
    return given_up(world) | forgotten(world) | unasked(world) | heard_too_late(world)


def given_up(world: World) -> set[tuple[str, str, str]]:
    """(bucket, key, sequencer) of the uploads in batches that never landed, and whose fence is in a table. If the
    person on call resends such batches, only of those that a person has dropped, and nobody has taken over since."""
    fenced = world.fenced() - world.landed()
    listed = [(item, batch) for batch in fenced for item in world.manifest_of(batch)]
    if world.knobs.resends:
        listed = [(item, batch) for item, batch in listed if dropped_for_good(world, item)]
    puts = [put for item, batch in listed for put in (*world.puts_of(item), *_same_to_an_audit(world, item, batch))]
    return {(put.bucket, put.key, put.sequencer) for put in puts}


CLOCKS = 60
"""Seconds by which S3's clock and a function's may differ, to the product."""


def _same_to_an_audit(world: World, item: ManifestUpload, batch: str) -> list[Version]:
    """The puts of the same bytes, without a version, that nobody announced and that came before this upload was
    claimed, or within `CLOCKS` after it. By the bucket's listing they are the upload that was given up. The part is
    written after the claim."""
    if not item.version.startswith("etag:"):
        return []
    parts = f"batches/{batch}/parts/{item.notice}-"
    written = min(each.at for name, each in world.s3.buckets["work"].current.items() if name.startswith(parts))
    return [
        put
        for put in world.history
        if (put.bucket, put.key, f"etag:{put.etag}") == (item.bucket, item.key, item.version)
        and put.version_id in ("", SUSPENDED)
        and not world.notified.get(put.number)
        and put.at <= written + CLOCKS + max(map(abs, world.knobs.skew))
    ]


def to_be_found(world: World) -> set[int]:
    """The numbers of the puts that an audit or a backfill must have found: they are in such a bucket in the end."""
    since = _watched_since(world)
    # what has no version id of its own is there while it is current: a later version with one hides it for good
    there = {version for bucket in world.s3.buckets.values() for version in bucket.current.values()}
    there |= {
        version
        for bucket in world.s3.buckets.values()
        for version in bucket.versions.values()
        if version.version_id != SUSPENDED
    }
    return {each.number for each in there if each.at >= since.get(each.bucket, math.inf)}


def _watched_since(world: World) -> Mapping[str, float]:
    """Since when (epoch seconds) each bucket is watched, by audits or by people who backfill."""
    return {**audits.watched_since(world), **backfills.promised(world)}


def forgotten(world: World) -> set[tuple[str, str, str]]:
    """(bucket, key, sequencer) of the same bytes, uploaded again without a version before the ledger was rebuilt: only
    the lost part of the ledger may have recorded that. Not of those that a part in the work bucket lists."""
    if world.forgotten_from == math.inf:
        return set()
    return {
        (each.bucket, each.key, each.sequencer)
        for each in world.history
        if each.version_id in ("", SUSPENDED)
        for other in world.history
        if (other.bucket, other.key, other.etag) == (each.bucket, each.key, each.etag) and other.number < each.number
    } - set(_in_parts(world))


def _in_parts(world: World) -> Iterator[tuple[str, str, str]]:
    for name, body in world.left_in("batches/"):
        if "/parts/" in name:
            header, *lines = body.decode().splitlines()
            bucket = json.loads(header)["bucket"]
            yield from ((bucket, key, sequencer) for key, _, _, sequencer in map(json.loads, lines))


def heard_too_late(world: World) -> set[tuple[str, str, str]]:
    """(bucket, key, sequencer) of what was first announced when a claim of it might have expired, and now waits among
    the dead letters for a person, with the reason."""
    waiting = {
        (notice["bucket"], key, sequencer)
        for letter in world.notices_dead_letters.messages.values()
        if "reason" in letter.attributes and letter.body.startswith('{"v":')
        for notice in [json.loads(letter.body)]
        for key, _, _, sequencer, *_ in notice["uploads"]
    }
    return {
        place
        for put in world.history
        if (place := (put.bucket, put.key, put.sequencer)) in waiting
        and world.heard_at.get(put.number, put.at) - put.at > MEMORY
    }


def unasked(world: World) -> set[tuple[str, str, str]]:
    """(bucket, key, sequencer) of what nobody announced, and was put when perhaps no route took it. A person may load
    it, and an audit need not."""
    return _unannounced(world, lambda always, ever: not always)


def _unannounced(world: World, where: Callable[[bool, bool], bool]) -> set[tuple[str, str, str]]:
    if not world.audited or backfills.wanted(world.knobs):
        return set()
    return {
        (each.bucket, each.key, each.sequencer)
        for each in world.history
        if not world.notified.get(each.number) and where(*audits.asked_for(world, each))
    }


def _loaded_unasked(world: World, rows: list[tuple[object, ...]]) -> Iterator[str]:
    """What only an audit can have loaded, and nobody asked for. A rebuilt ledger does not know what was asked for."""
    if world.knobs.audits or world.forgotten_from < math.inf:
        return
    never = _unannounced(world, lambda always, ever: not ever)
    there = {(uri, version) for uri, version, *_ in rows}
    puts: dict[second_opinion.Name, list[bool]] = defaultdict(list)
    for each in world.history:
        puts[named(each)].append((each.bucket, each.key, each.sequencer) in never)
    for name, unwanted in puts.items():
        if all(unwanted) and name in there:
            yield f"unasked: {name} was put while no route took it, was never announced, and is there"


def _compare(world: World, rows: list[tuple[object, ...]], judgement: Judgement) -> None:
    puts = [
        second_opinion.ObjectPut(
            each.number, each.at, each.bucket, each.key, each.version_id, each.etag, each.body, each.sequencer
        )
        for each in world.history
    ]
    opinion = second_opinion.second_opinion(
        puts,
        [second_opinion.ObjectRemoval(*removed) for removed in world.removed],
        world.notified,
        [second_opinion.FinalRow(*row) for row in rows],  # type: ignore[arg-type]
        may_be_missing(world),
        {each.number for each in world.history if (each.bucket, each.key) in refused(world)} | replaced(world),
        _watched_since(world),
        new_again=came_after_memory(world),
        sets_aside=world.sets_aside,
        lands=lambda value: lands(value, world.knobs.where),
        replaces=replacing(world),
        skips=skipping(world),
        deleted={place: max(numbers) for place, numbers in _deletions(world).items()},
    )
    for what in ("repeated", "torn", "lost", "foreign"):
        mine = sum(broken.startswith(what) for broken in judgement.broken)
        if mine != len(getattr(opinion, what)):
            judgement.broken.append(
                f"the two checkers differ: {mine} {what}, the second opinion {getattr(opinion, what) or 'none'}"
            )


def _deletions(world: World) -> Mapping[tuple[str, str], list[int]]:
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in world.history:
        if each.how == MARKER and each.bucket in removing(world):
            found[each.bucket, each.key].append(each.number)
    return found


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
            if times > 1 and not rows_at_most_once(world, batch) and not let_go(world, batch):
                judgement.broken.append(f"batch {batch} is in {table} {times} times")

"""Checks the records in the ledger and the work bucket: every outcome, tally, receipt and sum.

They are compared with the puts, deletions and refusals, and with the snapshots of the tables.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from simulation.world.diary import ManifestUpload
from simulation.world.s3 import MARKER, SUSPENDED, Version
from simulation.world.sent import claims_pk
from simulation.world.table import Stored, rows_of_batch
from simulation.world.world import World

OUTCOMES = ("committed", "quarantined", "superseded", "vanished", "present")
FINAL = ("COMMITTED", "ABANDONED")
CLAIMS = 60 * 86_400
"""The default of the setting `retention.claims`."""
COMES_BACK = ("committed", "quarantined", "superseded", "vanished", "present", "abandoned", "dropped")
"""What an upload may have been counted as before it is gathered anew."""

Batches = Mapping[str, Mapping[str, Any]]
"""The last record of each batch."""


def mistaken(world: World) -> list[str]:
    """What is wrong, in words."""
    batches = {**world.ended, **{pk[2:]: item for (_, pk, _), item in world.dynamodb.items.on("b#")}}
    broken = [
        f"batch {batch} was {world.committed['b#' + batch]} and is now {(item['state'], item.get('snapshot'))}"
        for batch, item in batches.items()
        if world.committed.get("b#" + batch, (item["state"], item.get("snapshot")))
        != (item["state"], item.get("snapshot"))
        and not let_go(world, batch)
    ]
    for batch, item in batches.items():
        if item["state"] in FINAL:
            broken += (f"batch {batch}: {each}" for each in _batch(world, batch, item))
    if not world.knobs.horizon:
        there = {batch: table for batch, table, _ in world.published()}
        broken += [
            f"batch {it}: it is in {there[it]}, and on no record" for it in sorted(there.keys() - batches.keys())
        ]
    broken += [*_sums(world, batches), *_leftovers(world, batches), *_status(world, batches)]
    broken += _oldest(world, batches)
    broken += _wrongly_corrected(world, batches)
    return [*broken, *_wishes(world, batches)]


# ---- a batch that has ended


def _batch(world: World, batch: str, item: Mapping[str, Any]) -> Iterator[str]:
    published = [(table, stored) for each, table, stored in world.published() if each == batch]
    if not published and item["state"] == "ABANDONED" and batch in world.fenced():
        return  # the table was rolled back past its fence: `told` says who may publish it
    if let_go(world, batch):
        yield from _let_go(world, batch, item, [stored for _, stored in published])
        return
    if len(published) != 1 and not rows_at_most_once(world, batch):
        yield f"it is {item['state']}, and in the table {len(published)} times"
        return
    table, stored = published[-1]
    if item.get("table") != table:
        yield f"it was sealed for {item.get('table')}, and is in {table}"
    if batch in world.only_rows:
        yield from _only_rows(world, batch, item, stored)
        return
    staged = int(stored.snapshot.summary["source-snapshot-id"])
    fence = not stored.files
    attempt, given_up = int(stored.snapshot.summary["tidegate.attempt"]), world.fenced_from.get(batch, math.inf)
    # a ledger that was rebuilt may have forgotten that it was given up
    if not fence and attempt >= given_up and world.forgotten_from == math.inf:
        yield f"it was given up before attempt {attempt} began, which has published its rows"
    if (item["state"] == "ABANDONED") is not fence:
        yield f"it is {item['state']}, and what is in the table is {'a fence' if fence else 'its rows'}"
    left = dict(world.left_in(f"batches/{batch}/"))
    receipt = json.loads(left.get(f"batches/{batch}/receipt.json", b"{}"))
    # after a rollback a driver that was alive published it once more: the first receipt stays, and the record
    rolled_back = _rolled_back(world, table, batch)
    if receipt and receipt["snapshot"] in rolled_back:
        staged = receipt["staged"]
    outcomes = left.get(f"batches/{batch}/outcomes/{staged}.jsonl.gz", b"").decode().splitlines()
    if not outcomes or not receipt:
        yield f"it is published as {stored.snapshot.id}, and its receipt or the outcomes of {staged} are missing"
        return
    # if a person decided, the published snapshot is not known any more: the staged one takes its place
    known = {stored.snapshot.id} | rolled_back | ({staged} if world.decided.get(batch) else set())
    if receipt["snapshot"] not in known or receipt["staged"] != staged or receipt["fence"] is not fence:
        yield f"its receipt is {receipt}, the table has it as {stored.snapshot.id} of {staged}"
    if item["snapshot"] not in known:
        yield f"it is recorded as {item['snapshot']}, the table has it as {stored.snapshot.id}"
    if fence:
        yield from _claims(world, batch, dict.fromkeys(map(_place, world.manifest_of(batch)), "abandoned"))
        return
    endings = {
        (each["bucket"], each["key"], each["version"]): each["outcome"] for each in map(json.loads, outcomes[1:])
    }
    # a ledger that was rebuilt begins to count anew
    last = item["attempt"] >= world.knobs.attempts or world.forgotten_from < math.inf
    yield from _endings(world, batch, stored, endings, last)
    registered = world.manifest_of(batch)
    counted = Counter(endings.get(_place(each), "committed") for each in registered)
    rejected = sum(len(_rows(world, each)) for each in world.published_rejected(batch))
    tally = {**{name: counted[name] for name in OUTCOMES}, "rows": len(_rows(world, stored)), "rejected": rejected}
    landed = {_place(each) for each in registered} - endings.keys()
    tally |= {"replaced": len(gave_way(world, stored)), "left_out": _left_out(world, landed)}
    for where, said in (
        ("receipt", receipt["tally"]),
        ("record", item["tally"]),
        ("outcomes", json.loads(outcomes[0])["tally"]),
    ):
        if {**said} != tally:
            yield f"its {where} says {said}, what happened is {tally}"
    if item["objects"] != len(registered):
        yield f"its header says {item['objects']} uploads, its manifest {len(registered)}"
    yield from _claims(world, batch, {_place(each): endings.get(_place(each), "") for each in registered})


def _left_out(world: World, landed: Set[tuple[str, str, str]]) -> int:
    """The rows of these uploads that their route leaves out."""
    files = {(uri, version): put for put in world.history for uri, version in [named(put)]}
    # under another name it has landed by mistake, which others say
    found = [files[place] for bucket, key, version in landed if (place := (f"s3://{bucket}/{key}", version)) in files]
    aside, where = world.sets_aside, world.knobs.where
    counted = ((rows_of(put, sets_aside=aside), rows_of(put, sets_aside=aside, where=where)) for put in found)
    return sum(len(all_rows) - len(rows) for all_rows, rows in counted)


def _rolled_back(world: World, table: str, batch: str) -> set[int]:
    """The snapshots that have published the batch in this table, and that a rollback took."""
    line = {stored.snapshot.id for stored in world.catalog.ancestry(table)}
    there = world.catalog.tables[table]
    found = [each.snapshot for each in (*there.snapshots.values(), *there.gone.values())]
    return {each.id for each in found if batch in each.plain.publishes and each.id not in line}


def let_go(world: World, batch: str) -> bool:
    """Whether the batch had landed, and was fenced once its rows were gone. A ledger that was rebuilt since calls it
    abandoned."""
    of_batch = [(table, stored) for each, table, stored in world.published() if each == batch]
    if not of_batch or of_batch[-1][1].files:
        return False
    receipt = json.loads(dict(world.left_in(f"batches/{batch}/")).get(f"batches/{batch}/receipt.json", b"{}"))
    if not receipt.get("fence"):
        return False
    table = world.catalog.tables[of_batch[-1][0]]
    landed = receipt["tally"]["rows"] or any(stored.files for _, stored in of_batch)
    return bool(landed) and not rows_of_batch(table, world.catalog.files, batch)


def _let_go(world: World, batch: str, item: Mapping[str, Any], published: list[Stored]) -> Iterator[str]:
    """What it ended as stays on record; what it had landed is for others."""
    left = dict(world.left_in(f"batches/{batch}/"))
    receipt = json.loads(left.get(f"batches/{batch}/receipt.json", b"{}"))
    fences = {stored.snapshot.id for stored in published if not stored.files}
    if receipt["snapshot"] not in fences:
        yield f"its receipt is {receipt}, and its fences are {fences}"
    if item["state"] == "ABANDONED":
        yield from _claims(world, batch, dict.fromkeys(map(_place, world.manifest_of(batch)), "abandoned"))
        return
    if receipt["tally"] != item["tally"]:
        yield f"its receipt is {receipt}, and it landed as {item['tally']}"
    outcomes = left.get(f"batches/{batch}/outcomes/{receipt['staged']}.jsonl.gz", b"").decode().splitlines()
    endings = {
        (each["bucket"], each["key"], each["version"]): each["outcome"] for each in map(json.loads, outcomes[1:])
    }
    yield from _claims(world, batch, {_place(each): endings.get(_place(each), "") for each in world.manifest_of(batch)})


def _only_rows(world: World, batch: str, item: Mapping[str, Any], stored: Stored) -> Iterator[str]:
    """A batch that was rebuilt from its rows has the uploads that have rows, as committed."""
    rows = _rows(world, stored)
    landed = {(uri, version) for uri, version, *_ in rows}
    listed = {(f"s3://{each.bucket}/{each.key}", each.version) for each in world.manifest_of(batch)}
    if listed != landed:
        yield f"its manifest was rebuilt with {sorted(listed)}, its rows are of {sorted(landed)}"
    tally = {**dict.fromkeys(OUTCOMES, 0), "committed": len(landed), "rows": len(rows), "rejected": 0, "replaced": 0}
    tally["left_out"] = 0
    if (item["state"], item["objects"], {**item["tally"]}) != ("COMMITTED", len(landed), tally):
        yield f"it was rebuilt as {item['state']} with {item['objects']} uploads, {item['tally']}; its rows say {tally}"
    yield from _claims(world, batch, {_place(each): "" for each in world.manifest_of(batch)})


def rows_at_most_once(world: World, batch: str) -> bool:
    """Whether one of its publications has rows, or none has, and the rest are fences or had no rows. If the history
    with such a one was lost, a person who finds no rows starts another attempt."""
    of_batch = [stored for each, _, stored in world.published() if each == batch]
    return world.decided.get(batch) is False and len(of_batch) > 1 and not any(each.files for each in of_batch[:-1])


def _claim_key(each: ManifestUpload) -> tuple[str, str]:
    return claims_pk(each.bucket, each.key), each.version


def dropped_for_good(world: World, each: ManifestUpload) -> bool:
    """Whether a person has dropped an upload of an abandoned batch, and nobody has taken it over since. Who took it
    over before has lost it again, when the ledger was rebuilt."""
    place = (*_claim_key(each), each.notice)
    return place in world.dropped and not any(
        taken.owner == each.notice and (pk, sk) == place[:2] and taken.at >= world.dropped[place]
        for (pk, sk, _), taken in world.taken_over.items()
    )


def _place(each: ManifestUpload) -> tuple[str, str, str]:
    return each.bucket, each.key, each.version


def lands(value: object, where: str) -> bool:
    """What a route says of its rows (`Knobs.where`)."""
    assert where in ("", "id % 10 <> 1"), where
    return not where or not isinstance(value, int) or value % 10 != 1


def rows_of(version: Version, *, sets_aside: bool = False, where: str = "") -> list[tuple[int, int | str]]:
    """(number, value) of each row of a file; none if it is broken. If bad rows are set aside, their value is their
    text, and a file is broken if it has no other. Without those that are left out."""
    found: list[tuple[int, int | str]] = []
    for number, line in enumerate(version.body.splitlines()):
        try:
            found.append((number, json.loads(line)["id"]))
        except ValueError:
            found.append((number, line.decode()))
    bad = sum(isinstance(value, str) for _, value in found)
    if bad and (not sets_aside or bad == len(found)):
        return []
    return [(number, value) for number, value in found if lands(value, where)]


def _rows(world: World, stored: Stored) -> list[tuple[Any, ...]]:
    return [row for name in stored.files for row in world.catalog.files[name]]


def replacing(world: World) -> frozenset[str]:
    """The buckets whose routes replace."""
    return frozenset({"landing"} if world.knobs.replaces else ())


def removing(world: World) -> frozenset[str]:
    """The buckets whose routes remove what is deleted."""
    return replacing(world) if world.knobs.removes else frozenset()


def named(put: Version) -> tuple[str, str]:
    """As the lineage of its rows has it."""
    identity = put.version_id if put.version_id not in ("", SUSPENDED) else f"etag:{put.etag}"
    return f"s3://{put.bucket}/{put.key}", identity


def skipping(world: World) -> frozenset[str]:
    """The buckets whose routes skip the same bytes."""
    return frozenset({"landing"} if world.knobs.skips and not world.knobs.replaces else ())


def of_same_bytes(world: World, put: Version) -> list[Version]:
    """The other puts of the same bytes under the same key, if no version with other bytes came between, in a bucket
    where one of them has rows. Where a put without a version of its own stands in the list, its next one says."""
    if put.bucket not in skipping(world) or not put.version_id:
        return []
    line = [each for each in world.history if (each.bucket, each.key) == (put.bucket, put.key) and each.version_id]
    others = [each.number for each in line if each.etag != put.etag and each.version_id != SUSPENDED]
    return [
        each
        for each in line
        if each is not put
        and each.etag == put.etag
        and (
            SUSPENDED in (each.version_id, put.version_id)
            or not any(min(each.number, put.number) < number < max(each.number, put.number) for number in others)
        )
    ]


def read_by_etag(world: World, put: Version) -> list[Version]:
    """The puts of the same bytes under the same key that are read as what the key holds, if that has their ETag."""
    return [
        each
        for each in world.history
        if (each.bucket, each.key, each.etag) == (put.bucket, put.key, put.etag)
        and each.version_id in ("", SUSPENDED)
        and put.version_id not in ("", SUSPENDED)
    ]


def deleted_after(world: World, put: Version) -> list[Version]:
    """The markers of later deletions of the same object."""
    return [
        each
        for each in world.history
        if each.how == MARKER and (each.bucket, each.key) == (put.bucket, put.key) and each.number > put.number
    ]


def gave_way(world: World, stored: Stored) -> list[tuple[Any, ...]]:
    """The rows that were in the table and left it with this snapshot."""
    files = world.catalog.files
    return [row for name, left in stored.masked.items() for row in files[name] if row not in files[left]]


def _endings(
    world: World, batch: str, stored: Stored, endings: Mapping[tuple[str, str, str], str], last: bool
) -> Iterator[str]:
    """Each upload of the batch has the right ending: its rows are in the batch's snapshot, or there is a reason."""
    there: dict[tuple[str, str], int] = defaultdict(int)
    for uri, version, *_ in _rows(world, stored):
        there[uri, version] += 1
    read = dict(there)
    for each in world.manifest_of(batch):
        puts, outcome = world.puts_of(each), endings.get(_place(each), "committed")
        if not puts:
            yield f"{_place(each)} with sequencer {each.sequencer!r} is in its manifest, and nobody uploaded it"
            continue
        rows = there.pop((f"s3://{each.bucket}/{each.key}", each.version), 0)
        if (rows > 0) is not (outcome == "committed") and not (outcome == "committed" and not puts[0].body):
            yield f"{_place(each)} is recorded as {outcome}, and has {rows} rows in its snapshot"
        if outcome == "present":
            same = {named(other) for put in puts for other in of_same_bytes(world, put)}
            if same & read.keys() or _was_there_before(world, stored, same):
                continue
            if not _was_there_before(world, stored, {(f"s3://{each.bucket}/{each.key}", each.version)}):
                yield f"{_place(each)} is recorded as present, and nothing before had brought rows of it"
            elif each.reloads and all(_can_be_reloaded(world, put) for put in puts):
                yield f"{_place(each)} was to be reloaded, could be read, and is recorded as present"
        elif not any(_true(world, put, outcome, last) for put in puts):
            yield f"{_place(each)} is recorded as {outcome}, which nothing that happened to it explains"
    if there:
        yield f"its snapshot has rows of {sorted(there)}, which are not in its manifest"


def _can_be_reloaded(world: World, put: Version) -> bool:
    """Whether nothing explains that its rows stay: S3 has it for good, and hands it out."""
    stays = put.version_id not in ("", SUSPENDED) and not deleted_after(world, put) and put not in world.expired
    return stays and not _cannot_be_decoded(world, put) and (put.bucket, put.key) not in world.refused


def _was_there_before(world: World, stored: Stored, names: Set[tuple[str, str]]) -> bool:
    """Whether some snapshot that is older than this one brought rows of one of these, in whichever table."""
    return any(
        row[:2] in names
        for table in world.catalog.tables.values()
        for earlier in (*table.snapshots.values(), *table.gone.values())
        if earlier.snapshot.id < stored.snapshot.id
        for row in _rows(world, earlier)
    )


def _true(world: World, put: Version, outcome: str, last: bool) -> bool:
    """Whether an upload can have this ending. `last`: its batch is in its last attempt."""
    place, can_be_destroyed = (put.bucket, put.key), put.version_id in ("", SUSPENDED)
    if outcome == "quarantined":
        return _cannot_be_decoded(world, put) or (place in world.refused and last)
    if outcome == "vanished":
        removed = any((bucket, key) == place and at >= put.at for at, bucket, key in world.removed)
        return (can_be_destroyed and removed) or put in world.expired
    if outcome == "superseded":
        later = [each for each in world.history if (each.bucket, each.key) == place and each.number > put.number]
        another = any((each.version_id, each.etag) != (put.version_id, put.etag) for each in later)
        if put.bucket in replacing(world) and (another or read_by_etag(world, put)):
            return True
        return can_be_destroyed and any(each.etag != put.etag for each in later)
    return outcome == "committed" and not _cannot_be_decoded(world, put)


def _cannot_be_decoded(world: World, put: Version) -> bool:
    if world.sets_aside and put.body.count(b"\n") > put.body.count(b'"id": \n'):
        return b'{"deadly' in put.body
    return b'"id": \n' in put.body or b'{"deadly' in put.body


def _claims(world: World, batch: str, endings: Mapping[tuple[str, str, str], str]) -> Iterator[str]:
    """The claims of the batch's notices, without those that another notice took over, or that had expired when the
    batch ended: these count as absent, and get no ending."""
    ended_at = (world.dynamodb.items.get(("ledger", f"b#{batch}", "batch")) or {}).get("ended_at", 0)
    for each in world.manifest_of(batch):
        claim = world.dynamodb.items.get(("ledger", *_claim_key(each)))
        if claim is None or claim["notice"] != each.notice:
            continue
        if "outcome" not in claim and claim.get("expires_at", math.inf) <= ended_at:
            continue
        ended = "dropped" if (*_claim_key(each), each.notice) in _given_up(world) else endings[_place(each)]
        if claim.get("outcome", "") != ended:
            yield f"the claim of {_place(each)} says {claim.get('outcome')!r}, it ended as {ended!r}"


# ---- sums


def _sums(world: World, batches: Batches) -> Iterator[str]:
    """Each batch that has ended is in its route's sums once (rule 10), and so is each upload that came back."""
    came_back = _came_back(world, batches)
    corrected = _corrected(world, batches)
    for route, count in corrected.items():
        came_back[route, "quarantined"] += count
    for (_, pk, _), route in world.dynamodb.items.on("r#"):
        of_route = [item for item in batches.values() if item["route"] == pk[2:]]
        ended = [item for item in of_route if item["state"] in FINAL]
        committed = [item for item in ended if item["state"] == "COMMITTED"]
        expected = {
            "notified": sum(item["objects"] for item in ended) + corrected[pk[2:]],
            "committed_batches": len(committed),
            "abandoned_batches": len(ended) - len(committed),
            "abandoned_objects": corrected[pk[2:]]
            + sum(item["objects"] for item in ended if item["state"] == "ABANDONED"),
            "dropped": corrected[pk[2:]]
            + sum(_dropped_of(world, batch) for batch, item in batches.items() if item["route"] == pk[2:]),
            # a ledger that was rebuilt has forgotten jobs, and may have forgotten which attempts they were
            **({} if world.forgotten_from < math.inf else {"jobs": sum(item["attempt"] for item in of_route)}),
            **{name: sum(item["tally"][name] for item in committed) for name in (*OUTCOMES, "rows")},
            "rejected": sum(item["tally"]["rejected"] for item in committed),
            "replaced": sum(item["tally"]["replaced"] for item in committed),
            "left_out": sum(item["tally"]["left_out"] for item in committed),
        }
        said = {name: route.get(name, 0) for name in expected}
        if said != expected:
            differing = {name: (said[name], expected[name]) for name in expected if said[name] != expected[name]}
            yield f"sums: route {pk[2:]} (says, should say): {differing}"
        back = {name: (route.get(f"back_{name}", 0), came_back[pk[2:], name]) for name in COMES_BACK}
        for name, (counted, happened) in back.items():
            if counted != happened:
                yield f"sums: {happened} uploads of route {pk[2:]} came back as {name}, it says {counted}"


def _given_up(world: World) -> set[tuple[str, str, str]]:
    """The claims on uploads that were given up: abandoned ones, and those in quarantine."""
    return world.dropped.keys() | world.corrected.keys()


def _corrected(world: World, batches: Batches) -> Counter[str]:
    """By route: how many uploads in quarantine were given up because a later version had landed."""
    found: Counter[str] = Counter()
    for batch, item in batches.items() if world.corrected else ():
        if item["state"] == "COMMITTED":
            places = {(*_claim_key(each), each.notice) for each in world.manifest_of(batch)}
            found[item["route"]] += len(places & world.corrected.keys())
    return found


def _wrongly_corrected(world: World, batches: Batches) -> Iterator[str]:
    """What was given up has a later version with rows."""
    for item, batch in ((each, batch) for batch, each in batches.items() if world.corrected):
        for each in world.manifest_of(batch) if item["state"] == "COMMITTED" else ():
            if (*_claim_key(each), each.notice) not in world.corrected:
                continue
            first = min((put.number for put in world.puts_of(each)), default=0)
            later = [put for put in world.history if (put.bucket, put.key) == (each.bucket, each.key)]
            if not any(put.number > first and world.landed_at(put) is not None for put in later):
                yield f"quarantine: {_place(each)} was given up, and no later version has landed"


def _dropped_of(world: World, batch: str) -> int:
    if not world.dropped or batch not in world.wished:
        return 0
    return sum((*_claim_key(each), each.notice) in world.dropped for each in _sealed_of(world, batch))


def _sealed_of(world: World, batch: str) -> list[ManifestUpload]:
    name = f"batches/{batch}/sealed.json"
    return world.manifest_of(batch) if name in dict(world.left_in(name)) else []


def _came_back(world: World, batches: Batches) -> Counter[tuple[str, str]]:
    """(route, how it had ended): how many uploads a batch has gathered that another one had counted. They are those
    whose live claim another notice took over, which a batch registered."""
    came_back: Counter[tuple[str, str]] = Counter()
    if not world.taken_over:
        return came_back
    taken_from = world.taken_back | {
        (pk, sk, taken.owner) for (pk, sk, _), taken in world.taken_over.items() if taken.at < world.whole_at
    }
    registered: dict[tuple[str, str, str], _Counted] = {}
    for batch, item in batches.items():
        endings = recorded(world, batch) if item["state"] == "COMMITTED" else {}
        usual = "committed" if item["state"] == "COMMITTED" else "abandoned"
        for each in world.manifest_of(batch) if item["state"] in FINAL else ():
            ended = endings.get(_place(each), usual)
            let_go = (*_claim_key(each), each.notice) in taken_from
            first = ended == "committed" or (not let_go and _undecided_then(world, batch))
            registered[(*_claim_key(each), each.notice)] = _Counted(item["route"], ended, (first, batch))
    # nobody need have seen that the ledger was lost: then an empty one has worked until somebody rebuilt it
    sent_since = {each.id for each in world.sent_notices} - {
        each.id for each in world.sent_notices if each.when < world.rebuilt_at
    }
    ranked: dict[tuple[str, str, str], tuple[str, str, str]] = {}
    """By an owner before the ledger was lost: which ranks highest of it and all before it."""
    for pk, sk, notice in sorted(world.taken_over.keys() & registered.keys(), key=lambda key: world.taken_over[key].at):
        owner, passed, taken_at = notice, set(), world.taken_over[pk, sk, notice].at
        if world.rebuilt_at <= taken_at < world.whole_at and notice not in sent_since:
            continue  # a ledger that is being rebuilt lets the batch have it that ranks higher, and counts nothing anew
        # an owner that no batch registered was counted nowhere: what it had taken over before counts
        while (taken := world.taken_over.get((pk, sk, owner))) and taken.known and owner not in passed:
            passed.add(owner)
            owner = taken.owner
            if (last := (pk, sk, owner)) in registered:
                if taken_at < world.rebuilt_at:
                    # a rebuilt ledger knows the order by the batches' ids only
                    last, ranked[pk, sk, notice] = sorted(
                        (ranked.get(last, last), (pk, sk, notice)), key=lambda each: registered[each].rank
                    )
                counted = registered[last]
                came_back[counted.route, "dropped" if last in _given_up(world) else counted.ended] += 1
                break
    return came_back


class _Counted(NamedTuple):
    """How a batch counts an upload, and how it ranks if a rebuilt ledger has to choose (`flows.rebuild`)."""

    route: str
    ended: str
    rank: tuple[bool, str]


def _undecided_then(world: World, batch: str) -> bool:
    """Whether the batch was undecided when its ledger was rebuilt, if nobody has taken anything from it. A later driver
    may have written its receipt once more."""
    receipt = world.s3.buckets["work"].current.get(f"batches/{batch}/receipt.json")
    return receipt is not None and receipt.at >= world.whole_at


def recorded(world: World, batch: str) -> dict[tuple[str, str, str], str]:
    """The recorded outcomes of a published batch's uploads that were not committed."""
    left = dict(world.left_in(f"batches/{batch}/"))
    staged = json.loads(left.get(f"batches/{batch}/receipt.json", b"{}")).get("staged")
    lines = left.get(f"batches/{batch}/outcomes/{staged}.jsonl.gz", b"").decode().splitlines()
    return {(each["bucket"], each["key"], each["version"]): each["outcome"] for each in map(json.loads, lines[1:])}


def _status(world: World, batches: Batches) -> Iterator[str]:
    """What `tidegate status` prints: each upload once, however often it came back, and how it ended the last time."""
    routes = {pk[2:]: route for (_, pk, _), route in world.dynamodb.items.on("r#")}
    notified = pending = 0
    for name, route in routes.items():
        back = {each: route.get(f"back_{each}", 0) for each in COMES_BACK}
        printed = {each: route.get(each, 0) - back.get(each, 0) for each in OUTCOMES}
        printed["dropped"] = route.get("dropped", 0) - back["dropped"]
        printed["pending"] = route.get("abandoned_objects", 0) - route.get("dropped", 0) - back["abandoned"]
        printed["notified"] = route.get("notified", 0) - sum(back.values())
        pending += printed["pending"]
        notified += printed["notified"]
        if min(printed.values()) < 0:
            yield f"status: route {name} has {printed}"
        if printed["notified"] != sum(printed[each] for each in (*OUTCOMES, "dropped", "pending")):
            yield f"status: the sums of route {name} do not hold: {printed}"
    # a claim that has expired, or that a rebuilt ledger has forgotten, does not tell that an upload came back
    if world.knobs.horizon or world.forgotten_from < math.inf:
        return
    ended = [batch for batch, item in batches.items() if item["state"] in FINAL]
    uploads = {_claim_key(each) for batch in ended for each in world.manifest_of(batch)}
    if notified != len(uploads):
        yield f"status: {notified} uploads were notified, and {len(uploads)} different ones registered"
    if world.knobs.resends and pending:
        yield f"status: {pending} uploads are pending, and all abandoned batches were resent"


def _oldest(world: World, batches: Batches) -> Iterator[str]:
    """A route says since when it has uploads in quarantine: neither too late nor, once everything is at rest, too
    early, but for the clocks of two functions that end batches at the same time."""
    differ = max(world.knobs.skew) - min(world.knobs.skew)
    since: dict[str, int] = {}
    earliest: dict[str, int] = {}
    for batch, item in batches.items():
        if item["state"] != "COMMITTED" or not item["tally"]["quarantined"] or batch in world.only_rows:
            continue
        endings = recorded(world, batch)
        for each in world.manifest_of(batch):
            if endings.get(_place(each)) != "quarantined":
                continue
            claim = world.dynamodb.items.get(("ledger", *_claim_key(each)), {})
            still = (claim.get("notice"), claim.get("outcome")) == (each.notice, "quarantined")
            if still and claim["expires_at"] > world.kernel.now:
                since[item["route"]] = min(item["ended_at"], since.get(item["route"], item["ended_at"]))
            # a claim expires a while before its batch is taken for forgotten, and may be deleted then
            if (still or not claim) and item["ended_at"] + CLAIMS > world.kernel.now:
                earliest[item["route"]] = min(item["ended_at"], earliest.get(item["route"], item["ended_at"]))
    for (_, pk, _), route in world.dynamodb.items.on("r#"):
        said, oldest = route.get("quarantined_since", 0), since.get(pk[2:], 0)
        if oldest and not 0 < said <= oldest + differ:
            yield f"quarantine: route {pk[2:]} has uploads there since {oldest}, it says {said}"
        # a rebuilt ledger counts anew what came back
        elif said and world.forgotten_from == math.inf and said < earliest.get(pk[2:], math.inf) - differ:
            yield f"quarantine: route {pk[2:]} has nothing there before {earliest.get(pk[2:])}, it says {said}"


def _wishes(world: World, batches: Batches) -> Iterator[str]:
    """What a person has said of a batch's uploads is done, if the batch is abandoned; and nothing was dropped unasked.
    Claims that have expired are left alone."""
    asked = {batch for batch in world.wished if batches.get(batch, {}).get("state") == "ABANDONED"}
    for batch in asked:
        for each in world.manifest_of(batch):
            claim = world.dynamodb.items.get(("ledger", *_claim_key(each)), {})
            live = claim.get("expires_at", 0) > world.kernel.now
            if live and (claim["notice"], claim.get("outcome")) == (each.notice, "abandoned"):
                yield f"wishes: {_place(each)} is abandoned, and was to be {world.wished[batch]}n"
    named = {(*_claim_key(each), each.notice) for batch in asked for each in world.manifest_of(batch)}
    if unasked := world.dropped.keys() - named:
        yield f"wishes: {len(unasked)} uploads were dropped that nobody gave up"
    origins = {notice.id: notice.origin for notice in world.sent_notices}
    for (pk, sk, taker), taken in world.taken_over.items():
        # without a version it may be another put of the same bytes
        by_audit = origins.get(taker, "").startswith("audit-") and not sk.startswith("etag:")
        if by_audit and (pk, sk, taken.owner) in world.dropped:
            yield f"wishes: an audit sent an upload of version {sk}, which was dropped"
    for (_, pk, _), route in world.dynamodb.items.on("r#"):
        if route.get("wished"):
            yield f"wishes: route {pk[2:]} still lists {sorted(route['wished'])}"


def _leftovers(world: World, batches: Batches) -> Iterator[str]:
    """Each batch that left uploads outside the table when it ended is listed by its route, and no other one is."""
    found = {(pk[2:], sk): item for (_, pk, sk), item in world.dynamodb.items.on("l#")}
    for batch, item in batches.items():
        left = found.pop((item["route"], batch), {})
        if ("ledger", f"b#{batch}", "batch") not in world.dynamodb.items:
            continue  # expired, and so has what it left
        fenced, quarantined = item["state"] == "ABANDONED", item.get("tally", {}).get("quarantined", 0)
        expected = {"quarantined": quarantined, "abandoned": item["objects"] if fenced else 0}
        expected["dropped"] = _dropped_of(world, batch)
        said = {name: left.get(name, 0) for name in expected}
        if said != expected:
            yield f"leftovers: batch {batch} has left {expected}, its route lists {said}"
        if left and not any(expected.values()):
            yield f"leftovers: batch {batch} has left nothing, and its route lists it"
    if found:
        yield f"leftovers: of {sorted(found)}, which are no batches"

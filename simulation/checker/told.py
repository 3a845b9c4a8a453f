"""Checks what a person was told who asked, when everything was at rest (`simulation.world.asking`): each page of files
and batches, what became of each object, what is in quarantine, and where the tables differ from the ledger."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from simulation.checker.books import CLAIMS, gave_way, recorded
from simulation.world.diary import Answers, UploadIdentity
from simulation.world.sent import claims_pk
from simulation.world.table import Metadata, batch_of, rows_of_batch
from simulation.world.world import World

DAY = 86_400


def mistold(world: World) -> Iterator[str]:
    answers = world.answers
    if answers is None:
        return
    if answers.failed:
        yield f"told: a question was not answered: {answers.failed}"
        return
    batches = {pk[2:]: item for (_, pk, _), item in world.dynamodb.items.on("b#") if _is_known(world, item)}
    yield from _batches(world, batches, answers)
    yield from _differences(world, batches, answers)
    # what only rows tell of, and what a ledger has forgotten, is told as far as it is known
    if world.only_rows or world.forgotten_from < math.inf:
        return
    yield from _files(world, batches, answers)
    yield from _traced(world, answers)
    yield from _kept(world, answers)
    yield from _status(world, answers)


def _is_known(world: World, item: Mapping[str, Any]) -> bool:
    return not 0 < item.get("expires_at", 0) <= world.kernel.now


def _claim(world: World, upload: UploadIdentity) -> Mapping[str, Any]:
    bucket, key, version = upload
    claim = world.dynamodb.items.get(("ledger", claims_pk(bucket, key), version), {})
    return claim if claim.get("expires_at", 0) > world.kernel.now else {}


def _state(
    world: World, upload: UploadIdentity, batch: Mapping[str, Any], endings: Mapping[UploadIdentity, str]
) -> str:
    """What became of an upload of a batch that owns it."""
    if _claim(world, upload).get("outcome") == "dropped":
        return "dropped"
    return endings.get(upload, "committed") if batch["state"] == "COMMITTED" else "pending"


def _files(world: World, batches: Mapping[str, Mapping[str, Any]], answers: Answers) -> Iterator[str]:
    """Each upload with a live claim is told once, with the batch that owns it, in the state that it is in."""
    expected: dict[tuple[UploadIdentity, str], tuple[str, int | None]] = {}
    young = {batch for batch, item in batches.items() if item["opened_at"] > world.kernel.now - CLAIMS + 3 * DAY}
    for batch in young:
        item = batches[batch]
        if item["state"] not in ("COMMITTED", "ABANDONED"):
            continue
        endings = recorded(world, batch) if item["state"] == "COMMITTED" else {}
        rows = _rows_of(world, batch)
        for each in world.manifest_of(batch):
            upload = each.bucket, each.key, each.version
            if _claim(world, upload).get("notice") == each.notice:
                state = _state(world, upload, item, endings)
                expected[upload, batch] = state, rows[upload] if state == "committed" else None
    again = world.fenced() & world.landed()  # how many rows such a batch brought, nobody can tell for sure
    told = [(each, batch, state, rows) for each, batch, state, rows in answers.files if batch in young]
    for (upload, batch), times in Counter((each, batch) for each, batch, *_ in told).items():
        if times > 1:
            yield f"told: file {upload} of batch {batch} is on {times} pages"
    found = {(each, batch): (state, rows) for each, batch, state, rows in told if _claim(world, each)}
    for at in (each for each in found.keys() & expected.keys() if each[1] in again):
        found[at], expected[at] = (found[at][0], None), (expected[at][0], None)
    if found != expected:
        differ = {each: (found.get(each), expected.get(each)) for each in found.keys() | expected.keys()}
        yield f"told: files (as told, as it is): { {at: both for at, both in differ.items() if both[0] != both[1]} }"
    for state, listed in answers.of_state.items():
        of_all = sorted((each, batch) for each, batch, was, _ in answers.files if was == state)
        if sorted(listed) != of_all:
            yield f"told: files that are {state}: {sorted(listed)}, of all there are {of_all}"


def _rows_of(world: World, batch: str) -> Counter[UploadIdentity]:
    """How many rows each upload of the batch brought."""
    found: Counter[UploadIdentity] = Counter()
    for each, _, stored in world.published():
        for name in stored.files if each == batch else ():
            for uri, version, *_ in world.catalog.files[name]:
                bucket, _, key = uri.removeprefix("s3://").partition("/")
                found[bucket, key, version] += 1
        if found:
            break
    return found


def _batches(world: World, batches: Mapping[str, Mapping[str, Any]], answers: Answers) -> Iterator[str]:
    told = answers.batches
    if told != sorted(set(told), reverse=True):
        yield f"told: batches {told}, which are not each once, the newest first"
    folders = {name.split("/")[1] for name, _ in world.left_in("batches/")}
    expected = {
        batch
        for batch, item in batches.items()
        if batch in folders and item["opened_at"] > world.kernel.now - CLAIMS + 3 * DAY
    }
    if missing := expected - set(told):
        yield f"told: no page of batches has {sorted(missing)}"
    if unknown := set(told) - batches.keys():
        yield f"told: batches {sorted(unknown)}, which are none"


def _kept(world: World, answers: Answers) -> Iterator[str]:
    """Of several versions that have landed, the one that is called the newest was put last."""
    put_at = {(put.bucket, put.key, put.version_id): put.number for put in world.history}
    for bucket, key, versions in answers.kept:
        if list(versions) != sorted(versions, key=lambda version: put_at[bucket, key, version]):
            yield f"told: of s3://{bucket}/{key} the versions {versions} have landed, the newest last, and it is not"


def _traced(world: World, answers: Answers) -> Iterator[str]:
    owners = {pk[2:]: item for (_, pk, _), item in world.dynamodb.items.on("n#")}
    expected: dict[UploadIdentity, tuple[str, int | None]] = {}
    again = world.fenced() & world.landed()
    unsure: set[UploadIdentity] = set()
    for bucket, key in {(put.bucket, put.key) for put in world.history}:
        pk = claims_pk(bucket, key)
        for (_, each, version), claim in world.dynamodb.items.on("o#"):
            if each != pk or claim["expires_at"] <= world.kernel.now:
                continue
            upload = bucket, key, version
            owner = owners.get(claim["notice"], {})
            batch = str(owner.get("batch", "")) if owner.get("expires_at", 0) > world.kernel.now else ""
            item = world.dynamodb.items.get(("ledger", f"b#{batch}", "batch"), {})
            if not item or not _is_known(world, item):
                continue
            endings = recorded(world, batch) if item["state"] == "COMMITTED" else {}
            state = _state(world, upload, item, endings)
            expected[upload] = state, _rows_of(world, batch)[upload] if state == "committed" else None
            if batch in again:
                unsure.add(upload)
    told = {upload: (state, rows) for upload, state, rows in answers.traced if upload in expected}
    for upload in unsure & told.keys():
        told[upload], expected[upload] = (told[upload][0], None), (expected[upload][0], None)
    if told != expected:
        differ = {each: (told.get(each), expected[each]) for each in expected if told.get(each) != expected[each]}
        yield f"told: what became of them (as told, as it is): {differ}"
    in_quarantine = sorted(upload for upload, (state, _) in expected.items() if state == "quarantined")
    listed = sorted(upload for upload, _ in answers.quarantined if upload in expected)
    if listed != in_quarantine:
        yield f"told: in quarantine {listed}, there are {in_quarantine}"


def _status(world: World, answers: Answers) -> Iterator[str]:
    for name, said in answers.status.items():
        if not said["holds"]:
            yield f"told: the sums of route {name} do not hold: {said}"
        listed = len([batch for _, batch in answers.quarantined if _route_of(world, batch) == name])
        if said["in_quarantine"] < listed:
            yield f"told: {said['in_quarantine']} uploads of route {name} are in quarantine, and {listed} listed"
        asked = {(kind, count) for kind, route, _, count in answers.needs if route == name}
        for kind, count in (("quarantined", said["in_quarantine"]), ("abandoned", said["waiting"])):
            if ((kind, count) in asked) is not (count > 0):
                yield f"told: route {name} has {count} {kind}, and needs {sorted(asked)}"


def _route_of(world: World, batch: str) -> str:
    return str(world.dynamodb.items.get(("ledger", f"b#{batch}", "batch"), {}).get("route", ""))


# ---- where the tables differ from the ledger


def _differences(world: World, batches: Mapping[str, Mapping[str, Any]], answers: Answers) -> Iterator[str]:
    """What rows say, and whether each abandoned batch is fenced from all of its floors."""
    expected = set()
    folders = {name.split("/")[1] for name, _ in world.left_in("batches/")}
    young = {
        batch
        for batch, item in batches.items()
        if batch in folders and item["opened_at"] > world.kernel.now - CLAIMS + 3 * DAY
    }
    for batch in young:
        item = batches[batch]
        table = world.catalog.tables.get(item.get("table", ""))
        if item["state"] == "COMMITTED":
            held = rows_of_batch(table, world.catalog.files, batch) if table else 0
            rows = item["tally"].get("rows", 0) - (_taken(world, table, batch) if table else 0)
            if held > rows or (held < rows and (held or "sent_again" not in item)):
                expected.add(("missing" if not held else "fewer" if held < rows else "more", batch))
        elif item["state"] == "ABANDONED" and table and not _is_fenced(world, table, batch):
            expected.add(("not fenced", batch))
    told = {(difference, batch) for difference, batch in answers.differences if batch in young}
    if told != expected:
        yield f"told: tables and ledger differ by {sorted(told)}, and do by {sorted(expected)}"


def _taken(world: World, table: Metadata, batch: str) -> int:
    """How many rows of the batch have left the table for those of later versions."""
    gone = (row for stored in table.line() for row in gave_way(world, stored))
    return len({row[:3] for row in gone if batch_of(row) == batch})


def _is_fenced(world: World, table: Metadata, batch: str) -> bool:
    """Whether no floor of the batch is in the history without something published under its id above it."""
    for name, body in world.left_in(f"batches/{batch}/floor"):
        if "rejected" in name:
            continue
        floor = json.loads(body)
        if floor["table_uuid"] != table.uuid:
            continue
        for each in table.ancestors():
            if each.summary.get("published-wap-id") == batch:
                break
            if each.id == floor["head"] or each.parent == floor["head"]:
                return False
    return True

"""What must be true in every state, and in the end."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulation.model import actors as act
from simulation.model.actors import (
    BATCH,
    BEFORE,
    BEHIND,
    ELSEWHERE,
    ELSEWHERE_TOO,
    JOINED,
    LATER,
    MOVED,
    PARTS,
    REJECTED,
    ROUTE,
    TABLE,
    B,
    C,
)
from simulation.model.explore import NOW, RETENTION, Actor, Cell, Cells, run
from tidegate.core.batches import Wish
from tidegate.core.errors import TidegateError
from tidegate.core.manifests import batch_folder, decode_part, decode_sealed
from tidegate.core.notices import Notice
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.receipts import Receipt, decode_outcomes, decode_receipt
from tidegate.core.records import (
    AUDITS,
    OUTBOX,
    RouteRecord,
    batch_key,
    claim_key,
    decode_audit,
    decode_standing,
    notice_key,
    route_key,
)
from tidegate.core.uploads import Upload
from tidegate.flows.sink import Hopeless

EndsWell = Callable[[Cells, frozenset[str]], str]
FOR_EVER = NOW + RETENTION

# ---- what the cells say


def items_of(cells: Mapping[Cell, Any], begins: str = "") -> dict[Cell, Any]:
    """The items of the ledger whose partition begins so, by their keys."""
    return {cell[1:]: item for cell, item in cells.items() if cell[0] == "item" and cell[1].startswith(begins)}


def standing(cells: Mapping[Cell, Any]) -> RouteRecord:
    return decode_standing("r", cells.get(("item", *route_key("r"))))


def header(cells: Mapping[Cell, Any], batch: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = cells["item", *batch_key(batch)]
    return found


def receipt_of(cells: Mapping[Cell, Any], batch: str) -> Receipt | None:
    body = cells.get(("object", batch_folder(batch) + "receipt.json"))
    return decode_receipt(body) if body else None


def parts_of(cells: Mapping[Cell, Any]) -> dict[str, tuple[str, list[str]]]:
    """The batch and the keys of each registered notice, but for those of fenced batches: they land nowhere."""
    found = {}
    for (pk, _), item in items_of(cells, "n#").items():
        receipt = receipt_of(cells, item["batch"]) if "batch" in item else None
        if "batch" in item and not (receipt and receipt.fence):
            body = cells["object", batch_folder(item["batch"]) + item["part"]]
            found[pk[2:]] = item["batch"], [each.upload.key for each in decode_part(body)]
    return found


def lands_once(cells: Mapping[Cell, Any]) -> str:
    """Nothing is, or can come to be, in the table twice; what a registered notice has claimed is in its part; and the
    route and its batches agree."""
    registered = parts_of(cells)
    ended = _ended(cells)
    counts = Counter(key for _, keys in registered.values() for key in keys)
    for key, times in counts.items():
        if times > 1 + (key in ended):
            return f"{key} is in {times} registered parts"
    for place, claim in items_of(cells, "o#").items():
        if claim["notice"] in registered:
            keys = registered[claim["notice"]][1]
            if place not in [claim_key("bucket", key, "etag:1") for key in keys]:
                return f"a claim of notice {claim['notice'][:6]} is on no upload of its part"
    if wrong := _route_disagrees(cells) or _counted_wrong(cells):
        return wrong
    for notice_id, (batch, _) in registered.items():
        body = cells.get(("object", batch_folder(batch) + "sealed.json"))
        if body is not None and not any(notice_id in part for part in decode_sealed(body).parts):
            return f"notice {notice_id[:6]} is registered in {batch}, and not in its manifest"
    landed = Counter(cells[TABLE][1]) if TABLE in cells else Counter()
    return next((f"{key} is in the table {times} times" for key, times in landed.items() if times > 1), "")


def _route_disagrees(cells: Mapping[Cell, Any]) -> str:
    """A batch that has not ended is listed by its route, in one place: nobody would come back to it otherwise. One that
    has ended is in the route's sums, once. And each counts the notices that are in it."""
    items = items_of(cells)
    batches = {pk[2:]: item for (pk, _), item in items.items() if pk.startswith("b#")}
    route = standing(cells)
    said = {"OPEN": {route.open_batch} - {""}, "SEALED": set(route.sealed), "SUBMITTED": set(route.submitted)}
    for state, listed in said.items():
        there = {batch for batch, item in batches.items() if item["state"] == state}
        if there != listed:
            return f"{sorted(there)} are {state}, and the route lists {sorted(listed)}"
    ended = sum(item["state"] not in said for item in batches.values())
    if ended != route.committed_batches + route.abandoned_batches:
        return f"{ended} batches have ended, and the route counts otherwise"
    if len(set(route.submitted)) < len(route.submitted):
        return f"{route.running} are in a slot, and {route.aside} aside"
    if under_way := [batch for batch in route.aside if "halted" not in batches[batch]]:
        return f"{under_way} are aside, and have not halted"
    # a batch that a person gives up needs no free slot, and neither does one that is resumed after it stepped aside
    slots = [batch for batch in route.running if not {"fencing", "aside_at"} & {*batches[batch]}]
    if len(slots) > ROUTE.limits.in_flight:
        return f"{len(slots)} batches are submitted"
    inside = Counter(item["batch"] for (pk, _), item in items.items() if pk.startswith("n#") and "batch" in item)
    for batch, item in batches.items():
        if inside[batch] != item["notices"]:
            return f"batch {batch} counts {item['notices']} notices, and {inside[batch]} are in it"
    return ""


def _counted_wrong(cells: Mapping[Cell, Any]) -> str:
    """Each upload that was ever registered is in its route's sums once, however often it came back."""
    items = items_of(cells)
    route = standing(cells)
    counted, keys = 0, set()
    for (pk, _), item in items.items():
        if pk.startswith("n#") and "batch" in item:
            part = decode_part(cells["object", batch_folder(item["batch"]) + item["part"]])
            counted += len(part)
            keys |= {each.upload.key for each in part}
    if counted - sum(route.back.values()) != len(keys):
        return f"{len(keys)} uploads are counted {counted} times, {dict(route.back)} of them as come back"
    # what was dropped is in its claim, until a notice takes it over; and then until that registers
    claims = [item for (pk, _), item in items.items() if pk.startswith("o#")]
    taken = [
        item
        for item in claims
        if item.get("was") == DROPPED and "batch" not in items.get(notice_key(item["notice"]), {})
    ]
    there = sum(item.get("outcome") == DROPPED for item in claims) + len(taken)
    if there != route.dropped - route.back.get(DROPPED, 0):
        return f"{there} uploads are dropped, the route counts {route.dropped}, {dict(route.back)} of them as come back"
    return ""


def _ended(cells: Mapping[Cell, Any]) -> set[str]:
    """The keys that did not land, by the outcomes of the model's batches."""
    bodies = [body for cell, body in cells.items() if cell[0] == "object" and "/outcomes/" in cell[1]]
    return {ending.key for body in bodies for ending in decode_outcomes(body).endings}


def every_upload_joins(
    uploads: Sequence[Upload], messages: Mapping[str, Notice], sent: str = "", also: Sequence[Actor] = ()
) -> EndsWell:
    """Once the faults stop, what was not acknowledged is delivered again, and `also` runs again. After that each upload
    is in exactly one registered part, besides one that is known to have ended without a row.

    `messages` are notices by the names of their deliveries, a letter each; `sent` those of what the topic carries.
    """

    def check(cells: Cells, acknowledged: frozenset[str]) -> str:
        waiting = [notice for names, notice in messages.items() if not acknowledged & set(names)]
        delivered = {cell for cell in cells if cell[0] == "sent"} if acknowledged & set(sent) else set()
        for _ in range(3):
            waiting += [cells[cell] for cell in sorted(cells) if cell[0] == "sent" and cell not in delivered]
            fresh = [act.delivery(f"fresh{number}-{len(cells)}-", each) for number, each in enumerate(waiting)]
            for actor in (*also, *fresh):
                try:
                    run(cells, actor)
                except TidegateError as error:
                    return f"{actor.name}, without faults, failed: {error}"
        if wrong := lands_once(cells):
            return f"afterwards {wrong}"
        ended = _ended(cells)
        counts = Counter(key for _, keys in parts_of(cells).values() for key in keys)
        for each in uploads:
            if counts[each.key] < 1 + (each.key in ended):
                return f"afterwards {each.key} is lost"
        return ""

    return check


def every_time_is_watched(cells: Mapping[Cell, Any]) -> str:
    """Of each key that a route takes in either version of the settings no time is between two watches."""
    watches = [decode_audit(item) for item in items_of(cells, AUDITS).values()]
    for key in (B.key, C.key):
        there = [each for each in watches if key.startswith(each.place.prefix)]
        until = BEFORE
        for each in sorted(there, key=lambda each: each.watched_since):
            if each.watched_since <= until:
                until = max(until, each.left_at or FOR_EVER)
        if until < FOR_EVER:
            return f"nobody watches {key} since {until}"
    return ""


def watched_in_the_end(cells: Cells, acknowledged: frozenset[str]) -> str:
    """One more invocation has the settings that stay."""
    run(cells, act.watching("fresh", PARTS))
    return every_time_is_watched(cells)


def _in_quarantine(cells: Mapping[Cell, Any]) -> bool:
    """Whether an upload of a batch that has ended is in quarantine."""
    claims = items_of(cells, "o#").values()
    owners = {claim["notice"] for claim in claims if claim.get("outcome") == Outcome.QUARANTINED}
    batches = {cells["item", *notice_key(each)]["batch"] for each in owners}
    return any(header(cells, each)["state"] == "COMMITTED" for each in batches)


def quarantine_is_seen(cells: Mapping[Cell, Any]) -> str:
    """While something is in quarantine, its route says since when."""
    since = standing(cells).quarantined_since
    if _in_quarantine(cells) and not since:
        return "something is in quarantine, and the route does not say since when"
    return lands_once(cells)


def oldest_is_certain(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, two looks are enough."""
    run(cells, act.settling("z", LATER), act.looking_for_oldest("y"), act.looking_for_oldest("y"))
    since = standing(cells).quarantined_since
    if bool(since) is not _in_quarantine(cells):
        return f"afterwards something is in quarantine: {_in_quarantine(cells)}; the route says {since}"
    return quarantine_is_seen(cells)


def done_as_said(name: str, wish: Wish) -> EndsWell:
    """Once the faults stop, what the person of this name has said last is done, and no wish is left."""

    def check(cells: Cells, acknowledged: frozenset[str]) -> str:
        run(cells, act.carrying_out("z", BATCH), act.carrying_out("z", BATCH))
        batch, route = header(cells, BATCH), standing(cells)
        if "wish" in batch or route.wished:
            return f"afterwards there is still a wish: {batch.get('wish')}, {route.wished}"
        dropped = DROPPED in [item.get("outcome") for item in items_of(cells).values()]
        sent = any(cell[0] == "sent" for cell in cells)
        if name in acknowledged and not (dropped if wish is Wish.DROP else sent):
            return f"afterwards the upload is not as it was said: {wish}"
        return lands_once(cells)

    return check


def both_go_on(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, the published batch is settled, and the other one is submitted."""
    run(cells, act.settling("z", BATCH), act.handing_off("g"))
    states = [header(cells, batch)["state"] for batch in (BATCH, BEHIND)]
    if states != ["COMMITTED", "SUBMITTED"]:
        return f"afterwards the batches are {states}"
    return lands_once(cells)


def announces_what_is_committed(cells: Mapping[Cell, Any]) -> str:
    """Nothing is announced before it is committed, or under another id."""
    sent = {cell[1] for cell in cells if cell[0] == "event"}
    if sent and header(cells, BATCH)["state"] != "COMMITTED":
        return f"{sorted(sent)} was announced, and the batch is not committed"
    return f"{sorted(sent)} was announced" if sent - {BATCH} else lands_once(cells)


def announced_in_the_end(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, the batch was announced, and nothing waits."""
    run(cells, act.announcing("z", BATCH))
    if ("event", BATCH) not in cells:
        return "afterwards the batch is committed, and was not announced"
    if items_of(cells, OUTBOX):
        return "afterwards something is still to be announced"
    return announces_what_is_committed(cells)


def as_it_was_begun(cells: Mapping[Cell, Any]) -> str:
    """A job of an attempt fences the batch if the ledger says that the attempt is a fence, and only then."""
    for cell, fencing in cells.items():
        if cell[0] != "job":
            continue
        batch = header(cells, cell[1])
        if cell[2] == str(batch["attempt"]) and fencing is not batch.get("fencing", False):
            return f"attempt {cell[2]} of {cell[1]} has another job than the ledger says"
    return lands_once(cells)


def given_up_or_published(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, the batch is handed off, its last job runs, and it ends as the ledger says."""
    run(cells, act.sealing("s2"), act.handing_off("h2"), act.settling("x2", JOINED))
    fencing = header(cells, JOINED).get("fencing", False)
    run(cells, act.driver("fresh", 9, JOINED, fence=fencing), act.settling("y2", JOINED))
    state = header(cells, JOINED)["state"]
    if state != ("ABANDONED" if fencing else "COMMITTED") or bool(cells[TABLE][1]) is fencing:
        return f"the batch is {state}, fencing is {fencing}, in the table is {cells[TABLE][1]}"
    return lands_once(cells)


def decided(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Another attempt ends the batch, and the receipt says what the table says."""
    try:
        run(cells, act.driver("fresh", 9, BATCH))
    except (Hopeless, TidegateError) as error:
        return f"an attempt without faults failed: {error}"
    fenced = not cells[TABLE][1]
    receipt = receipt_of(cells, BATCH)
    if receipt is None or receipt.fence is not fenced:
        return "the receipt and the table contradict each other"
    return lands_once(cells)


def once_in_each_table(cells: Mapping[Cell, Any]) -> str:
    """Of all batches that are sealed for a table, one has the upload, and at most one more, whose job looks whether it
    is there. A batch that gathers it may be open."""
    places: Counter[tuple[str, str]] = Counter()
    looked_for: Counter[tuple[str, str]] = Counter()
    for item in items_of(cells, "n#").values():
        if "batch" in item and header(cells, item["batch"])["state"] != "OPEN":
            table = header(cells, item["batch"])["table"]
            for each in decode_part(cells["object", batch_folder(item["batch"]) + item["part"]]):
                (looked_for if each.again else places)[each.upload.key, table] += 1
    for (key, table), times in (*places.items(), *looked_for.items()):
        if times > 1:
            return f"{key} is in {times} batches for {table}"
    return _route_disagrees(cells) or _counted_wrong(cells)


def moved_once(cells: Mapping[Cell, Any]) -> str:
    """The upload is with its first batch, which never brings it again, and with one more at most."""
    others = [batch for batch, keys in parts_of(cells).values() if batch != BATCH and "b" in keys]
    return f"b is in {len(others)} further batches" if len(others) > 1 else _counted_wrong(cells)


def one_row(cells: Mapping[Cell, Any]) -> str:
    """What is reloaded is there once, at any time."""
    landed = cells[TABLE][1]
    return "" if landed == (act.row_of(B),) else f"{landed} is there"


def one_row_of_the_later_batch(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Each batch has its next attempt. In the end the row is of the one that reloads it."""
    for number, batch in enumerate((BATCH, LATER)):
        try:
            run(cells, act.driver("fresh", 7 + number, batch))
        except TidegateError as error:
            return f"the next attempt at {batch}, without faults, failed: {error}"
    newest = next(each for each in cells[TABLE][0] if each.adds)
    wrong = "" if newest.publishes == {LATER} and newest.removes else f"afterwards the row is of {newest.publishes}"
    return one_row(cells) or wrong


def reloaded(cells: Cells, acknowledged: frozenset[str]) -> str:
    """The route has its new table for good. The upload is in it, or is on its way there; or in a batch for the former
    one, where its job finds it: then the next backfill sends it."""
    for number, each in enumerate((ELSEWHERE, ELSEWHERE_TOO)):
        run(cells, act.delivery(f"fresh{number}-", each, route=MOVED))
    run(cells, act.sealing("fresh-s", MOVED))
    tables = {header(cells, batch).get("table") for batch, keys in parts_of(cells).values() if "b" in keys}
    batches = [batch for batch, keys in parts_of(cells).values() if "b" in keys]
    on_its_way = "lake.u" in tables or len(batches) == 2
    return once_in_each_table(cells) or ("" if on_its_way else f"afterwards b is in {tables}")


def rejected_with_the_batch(cells: Mapping[Cell, Any]) -> str:
    """A row that does not fit lands once, and only if its batch is published. When the batch has ended, there are as
    many of them as its receipt says."""
    landed, bad = cells[TABLE][1], cells[REJECTED][1]
    if len(set(bad)) < len(bad):
        return f"rejected rows are in their table twice: {bad}"
    if bad and not landed:
        return "rejected rows are in their table, and the batch is not in its own"
    receipt = receipt_of(cells, BATCH)
    if receipt and receipt.tally.rejected != len(bad):
        return f"the batch has ended with {receipt.tally.rejected} rejected rows, {len(bad)} are there"
    return lands_once(cells)


def decided_with_rejected(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Another attempt ends the batch, after the settings have changed."""
    return decided(cells, acknowledged) or rejected_with_the_batch(cells)


def one_version(cells: Mapping[Cell, Any]) -> str:
    """The table has no two versions of an object beside each other."""
    landed = cells[TABLE][1]
    return f"beside each other: {landed}" if len(landed) > 1 else ""


def the_latest(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Each batch has its next attempt. In the end its latest version is there."""
    if failed := _attempted_again(cells, replaces=True):
        return failed
    landed = cells[TABLE][1]
    return one_version(cells) or ("" if landed == (act.row_of(act.CORRECTED),) else f"afterwards {landed} is there")


def nothing_is_left(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Each batch has its next attempt. In the end the object that was deleted has no rows."""
    landed = () if (failed := _attempted_again(cells, replaces=True, removes=True)) else cells[TABLE][1]
    return failed or (f"afterwards {landed} is there" if landed else "")


def one_of_the_same_bytes(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Each batch has its next attempt. In the end one of the versions is there."""
    failed = _attempted_again(cells, skips=True)
    return failed or one_version(cells) or ("" if cells[TABLE][1] else "afterwards nothing is there")


def _attempted_again(cells: Cells, *, removes: bool = False, **is_a_route_that: bool) -> str:
    for number, batch in enumerate((BATCH, LATER)):
        deletes = removes and batch == LATER
        try:
            fresh = act.driver("fresh", 7 + number, batch, removes=removes, deletes=deletes, **is_a_route_that)
            run(cells, fresh)
        except TidegateError as error:
            return f"the next attempt at {batch}, without faults, failed: {error}"
    return ""

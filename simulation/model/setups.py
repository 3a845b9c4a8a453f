"""The set-ups that are exhausted: which actors meet, from which state, and what must be true in every state."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulation.model.explore import NOW, RETENTION, Actor, Cell, Cells, Explored, calls, explore, run
from tidegate.core.audit import AuditLimits, Listed, Marker, Window, first_run
from tidegate.core.batches import BatchLimits, Wish
from tidegate.core.errors import TidegateError
from tidegate.core.manifests import OwnedUpload, batch_folder, decode_part, decode_sealed
from tidegate.core.notices import ORIGIN_REMOVED, Entry, Notice, make_notice
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome, Read, Tally
from tidegate.core.publication import Floor, History, NotPublished, Published, Snapshot, Unprovable, down_to, verdict
from tidegate.core.receipts import Ending, Outcomes, Receipt, RejectedRows, decode_outcomes, decode_receipt
from tidegate.core.records import (
    AUDITS,
    OUTBOX,
    batch_key,
    claim_key,
    decode_audit,
    decode_standing,
    notice_key,
    route_key,
)
from tidegate.core.routes import Dataset, Route
from tidegate.core.uploads import Upload
from tidegate.flows.abort import abort
from tidegate.flows.announce import announce
from tidegate.flows.audit import Look, audit_place, audit_window
from tidegate.flows.dispatch import dispatch
from tidegate.flows.hand_off import hand_off_sealed
from tidegate.flows.ports import ListedPage, Ports
from tidegate.flows.publish import Attempt
from tidegate.flows.quarantine_age import look_for_oldest
from tidegate.flows.resend import resend_object
from tidegate.flows.resume import resume
from tidegate.flows.seal import seal, seal_if_due
from tidegate.flows.settle import settle_batch, step_aside_if_due
from tidegate.flows.sink import Hopeless, Staged
from tidegate.flows.watch import watch_places
from tidegate.flows.wishes import carry_out

ROUTE = Route(
    "r",
    "bucket",
    "",
    "",
    Dataset("lake.t", "id bigint", "json"),
    BatchLimits(max_wait=0, in_flight=1, attempts=3, step_aside=0),
)
MOVED = replace(ROUTE, dataset=replace(ROUTE.dataset, table="lake.u"))
"""The same route with another table."""
TABLE: Cell = ("table",)
REJECTED: Cell = ("table of rejected rows",)
EMPTY = History("uuid", (Snapshot(1, None),))


def upload(key: str, sequencer: str = "01") -> Upload:
    return Upload("bucket", key, "etag:1", 1, sequencer)


def notice(*uploads: Upload, origin: str = "s3", takes_from: str = "") -> Notice:
    return make_notice("r", "bucket", origin, [Entry(each, takes_from) for each in uploads])


A, B, C, B_AGAIN = upload("a"), upload("b"), upload("c"), upload("b", "02")
OTHER_FIRST = notice(A, B, origin="other")
FIRST, SECOND, THIRD, FOURTH, AGAIN = notice(A, B), notice(B), notice(B, C), notice(C), notice(B_AGAIN)
ELSEWHERE = notice(B, origin="backfill-1", takes_from=SECOND.id)
ELSEWHERE_TOO = notice(B, origin="backfill-2", takes_from=SECOND.id)
DELETED = notice(B, origin=f"{ORIGIN_REMOVED}-1", takes_from=SECOND.id)
"""What backfills send of an upload that has landed by `SECOND`."""


LIMITS = AuditLimits(min_age=0, max_age=RETENTION - 1, every=1, horizon=RETENTION - 1)
PARTS = (replace(ROUTE, prefix="b"), replace(ROUTE, name="s", prefix="c"))
"""The route was split, and one of the parts has its name."""

# ---- actors


def delivery(name: str, of: Notice, *, backwards: bool = False, route: Route = ROUTE) -> Actor:
    """Dispatch, given this notice."""
    return Actor(name, lambda ports: dispatch(of.encode(), ports, routes={"r": route}), backwards)


def resending(name: str, of: Upload) -> Actor:
    """A person sends an upload that did not land again, in a command of their own."""
    return Actor(name, lambda ports: resend_object(of.bucket, of.key, ports, run=name))


def delivery_of_what_was_sent(name: str, number: int = 0) -> Actor:
    return Actor(name, lambda ports: dispatch(calls(ports)("the_sent", number).encode(), ports, routes={"r": ROUTE}))


def sealing(name: str, route: Route = ROUTE) -> Actor:
    return Actor(name, lambda ports: seal_if_due(route, ports, next_look=0))


def sending_what_was_deleted(name: str) -> Actor:
    """A backfill has found that the rows of the batch are gone, that its floors have left the history, and so that no
    driver can bring them."""

    def send(ports: Ports) -> None:
        if ports.ledger.note_removed(BATCH):
            ports.topic.publish([DELETED])

    return Actor(name, send)


def handing_off(name: str) -> Actor:
    return Actor(name, lambda ports: hand_off_sealed(ROUTE, ports))


def aborting(name: str, batch_id: str) -> Actor:
    """A person gives the batch up."""
    return Actor(name, lambda ports: abort(batch_id, ports))


def wishing(name: str, batch_id: str, wish: Wish) -> Actor:
    """A person says what becomes of the batch's uploads."""
    return Actor(name, lambda ports: abort(batch_id, ports, wish))


def carrying_out(name: str, batch_id: str) -> Actor:
    """Settling has found the batch among those with a wish."""
    return Actor(name, lambda ports: carry_out(batch_id, "r", ports))


def audit(name: str, uploads: Sequence[Upload]) -> Actor:
    """A run of the audit, as a person begins it: `tidegate.flows.audit.audit_window` over one page, which lists these
    uploads. `min_age` is 0, so nothing waits: the notices that it voids may be on their way."""

    def look(ports: Ports) -> None:
        window = Window(since=NOW - 1, until=NOW, min_age=0, horizon=RETENTION - 1)
        audit_window(ROUTE, Look(name, window), replace(ports, listing=_Bucket(uploads)), pace=lambda sent: None)

    return Actor(name, look)


def audit_on_schedule(name: str, uploads: Sequence[Upload]) -> Actor:
    """An invocation of the scheduled audit. It goes on with the run on record, or begins one if that has ended."""

    def look(ports: Ports) -> None:
        there = replace(ports, listing=_Bucket(uploads))
        for each in watch_places([ROUTE], LIMITS, there):
            audit_place(each, [ROUTE], LIMITS, there, go_on=lambda: True, pace=lambda sent: None, screens=_NoJobs())

    return Actor(name, look)


def watching(name: str, routes: Sequence[Route]) -> Actor:
    """What an invocation of the scheduled audit does first, if these are the routes."""
    return Actor(name, lambda ports: watch_places(routes, LIMITS, ports))


class _NoJobs:
    """The route's uploads are listed, and no job is asked for."""

    def start(self, run: str, route: Route, source: str, window: Window) -> str:
        raise AssertionError("a job is started")

    def log_of(self, job_run: str) -> str:
        raise AssertionError("a job has failed")


@dataclass(frozen=True)
class _Bucket:
    """What is in the bucket does not change, so that to list it is no step."""

    uploads: Sequence[Upload]

    def page(self, bucket: str, prefix: str, after: Marker, owner: str) -> ListedPage:
        return ListedPage(tuple(Listed(each, NOW) for each in self.uploads), None)


def settling(name: str, batch_id: str) -> Actor:
    """One look at a submitted batch whose receipt is there."""

    def look(ports: Ports) -> None:
        batch = ports.ledger.batch(batch_id)
        if batch is not None and batch.state == "SUBMITTED":
            settle_batch(ROUTE, replace(batch, job_run=""), ports)

    return Actor(name, look)


def announcing(name: str, batch_id: str) -> Actor:
    """One run of settling in a deployment with a bus: a look at the batch, then what waits is announced."""

    def look(ports: Ports) -> None:
        settling(name, batch_id).run(ports)
        announce(ports)

    return Actor(name, look, announces=True)


def settling_slowly(name: str, batch_id: str) -> Actor:
    """Settling has read the fence's receipt before the batch was abandoned, and writes the endings only now."""

    def write(ports: Ports) -> None:
        folder = batch_folder(batch_id)
        (part,) = [name for name in ports.work.names(folder + "parts/")]
        body = ports.work.get(part)
        found = decode_part(body) if body else []
        ports.ledger.record_endings([Ending(each.notice, *each.upload.identity, ABANDONED, "") for each in found])

    return Actor(name, write)


def looking_for_oldest(name: str) -> Actor:
    """Settling has found that the record of the route may be behind."""
    return Actor(name, lambda ports: look_for_oldest("r", ports))


def stepping_aside(name: str, batch_id: str) -> Actor:
    """Settling has found the batch halted for long."""

    def look(ports: Ports) -> None:
        batch = ports.ledger.batch(batch_id)
        if batch is not None:
            step_aside_if_due(ROUTE, batch, ports)

    return Actor(name, look)


def resuming(name: str, batch_id: str) -> Actor:
    """A person has the batch tried once more."""
    return Actor(name, lambda ports: resume(batch_id, ports))


@dataclass
class ModelSink:
    """`flows.sink.Sink` on one cell: a table whose commit is one step. With `sets_aside` each upload has one row that
    fits, and one that does not."""

    ports: Ports
    batch: str
    driver: int
    sets_aside: bool = False
    table: str = "the table"
    cell: Cell = TABLE

    @property
    def exists(self) -> bool:
        return True

    def prepare(self) -> None: ...

    def create_if_absent(self) -> None: ...

    def tidy(self) -> None: ...

    def _read(self) -> Any:
        return calls(self.ports)("cell", self.cell)

    def position(self) -> Floor:
        line, _ = self._read()
        return Floor("uuid", line[0].id)

    def history(self, floor: Floor) -> History:
        line, _ = self._read()
        return History("uuid", down_to(floor, line))

    def stage(self, items: Sequence[OwnedUpload], *, careful: bool = False) -> Staged:
        rows = tuple(each.upload.key for each in items)
        self._stage(self.driver, rows)
        bad = self.stage_rejected(items, "rejected") if self.sets_aside else None
        read = Read(Outcome.COMMITTED, 1, rejected=int(self.sets_aside))
        return Staged(self.driver, len(rows), dict.fromkeys(range(len(rows)), read), bad)

    def stage_nothing(self) -> int:
        self._stage(self.driver, ())
        return self.driver

    def rejected(self, table: str) -> "ModelSink":
        return replace(self, table=table, cell=REJECTED)

    def stage_rejected(self, items: Sequence[OwnedUpload], table: str) -> RejectedRows:
        number, rows = self.driver + 100, tuple(f"bad row of {each.upload.key}" for each in items)
        self._stage(number, rows)
        return RejectedRows(table, "uuid", number, len(rows))

    def _stage(self, number: int, rows: tuple[str, ...]) -> None:
        calls(self.ports)("change", ("staged", str(number)), lambda _: rows)

    def publish(self, staged: int, floor: Floor) -> Published | Unprovable:
        rows = calls(self.ports)("cell", ("staged", str(staged)))
        number = self.driver * 10

        def commit(table: Any) -> Any:
            line, landed = table
            told = verdict(History("uuid", down_to(floor, line)), self.batch, floor)
            if not isinstance(told, NotPublished):
                return table
            return (Snapshot(number, line[0].id, frozenset({self.batch}), staged), *line), (*landed, *rows)

        before = calls(self.ports)("change", self.cell, commit)
        told = verdict(History("uuid", down_to(floor, before[0])), self.batch, floor)
        return Published(number, staged) if isinstance(told, NotPublished) else told


def driver(name: str, number: int, batch: str, *, fence: bool = False, sets_aside: bool = False) -> Actor:
    def attempt(ports: Ports) -> None:
        made = Attempt(ModelSink(ports, batch, number, sets_aside), ports.work, batch, number)
        if fence:
            made.fence()
        else:
            made.ingest()

    return Actor(name, attempt)


# ---- what must be true


def parts_of(cells: Mapping[Cell, Any]) -> dict[str, tuple[str, list[str]]]:
    """The batch and the keys of each registered notice, but for those of fenced batches: they land nowhere."""
    found = {}
    for cell, item in cells.items():
        if cell[0] != "item" or not cell[1].startswith("n#") or "batch" not in item:
            continue
        receipt = cells.get(("object", batch_folder(item["batch"]) + "receipt.json"))
        if receipt and decode_receipt(receipt).fence:
            continue
        body = cells[("object", batch_folder(item["batch"]) + item["part"])]
        found[cell[1][2:]] = item["batch"], [each.upload.key for each in decode_part(body)]
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
    for cell, item in cells.items():
        if cell[0] == "item" and cell[1].startswith("o#") and item["notice"] in registered:
            keys = registered[item["notice"]][1]
            if cell not in [("item", *claim_key("bucket", key, "etag:1")) for key in keys]:
                return f"a claim of notice {item['notice'][:6]} is on no upload of its part"
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
    items = {cell[1:]: item for cell, item in cells.items() if cell[0] == "item"}
    batches = {pk[2:]: item for (pk, _), item in items.items() if pk.startswith("b#")}
    route = decode_standing("r", items.get(route_key("r")))
    said = {"OPEN": {route.open_batch} - {""}, "SEALED": set(route.sealed), "SUBMITTED": set(route.submitted)}
    for state, listed in said.items():
        there = {batch for batch, header in batches.items() if header["state"] == state}
        if there != listed:
            return f"{sorted(there)} are {state}, and the route lists {sorted(listed)}"
    ended = sum(header["state"] not in said for header in batches.values())
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
    for batch, header in batches.items():
        if inside[batch] != header["notices"]:
            return f"batch {batch} counts {header['notices']} notices, and {inside[batch]} are in it"
    return ""


def _counted_wrong(cells: Mapping[Cell, Any]) -> str:
    """Each upload that was ever registered is in its route's sums once, however often it came back."""
    items = {cell[1:]: item for cell, item in cells.items() if cell[0] == "item"}
    route = decode_standing("r", items.get(route_key("r")))
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


EndsWell = Callable[[Cells, frozenset[str]], str]


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
            fresh = [delivery(f"fresh{number}-{len(cells)}-", each) for number, each in enumerate(waiting)]
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
    watches = [decode_audit(item) for cell, item in cells.items() if cell[0] == "item" and cell[1] == AUDITS]
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
    run(cells, watching("fresh", PARTS))
    return every_time_is_watched(cells)


# ---- set-ups


@dataclass(frozen=True)
class Setup:
    """`large` ones take minutes: `make model` exhausts them."""

    name: str
    says: str
    actors: tuple[Actor, ...]
    begins: Callable[[], Cells] = dict
    safe: Callable[[Mapping[Cell, Any]], str] = lands_once
    ends_well: EndsWell = lambda cells, acknowledged: ""
    large: bool = False

    def explore(self, at_most: int = 1_000_000) -> Explored:
        return explore(self.begins(), self.actors, safe=self.safe, ends_well=self.ends_well, at_most=at_most)


BATCH = "B-d1"
"""The batch that `handed_off` opens."""


def handed_off() -> Cells:
    """A notice of `b` was registered, and its batch handed off."""
    cells: Cells = {}
    run(cells, delivery("d", SECOND))
    run(cells, sealing("s"))
    run(cells, handing_off("h"))
    return cells


def published(tally: Tally, *endings: Ending, fence: bool = False) -> Callable[[], Cells]:
    """The same, and its job has left a receipt."""

    def begins() -> Cells:
        cells = handed_off()
        digest = decode_sealed(cells["object", batch_folder(BATCH) + "sealed.json"]).digest
        outcomes = Outcomes(7, fence, tally, endings, digest)
        cells["object", f"{batch_folder(BATCH)}outcomes/7.jsonl.gz"] = outcomes.encode()
        receipt = Receipt(BATCH, 8, 7, fence, tally, "" if fence else digest)
        cells["object", batch_folder(BATCH) + "receipt.json"] = receipt.encode()
        return cells

    return begins


def quarantined() -> Cells:
    """The same, and it is recorded that the upload did not land."""
    cells = published(Tally(quarantined=1), BROKEN_FILE)()
    run(cells, settling("q", BATCH))
    return cells


LATER = "B-t1"
"""The batch that `came_back` opens."""


def came_back() -> Cells:
    """The upload was resent, and its new batch is published. It has another upload, which did not land. Nobody has
    looked at what is in quarantine."""
    cells = quarantined()
    for actor in (resending("k", B), delivery_of_what_was_sent("t"), delivery("u", FOURTH), sealing("s")):
        run(cells, actor)
    run(cells, handing_off("h"))
    tally = Tally(committed=1, quarantined=1, rows=1)
    ending = Ending(FOURTH.id, "bucket", "c", "etag:1", Outcome.QUARANTINED, "no JSON")
    digest = decode_sealed(cells["object", batch_folder(LATER) + "sealed.json"]).digest
    cells["object", f"{batch_folder(LATER)}outcomes/9.jsonl.gz"] = Outcomes(9, False, tally, (ending,), digest).encode()
    cells["object", batch_folder(LATER) + "receipt.json"] = Receipt(LATER, 10, 9, False, tally, digest).encode()
    return cells


def _in_quarantine(cells: Mapping[Cell, Any]) -> bool:
    """Whether an upload of a batch that has ended is in quarantine."""
    quarantined = {
        item["notice"]
        for cell, item in cells.items()
        if cell[:1] == ("item",) and cell[1].startswith("o#") and item.get("outcome") == Outcome.QUARANTINED
    }
    batches = {cells["item", *notice_key(each)]["batch"] for each in quarantined}
    return any(cells["item", *batch_key(each)]["state"] == "COMMITTED" for each in batches)


def quarantine_is_seen(cells: Mapping[Cell, Any]) -> str:
    """While something is in quarantine, its route says since when."""
    since = decode_standing("r", cells["item", *route_key("r")]).quarantined_since
    if _in_quarantine(cells) and not since:
        return "something is in quarantine, and the route does not say since when"
    return lands_once(cells)


def oldest_is_certain(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, two looks are enough."""
    for actor in (settling("z", LATER), looking_for_oldest("y"), looking_for_oldest("y")):
        run(cells, actor)
    since = decode_standing("r", cells["item", *route_key("r")]).quarantined_since
    if bool(since) is not _in_quarantine(cells):
        return f"afterwards something is in quarantine: {_in_quarantine(cells)}; the route says {since}"
    return quarantine_is_seen(cells)


def abandoned() -> Cells:
    """The same, and it is recorded that the batch is fenced."""
    cells = published(Tally(), fence=True)()
    run(cells, settling("q", BATCH))
    return cells


def to_be_dropped() -> Cells:
    """The same, and a person has given the upload up."""
    cells = abandoned()
    run(cells, wishing("w", BATCH, Wish.DROP))
    return cells


def listed_in_vain() -> Cells:
    """The same, and the batch's record was put right meanwhile: it has lost the wish."""
    cells = to_be_dropped()
    header = cells["item", *batch_key(BATCH)]
    cells["item", *batch_key(BATCH)] = {name: each for name, each in header.items() if name != "wish"}
    return cells


def done_as_said(name: str, wish: Wish) -> EndsWell:
    """Once the faults stop, what the person of this name has said last is done, and no wish is left."""

    def check(cells: Cells, acknowledged: frozenset[str]) -> str:
        for each in "zz":
            run(cells, carrying_out(each, BATCH))
        header, route = cells["item", *batch_key(BATCH)], decode_standing("r", cells["item", *route_key("r")])
        if "wish" in header or route.wished:
            return f"afterwards there is still a wish: {header.get('wish')}, {route.wished}"
        dropped = DROPPED in [item.get("outcome") for cell, item in cells.items() if cell[0] == "item"]
        sent = any(cell[0] == "sent" for cell in cells)
        if name in acknowledged and not (dropped if wish is Wish.DROP else sent):
            return f"afterwards the upload is not as it was said: {wish}"
        return lands_once(cells)

    return check


def with_table() -> Cells:
    """The same, before its job has begun."""
    return {**handed_off(), TABLE: (EMPTY.ancestors, ())}


BEHIND = "B-c1"
"""The batch that `halted_before_another` seals."""


def halted_before_another() -> Cells:
    """A batch is halted, and a zombie has published it all the same. Another one waits for its slot."""
    cells = published(Tally(committed=1, rows=1))()
    run(cells, Actor("k", lambda ports: ports.ledger.halt(BATCH, 1, "no reason")))
    run(cells, delivery("c", FOURTH))
    run(cells, Actor("s", lambda ports: seal(ROUTE, BEHIND, ports)))
    return cells


def both_go_on(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, the published batch is settled, and the other one is submitted."""
    run(cells, settling("z", BATCH))
    run(cells, handing_off("g"))
    states = [cells["item", *batch_key(batch)]["state"] for batch in (BATCH, BEHIND)]
    if states != ["COMMITTED", "SUBMITTED"]:
        return f"afterwards the batches are {states}"
    return lands_once(cells)


def announces_what_is_committed(cells: Mapping[Cell, Any]) -> str:
    """Nothing is announced before it is committed, or under another id."""
    sent = {cell[1] for cell in cells if cell[0] == "event"}
    if sent and cells["item", *batch_key(BATCH)]["state"] != "COMMITTED":
        return f"{sorted(sent)} was announced, and the batch is not committed"
    return f"{sorted(sent)} was announced" if sent - {BATCH} else lands_once(cells)


def announced_in_the_end(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, the batch was announced, and nothing waits."""
    run(cells, announcing("z", BATCH))
    if ("event", BATCH) not in cells:
        return "afterwards the batch is committed, and was not announced"
    if any(cell[:2] == ("item", OUTBOX) for cell in cells):
        return "afterwards something is still to be announced"
    return announces_what_is_committed(cells)


def as_it_was_begun(cells: Mapping[Cell, Any]) -> str:
    """A job of an attempt fences the batch if the ledger says that the attempt is a fence, and only then."""
    for cell, fencing in cells.items():
        if cell[0] != "job":
            continue
        header = cells["item", *batch_key(cell[1])]
        if cell[2] == str(header["attempt"]) and fencing is not header.get("fencing", False):
            return f"attempt {cell[2]} of {cell[1]} has another job than the ledger says"
    return lands_once(cells)


def given_up_or_published(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Once the faults stop, the batch is handed off, its last job runs, and it ends as the ledger says."""
    batch_id = JOINED
    for actor in (sealing("s2"), handing_off("h2"), settling("x2", batch_id)):
        run(cells, actor)
    fencing = cells["item", *batch_key(batch_id)].get("fencing", False)
    run(cells, driver("fresh", 9, batch_id, fence=fencing))
    run(cells, settling("y2", batch_id))
    state = cells["item", *batch_key(batch_id)]["state"]
    if state != ("ABANDONED" if fencing else "COMMITTED") or bool(cells[TABLE][1]) is fencing:
        return f"the batch is {state}, fencing is {fencing}, in the table is {cells[TABLE][1]}"
    return lands_once(cells)


def decided(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Another attempt ends the batch, and the receipt says what the table says."""
    try:
        run(cells, driver("fresh", 9, BATCH))
    except (Hopeless, TidegateError) as error:
        return f"an attempt without faults failed: {error}"
    fenced = not cells[TABLE][1]
    receipt = decode_receipt(cells["object", batch_folder(BATCH) + "receipt.json"])
    if receipt.fence is not fenced:
        return "the receipt and the table contradict each other"
    return lands_once(cells)


BROKEN_FILE = Ending(SECOND.id, "bucket", "b", "etag:1", Outcome.QUARANTINED, "no JSON")


def landed() -> Cells:
    """The notice of `b` is committed, in the table `lake.t`."""
    cells = published(Tally(committed=1, rows=1))()
    run(cells, settling("q", BATCH))
    return cells


def once_in_each_table(cells: Mapping[Cell, Any]) -> str:
    """Of all batches that are sealed for a table, one has the upload. A batch that gathers it may be open."""
    places: Counter[tuple[str, str]] = Counter()
    for batch, keys in parts_of(cells).values():
        header = cells["item", *batch_key(batch)]
        if header["state"] != "OPEN":
            places.update((key, header["table"]) for key in keys)
    for (key, table), times in places.items():
        if times > 1:
            return f"{key} is in {times} batches for {table}"
    return _route_disagrees(cells) or _counted_wrong(cells)


def moved_once(cells: Mapping[Cell, Any]) -> str:
    """The upload is with its first batch, which never brings it again, and with one more at most."""
    others = [batch for batch, keys in parts_of(cells).values() if batch != BATCH and "b" in keys]
    return f"b is in {len(others)} further batches" if len(others) > 1 else _counted_wrong(cells)


def reloaded(cells: Cells, acknowledged: frozenset[str]) -> str:
    """The route has its new table for good. The upload is in it, or is on its way there."""
    for number, each in enumerate((ELSEWHERE, ELSEWHERE_TOO)):
        run(cells, delivery(f"fresh{number}-", each, route=MOVED))
    run(cells, sealing("fresh-s", MOVED))
    tables = {cells["item", *batch_key(batch)].get("table") for batch, keys in parts_of(cells).values() if "b" in keys}
    return once_in_each_table(cells) or ("" if tables == {"lake.t", "lake.u"} else f"afterwards b is in {tables}")


TWINS = (delivery("d", FIRST), delivery("e", FIRST, backwards=True), delivery("f", SECOND))
VOIDED = (delivery("d", SECOND), delivery("e", SECOND), audit("v", (B,)), delivery_of_what_was_sent("t"))
REPEATED = (settling("x", BATCH), settling("y", BATCH), delivery("e", AGAIN), delivery_of_what_was_sent("t"))
SENT_TWICE = (delivery_of_what_was_sent("t"), delivery_of_what_was_sent("u", 1))


def rejected_with_the_batch(cells: Mapping[Cell, Any]) -> str:
    """A row that does not fit lands once, and only if its batch is published. When the batch has ended, there are as
    many of them as its receipt says."""
    landed, bad = cells[TABLE][1], cells[REJECTED][1]
    if len(set(bad)) < len(bad):
        return f"rejected rows are in their table twice: {bad}"
    if bad and not landed:
        return "rejected rows are in their table, and the batch is not in its own"
    receipt = cells.get(("object", batch_folder(BATCH) + "receipt.json"))
    if receipt and decode_receipt(receipt).tally.rejected != len(bad):
        return f"the batch has ended with {decode_receipt(receipt).tally.rejected} rejected rows, {len(bad)} are there"
    return lands_once(cells)


def decided_with_rejected(cells: Cells, acknowledged: frozenset[str]) -> str:
    """Another attempt ends the batch, after the settings have changed."""
    return decided(cells, acknowledged) or rejected_with_the_batch(cells)


def with_both_tables() -> Cells:
    """The same, and the table of rejected rows is there."""
    return {**with_table(), REJECTED: (EMPTY.ancestors, ())}


DRIVERS = (driver("d", 1, BATCH), driver("e", 2, BATCH))
SETTING_ASIDE = (driver("d", 1, BATCH, sets_aside=True), driver("e", 2, BATCH, sets_aside=True))
FENCE = driver("f", 3, BATCH, fence=True)


def claimed() -> Cells:
    """Somebody has claimed `b` for a notice, and died."""
    cells: Cells = {}
    run(cells, Actor("x", lambda ports: ports.ledger.claim(SECOND)))
    return cells


def claimed_and_watched() -> Cells:
    """The same. Its message is gone, and an earlier audit of the bucket has ended."""
    return {**claimed(), **watched()}


BEFORE, FOR_EVER = NOW - 9, NOW + RETENTION


def watched() -> Cells:
    """The route's place is watched."""
    cells: Cells = {}
    begun = first_run(ROUTE.place, None, LIMITS, run_id="first", now=BEFORE)
    run(cells, Actor("b", lambda ports: ports.ledger.begin_watch(begun)))
    return cells


def joined() -> Cells:
    """A notice has joined a batch."""
    cells: Cells = {}
    run(cells, delivery("x", SECOND))
    return cells


JOINED = "B-x1"
"""The batch that `joined` opens."""


def joined_with_table() -> Cells:
    """The same, and the table is there."""
    return {**joined(), TABLE: (EMPTY.ancestors, ())}


SETUPS = (
    Setup(
        "twins",
        "two deliveries of one notice, and one of a notice that has an upload of it",
        TWINS,
        ends_well=every_upload_joins((A, B), {"de": FIRST, "f": SECOND}),
    ),
    Setup(
        "crossed",
        "two notices have the same two uploads, and claim them in opposite orders",
        (delivery("d", FIRST), delivery("e", OTHER_FIRST, backwards=True)),
        ends_well=every_upload_joins((A, B), {"d": FIRST, "e": OTHER_FIRST}),
    ),
    Setup(
        "voided",
        "a notice is voided at any moment of its twins, and another one takes its upload over",
        VOIDED,
        ends_well=every_upload_joins((B,), {"de": SECOND}, "t", [audit("w", (B,))]),
    ),
    Setup(
        "voided, shared",
        "the owner of an upload is voided while twins of a notice come that has it, too",
        (delivery("e", THIRD), delivery("f", THIRD), audit("v", (B,))),
        claimed,
        ends_well=every_upload_joins((B, C), {"x": SECOND, "ef": THIRD}, "t", [audit("w", (B, C))]),
    ),
    Setup(
        "audited by two",
        "two invocations of the scheduled audit find what a notice has claimed that is gone",
        (audit_on_schedule("v", (B, C)), audit_on_schedule("w", (B, C)), delivery_of_what_was_sent("t")),
        claimed_and_watched,
        # a run that has ended looks at nothing again: what it has found is sent
        ends_well=every_upload_joins((B, C), {}, also=[audit_on_schedule("z", (B, C))]),
    ),
    Setup(
        "split",
        "three invocations of the scheduled audit find that a route was split",
        (watching("v", PARTS), watching("w", PARTS), watching("x", PARTS)),
        watched,
        safe=every_time_is_watched,
    ),
    Setup(
        "split, and not yet everywhere",
        "invocations of the scheduled audit have the settings from before and after a route was split",
        (watching("v", PARTS), watching("w", PARTS), watching("x", [ROUTE])),
        watched,
        ends_well=watched_in_the_end,
    ),
    Setup(
        "uploaded again",
        "the same bytes come again while it is recorded, twice at once, that they did not land",
        REPEATED,
        published(Tally(quarantined=1), BROKEN_FILE),
        ends_well=every_upload_joins((B,), {"e": AGAIN}, "t", [settling("z", BATCH)]),
    ),
    Setup(
        "given up",
        "the same bytes come again while their batch is recorded as fenced",
        REPEATED,
        published(Tally(), fence=True),
        ends_well=every_upload_joins((B,), {"e": AGAIN}, "t", [settling("z", BATCH)]),
    ),
    Setup(
        "released",
        "two people resend what is in quarantine",
        (resending("x", B), resending("y", B), *SENT_TWICE),
        quarantined,
        ends_well=every_upload_joins((B,), {}, also=[resending("z", B)]),
    ),
    Setup(
        "oldest in quarantine",
        "two runs of settling look for the oldest upload in quarantine while another one gets there",
        (looking_for_oldest("v"), looking_for_oldest("w"), settling("x", LATER)),
        came_back,
        safe=quarantine_is_seen,
        ends_well=oldest_is_certain,
    ),
    Setup(
        "resent",
        "an upload of an abandoned batch is resent, and its bytes come again",
        (resending("x", B), delivery("e", AGAIN), *SENT_TWICE),
        abandoned,
        ends_well=every_upload_joins((B,), {"e": AGAIN}, also=[resending("z", B)]),
    ),
    Setup(
        "dropped",
        "an upload is dropped while a person resends it",
        (carrying_out("v", BATCH), resending("x", B), delivery_of_what_was_sent("t")),
        to_be_dropped,
        ends_well=every_upload_joins((), {}, "t"),
    ),
    Setup(
        "dropped twice",
        "two runs of settling drop an upload",
        (carrying_out("v", BATCH), carrying_out("w", BATCH)),
        to_be_dropped,
        ends_well=done_as_said("v", Wish.DROP),
    ),
    Setup(
        "dropped, and uploaded again",
        "an upload is dropped while its bytes come again, and a slow run of settling records that its batch is fenced",
        (carrying_out("v", BATCH), settling_slowly("x", BATCH), delivery("e", AGAIN), delivery_of_what_was_sent("t")),
        to_be_dropped,
        ends_well=every_upload_joins((B,), {"e": AGAIN}, "t"),
    ),
    Setup(
        "wished",
        "a person wants an upload resent after all, while it is dropped",
        (wishing("q", BATCH, Wish.RESEND), carrying_out("v", BATCH), carrying_out("w", BATCH)),
        to_be_dropped,
        ends_well=done_as_said("q", Wish.RESEND),
    ),
    Setup(
        "wished in vain",
        "a batch has lost its wish while settling looks at it, and a person asks again",
        (wishing("p", BATCH, Wish.DROP), carrying_out("v", BATCH), carrying_out("w", BATCH)),
        listed_in_vain,
        ends_well=done_as_said("p", Wish.DROP),
    ),
    Setup(
        "landed elsewhere",
        "two backfills send what is in the former table of its route, which gets that table back meanwhile",
        (
            delivery("e", ELSEWHERE, route=MOVED),
            delivery("f", ELSEWHERE_TOO, route=MOVED),
            delivery("g", ELSEWHERE),
            sealing("s"),
            sealing("t", MOVED),
        ),
        landed,
        safe=once_in_each_table,
        ends_well=reloaded,
    ),
    Setup(
        "deleted",
        "a backfill and a person send what is gone from the table",
        (sending_what_was_deleted("p"), sending_what_was_deleted("q"), *SENT_TWICE),
        landed,
        safe=moved_once,
    ),
    Setup(
        "on its way",
        "the same bytes come again while the first notice is on its way",
        (delivery("d", SECOND), delivery("e", AGAIN), delivery_of_what_was_sent("t")),
        ends_well=every_upload_joins((B,), {"d": SECOND, "e": AGAIN}, "t"),
    ),
    Setup(
        "sealed",
        "a batch is sealed and handed off while one more notice joins",
        (delivery("d", FOURTH), sealing("s"), handing_off("h")),
        joined,
        ends_well=every_upload_joins((B, C), {"d": FOURTH}),
    ),
    Setup(
        "handed off",
        "a batch is handed off twice at once",
        (sealing("s"), handing_off("h"), handing_off("i")),
        joined,
    ),
    Setup(
        "given up early",
        "a person gives up an open batch while it is sealed and handed off",
        (aborting("p", JOINED), sealing("s"), handing_off("h")),
        joined_with_table,
        safe=as_it_was_begun,
        ends_well=given_up_or_published,
    ),
    Setup(
        "given up by two",
        "two people give up an open batch while settling looks at it",
        (aborting("p", JOINED), aborting("q", JOINED), settling("x", JOINED)),
        joined_with_table,
        safe=as_it_was_begun,
        ends_well=given_up_or_published,
    ),
    Setup(
        "aside",
        "a halted batch steps aside and is resumed while a zombie's receipt is settled, and another batch handed off",
        (
            stepping_aside("v", BATCH),
            resuming("p", BATCH),
            settling("x", BATCH),
            handing_off("h"),
        ),
        halted_before_another,
        ends_well=both_go_on,
    ),
    Setup(
        "announced",
        "a published batch is settled and announced, twice at once",
        (announcing("x", BATCH), announcing("y", BATCH)),
        published(Tally(committed=1, rows=1)),
        safe=announces_what_is_committed,
        ends_well=announced_in_the_end,
    ),
    Setup("drivers", "two drivers of a batch meet at the table", DRIVERS, with_table, ends_well=decided),
    Setup(
        "rejected",
        "two drivers of a batch with rows that do not fit meet at its two tables",
        SETTING_ASIDE,
        with_both_tables,
        safe=rejected_with_the_batch,
        ends_well=decided_with_rejected,
    ),
    Setup(
        "rejected, fenced",
        "a driver of a batch with rows that do not fit and a fence meet at its two tables",
        (SETTING_ASIDE[0], FENCE),
        with_both_tables,
        safe=rejected_with_the_batch,
        ends_well=decided_with_rejected,
    ),
    Setup("fenced", "a driver and a fence meet at the table", (DRIVERS[0], FENCE), with_table, ends_well=decided),
    # ---- minutes
    Setup(
        "twins, sealed",
        "twins, a notice that shares an upload, and sealing",
        (*TWINS, sealing("s")),
        ends_well=every_upload_joins((A, B), {"de": FIRST, "f": SECOND}),
        large=True,
    ),
    Setup(
        "sealed, twice",
        "a batch is sealed and handed off, twice at once, while one more notice joins",
        (delivery("d", FOURTH), sealing("s"), handing_off("h"), handing_off("i")),
        joined,
        ends_well=every_upload_joins((B, C), {"d": FOURTH}),
        large=True,
    ),
    Setup(
        "voided, shared, sent",
        "the owner of an upload is voided while twins of a notice come that has it, and so does what is sent",
        (delivery("e", THIRD), delivery("f", THIRD), audit("v", (B,)), delivery_of_what_was_sent("t")),
        claimed,
        ends_well=every_upload_joins((B, C), {"x": SECOND, "ef": THIRD}, "t", [audit("w", (B, C))]),
        large=True,
    ),
    Setup(
        "voided, twice",
        "a notice is voided at any moment, and what is sent is delivered twice",
        (VOIDED[0], *VOIDED[2:], delivery_of_what_was_sent("u")),
        ends_well=every_upload_joins((B,), {"d": SECOND}, "tu", [audit("w", (B,))]),
        large=True,
    ),
    Setup(
        "drivers and a fence",
        "two drivers of a batch and a fence meet at the table",
        (*DRIVERS, FENCE),
        with_table,
        ends_well=decided,
        large=True,
    ),
)

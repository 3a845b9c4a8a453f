"""The uploads, notices and actors of the model: who takes steps, and on what."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulation.model.explore import NOW, RETENTION, Actor, Cell, calls
from tidegate.core.audit import AuditLimits, Listed, Marker, Window
from tidegate.core.batches import BatchLimits, Wish
from tidegate.core.manifests import OwnedUpload, batch_folder, decode_part
from tidegate.core.notices import Entry, Notice, make_notice
from tidegate.core.outcomes import ABANDONED, Outcome, Read
from tidegate.core.publication import Floor, History, NotPublished, Published, Snapshot, Unprovable, down_to, verdict
from tidegate.core.receipts import Ending, RejectedRows
from tidegate.core.replacing import HeldRows, RowsPlace
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
from tidegate.flows.seal import seal_if_due
from tidegate.flows.settle import settle_batch, step_aside_if_due
from tidegate.flows.sink import SeenVersion, Staged, StagedIsGone, TableMoved, require_seen
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


CORRECTED = Upload("bucket", "b", "etag:2", 1, "02")
"""A later version of `b`."""
MARKED: Cell = ("s3", "marked as deleted")
"""Whether the object of `CORRECTED` is deleted, whose marker that is then."""
A, B, C, B_AGAIN = upload("a"), upload("b"), upload("c"), upload("b", "02")
OTHER_FIRST = notice(A, B, origin="other")
FIRST, SECOND, THIRD, FOURTH, AGAIN = notice(A, B), notice(B), notice(B, C), notice(C), notice(B_AGAIN)
RELOADED = notice(B, origin="reload-1", takes_from=SECOND.id)
RELOADED_TOO = notice(B, origin="reload-2", takes_from=SECOND.id)
"""What two people reload, which has landed by `SECOND`."""
ELSEWHERE = notice(B, origin="backfill-1", takes_from=SECOND.id)
ELSEWHERE_TOO = notice(B, origin="backfill-2", takes_from=SECOND.id)
DELETED = notice(B, origin="backfill-3", takes_from=SECOND.id)
"""What backfills send of an upload that has landed by `SECOND`."""
BATCH, JOINED, LATER, BEHIND = "B-d1", "B-x1", "B-t1", "B-c1"
"""The batches that the deliveries `d`, `x`, `t` and `c` open."""
LIMITS = AuditLimits(min_age=0, max_age=RETENTION - 1, every=1, horizon=RETENTION - 1)
PARTS = (replace(ROUTE, prefix="b"), replace(ROUTE, name="s", prefix="c"))
"""The route was split, and one of the parts has its name."""

BEFORE = NOW - 9
"""When a place began to be watched."""

# ---- actors


def delivery(name: str, of: Notice, *, backwards: bool = False, route: Route = ROUTE) -> Actor:
    """Dispatch, given this notice."""
    return Actor(name, lambda ports: dispatch(of.encode(), ports, routes={"r": route}), backwards)


def resending(name: str, of: Upload) -> Actor:
    """A person sends an upload that did not land again, in a command of their own."""
    return Actor(name, lambda ports: resend_object(of.bucket, of.key, ports, run=name))


def delivery_of_sent(name: str, number: int = 0) -> Actor:
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


def aborting(name: str, batch_id: str, wish: Wish | None = None) -> Actor:
    """A person gives the batch up, and may say what becomes of its uploads."""
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
    fits, and one that does not. With `removes` the later version is the marker of a deletion."""

    ports: Ports
    batch: str
    driver: int
    sets_aside: bool = False
    replaces: bool = False
    removes: bool = False
    skips: bool = False
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

    def rows_of_objects(self, uris: Collection[str], version: int) -> Sequence[HeldRows]:
        """Nobody but a driver deletes rows here, and nobody rolls back."""
        line, _ = self._read()
        found: dict[str, str] = {}
        for each in reversed(line):
            for batch in each.publishes if each.id <= version and each.source else ():
                rows, gone = calls(self.ports)("cell", ("staged", str(each.source)))
                found = {row: of for row, of in found.items() if row not in gone} | dict.fromkeys(rows, batch)
        if version > 100:  # what this driver has staged on top
            rows, gone = calls(self.ports)("cell", ("staged", str(version)))
            found = {row: of for row, of in found.items() if row not in gone} | dict.fromkeys(rows, self.batch)
        held = [HeldRows(*version_of_row(row), batch, 1) for row, batch in found.items()]
        return sorted(each for each in held if each.uri in uris)

    def may_have_gained(self, uris: Collection[str], since: int, now: int) -> bool:
        before = self.rows_of_objects(uris, since)
        return any(each not in before for each in self.rows_of_objects(uris, now))

    def let_rows_go(self) -> None: ...

    def stage_removal(self, staged: int, gone: Collection[RowsPlace]) -> tuple[int, int | None]:
        rows, _ = calls(self.ports)("cell", ("staged", str(staged)))
        mine = {row_of_version(uri, version) for uri, version, batch in gone if batch == self.batch}
        others = {row_of_version(uri, version) for uri, version, batch in gone if batch != self.batch}
        self._stage(staged + 100, tuple(row for row in rows if row not in mine), tuple(sorted(others)))
        return staged + 100, None

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        line, _ = self._read()
        return History("uuid", line), frozenset()

    def stage(self, items: Sequence[OwnedUpload], *, careful: bool = False, at: int | None = None) -> Staged:
        if self.removes:
            return self._stage_what_is_not_deleted(items)
        rows = tuple(row_of(each.upload) for each in items)
        self._stage(self.driver, rows)
        bad = self.stage_rejected(items, "rejected") if self.sets_aside else None
        read = Read(Outcome.COMMITTED, 1, rejected=int(self.sets_aside))
        return Staged(self.driver, len(rows), dict.fromkeys(range(len(rows)), read), bad)

    def _stage_what_is_not_deleted(self, items: Sequence[OwnedUpload]) -> Staged:
        """As a reader does, which asks S3 (`reading.fetch.deletion`)."""
        reads: dict[int, Read | None] = {}
        for at, each in enumerate(items):
            landed = Read(Outcome.COMMITTED, 1)
            if each.upload == CORRECTED:
                landed = Read(Outcome.COMMITTED, deletion=True)
            elif self.is_deleted():
                landed = Read(Outcome.SUPERSEDED)
            reads[at] = landed
        rows = tuple(row_of(each.upload) for at, each in enumerate(items) if (read := reads[at]) and read.rows)
        self._stage(self.driver, rows)
        return Staged(self.driver, len(rows), reads)

    def is_deleted(self) -> bool:
        return bool(calls(self.ports)("cell", MARKED))

    def stage_nothing(self) -> int:
        self._stage(self.driver, ())
        return self.driver

    def rejected(self, table: str) -> "ModelSink":
        return replace(self, table=table, cell=REJECTED)

    def stage_rejected(self, items: Sequence[OwnedUpload], table: str) -> RejectedRows:
        number, rows = self.driver + 100, tuple(f"bad row of {each.upload.key}" for each in items)
        self._stage(number, rows)
        return RejectedRows(table, "uuid", number, len(rows))

    def _stage(self, number: int, rows: tuple[str, ...], gone: tuple[str, ...] = ()) -> None:
        calls(self.ports)("change", ("staged", str(number)), lambda _: (rows, gone))

    def publish(self, staged: int, floor: Floor, seen: SeenVersion | None = None) -> Published | Unprovable:
        rows, gone = calls(self.ports)("cell", ("staged", str(staged)))
        number = self.driver * 10

        def decided(line: Any) -> Published | Unprovable | NotPublished:
            told = verdict(History("uuid", down_to(floor, line)), self.batch, floor)
            if isinstance(told, NotPublished):
                require_seen(seen, down_to(floor, line), self.table)
            return told

        def commit(table: Any) -> Any:
            line, landed = table
            try:
                told = decided(line)
            except (TableMoved, StagedIsGone):
                return table
            if not isinstance(told, NotPublished):
                return table
            published = Snapshot(
                number, line[0].id, frozenset({self.batch}), staged, adds=bool(rows), removes=bool(gone)
            )
            return (published, *line), (*(row for row in landed if row not in gone), *rows)

        # the actor is played again with the answer alone: what refused the commit is told by that
        told = decided(calls(self.ports)("change", self.cell, commit)[0])
        return Published(number, staged) if isinstance(told, NotPublished) else told


def row_of(upload: Upload) -> str:
    """Each upload has one row: its key, and its version if it is not the first."""
    return row_of_version(upload.uri, upload.version)


def row_of_version(uri: str, version: str) -> str:
    key = uri.removeprefix("s3://bucket/")
    return key if version == B.version else f"{key} {version}"


def version_of_row(row: str) -> tuple[str, str]:
    key, _, version = row.partition(" ")
    return f"s3://bucket/{key}", version or B.version


def driver(
    name: str,
    number: int,
    batch: str,
    *,
    fence: bool = False,
    sets_aside: bool = False,
    replaces: bool = False,
    removes: bool = False,
    deletes: bool = False,
    skips: bool = False,
) -> Actor:
    """With `deletes` its object is deleted first, as its batch tells. With `skips` the versions have the same bytes."""

    def attempt(ports: Ports) -> None:
        if deletes:
            calls(ports)("change", MARKED, lambda _: True)
        sink = ModelSink(ports, batch, number, sets_aside, replaces, removes, skips)
        listed = dict.fromkeys((CORRECTED.version, B.version), "the same" if skips else "")
        made = Attempt(sink, ports.work, batch, number, newest_first=lambda *_: listed)
        if fence:
            made.fence()
        else:
            made.ingest()

    return Actor(name, attempt)

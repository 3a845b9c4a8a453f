"""Rebuild: write a ledger that is lost as a whole again, from the work bucket and from what the tables hold.

It is `tidegate.flows.recover` over everything that a ledger remembers, with one step before it and one after each
batch. What the tables hold and the work bucket does not know (that bucket is lost too, or an earlier deployment filled
the table) is first written into the work bucket: a folder with parts, manifest and receipt, as if this deployment had
published that batch. From then on everybody who reads a batch finds what they know: recovering, settling, `trace`,
`reconcile`, an audit, and the next rebuild.

    line                                    if it dies right after it              if a twin runs beside it
    1 read the lineage of a table           nothing has happened                   both read the same, or one a later
                                                                                   snapshot
    2 parts of a batch without manifest     files that no manifest lists: line 6   the same names, or others beside them
                                            sends what no claim is on
    3 its outcomes and its receipt, also    a batch without a manifest is read by  either receipt is of a list of
      in place of one that is there         nobody; the next one writes both anew  uploads that are in the table
    4 its manifest, if there is none        done; the next one finds it            one writes it. If it is the other
                                                                                   twin's list, the receipt may not fit
                                                                                   it: the batch is told to differ
    5 unfinished batches before `oldest`    nothing has happened                   both find the same
    6 recover                               see `tidegate.flows.recover`           the same
    7 end each batch that has a receipt,    settling does it, or the next run      settling is a twin: one transaction
      as settling does                                                             ends the batch, and counts it once

Line 4 comes last of a folder: a manifest is what recovering believes. All manifests exist before line 6 begins, and
line 6 writes every claim before it sends any upload.

**Which claims.** Those of the batches from `oldest` on. A ledger that was never lost would remember uploads for
`claims`, and rule 13 sets aside what is older. A batch may gather for a day before it is sealed, so `oldest` is a day
and an hour before that (`core.batches.oldest_remembered`). Going further back would be wrong: a batch that ended
earlier has expired from a ledger that is not lost, and would be counted in the route's sums once more.

Older batches that have not ended (a manifest, and no receipt) are looked at, whatever their age: nobody else names them
once the ledger is lost. One may be halted for longer than `claims`, and still be published.

**The claims say that the upload landed.** Their notice is registered in a batch, and that batch ends as COMMITTED
(line 7), or waits as SEALED, and its job finds it published. Nothing reads them otherwise than any other claim.

**The sums.** Each batch is counted once, when it ends: its header has as many objects as its manifest lists, and its
receipt accounts for as many. So `notified` and the endings grow by the same number, and the sum holds. What the sums
have lost: batches before `oldest`, duplicates refused, and jobs. What came back into a later batch leaves the sums that
it was in (`recover`, line 3). A batch that line 2 wrote has the uploads with rows, as committed. Files
without a row, and those that ended otherwise, have left no row: they are not in it.

**If traffic flows already.** A claim that exists stays, except where `recover` may move it.

    an upload that is in the table      what happens to it
    is claimed by line 6 first          every later notice is refused
    was claimed by a notice that is     the notice is taken out of that batch, and of its uploads those that are in no
      in an open batch                  table are sent again
    was claimed by a notice that has    the notice is void, or is reported as a clash: run it again
      not registered
    is in a batch that was sealed       a clash: if that batch is published before a person aborts it, the upload is in
                                        the table twice

So only the last line can double anything, and only what was let in before line 6 claimed it. Two more things may
happen meanwhile:

- A job publishes. If its manifest is there, line 6 knows all of its uploads, whatever the lineage says. If the work
  bucket is lost, a batch that is published after line 1 is in neither: wait until no job runs.
- Rows are deleted from the table, on purpose. A batch whose manifest is there keeps its claims. Of one that is known by
  its rows only, those uploads have no claim: an audit sends them again.

**Settings change.** The manifest that line 4 writes names the route and the table of today: the route that takes the
upload, among those of the table. A table that no route names is not read.

**What it costs.** One lineage job for each table. For each batch: 3 reads of the work bucket in line 2, and for each of
the four lines of `recover` a listing and 2 or 3 reads; 2 or 3 reads of each part. For each upload that is claimed: a
read of its claim, 100 of them with one request, and 1 write. Memory holds `GATHERED` uploads, and a few fields of each
batch.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

from tidegate.core.batches import State
from tidegate.core.errors import Rejected
from tidegate.core.lineage import Landed
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.notices import pack
from tidegate.core.outcomes import Tally
from tidegate.core.receipts import Outcomes, Receipt, decode_receipt
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.ports import Ports
from tidegate.flows.recover import BATCHES, Recovered, WholeLedger, recover
from tidegate.flows.seal import FilesDiffer
from tidegate.flows.settle import record_receipt

GATHERED = 100_000
"""Uploads that are held in memory until they are written as parts: some 50 MB."""
NO_SNAPSHOT = 0
"""The snapshot in the receipt of a batch that only its rows tell of."""

Tell = Callable[[str], None]
"""Is told in a line how far it is."""

LINES = ("notices", "strays", "claims", "headers")
"""What each line of recovering is about."""
TOLD_EVERY = 1_000


@dataclass(slots=True)
class Rebuilt:
    """What was done, or in a rehearsal would be. `recovered` has what was done from the work bucket, the troubles too.

    `landed`     how many uploads with rows the lineage of each table has
    `before`     how many of them landed before the ledger's memory: nothing is done with these
    `strangers`  how many of them are by no batch of Tidegate: another tool wrote their rows
    `written`    batches that were written into the work bucket because of their rows, with so many `uploads`
    `ended`      batches that were recorded as ended
    """

    recovered: Recovered = field(default_factory=Recovered)
    landed: dict[str, int] = field(default_factory=dict)
    before: int = 0
    strangers: int = 0
    written: int = 0
    uploads: int = 0
    ended: int = 0

    @property
    def complete(self) -> bool:
        return self.recovered.complete


def rebuild(
    ports: Ports,
    *,
    configured: Mapping[str, Route],
    oldest: str,
    made_at: Callable[[str], int],
    tell: Tell = lambda said: None,
) -> Rebuilt:
    """Rebuild the ledger's records of every batch from the id `oldest` on, and of older ones that have not ended.

    `made_at` returns when a batch id was made, and raises ValueError if it is none. Raises Retryable or OutcomeUnknown
    if AWS does not answer: call it again, it continues. Raises Rejected if a table's lineage cannot be used.
    """
    routes = {**ports.ledger.known_routes(), **configured}
    run = _Rebuilding(ports, routes, oldest, made_at, tell)
    for table in sorted({route.dataset.table for route in routes.values()}):
        run.read(table)
    tell("looking for older batches that have not ended")
    also = tuple(unfinished_before(oldest, ports))
    whole = WholeLedger(also, run.held, run.end, run.tell_line)
    run.report.recovered = recover(ports, configured=configured, oldest=oldest, made_at=made_at, whole=whole)
    return run.report


def unfinished_before(oldest: str, ports: Ports) -> Iterator[str]:
    """The batches before the id `oldest` that have a manifest and no receipt. It lists every name in their folders, a
    thousand with each request.

    A folder without a manifest is left out. What it lists was sent again when the ledger was restored, long ago, and no
    claim would refuse it any more.
    """
    for batch_id, names in groupby(ports.work.names(BATCHES), key=_folder_of):
        if batch_id >= oldest:
            return
        files = {name.removeprefix(batch_folder(batch_id)) for name in names}
        if "sealed.json" in files and "receipt.json" not in files:
            yield batch_id


def _folder_of(name: str) -> str:
    return name.removeprefix(BATCHES).partition("/")[0]


@dataclass(slots=True)
class _FromRows:
    """A batch of which only its rows tell: its route, and what was gathered and written of it so far."""

    route: Route
    gathered: dict[str, list[Landed]] = field(default_factory=lambda: defaultdict(list))
    """By bucket."""
    parts: set[str] = field(default_factory=set)
    uploads: int = 0
    rows: int = 0


@dataclass
class _Rebuilding:
    ports: Ports
    routes: Mapping[str, Route]
    oldest: str
    made_at: Callable[[str], int]
    tell: Tell
    report: Rebuilt = field(default_factory=Rebuilt)
    held: dict[str, str] = field(default_factory=dict)
    """Batches that must not be handed off, and why."""

    def tell_line(self, line: int, done: int) -> None:
        if done % TOLD_EVERY == 0:
            self.tell(f"{LINES[line - 1]}: {done} batches done")

    # ---- 1 to 4: what only a table knows

    def read(self, table: str) -> None:
        found: Counter[str] = Counter()
        batches: dict[str, _FromRows | None] = {}
        gathered = 0
        for landed in self.ports.lineage.landed(table):
            found.update(["landed"])
            if not self._is_ours(landed):
                self.report.strangers += 1
                continue
            if landed.batch < self.oldest:
                self.report.before += 1
                continue
            if landed.batch not in batches:
                batches[landed.batch] = self._look(landed, table)
            if batch := batches[landed.batch]:
                batch.gathered[landed.bucket].append(landed)
                gathered += 1
            if gathered >= GATHERED:
                self._write_parts(batches)
                gathered = 0
            if found["landed"] % GATHERED == 0:
                self.tell(f"table {table}: {found['landed']} uploads read")
        self._write_parts(batches)
        for batch_id, written in sorted(batches.items()):
            if written:
                self._write_rest(batch_id, table, written)
        self.report.landed[table] = found["landed"]
        self.tell(f"table {table}: {found['landed']} uploads read, the last of them")

    def _is_ours(self, landed: Landed) -> bool:
        try:
            self.made_at(landed.batch)
        except ValueError:
            return False
        return bool(landed.version)

    def _look(self, landed: Landed, table: str) -> _FromRows | None:
        """None if the work bucket knows the batch."""
        folder = batch_folder(landed.batch)
        if self.ports.work.get(folder + "sealed.json") is None:
            return _FromRows(self._route_of(landed, table))
        receipt = self.ports.work.get(folder + "receipt.json")
        if receipt is not None and decode_receipt(receipt).fence:
            self.held[landed.batch] = (
                f"table {table} holds rows of it, e.g. of s3://{landed.bucket}/{landed.key}, and its receipt says that"
                " it was fenced: one of the two was changed by hand. Its header is left as it is"
            )
        elif receipt is None and self.ports.work.get(folder + "floor.json") is None:
            self.held[landed.batch] = (
                f"table {table} holds rows of it, and the work bucket has neither {folder}receipt.json nor"
                f" {folder}floor.json: a job would publish it once more, so it is not handed off. Restore one of them"
                " and run this again"
            )
        return None

    def _route_of(self, landed: Landed, table: str) -> Route:
        """The route of today that takes the upload, among those of the table; else the first of these."""
        of_table = [route for route in self.routes.values() if route.dataset.table == table]
        of_table.sort(key=lambda each: (each.retired, each.name))
        upload = _upload(landed)
        return next((route for route in of_table if route.takes(upload)), of_table[0])

    def _write_parts(self, batches: Mapping[str, _FromRows | None]) -> None:
        for batch_id, batch in sorted(batches.items()):
            for bucket, landed in sorted(batch.gathered.items()) if batch else ():
                assert batch is not None
                # one notice: nobody sends it, so it may be of any size
                (notice,) = pack(
                    batch.route.name,
                    bucket,
                    map(_upload, landed),
                    origin=f"rebuild-{batch_id}",
                    max_bytes=ANY_SIZE,
                )
                part = make_part(notice.id, bucket, map(_upload, landed))
                self.ports.work.put(batch_folder(batch_id) + part.name, part.body)
                batch.parts.add(part.name)
                batch.uploads += len(landed)
                batch.rows += sum(each.rows for each in landed)
            if batch:
                batch.gathered.clear()

    def _write_rest(self, batch_id: str, table: str, batch: _FromRows) -> None:
        folder = batch_folder(batch_id)
        sealed = Sealed(batch_id, batch.route.name, tuple(sorted(batch.parts)), batch.uploads, 0, table)
        tally = Tally(committed=batch.uploads, rows=batch.rows)
        outcomes = Outcomes(NO_SNAPSHOT, False, tally, (), sealed.digest)
        receipt = Receipt(batch_id, NO_SNAPSHOT, NO_SNAPSHOT, False, tally, sealed.digest)
        self.ports.work.put(f"{folder}outcomes/{NO_SNAPSHOT}.jsonl.gz", outcomes.encode())
        self.ports.work.put(folder + "receipt.json", receipt.encode())
        self.ports.work.put_if_absent(folder + "sealed.json", sealed.encode())
        self.report.written += 1
        self.report.uploads += batch.uploads

    # ---- 7: the end of decided batches

    def end(self, batch_id: str) -> None:
        """Record what the table has decided, if it has. Else thousands of batches would be under way at once, more than
        the route's record can list."""
        body = self.ports.work.get(batch_folder(batch_id) + "receipt.json")
        if body is None:
            return
        receipt = decode_receipt(body)
        done = -1
        batch = self.ports.ledger.batch(batch_id)
        # a look writes so many endings at most; without progress somebody else has ended the batch
        while batch and batch.state is State.SUBMITTED and batch.endings > done:
            done = batch.endings
            try:
                record_receipt(self.routes[batch.route], batch, receipt, replace(self.ports, bus=None))
            except FilesDiffer as error:
                raise Rejected(str(error)) from error
            batch = self.ports.ledger.batch(batch_id)
        self.report.ended += done >= 0 and batch is not None and batch.state is not State.SUBMITTED


ANY_SIZE = 1 << 62


def _upload(landed: Landed) -> Upload:
    """Its size and its sequencer are not in the table. A claim without a sequencer takes every notification of the same
    upload for a repeat, which is right for what has landed."""
    return Upload(*landed.identity, size=0)

"""What the tables hold and the work bucket does not know, written into the work bucket.

A ledger is rebuilt from the work bucket (`flows.rebuild`). If that is lost too, or if an earlier deployment filled a
table, only the rows tell of their batches. Each such batch gets a folder with parts, manifest and receipt, as if this
deployment had published it. From then on everybody who reads a batch finds what they know. The manifest comes last: it
is what a rebuild believes.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidegate.core.lineage import Landed
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.notices import pack
from tidegate.core.outcomes import Tally
from tidegate.core.receipts import Outcomes, Receipt
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.batch_files import files_of
from tidegate.flows.ports import Ports

GATHERED = 100_000
"""Uploads that are held in memory until they are written as parts: some 50 MB."""
NO_SNAPSHOT = 0
"""The snapshot in the receipt of a batch that only its rows tell of."""
Tell = Callable[[str], None]
"""Is told in a line how far it is."""


@dataclass(slots=True)
class FromRows:
    """What was found and done, or in a rehearsal would be.

    `landed`     how many uploads with rows the lineage of each table has
    `before`     how many of them landed before the ledger's memory: nothing is done with these
    `strangers`  how many of them are by no batch of Tidegate: another tool wrote their rows
    `written`    batches that were written into the work bucket, with so many `uploads`
    `held`       batches whose files and rows contradict each other, and how
    """

    landed: dict[str, int] = field(default_factory=dict)
    before: int = 0
    strangers: int = 0
    written: int = 0
    uploads: int = 0
    held: dict[str, str] = field(default_factory=dict)


def write_from_rows(
    ports: Ports, *, routes: Mapping[str, Route], oldest: str, made_at: Callable[[str], int], tell: Tell
) -> FromRows:
    """Read the lineage of every table of these routes, and write the batches from the id `oldest` on. Arguments and
    errors as in `flows.rebuild.rebuild`."""
    run = _ReadingRows(ports, routes, oldest, made_at, tell)
    for table in sorted({route.dataset.table for route in routes.values()}):
        run.read(table)
    return run.found


@dataclass(slots=True)
class _Batch:
    """A batch of which only its rows tell: its route, and what was gathered and written of it so far."""

    route: Route
    gathered: dict[str, list[Landed]] = field(default_factory=lambda: defaultdict(list))
    """By bucket."""
    parts: set[str] = field(default_factory=set)
    uploads: int = 0
    rows: int = 0


@dataclass
class _ReadingRows:
    ports: Ports
    routes: Mapping[str, Route]
    oldest: str
    made_at: Callable[[str], int]
    tell: Tell
    found: FromRows = field(default_factory=FromRows)

    def read(self, table: str) -> None:
        uploads = 0
        batches: dict[str, _Batch | None] = {}
        gathered = 0
        for landed in self.ports.lineage.landed(table):
            uploads += 1
            if not self._is_ours(landed):
                self.found.strangers += 1
                continue
            if landed.batch < self.oldest:
                self.found.before += 1
                continue
            if landed.batch not in batches:
                batches[landed.batch] = self._from_rows(landed, table)
            if batch := batches[landed.batch]:
                batch.gathered[landed.bucket].append(landed)
                gathered += 1
            if gathered >= GATHERED:
                self._write_parts(batches)
                gathered = 0
            if uploads % GATHERED == 0:
                self.tell(f"table {table}: {uploads} uploads read")
        self._write_parts(batches)
        for batch_id, written in sorted(batches.items()):
            if written:
                self._write_rest(batch_id, table, written)
        self.found.landed[table] = uploads
        self.tell(f"table {table}: {uploads} uploads read, the last of them")

    def _is_ours(self, landed: Landed) -> bool:
        try:
            self.made_at(landed.batch)
        except ValueError:
            return False
        return bool(landed.version)

    def _from_rows(self, landed: Landed, table: str) -> _Batch | None:
        """None if the work bucket knows the batch."""
        folder = batch_folder(landed.batch)
        files = files_of(landed.batch, self.ports.work)
        if files is None:
            return _Batch(self._route_of(landed, table))
        if files.fenced:
            self.found.held[landed.batch] = (
                f"table {table} holds rows of it, e.g. of s3://{landed.bucket}/{landed.key}, and its receipt says that"
                " it was fenced: one of the two was changed by hand. Delete these rows, or the receipt, and run this"
                " again"
            )
        elif files.receipt is None and self.ports.work.get(folder + "floor.json") is None:
            self.found.held[landed.batch] = (
                f"table {table} holds rows of it, and the work bucket has neither {folder}receipt.json nor"
                f" {folder}floor.json: a job would publish it once more. Restore one of them and run this again"
            )
        return None

    def _route_of(self, landed: Landed, table: str) -> Route:
        """The route of today that takes the upload, among those of the table; else the first of these."""
        of_table = [route for route in self.routes.values() if route.dataset.table == table]
        of_table.sort(key=lambda each: (each.retired, each.name))
        upload = _upload(landed)
        return next((route for route in of_table if route.takes(upload)), of_table[0])

    def _write_parts(self, batches: Mapping[str, _Batch | None]) -> None:
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

    def _write_rest(self, batch_id: str, table: str, batch: _Batch) -> None:
        folder = batch_folder(batch_id)
        sealed = Sealed(batch_id, batch.route.name, tuple(sorted(batch.parts)), batch.uploads, 0, table)
        tally = Tally(committed=batch.uploads, rows=batch.rows)
        outcomes = Outcomes(NO_SNAPSHOT, False, tally, (), sealed.digest)
        receipt = Receipt(batch_id, NO_SNAPSHOT, NO_SNAPSHOT, False, tally, sealed.digest)
        self.ports.work.put(f"{folder}outcomes/{NO_SNAPSHOT}.jsonl.gz", outcomes.encode())
        self.ports.work.put(folder + "receipt.json", receipt.encode())
        self.ports.work.put_if_absent(folder + "sealed.json", sealed.encode())
        self.found.written += 1
        self.found.uploads += batch.uploads


ANY_SIZE = 1 << 62


def _upload(landed: Landed) -> Upload:
    """Its size and its sequencer are not in the table. A claim without a sequencer takes every notification of the same
    upload for a repeat, which is right for what has landed."""
    return Upload(*landed.identity, size=0)

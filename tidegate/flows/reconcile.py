"""Reconcile: compare what the ledger has committed with what the tables hold, batch by batch. It changes nothing.

    line                                            why in this order
    1 list the batches in the work bucket, and      what is COMMITTED now was published before. Its rows are in every
      read their headers                            later reading of the table, unless somebody has removed them
    2 read the lineage of their tables              never earlier than this call (`flows.ports.Lineage`)
    3 read the headers of batches that have rows,   they were published before line 2. One that is committed meanwhile
      and were not COMMITTED in line 1              is compared; one that settling has not recorded yet is pending

In the other order a batch that is published between the two readings would look as if its rows were lost (table first),
or as if nobody knew of its rows (ledger first, and not again). So a batch that commits meanwhile is no finding:

    published, settled          line 1 says      line 2 finds     line 3 says     the finding
    before line 1               COMMITTED        its rows         -               none
    before line 2, after it     SUBMITTED        its rows         SUBMITTED       none: pending
    before line 2, before 3     SUBMITTED        its rows         COMMITTED       none
    after line 2                SUBMITTED        nothing          -               none
    opened after line 1         -                its rows         any of these    as above

If it dies, nothing has happened. A twin finds the same. If a table is rolled back, or rows are deleted, while it runs,
the finding is of before or of after that. If the settings change, so does the list of tables: what is not read is not
compared, and a batch of a table that was not read is none of the findings. Reads of the ledger are consistent.

**Which batches.** Those that the ledger cannot have forgotten (`core.batches.oldest_remembered`) and whose folder is in
the work bucket. Rows of older batches are counted, and are compared if the ledger still has the batch. If the work
bucket is lost, a batch whose rows are missing is not found.

**What it costs.** For each table a lineage job. For a thousand batches a listing and ten requests of a hundred headers;
no item of the ledger is read for an upload. Memory holds a few numbers of each batch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tidegate.core.batches import Batch, State
from tidegate.core.lineage import Landed
from tidegate.core.reconcile import NOTHING_HELD, Holding, TableDifference, advice, judge_committed, judge_found
from tidegate.core.routes import Route
from tidegate.flows.ports import Ports
from tidegate.flows.recover import BATCHES

HEADERS = 1_000
"""Headers that are read together."""
TOLD_EVERY = 100_000


@dataclass(frozen=True, slots=True)
class TableFinding:
    """A difference. `ledger` is what was committed, `table` what `name_of_table` holds of the batch. Of uploads that
    are there twice, `table` is how many they are, and the rows that the batch `other` has of them."""

    difference: TableDifference
    route: str
    name_of_table: str
    batch: str
    ledger: Holding = NOTHING_HELD
    table: Holding = NOTHING_HELD
    other: str = ""
    example: str = ""

    @property
    def advice(self) -> str:
        return advice(self.difference, self.batch, self.other)


@dataclass(slots=True)
class Reconciled:
    """What was compared. `committed` batches were, with `rows` in the ledger. Of batches with rows, so many are
    `pending` (not recorded by settling yet), and so many `forgotten` (older than the ledger's memory). `strangers` are
    uploads with rows of no batch of Tidegate."""

    committed: int = 0
    rows: int = 0
    pending: int = 0
    forgotten: int = 0
    strangers: int = 0
    tables: dict[str, Holding] = field(default_factory=dict)
    findings: list[TableFinding] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class _Expected:
    """What line 1 read of a committed batch."""

    route: str
    table: str
    held: Holding


def reconcile(
    ports: Ports,
    *,
    configured: Mapping[str, Route],
    oldest: str,
    made_at: Callable[[str], int],
    route: str | None = None,
    tell: Callable[[str], None] = lambda said: None,
) -> Reconciled:
    """Compare the batches of every route, or of `route`, which is one of them.

    `oldest` is the smallest id that the ledger cannot have forgotten. `made_at` returns when a batch id was made, and
    raises ValueError if it is none.
    """
    routes = {**ports.ledger.known_routes(), **configured}
    wanted = [each for each in routes.values() if route in (None, each.name)]
    expected = dict(_committed(oldest, {each.name: each for each in wanted}, ports))
    tell(f"{len(expected)} committed batches")
    run = _Reconciling(ports, expected, route, oldest, made_at, tell)
    for table in sorted({*(each.dataset.table for each in wanted), *(each.table for each in expected.values())}):
        run.read(table)
    run.compare()
    return run.done


def _committed(oldest: str, routes: Mapping[str, Route], ports: Ports) -> Iterator[tuple[str, _Expected]]:
    for ids in _by_thousand(ports.work.folders(BATCHES, oldest)):
        for batch in ports.ledger.batches(ids).values():
            if batch.state is State.COMMITTED and batch.route in routes:
                # version 0.1.0 kept no table with a batch
                table = batch.table or routes[batch.route].dataset.table
                yield batch.id, _Expected(batch.route, table, _held(batch))


def _held(batch: Batch) -> Holding:
    return Holding(batch.tally.committed, batch.tally.rows)


def _by_thousand(found: Iterator[str]) -> Iterator[Sequence[str]]:
    while portion := list(islice(found, HEADERS)):
        yield portion


@dataclass
class _Reconciling:
    ports: Ports
    expected: Mapping[str, _Expected]
    route: str | None
    oldest: str
    made_at: Callable[[str], int]
    tell: Callable[[str], None]
    held: dict[str, dict[str, Holding]] = field(default_factory=dict)
    """By table and batch."""
    done: Reconciled = field(default_factory=Reconciled)

    def read(self, table: str) -> None:
        held: dict[str, Holding] = defaultdict(Holding)
        twice: dict[tuple[str, str], tuple[Holding, str]] = {}
        last: Landed | None = None
        everything = NOTHING_HELD
        for landed in self.ports.lineage.landed(table):
            one = Holding(1, landed.rows)
            everything += one
            # rows without a version do not say which upload they are of
            if last and landed.version and last.identity == landed.identity:
                before, example = twice.get((last.batch, landed.batch), (NOTHING_HELD, _name(landed)))
                twice[last.batch, landed.batch] = (before + one, example)
            last = landed
            if self._is_ours(landed.batch):
                held[landed.batch] += one
            else:
                self.done.strangers += 1
            if everything.uploads % TOLD_EVERY == 0:
                self.tell(f"table {table}: {everything.uploads} uploads read")
        for (first, second), (both, example) in sorted(twice.items()):
            name = self.expected[second].route if second in self.expected else ""
            found = TableFinding(TableDifference.TWICE, name, table, first, table=both, other=second, example=example)
            self.done.findings.append(found)
        self.held[table] = held
        self.done.tables[table] = everything

    def _is_ours(self, batch: str) -> bool:
        try:
            self.made_at(batch)
        except ValueError:
            return False
        return True

    def compare(self) -> None:
        for batch_id, expected in sorted(self.expected.items()):
            self.done.committed += 1
            self.done.rows += expected.held.rows
            held = self.held[expected.table].get(batch_id, NOTHING_HELD)
            self._note(judge_committed(expected.held.rows, held), batch_id, expected, held)
        for table, batches in sorted(self.held.items()):
            others = (each for each in sorted(batches) if not self._is_compared(each, table))
            for ids in _by_thousand(others):
                # after the table was read: see the order of the lines
                there = self.ports.ledger.batches(ids)
                for batch_id in ids:
                    self._found(batch_id, there.get(batch_id), table, batches[batch_id])

    def _is_compared(self, batch_id: str, table: str) -> bool:
        return batch_id in self.expected and self.expected[batch_id].table == table

    def _found(self, batch_id: str, batch: Batch | None, table: str, held: Holding) -> None:
        if batch and self.route and batch.route != self.route:
            return
        remembered = batch_id >= self.oldest
        difference = judge_found(batch, held, remembered=remembered)
        self.done.pending += batch is not None and batch.state in (State.SEALED, State.SUBMITTED)
        self.done.forgotten += batch is None and not remembered
        expected = _Expected(batch.route if batch else "", table, _held(batch) if batch else NOTHING_HELD)
        self._note(difference, batch_id, expected, held)

    def _note(self, difference: TableDifference | None, batch: str, expected: _Expected, held: Holding) -> None:
        if difference:
            found = TableFinding(difference, expected.route, expected.table, batch, expected.held, held)
            self.done.findings.append(found)


def _name(landed: Landed) -> str:
    return f"s3://{landed.bucket}/{landed.key} ({landed.version})"

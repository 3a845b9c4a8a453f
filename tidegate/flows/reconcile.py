"""Reconcile: compare what the ledger has committed with what the tables hold, batch by batch. It changes nothing.

    line                                            why in this order
    1 list the batches in the work bucket, and      what is COMMITTED now was published before. Its rows are in every
      read their headers                            later reading of the table, unless somebody has removed them
    2 read the lineage of their tables, and the     never earlier than this call (`flows.ports.Lineage`). What is
      history that ends at the same snapshot        ABANDONED in line 1 was fenced before: its fence is in every later
                                                    history that reaches its floor, unless the table was rolled back
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
    fenced before line 1        ABANDONED        its fence        -               none
    fenced after it             SUBMITTED        its fence or not -               none: it is not looked for

**Fences.** An abandoned batch can be published again if its fence is gone and its floor is not
(`core.reconcile.is_fenced`). So can one that has landed, and whose uploads others may have landed since
(`Batch.rows_removed`): after a rollback past its fence, or past its own rows. Its floors are read from the work bucket
after line 2. They are all there by then: an attempt writes every floor that it may use before it stages, and the fence
was the last attempt. Nothing here can fence an abandoned batch again: only an attempt can, and the ledger begins none
for a batch that has ended. What has landed is fenced again by its resend.

If it dies, nothing has happened. A twin finds the same. If a table is rolled back, or rows are deleted, while it runs,
the finding is of before or of after that. If the settings change, so does the list of tables: what is not read is not
compared, and a batch of a table that was not read is none of the findings. Reads of the ledger are consistent.

**What was sent again.** Others bring its rows, so it is not missed: unless its rows came back, by a rollback, before
the others landed. Then these were *present*, and rest on it (`rested_on`).

**Which batches.** Those that the ledger cannot have forgotten (`core.batches.oldest_remembered`) and whose folder is in
the work bucket. Rows of older batches are counted, and are compared if the ledger still has the batch. If the work
bucket is lost, a batch whose rows are missing is not found.

**What it costs.** For each table a lineage job, and for each batch that may need a fence a read of each of its floors.
For a thousand batches a listing and ten requests of a hundred headers. No item of the ledger is read for an upload, but
for the claims of those that were present, if a batch that was sent again has no rows. Memory holds a few numbers of
each batch, and the history of each table.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from tidegate.core.batches import Batch, State, job_name
from tidegate.core.lineage import Landed
from tidegate.core.manifests import BATCHES
from tidegate.core.outcomes import Outcome
from tidegate.core.publication import History
from tidegate.core.reconcile import (
    NOTHING_HELD,
    Holding,
    TableDifference,
    advice,
    is_fenced,
    judge_committed,
    judge_found,
)
from tidegate.core.routes import Route
from tidegate.core.uploads import Upload
from tidegate.flows.hand_off import dataset_of
from tidegate.flows.outcomes import floors_of, published_outcomes
from tidegate.flows.ports import Ports
from tidegate.flows.replaced_rows import CommittedBatch, ReplacedRows

HEADERS = 1_000
"""Headers that are read together."""
TOLD_EVERY = 100_000


@dataclass(frozen=True, slots=True)
class TableFinding:
    """A difference. `ledger` is what was committed, `table` what `name_of_table` holds of the batch. Of uploads that
    are there twice, `table` is how many they are, and the rows that the batch `other` has of them. `attempts` is how
    many a batch had that is not fenced, `landed` whether it has landed once. `goes_to` is the table of the batch's
    route today, if it is another one."""

    difference: TableDifference
    route: str
    name_of_table: str
    batch: str
    ledger: Holding = NOTHING_HELD
    table: Holding = NOTHING_HELD
    other: str = ""
    example: str = ""
    attempts: int = 0
    goes_to: str = ""
    landed: bool = False

    @property
    def advice(self) -> str:
        return advice(
            self.difference,
            self.batch,
            other=self.other,
            job_runs=self.job_runs,
            goes_to=self.goes_to,
            landed=self.landed,
        )

    @property
    def job_runs(self) -> str:
        """How the job runs are called that could publish a batch that is not fenced, for people."""
        if self.difference is not TableDifference.NOT_FENCED:
            return ""
        return " to ".join(job_name(self.route, self.batch, each) for each in sorted({1, max(1, self.attempts)}))


@dataclass(slots=True)
class Reconciled:
    """What was compared. `committed` batches were, with `rows` in the ledger. Of batches with rows, so many are
    `pending` (not recorded by settling yet), and so many `forgotten` (older than the ledger's memory). `strangers` are
    uploads with rows of no batch of Tidegate. The fences of `abandoned` batches were looked for. `several` is of how
    many objects a table has rows of more than one version, which is no difference from the ledger; `example` is the URI
    of one."""

    committed: int = 0
    rows: int = 0
    pending: int = 0
    forgotten: int = 0
    strangers: int = 0
    abandoned: int = 0
    tables: dict[str, Holding] = field(default_factory=dict)
    findings: list[TableFinding] = field(default_factory=list)
    several: dict[str, int] = field(default_factory=dict)
    example: str = ""

    @property
    def holds(self) -> bool:
        return not self.findings


@dataclass(frozen=True, slots=True)
class _LetGo:
    """What line 1 read of a batch whose uploads may land with others: it is abandoned, or rows of it were removed."""

    route: str
    table: str
    attempts: int


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
    expected: dict[str, CommittedBatch] = {}
    let_go: dict[str, _LetGo] = {}
    for batch, table in _ended(oldest, {each.name: each for each in wanted}, ports):
        landed = batch.state is State.COMMITTED
        if landed:
            today = routes[batch.route].dataset.table
            goes_to = today if today != table else ""
            expected[batch.id] = CommittedBatch(
                batch.route,
                table,
                _held(batch),
                batch.sent_again,
                goes_to,
                bool(batch.tally.present),
                bool(batch.tally.replaced),
            )
        if not landed or batch.rows_removed:
            let_go[batch.id] = _LetGo(batch.route, table, batch.attempt)
    tell(f"{len(expected)} committed batches, {len(let_go.keys() - expected.keys())} abandoned ones")
    run = _Reconciling(ports, expected, let_go, route, oldest, made_at, tell)
    compared: list[CommittedBatch | _LetGo] = [*expected.values(), *let_go.values()]
    for table in sorted({*(each.dataset.table for each in wanted), *(each.table for each in compared)}):
        run.read(table)
    run.compare()
    run.look_for_fences()
    return run.done


def _ended(oldest: str, routes: Mapping[str, Route], ports: Ports) -> Iterator[tuple[Batch, str]]:
    """The committed and the abandoned batches, each with its table."""
    for ids in _by_thousand(ports.work.folders(BATCHES, oldest)):
        for batch in ports.ledger.batches(ids).values():
            if batch.state in (State.COMMITTED, State.ABANDONED) and batch.route in routes:
                yield batch, dataset_of(batch, routes[batch.route]).table


def _held(batch: Batch) -> Holding:
    return Holding(batch.tally.committed, batch.tally.rows)


def _by_thousand(found: Iterator[str]) -> Iterator[Sequence[str]]:
    while portion := list(islice(found, HEADERS)):
        yield portion


@dataclass
class _Reconciling:
    ports: Ports
    expected: Mapping[str, CommittedBatch]
    let_go: Mapping[str, _LetGo]
    route: str | None
    oldest: str
    made_at: Callable[[str], int]
    tell: Callable[[str], None]
    held: dict[str, dict[str, Holding]] = field(default_factory=dict)
    """By table and batch."""
    histories: dict[str, History] = field(default_factory=dict)
    done: Reconciled = field(default_factory=Reconciled)

    def read(self, table: str) -> None:
        held: dict[str, Holding] = defaultdict(Holding)
        twice: dict[tuple[str, str], tuple[Holding, str]] = {}
        last: Landed | None = None
        several = _Several()
        everything = NOTHING_HELD
        self.histories[table], found = self.ports.lineage.with_history(table)
        for landed in found:
            one = Holding(1, landed.rows)
            everything += one
            # rows without a version do not say which upload they are of
            if last and landed.version and last.identity == landed.identity:
                before, example = twice.get((last.batch, landed.batch), (NOTHING_HELD, _name(landed)))
                twice[last.batch, landed.batch] = (before + one, example)
            last = landed
            several.see(landed)
            if self._is_ours(landed.batch):
                held[landed.batch] += one
            else:
                self.done.strangers += 1
            if everything.uploads % TOLD_EVERY == 0:
                self.tell(f"table {table}: {everything.uploads} uploads read")
        for (first, second), (both, example) in sorted(twice.items()):
            name = self.expected[second].route if second in self.expected else ""
            self.done.findings.append(
                TableFinding(TableDifference.TWICE, name, table, first, table=both, other=second, example=example)
            )
        self.held[table] = held
        self.done.tables[table] = everything
        self.done.several[table] = several.objects
        self.done.example = self.done.example or several.example

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
            held += self.replaced.gave_way.get((expected.table, batch_id), NOTHING_HELD)
            excused = expected.sent_again and not held.rows and batch_id not in self.rested_on
            found = judge_committed(expected.held.rows, held, sent_again=excused)
            self._note(TableDifference.MISSING if batch_id in self.replaced.undone else found, batch_id, expected, held)
        for table, batches in sorted(self.held.items()):
            others = (each for each in sorted(batches) if not self._is_compared(each, table))
            for ids in _by_thousand(others):
                # after the table was read: see the order of the lines
                there = self.ports.ledger.batches(ids)
                for batch_id in ids:
                    held = batches[batch_id] + self.replaced.gave_way.get((table, batch_id), NOTHING_HELD)
                    self._found(batch_id, there.get(batch_id), table, held)

    @cached_property
    def replaced(self) -> ReplacedRows:
        return ReplacedRows(self.ports.work, self.expected, self.held, self.histories)

    @cached_property
    def rested_on(self) -> frozenset[str]:
        """The batches whose rows are those of uploads that were present, and are to this day: their claims say so."""
        found: set[str] = set()
        for batch_id in (each for each, expected in self.expected.items() if expected.present):
            outcomes = published_outcomes(batch_id, self.ports.work)
            ended = outcomes.endings if outcomes else ()
            present = [each for each in ended if each.outcome == Outcome.PRESENT]
            claims = self.ports.ledger.claims_on(Upload(each.bucket, each.key, each.version, 0) for each in present)
            found |= {each.rows_of for each in claims.values()}
        return frozenset(found)

    def look_for_fences(self) -> None:
        for batch_id, batch in sorted(self.let_go.items()):
            landed = batch_id in self.expected
            self.done.abandoned += not landed
            if not is_fenced(self.histories[batch.table], batch_id, floors_of(batch_id, self.ports.work)):
                self.done.findings.append(
                    TableFinding(
                        TableDifference.NOT_FENCED,
                        batch.route,
                        batch.table,
                        batch_id,
                        attempts=batch.attempts,
                        landed=landed,
                    )
                )

    def _is_compared(self, batch_id: str, table: str) -> bool:
        return batch_id in self.expected and self.expected[batch_id].table == table

    def _found(self, batch_id: str, batch: Batch | None, table: str, held: Holding) -> None:
        if batch and self.route and batch.route != self.route:
            return
        remembered = batch_id >= self.oldest
        difference = judge_found(batch, held, remembered=remembered)
        self.done.pending += batch is not None and batch.state in (State.SEALED, State.SUBMITTED)
        self.done.forgotten += batch is None and not remembered
        expected = CommittedBatch(batch.route if batch else "", table, _held(batch) if batch else NOTHING_HELD)
        self._note(difference, batch_id, expected, held)

    def _note(self, difference: TableDifference | None, batch: str, expected: CommittedBatch, held: Holding) -> None:
        if difference:
            route, table, goes_to = expected.route, expected.table, expected.goes_to
            found = TableFinding(difference, route, table, batch, expected.held, held, goes_to=goes_to)
            self.done.findings.append(found)


@dataclass(slots=True)
class _Several:
    """Counts the objects of a lineage, which is in order, that have rows of more than one version."""

    objects: int = 0
    example: str = ""
    first: Landed | None = None
    counted: bool = False

    def see(self, landed: Landed) -> None:
        if not landed.version:
            return
        if self.first is None or (self.first.bucket, self.first.key) != (landed.bucket, landed.key):
            self.first, self.counted = landed, False
        elif landed.version != self.first.version and not self.counted:
            self.counted = True
            self.objects += 1
            self.example = self.example or f"s3://{landed.bucket}/{landed.key}"


def _name(landed: Landed) -> str:
    return f"s3://{landed.bucket}/{landed.key} ({landed.version})"

"""A model of Iceberg's commits: `tidegate.sinks.iceberg.table.IcebergTable` on a catalog that swaps one pointer.

It follows the source of Iceberg 1.11.0: `SnapshotProducer.commit` (refresh, run the ancestry validator, swap, again
after a conflict) and `SnapshotUtil.ancestorsOf` (the walk silently ends where history was expired). The acts of other
writers follow `SetSnapshotOperation`, `CherryPickOperation`, `RemoveSnapshots` and `UpdateSnapshotReferencesOperation`.
`tests/spark/test_model.py` compares the model with Iceberg.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import PySparkException

from simulation.world.network import Network
from simulation.world.seen import REBASED, REFUSED_BY_CONDITION
from tidegate.core.publication import Floor, History, NotPublished, Published, Unprovable, down_to, verdict
from tidegate.core.replacing import HeldRows, RowsPlace
from tidegate.flows.sink import SeenVersion, StagedIsGone, require_seen
from tidegate.sinks.iceberg.marks import (
    ADDED,
    BATCH,
    ON_TOP_OF,
    PUBLISHED_WAP_ID,
    REMOVED,
    SOURCE_SNAPSHOT_ID,
    IcebergSnapshot,
)
from tidegate.sinks.iceberg.table import BEGUN, BRANCH_TRIES

Row = tuple[Any, ...]


class BroughtRow(tuple[Any, ...]):
    """A row that knows the batch that brought it, into whatever file it is moved."""

    batch: str

    @staticmethod
    def of(row: Row, batch: str) -> "BroughtRow":
        made = BroughtRow(row)
        made.batch = batch
        return made


def batch_of(row: Row) -> str:
    """Empty for a row that no batch brought."""
    return row.batch if isinstance(row, BroughtRow) else ""


"""(uri, version, number of the row in its file), and what else it holds: of Tidegate's, the value of its column."""

COMMIT_TRIES = 5


class CommitFailed(PySparkException):
    """Another commit moved the pointer, on every try."""


class CommitStateUnknown(PySparkException):
    """No answer from the catalog: it may have been swapped."""


class CommitRefused(PySparkException):
    """The ancestry validator refused the commit: nothing was written."""

    def __init__(self, verdict: Published | Unprovable) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


class NoAnswer(PySparkException):
    """The catalog did not answer."""


@dataclass(frozen=True)
class Stored:
    """One snapshot with the files that it added: each file is the rows it holds."""

    snapshot: IcebergSnapshot
    files: tuple[str, ...]
    removed: frozenset[str] = frozenset()
    """Files of earlier snapshots that are not part of the table from this one on."""
    masked: Mapping[str, str] = field(default_factory=dict)
    """Files of earlier snapshots that have lost rows: what holds those that are left (`base_of`)."""


@dataclass(frozen=True)
class Metadata:
    """One version of the table's metadata; the catalog points to exactly one."""

    version: int
    uuid: str
    head: int | None
    snapshots: Mapping[int, Stored]
    branches: Mapping[str, int] = field(default_factory=dict)
    """All but main: the snapshot that each points to."""
    gone: Mapping[int, Stored] = field(default_factory=dict)
    """Expired snapshots. Their rows stay in main; they are no longer in the history."""
    came_back: bool = False
    """Whether expired snapshots have come back: until then the history was shorter than it is."""

    def ancestors(self) -> Iterator[IcebergSnapshot]:
        """Of main, the head first; it ends where history was expired."""
        return self._back_from(self.head)

    def line(self) -> list[Stored]:
        """All that led to main's head, expired or not, oldest first."""
        found = []
        current = self.head
        while current is not None:
            stored = self.snapshots.get(current) or self.gone.get(current)
            if stored is None:
                break
            found.append(stored)
            current = stored.snapshot.parent
        return found[::-1]

    def held(self) -> list[tuple[int, str]]:
        """(snapshot that added it, file) for all that main holds, oldest first; what was added twice is there twice."""
        held: list[tuple[int, str]] = []
        for stored in self.line():
            if stored.removed or stored.masked:
                held = [(at, stored.masked.get(name, name)) for at, name in held if name not in stored.removed]
            held += [(stored.snapshot.id, name) for name in stored.files]
        return held

    def followed_by(self, stored: Stored) -> "Metadata":
        """With one more snapshot, which is main's head."""
        number = stored.snapshot.id
        return replace(self, version=self.version + 1, head=number, snapshots={**self.snapshots, number: stored})

    # ---- what people and their tools do: a new snapshot gets the id `number`, and nothing to do is no commit

    def appended(self, number: int, files: tuple[str, ...] = ()) -> "Metadata":
        """`INSERT INTO`: an append of these files, or of none."""
        return self.followed_by(Stored(IcebergSnapshot(number, self.head, _summary("append", files)), files))

    def rewritten(self, number: int, removed: frozenset[str], files: tuple[str, ...]) -> "Metadata":
        """`rewrite_data_files`: `files` hold the rows of those removed."""
        if not removed:
            return self
        summary = _summary("replace", files, removed)
        return self.followed_by(Stored(IcebergSnapshot(number, self.head, summary), files, removed))

    def overwritten(self, number: int, removed: frozenset[str], files: tuple[str, ...] = ()) -> "Metadata":
        """`DELETE FROM`, `INSERT OVERWRITE`: `files` hold what is left of those removed, and what is new."""
        summary = _summary("overwrite", files, removed)
        return self.followed_by(Stored(IcebergSnapshot(number, self.head, summary), files, removed))

    def replaced(self, number: int, files: tuple[str, ...]) -> "Metadata":
        """`CREATE OR REPLACE TABLE ... AS SELECT`: main begins anew; uuid, branches and old snapshots stay."""
        return self.followed_by(Stored(IcebergSnapshot(number, None, {"foreign": "overwrite"}), files))

    def emptied(self) -> "Metadata":
        """`CREATE OR REPLACE TABLE` without rows: main is no more; uuid, branches and old snapshots stay."""
        return replace(self, version=self.version + 1, head=None)

    def created_anew(self, uuid: str) -> "Metadata":
        """`DROP TABLE`, `CREATE TABLE`: another table under the name."""
        return Metadata(self.version + 1, uuid, None, {})

    def altered(self) -> "Metadata":
        """`ALTER TABLE`: a version of the metadata without a snapshot."""
        return replace(self, version=self.version + 1)

    def rolled_back(self, to: int) -> "Metadata":
        """`rollback_to_snapshot`: main is where it was. Raises ValueError for what is no ancestor of it."""
        if to not in {each.id for each in self.ancestors()}:
            raise ValueError(f"cannot roll back to {to}: not an ancestor")
        return self.moved(to)

    def moved(self, to: int) -> "Metadata":
        """`set_current_snapshot`: main is any snapshot that is known. Raises ValueError for one that is not."""
        if to not in self.snapshots:
            raise ValueError(f"cannot set main to {to}: unknown")
        if to == self.head:
            return self
        return replace(self, version=self.version + 1, head=to)

    def cherry_picked(self, number: int, staged: int) -> "Metadata":
        """`cherrypick_snapshot` of an append: its files come to main, or main moves to it if it is a child of the head.

        Raises ValueError for one that is unknown, in main, or picked before.
        """
        if staged not in self.snapshots:
            raise ValueError(f"cannot pick {staged}: unknown")
        picked = self.snapshots[staged]
        if picked.snapshot.parent == self.head:
            return self.moved(staged)
        if any(str(staged) in (str(each.id), each.summary.get(SOURCE_SNAPSHOT_ID)) for each in self.ancestors()):
            raise ValueError(f"cannot pick {staged}: an ancestor, or picked before")
        summary = {**_summary("append", picked.files), SOURCE_SNAPSHOT_ID: str(staged)}
        return self.followed_by(Stored(IcebergSnapshot(number, self.head, summary), picked.files))

    def expired(self, older_than: int | None = None) -> "Metadata":
        """`expire_snapshots` with `retain_last` 1. It keeps the heads of main and of the branches, and whatever came
        into the metadata with the snapshot `older_than` or later. By default everything is older.
        """
        known = list(self.snapshots)
        young = set() if older_than is None else set(known[known.index(older_than) :])
        kept: set[int] = set()
        led_to: set[int] = set()
        for end in (self.head, *self.branches.values()):
            line = [each.id for each in self._back_from(end)]
            kept.update(line[:1], itertools.takewhile(young.__contains__, line))
            led_to.update(line)
        kept |= young - led_to
        if len(kept) == len(known):
            return self
        snapshots = {at: each for at, each in self.snapshots.items() if at in kept}
        gone = {at: each for at, each in self.snapshots.items() if at not in kept}
        return replace(self, version=self.version + 1, snapshots=snapshots, gone={**self.gone, **gone})

    def expired_but(self, last: int, young: set[int]) -> "Metadata":
        """`expire_snapshots` with `retain_last`: of main and of each branch the last so many stay, and on from there
        as far as they are `young`. What is on no branch goes if it is not young."""
        kept: set[int] = set()
        led_to: set[int] = set()
        for end in (self.head, *self.branches.values()):
            line = [each.id for each in self._back_from(end)]
            stays = next((at for at, each in enumerate(line) if at >= last and each not in young), len(line))
            kept.update(line[:stays])
            led_to.update(line)
        kept |= {each for each in self.snapshots if each in young and each not in led_to}
        snapshots = {at: each for at, each in self.snapshots.items() if at in kept}
        gone = {at: each for at, each in self.snapshots.items() if at not in kept}
        return replace(self, version=self.version + 1, snapshots=snapshots, gone={**self.gone, **gone})

    def remembered(self, forgotten: Mapping[int, Stored]) -> "Metadata":
        """With the history again that was expired: a backup of the metadata was restored."""
        return replace(
            self,
            version=self.version + 1,
            snapshots={**forgotten, **self.snapshots},
            came_back=self.came_back or bool(forgotten),
        )

    def _back_from(self, end: int | None) -> Iterator[IcebergSnapshot]:
        while end is not None and end in self.snapshots:
            yield self.snapshots[end].snapshot
            end = self.snapshots[end].snapshot.parent


@dataclass
class ModelCatalog:
    """The one pointer to each table's metadata, and the store of data files. What the oracle reads."""

    happened: Counter[str] = field(default_factory=Counter)
    tables: dict[str, Metadata] = field(default_factory=dict)
    files: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    came_at: dict[int, float] = field(default_factory=dict)
    """When each snapshot of a driver became the head of main."""
    deleted: set[str] = field(default_factory=set)
    """Files that maintenance has deleted. What they held is still in `files`, for the checks."""
    written_at: dict[str, float] = field(default_factory=dict)
    """When a driver wrote each file."""
    ids: Any = field(default_factory=lambda: itertools.count(1_000))

    def rows(self, table: str) -> list[tuple[int, Row]]:
        """(snapshot, row) for all that `main` holds, oldest first. Raises KeyError for a file that is gone."""
        metadata = self.tables.get(table)
        held = metadata.held() if metadata else []
        if gone := [name for _, name in held if base_of(name) in self.deleted]:
            raise KeyError(gone[0])
        return [(at, row) for at, name in held for row in self.files[name]]

    def ancestry(self, table: str) -> list[Stored]:
        metadata = self.tables.get(table)
        return metadata.line() if metadata else []


@dataclass(frozen=True)
class Rows:
    """The model's DataFrame of rows."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class ModelTable:
    """`tidegate.sinks.iceberg.table.IcebergTable` of one driver. Every read and every swap passes the network."""

    def __init__(self, catalog: ModelCatalog, network: Network, name: str, schema: Callable[[], Any]) -> None:
        self.catalog = catalog
        self.network = network
        self.name = name
        self._schema = schema

    # ---- the interface that the driver knows

    def create_if_absent(self, columns: str, partition_by: Any, *, replaces: bool = False) -> None:
        def create() -> None:
            if self.name not in self.catalog.tables:
                # its first snapshot comes along: what happens between the two is for tests with a real table
                first = next(self.catalog.ids)
                begun = Stored(IcebergSnapshot(first, None, {BEGUN: "true"}), ())
                self.catalog.tables[self.name] = Metadata(1, f"uuid-{next(self.catalog.ids)}", first, {first: begun})

        self._ask("create", create)

    @property
    def exists(self) -> bool:
        return self._ask("load", lambda: self.name in self.catalog.tables)

    @property
    def schema(self) -> Any:
        return self._schema()

    def let_rows_go(self) -> str:
        return ""

    @property
    def partition_by(self) -> tuple[str, ...]:
        """No table has partitions here."""
        return ()

    def begin(self) -> None:
        number = next(self.catalog.ids)
        self._commit(lambda base: base.followed_by(Stored(IcebergSnapshot(number, base.head, {BEGUN: "true"}), ())))

    def position(self) -> Floor:
        metadata = self._load()
        return Floor(metadata.uuid, metadata.head)

    def history(self, floor: Floor) -> History:
        metadata = self._load()
        return History(metadata.uuid, down_to(floor, (each.plain for each in metadata.ancestors())))

    def in_line(self, snapshot: int) -> bool:
        return snapshot in {each.id for each in self._load().ancestors()}

    def rows_of(self, batch_id: str, position: Floor) -> int:
        return rows_of_batch(replace(self._load(), head=position.head), self.catalog.files, batch_id)

    def rows_of_objects(self, uris: Collection[str], snapshot: int) -> list[HeldRows]:
        rows = rows_with_batches(replace(self._load(), head=snapshot), self.catalog.files)
        found = Counter((row[0], row[1], batch or "") for row, batch in rows if row[0] in uris)
        return [HeldRows(*place, count) for place, count in found.items()]

    def may_have_gained(self, uris: Collection[str], since: int, now: int) -> bool:
        """As exactly as the files' own bounds can say it."""
        before, after = (self.rows_of_objects(uris, each) for each in (since, now))
        return any(each not in before for each in after)

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        metadata = self._load()
        line = tuple(each.plain for each in metadata.ancestors())
        stay = {each.id for each in line}
        taken = (each.snapshot.plain.publishes for each in metadata.snapshots.values() if each.snapshot.id not in stay)
        return History(metadata.uuid, line), frozenset[str]().union(*taken)

    def rows_without_batch(self, position: Floor) -> int:
        """Nobody changes rows here."""
        return 0

    def now_called(self, name: str) -> str | None:
        """Nobody renames columns here."""
        return None

    def stage(self, rows: Rows, branch: str, properties: Mapping[str, str]) -> tuple[int, int]:
        return self.stage_files(None, rows, branch, properties)

    def loaded(self) -> Metadata:
        return self._load()

    def stage_files(
        self,
        loaded: Metadata | None,
        rows: Rows,
        branch: str,
        properties: Mapping[str, str],
        at: int | None = None,
    ) -> tuple[int, int]:
        """As `stage`. The commit of the rows is refused if the table is not the one that was loaded."""
        number = next(self.catalog.ids)
        name = f"file-{number}"
        self.catalog.files[name] = tuple(BroughtRow.of(each, properties[BATCH]) for each in rows.rows)
        self.catalog.written_at[name] = self.network.kernel.now
        summary = {**properties, "added-records": str(len(rows.rows)), ADDED[0]: str(int(bool(rows.rows)))}
        self._stage(branch, number, summary, (name,), loaded.uuid if loaded else "", at)
        return number, len(rows.rows)

    def stage_nothing(self, branch: str, properties: Mapping[str, str]) -> int:
        number = next(self.catalog.ids)
        self._stage(branch, number, {**properties, "added-records": "0"}, ())
        return number

    def stage_removal(
        self, staged: int, gone: Collection[RowsPlace], properties: Mapping[str, str], layout: Any = None
    ) -> tuple[int, int | None]:
        number = next(self.catalog.ids)
        metadata = self._load()
        masked: dict[str, str] = {}
        lost = 0
        for _, name in replace(metadata, head=staged).held():
            rows = self.catalog.files[name]
            left = [row for row in rows if (row[0], row[1], batch_of(row)) not in gone]
            if len(left) < len(rows):
                lost += len(rows) - len(left)
                masked[name] = f"{base_of(name)}~{number}-{len(masked)}"
                self.catalog.files[masked[name]] = tuple(left)
        if not masked:
            return staged, 0
        branch = next(name for name, at in metadata.branches.items() if at == staged)
        summary = {**properties, ON_TOP_OF: str(staged), "added-delete-files": str(len(masked))}

        def removed(base: Metadata) -> Metadata:
            stored = Stored(IcebergSnapshot(number, staged, summary), (), masked=masked)
            after = replace(base, version=base.version + 1, snapshots={**base.snapshots, number: stored})
            return replace(after, branches={**base.branches, branch: number})

        self._commit(removed, metadata.uuid)
        return number, lost

    def drop_branches(self, prefix: str) -> None:
        def dropped(base: Metadata) -> Metadata:
            left = {name: at for name, at in base.branches.items() if not name.startswith(prefix)}
            return replace(base, version=base.version + 1, branches=left)

        if any(name.startswith(prefix) for name in self._load().branches):
            self._commit(dropped, once=lambda: True)

    def publish(
        self, staged: int, batch_id: str, floor: Floor, properties: Mapping[str, str], seen: SeenVersion | None = None
    ) -> Published | Unprovable:
        number = next(self.catalog.ids)
        loaded = self._load()
        if staged not in loaded.snapshots:
            raise StagedIsGone(f"snapshot {staged} of batch {batch_id} is not in table {self.name}")
        files, masked = _of_driver(loaded, staged)
        summary = {**properties, PUBLISHED_WAP_ID: batch_id, SOURCE_SNAPSHOT_ID: str(staged)}
        summary |= {
            ADDED[0]: str(sum(bool(self.catalog.files[name]) for name in files)),
            "added-delete-files": str(len(masked)),
        }

        def appended(base: Metadata) -> Metadata:
            line = down_to(floor, (each.plain for each in base.ancestors()))
            told = verdict(History(loaded.uuid, line), batch_id, floor)
            if not isinstance(told, NotPublished):
                raise CommitRefused(told)
            require_seen(seen, line, self.name)
            both = self._with_what_others_have_marked(base, masked)
            return base.followed_by(Stored(IcebergSnapshot(number, base.head, summary), files, masked=both))

        try:
            self._commit(appended, loaded.uuid)
        except CommitRefused as refused:
            self.catalog.happened[REFUSED_BY_CONDITION] += 1
            return refused.verdict
        return Published(number, staged)

    def _with_what_others_have_marked(self, base: Metadata, masked: Mapping[str, str]) -> Mapping[str, str]:
        """Position deletes add up: a file has lost the rows that these name, and those that others have named since."""
        now = {base_of(name): name for _, name in base.held()} if masked else {}
        both: dict[str, str] = {}
        for name, left in masked.items():
            current, files = now[base_of(name)], self.catalog.files
            if current != name:
                lost = set(files[name]) - set(files[left])
                left = f"{left}~{base.version}"
                files[left] = tuple(row for row in files[current] if row not in lost)
            both[current] = left
        return both

    # ---- how Iceberg does it

    def _stage(
        self,
        branch: str,
        number: int,
        summary: dict[str, str],
        files: tuple[str, ...],
        uuid: str = "",
        at: int | None = None,
    ) -> None:
        first: int | None = None

        def created(base: Metadata) -> Metadata:
            nonlocal first
            if at is not None and at not in base.snapshots:
                raise CommitFailed(f"snapshot {at} of table {self.name} is gone")
            if first is None and base.head is not None:
                begins = base.head if at is None else at
                return replace(base, version=base.version + 1, branches={**base.branches, branch: begins})
            # a branch of an empty table begins with an empty append of its own, which is tried again like others
            first = first or next(self.catalog.ids)
            begun = {**base.snapshots, first: Stored(IcebergSnapshot(first, base.head, {}), ())}
            return replace(base, version=base.version + 1, snapshots=begun, branches={**base.branches, branch: first})

        def appended(base: Metadata) -> Metadata:
            stored = Stored(IcebergSnapshot(number, base.branches.get(branch, base.head), summary), files)
            snapshots = {**base.snapshots, number: stored}
            branches = {**base.branches, branch: number}
            return replace(base, version=base.version + 1, snapshots=snapshots, branches=branches)

        for tries_left in reversed(range(BRANCH_TRIES)):
            try:
                self._commit(created, once=lambda: first is None)
                break
            except CommitFailed:
                if not tries_left:
                    raise
        self._commit(appended, uuid)

    def _commit(
        self,
        change: Callable[[Metadata], Metadata],
        uuid: str = "",
        once: Callable[[], bool] = lambda: False,
    ) -> None:
        """Change what the catalog points to. `once`: Iceberg does not try it again after a conflict. That is so where a
        branch is made or dropped (`BaseTransaction`, `UpdateSnapshotReferencesOperation`)."""
        for _ in range(COMMIT_TRIES):
            base = self._load()
            uuid = uuid or base.uuid
            if base.uuid != uuid:
                raise CommitFailed(f"table {self.name} is another one than was loaded")
            after = change(base)
            if self._swap(base, after):
                return
            self.catalog.happened[REBASED] += 1
            if once():
                break
        raise CommitFailed(f"table {self.name}: the pointer was moved by somebody else")

    def _load(self) -> Metadata:
        return self._ask("load", lambda: self.catalog.tables[self.name])

    def _swap(self, base: Metadata, after: Metadata) -> bool:
        def swap() -> bool:
            # the compare-and-swap that Glue, REST and JDBC catalogs do
            if self.catalog.tables[self.name].version != base.version:
                return False
            self.catalog.tables[self.name] = after
            if after.head is not None:
                self.catalog.came_at.setdefault(after.head, self.network.kernel.now)
            return True

        return self.network.call(
            "iceberg.swap",
            swap,
            lost=lambda: CommitStateUnknown(f"table {self.name}: no answer from the catalog"),
            failed=lambda: NoAnswer(f"table {self.name}: the catalog refuses"),
        )

    def _ask(self, what: str, question: Callable[[], Any]) -> Any:
        error = NoAnswer(f"table {self.name}: the catalog does not answer")
        return self.network.call(f"iceberg.{what}", question, lost=lambda: error, failed=lambda: error)


def _summary(kind: str, files: Collection[str] = (), removed: Collection[str] = ()) -> dict[str, str]:
    """Of a snapshot that others committed."""
    return {"foreign": kind, ADDED[0]: str(len(files)), REMOVED[0]: str(len(removed))}


def _of_driver(table: Metadata, staged: int) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The files that a driver has staged, one snapshot on the other, and those of others that have lost rows by it."""
    line = [table.snapshots[staged]]
    if under := line[0].snapshot.summary.get(ON_TOP_OF):
        if int(under) not in table.snapshots:
            raise StagedIsGone(f"snapshot {under} is gone")
        line.append(table.snapshots[int(under)])
    files: list[str] = []
    masked: dict[str, str] = {}
    for stored in reversed(line):
        masked |= {name: left for name, left in stored.masked.items() if name not in files}
        files = [*(stored.masked.get(name, name) for name in files), *stored.files]
    return tuple(files), masked


def base_of(name: str) -> str:
    """The file that holds these rows, of which it has perhaps lost some."""
    return name.partition("~")[0]


def rows_of_batch(table: Metadata, files: Mapping[str, Sequence[Row]], batch: str) -> int:
    """How many rows of the batch main has."""
    return sum(of == batch for _, of in rows_with_batches(table, files))


def rows_with_batches(table: Metadata, files: Mapping[str, Sequence[Row]]) -> Iterator[tuple[Row, str | None]]:
    """The rows that main has, each with its batch: in the batch's own files, or in those to which others have moved
    them."""
    for _, name in table.held():
        for row in files[name]:
            yield row, batch_of(row) or None

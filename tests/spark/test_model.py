"""The simulation's model of a table does as Iceberg does: the same steps leave the same history, and the same verdicts.

The steps are a driver's, and what people and their tools do to a table; also in the middle of a driver's commit.
Snapshots are compared by the order in which they came into `main`, because their ids are chosen by chance.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from simulation.world.faults import At
from simulation.world.kernel import Kernel
from simulation.world.network import Network
from simulation.world.table import Metadata, ModelCatalog, ModelTable, Row, Rows
from tidegate.core.publication import (
    Floor,
    History,
    NotPublished,
    Published,
    verdict,
)
from tidegate.flows.sink import StagedIsGone
from tidegate.sinks.iceberg.condition import CommitCondition
from tidegate.sinks.iceberg.marks import BATCH, PUBLISHED_WAP_ID, SOURCE_SNAPSHOT_ID, IcebergSnapshot
from tidegate.sinks.iceberg.table import IcebergTable

pytestmark = pytest.mark.spark

BATCHES = ("one", "two", "three")

Step = tuple[Any, ...]
"""A driver's: ("stage", batch, how many rows), ("fence", batch), ("publish", which of the staged ones, which floor),
("begin",), ("drop", batch), ("floor",).

Somebody's: ("append",), ("rewrite",), ("delete", which row), ("overwrite",), ("alter",), ("replace",), ("empty",),
("anew",), ("roll", to which snapshot), ("move", to which), ("pick", which of the staged ones), ("expire", from which
of main's ancestors on it is kept).

Both: ("meet", when, what happens then, the driver's step)."""


class Table(Protocol):
    """A table that steps are taken on. A row is its id; those of one write follow one another, from `first` on."""

    def stage(self, branch: str, batch: str, first: int, rows: int) -> int: ...

    def fence(self, branch: str, batch: str) -> int: ...

    def publish(self, staged: int, batch: str, floor: Floor) -> Any:
        """What the commit said. Raises StagedIsGone."""
        ...

    def meeting(self, when: str, happens: Callable[[], None]) -> AbstractContextManager[Any]:
        """Have something happen while a driver publishes, fences or drops its branches: see WHEN."""
        ...

    def begin(self) -> None: ...

    def drop(self, batch: str) -> None: ...

    def append(self) -> None:
        """Somebody else appends, without rows."""
        ...

    def rewrite(self) -> None: ...

    def delete(self, row: int) -> None: ...

    def overwrite(self, row: int) -> None:
        """This row takes the place of all that main holds."""
        ...

    def alter(self) -> None: ...

    def replace(self, row: int) -> None:
        """Somebody creates or replaces the table, with this row."""
        ...

    def empty(self) -> None:
        """Somebody creates or replaces the table, with no row."""
        ...

    def anew(self) -> None:
        """Somebody drops the table and creates it again."""
        ...

    def roll(self, to: int) -> None: ...

    def move(self, to: int) -> None: ...

    def pick(self, staged: int) -> None: ...

    def expire(self, older_than: int | None) -> None:
        """Somebody forgets all history that is older; or all of it, but the heads of main and of the branches."""
        ...

    def position(self) -> Floor: ...

    def history(self, floor: Floor) -> History: ...

    def main(self) -> list[IcebergSnapshot]: ...

    def look(self) -> "Look": ...

    def rows(self) -> list[int]: ...


@dataclass(frozen=True)
class Look:
    """What the metadata says: the table's uuid, how many branches there are but main, the snapshots that are known, and
    how many rows main holds."""

    uuid: str
    branches: int
    known: frozenset[int]
    count: int


REFUSALS = (Py4JJavaError, PySparkException, ValueError)
"""What Spark, Iceberg and the model raise for what cannot be done."""


class Iceberg:
    _numbers = count()

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._short = f"model.t{next(self._numbers)}"
        self._name = f"lake.{self._short}"
        self._columns = count()
        self._table = IcebergTable(spark, self._name)
        self._create()
        self._table.begin()

    def _create(self) -> None:
        self._table.create_if_absent("id bigint", [])

    def _call(self, procedure: str, arguments: str) -> None:
        self._spark.sql(f"CALL lake.system.{procedure}('{self._short}', {arguments})")

    def stage(self, branch: str, batch: str, first: int, rows: int) -> int:
        frame = self._spark.range(first, first + rows, 1, 1)
        for column in self._table.schema.fieldNames()[1:]:
            frame = frame.withColumn(column, lit(None).cast("string"))
        return self._table.stage(frame, branch, {BATCH: batch})[0]

    def fence(self, branch: str, batch: str) -> int:
        return self._table.stage_nothing(branch, {BATCH: batch})

    def publish(self, staged: int, batch: str, floor: Floor) -> Any:
        return self._table.publish(staged, batch, floor, {BATCH: batch})

    def meeting(self, when: str, happens: Callable[[], None]) -> AbstractContextManager[Any]:
        if when == "swap":
            return after_call(CommitCondition, "validate", 1, happens)
        if when == "load":
            return after_call(IcebergTable, "_load", 1, happens)
        return after_call(IcebergTable, "_load", 1, lambda: None, lambda table: Branching(table, happens))

    def begin(self) -> None:
        self._table.begin()

    def drop(self, batch: str) -> None:
        self._table.drop_branches(f"{batch}_")

    def append(self) -> None:
        self._table._load().newAppend().commit()

    def rewrite(self) -> None:
        self._spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{self._short}', options => map('rewrite-all', 'true'))"
        )

    def delete(self, row: int) -> None:
        self._spark.sql(f"DELETE FROM {self._name} WHERE id = {row}")

    def overwrite(self, row: int) -> None:
        self._spark.sql(f"INSERT OVERWRITE {self._name} (id) VALUES ({row})")

    def alter(self) -> None:
        self._spark.sql(f"ALTER TABLE {self._name} ADD COLUMN more{next(self._columns)} string")

    def replace(self, row: int) -> None:
        self._spark.sql(f"CREATE OR REPLACE TABLE {self._name} USING iceberg AS SELECT {row}L AS id")

    def empty(self) -> None:
        self._spark.sql(f"CREATE OR REPLACE TABLE {self._name} (id bigint) USING iceberg")

    def anew(self) -> None:
        self._spark.sql(f"DROP TABLE {self._name}")
        self._create()

    def roll(self, to: int) -> None:
        self._call("rollback_to_snapshot", str(to))

    def move(self, to: int) -> None:
        self._call("set_current_snapshot", str(to))

    def pick(self, staged: int) -> None:
        self._call("cherrypick_snapshot", str(staged))

    def expire(self, older_than: int | None) -> None:
        # the procedure commits the same, and takes a Spark job to find the files to delete
        table = self._table._load()
        when = 32_503_680_000_000 if older_than is None else table.snapshot(older_than).timestampMillis()
        table.expireSnapshots().expireOlderThan(when).retainLast(1).commit()

    def position(self) -> Floor:
        return self._table.position()

    def history(self, floor: Floor) -> History:
        return self._table.history(floor)

    def main(self) -> list[IcebergSnapshot]:
        return self._table.main()

    def look(self) -> Look:
        table = self._table._load()
        head = table.currentSnapshot()
        return Look(
            str(table.uuid()),
            len([name for name in table.refs() if name != "main"]),
            frozenset(snapshot.snapshotId() for snapshot in table.snapshots()),
            0 if head is None else int(head.summary()["total-records"]),
        )

    def rows(self) -> list[int]:
        return sorted(row.id for row in self._spark.table(self._name).collect())


class Model:
    """Every call of a driver passes the network, as in the simulation; what others do is simply done."""

    NAME = "lake.model.t"

    def __init__(self) -> None:
        self._kernel = Kernel(0)
        self._catalog = ModelCatalog()
        self._table = ModelTable(self._catalog, Network(self._kernel, {}, At()), self.NAME, lambda: None)
        self._drive(lambda: self._table.create_if_absent("id bigint", []))

    @property
    def _metadata(self) -> Metadata:
        return self._catalog.tables[self.NAME]

    def _drive(self, call: Callable[[], Any]) -> Any:
        if self._kernel.current is not None:
            return call()
        driver = self._kernel.spawn("driver", call)
        self._kernel.run(lambda: driver.ended, float("inf"))
        if driver.error is not None:
            raise driver.error
        return driver.answer

    def _become(self, metadata: Metadata) -> None:
        self._catalog.tables[self.NAME] = metadata

    def _number(self) -> int:
        number: int = next(self._catalog.ids)
        return number

    def _write(self, rows: Sequence[Row]) -> tuple[str, ...]:
        if not rows:
            return ()
        name = f"foreign-{self._number()}"
        self._catalog.files[name] = tuple(rows)
        return (name,)

    def _all_files(self) -> frozenset[str]:
        return frozenset(name for _, name in self._metadata.held())

    def stage(self, branch: str, batch: str, first: int, rows: int) -> int:
        made = Rows(("id",), tuple(_row(number) for number in range(first, first + rows)))
        staged: int = self._drive(lambda: self._table.stage(made, branch, {BATCH: batch}))[0]
        return staged

    def fence(self, branch: str, batch: str) -> int:
        staged: int = self._drive(lambda: self._table.stage_nothing(branch, {BATCH: batch}))
        return staged

    def publish(self, staged: int, batch: str, floor: Floor) -> Any:
        return self._drive(lambda: self._table.publish(staged, batch, floor, {BATCH: batch}))

    def meeting(self, when: str, happens: Callable[[], None]) -> AbstractContextManager[Any]:
        # publishing and dropping load once for themselves, and all load once for each try of a commit
        return after_call(ModelTable, "_load", 1 if when in ("load", "branch") else 2, happens)

    def begin(self) -> None:
        self._drive(self._table.begin)

    def drop(self, batch: str) -> None:
        self._drive(lambda: self._table.drop_branches(f"{batch}_"))

    def append(self) -> None:
        self._become(self._metadata.appended(self._number()))

    def rewrite(self) -> None:
        files = self._write([row for _, row in self._catalog.rows(self.NAME)])
        self._become(self._metadata.rewritten(self._number(), self._all_files(), files))

    def delete(self, row: int) -> None:
        held = [name for _, name in self._metadata.held()]
        touched = frozenset(name for name in held if _row(row) in self._catalog.files[name])
        left = [each for name in held if name in touched for each in self._catalog.files[name] if each != _row(row)]
        self._become(self._metadata.overwritten(self._number(), touched, self._write(left)))

    def overwrite(self, row: int) -> None:
        self._become(self._metadata.overwritten(self._number(), self._all_files(), self._write([_row(row)])))

    def alter(self) -> None:
        self._become(self._metadata.altered())

    def replace(self, row: int) -> None:
        self._become(self._metadata.replaced(self._number(), self._write([_row(row)])))

    def empty(self) -> None:
        self._become(self._metadata.emptied())

    def anew(self) -> None:
        self._become(self._metadata.created_anew(f"uuid-{self._number()}"))

    def roll(self, to: int) -> None:
        self._become(self._metadata.rolled_back(to))

    def move(self, to: int) -> None:
        self._become(self._metadata.moved(to))

    def pick(self, staged: int) -> None:
        self._become(self._metadata.cherry_picked(self._number(), staged))

    def expire(self, older_than: int | None) -> None:
        self._become(self._metadata.expired(older_than))

    def position(self) -> Floor:
        floor: Floor = self._drive(self._table.position)
        return floor

    def history(self, floor: Floor) -> History:
        history: History = self._drive(lambda: self._table.history(floor))
        return history

    def main(self) -> list[IcebergSnapshot]:
        return list(self._drive(self._table._load).ancestors())

    def holds_a_file_twice(self) -> bool:
        held = [name for _, name in self._metadata.held()]
        return len(held) > len(set(held))

    def is_on_a_branch(self, staged: int) -> bool:
        return staged in self._metadata.branches.values()

    def look(self) -> Look:
        found = self._metadata
        return Look(found.uuid, len(found.branches), frozenset(found.snapshots), len(self._catalog.rows(self.NAME)))

    def rows(self) -> list[int]:
        return sorted(number for _, (_, _, number) in self._catalog.rows(self.NAME))


def _row(number: int) -> Row:
    return "row", "v1", number


@dataclass
class Branching:
    """Iceberg's table, to which something happens once it is settled what the change of its branches is based on."""

    table: Any
    happens: Callable[[], None]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.table, name)

    def manageSnapshots(self) -> Any:  # noqa: N802
        based = self.table.manageSnapshots()
        self.happens()
        return based


@contextmanager
def after_call(
    owner: type[Any],
    method: str,
    nth: int,
    happens: Callable[[], None],
    wrapped: Callable[[Any], Any] = lambda answer: answer,
) -> Iterator[None]:
    """Have this happen after the nth call of the method, before its caller goes on."""
    original = getattr(owner, method)
    calls = count(1)

    def called(self: Any, *arguments: Any) -> Any:
        answer = original(self, *arguments)
        if next(calls) != nth:
            return answer
        happens()
        return wrapped(answer)

    with patch.object(owner, method, called):
        yield


# ---- what is compared


@dataclass
class Life:
    """What was done to a table, and what is to be seen of it: ids as numbers, by the order in which they appeared."""

    table: Table
    staged: list[tuple[int, str]] = field(default_factory=list)
    floors: list[Floor] = field(default_factory=list)
    heads: dict[int, int] = field(default_factory=dict)
    uuids: list[str] = field(default_factory=list)
    writes: Iterator[int] = field(default_factory=lambda: count(0, 10))

    def __post_init__(self) -> None:
        self.floors.append(self.table.position())
        assert self.floors[0].head is not None
        # the empty append that a table begins with
        self.heads[self.floors[0].head] = 0

    def take(self, step: Step) -> "SeenVersion":
        said, main, judged, look = self._do(*step), self._main(), self._judged(), self.table.look()
        return SeenVersion(said, main, judged, look.branches, self._known(look), look.count)

    def _do(self, verb: str, *what: Any) -> Any:
        try:
            if verb == "meet":
                return self._meet(*what)
            if verb == "publish":
                return self._publish(*what)
            self._simply(verb, *what)
        except StagedIsGone:
            return "gone"
        except REFUSALS:
            return "refused"
        return ""

    def _simply(self, verb: str, *what: Any) -> None:
        if verb in ("stage", "fence"):
            batch, *rows = what
            branch = f"{batch}_{len(self.staged)}"
            made = (
                self.table.stage(branch, batch, next(self.writes), *rows) if rows else self.table.fence(branch, batch)
            )
            self.staged.append((made, batch))
        elif verb == "floor":
            self.floors.append(self.table.position())
        elif verb in ("roll", "move"):
            seen = [*self.heads, *[made for made, _ in self.staged]]
            getattr(self.table, verb)(seen[what[0] % len(seen)])
        elif verb == "pick":
            if self.staged:
                self.table.pick(self.staged[what[0] % len(self.staged)][0])
        elif verb == "expire":
            ancestors = self._ancestors()
            old = not what or not ancestors
            self.table.expire(None if old else ancestors[what[0] % len(ancestors)].id)
        elif verb in ("overwrite", "replace"):
            getattr(self.table, verb)(next(self.writes))
        else:
            getattr(self.table, verb)(*what)

    def _publish(self, which: int, floor: int) -> Any:
        if not self.staged:
            return "nothing"
        made, batch = self.staged[which % len(self.staged)]
        return self._told(self.table.publish(made, batch, self.floors[floor % len(self.floors)]))

    def _meet(self, when: str, happens: Step, step: Step) -> Any:
        met: list[Any] = []
        with self.table.meeting(when, lambda: met.append(self._do(*happens))):
            return self._do(*step), met

    def _told(self, decided: Any) -> Any:
        if isinstance(decided, Published):
            self.heads.setdefault(decided.snapshot, len(self.heads))
            return self.heads[decided.snapshot], self._number(decided.staged)
        return "not published" if isinstance(decided, NotPublished) else "unprovable"

    def _number(self, staged: int) -> int:
        return [made for made, _ in self.staged].index(staged)

    def _ancestors(self) -> Any:
        return self.table.main()

    def _main(self) -> Any:
        ancestors = [each for each in self._ancestors() if self.heads.get(each.id) != 0]
        for each in reversed(ancestors):
            self.heads.setdefault(each.id, len(self.heads))
        return [(self.heads[each.id], self.heads.get(each.parent), self._summary(each.summary)) for each in ancestors]

    def _summary(self, summary: dict[str, str]) -> Any:
        source = summary.get(SOURCE_SNAPSHOT_ID)
        told: dict[str, Any] = {name: summary[name] for name in (PUBLISHED_WAP_ID, BATCH) if name in summary}
        if source:
            told["source"] = self._number(int(source))
        if BATCH not in summary:
            # Iceberg's own word; the model marks with it what others did
            operation = summary.get("foreign") or summary.get("operation", "append")
            # which of the two it is depends on what Iceberg knows of a file without reading it
            told["operation"] = "overwrite" if operation == "delete" else operation
        return told

    def _known(self, look: Look) -> Any:
        """Which table it is, how many snapshots are in the metadata, and which of those that were met."""
        if look.uuid not in self.uuids:
            self.uuids.append(look.uuid)
        met = [number for at, number in self.heads.items() if at in look.known]
        return self.uuids.index(look.uuid), len(look.known), met, [made in look.known for made, _ in self.staged]

    def _judged(self) -> list[Any]:
        """The verdict on each batch, from each floor."""
        return [
            self._told(verdict(history, batch, floor))
            for floor, history in [(floor, self.table.history(floor)) for floor in self.floors]
            for batch in BATCHES
        ]


@dataclass(frozen=True)
class SeenVersion:
    """What the last step said and left."""

    said: Any
    main: Any
    judged: list[Any]
    branches: int
    known: Any
    count: int
    rows: Sequence[int] = ()
    """Only at the end: reading them takes a Spark job."""


def is_beyond(step: Step, life: Life) -> bool:
    """Whether the model leaves out what Iceberg does then.

    Main holds a file twice, because a person picked it by hand before a driver published it: Iceberg refuses to rewrite
    the file, and spoils it when a row is deleted. Or a driver publishes what no branch keeps, and expiry deletes the
    files under it.
    """
    assert isinstance(life.table, Model)
    happens, ours = step[2:] if step[0] == "meet" else (step, ("",))
    if happens[0] in ("rewrite", "delete"):
        return life.table.holds_a_file_twice()
    if happens[0] == "expire" and ours[0] == "publish" and life.staged:
        return not life.table.is_on_a_branch(life.staged[ours[1] % len(life.staged)][0])
    return False


def both(spark: SparkSession, steps: Sequence[Step]) -> SeenVersion:
    """Take the steps on both, and hold them against each other; what was seen after the last, and the rows in main."""
    model, iceberg = Life(Model()), Life(Iceberg(spark))
    for number, step in enumerate(steps):
        if is_beyond(step, model):
            continue
        seen, there = model.take(step), iceberg.take(step)
        assert seen == there, f"after step {number}, {step}"
    rows = model.table.rows()
    assert rows == iceberg.table.rows()
    return replace(seen, rows=rows)


# ---- sequences that matter

NOT = "not published"
UNPROVABLE = "unprovable"


def ours(number: int, parent: int, batch: str, source: int) -> Any:
    """A snapshot in main that published a batch."""
    return number, parent, {PUBLISHED_WAP_ID: batch, BATCH: batch, "source": source}


def foreign(number: int, parent: int | None, operation: str) -> Any:
    return number, parent, {"operation": operation}


def test_what_is_staged_is_not_in_main(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 3)])
    assert (seen.main, seen.judged, seen.branches, seen.rows) == ([], [NOT] * 3, 1, [])


def test_what_is_published_names_its_batch_and_its_source(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 3), ("publish", 0, 0), ("drop", "one")])
    assert (seen.main, seen.branches, seen.rows) == ([ours(1, 0, "one", 0)], 0, [0, 1, 2])
    assert seen.judged == [(1, 0), NOT, NOT]


def test_what_was_staged_before_others_wrote_is_published_behind_them(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 1), ("append",), ("stage", "two", 2), ("publish", 1, 0), ("publish", 0, 0)])
    assert (seen.said, [number for number, *_ in seen.main], seen.rows) == ((3, 0), [3, 2, 1], [0, 10, 11])
    assert seen.judged == [(3, 0), (2, 1), NOT]


@pytest.mark.parametrize("first", [0, 1])
def test_of_twins_one_is_published_and_the_other_is_told_so_by_its_commit(spark: SparkSession, first: int) -> None:
    seen = both(spark, [("stage", "one", 1), ("stage", "one", 1), ("publish", first, 0), ("publish", 1 - first, 0)])
    assert (seen.said, len(seen.main), seen.judged[0], seen.rows) == ((1, first), 1, (1, first), [10 * first])


def test_after_the_fence_nothing_is_published(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 2), ("fence", "one"), ("append",), ("publish", 1, 0), ("publish", 0, 0)])
    assert (seen.said, seen.judged[0], seen.rows) == ((2, 1), (2, 1), [])


def test_a_fence_after_the_publish_is_refused(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 2), ("publish", 0, 0), ("fence", "one"), ("publish", 1, 0)])
    assert (seen.said, len(seen.main), seen.rows) == ((1, 0), 1, [0, 1])


def test_a_twin_is_refused_once_the_history_is_cut(spark: SparkSession) -> None:
    cut = [("append",), ("expire",)]
    seen = both(
        spark, [("append",), ("floor",), *[("stage", "one", 2)] * 2, ("publish", 0, 1), *cut, ("publish", 1, 1)]
    )
    assert (seen.said, len(seen.main), seen.rows) == (UNPROVABLE, 1, [0, 1])
    assert seen.judged == [UNPROVABLE] * 6


def test_a_floor_that_is_the_head_answers_after_expiry(spark: SparkSession) -> None:
    seen = both(spark, [("append",), ("append",), ("floor",), ("stage", "one", 1), ("expire",), ("publish", 0, 1)])
    assert (seen.said, len(seen.main), seen.rows) == ((3, 0), 2, [0])


def test_a_floor_beyond_the_batch_does_not_see_it(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 1), ("publish", 0, 0), ("floor",), ("stage", "two", 1), ("publish", 1, 1)])
    assert seen.judged == [(1, 0), (2, 1), NOT, NOT, (2, 1), NOT]


# ---- what people and their tools do

PUBLISHED: list[Step] = [("stage", "one", 3), ("publish", 0, 0)]
"""Rows 0, 1 and 2 are in main, as snapshot 1."""


def test_what_was_rolled_back_is_published_again_and_rolling_forward_takes_it_out(spark: SparkSession) -> None:
    again: list[Step] = [*PUBLISHED, ("roll", 0), ("fence", "one"), ("publish", 1, 0)]
    seen = both(spark, again)
    assert (seen.main, seen.judged[0], seen.rows) == ([ours(2, 0, "one", 1)], (2, 1), [])
    seen = both(spark, [*again, ("roll", 1), ("move", 1)])
    assert (seen.main, seen.judged[0], seen.rows) == ([ours(1, 0, "one", 0)], (1, 0), [0, 1, 2])


def test_below_the_floor_nothing_can_be_said(spark: SparkSession) -> None:
    seen = both(spark, [("append",), ("floor",), ("stage", "one", 1), ("roll", 0), ("publish", 0, 1)])
    assert (seen.said, seen.main, seen.judged[3:]) == (UNPROVABLE, [], [UNPROVABLE] * 3)


def test_main_moved_to_what_is_staged_went_past_the_check(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 1), ("append",), ("stage", "two", 1), ("move", 2)])
    assert (seen.said, seen.judged, seen.rows) == ("", [UNPROVABLE, NOT, NOT], [0])


def test_compaction_and_a_new_column_keep_rows_and_verdict(spark: SparkSession) -> None:
    more: list[Step] = [("stage", "two", 1), ("publish", 1, 0)]
    seen = both(spark, [*PUBLISHED, *more, ("rewrite",), ("alter",), ("fence", "one"), ("publish", 2, 0)])
    assert (seen.said, seen.main[0], seen.rows) == ((1, 0), foreign(3, 2, "replace"), [0, 1, 2, 10])


def test_rows_that_somebody_takes_out_do_not_come_back(spark: SparkSession) -> None:
    steps = [*PUBLISHED, ("delete", 1), ("delete", 1), ("stage", "one", 1), ("publish", 1, 0)]
    seen = both(spark, steps)
    assert (seen.said, seen.main[:2], seen.rows) == (
        (1, 0),
        [foreign(3, 2, "overwrite"), foreign(2, 1, "overwrite")],
        [0, 2],
    )
    seen = both(spark, [*PUBLISHED, ("overwrite",), ("publish", 0, 0)])
    assert (seen.said, seen.main[0], seen.rows) == ((1, 0), foreign(2, 1, "overwrite"), [10])


@pytest.mark.parametrize("how", ["replace", "empty"])
def test_a_table_that_was_replaced_forgets_and_remembers_when_main_moves_back(spark: SparkSession, how: str) -> None:
    replaced: list[Step] = [*PUBLISHED, (how,), ("fence", "one"), ("publish", 1, 0)]
    seen = both(spark, replaced)
    there = [10] if how == "replace" else []
    assert (seen.said, seen.judged, seen.known[0], seen.rows) == (UNPROVABLE, [UNPROVABLE] * 3, 0, there)
    assert [parent for _, parent, _ in seen.main] == [None] * len(there)
    seen = both(spark, [*replaced, ("move", 1), ("publish", 1, 0)])
    assert (seen.said, seen.judged[0], seen.rows) == ((1, 0), (1, 0), [0, 1, 2])


def test_a_table_that_was_created_anew_is_another_one(spark: SparkSession) -> None:
    seen = both(spark, [*PUBLISHED, ("anew",), ("begin",), ("floor",), ("fence", "one"), ("publish", 0, 0)])
    assert (seen.said, seen.known[0], seen.judged, seen.rows) == ("gone", 1, [UNPROVABLE] * 3 + [NOT] * 3, [])


def test_expiry_keeps_what_is_younger(spark: SparkSession) -> None:
    steps: list[Step] = [("append",), ("append",), ("floor",), ("append",), ("append",), ("expire", 2)]
    seen = both(spark, [*steps, ("fence", "one"), ("publish", 0, 1)])
    assert (seen.said, [number for number, *_ in seen.main]) == ((5, 0), [5, 4, 3, 2])


def test_rows_of_what_a_branch_keeps_below_the_cut_stay_in_main(spark: SparkSession) -> None:
    """The head of a branch is an ancestor of main and outlives what is between them."""
    steps: list[Step] = [("stage", "one", 2), ("pick", 0), ("append",), ("append",), ("expire",)]
    assert both(spark, steps).rows == [0, 1]


def test_what_a_person_picks_is_not_recognised_unless_main_moves_to_it(spark: SparkSession) -> None:
    seen = both(spark, [("stage", "one", 1), ("append",), ("pick", 0), ("pick", 0), ("publish", 0, 0)])
    assert (seen.said, seen.rows) == ((3, 0), [0, 0])
    seen = both(spark, [("stage", "one", 1), ("pick", 0), ("publish", 0, 0)])
    assert (seen.said, seen.rows) == (UNPROVABLE, [0])


# ---- in the middle of a commit

WHEN = ("load", "swap", "branch", "drop")
"""While a driver publishes: between what it loaded and its commit, or between the commit's question and the catalog's
swap. While it makes its branch, and while it drops its branches: before the catalog's swap."""


@pytest.mark.parametrize("when", ["load", "swap"])
@pytest.mark.parametrize(
    ("happens", "said"),
    [
        (("append",), (4, 0)),
        (("publish", 1, 1), (4, 1)),
        (("expire",), UNPROVABLE),
        (("roll", 0), UNPROVABLE),
        (("replace",), UNPROVABLE),
        (("anew",), "refused"),
    ],
    ids=["append", "publish", "expire", "roll", "replace", "anew"],
)
def test_a_commit_is_judged_by_what_it_is_based_on(spark: SparkSession, when: str, happens: Step, said: Any) -> None:
    begun: list[Step] = [("append",), ("floor",), ("append",), ("append",), ("fence", "one"), ("fence", "one")]
    seen = both(spark, [*begun, ("meet", when, happens, ("publish", 0, 1))])
    assert seen.said[0] == said


def test_a_branch_is_made_again_and_not_dropped_if_anything_is_committed_meanwhile(spark: SparkSession) -> None:
    seen = both(spark, [("meet", "branch", ("alter",), ("fence", "one"))])
    assert (seen.said[0], seen.branches) == ("", 1)
    seen = both(spark, [("fence", "one"), ("meet", "drop", ("alter",), ("drop", "one"))])
    assert (seen.said[0], seen.branches) == ("refused", 1)


def test_a_branch_of_an_empty_table_is_made_whatever_is_committed_meanwhile(spark: SparkSession) -> None:
    seen = both(spark, [("empty",), ("meet", "branch", ("append",), ("fence", "one"))])
    assert (seen.said[0], seen.branches) == ("", 1)


# ---- any sequence

EXAMPLES = int(os.environ.get("SEQUENCES", "8"))
"""How many. Whoever asks for a number gets others each time; a hundred take two minutes."""

NUMBER = st.integers(0, 7)
BATCH_NAMES = st.sampled_from(BATCHES)
FENCE = st.tuples(st.just("fence"), BATCH_NAMES)
STAGE = st.tuples(st.just("stage"), BATCH_NAMES, st.integers(1, 3))
PUBLISH = st.tuples(st.just("publish"), NUMBER, NUMBER)
DROP = st.tuples(st.just("drop"), BATCH_NAMES)
FOREIGN = st.one_of(
    *[st.just((verb,)) for verb in ("append", "rewrite", "overwrite", "alter", "replace", "empty", "anew", "expire")],
    *[st.tuples(st.just(verb), NUMBER) for verb in ("expire", "roll", "move", "pick")],
    st.tuples(st.just("delete"), st.sampled_from((0, 1, 10, 11, 20, 30))),
)
MEET = st.one_of(
    *[st.tuples(st.just("meet"), st.sampled_from(("load", "swap")), FOREIGN | PUBLISH, PUBLISH)] * 4,
    st.tuples(st.just("meet"), st.just("branch"), FOREIGN | PUBLISH, FENCE),
    st.tuples(st.just("meet"), st.just("drop"), FOREIGN | PUBLISH, DROP),
)
KINDS = (STAGE, FENCE, DROP, st.just(("floor",)), st.just(("begin",)), *[PUBLISH] * 3, *[MEET] * 3, *[FOREIGN] * 4)
STEPS = st.builds(
    lambda staged, steps: [*staged, *steps],
    st.lists(FENCE | STAGE, min_size=1, max_size=3),
    st.lists(st.sampled_from(KINDS).flatmap(lambda kind: kind), min_size=2, max_size=9),
)


@settings(
    max_examples=EXAMPLES,
    derandomize="SEQUENCES" not in os.environ,
    database=None,
    phases=[Phase.explicit, Phase.generate],
)
@given(steps=STEPS)
def test_any_sequence_leaves_the_same_history(spark: SparkSession, steps: list[Step]) -> None:
    both(spark, steps)

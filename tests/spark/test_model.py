"""The simulation's model of a table does as Iceberg does: the same steps leave the same history, and the same verdicts.

Snapshots are compared by the order in which they came into `main`, because their ids are chosen by chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.sim.faults import At
from tests.sim.kernel import Kernel
from tests.sim.network import Network
from tests.sim.table import Catalog, ModelTable, Rows, Stored
from tidegate.core.publication import (
    BATCH,
    PUBLISHED_WAP_ID,
    SOURCE_SNAPSHOT_ID,
    Floor,
    History,
    NotPublished,
    Published,
    Snapshot,
    verdict,
)
from tidegate.spark.table import IcebergTable, StagedIsGone

pytestmark = pytest.mark.spark

BATCHES = ("one", "two", "three")

Step = tuple[Any, ...]
"""("stage", batch, rows), ("fence", batch), ("publish", which of the staged ones, which floor), ("foreign",),
("expire",), ("drop", batch), ("floor",)."""


class Table(Protocol):
    """A table that steps are taken on."""

    def stage(self, branch: str, batch: str, rows: int) -> int: ...

    def fence(self, branch: str, batch: str) -> int: ...

    def publish(self, staged: int, batch: str, floor: Floor) -> Any:
        """What the commit said. Raises StagedIsGone."""
        ...

    def foreign(self) -> None:
        """Somebody else appends."""
        ...

    def expire(self) -> None:
        """Somebody forgets all history but the heads of main and of the branches."""
        ...

    def drop(self, batch: str) -> None: ...

    def position(self) -> Floor: ...

    def history(self, floor: Floor) -> History: ...

    def branches(self) -> int: ...

    def rows(self) -> int:
        """How many there are in main."""
        ...


class Iceberg:
    _numbers = count()

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._table = IcebergTable(spark, f"lake.model.t{next(self._numbers)}")
        self._table.create_if_absent("id bigint", [])
        self._table.begin()

    def stage(self, branch: str, batch: str, rows: int) -> int:
        return self._table.stage(self._spark.range(0, rows, 1, 1), branch, {BATCH: batch})[0]

    def fence(self, branch: str, batch: str) -> int:
        return self._table.stage_nothing(branch, {BATCH: batch})

    def publish(self, staged: int, batch: str, floor: Floor) -> Any:
        return self._table.publish(staged, batch, floor, {BATCH: batch})

    def foreign(self) -> None:
        self._table._load().newAppend().set("foreign", "append").commit()

    def expire(self) -> None:
        table = self._table._load()
        if table.currentSnapshot() is not None:
            table.expireSnapshots().expireOlderThan(32_503_680_000_000).retainLast(1).commit()

    def drop(self, batch: str) -> None:
        self._table.drop_branches(f"{batch}_")

    def position(self) -> Floor:
        return self._table.position()

    def history(self, floor: Floor) -> History:
        return self._table.history(floor)

    def branches(self) -> int:
        return len([name for name in self._table._load().refs() if name != "main"])

    def rows(self) -> int:
        return self._spark.table(self._table.name).count()


class Model:
    """Every call is one of a driver's, as in the simulation."""

    NAME = "lake.model.t"

    def __init__(self) -> None:
        self._kernel = Kernel(0)
        self._catalog = Catalog()
        self._table = ModelTable(self._catalog, Network(self._kernel, {}, At()), self.NAME, lambda: None)
        self._drive(lambda: self._table.create_if_absent("id bigint", []))

    def _drive(self, call: Callable[[], Any]) -> Any:
        driver = self._kernel.spawn("driver", call)
        self._kernel.run(lambda: driver.ended, float("inf"))
        if driver.error is not None:
            raise driver.error
        return driver.answer

    def stage(self, branch: str, batch: str, rows: int) -> int:
        made = Rows(("id",), tuple((batch, "v1", number) for number in range(rows)))
        staged: int = self._drive(lambda: self._table.stage(made, branch, {BATCH: batch}))[0]
        return staged

    def fence(self, branch: str, batch: str) -> int:
        staged: int = self._drive(lambda: self._table.stage_nothing(branch, {BATCH: batch}))
        return staged

    def publish(self, staged: int, batch: str, floor: Floor) -> Any:
        return self._drive(lambda: self._table.publish(staged, batch, floor, {BATCH: batch}))

    def foreign(self) -> None:
        base = self._catalog.tables[self.NAME]
        number = next(self._catalog.ids)
        mine = Stored(Snapshot(number, base.head, {"foreign": "append"}), ())
        self._catalog.tables[self.NAME] = replace(base, head=number, snapshots={**base.snapshots, number: mine})

    def expire(self) -> None:
        base = self._catalog.tables[self.NAME]
        if base.head is not None:
            self._catalog.tables[self.NAME] = base.expired()

    def drop(self, batch: str) -> None:
        self._drive(lambda: self._table.drop_branches(f"{batch}_"))

    def position(self) -> Floor:
        floor: Floor = self._drive(self._table.position)
        return floor

    def history(self, floor: Floor) -> History:
        history: History = self._drive(lambda: self._table.history(floor))
        return history

    def branches(self) -> int:
        return len(self._catalog.tables[self.NAME].branches)

    def rows(self) -> int:
        return len(self._catalog.rows(self.NAME))


# ---- what is compared


@dataclass
class Life:
    """What was done to a table, and what is to be seen of it: ids as numbers, by the order in which they appeared."""

    table: Table
    staged: list[tuple[int, str]] = field(default_factory=list)
    floors: list[Floor] = field(default_factory=list)
    heads: dict[int | None, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.floors.append(self.table.position())
        # the empty append that a table begins with
        self.heads[self.floors[0].head] = 0

    def take(self, step: Step) -> Any:
        verb, *what = step
        said: Any = ""
        if verb in ("stage", "fence"):
            batch = what[0]
            made = getattr(self.table, verb)(f"{batch}_{len(self.staged)}", *what)
            self.staged.append((made, batch))
        elif verb == "publish" and self.staged:
            made, batch = self.staged[what[0] % len(self.staged)]
            try:
                said = self._told(self.table.publish(made, batch, self.floors[what[1] % len(self.floors)]))
            except StagedIsGone:
                said = "gone"
        elif verb == "floor":
            self.floors.append(self.table.position())
        elif verb in ("foreign", "expire"):
            getattr(self.table, verb)()
        elif verb == "drop":
            self.table.drop(*what)
        return said, self._main(), self._judged(), self.table.branches()

    def _told(self, decided: Any) -> Any:
        if isinstance(decided, Published):
            self.heads.setdefault(decided.snapshot, len(self.heads))
            return self.heads[decided.snapshot], self._number(decided.staged)
        return "not published" if isinstance(decided, NotPublished) else "unprovable"

    def _number(self, staged: int) -> int:
        return [made for made, _ in self.staged].index(staged)

    def _main(self) -> Any:
        everything = Floor(self.floors[0].table_uuid, None)
        ancestors = [each for each in self.table.history(everything).ancestors if self.heads.get(each.id) != 0]
        for each in reversed(ancestors):
            self.heads.setdefault(each.id, len(self.heads))
        return [(self.heads[each.id], self.heads[each.parent], self._summary(each.summary)) for each in ancestors]

    def _summary(self, summary: dict[str, str]) -> Any:
        source = summary.get(SOURCE_SNAPSHOT_ID)
        told = {name: summary[name] for name in (PUBLISHED_WAP_ID, BATCH, "foreign") if name in summary}
        return {**told, **({"source": self._number(int(source))} if source else {})}

    def _judged(self) -> list[Any]:
        """The verdict on each batch, from each floor."""
        return [
            self._told(verdict(self.table.history(floor), batch, floor)) for floor in self.floors for batch in BATCHES
        ]


def both(spark: SparkSession, steps: Sequence[Step]) -> Any:
    """Take the steps on both, and hold them against each other; what was seen after the last, and the rows in main."""
    model, iceberg = Life(Model()), Life(Iceberg(spark))
    seen: Any = None
    for number, step in enumerate(steps):
        seen, there = model.take(step), iceberg.take(step)
        assert seen == there, f"after step {number}, {step}"
    assert model.table.rows() == iceberg.table.rows()
    return (*seen, model.table.rows())


# ---- sequences that matter

NOT = "not published"


def test_what_is_staged_is_not_in_main(spark: SparkSession) -> None:
    _, main, judged, branches, rows = both(spark, [("stage", "one", 3)])
    assert (main, judged, branches, rows) == ([], [NOT] * 3, 1, 0)


def test_what_is_published_names_its_batch_and_its_source(spark: SparkSession) -> None:
    said, main, judged, branches, rows = both(spark, [("stage", "one", 3), ("publish", 0, 0), ("drop", "one")])
    assert (said, main, branches, rows) == (
        "",
        [(1, 0, {PUBLISHED_WAP_ID: "one", BATCH: "one", "source": 0})],
        0,
        3,
    )
    assert judged == [(1, 0), NOT, NOT]


def test_what_was_staged_before_others_wrote_is_published_behind_them(spark: SparkSession) -> None:
    steps = [("stage", "one", 1), ("foreign",), ("stage", "two", 2), ("publish", 1, 0), ("publish", 0, 0)]
    said, main, judged, _, rows = both(spark, steps)
    assert (said, [number for number, *_ in main], rows) == ((3, 0), [3, 2, 1], 3)
    assert judged == [(3, 0), (2, 1), NOT]


@pytest.mark.parametrize("first", [0, 1])
def test_of_twins_one_is_published_and_the_other_is_told_so_by_its_commit(spark: SparkSession, first: int) -> None:
    steps = [("stage", "one", 2), ("stage", "one", 2), ("publish", first, 0), ("publish", 1 - first, 0)]
    said, main, judged, _, rows = both(spark, steps)
    assert (said, len(main), judged[0], rows) == ((1, first), 1, (1, first), 2)


def test_after_the_fence_nothing_is_published(spark: SparkSession) -> None:
    steps = [("stage", "one", 2), ("fence", "one"), ("foreign",), ("publish", 1, 0), ("publish", 0, 0)]
    said, _, judged, _, rows = both(spark, steps)
    assert (said, judged[0], rows) == ((2, 1), (2, 1), 0)


def test_a_fence_after_the_publish_is_refused(spark: SparkSession) -> None:
    said, main, _, _, rows = both(spark, [("stage", "one", 2), ("publish", 0, 0), ("fence", "one"), ("publish", 1, 0)])
    assert (said, len(main), rows) == ((1, 0), 1, 2)


def test_a_twin_is_refused_once_the_history_is_cut(spark: SparkSession) -> None:
    cut = [("foreign",), ("expire",)]
    steps = [("foreign",), ("floor",), *[("stage", "one", 2)] * 2, ("publish", 0, 1), *cut, ("publish", 1, 1)]
    said, main, judged, _, rows = both(spark, steps)
    assert (said, len(main), rows) == ("unprovable", 1, 2)
    assert judged == ["unprovable"] * 6


def test_a_floor_that_is_the_head_answers_after_expiry(spark: SparkSession) -> None:
    steps = [("foreign",), ("foreign",), ("floor",), ("stage", "one", 1), ("expire",), ("publish", 0, 1)]
    said, main, _, _, rows = both(spark, steps)
    assert (said, len(main), rows) == ((3, 0), 2, 1)


def test_a_floor_beyond_the_batch_does_not_see_it(spark: SparkSession) -> None:
    steps = [("stage", "one", 1), ("publish", 0, 0), ("floor",), ("stage", "two", 1), ("publish", 1, 1)]
    assert both(spark, steps)[2] == [(1, 0), (2, 1), NOT, NOT, (2, 1), NOT]


# ---- any sequence

STEPS = st.lists(
    st.tuples(st.just("fence"), st.sampled_from(BATCHES))
    | st.tuples(st.just("publish"), st.integers(0, 5), st.integers(0, 3))
    | st.tuples(st.just("publish"), st.integers(0, 5), st.integers(0, 3))
    | st.tuples(st.just("drop"), st.sampled_from(BATCHES))
    | st.just(("foreign",))
    | st.just(("expire",))
    | st.just(("floor",)),
    min_size=5,
    max_size=12,
)


@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(steps=STEPS)
def test_any_sequence_leaves_the_same_history(spark: SparkSession, steps: list[Step]) -> None:
    """Of empty appends, which commit as others do: writing rows takes Spark twenty times as long."""
    both(spark, steps)

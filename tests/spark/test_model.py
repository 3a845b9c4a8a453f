"""The simulation's model of a table does as Iceberg does: the same steps leave the same history, and the same verdicts.

Snapshots are compared by the order in which they were made, because their ids are chosen by chance.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Protocol

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tests.sim.faults import At
from tests.sim.kernel import Kernel
from tests.sim.network import Network
from tests.sim.table import Catalog, DuplicateWap, ModelTable, Rows
from tidegate.core.publication import (
    BATCH,
    PUBLISHED_WAP_ID,
    SOURCE_SNAPSHOT_ID,
    STAGED_WAP_ID,
    Floor,
    History,
    NotPublished,
    Published,
    verdict,
)
from tidegate.spark.table import WAP_ENABLED, IcebergTable, cause

pytestmark = pytest.mark.spark

BATCHES = ("one", "two", "three")
REFUSED = "refused: published under this id already"

Step = tuple[Any, ...]
"""("stage", batch, rows), ("fence", batch), ("publish", which of the staged snapshots), ("staging", on), ("floor",)."""


class Table(Protocol):
    """A table that steps are taken on."""

    def stage(self, batch: str, rows: int) -> None: ...

    def stage_nothing(self, batch: str) -> None: ...

    def publish(self, snapshot: int) -> str:
        """What was said against it; empty if it was done."""
        ...

    def staging(self, on: bool) -> None: ...

    def history(self) -> History: ...

    def stages(self) -> bool: ...

    def rows(self) -> int:
        """How many there are in main."""
        ...


class Iceberg:
    _numbers = count()

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._table = IcebergTable(spark, f"lake.model.t{next(self._numbers)}")
        self._table.create_if_absent("id bigint", [])

    def stage(self, batch: str, rows: int) -> None:
        self._table.stage(self._spark.range(0, rows, 1, 1), batch, {BATCH: batch})

    def stage_nothing(self, batch: str) -> None:
        self._table.stage_nothing(batch, {BATCH: batch})

    def publish(self, snapshot: int) -> str:
        try:
            self._table.publish(snapshot)
        except Py4JJavaError as error:
            if not cause(error).startswith("DuplicateWAPCommitException"):
                raise
            return REFUSED
        return ""

    def staging(self, on: bool) -> None:
        self._spark.sql(f"ALTER TABLE {self._table.name} SET TBLPROPERTIES ('{WAP_ENABLED}' = '{str(on).lower()}')")

    def history(self) -> History:
        return self._table.history()

    def stages(self) -> bool:
        return self._table.stages

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

    def stage(self, batch: str, rows: int) -> None:
        made = Rows(("id",), tuple((batch, "v1", number) for number in range(rows)))
        self._drive(lambda: self._table.stage(made, batch, {BATCH: batch}))

    def stage_nothing(self, batch: str) -> None:
        self._drive(lambda: self._table.stage_nothing(batch, {BATCH: batch}))

    def publish(self, snapshot: int) -> str:
        try:
            self._drive(lambda: self._table.publish(snapshot))
        except DuplicateWap:
            return REFUSED
        return ""

    def staging(self, on: bool) -> None:
        metadata = self._catalog.tables[self.NAME]
        self._catalog.tables[self.NAME] = replace(metadata, properties={WAP_ENABLED: str(on).lower()})

    def history(self) -> History:
        history: History = self._drive(self._table.history)
        return history

    def stages(self) -> bool:
        return bool(self._drive(lambda: self._table.stages))

    def rows(self) -> int:
        return len(self._catalog.rows(self.NAME))


# ---- what is compared


def numbered(history: History) -> dict[int, int]:
    """Snapshot ids by the order in which they were made."""
    return {snapshot: number for number, snapshot in enumerate(history.snapshots)}


def shape(history: History) -> Any:
    """The head, and of each snapshot its parent and what its summary says of batches and rows."""
    numbers: dict[Any, Any] = {None: None, **numbered(history)}

    def told(summary: Any) -> Any:
        source = summary.get(SOURCE_SNAPSHOT_ID)
        return {
            **{name: summary[name] for name in (STAGED_WAP_ID, PUBLISHED_WAP_ID, BATCH) if name in summary},
            # what is published by rebase is judged by the snapshot that was staged: only there are its rows looked at
            **({"rows": int(summary.get("added-records", 0))} if source is None else {"source": numbers[int(source)]}),
        }

    snapshots = history.snapshots.values()
    return numbers[history.head], [(numbers[each.parent], told(each.summary)) for each in snapshots]


def judged(history: History, floors: Sequence[Floor]) -> list[Any]:
    """The verdict on each batch, from each floor."""
    numbers = numbered(history)
    found: list[Any] = []
    for floor in floors:
        for batch in BATCHES:
            decided = verdict(history, batch, floor)
            if isinstance(decided, Published):
                found.append((numbers[decided.snapshot], numbers[decided.staged]))
            else:
                found.append("not published" if isinstance(decided, NotPublished) else "unprovable")
    return found


def played(table: Table, steps: Sequence[Step]) -> list[Any]:
    """What is to be seen after each step."""
    history = table.history()
    floors = [Floor(history.table_uuid, history.head)]
    seen = []
    for verb, *what in steps:
        said = ""
        if verb == "stage":
            table.stage(*what)
        elif verb == "fence":
            table.stage_nothing(*what)
        elif verb == "staging":
            table.staging(*what)
        elif verb == "floor":
            floors.append(Floor(history.table_uuid, history.head))
        elif staged := [each.id for each in history.snapshots.values() if STAGED_WAP_ID in each.summary]:
            said = table.publish(staged[what[0] % len(staged)])
        history = table.history()
        seen.append((said, table.stages(), shape(history), judged(history, floors)))
    return seen


def both(spark: SparkSession, steps: Sequence[Step]) -> Any:
    """Take the steps on both, and hold them against each other; what was seen after the last, and the rows in main."""
    model, iceberg = Model(), Iceberg(spark)
    for number, (one, other) in enumerate(zip(played(model, steps), played(iceberg, steps), strict=True)):
        assert one == other, f"after step {number}, {steps[number]}"
    assert model.rows() == iceberg.rows()
    return (*one, model.rows())


# ---- sequences that matter

NOT = "not published"


def test_what_is_staged_on_the_head_is_published_as_it_is(spark: SparkSession) -> None:
    said, _, (head, snapshots), judged_, rows = both(spark, [("stage", "one", 3), ("publish", 0)])
    staged = {STAGED_WAP_ID: "one", BATCH: "one", "rows": 3}
    assert (said, head, snapshots, rows) == ("", 0, [(None, staged)], 3)
    assert judged_ == [(0, 0), NOT, NOT]


def test_what_is_staged_is_not_in_main(spark: SparkSession) -> None:
    _, _, (head, snapshots), judged_, rows = both(spark, [("stage", "one", 3)])
    assert (head, len(snapshots), judged_, rows) == (None, 1, [NOT] * 3, 0)


def test_what_is_staged_elsewhere_is_published_as_another_snapshot(spark: SparkSession) -> None:
    steps = [("stage", "one", 1), ("stage", "two", 2), ("publish", 1), ("publish", 0)]
    said, _, (head, snapshots), judged_, rows = both(spark, steps)
    assert (said, head, rows) == ("", 2, 3)
    assert snapshots[2] == (1, {PUBLISHED_WAP_ID: "one", "source": 0})
    assert judged_ == [(2, 0), (1, 1), NOT]


@pytest.mark.parametrize("first", [0, 1])
def test_of_twins_one_is_published(spark: SparkSession, first: int) -> None:
    steps = [("stage", "one", 2), ("stage", "one", 2), ("publish", first), ("publish", 1 - first), ("publish", first)]
    said, _, (head, snapshots), judged_, rows = both(spark, steps)
    assert (said, head, len(snapshots), rows) == (REFUSED, first, 2, 2)
    assert judged_[0] == (first, first)


def test_a_twin_that_is_staged_on_the_published_one_is_refused(spark: SparkSession) -> None:
    steps = [("stage", "one", 2), ("publish", 0), ("stage", "one", 2), ("publish", 1)]
    said, _, (head, _), judged_, rows = both(spark, steps)
    assert (said, head, judged_[0], rows) == (REFUSED, 0, (0, 0), 2)


def test_a_twin_of_what_was_published_by_rebase_is_refused(spark: SparkSession) -> None:
    steps = [("stage", "one", 1), ("stage", "one", 1), ("fence", "two"), ("publish", 2), ("publish", 0), ("publish", 1)]
    said, _, (head, _), judged_, rows = both(spark, steps)
    assert (said, head, judged_[0], rows) == (REFUSED, 3, (3, 0), 1)


@pytest.mark.parametrize("moved", [False, True])
def test_after_the_fence_nothing_is_published(spark: SparkSession, moved: bool) -> None:
    between = [("fence", "two"), ("publish", 2)] if moved else []
    steps = [("stage", "one", 2), ("fence", "one"), *between, ("publish", 1), ("publish", 0)]
    said, _, (head, snapshots), judged_, rows = both(spark, steps)
    assert (said, rows) == (REFUSED, 0)
    assert judged_[0] == (head, 1)
    assert len(snapshots) == (4 if moved else 2)


def test_a_fence_after_the_publish_is_refused(spark: SparkSession) -> None:
    said, _, (head, _), _, rows = both(spark, [("stage", "one", 2), ("publish", 0), ("fence", "one"), ("publish", 1)])
    assert (said, head, rows) == (REFUSED, 0, 2)


def test_without_staging_a_write_goes_straight_into_main(spark: SparkSession) -> None:
    steps = [("staging", False), ("stage", "one", 2), ("staging", True)]
    _, stages, (head, snapshots), judged_, rows = both(spark, steps)
    assert (stages, head, snapshots, rows) == (True, 0, [(None, {BATCH: "one", "rows": 2})], 2)
    assert judged_ == ["unprovable", NOT, NOT]


def test_a_fence_is_staged_even_without_staging(spark: SparkSession) -> None:
    _, stages, (head, snapshots), _, _ = both(spark, [("staging", False), ("fence", "one")])
    assert (stages, head, snapshots) == (False, None, [(None, {STAGED_WAP_ID: "one", BATCH: "one", "rows": 0})])


def test_a_floor_beyond_the_batch_does_not_see_it(spark: SparkSession) -> None:
    steps = [("stage", "one", 1), ("publish", 0), ("floor",), ("stage", "two", 1), ("publish", 1)]
    assert both(spark, steps)[3] == [(0, 0), (1, 1), NOT, NOT, (1, 1), NOT]


# ---- any sequence

STEPS = st.lists(
    st.tuples(st.just("fence"), st.sampled_from(BATCHES))
    | st.tuples(st.just("publish"), st.integers(0, 5))
    | st.tuples(st.just("publish"), st.integers(0, 5))
    | st.tuples(st.just("staging"), st.booleans())
    | st.tuples(st.just("floor")),
    min_size=5,
    max_size=12,
)


@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
@given(steps=STEPS)
def test_any_sequence_leaves_the_same_history(spark: SparkSession, steps: list[Step]) -> None:
    """Of empty appends, which commit as others do: writing rows takes Spark twenty times as long."""
    both(spark, steps)

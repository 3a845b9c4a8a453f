"""Mistakes in decision 3: this batch is published, or fenced."""

from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException

from tests.sim.faults import Kind
from tests.sim.planting import Bug, Strike, replaced
from tidegate.core.publication import NotPublished, Published, verdict

VERDICT = "tidegate.core.publication:verdict"
PUBLISH = "tests.sim.table:ModelTable.publish"


def _into_main(real: Any) -> Any:
    def stage(table: Any, *arguments: Any) -> Any:
        staged, rows = real(table, *arguments)
        table._commit(lambda base: replace(base, version=base.version + 1, head=staged))
        return staged, rows

    return stage


def _first_staged(real: Any) -> Any:
    def publish(table: Any, staged: int, batch_id: str, *arguments: Any) -> Any:
        there = table.catalog.tables[table.name].branches
        return real(table, min(at for name, at in there.items() if f"_{batch_id}_" in name), batch_id, *arguments)

    return publish


def _because_it_was_asked_to(real: Any) -> Any:
    def publish(table: Any, staged: int, *arguments: Any) -> Any:
        try:
            return real(table, staged, *arguments)
        except PySparkException:
            return Published(staged, staged)

    return publish


def _floor_of_the_moment(real: Any) -> Any:
    return lambda attempt, number: attempt.table.position() if real(attempt, number) else None


def _as_if_it_arrived(real: Any) -> Any:
    def verdict(history: Any, batch_id: str, floor: Any) -> Any:
        if history.ancestors and floor.head not in [each.id for each in history.ancestors]:
            *above, last = history.ancestors
            history = replace(history, ancestors=(*above, replace(last, parent=floor.head)))
        return real(history, batch_id, floor)

    return verdict


def _asked_before(real: Any) -> Any:
    def publish(table: Any, staged: int, batch_id: str, floor: Any, *arguments: Any) -> Any:
        told = verdict(table.history(floor), batch_id, floor)
        return real(table, staged, batch_id, floor, *arguments) if isinstance(told, NotPublished) else told

    return publish


def _fence_left_staged(real: Any) -> Any:
    def publish(table: Any, staged: int, *arguments: Any) -> Any:
        is_fence = not table.catalog.tables[table.name].snapshots[staged].files
        return Published(staged, staged) if is_fence else real(table, staged, *arguments)

    return publish


BUGS = (
    Bug(
        "straight into the table",
        "Rows are written to `main` (in the model of the table: the product leaves it to Spark).",
        (replaced("tests.sim.table:ModelTable.stage", _into_main),),
    ),
    Bug(
        "whatever was staged first",
        "A driver publishes the first snapshot that was staged for the batch, not its own.",
        (replaced(PUBLISH, _first_staged),),
        strikes=(Strike("driver iceberg.swap", Kind.DIE_AFTER, 2),),
    ),
    Bug(
        "published because it was asked to",
        "After an error of the commit, the history is not asked whether it came about.",
        (replaced(PUBLISH, _because_it_was_asked_to),),
        strikes=(Strike("driver iceberg.swap", Kind.FAIL, 3),),
    ),
    Bug(
        "no floor",
        "Each attempt takes the table's head of the moment for the floor.",
        (replaced("tidegate.spark.job:Attempt.known_floor", _floor_of_the_moment),),
        strikes=(Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "a lost floor means: not published",
        "If the history does not reach back to the floor, the batch is taken for unpublished.",
        (replaced(VERDICT, _as_if_it_arrived),),
        "history_expired",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "asked before, committed after",
        "The question is asked once, before the commit, and not by the commit itself (in the model of the table).",
        (
            replaced(PUBLISH, _asked_before),
            replaced(VERDICT, lambda real: lambda *_: NotPublished(), within="tests.sim.table"),
        ),
        "twins",
        (Strike("driver iceberg.load", Kind.PAUSE, 6),),
    ),
    Bug(
        "a fence that is only staged",
        "The fence is in the table's metadata, and does not move `main`.",
        (replaced(PUBLISH, _fence_left_staged),),
        "aborted",
        (Strike("driver iceberg.swap", Kind.PAUSE, 3),),
    ),
)

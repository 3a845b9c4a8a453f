"""Mistakes in decision 3: this batch is published, or fenced."""

from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException

from tests.sim.faults import Kind
from tests.sim.planting import Bug, Strike, replaced, rewired
from tidegate.core.manifests import floor_name
from tidegate.core.publication import NotPublished, Published, verdict
from tidegate.core.receipts import encode_floor
from tidegate.spark.table import BRANCHES

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


def _floor_after_staging(real: Any) -> Any:
    def ingest(attempt: Any) -> Any:
        found = attempt.look()
        if not isinstance(found, Published):
            attempt.prepare_table()
            staged = attempt.stage()
            found = attempt.publish(staged, found or attempt.floor())
        return attempt.write_receipt(found)

    return ingest


def _floor_of_each_attempt(real: Any) -> Any:
    def floor(attempt: Any) -> Any:
        position = attempt.table.position()
        attempt.work.put(attempt.folder + floor_name(attempt.floors), encode_floor(position))
        return position

    return floor


def _any_table(real: Any) -> Any:
    return lambda history, batch_id, floor: real(history, batch_id, replace(floor, table_uuid=history.table_uuid))


def _head_only(real: Any) -> Any:
    def verdict(history: Any, batch_id: str, floor: Any) -> Any:
        told = real(history, batch_id, floor)
        is_head = isinstance(told, Published) and history.ancestors[0].id == told.snapshot
        return told if is_head or not isinstance(told, Published) else NotPublished()

    return verdict


def _receipt_first(real: Any) -> Any:
    def publish(attempt: Any, staged: int, floor: Any) -> Any:
        attempt.write_receipt(Published(staged, staged))
        return real(attempt, staged, floor)

    return publish


def _its_own_outcomes(real: Any) -> Any:
    def publish(attempt: Any, staged: int, floor: Any) -> Any:
        return replace(real(attempt, staged, floor), staged=staged)

    return publish


def _no_outcomes(parameters: dict[str, Any]) -> dict[str, Any] | None:
    return None if "/outcomes/" in parameters["Key"] else parameters


def _tidied_first(real: Any) -> Any:
    def publish(attempt: Any, *arguments: Any) -> Any:
        attempt.tidy()
        return real(attempt, *arguments)

    return publish


def _all_branches(real: Any) -> Any:
    def drop_branches(table: Any, prefix: str) -> None:
        real(table, BRANCHES)

    return drop_branches


def _absent_or_not(parameters: dict[str, Any]) -> dict[str, Any]:
    parameters.pop("IfNoneMatch", None)
    return parameters


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
    Bug(
        "a floor for each attempt",
        "Each attempt that finds its batch undecided writes the floor anew.",
        (replaced("tidegate.spark.job:Attempt.floor", _floor_of_each_attempt),),
        "twins",
        strikes=(Strike("driver iceberg.load", Kind.PAUSE),),
    ),
    Bug(
        "absent or not",
        "What is to be written once into the work bucket is written again.",
        (rewired("s3", "PutObject", _absent_or_not),),
        "twins",
        strikes=(Strike("driver iceberg.load", Kind.PAUSE, 2),),
    ),
    Bug(
        "published if it is the head",
        "A batch that somebody has appended to since is not found in the table.",
        (replaced(VERDICT, _head_only),),
        "told_while_given_up",
    ),
    Bug(
        "the receipt first, the commit second",
        "The receipt is written when the rows are staged, and once more when they are published.",
        (replaced("tidegate.spark.job:Attempt.publish", _receipt_first),),
        strikes=(Strike("driver s3.PutObject receipt", Kind.DIE_AFTER),),
    ),
    Bug(
        "outcomes are not written",
        "What a staged snapshot holds is not written down before it is published.",
        (rewired("s3", "PutObject", _no_outcomes),),
    ),
    Bug(
        "the receipt tells its own outcomes",
        "A driver that finds the batch published by a twin writes a receipt of what it staged itself.",
        (replaced("tidegate.spark.job:Attempt.publish", _its_own_outcomes),),
        "twins",
        (Strike("driver iceberg.swap", Kind.PAUSE, 3),),
    ),
    Bug(
        "tidied before it is decided",
        "What is staged for a batch is dropped before one of it is published.",
        (replaced("tidegate.spark.job:Attempt.publish", _tidied_first),),
        "cleaned_under_way",
        (Strike("driver iceberg.load", Kind.PAUSE, 8),),
    ),
    Bug(
        "everybody's branches are dropped",
        "A driver that is done drops what is staged for other batches, too.",
        (replaced("tests.sim.table:ModelTable.drop_branches", _all_branches),),
        "cleaned_under_way",
        (Strike("driver iceberg.load", Kind.PAUSE, 6),),
    ),
)

UNSEEN = (
    Bug(
        "the floor after staging",
        "Where the table stands is written down after the rows are staged.",
        (replaced("tidegate.spark.job:Attempt.ingest", _floor_after_staging),),
        because="harmless: nobody publishes without having asked for the floor, and the first answer counts",
    ),
    Bug(
        "any table of that name",
        "Whether the table is the one that the batch began with is not compared.",
        (replaced(VERDICT, _any_table),),
        because="harmless: the commit refuses another uuid, and another table does not have the snapshot of the floor",
    ),
)

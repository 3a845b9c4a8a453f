"""Mistakes in decision 3: this batch is published, or fenced."""

from dataclasses import replace
from typing import Any

from pyspark.errors import PySparkException

from simulation.checker.planting import Bug, Strike, replaced, rewired
from simulation.world.faults import Kind
from tidegate.core.manifests import floor_name
from tidegate.core.publication import NotPublished, Published, verdict
from tidegate.core.receipts import encode_floor
from tidegate.flows.rejected import land_rejected
from tidegate.sinks.iceberg.table import BRANCHES

VERDICT = "tidegate.core.publication:verdict"
PUBLISH = "simulation.world.table:ModelTable.publish"


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
    return lambda attempt, number: attempt.sink.position() if real(attempt, number) else None


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
            attempt.sink.prepare()
            staged = attempt.stage()
            found = attempt.publish(staged, found or attempt.floor())
        return attempt.write_receipt(found)

    return ingest


def _floor_of_each_attempt(real: Any) -> Any:
    def floor(attempt: Any) -> Any:
        position = attempt.sink.position()
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


def _land_first(real: Any) -> Any:
    def publish(attempt: Any, staged: int, floor: Any) -> Any:
        ahead = Published(staged, staged)
        land_rejected(attempt, ahead, attempt.outcomes_of(ahead))
        return real(attempt, staged, floor)

    return publish


BUGS = (
    Bug(
        "checked only before the commit",
        "The history is checked before the commit, and not in it (in the model of the table).",
        (
            replaced(PUBLISH, _asked_before),
            replaced(VERDICT, lambda real: lambda *_: NotPublished(), within="simulation.world.table"),
        ),
        "twins",
        (Strike("driver iceberg.load", Kind.PAUSE, 7),),
    ),
    Bug(
        "straight into the table",
        "Rows are written to `main` (in the model of the table; in the product Iceberg does it).",
        (replaced("simulation.world.table:ModelTable.stage_files", _into_main),),
    ),
    Bug(
        "the first staged snapshot is published",
        "A driver publishes the first snapshot that was staged for the batch, not its own.",
        (replaced(PUBLISH, _first_staged),),
        strikes=(Strike("driver iceberg.swap", Kind.DIE_AFTER, 2),),
    ),
    Bug(
        "a failed commit counts as published",
        "After a failed commit, the driver does not check the history, and takes the batch for published.",
        (replaced(PUBLISH, _because_it_was_asked_to),),
        strikes=(Strike("driver iceberg.swap", Kind.FAIL, 3),),
    ),
    Bug(
        "no floor",
        "Each attempt uses the table's current head as the floor.",
        (replaced("tidegate.flows.publish:Attempt.known_floor", _floor_of_the_moment),),
        strikes=(Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
    ),
    Bug(
        "a lost floor means: not published",
        "If the history does not reach back to the floor, the batch counts as unpublished.",
        (replaced(VERDICT, _as_if_it_arrived),),
        "history_expired",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 3),),
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
        "Each attempt that finds its batch undecided writes a new floor.",
        (replaced("tidegate.flows.publish:Attempt.floor", _floor_of_each_attempt),),
        "twins",
        strikes=(Strike("driver iceberg.load", Kind.PAUSE),),
    ),
    Bug(
        "write-once objects overwritten",
        "Objects of the work bucket that must be written once are overwritten.",
        (rewired("s3", "PutObject", _absent_or_not),),
        "twins",
        strikes=(Strike("driver iceberg.load", Kind.PAUSE, 2),),
    ),
    Bug(
        "published if it is the head",
        "A batch counts as published only while its snapshot is the head: any later append hides it.",
        (replaced(VERDICT, _head_only),),
        "told_while_given_up",
    ),
    Bug(
        "the receipt first, the commit second",
        "The receipt is written when the rows are staged, and again when they are published.",
        (replaced("tidegate.flows.publish:Attempt.publish", _receipt_first),),
        strikes=(Strike("driver s3.PutObject receipt", Kind.DIE_AFTER),),
    ),
    Bug(
        "outcomes are not written",
        "The outcomes of a staged snapshot are not written before it is published.",
        (rewired("s3", "PutObject", _no_outcomes),),
    ),
    Bug(
        "a receipt of its own outcomes",
        "If a twin has published the batch, the driver writes a receipt of its own staged snapshot.",
        (replaced("tidegate.flows.publish:Attempt.publish", _its_own_outcomes),),
        "twins",
        seed=33,
    ),
    Bug(
        "dropped before it is decided",
        "The staged snapshots of a batch are dropped before one of them is published.",
        (replaced("tidegate.flows.publish:Attempt.publish", _tidied_first),),
        "cleaned_under_way",
        (Strike("driver iceberg.load", Kind.PAUSE, 9),),
    ),
    Bug(
        "everybody's branches are dropped",
        "A driver that has finished drops the branches of other batches, too.",
        (replaced("simulation.world.table:ModelTable.drop_branches", _all_branches),),
        "cleaned_under_way",
        (Strike("driver iceberg.load", Kind.PAUSE, 7),),
    ),
    Bug(
        "ended without its rejected rows",
        "The receipt is written before the rejected rows have landed, and nobody lands them.",
        (replaced("tidegate.flows.rejected:land_rejected", lambda real: lambda *_: None),),
        "bad_rows",
    ),
    Bug(
        "rejected rows above a floor of the moment",
        "Each driver takes the position of the table of rejected rows as its floor.",
        (replaced("tidegate.flows.rejected:_floor", lambda real: lambda attempt, position: position),),
        "bad_rows",
        (Strike("driver iceberg.swap", Kind.DIE_AFTER, 6),),
    ),
    Bug(
        "rejected rows first, the batch second",
        "A driver lands its rejected rows before it publishes the batch.",
        (replaced("tidegate.flows.publish:Attempt.publish", _land_first),),
        "bad_rows_given_up",
        (Strike("driver iceberg.swap", Kind.PAUSE),),
    ),
)

UNSEEN = (
    Bug(
        "the floor after staging",
        "The floor is written after the rows are staged.",
        (replaced("tidegate.flows.publish:Attempt.ingest", _floor_after_staging),),
        because="harmless: every driver reads the floor before it publishes, and the first one written counts",
    ),
    Bug(
        "the table's uuid is not compared",
        "The table's uuid is not compared with the floor's.",
        (replaced(VERDICT, _any_table),),
        because="harmless: the commit refuses another uuid, and another table does not have the floor's snapshot",
    ),
)

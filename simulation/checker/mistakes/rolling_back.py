"""Mistakes of sending the uploads of a batch again that its table was rolled back past."""

from typing import Any

from simulation.checker.planting import Bug, replaced
from tidegate.core.publication import Published

HELD = "tidegate.sinks.iceberg.sink:IcebergSink.held"
IN_LINE = "tidegate.sinks.iceberg.sink:IcebergSink.in_line"


def _holds_nothing(real: Any) -> Any:
    return lambda sink, position: 0 * real(sink, position)


def _not_in_line(real: Any) -> Any:
    return lambda sink, version: real(sink, version) and False


def _unpublished(real: Any) -> Any:
    def fence_again(attempt: Any) -> Any:
        attempt.publish = lambda staged, floor: Published(staged, staged)
        return real(attempt)

    return fence_again


def _of_nobody(real: Any) -> Any:
    return lambda sink, uris, version: []


def _took_nothing(real: Any) -> Any:
    return lambda sink: (real(sink)[0], frozenset())


def _unread(real: Any) -> Any:
    return lambda batch_id: f"{real(batch_id)}-of-another"


BUGS = (
    Bug(
        "sent again without a look at the table",
        "The uploads of a batch are sent again although its rows are there.",
        (replaced(HELD, _holds_nothing), replaced(IN_LINE, _not_in_line)),
        "landed_and_resent",
    ),
    Bug(
        "sent again without a fence",
        "A batch that its table was rolled back past is not fenced before its uploads are sent again.",
        (replaced("tidegate.flows.fence_again:fence_again", _unpublished),),
        "rolled_back",
    ),
    Bug(
        "what came again is not looked for",
        "The job lands what was sent again although an earlier batch has its rows.",
        (replaced("tidegate.sinks.iceberg.sink:IcebergSink.rows_of_objects", _of_nobody),),
        "rolled_back_past_a_deletion",
    ),
    Bug(
        "what a rollback took is not fenced first",
        "The job lands what was sent again although a batch that has landed it before a rollback has no fence.",
        (replaced("tidegate.sinks.iceberg.sink:IcebergSink.rolled_back", _took_nothing),),
        "rolled_back_and_moved_back",
    ),
    Bug(
        "a lost ledger forgets that rows were removed",
        "Rebuilding does not look whether a backfill has found that the rows of a batch were removed.",
        (replaced("tidegate.core.manifests:removed_name", _unread, within="tidegate.flows.rebuild"),),
        "lost_while_a_backfill_gathers",
    ),
)

"""Mistakes of publishing a committed batch again."""

from typing import Any

from simulation.checker.planting import Bug, replaced

HELD = "tidegate.sinks.iceberg.sink:IcebergSink.held"
IN_LINE = "tidegate.sinks.iceberg.sink:IcebergSink.in_line"


def _holds_nothing(real: Any) -> Any:
    return lambda sink, position: 0 * real(sink, position)


def _not_in_line(real: Any) -> Any:
    return lambda sink, version: real(sink, version) and False


BUGS = (
    Bug(
        "published again without a look at the table",
        "A batch is published again although its rows are there.",
        (replaced(HELD, _holds_nothing), replaced(IN_LINE, _not_in_line)),
        "republished_in_passing",
    ),
)

"""The rows of a large file are emitted while it is read: its ending is known after them.

    it ends so                             what is reported
    all of it was decoded                  committed, with the number of its rows
    it is refused, before a row of it      quarantined
    it is refused, after rows of it        quarantined and spoiled
    deleted or overwritten meanwhile       vanished or superseded; spoiled after rows of it
    S3 or the network fails                nothing: the task fails, and Spark runs it again

What was staged with rows of a spoiled file is never published: the sink stages again, without it
(`sinks.iceberg.sink.IcebergSink.stage`). The report comes after the last row, so a task that dies midway has reported
nothing of this file, and Spark takes the reports of a task only if it has ended well. A task that ran twice reports
twice: the same, because the decoder of the same bytes is deterministic, or else a conflict, which publishes nothing
(`sinks.iceberg.endings`).
"""

from collections.abc import Callable, Iterator

import pyarrow as pa

from tidegate.core.outcomes import Outcome, Read
from tidegate.core.unknown import few
from tidegate.formats.reasons import Undecodable
from tidegate.formats.said import said_of
from tidegate.formats.unknown import names_of
from tidegate.reading.ranges import GoneMeanwhile


def streamed(
    tables: Iterator[pa.Table],
    emit: Callable[[pa.Table, int], Iterator[pa.RecordBatch]],
    report: Callable[[Read], None],
) -> Iterator[pa.RecordBatch]:
    """The batches that `emit` makes of each table and of the number of rows before it, bad ones too. `report` receives
    the file's ending after its last row."""
    rows = bad = 0
    unknown: tuple[str, ...] = ()
    try:
        for table in tables:
            unknown = few((*unknown, *names_of(table)))
            yield from emit(table, rows + bad)
            rows += table.num_rows
            bad += len(said_of(table).bad)
    except Undecodable as error:
        report(Read(Outcome.QUARANTINED, 0, str(error), where=error.where, spoiled=rows > 0))
    except GoneMeanwhile as error:
        report(Read(error.missed.outcome, 0, error.missed.reason, spoiled=rows > 0))
    else:
        report(Read(Outcome.COMMITTED, rows, rejected=bad, unknown=unknown))

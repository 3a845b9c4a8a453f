"""What a table costs after so many batches, with and without maintenance.

    PYTHONPATH=. .venv/bin/python -m bench.table_growth [SNAPSHOTS...]

A year of one-minute batches has 525,600 snapshots. Committing them would take days, so the metadata of a small real
Iceberg table is generated: nothing is drawn by chance, and two runs measure the same files. For each number of
snapshots it prints, as one JSON object a line:

- the size of the metadata;
- the time of an attempt's questions (where the table stands, and its history down to a floor three snapshots below the
  head), and the calls of the JVM that they take;
- the time of `select count(*)`;

as the table grew, and after maintenance with the default limits. Each time is the least of three. The ratio to the
smallest number in the same run is what to look at.
"""

import contextlib
import json
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spark.world import session
from tests.support.grown import grown
from tidegate.core.maintenance import MaintainLimits, MaintenanceRequest
from tidegate.core.publication import Floor
from tidegate.settings import MaintainSettings
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.spark.maintain import maintain_tables

SNAPSHOTS = (100, 10_000, 30_000)
TIMES = 3
MOST_RUNS = 30


def main(arguments: list[str]) -> None:
    numbers = tuple(map(int, arguments)) or SNAPSHOTS
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder))
        spark.sql("CREATE NAMESPACE lake.bench")
        small = IcebergTable(spark, "lake.bench.small")
        small.create_if_absent("id bigint", ())
        spark.sql("INSERT INTO lake.bench.small SELECT id FROM range(1000)")
        for number in numbers:
            name = f"bench.grown_{number}"
            file = grown(_metadata(small), number)
            spark.sql(f"CALL lake.system.register_table(table => '{name}', metadata_file => '{file.as_uri()}')")
            table = IcebergTable(spark, f"lake.{name}")
            print(json.dumps({"snapshots": number, "maintained": False, **_measured(table)}), flush=True)
            _maintain(spark, table)
            print(json.dumps({"snapshots": number, "maintained": True, **_measured(table)}), flush=True)
        spark.stop()


def _maintain(spark: SparkSession, table: IcebergTable) -> None:
    """As the daily job does, until a run has nothing left."""
    settings = MaintainSettings()
    limits = MaintainLimits(
        settings.keep_snapshots_for, settings.keep_snapshots, settings.orphans_after, int(settings.compact_bytes)
    )
    # a day after the last batch: the five days before that stay
    request = MaintenanceRequest(int(time.time()), (table.name,), (), limits)
    for _ in range(MOST_RUNS):
        (done,) = maintain_tables(spark, request).tables
        if done.trouble:
            raise RuntimeError(done.trouble)
        if not done.expired:
            return


def _measured(table: IcebergTable) -> dict[str, Any]:
    position = table.position()
    assert position.head is not None
    line = table.whole_history().ancestors
    floor = Floor(position.table_uuid, line[min(3, len(line) - 1)].id)

    def ask() -> None:
        table.position()
        table.history(floor)

    with _counted(table) as calls:
        ask()
    rows = table._spark.table(table.name)
    return {
        "ancestors": len(line),
        "metadata_bytes": _metadata(table).stat().st_size,
        "questions_calls": calls[0],
        "questions_seconds": _least(ask),
        "count_seconds": _least(rows.count),
        "rows": rows.count(),
    }


def _metadata(table: IcebergTable) -> Path:
    location = table._load().operations().current().metadataFileLocation()
    return Path(urllib.parse.urlparse(location).path)


def _least(act: Callable[[], Any]) -> float:
    taken = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        act()
        taken.append(time.perf_counter() - begun)
    return round(min(taken), 4)


@contextlib.contextmanager
def _counted(table: IcebergTable) -> Any:
    """Counts commands to the JVM, but for those of Python's collector."""
    client: Any = table._spark.sparkContext._gateway._gateway_client
    send, calls = client.send_command, [0]

    def counted(command: str, *arguments: Any, **options: Any) -> Any:
        calls[0] += not command.startswith("m\n")
        return send(command, *arguments, **options)

    client.send_command = counted
    try:
        yield calls
    finally:
        client.send_command = send


if __name__ == "__main__":
    main(sys.argv[1:])

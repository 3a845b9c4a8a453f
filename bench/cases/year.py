"""A table in its first year: what its history, its metadata and its maintenance cost by then.

Two questions, on a real catalog with real Spark and Iceberg:

- What does an attempt's question about the history cost, if nothing was ever maintained? The metadata of a table with
  so many snapshots is generated: committing them would take days.
- What do the days do to a table that is maintained once a day? A day adds a data file for each batch in one commit,
  and a generated snapshot for each batch but one. Then the table gets older by a day: every time in its metadata moves
  back, and that of every file. Then the daily job runs as it is (`tidegate.spark.maintain`), with the default limits.

Snapshots are kept for five days, so a table has its full size after a week, and a day is like the next from then on.
The year is that of a table with a batch every two hours: Iceberg's expiry starts a task for each snapshot that is kept,
and a year of minutes would take ten hours here. The rows are counted every day. The figures of a day are those before
its maintenance, when the table is largest.
"""

import contextlib
import os
import shutil
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.findings import BenchFindings, BenchLimit, BenchTable, WrongAnswer
from bench.ingesting import Workshop, workshop
from tests.support.grown import grown, grown_on
from tidegate.core.maintenance import MaintenanceRequest
from tidegate.core.publication import Floor
from tidegate.settings.fixed import MAINTENANCE
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.spark.maintain import maintain_tables

SNAPSHOTS = (10, 1_000, 100_000)
DAY = 86_400
BELOW = 3
"""The floor of the attempt that asks is so many snapshots below the head."""


@dataclass(frozen=True)
class BatchRate:
    """So many batches a day, for so many days, and the days whose figures are printed. From the day `settled` on
    nothing may grow: snapshots are kept for five days, and at least 100 of them."""

    name: str
    batches: int
    days: int
    settled: int
    shown: Sequence[int]


PACES = (
    BatchRate("a batch every minute", 1_440, 9, 7, (1, 3, 5, 6, 7, 8, 9)),
    BatchRate("a batch every ten minutes", 144, 12, 7, (1, 3, 5, 7, 9, 12)),
    BatchRate("a batch every two hours", 12, 365, 30, (1, 7, 30, 90, 180, 270, 365)),
)
SMALL = (BatchRate("a batch every two hours", 12, 2, 2, (1, 2)),)


@dataclass(frozen=True)
class TableCost:
    """Sizes, and what questions cost. `calls` are commands to the JVM; times are seconds, the least of three."""

    snapshots: int
    metadata_bytes: int
    calls: int
    asking: float
    counting: float


@dataclass(frozen=True)
class DayCost:
    """The costs of a day before its maintenance, the files of the table then, and the seconds of the maintenance."""

    day: int
    cost: TableCost
    data_files: int
    metadata_files: int
    maintaining: float


def run(small: bool) -> BenchFindings:
    # a driver of 3 GB cannot read the metadata of 100,000 snapshots
    with workshop(memory="8g") as shop:
        # as in a local job: Spark's own 200 are for hundreds of cores
        shop.spark.conf.set("spark.sql.shuffle.partitions", "4")
        unmaintained = [_grown(shop, number) for number in (SNAPSHOTS[:1] if small else SNAPSHOTS)]
        days = {pace: list(_days(shop, pace)) for pace in (SMALL if small else PACES)}
    tables = [_history(unmaintained), *(_table_of(pace, found) for pace, found in days.items())]
    return BenchFindings(tables, (), [limit for pace, found in days.items() for limit in _limits(pace, found)])


# ---- never maintained


def _grown(shop: Workshop, snapshots: int) -> TableCost:
    small = _table(shop)
    file = grown(metadata_of(small), snapshots)
    name = f"bench.grown_{snapshots}"
    shop.spark.sql(f"CALL lake.system.register_table(table => '{name}', metadata_file => '{file.as_uri()}')")
    return _cost(IcebergTable(shop.spark, f"lake.{name}"))


# ---- day by day


def _days(shop: Workshop, pace: BatchRate) -> Iterator[DayCost]:
    table = _table(shop)
    folder = metadata_of(table).parents[1]
    (first,) = folder.glob("data/*.parquet")
    # the table's own goes, once it is compacted and its snapshots have expired
    first = Path(shutil.copy(first, folder.with_name(f"{folder.name}-row.parquet")))
    rows = shop.spark.table(table.name).count()
    for day in range(1, pace.days + 1):
        links = [folder / "data" / f"day-{day:03}-{number:04}.parquet" for number in range(pace.batches)]
        for link in links:
            os.link(first, link)
        _append(table, first, links)
        grown_on(metadata_of(table), pace.batches - 1, (day - 1) * pace.batches)
        age(folder)
        found = _cost(table) if day in pace.shown else None
        files = [len(list(folder.glob(each))) for each in ("data/[!.]*", "metadata/[!.]*")]
        began = time.perf_counter()
        maintain(shop, table)
        took = time.perf_counter() - began
        if (there := shop.spark.table(table.name).count()) != (wanted := rows * (1 + day * pace.batches)):
            raise WrongAnswer(f"day {day}: {there:,} rows are in the table, {wanted:,} should be")
        print(f"{pace.name}, day {day}: maintained in {took:.1f} s", file=sys.stderr, flush=True)
        if found:
            yield DayCost(day, found, files[0], files[1], took)


def _append(table: IcebergTable, first: Path, links: Sequence[Path]) -> None:
    """Add a data file under other names, in one commit."""
    jvm: Any = table._jvm
    java = table._load()
    like = (
        jvm.org.apache.iceberg.DataFiles.builder(java.spec())
        .withFileSizeInBytes(first.stat().st_size)
        .withFormat("PARQUET")
        .withRecordCount(1)
    )
    append = java.newAppend()
    for link in links:
        append.appendFile(like.withPath(link.as_uri().replace("file:///", "file:/")).build())
    append.commit()


def age(folder: Path) -> None:
    """A day passes for the files."""
    for kind in ("data", "metadata"):
        for entry in os.scandir(folder / kind):
            at = entry.stat().st_mtime - DAY
            os.utime(entry.path, (at, at))


def maintain(shop: Workshop, table: IcebergTable) -> None:
    (done,) = maintain_tables(shop.spark, MaintenanceRequest(int(time.time()), (table.name,), (), MAINTENANCE)).tables
    if done.trouble:
        raise WrongAnswer(f"{table.name} was not maintained: {done.trouble}")


# ---- what a table costs


def _table(shop: Workshop) -> IcebergTable:
    """A table that Tidegate has created, with one row in one file."""
    name = f"lake.bench.t{next(shop._numbers)}"
    table = IcebergTable(shop.spark, name)
    table.create_if_absent("id bigint", ())
    shop.spark.sql(f"INSERT INTO {name} VALUES (1)")
    return table


def _cost(table: IcebergTable) -> TableCost:
    position = table.position()
    line = table.whole_history().ancestors
    floor = Floor(position.table_uuid, line[min(BELOW, len(line) - 1)].id)

    def ask() -> None:
        table.position()
        table.history(floor)

    with _counted(table) as calls:
        ask()
    rows = table._spark.table(table.name)
    return TableCost(len(line), metadata_of(table).stat().st_size, calls[0], least_of(ask), least_of(rows.count))


def metadata_of(table: IcebergTable) -> Path:
    location = table._load().operations().current().metadataFileLocation()
    return Path(urllib.parse.urlparse(location).path)


def least_of(act: Callable[[], Any]) -> float:
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return min(taken)


@contextlib.contextmanager
def _counted(table: IcebergTable) -> Iterator[list[int]]:
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


# ---- in print

HEAD = ("snapshots", "metadata, MB", "calls of the JVM", "asking, ms", "select count(*), ms")


def _history(found: Sequence[TableCost]) -> BenchTable:
    note = (
        "Tables that were never maintained. Asking: where the table stands, and its history down to a floor"
        f" {BELOW} snapshots below the head. Each time is the least of three."
    )
    return BenchTable("unmaintained", HEAD, [_cells(each) for each in found], note)


def _table_of(pace: BatchRate, found: Sequence[DayCost]) -> BenchTable:
    head = ("day", *HEAD, "data files", "metadata files", "maintaining, s")
    rows = [
        (
            str(each.day),
            *_cells(each.cost),
            f"{each.data_files:,}",
            f"{each.metadata_files:,}",
            f"{each.maintaining:.1f}",
        )
        for each in found
    ]
    return BenchTable(
        f"year, {pace.name}", head, rows, f"A table that gets {pace.name}, before each day's maintenance."
    )


def _cells(cost: TableCost) -> tuple[str, ...]:
    return (
        f"{cost.snapshots:,}",
        f"{cost.metadata_bytes / 1e6:.2f}",
        f"{cost.calls}",
        f"{1e3 * cost.asking:.0f}",
        f"{1e3 * cost.counting:.0f}",
    )


def _limits(pace: BatchRate, found: Sequence[DayCost]) -> Sequence[BenchLimit]:
    """What the last day may cost, to the day from which on the table should not grow. Of what can be counted: the times
    are for reading."""
    early = next((each for each in found if each.day >= pace.settled), found[-1])
    last = found[-1]
    days = f"with {pace.name}, day {last.day} to day {early.day}"
    return (
        BenchLimit(f"calls of the JVM {days}", last.cost.calls / early.cost.calls, 1.0, ""),
        BenchLimit(f"bytes of metadata {days}", last.cost.metadata_bytes / early.cost.metadata_bytes, 1.1, ""),
        BenchLimit(f"data files {days}", last.data_files / early.data_files, 1.1, ""),
        BenchLimit(f"metadata files {days}", last.metadata_files / early.metadata_files, 1.5, ""),
    )

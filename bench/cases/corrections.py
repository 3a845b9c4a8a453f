"""A table of which one file in a hundred is corrected every day, for a year, with the daily maintenance.

On a real catalog with real Spark and Iceberg. Each day is one batch through the product, on a route that replaces. Then
the table gets older by a day, and the daily job runs as it is. The rows are checked every day.

What is asked: does reading stay as fast as from a table that was written at once? Do the files grow in number?
"""

import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean, median

from bench.cases.year import age, least_of, maintain, metadata_of
from bench.files import make_files
from bench.findings import BenchFindings, BenchLimit, BenchTable, WrongAnswer
from bench.ingesting import Workshop, workshop
from tests.support.grown import grown_on
from tidegate.sinks.iceberg.table import IcebergTable

SEED = 7
FILES, BATCHES = 2_000, 20
DAYS, MONTH = 365, 30
SHOWN = (1, MONTH, 180, DAYS)
READING = 1.5
"""Reading may take so many times as long as from a table that was written at once."""


@dataclass(frozen=True)
class CorrectedDay:
    """The table before the maintenance of a day, but for the seconds of it. Times are in seconds."""

    day: int
    data_files: int
    delete_files: int
    replacing: float
    reading: float
    maintaining: float


def run(small: bool) -> BenchFindings:
    files, days = (40, 2) if small else (FILES, DAYS)
    with workshop(memory="4g") as shop:
        # as in a local job: Spark's own 200 are for hundreds of cores
        shop.spark.conf.set("spark.sql.shuffle.partitions", "4")
        name = "lake.bench.corrected"
        found = list(_days(shop, name, files, days))
        shop.spark.sql(f"CREATE TABLE {name}_at_once USING iceberg AS SELECT * FROM {name}")
        at_once = _reading(shop, f"{name}_at_once")
    late, early = found[-MONTH:], found[MONTH : 2 * MONTH] or found
    reading = median(each.reading for each in late) / at_once
    months = "on average in the last 30 days, to days 31 to 60"
    data = fmean(each.data_files for each in late) / fmean(each.data_files for each in early)
    deletes = fmean(each.delete_files for each in late) / fmean(each.delete_files for each in early)
    limits = (
        BenchLimit("reading, median of the last 30 days, to a table written at once", reading, READING, ""),
        BenchLimit(f"data files, {months}", data, 1.1, ""),
        BenchLimit(f"delete files, {months}", deletes, 1.1, ""),
    )
    return BenchFindings((_table(found, files, at_once),), (), limits)


def _days(shop: Workshop, name: str, count: int, days: int) -> Iterator[CorrectedDay]:
    files = make_files(shop.landing, "corrected", "json", count, 2_000)
    batches, chance = itertools.count(1), Random(SEED)
    share = count // BATCHES
    for start in range(0, count, share):
        landed = replace(files, uploads=files.uploads[start : start + share])
        shop.land(landed, name, f"B{next(batches)}", replaces=True)
    table = IcebergTable(shop.spark, name)
    for day in range(1, days + 1):
        corrected = replace(files, uploads=tuple(chance.sample(files.uploads, max(1, count // 100))))
        began = time.perf_counter()
        tally = shop.land(corrected, name, f"B{next(batches)}", replaces=True)
        replacing = time.perf_counter() - began
        if tally.replaced != tally.rows:
            raise WrongAnswer(f"day {day}: {tally}")
        if (sums := shop.sums(name)) != files.sums:
            raise WrongAnswer(f"day {day}: the table has {sums}, the files have {files.sums}")
        data, deletes = (shop.spark.table(f"{name}.{kind}").count() for kind in ("data_files", "delete_files"))
        reading = _reading(shop, name)
        grown_on(metadata_of(table), 0, 0)
        age(metadata_of(table).parents[1])
        began = time.perf_counter()
        maintain(shop, table)
        maintaining = time.perf_counter() - began
        print(f"day {day}: {data} and {deletes} files, maintained in {maintaining:.1f} s", file=sys.stderr, flush=True)
        yield CorrectedDay(day, data, deletes, replacing, reading, maintaining)


def _reading(shop: Workshop, name: str) -> float:
    return least_of(lambda: shop.sums(name))


def _table(found: Sequence[CorrectedDay], files: int, at_once: float) -> BenchTable:
    rows = [
        (
            str(each.day),
            f"{each.data_files:,}",
            f"{each.delete_files:,}",
            f"{each.replacing:.2f}",
            f"{1e3 * each.reading:.0f}",
            f"{each.maintaining:.1f}",
        )
        for each in found
        if each.day in SHOWN
    ]
    head = ("day", "data files", "delete files", "replacing, s", "reading, ms", "maintaining, s")
    note = (
        f"{files:,} files of 2 KB, one in a hundred corrected every day; before each day's maintenance. To read the"
        f" same rows from a table that was written at once takes {1e3 * at_once:.0f} ms."
    )
    return BenchTable("corrections", head, rows, note)

"""What exactly once costs a job: a batch through the product, beside the same read with a plain append.

Both read the same manifest and files with the product's reader and write the same rows. The product also writes a
floor, stages on a branch, writes the outcomes, publishes on condition, and writes a receipt. And what a question about
the table's history costs, by the number of snapshots since the floor. And what it costs more to replace rows than to
append the same ones.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from pyspark.sql.pandas.types import to_arrow_schema

from bench.files import DDL, BenchFiles, make_files
from bench.findings import BenchFindings, BenchLimit, BenchTable, WrongAnswer
from bench.ingesting import PRODUCT, Workshop, workshop
from bench.measure import Rounds, take_turns
from tidegate.reading.reader import LINEAGE_DDL, Reader
from tidegate.sinks.iceberg.data_files.layout import Layout, layout
from tidegate.sinks.iceberg.ddl import struct_of
from tidegate.sinks.iceberg.shares import shared_out
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.sinks.iceberg.tasks import files_of_tasks

APPEND = "the same read, plain append"
SHARE, SECONDS = 0.10, 0.5
KINDS = (("10 files of 2 KB", 10, 2_000), ("2,000 files of 2 KB", 2_000, 2_000), ("200 files of 1 MB", 200, 1_000_000))
SNAPSHOTS = (1, 100, 300)
REPLACE, MORE = "replace", "append"
CORRECTED = (1, 200, 1_000)
REPLACING = 2.5


def run(small: bool) -> BenchFindings:
    with workshop() as shop:
        kinds = KINDS[:1] if small else KINDS
        found = {}
        for title, count, size in kinds:
            files = make_files(shop.landing, title, "json", count, size)
            peers = {PRODUCT: shop.product(files), APPEND: appended(shop, files)}
            if not small:
                take_turns(peers, 3, shop.check(files))
            found[title] = take_turns(peers, 1 if small else 7, shop.check(files))
            shop.clear()
        asked = [questions(shop, number) for number in (SNAPSHOTS[:1] if small else SNAPSHOTS)]
        corrected = replaced(shop, 20 if small else 10_000, CORRECTED[:1] if small else CORRECTED)
    limits = [_limit(title, rounds) for title, rounds in found.items()]
    limits += [
        BenchLimit(f"{title}: to replace its rows, beside an append", rounds.ratio(REPLACE, MORE), REPLACING, "times")
        for title, rounds in corrected.items()
    ]
    return BenchFindings((_table(found), _history(asked), _replaced(corrected)), (), tuple(limits))


def appended(shop: Workshop, files: BenchFiles) -> Callable[[], str]:
    """The product's read of the same uploads to data files, as the product writes them, and Iceberg's own append."""

    def run() -> str:
        table = shop.table(f"{DDL}, {LINEAGE_DDL}")
        sink = shop.sink(files, table)
        items = shop.attempt(files, table).manifest()
        schema = to_arrow_schema(struct_of(DDL))
        reader = Reader(sink.dataset, schema, "B", datetime.now(UTC), encoded=True)
        loaded = sink.iceberg.loaded()
        found = layout(loaded.facts(), reader.emitted, {})
        assert isinstance(found, Layout), found
        read = partial(sink._told(None).read, reader)
        tasks = shared_out(items, {}, shop.spark.sparkContext.defaultParallelism, reads=False)
        written = files_of_tasks(shop.spark, tasks, read, found, "bench")
        assert written is not None
        loaded.append(written, "main", {})
        return table

    return run


def replaced(shop: Workshop, count: int, corrected: Sequence[int]) -> dict[str, Rounds]:
    """So many of these files come again, each as a later version, to a table that replaces and to one that appends."""
    files = make_files(shop.landing, "corrected", "json", count, 2_000)
    tables = {peer: f"lake.bench.to_{peer}" for peer in (REPLACE, MORE)}
    numbers = itertools.count(1)

    def land(share: int, peer: str) -> str:
        again = replace(files, uploads=files.uploads[:share])
        tally = shop.land(again, tables[peer], f"B{next(numbers)}", replaces=peer == REPLACE)
        if share < count and tally.replaced != (tally.rows if peer == REPLACE else 0):
            raise WrongAnswer(f"{peer} {share} of {count} files: {tally}")
        return peer

    for peer in tables:
        land(count, peer)
    found = {}
    for share in corrected:
        peers = {peer: partial(land, share, peer) for peer in tables}
        take_turns(peers, 1, lambda *_: None)
        found[f"{share:,} of {count:,} files"] = take_turns(peers, 1 if share == count else 5, lambda *_: None)
    shop.clear()
    return found


def _replaced(found: dict[str, Rounds]) -> BenchTable:
    rows = [
        (title, *(f"{each.seconds(peer):.2f}" for peer in (REPLACE, MORE)), f"{each.ratio(REPLACE, MORE):.2f}")
        for title, each in found.items()
    ]
    note = "Files of 2 KB that come again: their rows take the place of the earlier ones, or come beside them."
    return BenchTable("replaced", ("files", "replace, s", "append, s", "ratio"), rows, note)


def questions(shop: Workshop, snapshots: int) -> tuple[int, float]:
    """The number of snapshots since the floor, and the seconds to read the history down to it."""
    name = shop.table()
    table = IcebergTable(shop.spark, name)
    table.begin()
    floor = table.position()
    java = shop.spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(shop.spark._jsparkSession, name)
    for _ in range(snapshots):
        java.newFastAppend().commit()
    table.history(floor)  # the first question opens the table
    times = []
    for _ in range(5):
        began = time.perf_counter()
        table.history(floor)
        times.append(time.perf_counter() - began)
    return snapshots, sorted(times)[2]


def _limit(title: str, rounds: Rounds) -> BenchLimit:
    most = max(SECONDS, SHARE * rounds.seconds(APPEND))
    return BenchLimit(f"{title}: exactly once costs more than a plain append", rounds.more(PRODUCT, APPEND), most, "s")


def _table(found: dict[str, Rounds]) -> BenchTable:
    rows = [
        (
            title,
            f"{rounds.seconds(PRODUCT):.2f}",
            f"{rounds.seconds(APPEND):.2f}",
            f"{rounds.more(PRODUCT, APPEND):.2f}",
            f"{rounds.ratio(PRODUCT, APPEND):.2f}",
        )
        for title, rounds in found.items()
    ]
    head = ("files", "Tidegate, s", f"{APPEND}, s", "more, s", "ratio")
    note = "Medians of the rounds, and of their pairs, in turns. The work bucket is in memory: S3's times come on top."
    return BenchTable("exactly_once", head, rows, note)


def _history(asked: list[tuple[int, float]]) -> BenchTable:
    rows = [
        (f"{snapshots:,}", f"{1e3 * seconds:.1f}", f"{1e6 * seconds / snapshots:.0f}") for snapshots, seconds in asked
    ]
    note = "Reading the history of `main` from its head to the floor."
    return BenchTable("history", ("snapshots since the floor", "ms", "us each"), rows, note)

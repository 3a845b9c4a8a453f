"""Files become rows of an Iceberg table: through the product, and as people do it without.

The product reads them twice: from the disk, as its peers do, and over HTTP from a small S3 server on the same
processors, as it does in AWS. All write to new tables of the same catalog; the one with pyarrow writes
through pyiceberg, to a catalog of the same kind. The product's rows carry five columns more: where each comes from.
"""

import itertools
import multiprocessing
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table as ArrowTable
from pyspark.sql import SparkSession

from bench.arrow import SCHEMA, read_all
from bench.disk import DiskSink
from bench.files import DDL, BenchFiles, make_files
from bench.findings import BarChart, BenchFindings, BenchLimit, BenchTable, WrongAnswer, time_to
from bench.inputs import BUCKET, Sums
from bench.measure import Peers, Rounds, take_turns
from bench.servers import LandingServer, serving
from bench.shapes import BenchShape, drawn_files
from tests.support.fakes import MemoryWork
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.outcomes import Tally
from tidegate.core.routes import Dataset
from tidegate.flows.publish import Attempt
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate_local import toolchain
from tidegate_local.emr.sharing import installed_archive, sharing_options

PRODUCT, OVER_HTTP = "Tidegate", "Tidegate, over HTTP"
PATHS, FOLDER = "spark.read, path list", "spark.read, folder"
STREAM, ARROW = "structured streaming, availableNow", "pyarrow, file by file, 2 processes"
PROCESSES = 2
PART = 1_000
SEED = int(os.environ.get("SEED", "7"))
"""Draws the shapes: `SEED=8 make bench ONLY=shapes` measures others."""


@dataclass
class Workshop:
    """A Spark session with an Iceberg catalog, and a folder that a server hands out as S3."""

    spark: SparkSession
    folder: Path
    pool: Any
    """Processes that have begun, as Spark's have."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    def table(self, columns: str = DDL, partitions: Sequence[str] = ()) -> str:
        name = f"lake.bench.t{next(self._numbers)}"
        partitioned = f" PARTITIONED BY ({', '.join(partitions)})" if partitions else ""
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg{partitioned}")
        return name

    def sums(self, table: str) -> Sums:
        columns = "count(*), sum(id), sum(cents), sum(length(text))"
        found = self.spark.sql(f"SELECT {columns} FROM {table}").collect()[0]
        return Sums(*(int(each or 0) for each in found))

    def clear(self) -> None:
        """Delete the files that were read."""
        shutil.rmtree(self.landing / BUCKET, ignore_errors=True)

    # ---- the product

    def sink(
        self, files: BenchFiles, table: str, batch: str = "B", *, over_http: bool = True, replaces: bool = False
    ) -> IcebergSink:
        dataset = Dataset(table, files.columns, files.format, files.partitions, replaces=replaces)
        driver = f"{batch}-{next(self._numbers)}"
        if over_http:
            return IcebergSink(self.spark, dataset, batch, 1, driver)
        return DiskSink(self.spark, dataset, batch, 1, driver, folder=str(self.landing))

    def attempt(self, files: BenchFiles, table: str) -> Attempt:
        """One attempt at a sealed batch of these files."""
        return Attempt(self.sink(files, table), sealed_batch(files, "B"), "B", 1)

    def land(self, files: BenchFiles, table: str, batch: str, *, replaces: bool = False) -> Tally:
        """One batch of these files, each as a version of this batch, into a table that is there or not. S3 is not asked
        for their order."""
        later = replace(files, uploads=tuple(replace(each, version=batch) for each in files.uploads))
        sink = self.sink(later, table, batch, replaces=replaces)
        attempt = Attempt(sink, sealed_batch(later, batch), batch, 1, newest_first=lambda *_: {})
        tally = attempt.ingest().tally
        attempt.tidy()
        return tally

    def product(self, files: BenchFiles, *, over_http: bool = True) -> Callable[[], str]:
        sealed = sealed_batch(files, "B")

        def run() -> str:
            table = f"lake.bench.t{next(self._numbers)}"
            work = MemoryWork(dict(sealed.objects))
            receipt = Attempt(self.sink(files, table, over_http=over_http), work, "B", 1).ingest()
            if receipt.tally.committed != len(files.uploads):
                raise WrongAnswer(f"{files.title}: {receipt.tally}")
            return table

        return run

    # ---- its peers

    def read(self, files: BenchFiles, where: Any) -> Any:
        reader = self.spark.read.schema(files.columns)
        if files.format == "csv":
            return reader.options(header=True, multiLine=files.schema != SCHEMA, escape='"').csv(where)
        if files.format == "json":
            return reader.json(where)
        return reader.parquet(where) if isinstance(where, str) else reader.parquet(*where)

    def plain(self, files: BenchFiles, where: Any) -> Callable[[], str]:
        def run() -> str:
            table = self.table(files.columns, files.partitions)
            self.read(files, where).writeTo(table).append()
            return table

        return run

    def streaming(self, files: BenchFiles) -> Callable[[], str]:
        def run() -> str:
            table = self.table()
            checkpoint = tempfile.mkdtemp(dir=self.folder)
            reader = self.spark.readStream.schema(DDL).option("header", True)
            frame = reader.format(files.format).load(str(files.bucket / "events"))
            query = (
                frame.writeStream.format("iceberg")
                .trigger(availableNow=True)
                .option("checkpointLocation", checkpoint)
                .toTable(table)
            )
            query.awaitTermination()
            shutil.rmtree(checkpoint)
            return table

        return run

    def with_arrow(self, files: BenchFiles) -> Callable[[], ArrowTable]:
        catalog = SqlCatalog(
            "peer", uri=f"sqlite:///{self.folder / 'peer.db'}", warehouse=(self.folder / "peer").as_uri()
        )
        catalog.create_namespace_if_not_exists("bench")

        def run() -> ArrowTable:
            table = catalog.create_table(f"bench.t{next(self._numbers)}", files.schema)
            shares = [files.paths[start::PROCESSES] for start in range(min(PROCESSES, len(files.paths)))]
            read = self.pool.starmap(read_all, [(share, files.format, files.schema) for share in shares])
            table.append(pa.concat_tables(read))
            return table

        return run

    def peers(self, files: BenchFiles) -> Peers:
        return {
            PRODUCT: self.product(files, over_http=False),
            OVER_HTTP: self.product(files),
            PATHS: self.plain(files, files.paths),
            FOLDER: self.plain(files, str(files.bucket / "events")),
            STREAM: self.streaming(files),
            ARROW: self.with_arrow(files),
        }

    def check(self, files: BenchFiles) -> Callable[[str, Any], None]:
        """Compares the rows of a run with the files', and once those of a drawn shape with the other peers', and drops
        its table."""
        others: dict[str, Any] = {}

        def checked(peer: str, answer: Any) -> None:
            found = self.sums(answer) if isinstance(answer, str) else sums_of(answer.scan().to_arrow())
            if found != files.sums:
                raise WrongAnswer(f"{files.title}: {peer} has {found}, the files have {files.sums}")
            if files.schema != SCHEMA and peer not in others:
                others[peer] = self.hashed(files, answer)
                if len(set(others.values())) > 1:
                    raise WrongAnswer(f"{files.title}: {peer} has other values than its peers")
            if isinstance(answer, str):
                self.spark.sql(f"DROP TABLE {answer} PURGE")

        return checked

    def hashed(self, files: BenchFiles, answer: Any) -> Any:
        """A sum over the hashes of all rows, whatever their order. A column at a time: its nulls count."""
        if isinstance(answer, str):
            frame = self.spark.table(answer)
        else:
            frame = self.spark.read.parquet(*answer.inspect.files()["file_path"].to_pylist())
        hashes = ", ".join(f"sum(CAST(xxhash64(id, {name}) AS DECIMAL(38, 0)))" for name in files.schema.names)
        frame.createOrReplaceTempView("answered")
        return self.spark.sql(f"SELECT {hashes} FROM answered").collect()[0]


def sealed_batch(files: BenchFiles, batch: str) -> MemoryWork:
    """The work bucket as sealing leaves it: a batch of these files, with its manifest and its parts."""
    work = MemoryWork()
    parts = [
        make_part(f"{start:040x}", BUCKET, files.uploads[start : start + PART])
        for start in range(0, len(files.uploads), PART)
    ]
    for part in parts:
        work.put(batch_folder(batch) + part.name, part.body)
    sealed = Sealed(batch, "events", tuple(part.name for part in parts), len(files.uploads), files.size)
    work.put(batch_folder(batch) + "sealed.json", sealed.encode())
    return work


def sums_of(table: pa.Table) -> Sums:
    letters = pc.sum(pc.utf8_length(table["text"])).as_py()
    cents = pc.sum(pc.cast(table["cents"], pa.int64())).as_py()
    return Sums(table.num_rows, pc.sum(table["id"]).as_py(), cents, letters)


@contextmanager
def workshop(memory: str = "3g", wait: float = 0.0) -> Iterator[Workshop]:
    """Spark on two cores with a catalog on SQLite, and the server, which answers after `wait` seconds; all of it in a
    temporary folder. `memory` is that of Spark's JVM."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "landing").mkdir()
        with serving(LandingServer(folder / "landing"), wait) as endpoint:
            os.environ |= {
                **toolchain.spark_environment(),
                "AWS_ENDPOINT_URL_S3": endpoint,
                "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "testing",
                "PYTHONPATH": os.getcwd(),
            }
            spark = _session(folder, memory)
            try:
                with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
                    yield Workshop(spark, folder, pool)
            finally:
                spark.stop()


def _session(folder: Path, memory: str) -> SparkSession:
    catalog = "spark.sql.catalog.lake"
    settings: Mapping[str, str] = {
        "spark.jars": ",".join(map(str, toolchain.jars())),
        # the session is there sooner; what is measured has been run before
        "spark.driver.extraJavaOptions": sharing_options(installed_archive()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.uri": f"jdbc:sqlite:{folder / 'catalog.db'}?busy_timeout=20000",
        f"{catalog}.warehouse": (folder / "warehouse").as_uri(),
        f"{catalog}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master(f"local[{PROCESSES}]").appName("bench")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.bench")
    return spark


# ---- a bench of several kinds of files


@dataclass(frozen=True, slots=True)
class FileKind:
    """So many files of about `size` bytes, read `rounds` times by each peer. `goals` has peers that should take so many
    times as long as the product."""

    title: str
    format: str
    count: int
    size: int
    rounds: int
    peers: Sequence[str]
    packed: bool = False
    shape: Callable[[Random], BenchShape] | None = None
    """What draws its columns. None: those of all benches."""
    goals: Mapping[str, float] = field(default_factory=dict)


def ingested(name: str, kinds: Sequence[FileKind], count: int = 0, *, size: int = 0) -> BenchFindings:
    """Every kind by every peer. With `count` so many files of each kind, of `size` bytes, in one round."""
    found: dict[str, tuple[BenchFiles, Rounds]] = {}
    limits: list[BenchLimit] = []
    with workshop() as shop:
        if not count:
            warmed(shop)
        for kind in kinds:
            files = _made(shop, kind, count or kind.count, size or kind.size)
            peers = {peer: run for peer, run in shop.peers(files).items() if peer in kind.peers}
            rounds = take_turns(peers, 1 if count else kind.rounds, shop.check(files))
            found[kind.title] = files, rounds
            seconds = ", ".join(f"{peer} {rounds.seconds(peer):.2f}" for peer in rounds.runs)
            print(f"{kind.title}, {files.size / 1e6:.0f} MB: {seconds}", file=sys.stderr, flush=True)
            limits += [
                BenchLimit(time_to(kind.title, peer), rounds.ratio(PRODUCT, peer), 1 / times, "")
                for peer, times in kind.goals.items()
            ]
            shop.clear()
    table, chart = compared(name, found)
    return BenchFindings((table,), (chart,), limits)


def _made(shop: Workshop, kind: FileKind, count: int, size: int) -> BenchFiles:
    if kind.shape is None:
        return make_files(shop.landing, kind.title, kind.format, count, size, packed=kind.packed)
    shape = kind.shape(Random(SEED))
    return drawn_files(shop.landing, kind.title, shape, kind.format, count, size, seed=SEED)


def warmed(shop: Workshop) -> None:
    """The first run of anything in a session takes seconds more."""
    for format in ("json", "csv", "parquet"):
        files = make_files(shop.landing, "warm", format, 20, 2_000)
        take_turns(shop.peers(files), 2, shop.check(files))
        shop.clear()


# ---- in print


def compared(name: str, found: Mapping[str, tuple[BenchFiles, Rounds]]) -> tuple[BenchTable, BarChart]:
    """A table and a chart of the peers' times, for each kind of files."""
    rows, groups = [], []
    for title, (files, rounds) in found.items():
        for peer in rounds.runs:
            seconds = rounds.seconds(peer)
            rows.append(
                (
                    title,
                    peer,
                    f"{seconds:.2f}",
                    f"{len(files.uploads) / seconds:,.0f}",
                    f"{files.size / seconds / 1e6:.1f}",
                    f"{rounds.ratio(peer, PRODUCT):.2f}",
                )
            )
        groups.append((title, [(peer, rounds.seconds(peer)) for peer in rounds.runs]))
    times = " and ".join(sorted({str(len(rounds.runs[PRODUCT])) for _, rounds in found.values()}))
    note = f"Medians of {times} rounds."
    head = ("files", "", "seconds", "files a second", "MB a second", "time, to Tidegate")
    return BenchTable(name, head, rows, note), BarChart(
        name, "From a list of files to a published snapshot", "s", groups
    )

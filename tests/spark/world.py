"""What the Spark tests share, in and out of process: a session, and a work bucket with a sealed batch."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from pyspark.sql import SparkSession

from tidegate.aws.work import S3Work
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.publication import Floor, Verdict, verdict
from tidegate.core.receipts import Outcomes, Receipt, decode_failure, decode_outcomes, decode_receipt
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.flows.publish import Attempt
from tidegate.reading.fetch import a_neighbour_is_readable, newest_first
from tidegate.sinks.iceberg.marks import BATCH, IcebergSnapshot
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate_local import toolchain
from tidegate_local.emr.sharing import installed_archive, sharing_options
from tidegate_local.emr.submit import JAVA_OPTIONS

LANDING = "landing"
WORK = "work"


def session(warehouse: Path, more_jars: Sequence[Path] = ()) -> SparkSession:
    """A real Spark with a real Iceberg catalog on SQLite, as the local stack has it."""
    os.environ.update(toolchain.spark_environment())
    catalog = "spark.sql.catalog.lake"
    settings = {
        "spark.jars": ",".join(map(str, [*toolchain.jars(), *more_jars])),
        # What a local job's JVM is given serves these sessions, too. One of them may live for half an hour, though: the
        # 48 MB for compiled code that a JVM with the first compiler alone reserves are full before that.
        "spark.driver.extraJavaOptions": (
            f"{JAVA_OPTIONS} -XX:ReservedCodeCacheSize=240m {sharing_options(installed_archive())}"
        ),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "jdbc",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.uri": f"jdbc:sqlite:{warehouse / 'catalog.db'}?busy_timeout=20000",
        f"{catalog}.warehouse": warehouse.as_uri(),
        f"{catalog}.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@dataclass
class World:
    """A landing bucket and a work bucket; `seal` makes a batch of what was put."""

    dataset: Dataset
    spark: SparkSession | None
    s3: Any = field(default_factory=lambda: boto3.client("s3"))

    @property
    def work(self) -> S3Work:
        return S3Work(self.s3, WORK)

    def put(self, files: Mapping[str, bytes]) -> list[Upload]:
        uploads = []
        for key, body in files.items():
            etag = self.s3.put_object(Bucket=LANDING, Key=key, Body=body)["ETag"].strip('"')
            uploads.append(Upload(LANDING, key, f"etag:{etag}", len(body)))
        return uploads

    def seal(self, batch: str, uploads: Iterable[Upload]) -> None:
        part = make_part("n" * 40, LANDING, uploads)
        self.work.put(batch_folder(batch) + part.name, part.body)
        sealed = Sealed(batch, "route", (part.name,), part.objects, part.size)
        self.work.put(batch_folder(batch) + "sealed.json", sealed.encode())

    def attempt(self, batch: str, number: int, driver: str = "") -> Attempt:
        assert self.spark is not None
        sink = IcebergSink(self.spark, self.dataset, batch, number, driver or f"{batch}-{number}")
        return Attempt(sink, self.work, batch, number, can_read_near=a_neighbour_is_readable, newest_first=newest_first)

    def receipt(self, batch: str) -> Receipt | None:
        body = self.work.get(batch_folder(batch) + "receipt.json")
        return decode_receipt(body) if body else None

    def outcomes(self, batch: str) -> Outcomes:
        receipt = self.receipt(batch)
        assert receipt is not None
        body = self.work.get(f"{batch_folder(batch)}outcomes/{receipt.staged}.jsonl.gz")
        assert body is not None
        return decode_outcomes(body)

    def failure(self, batch: str, attempt: int) -> Any:
        body = self.work.get(f"{batch_folder(batch)}failures/{attempt}.json")
        return decode_failure(body) if body else None

    def rows(self) -> list[Any]:
        assert self.spark is not None
        return self.spark.table(self.dataset.table).orderBy("_source_uri", "_source_row").collect()

    def main(self) -> list[IcebergSnapshot]:
        """The ancestors of main, the head first."""
        assert self.spark is not None
        return IcebergTable(self.spark, self.dataset.table).main()

    def published(self) -> list[IcebergSnapshot]:
        """Those of them that published or fenced a batch."""
        return [each for each in self.main() if "published-wap-id" in each.summary]

    def staged(self, batch: str) -> int:
        """How many snapshots that were written for the batch are in the table's metadata and not in main."""
        assert self.spark is not None
        inside = {snapshot.id for snapshot in self.main()}
        found = self.spark.sql(f"SELECT snapshot_id, summary FROM {self.dataset.table}.snapshots").collect()
        return sum(row.snapshot_id not in inside and row.summary.get(BATCH) == batch for row in found)

    def branches(self) -> list[str]:
        assert self.spark is not None
        found = self.spark.sql(f"SELECT name FROM {self.dataset.table}.refs WHERE type = 'BRANCH'").collect()
        return sorted(row.name for row in found if row.name != "main")

    def sql(self, statement: str) -> Any:
        """Run SQL in which `{t}` is the table."""
        assert self.spark is not None
        return self.spark.sql(statement.replace("{t}", self.dataset.table)).collect()

    def expire(self, before: str = "2999-01-01 00:00:00") -> None:
        """What somebody's maintenance does: forget all snapshots older than `before` but the heads of branches."""
        self.sql(
            f"CALL lake.system.expire_snapshots(table => '{{t}}', older_than => TIMESTAMP '{before}', retain_last => 1)"
        )

    def ids(self) -> list[int]:
        """The `id` column of every row in the table, sorted: a repeated one shows."""
        return sorted(row.id for row in self.rows())


def asked(attempt: Attempt, floor: Floor) -> Verdict:
    """What the table says of the attempt's batch."""
    return verdict(attempt.sink.history(floor), attempt.batch, floor)

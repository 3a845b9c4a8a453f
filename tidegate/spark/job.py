"""The Spark step: one attempt at one batch. `ingest` publishes it; `fence` makes sure that it never will be.

    step                           if the driver dies right after it        if a twin runs beside it
    1 read the floor, or write it  written once; whoever comes reads it     the same
    2 ask: already decided?        nothing has happened                     the same
    3 stage the rows               a staged snapshot nobody publishes       each stages its own
    4 write its outcomes           named by the staged snapshot: harmless   each writes its own
    5 publish it                   the next attempt finds it at step 2      Iceberg lets one of them in
    6 write the receipt            settling reads it                        both write what the table says

Nothing here deletes anything.
"""

import argparse
import datetime
import json
import logging
import sys
import uuid
from dataclasses import dataclass, replace
from typing import Any, cast

import boto3
from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
    UnsupportedOperationException,
)
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidegate.aws.work import S3Work
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.manifests import Item, batch_folder, bin_pack, decode_part, decode_sealed
from tidegate.core.outcomes import Outcome
from tidegate.core.publication import BATCH, Floor, NotPublished, Published, Unprovable, staged_by, verdict
from tidegate.core.receipts import (
    Ending,
    Failure,
    Outcomes,
    Receipt,
    decode_floor,
    decode_outcomes,
    encode_floor,
    tally_of,
)
from tidegate.core.routes import Dataset
from tidegate.flows.ports import Work
from tidegate.spark.decode import decoder
from tidegate.spark.read import LINEAGE_DDL, Contradiction, Endings, Read, Reader
from tidegate.spark.table import WAP_ENABLED, IcebergTable, cause

log = logging.getLogger("tidegate")

DRIVER = "tidegate.driver"
ATTEMPT = "tidegate.attempt"
TASK_BYTES = 64_000_000
TASK_OBJECTS = 2_000
PUBLISH_TRIES = 8


class Hopeless(Exception):
    """Another attempt would meet the same: a person must act. The text says on what, and how."""


@dataclass
class Attempt:
    """One driver's try at one batch. `driver` is unique to this run of this process, unlike the attempt's number:
    EMR Serverless may run the driver of one attempt twice. `landing_owner` is the account that the uploads' bucket must
    belong to; without it nobody checks."""

    spark: SparkSession
    work: Work
    batch: str
    attempt: int
    dataset: Dataset
    driver: str
    landing_owner: str = ""

    @property
    def folder(self) -> str:
        return batch_folder(self.batch)

    @property
    def marks(self) -> dict[str, str]:
        """What is written into the summary of each snapshot that this driver stages."""
        return {BATCH: self.batch, DRIVER: self.driver, ATTEMPT: str(self.attempt)}

    @property
    def table(self) -> IcebergTable:
        return IcebergTable(self.spark, self.dataset.table)

    # ---- the two modes

    def ingest(self) -> Receipt:
        """Publish the batch, or find out who decided it otherwise."""
        self.prepare_table()
        floor = self.floor()
        decided = self.ask(floor)
        if decided is None:
            staged = self.stage()
            decided = self.publish(staged, floor)
        return self.write_receipt(decided)

    def fence(self) -> Receipt:
        """Publish nothing under the batch's id, so that nothing else can be; or find that it was published before.

        The fence needs a table to stand in, also if none was ever created: a zombie may be about to.
        """
        self.create_table_if_absent()
        self.require_staging()
        floor = self.floor()
        decided = self.ask(floor)
        if decided is None:
            staged = self.stage_fence()
            decided = self.publish(staged, floor)
        return self.write_receipt(decided)

    # ---- the table

    def prepare_table(self) -> None:
        """Create the table if it is absent; refuse one that would leak or that lacks columns."""
        struct = _struct(self.dataset.schema)
        try:
            decoder(self.dataset.format, to_arrow_schema(struct), delimiter=self.dataset.delimiter)
        except (ValueError, TypeError, PySparkException) as error:
            raise Hopeless(
                f"the route's schema has a column that {self.dataset.format} files cannot fill: {cause(error)}."
                " Correct it in tidegate.toml"
            ) from error
        self.create_table_if_absent()
        self.require_staging()
        self.require_columns()

    def create_table_if_absent(self) -> None:
        if not self.table.exists:
            try:
                self.table.create_if_absent(f"{self.dataset.schema}, {LINEAGE_DDL}", self.dataset.partition_by)
            except PySparkException as error:
                # the catalog itself may be out of reach, which passes; the rest are mistakes in the configuration
                kinds = (ParseException, AnalysisException, IllegalArgumentException, UnsupportedOperationException)
                if not isinstance(error, kinds):
                    raise
                raise Hopeless(
                    f"table {self.dataset.table} cannot be created from the route's schema and partition_by:"
                    f" {cause(error)}. Correct them in tidegate.toml"
                ) from error

    def require_staging(self) -> None:
        if not self.table.stages:
            raise Hopeless(
                f"table {self.dataset.table} does not have {WAP_ENABLED}=true, so a write would go straight into it,"
                f" past the check that keeps a batch from landing twice. Run: ALTER TABLE {self.dataset.table}"
                f" SET TBLPROPERTIES ('{WAP_ENABLED}'='true')"
            )

    def require_columns(self) -> None:
        there = {field.name: field for field in self.table.schema}
        wanted = {field.name: field for field in _struct(f"{self.dataset.schema}, {LINEAGE_DDL}")}
        for name, field in wanted.items():
            if name not in there:
                raise Hopeless(
                    f"table {self.dataset.table} has no column {name}, which the route's schema has. Run: ALTER TABLE"
                    f" {self.dataset.table} ADD COLUMN {name} {field.dataType.simpleString()}"
                )
            if there[name].dataType.simpleString() != field.dataType.simpleString():
                raise Hopeless(
                    f"column {name} of table {self.dataset.table} is {there[name].dataType.simpleString()}, in the"
                    f" route's schema it is {field.dataType.simpleString()}. Make them the same"
                )
            if field.nullable and not there[name].nullable:
                raise Hopeless(
                    f"column {name} of table {self.dataset.table} takes no nulls, in the route's schema it may be null."
                    f" Say `not null` there, or run: ALTER TABLE {self.dataset.table} ALTER COLUMN {name} DROP NOT NULL"
                )
        for name, field in there.items():
            if name not in wanted and not field.nullable:
                raise Hopeless(
                    f"table {self.dataset.table} demands a value for column {name}, which the route's schema lacks."
                    f" Add it to the schema, or run: ALTER TABLE {self.dataset.table} ALTER COLUMN {name} DROP NOT NULL"
                )

    # ---- decision 3

    def floor(self) -> Floor:
        """Where the table stood before the batch was first attempted: the first attempt's answer, for all of them."""
        name = self.folder + "floor.json"
        known = self.work.get(name)
        if known is None:
            history = self.table.history()
            self.work.put_if_absent(name, encode_floor(Floor(history.table_uuid, history.head)))
            known = self.work.get(name)
        if known is None:
            raise Retryable(f"{name} was written but cannot be read")
        return decode_floor(known)

    def ask(self, floor: Floor) -> Published | None:
        """What the table says of the batch; None if it is undecided. Raises Hopeless if the table cannot say."""
        match verdict(self.table.history(), self.batch, floor):
            case Published() as published:
                return published
            case NotPublished():
                return None
            case Unprovable(reason):
                raise Hopeless(f"table {self.dataset.table}: {reason}. Nothing was published; a person has to decide")

    def publish(self, staged: int, floor: Floor) -> Published:
        """Publish what this driver staged, and only that, until the table has decided."""
        retrying = Retrying(
            retry=retry_if_exception_type(OutcomeUnknown),
            stop=stop_after_attempt(PUBLISH_TRIES),
            wait=wait_random_exponential(0.2, max=20),
            reraise=True,
        )
        return retrying(self._publish_once, staged, floor)

    def _publish_once(self, staged: int, floor: Floor) -> Published:
        refusal = "no error"
        try:
            self.table.publish(staged)
        except (Py4JJavaError, PySparkException) as error:
            # refused, conflict, or an answer that got lost: the history knows, the exception does not
            refusal = cause(error)
            log.warning("publishing snapshot %s: %s", staged, refusal)
        try:
            decided = self.ask(floor)
        except (Py4JJavaError, PySparkException) as error:
            raise OutcomeUnknown(
                f"whether snapshot {staged} of batch {self.batch} is published cannot be read: {cause(error)}"
            ) from error
        if decided is None:
            raise OutcomeUnknown(f"snapshot {staged} of batch {self.batch} is not published yet: {refusal}")
        return decided

    # ---- staging

    def stage(self) -> int:
        """Read every object, stage the rows, write the outcomes; returns the staged snapshot."""
        items = self.manifest()
        struct = _struct(self.dataset.schema)
        reader = Reader(
            self.dataset, to_arrow_schema(struct), self.batch, datetime.datetime.now(datetime.UTC), self.landing_owner
        )
        endings: Any = self.spark.sparkContext.accumulator({}, Endings())
        rows = self._rows(reader, items, endings)
        for name in (field.name for field in self.table.schema if field.name not in rows.columns):
            rows = rows.withColumn(name, lit(None))
        self.table.stage(rows, self.batch, self.marks)
        staged = self._staged()
        outcomes = self._account_for(items, endings.value, staged)
        self.work.put(f"{self.folder}outcomes/{staged}.jsonl.gz", outcomes.encode())
        return staged

    def stage_fence(self) -> int:
        self.table.stage_nothing(self.batch, self.marks)
        staged = self._staged()
        outcomes = Outcomes(staged, fence=True, tally=tally_of([], 0))
        self.work.put(f"{self.folder}outcomes/{staged}.jsonl.gz", outcomes.encode())
        return staged

    def manifest(self) -> list[Item]:
        """The uploads of the sealed batch, each once, in a fixed order."""
        body = self.work.get(self.folder + "sealed.json")
        if body is None:
            raise Retryable(f"batch {self.batch}: sealed.json is missing in the work bucket")
        sealed = decode_sealed(body)
        items: list[Item] = []
        for name in sealed.parts:
            part = self.work.get(self.folder + name)
            if part is None:
                raise Retryable(f"batch {self.batch}: {name} is missing in the work bucket")
            items += decode_part(part)
        identities = {item.upload.identity for item in items}
        if not len(identities) == len(items) == sealed.objects:
            raise Hopeless(
                f"batch {self.batch}: its parts name {len(items)} uploads, {len(identities)} different ones, and its"
                f" manifest says {sealed.objects}. Nothing was published; compare parts/ and sealed.json"
            )
        return items

    def _rows(self, reader: Reader, items: list[Item], endings: Any) -> Any:
        """The rows as a DataFrame: one partition a task, no listing, no shuffle of the manifest."""
        context = self.spark.sparkContext
        tasks = bin_pack(
            [item.upload.size for item in items],
            parallelism=context.defaultParallelism,
            task_bytes=TASK_BYTES,
            task_objects=TASK_OBJECTS,
        )
        shipped = context.broadcast([[(position, items[position]) for position in task] for task in tasks])
        schema = _struct(f"{self.dataset.schema}, {LINEAGE_DDL}")

        def read(batches: Any) -> Any:
            for numbers in batches:
                for number in numbers.column(0).to_pylist():
                    yield from reader.read(
                        shipped.value[number], lambda position, ended: endings.add({position: ended})
                    )

        return self.spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, schema)

    def _staged(self) -> int:
        staged = staged_by(self.table.history(), self.batch, self.driver, DRIVER)
        if staged is None:
            raise Hopeless(
                f"table {self.dataset.table} took the write but shows no snapshot staged by it: was {WAP_ENABLED}"
                " switched off meanwhile? Look at the newest snapshots of the table before anything else"
            )
        return staged

    def _account_for(self, items: list[Item], endings: dict[int, Read], staged: int) -> Outcomes:
        """The outcomes of the staged snapshot, checked against the manifest and against Iceberg's own count."""
        if any(read == Endings.CONFLICT for read in endings.values()):
            raise Contradiction(f"batch {self.batch}: an upload was read twice with different endings; staged {staged}")
        missing = [item for position, item in enumerate(items) if position not in endings]
        if missing:
            raise Retryable(
                f"batch {self.batch}: {len(missing)} uploads were not accounted for, e.g. {missing[0].upload}"
            )
        tally = tally_of((read.outcome for read in endings.values()), sum(read.rows for read in endings.values()))
        added = int(self.table.history().snapshots[staged].summary.get("added-records", "0"))
        if added != tally.rows:
            raise Retryable(f"batch {self.batch}: {tally.rows} rows were read, {added} are in snapshot {staged}")
        ended = ((item, endings[position]) for position, item in enumerate(items))
        exceptions = tuple(
            Ending(item.notice, item.upload.bucket, item.upload.key, item.upload.version, read.outcome, read.error)
            for item, read in ended
            if read.outcome is not Outcome.COMMITTED
        )
        return Outcomes(staged, fence=False, tally=tally, endings=exceptions)

    # ---- the receipt

    def write_receipt(self, decided: Published) -> Receipt:
        """What the table decided, whoever brought it about. Overwriting it writes the same."""
        body = self.work.get(f"{self.folder}outcomes/{decided.staged}.jsonl.gz")
        if body is None:
            raise Hopeless(
                f"batch {self.batch} is published as snapshot {decided.snapshot}, but the outcomes of its staged"
                f" snapshot {decided.staged} are missing in the work bucket: who published it?"
            )
        outcomes = decode_outcomes(body)
        receipt = Receipt(self.batch, decided.snapshot, decided.staged, outcomes.fence, outcomes.tally)
        self.work.put(self.folder + "receipt.json", receipt.encode())
        return receipt


def _struct(ddl: str) -> StructType:
    try:
        return cast(StructType, StructType.fromDDL(ddl))
    except ParseException as error:
        raise Hopeless(f"the route's schema is not Spark DDL: {cause(error)}") from error


def run(attempt: Attempt, mode: str) -> int:
    """Run one attempt to its end; 0 if the table has decided. Never raises: the reason is left for settling."""
    try:
        receipt = attempt.ingest() if mode == "ingest" else attempt.fence()
    except Exception as error:
        hopeless = isinstance(error, Hopeless)
        reason = str(error) if isinstance(error, (Hopeless, Retryable, OutcomeUnknown)) else cause(error)
        log.error("attempt %s of batch %s gave up: %s", attempt.attempt, attempt.batch, reason, exc_info=not hopeless)
        failure = Failure(attempt.attempt, reason, hopeless)
        try:
            attempt.work.put(f"{attempt.folder}failures/{attempt.attempt}.json", failure.encode())
        except Exception:
            log.exception("the reason could not be left in the work bucket")
        return 1
    log.info("batch %s: %s as snapshot %s", receipt.batch, "fenced" if receipt.fence else "published", receipt.snapshot)
    return 0


def main(argv: list[str] | None = None) -> None:
    """The command line that hand-off gives to StartJobRun."""
    parser = argparse.ArgumentParser(prog="tidegate-ingest")
    parser.add_argument("mode", choices=("ingest", "fence", "selftest"))
    parser.add_argument("--batch", required=True)
    parser.add_argument("--attempt", required=True, type=int)
    parser.add_argument("--work", required=True, help="the work bucket's name")
    parser.add_argument("--account", default="", help="the account that the work bucket must belong to")
    parser.add_argument("--landing-owner", default="", help="the account that the uploads' bucket must belong to")
    parser.add_argument("--dataset", required=True, help="core.routes.Dataset as JSON")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    given = json.loads(arguments.dataset)
    if arguments.mode == "selftest":
        from tidegate.spark import selftest  # a job that ingests needs none of it

        dataset = replace(Dataset(**given), partition_by=tuple(given["partition_by"]))
        sys.exit(selftest.run(arguments.batch, arguments.work, arguments.account, dataset))
    attempt = Attempt(
        spark=SparkSession.builder.appName(f"tidegate-{arguments.batch}-{arguments.attempt}").getOrCreate(),
        work=S3Work(boto3.client("s3"), arguments.work, arguments.account),
        batch=arguments.batch,
        attempt=arguments.attempt,
        dataset=replace(Dataset(**given), partition_by=tuple(given["partition_by"])),
        driver=uuid.uuid4().hex,
        landing_owner=arguments.landing_owner,
    )
    code = run(attempt, arguments.mode)
    attempt.spark.stop()
    sys.exit(code)

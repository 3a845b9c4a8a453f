"""The Spark step: one attempt at one batch. `ingest` publishes it; `fence` makes sure that it never will be.

    step                           if the driver dies right after it        if a twin runs beside it
    1 ask: already decided?        nothing has happened                     the same
    2 read the floor, or write it  written once; whoever comes reads it     the same
    3 stage the rows on a branch   a branch that nobody publishes           each stages on its own
    4 write its outcomes           named by the staged snapshot: harmless   each writes its own
    5 publish it, on condition     the next attempt finds it at step 1      Iceberg lets one of them in
    6 write the receipt            settling reads it                        both write what the table says
    7 drop the batch's branches    expiry drops them after 30 days          a twin's branch may go: it has lost

Step 1 comes before anything else that can fail: a batch that is published must not halt over a column that was renamed
since. It asks only if there is a floor, because nothing is staged before there is one. The question that counts is part
of step 5, and of each try of its commit. Nothing is deleted before the table has decided.
"""

import argparse
import datetime
import logging
import sys
import uuid
from dataclasses import dataclass
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
from tidegate.core.manifests import Item, batch_folder, bin_pack, decode_part, decode_sealed, floor_name
from tidegate.core.outcomes import Outcome
from tidegate.core.publication import BATCH, Floor, NotPublished, Published, Unprovable, Verdict, verdict
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
from tidegate.core.routes import Dataset, decode_dataset
from tidegate.flows.ports import Work
from tidegate.spark.decode import decoder
from tidegate.spark.fetch import a_neighbour_is_readable
from tidegate.spark.read import LINEAGE_DDL, Contradiction, Endings, Read, Reader
from tidegate.spark.table import IcebergTable, StagedIsGone, cause

log = logging.getLogger("tidegate")

DRIVER = "tidegate.driver"
ATTEMPT = "tidegate.attempt"
TASK_BYTES = 64_000_000
TASK_OBJECTS = 2_000
PUBLISH_TRIES = 8
RESTORED = "Nothing was published. If the ledger was restored from a backup, see `tidegate ledger recover --help`"


class Hopeless(Exception):
    """Another attempt would meet the same: a person must act. The text says on what, and how."""


@dataclass
class Tries:
    """What a driver remembers of its tries to publish: whether one of them may have been applied without an answer."""

    unknown: bool = False


@dataclass
class Attempt:
    """One driver's try at one batch. `driver` is unique to this run of this process, unlike the attempt's number:
    EMR Serverless may run the driver of one attempt twice.

    `landing_owner` is the account that the uploads' bucket must belong to; without it nobody checks. `digest` is
    that of the parts that the ledger has registered; without it, as from an earlier version, nobody compares.
    `floors` is how often a person has decided that the batch is not in the table (`tidegate.flows.decide`). `last` says
    that no other attempt follows."""

    spark: SparkSession
    work: Work
    batch: str
    attempt: int
    dataset: Dataset
    driver: str
    landing_owner: str = ""
    digest: str = ""
    floors: int = 0
    last: bool = False

    @property
    def folder(self) -> str:
        return batch_folder(self.batch)

    @property
    def marks(self) -> dict[str, str]:
        """What is written into the summary of each snapshot that this driver stages."""
        return {BATCH: self.batch, DRIVER: self.driver, ATTEMPT: str(self.attempt)}

    @property
    def branches(self) -> str:
        """How the names of the batch's branches begin."""
        return f"tidegate_{self.batch}_"

    @property
    def branch(self) -> str:
        """Where this driver stages."""
        return f"{self.branches}{self.driver}"

    @property
    def table(self) -> IcebergTable:
        return IcebergTable(self.spark, self.dataset.table)

    # ---- the two modes

    def ingest(self) -> Receipt:
        """Publish the batch, or find out who decided it otherwise."""
        found = self.look()
        if not isinstance(found, Published):
            self.prepare_table()
            floor = found or self.floor()
            found = self.publish(self.stage(), floor)
        return self.write_receipt(found)

    def fence(self) -> Receipt:
        """Publish nothing under the batch's id, so that nothing else can be; or find that it was published before.

        The fence needs a table to stand in, also if none was ever created: a zombie may be about to.
        """
        found = self.look()
        if not isinstance(found, Published):
            self.create_table_if_absent()
            floor = found or self.floor()
            found = self.publish(self.stage_fence(), floor)
        return self.write_receipt(found)

    def tidy(self) -> None:
        """Drop what was staged for a batch that is decided. If it fails, expiry does it later."""
        try:
            self.table.drop_branches(self.branches)
        except Exception as error:
            log.warning("the branches of batch %s were not dropped: %s", self.batch, cause(error))

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

    def look(self) -> Published | Floor | None:
        """What an earlier attempt, or a twin, has brought about; else the floor that the table still answers for. None
        if there is no floor: then nothing can have been staged.

        Raises Hopeless if the table cannot say.
        """
        floors = [floor for number in range(self.floors + 1) if (floor := self.known_floor(number))]
        if floors and not self.table.exists:
            raise self._unprovable("the table is gone, and the batch was attempted before that")
        # The oldest floor that still answers decides: whatever a person has said since, it knows more.
        said = ""
        for floor in floors:
            match verdict(self.table.history(floor), self.batch, floor):
                case Published() as published:
                    return published
                case NotPublished():
                    return floor
                case Unprovable(reason):
                    said = reason
        if len(floors) > self.floors:
            raise self._unprovable(said)
        return None

    def ask(self, floor: Floor) -> Published | None:
        """What the table says of the batch; None if it is undecided. Raises Hopeless if the table cannot say."""
        match verdict(self.table.history(floor), self.batch, floor):
            case Published() as published:
                return published
            case NotPublished():
                return None
            case Unprovable(reason):
                raise self._unprovable(reason)

    def floor(self) -> Floor:
        """Where the table stood before the batch was first attempted: the first attempt's answer, for all of them.

        After a person has decided that the batch is not in the table, it counts anew from there.
        """
        name = self.folder + floor_name(self.floors)
        known = self.known_floor(self.floors)
        if known is None:
            self.work.put_if_absent(name, encode_floor(self.table.position()))
            known = self.known_floor(self.floors)
        if known is None:
            raise Retryable(f"{name} was written but cannot be read")
        return known

    def known_floor(self, number: int) -> Floor | None:
        body = self.work.get(self.folder + floor_name(number))
        return decode_floor(body) if body else None

    def publish(self, staged: int, floor: Floor) -> Published:
        """Publish what this driver staged, and only that, until the table has decided."""
        retrying = Retrying(
            retry=retry_if_exception_type(OutcomeUnknown),
            stop=stop_after_attempt(PUBLISH_TRIES),
            wait=wait_random_exponential(0.2, max=20),
            reraise=True,
        )
        tries = Tries()
        return retrying(self._publish_once, staged, floor, tries)

    def _publish_once(self, staged: int, floor: Floor, tries: "Tries") -> Published:
        """One commit; after an error, one question.

        A commit that was refused says why, and that is final. One that failed in any other way may have been applied:
        from then on "the table cannot say" is no proof that nothing was published.
        """
        told: Verdict
        try:
            told = self.table.publish(staged, self.batch, floor, self.marks)
        except StagedIsGone as error:
            raise Retryable(str(error)) from error
        except (Py4JJavaError, PySparkException) as error:
            # a conflict, or an answer that got lost: the history knows, the exception does not
            refusal = cause(error)
            log.warning("publishing snapshot %s: %s", staged, refusal)
            tries.unknown = True
            try:
                told = verdict(self.table.history(floor), self.batch, floor)
            except (Py4JJavaError, PySparkException) as again:
                raise OutcomeUnknown(
                    f"whether snapshot {staged} of batch {self.batch} is published cannot be read: {cause(again)}"
                ) from again
        match told:
            case Published():
                return told
            case Unprovable(reason):
                raise self._unprovable(reason, staged if tries.unknown else 0)
            case NotPublished():
                raise OutcomeUnknown(f"snapshot {staged} of batch {self.batch} is not published yet: {refusal}")

    def _unprovable(self, reason: str, perhaps: int = 0) -> "Hopeless":
        """`perhaps` is the staged snapshot that this attempt may have published."""
        what = (
            f"Snapshot {perhaps}, which this attempt staged, may have been published: no answer came"
            if perhaps
            else "This attempt published nothing"
        )
        return Hopeless(
            f"table {self.dataset.table}: {reason}. {what}; a person has to decide (see `tidegate decide --help`)"
        )

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
        staged, added = self.table.stage(rows, self.branch, self.marks)
        outcomes = self._account_for(items, endings.value, staged, added)
        self.work.put(f"{self.folder}outcomes/{staged}.jsonl.gz", outcomes.encode())
        return staged

    def stage_fence(self) -> int:
        staged = self.table.stage_nothing(self.branch, self.marks)
        outcomes = Outcomes(staged, fence=True, tally=tally_of([], 0))
        self.work.put(f"{self.folder}outcomes/{staged}.jsonl.gz", outcomes.encode())
        return staged

    def manifest(self) -> list[Item]:
        """The uploads of the sealed batch, each once, in a fixed order."""
        body = self.work.get(self.folder + "sealed.json")
        if body is None:
            raise Retryable(f"batch {self.batch}: sealed.json is missing in the work bucket")
        sealed = decode_sealed(body)
        if self.digest and sealed.digest != self.digest:
            raise Hopeless(
                f"batch {self.batch}: its manifest has the digest {sealed.digest}, the ledger registered parts with the"
                f" digest {self.digest}: they are of different histories. {RESTORED}"
            )
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

    def _account_for(self, items: list[Item], endings: dict[int, Read], staged: int, added: int) -> Outcomes:
        """The outcomes of the staged snapshot, checked against the manifest and against Iceberg's own count."""
        if any(read == Endings.CONFLICT for read in endings.values()):
            raise Contradiction(f"batch {self.batch}: an upload was read twice with different endings; staged {staged}")
        missing = [item for position, item in enumerate(items) if position not in endings]
        if missing:
            raise Retryable(
                f"batch {self.batch}: {len(missing)} uploads were not accounted for, e.g. {missing[0].upload}"
            )
        self._judge_refused([(item, endings[position]) for position, item in enumerate(items)])
        tally = tally_of((read.outcome for read in endings.values()), sum(read.rows for read in endings.values()))
        if added != tally.rows:
            raise Retryable(f"batch {self.batch}: {tally.rows} rows were read, {added} are in snapshot {staged}")
        ended = ((item, endings[position]) for position, item in enumerate(items))
        exceptions = tuple(
            Ending(item.notice, item.upload.bucket, item.upload.key, item.upload.version, read.outcome, read.error)
            for item, read in ended
            if read.outcome is not Outcome.COMMITTED
        )
        return Outcomes(staged, fence=False, tally=tally, endings=exceptions, manifest=self.digest)

    def _judge_refused(self, ended: list[tuple[Item, Read]]) -> None:
        """Let stand that S3 refused some uploads, or raise Retryable.

        What is about one object must not stop its neighbours; what is about the role, the bucket or the moment must not
        end an upload. So a refusal is an ending only in the last attempt, and only if something of the same bucket
        could be read.
        """
        refused = [(item.upload, read) for item, read in ended if read.refused]
        if not refused:
            return
        upload, read = refused[0]
        what = f"batch {self.batch}: {len(refused)} uploads were refused by S3, e.g. {upload}: {read.error}"
        if not self.last:
            raise Retryable(f"{what}. If the last attempt finds the same, and neighbours can be read, they end so")
        readable = {item.upload.bucket for item, read in ended if read.outcome is Outcome.COMMITTED}
        alone = {each.bucket: each for each, _ in refused if each.bucket not in readable}
        for each in alone.values():
            if not a_neighbour_is_readable(each, self.landing_owner):
                raise Retryable(
                    f"{what}. Nothing near it in bucket {each.bucket} could be read either: look at the job role's"
                    " permissions, the bucket's policy and its keys"
                )

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
        receipt = Receipt(
            self.batch, decided.snapshot, decided.staged, outcomes.fence, outcomes.tally, outcomes.manifest
        )
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
    attempt.tidy()
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
    parser.add_argument("--digest", default="", help="the digest of the parts that the ledger has registered")
    parser.add_argument("--floors", default=0, type=int, help="how often a person said that it is not in the table")
    parser.add_argument("--last", action="store_true", help="no other attempt follows")
    parser.add_argument("--dataset", required=True, help="core.routes.Dataset as JSON")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stderr)
    dataset = decode_dataset(arguments.dataset)
    if arguments.mode == "selftest":
        from tidegate.spark import selftest  # a job that ingests needs none of it

        sys.exit(selftest.run(arguments.batch, arguments.work, arguments.account, dataset))
    attempt = Attempt(
        spark=SparkSession.builder.appName(f"tidegate-{arguments.batch}-{arguments.attempt}").getOrCreate(),
        work=S3Work(boto3.client("s3"), arguments.work, arguments.account),
        batch=arguments.batch,
        attempt=arguments.attempt,
        dataset=dataset,
        driver=uuid.uuid4().hex,
        landing_owner=arguments.landing_owner,
        digest=arguments.digest,
        floors=arguments.floors,
        last=arguments.last,
    )
    code = run(attempt, arguments.mode)
    attempt.spark.stop()
    sys.exit(code)

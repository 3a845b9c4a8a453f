"""The Spark step on the model of a table: `tidegate.spark.job` without Spark.

`Attempt` runs as it is (floor, verdict, staging, outcomes, publishing, receipt), and so do the reader and the decoders.
Only the cluster and the catalog are replaced.
"""

import functools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from obstore.exceptions import GenericError, NotFoundError, PermissionDeniedError, PreconditionError
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from simulation.world.product import HERE
from simulation.world.table import ModelCatalog, ModelTable, NoAnswer, Rows, rows_with_batches
from simulation.world.wire import Refusal
from tidegate import wiring
from tidegate.aws.work import S3Work
from tidegate.core.audit import AuditCounts, Listed
from tidegate.core.lineage import CompleteLineage, Landed, checked_prefix, encode_history, encode_landed, history_name
from tidegate.core.manifests import OwnedUpload
from tidegate.core.publication import History
from tidegate.core.replacing import in_order, is_marker, listed_version
from tidegate.core.routes import REJECTED, is_file_under
from tidegate.core.screening import CompleteScreening, ScreeningRequest, SuspectsPart, encode_suspects
from tidegate.core.uploads import Upload, version_of
from tidegate.flows import worker
from tidegate.flows.screen import screen
from tidegate.flows.sink import ReaderDied
from tidegate.reading import fetch, reader
from tidegate.reading.decoding import Decode, Decoding, Refused
from tidegate.reading.reader import LINEAGE, REJECTED_COLUMNS, Reader, with_lineage
from tidegate.sinks.iceberg import route_sql, sink
from tidegate.sinks.iceberg.endings import Endings
from tidegate.spark import job, lineage, screening, session

SCHEMA = "id bigint"
_LINEAGE_TYPES = {
    "_source_row": LongType(),
    "_ingested_at": TimestampType(),
}


@functools.cache
def _struct(ddl: str) -> StructType:
    """Spark needs a JVM to parse its DDL; worlds have one schema."""
    assert ddl.startswith((SCHEMA, "place string")), ddl
    fields = [StructField("id", LongType())]
    if ddl.startswith("place string"):
        fields = [StructField(name, StringType()) for name in ("place", "text", "error")]
    if ddl != SCHEMA:
        fields += [StructField(name, _LINEAGE_TYPES.get(name, StringType()), nullable=False) for name in LINEAGE.names]
    return StructType(fields)


class _Accumulator:
    def __init__(self, value: Any, parameter: Endings) -> None:
        self.value = value
        self._parameter = parameter

    def add(self, value: Any) -> None:
        self.value = self._parameter.addInPlace(self.value, value)


def _spark() -> Any:
    # without properties: no class of Iceberg is looked for, and no secret is read
    properties = SimpleNamespace(getAll=lambda: [])
    context = SimpleNamespace(accumulator=_Accumulator, defaultParallelism=1, getConf=lambda: properties)
    return SimpleNamespace(sparkContext=context, stop=lambda: None)


DEADLY = b'{"id": 1}\n{"deadly'
"""A file that kills the process that decodes it."""


class SimulatedDecoding(Decoding):
    def unpack(self, key: str, body: bytes) -> bytes | Refused:
        if body == DEADLY:
            raise _Killed
        return super().unpack(key, body)


class _Killed(BaseException):
    """The process that decodes is dead. No handler of the product sees this."""


@contextmanager
def _careful(decoding: Decoding, name: str) -> Iterator[Decode]:
    """`tidegate.reading.careful` without its child processes."""

    yield _Spared(decoding)


@dataclass(frozen=True)
class _Spared:
    decoding: Decoding

    def __call__(self, key: str, body: bytes) -> Any:
        try:
            return self.decoding(key, body)
        except _Killed:
            return Refused("its reader died of it")

    def streamed(self, key: str, source: Any) -> Any:
        return self.decoding.streamed(key, source)


@dataclass
class SimulatedSink(sink.IcebergSink):
    """`IcebergSink` with the model in place of Iceberg, and a loop in place of executors."""

    def iceberg_of(self, name: str) -> Any:
        assert HERE.network is not None
        of_rejected = ", ".join(f"{column} {kind}" for column, kind in REJECTED_COLUMNS.items())
        full = of_rejected if name.endswith(REJECTED) else with_lineage(self.dataset.schema)
        return ModelTable(CATALOG.of(HERE.network), HERE.network, name, lambda: _struct(full))

    def _stage_rows(
        self, reader: Reader, tasks: Sequence[sink.Task], branch: str, at: int | None, names: Any
    ) -> tuple[int, int, Any]:
        """The tasks write data files, the driver adds them to the table that it has loaded before."""
        loaded, told = self.iceberg.loaded(), self._told(names)
        try:
            read = [
                tuple(row.values())
                for task in tasks
                for batch in told.read(replace(reader, encoded=True), task)
                for row in batch.select(["_source_uri", "_source_version", "_source_row", "id"]).to_pylist()
            ]
            read = list(self._landing(read, told.sums))
        except _Killed:
            assert HERE.network is not None
            HERE.network.readers_died += 1
            raise ReaderDied("SparkException: Python worker exited unexpectedly (crashed)") from None
        rows = Rows(("id", *LINEAGE.names), tuple(read))
        return (*self.iceberg.stage_files(loaded, rows, branch, self.marks, at), told)

    def _landing(self, read: Sequence[tuple[Any, ...]], sums: Any) -> Iterator[tuple[Any, ...]]:
        """`tidegate.sinks.iceberg.route_sql` without Spark, for the `where` that worlds have."""
        assert self.dataset.where in ("", "id % 10 <> 1")
        for uri, version, number, value in read:
            if self.dataset.where and value % 10 == 1:
                sums.add({(number, uri, version): (1, -1, b"", "")})
            else:
                yield uri, version, number, value

    def _rejected_rows(self, reader: Reader, items: Sequence[OwnedUpload]) -> Any:
        read = [
            tuple(row.values())
            for batch in reader.read_rejected(list(enumerate(items)))
            for row in batch.select(["_source_uri", "_source_version", "_source_row", "text"]).to_pylist()
        ]
        return Rows(tuple(REJECTED_COLUMNS), tuple(read))


class _Store:
    """`obstore.store.S3Store` on one bucket of the world."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    def get(self, key: str, options: dict[str, str]) -> Any:
        answer = self._answer("GetObject", key, options)
        return SimpleNamespace(meta={"size": answer["ContentLength"]}, bytes=answer["Body"].read)

    def head(self, key: str) -> dict[str, Any]:
        return {"version": self._answer("HeadObject", key, {}).get("VersionId")}

    def _answer(self, operation: str, key: str, options: dict[str, str]) -> Any:
        assert HERE.network is not None
        asked = {"Bucket": self._bucket, "Key": key}
        asked |= {_STORE_OPTIONS[name]: value for name, value in options.items()}

        def fetched() -> dict[str, Any] | Refusal:
            try:
                return HERE.network.answered("s3", operation, asked)
            except Refusal as refusal:
                return refusal

        def broken() -> Exception:
            return GenericError("error sending request")

        answer = HERE.network.call(f"s3.{operation} upload", fetched, lost=broken, failed=broken)
        if isinstance(answer, Refusal):
            kind = {404: NotFoundError, 412: PreconditionError, 403: PermissionDeniedError}.get(
                answer.status, GenericError
            )
            raise kind(f"<Error><Code>{answer.code}</Code><Message>{answer.message}</Message></Error>")
        return answer


_STORE_OPTIONS = {"version": "VersionId", "if_match": "IfMatch"}


class _Catalogs:
    """The catalog of each world."""

    def __init__(self) -> None:
        self._by_network: dict[int, ModelCatalog] = {}

    def of(self, network: Any) -> ModelCatalog:
        return self._by_network[id(network)]

    @contextmanager
    def belonging(self, network: Any, catalog: ModelCatalog) -> Iterator[None]:
        self._by_network[id(network)] = catalog
        try:
            yield
        finally:
            del self._by_network[id(network)]


CATALOG = _Catalogs()


def _write_lineage(
    spark: Any, table: str, prefix: str, folder: str, work_bucket: str, account: str, at_most: int = 2
) -> CompleteLineage:
    """`tidegate.spark.lineage.write` on the model: the rows that `main` has now."""
    assert HERE.network is not None
    catalog = CATALOG.of(HERE.network)
    error = NoAnswer(f"table {table}: the catalog does not answer")
    read = HERE.network.call(
        "iceberg.load", lambda: catalog.tables.get(table), lost=lambda: error, failed=lambda: error
    )
    driver, begins = uuid.uuid4().hex, checked_prefix(prefix)
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for row, batch in rows_with_batches(read, catalog.files) if read else ():
        if row[0].startswith(begins):
            bucket, _, key = row[0].removeprefix("s3://").partition("/")
            counted[bucket, key, row[1], batch or ""] += 1
    found = [Landed(*place, rows) for place, rows in sorted(counted.items())]
    work = S3Work(wiring._client("s3"), work_bucket, account)
    history = History(read.uuid, tuple(each.plain for each in read.ancestors())) if read else History("", ())
    work.put(history_name(f"{folder}{driver}/"), encode_history(history))
    names = []
    for number, first in enumerate(range(0, len(found), at_most)):
        names.append(f"{number:06}.jsonl.gz")
        work.put(f"{folder}{driver}/{names[-1]}", encode_landed(found[first : first + at_most]))
    head = read.head if read else None
    return CompleteLineage(table, prefix, head, driver, tuple(names), len(found), counted.total())


INVENTORY_LAG = 600
"""Seconds: what is younger is not in an inventory."""
BETWEEN = 120
"""Seconds between the reading of an inventory and its comparison with the ledger."""


def _screen(spark: Any, request: ScreeningRequest, folder: str, work_bucket: str, account: str) -> CompleteScreening:
    """`tidegate.spark.screening.write` without Spark. The inventory is the bucket's listing of some minutes ago.
    It has a second row for each version, which names it by its ETag, as if the bucket had no versions."""
    client = wiring._client("s3")
    where = {"Bucket": request.bucket, "Prefix": request.prefix, "ExpectedBucketOwner": account}
    answer = client.list_object_versions(**where)
    rows = list(in_order(answer))
    while answer["IsTruncated"]:
        markers = {"KeyMarker": answer["NextKeyMarker"], "VersionIdMarker": answer["NextVersionIdMarker"]}
        answer = client.list_object_versions(**where, **markers)
        rows += in_order(answer)
    until = min(request.window.until, wiring.clock() - INVENTORY_LAG)
    wiring.paced(1)(BETWEEN)
    listed = [
        Listed(Upload(request.bucket, row["Key"], version, row.get("Size", 0)), int(row["LastModified"].timestamp()))
        for row in rows
        if request.removes or not is_marker(row)
        for version in dict.fromkeys((listed_version(row), version_of(None, row.get("ETag"))))
        if version
    ]
    work, driver = S3Work(client, work_bucket, account), uuid.uuid4().hex
    counts, parts = AuditCounts(), []
    taken = [each for each in listed if is_file_under(each.upload, request.prefix, request.suffix)]
    window = replace(request.window, until=until)
    for found in screen(taken, window, wiring._ledger(request.ledger, request.claims)):
        counts += found.counts
        for each in found.suspects:
            name = f"{len(parts):06}.jsonl.gz"
            work.put(f"{folder}{driver}/{name}", encode_suspects([each]))
            parts.append(SuspectsPart(name, each.key, each.key, 1))
    return CompleteScreening(driver, tuple(parts), counts, until)


@contextmanager
def installed() -> Iterator[None]:
    """`tidegate.spark.job.main` runs on the model."""
    builder = SimpleNamespace(appName=lambda _: SimpleNamespace(getOrCreate=_spark))
    with ExitStack() as stack:
        stack.enter_context(patch.object(job, "SparkSession", SimpleNamespace(builder=builder)))
        stack.enter_context(patch.object(job, "IcebergSink", SimulatedSink))
        stack.enter_context(patch.object(sink, "struct_of", _struct))
        stack.enter_context(patch.object(route_sql, "struct_of", _struct))
        stack.enter_context(patch.object(sink, "require_sql", lambda spark, sql, columns: None))
        stack.enter_context(patch.object(sink, "session", lambda spark, sql: nullcontext()))
        stack.enter_context(patch.object(sink, "survey", lambda context, reader, items, task_bytes: {}))
        stack.enter_context(patch.object(reader, "Decoding", SimulatedDecoding))
        stack.enter_context(patch.object(reader, "careful", _careful))
        stack.enter_context(
            patch.object(job, "boto3", SimpleNamespace(client=lambda service, **_: wiring._client(service)))
        )
        # a worker's signs of life come between its batches only: who takes long at one seems silent
        stack.enter_context(patch.object(worker, "beating", lambda beat: nullcontext()))
        # the session of every other job
        stack.enter_context(patch.object(session, "SparkSession", SimpleNamespace(builder=builder)))
        stack.enter_context(patch.object(lineage, "boto3", SimpleNamespace(client=wiring._client)))
        stack.enter_context(patch.object(lineage, "write", _write_lineage))
        stack.enter_context(patch.object(screening, "boto3", SimpleNamespace(client=wiring._client)))
        stack.enter_context(patch.object(screening, "write", _screen))
        stack.enter_context(patch.object(fetch, "_store", lambda bucket, owner: _Store(bucket)))
        stack.enter_context(patch.object(fetch, "_client", lambda: wiring._client("s3")))
        yield


def drive(arguments: Sequence[str]) -> int:
    """Run a driver as spark-submit does; its exit code."""
    try:
        job.main(list(arguments))
    except SystemExit as end:
        return int(end.code or 0)
    raise AssertionError("the driver ended without an exit code")


Drive = Callable[[Sequence[str]], int]

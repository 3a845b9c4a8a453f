"""The self-test: a job that checks its environment, and writes a report to the work bucket.

It runs as ingest does, under the same application, entry point and role, so it has the same permissions. It writes only
to its own folder of the work bucket and to a table of its own. It creates that table only if it may drop it again: it
checks this first, and skips the step if the role may not.
"""

import importlib
import importlib.metadata
import json
import logging
import os
import platform
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import boto3
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from tidegate.aws.work import S3Work
from tidegate.core.errors import Retryable
from tidegate.core.manifests import batch_folder
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.formats.registry import FORMATS
from tidegate.reading.fetch import fetch
from tidegate.sinks.iceberg.causes import cause
from tidegate.sinks.iceberg.columns import quoted
from tidegate.sinks.iceberg.data_files.layout import BySpark, layout
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.spark.session import give_credentials, location, require_classes

log = logging.getLogger("tidegate")

VERSION = 1
REPORT = "report.json"
PROBE = "probe.txt"
PROBE_BYTES = b"tidegate\n"
MODULES = (
    *("pyspark", "pyarrow", "pandas", "obstore", "boto3", "tidegate.reading.reader"),
    *(each.module for each in FORMATS.values()),
)
"""What ingest imports, here and on the executors."""
CLASSES = (
    *("org.apache.iceberg.ScanTaskParser", "com.fasterxml.jackson.databind.ObjectMapper"),
    *("org.apache.spark.sql.catalyst.expressions.TryEval", "org.apache.spark.sql.classic.ExpressionUtils"),
)
"""What ingest calls besides the APIs that are documented: another build might lack it."""
VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "PYSPARK_PYTHON", "PYTHONPATH")
IMAGE_JARS = Path("/usr/share/aws/iceberg")
"""Where EMR's images keep Iceberg."""
ROWS = 100
BRANCH = "staged"
MOST_TOLD = 20
"""Tables that one step names."""
_DENIED = r"AccessDenied|Forbidden|[Nn]ot ?[Aa]uthorized|Status Code: 403|Insufficient Lake Formation"
"""The refusals of the catalogs: Glue and S3 use the first, REST catalogs the second, Lake Formation the last."""


@dataclass(frozen=True, slots=True)
class SelfTestStep:
    """The result of one step. `state` is ok, slow, failed or skipped."""

    name: str
    state: str
    said: str

    @property
    def result(self) -> tuple[str, str]:
        return self.state, self.said


def run(identifier: str, work_bucket: str, account: str, dataset: Dataset, tables: Sequence[str] = ()) -> int:
    """Run all steps and write the report; 0 if it was written, even if steps failed. `dataset` is that of a route,
    `tables` are those of all routes."""
    client = boto3.client("s3")
    work = S3Work(client, work_bucket, account)
    folder = batch_folder(identifier)
    report: dict[str, Any] = {"version": VERSION, "id": identifier, "driver": facts(), "executors": []}
    steps = [_try("modules", lambda: imported([report["driver"]]))]
    steps.append(_try("work bucket", lambda: use_work_bucket(work, folder)))
    try:
        # `prepare` would end the test where a step is to tell what is missing
        spark = SparkSession.builder.appName(f"tidegate-{identifier}").getOrCreate()
    except Exception as error:
        steps.append(SelfTestStep("spark", "failed", cause(error)))
    else:
        steps += _with_spark(spark, report, client, work_bucket, account, folder, dataset, tables, identifier)
        spark.stop()
    report["steps"] = [asdict(step) for step in steps]
    body = json.dumps(report, indent=1).encode()
    print(body.decode(), flush=True)
    try:
        work.put(folder + REPORT, body)
    except Exception:
        log.exception("the report could not be written to the work bucket")
        return 1
    return 0


def _with_spark(
    spark: SparkSession,
    report: dict[str, Any],
    client: Any,
    work_bucket: str,
    account: str,
    folder: str,
    dataset: Dataset,
    tables: Sequence[str],
    identifier: str,
) -> Iterator[SelfTestStep]:
    report["spark"] = {"version": spark.version, "master": spark.sparkContext.master}
    yield _try("iceberg", lambda: iceberg(spark, report["spark"]))
    yield _try("catalog", lambda: catalog(spark, dataset.table.partition(".")[0]))
    yield _try("executors", lambda: executors(spark, report))
    yield _try("work bucket from an executor", lambda: read_there(spark, client, work_bucket, account, folder))
    yield _try("route's table", lambda: look_up(spark, dataset.table))
    yield _try("data files", lambda: data_files(spark, [dataset.table, *tables]))
    yield _try("own table", lambda: own_table(spark, beside(dataset.table, identifier)))


def _try(name: str, do: Callable[[], tuple[str, str]]) -> SelfTestStep:
    """Run one step. An error is its result, and the other steps go on."""
    try:
        state, said = do()
    except Exception as error:
        log.warning("%s", name, exc_info=True)
        state, said = "failed", cause(error)
    log.info("%s: %s: %s", name, state, said)
    return SelfTestStep(name, state, said)


# ---- where it runs


def facts() -> dict[str, Any]:
    """This process: its interpreter, its module path, its region, the versions of the modules that ingest needs."""
    return {
        "host": socket.gethostname(),
        "interpreter": sys.executable,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "path": list(sys.path),
        "modules_from": _folder("tidegate"),
        "region": boto3.Session().region_name,
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "modules": {name: _version(name) for name in MODULES},
    }


def _folder(package: str) -> str:
    """The folder in which a package was found."""
    return str(Path(str(importlib.import_module(package).__file__)).parents[1])


def _version(module: str) -> str:
    """The version of a module; if it cannot be imported, a question mark and the error."""
    try:
        found = importlib.import_module(module)
    except Exception as error:  # a native library for another machine raises anything
        return f"? {type(error).__name__}: {error}"
    version = getattr(found, "__version__", None)
    if version is None:
        try:
            version = importlib.metadata.version(module.partition(".")[0])
        except importlib.metadata.PackageNotFoundError:
            version = "without a version"
    return str(version)


def imported(processes: Iterable[dict[str, Any]]) -> tuple[str, str]:
    missing = {
        f"{name} on {process['host']}: {version.removeprefix('? ')}"
        for process in processes
        for name, version in process["modules"].items()
        if version.startswith("?")
    }
    if missing:
        return "failed", f"cannot be imported: {'; '.join(sorted(missing))}"
    return "ok", "all that ingest needs can be imported"


def iceberg(spark: SparkSession, found: dict[str, Any], image: Path = IMAGE_JARS) -> tuple[str, str]:
    """Which Iceberg Spark loads, and from where; if it loads none, what there is of it in this image."""
    jvm = _jvm(spark)
    found["java"] = str(jvm.java.lang.System.getProperty("java.version"))
    class_path = [*str(jvm.java.lang.System.getProperty("java.class.path")).split(":")]
    class_path += str(spark.conf.get("spark.jars", "")).split(",")
    found["class_path"] = [each for each in class_path if "iceberg" in each.lower()]
    found["image_jars"] = sorted(str(each) for each in image.rglob("*iceberg*.jar"))
    try:
        require_classes(spark)
    except Retryable as missing:
        there = ", ".join([*found["class_path"], *found["image_jars"]]) or f"nothing below {image}"
        return "failed", f"{missing}. Of Iceberg there is: {there}"
    if lacks := [each for each in CLASSES if location(spark, each) is None]:
        return (
            "failed",
            f"this build of Spark {spark.version} and Iceberg lacks {', '.join(lacks)}: do not deploy to it",
        )
    found["iceberg"] = str(jvm.org.apache.iceberg.IcebergBuild.version())
    found["jar"] = location(spark, "org.apache.iceberg.IcebergBuild") or "a jar that Java does not name"
    return "ok", f"Iceberg {found['iceberg']} from {found['jar']}, in Spark {found['version']}, Java {found['java']}"


def catalog(spark: SparkSession, name: str) -> tuple[str, str]:
    """Whether the catalog is of the class that is configured. EMR's Iceberg was seen to build another one
    (docs/adr/0027-catalogs-by-rest.md)."""
    give_credentials(spark)
    wanted = spark.conf.get(f"spark.sql.catalog.{name}.catalog-impl", None)
    built = _class_of(_jvm(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, name))
    if wanted and built != wanted:
        return (
            "failed",
            f"catalog {name} is a {built}, where a {wanted} is configured: its tables would be elsewhere",
        )
    return "ok", f"catalog {name} is a {built}"


def _class_of(loaded: Any) -> str:
    """The class of a catalog, without the cache around it."""
    while str(loaded.getClass().getName()) == "org.apache.iceberg.CachingCatalog":
        inner = loaded.getClass().getDeclaredField("catalog")
        inner.setAccessible(True)
        loaded = inner.get(loaded)
    return str(loaded.getClass().getName())


def executors(spark: SparkSession, report: dict[str, Any]) -> tuple[str, str]:
    """Run more tasks than one executor runs at once, and report the facts of each Python, once."""
    context = spark.sparkContext
    tasks = 2 * context.defaultParallelism
    answers = context.parallelize(range(tasks), tasks).map(lambda _: facts()).collect()
    report["executors"] = distinct(answers)
    state, said = imported(report["executors"])
    if state == "ok":
        said = f"{len(answers)} tasks answered, from {len(report['executors'])} different Pythons; {said}"
    return state, said


def distinct(answers: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each answer once, with the number of tasks that gave it."""
    counted = Counter(json.dumps(answer, sort_keys=True) for answer in answers)
    return [{**json.loads(answer), "tasks": count} for answer, count in sorted(counted.items())]


# ---- the work bucket


def use_work_bucket(work: S3Work, folder: str) -> tuple[str, str]:
    """All that an attempt does in the work bucket: write, read, list, and a conditional write that must be refused."""
    work.put(folder + PROBE, PROBE_BYTES)
    if work.get(folder + PROBE) != PROBE_BYTES:
        return "failed", f"{folder}{PROBE} is not what was written"
    if [*work.names(folder)] != [folder + PROBE]:
        return "failed", f"a listing of {folder} does not show what was written"
    if work.put_if_absent(folder + PROBE, b"something else\n"):
        return "failed", "a conditional write overwrote an object: the floor of a batch would not hold"
    if work.get(folder + "absent") is not None:
        return "failed", f"{folder}absent is there, and nobody wrote it"
    return "ok", f"written, read and listed under {folder}"


def read_there(spark: SparkSession, client: Any, bucket: str, account: str, folder: str) -> tuple[str, str]:
    """Read an object from an executor, with the code that reads uploads."""
    owned = {"ExpectedBucketOwner": account} if account else {}
    head = client.head_object(Bucket=bucket, Key=folder + PROBE, **owned)
    upload = Upload(bucket, folder + PROBE, f"etag:{head['ETag'].strip(chr(34))}", int(head["ContentLength"]))
    (body,) = spark.sparkContext.parallelize([upload], 1).map(lambda each: fetch(each, 1_000, account)).collect()
    if body != PROBE_BYTES:
        return "failed", f"an executor read {body!r} instead of what was written"
    return "ok", f"an executor read {upload.uri}"


# ---- the catalog


def look_up(spark: SparkSession, table: str) -> tuple[str, str]:
    """The route's own table, which is only read."""
    if not spark.catalog.tableExists(table):
        return "ok", f"{table} does not exist yet; the first batch creates it"
    head = _load(spark, table).currentSnapshot()
    return "ok", f"{table} is there, {'empty' if head is None else f'at snapshot {head.snapshotId()}'}"


def data_files(spark: SparkSession, names: Sequence[str]) -> tuple[str, str]:
    """Who writes the data files of the tables that are there, and why Spark does (docs/adr/0072). Slow if nothing but a
    setting is the reason."""
    tables = [IcebergTable(spark, name) for name in dict.fromkeys(names)]
    settings = dict(spark.conf.getAll)
    found = {
        each.name: layout(each.loaded().facts(), to_arrow_schema(each.schema), settings)
        for each in tables
        if each.exists
    }
    by_spark = {name: each for name, each in found.items() if isinstance(each, BySpark)}
    said = f"the tasks write those of {len(found) - len(by_spark)} tables"
    if by_spark:
        said += f"; Spark, which takes longer, those of {_listed(by_spark)}"
    return "slow" if any(each.avoidable for each in by_spark.values()) else "ok", said


def _listed(by_spark: Mapping[str, BySpark]) -> str:
    """Those first that a setting is the reason for."""
    ranked = sorted(by_spark.items(), key=lambda each: not each[1].avoidable)
    said = [f"{name} ({each.reason})" for name, each in ranked[:MOST_TOLD]]
    return ", ".join([*said, *([f"{len(ranked) - MOST_TOLD} more"] if len(ranked) > MOST_TOLD else [])])


def beside(table: str, identifier: str) -> str:
    """The self-test's own table, in the namespace of the route's."""
    name = re.sub(r"[^a-z0-9_]", "_", identifier.removeprefix("selftest-").lower())
    return f"{table.rpartition('.')[0]}.tidegate_selftest_{name}"


def own_table(spark: SparkSession, table: str) -> tuple[str, str]:
    """Create a table, stage rows in it that `main` does not show, and drop it.

    It tries to drop the table first, before there is one: a role that may not drop tables would leave one behind.
    In Glue a drop reads the table first, which the role may not do either (Iceberg 1.11.0, `GlueCatalog.dropTable`).
    It was not observed what S3 Tables reports first, a missing table or a missing permission. The job role may create
    tables there and may not drop them, so none is created.
    """
    if ":s3tablescatalog/" in str(spark.conf.get(f"spark.sql.catalog.{table.partition('.')[0]}.glue.id", "")):
        return "skipped", f"not allowed: {table} was not created, because the role may not drop a table of S3 Tables"
    try:
        _drop(spark, table)
    except Exception as error:
        return _refused(error, f"{table} was not created, because it could not be dropped")
    try:
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {quoted(table.rpartition('.')[0])}")
        spark.sql(f"CREATE TABLE {quoted(table)} (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    except Exception as error:
        return _refused(error, f"{table} was not created")
    state, said = _try("staging", lambda: _stage(spark, table)).result
    try:
        left = "" if _drop(spark, table) else "the catalog says that it is not there"
    except Exception as error:
        left = cause(error)
    if left:
        return "failed", f"{table} was created and is left behind: drop it by hand ({left}). {said}"
    return state, said


def _refused(error: Exception, what: str) -> tuple[str, str]:
    """Skipped if the role may not, as is right for most roles; failed for any other error."""
    reason = cause(error)
    if re.search(_DENIED, f"{reason} {error}"):
        return "skipped", f"not allowed: {what} ({reason})"
    return "failed", f"{what}: {reason}"


def _stage(spark: SparkSession, table: str) -> tuple[str, str]:
    spark.sql(f"ALTER TABLE {quoted(table)} CREATE BRANCH {BRANCH}")
    before = _head(spark, table)

    def rows(batches: Any) -> Any:
        yield from batches

    numbers = spark.range(0, ROWS, 1, 2).mapInArrow(rows, "id bigint")
    numbers.writeTo(f"{quoted(table)}.branch_{BRANCH}").append()
    staged = spark.sql(f"SELECT count(*) FROM {quoted(table)} VERSION AS OF '{BRANCH}'").collect()[0][0]
    published = spark.sql(f"SELECT count(*) FROM {quoted(table)}").collect()[0][0]
    if (staged, published) != (ROWS, 0) or _head(spark, table) != before:
        return "failed", f"of {ROWS} rows {staged} are staged in {table}; {published} are in main, where none may be"
    return "ok", f"{ROWS} rows were staged in {table}, out of main's sight; the table is dropped again"


def _drop(spark: SparkSession, table: str) -> bool:
    """Drop a table; True if it existed. It uses Iceberg, because Spark sends the catalog no drop of a missing table. It
    drops the files too, because S3 Tables requires that
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-tables-delete.html)."""
    catalog, _, name = table.partition(".")
    jvm = _jvm(spark)
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, catalog)
    return bool(loaded.dropTable(jvm.org.apache.iceberg.catalog.TableIdentifier.parse(name), True))


def _head(spark: SparkSession, table: str) -> int | None:
    head = _load(spark, table).currentSnapshot()
    return None if head is None else int(head.snapshotId())


def _load(spark: SparkSession, table: str) -> Any:
    loaded = _jvm(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, table)
    loaded.refresh()
    return loaded


def _jvm(spark: SparkSession) -> Any:
    jvm = spark._jvm
    assert jvm is not None
    return jvm

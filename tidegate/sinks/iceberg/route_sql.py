"""What a route says of its rows in SQL: which ones land (`where`), and generated columns. Spark evaluates it.

    read (Python) -> TryEval(struct(where, generated columns)) (Spark) -> leave out, count, write (Python)

- Catalyst's TryEval makes null of a row for which any of it fails, so one bad value fails no task. It does so only if
  no part is evaluated outside of it (`SESSION`; source of Spark 4.1 read: `TryEval`, `SubExprEliminationRuntime`).
- A row that is left out is counted with its file, and keeps its number. A row that fails has its file quarantined, as
  one that cannot be decoded. Rows of that were staged, so it is spoiled (`spoiled`).
- In each attempt a file gives the same rows. SQL that does not promise this is refused (`require_sql`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext, TaskContext
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.classic.column import Column
from pyspark.sql.functions import expr, struct, when
from pyspark.sql.types import BooleanType, DataType, StructType

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Outcome, Read
from tidegate.core.routes import Dataset
from tidegate.flows.sink import Hopeless
from tidegate.formats.columns import conform
from tidegate.formats.paths import Misplaced, in_path, misplaced
from tidegate.formats.reasons import Undecodable
from tidegate.formats.unfit import Unfit
from tidegate.sinks.iceberg.causes import TaskFailed, cause
from tidegate.sinks.iceberg.ddl import struct_of
from tidegate.sinks.iceberg.marks import GENERATED, WHERE

SESSION = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.subexpressionElimination.enabled": "false",
    # else '${env:NAME}' would bring what the driver's environment has into the table
    "spark.sql.variable.substitute": "false",
}
FAILS = "{} of the route cannot be evaluated"
EVALUATED = "__tidegate_sql"
"""The column with the row's `where` and generated columns. No file has it: names with `__` and this word are ours."""
MOST_EXPLAINED = 20
"""Of how many files of a batch it is said why a row fails. To ask costs a job of Spark each, of 0.1 seconds."""

VARYING = frozenset(
    {
        *("CurrentTimestamp", "CurrentDate", "CurrentTime", "Now", "LocalTimestamp", "CurrentTimeZone"),
        *("CurrentUser", "CurrentDatabase", "CurrentCatalog", "InputFileName", "SparkVersion"),
        *("ScalarSubquery", "Exists", "ListQuery", "InSubquery", "DynamicPruningSubquery", "PythonUDF", "ScalaUDF"),
        *("AesEncrypt", "Reflect", "CallMethodViaReflection"),
        # a key that they refuse stays in what they build of the next row (`ArrayBasedMapBuilder`)
        *("CreateMap", "MapFromArrays", "MapFromEntries", "MapConcat", "StringToMap", "TransformKeys"),
    }
)
"""Classes of Catalyst whose value is not a matter of the row alone, though Spark calls them deterministic."""
PASSING = re.compile(r"['\"]\s*(now|today|tomorrow|yesterday)\b[^'\"]*['\"]", re.IGNORECASE)
"""Texts that Spark reads as times of today, if they stand in the SQL."""

LeftOut = dict[tuple[int, str, str], tuple[int, int, bytes, str]]
"""By task, uri and version: how many rows are left out, and the number of the first row that fails, -1 if none does,
with the row as Arrow writes it, or with what is wrong with it."""


class LeftOutSums(AccumulatorParam[LeftOut]):
    """A task that Spark runs twice says the same of its rows twice."""

    def zero(self, value: LeftOut) -> LeftOut:
        return {}

    def addInPlace(self, value1: LeftOut, value2: LeftOut) -> LeftOut:  # noqa: N802
        value1.update(value2)
        return value1


@dataclass(frozen=True, slots=True)
class RouteSql:
    """`generated` columns: their names, their types and their SQL."""

    where: str
    generated: tuple[tuple[str, DataType, str], ...]

    @property
    def texts(self) -> dict[str, tuple[str, DataType]]:
        """The SQL and the types, by what they are called in messages."""
        wanted: dict[str, tuple[str, DataType]] = {"where": (self.where or "true", BooleanType())}
        return wanted | {f"column {name}": (sql, kind) for name, kind, sql in self.generated}

    def expression(self, name: str) -> Any:
        text, kind = self.texts[name]
        return expr(text).cast(kind)

    def evaluated(self, rows: Any) -> Any:
        """The rows with a column more. It is null for a row for which the SQL fails."""
        lands, *columns = [self.expression(each).alias(f"c{number}") for number, each in enumerate(self.texts)]
        # of a row that is left out nothing else is evaluated, as in a SELECT
        values = when(lands, struct(*columns)) if columns else lands
        return rows.select("*", _tried(rows.sparkSession, struct(lands, values.alias("values"))).alias(EVALUATED))

    @property
    def marks(self) -> dict[str, str]:
        """For the summary of the snapshot with the rows: by what SQL they came."""
        said = {WHERE: self.where} if self.where else {}
        return said | {f"{GENERATED}{name}": sql for name, _, sql in self.generated}


def sql_of(dataset: Dataset) -> RouteSql | None:
    """None if the route says nothing in SQL."""
    if not (dataset.where or dataset.generated):
        return None
    types = {each.name: each.dataType for each in struct_of(dataset.schema)}
    return RouteSql(dataset.where, tuple((name, types[name], sql) for name, sql in dataset.generated))


def in_files(dataset: Dataset, columns: StructType) -> StructType:
    """The columns that files have to fill."""
    generated = {name for name, _ in dataset.generated}
    return StructType([each for each in columns if each.name not in generated])


@contextmanager
def session(spark: SparkSession, sql: RouteSql | None) -> Iterator[None]:
    """The settings of Spark under which `sql` is evaluated."""
    wanted = SESSION if sql else {}
    before = {name: spark.conf.get(name) or "" for name in wanted}
    try:
        for name, value in wanted.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@contextmanager
def unlogged() -> Iterator[None]:
    """PySpark logs each error of SQL, and errors quote rows. The one logger is for what SQL says, the other for what
    Python says, such as the cast to a column's type (`pyspark.errors.exceptions.base`)."""
    logs = [PySparkLogger.getLogger(f"{name}QueryContextLogger") for name in ("SQL", "DataFrame")]
    before = [each.disabled for each in logs]
    try:
        for each in logs:
            each.disabled = True
        yield
    finally:
        for each, disabled in zip(logs, before, strict=True):
            each.disabled = disabled


def require_sql(spark: SparkSession, sql: RouteSql, columns: StructType) -> None:
    """Raises Hopeless if the SQL cannot be evaluated for rows with these columns, or has not the same value whenever it
    is evaluated."""
    with session(spark, sql), unlogged():
        rows = spark.createDataFrame(spark.sparkContext.emptyRDD(), columns)
        for name, (text, _) in sql.texts.items():
            try:
                column = struct(sql.expression(name).alias("value"))
                found = rows.select(column.alias("row"))._jdf.queryExecution()
                plan = found.analyzed()
                # where some functions are what they stand for
                said = [*_each(plan.expressions()), *_each(found.optimizedPlan().expressions())]
            except (PySparkException, Py4JJavaError) as error:
                raise Hopeless(
                    f"{name} of the route cannot be evaluated: {cause(error)}. Correct it in tidegate.toml"
                ) from error
            nodes = [node for each in said for node in _nodes(each)]
            kinds = [node.getClass().getSimpleName() for node in nodes]
            varying = [kind for kind in kinds if kind in VARYING]
            varying += [f"the time {each[0]}" for each in PASSING.finditer(text)]
            varying += ["a cast of text to a time, which may be of today (to_timestamp(TEXT, FORMAT) is not)"] * any(
                _is_time_of_text(each) for each in nodes
            )
            if not all(each.deterministic() for each in nodes):
                varying = varying or ["a function of chance"]
            of_one_row = [each.getClass().getSimpleName() for each in (plan, *_each(plan.children()))]
            if of_one_row != ["Project", "LogicalRDD"]:
                varying = varying or ["an aggregate or a window"]
            if varying:
                raise Hopeless(
                    f"{name} of the route uses {varying[0]}: its value must depend on its row only, or an attempt that"
                    " is repeated would land other rows. Correct it in tidegate.toml"
                )


def _is_time_of_text(node: Any) -> bool:
    """Spark makes today's 12:30 of "12:30" (`SparkDateTimeUtils.stringToTimestamp`)."""
    if node.getClass().getSimpleName() != "Cast":
        return False
    return bool(node.child().dataType().typeName() == "string" and node.dataType().typeName().startswith("timestamp"))


def _nodes(expression: Any) -> Iterator[Any]:
    yield expression
    for each in _each(expression.children()):
        yield from _nodes(each)


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(number) for number in range(sequence.size()))


def _tried(spark: SparkSession, column: Any) -> Any:
    jvm: Any = spark._jvm
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    tried = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utils.expression(column._jc))
    return Column(utils.column(tried))


# ---- on the executors


@dataclass(frozen=True)
class Judge:
    """Takes the evaluated rows of a task, leaves out what is to be left out, and counts. `emitted` is the schema of the
    rows that land, `generated` the names of the columns that are in EVALUATED, `partition_by` what the paths of the
    table's files hold of them."""

    emitted: pa.Schema
    generated: tuple[str, ...]
    partition_by: tuple[str, ...]
    sums: Any

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with TaskFailed.told():
            sums = _SumsOfTask({})
            generated = {each.lower() for each in self.generated}
            in_paths = [each for each in self.partition_by if {name.lower() for name in in_path([each])} & generated]
            for batch in batches:
                values = batch.column(EVALUATED)
                lands = pc.and_(values.is_valid(), pc.fill_null(values.field(0), False))
                if pc.sum(lands).as_py() != batch.num_rows:
                    sums.count(batch, values.is_null(), lands)
                    batch = batch.filter(lands)
                table = pa.Table.from_batches([self._of_table(batch)])
                while found := unfit(table, self.generated, self.emitted) or (
                    misplaced(table, in_paths) if in_paths else None
                ):
                    table = sums.spoil(table, found)
                yield from table.to_batches()
            if sums.of:
                self.sums.add(sums.of)

    def _of_table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = batch.column(EVALUATED).field(1)
        columns = [
            values.field(self.generated.index(field.name)) if field.name in self.generated else batch.column(field.name)
            for field in self.emitted
        ]
        cast = [each.cast(field.type) for each, field in zip(columns, self.emitted, strict=True)]
        return pa.RecordBatch.from_arrays(cast, schema=self.emitted)


def unfit(table: pa.Table, generated: Sequence[str], emitted: pa.Schema) -> Misplaced | None:
    """A row with a generated value that no file may have either: of the year 10000, or null in what is not null."""
    for name in generated:
        try:
            conform(table.select([name]), pa.schema([emitted.field(name)]), texts=False)
        except Undecodable as error:
            if error.row is None:
                raise
            # without the value, which is in the message of the other
            cannot = error.__cause__
            at, why = (cannot.path, str(cannot)) if isinstance(cannot, Unfit) else ("", "cannot be read")
            return Misplaced(error.row, f"column {name}{at} of the route {why}")
    return None


@dataclass(frozen=True)
class _SumsOfTask:
    of: LeftOut

    def count(self, batch: pa.RecordBatch, fails: Any, lands: Any) -> None:
        """The rows that do not land."""
        out = pa.Table.from_batches([batch]).append_column("__fails", fails).filter(pc.invert(lands))
        by_file = out.group_by(["_source_uri", "_source_version", "__fails"])
        for each in by_file.aggregate([("_source_row", "min"), ([], "count_all")]).to_pylist():
            key, row = _key(each), each["_source_row_min"]
            if each["__fails"]:
                of_row = pc.and_(pc.equal(out["_source_row"], row), pc.equal(out["_source_uri"], key[1]))
                self._note(key, row, as_stream(out.filter(of_row).drop_columns([EVALUATED, "__fails"])), "")
            else:
                left, *first = self.of.get(key, (0, -1, b"", ""))
                self.of[key] = (left + each["count_all"], *first)

    def spoil(self, table: pa.Table, found: Misplaced) -> pa.Table:
        """The table without the file of this row: no path can hold it."""
        key = _key(table.select(["_source_uri", "_source_version"]).slice(found.row, 1).to_pylist()[0])
        self._note(key, table["_source_row"][found.row].as_py(), b"", found.why)
        of_file = pc.and_(pc.equal(table["_source_uri"], key[1]), pc.equal(table["_source_version"], key[2]))
        return table.filter(pc.invert(of_file))

    def _note(self, key: tuple[int, str, str], row: int, held: bytes, why: str) -> None:
        left, first, *_ = self.of.get(key, (0, -1, b"", ""))
        if first < 0 or row < first:
            self.of[key] = (left, row, held, why)


def _key(row: Mapping[str, Any]) -> tuple[int, str, str]:
    task = TaskContext.get()
    assert task is not None, "rows are judged by a task"
    return task.partitionId(), row["_source_uri"], row["_source_version"]


def as_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def sums_of(context: SparkContext) -> Any:
    """Where the tasks say what they have left out."""
    return context.accumulator({}, LeftOutSums())


# ---- what was left out


def accounted(
    spark: SparkSession, sql: RouteSql, items: Sequence[OwnedUpload], reads: Mapping[int, Read | None], sums: LeftOut
) -> dict[int, Read | None]:
    """The endings of the uploads, by position, without the rows that were left out; and of those with a row that
    fails."""
    ended = dict(reads)
    left: dict[tuple[str, str], int] = {}
    failing: dict[tuple[str, str], tuple[int, bytes, str]] = {}
    for (_, uri, version), (count, row, held, why) in sums.items():
        left[uri, version] = left.get((uri, version), 0) + count
        if row >= 0 and row <= failing.get((uri, version), (row,))[0]:
            failing[uri, version] = (row, held, why)
    explained = 0
    for position, item in enumerate(items if sums else ()):
        place, read = (item.upload.uri, item.upload.version), ended.get(position)
        if read is None or read.outcome is not Outcome.COMMITTED:
            continue
        if place in failing:
            row, held, why = failing[place]
            where = ""
            if not why:
                why, where = explain_row(spark, sql, held) if explained < MOST_EXPLAINED else (FAILS.format("SQL"), "")
                explained += 1
            ended[position] = Read(Outcome.QUARANTINED, 0, f"row {row + 1}: {why}", where=where, spoiled=True)
        elif count := left.get(place, 0):
            ended[position] = replace(read, rows=read.rows - count, left_out=count)
    return ended


def explain_row(spark: SparkSession, sql: RouteSql, held: bytes) -> tuple[str, str]:
    """That something fails for a row, without its values, and why, with them."""
    with unlogged():
        rows = spark.createDataFrame(pa.ipc.open_stream(held).read_all())
        for name in sql.texts:
            try:
                # to nowhere: Python has no dates after the year 9999
                rows.select(sql.expression(name).alias("value")).write.format("noop").mode("overwrite").save()
            except Exception as error:
                kind = error.getCondition() if isinstance(error, PySparkException) else None
                return FAILS.format(f"{name} ({kind})" if kind else name), cause(error)
    return FAILS.format("SQL"), ""

"""What a route's SQL makes of the rows of one file that nobody has uploaded yet."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StructType

from tidegate.core.routes import Dataset
from tidegate.reading.arrow_schema import arrow_schema
from tidegate.sinks.iceberg.ddl import struct_of
from tidegate.sinks.iceberg.route_sql import (
    EVALUATED,
    RouteSql,
    as_stream,
    explain_row,
    in_files,
    require_sql,
    session,
    sql_of,
    unfit,
)


@dataclass(frozen=True, slots=True)
class SqlTrial:
    """The rows that land, with the generated columns, and how many do not. Or the `reason` for which the file would be
    quarantined, and what of the row that is about (`where`)."""

    lands: pa.Table
    left_out: int = 0
    reason: str = ""
    where: str = ""


@dataclass(frozen=True)
class TriedSql:
    """The SQL of a route, for rows of its files. Raises Hopeless if no job could evaluate it."""

    spark: SparkSession
    dataset: Dataset

    def __post_init__(self) -> None:
        require_sql(self.spark, self.sql, self.columns)

    @cached_property
    def columns(self) -> StructType:
        """Those that files fill."""
        return in_files(self.dataset, struct_of(self.dataset.schema))

    @cached_property
    def sql(self) -> RouteSql:
        sql = sql_of(self.dataset)
        assert sql is not None, "the route has SQL"
        return sql

    def __call__(self, rows: pa.Table, bad: Sequence[int] = ()) -> SqlTrial:
        """Of these rows of one file, in its order, without the generated columns. `bad` are the numbers of its rows
        that are not among them, from 0."""
        emitted = arrow_schema(self.dataset.schema)
        generated = [name for name, *_ in self.sql.generated]
        # one by one: a null of a struct whose fields are not null is no value of Arrow's to Spark
        parts = [col(f"{EVALUATED}.values.c{number}") for number in range(1, len(generated) + 1)]
        told = (col(EVALUATED).isNull().alias("fails"), col(f"{EVALUATED}.c0").alias("lands"))
        with session(self.spark, self.sql):
            of_route = rows.select(self.columns.names)
            evaluated = self.sql.evaluated(self.spark.createDataFrame(of_route, self.columns))
            found = evaluated.select(*told, *(each.alias(name) for each, name in zip(parts, generated, strict=True)))
            values = found.toArrow()
            if (row := pc.index(values["fails"], True).as_py()) >= 0:
                why, where = explain_row(self.spark, self.sql, as_stream(of_route.slice(row, 1)))
                return self._refused(emitted, row, bad, why, where)
        lands = pc.fill_null(values["lands"], False)
        landed, values = rows.filter(lands), values.filter(lands)
        for name in generated:
            landed = landed.append_column(emitted.field(name), values[name].cast(emitted.field(name).type))
        if wrong := unfit(landed, generated, emitted):
            return self._refused(emitted, pc.indices_nonzero(lands)[wrong.row].as_py(), bad, wrong.why)
        rest = [each for each in landed.column_names if each not in emitted.names]
        return SqlTrial(landed.select([*emitted.names, *rest]), rows.num_rows - landed.num_rows)

    @staticmethod
    def _refused(emitted: pa.Schema, row: int, bad: Sequence[int], why: str, where: str = "") -> SqlTrial:
        for each in sorted(bad):
            row += each <= row
        return SqlTrial(emitted.empty_table(), reason=f"row {row + 1}: {why}", where=where)

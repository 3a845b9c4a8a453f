"""A table gets the columns that files have and the route's schema lacks (`unknown = "add"`).

    line                            if the driver dies right after it    if a twin, or another batch, runs beside it
    1 stage the rows, note the      a branch that nobody publishes       each stages its own
      names that are no columns
    2 add a column for each name    columns without a value, which the   one adds it; the other finds it, and takes
                                    next attempt fills                   its type
    3 if the table has columns      as 1                                 as 1
      for such names now: stage
      anew

What is published is decided as for any other batch: a new column changes no snapshot. A batch that read the table
before another one added a column has those values in `_unknown`, or, if it has met the name itself, finds the column at
line 3. `ROUNDS` bounds that: what is without a column then stays in `_unknown`, too.

Nothing is ever dropped, renamed or changed in its type here. A name that an earlier schema of the table had is not
added: somebody has renamed that column, or dropped it.
"""

import logging
from collections.abc import Mapping

from py4j.protocol import Py4JJavaError
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from tidegate.formats.added import PLAIN, both, is_name
from tidegate.formats.type_names import quoted_name
from tidegate.sinks.iceberg.causes import cause, is_refusal
from tidegate.sinks.iceberg.columns import quoted
from tidegate.sinks.iceberg.table import BRANCH_TRIES, IcebergTable

MOST_ADDED = 100
"""Columns that a batch may add. More new names look like the keys of a map: then none is added."""
ROUNDS = 3
"""Stagings of a batch for the sake of its columns."""
FILLED = (*PLAIN, "int", "float")
"""The types of columns beyond the route's schema whose values come out of `_unknown`, and decimals."""

log = logging.getLogger("tidegate.sinks")


class FoundNames(AccumulatorParam[dict[str, str]]):
    """The names that the tasks have met, with the types of their columns."""

    def zero(self, value: dict[str, str]) -> dict[str, str]:
        return {}

    def addInPlace(self, value1: dict[str, str], value2: dict[str, str]) -> dict[str, str]:  # noqa: N802
        return both(value1, value2)


def beside(table: StructType, known: StructType) -> list[StructField]:
    """The columns of a table that are filled, although `known`, which are the route's and the lineage, lack them."""
    names = {name.lower() for name in known.names}
    return [each for each in table if each.name.lower() not in names and _is_filled(each)]


def _is_filled(column: StructField) -> bool:
    kind = column.dataType.simpleString()
    return column.nullable and is_name(column.name) and (kind in FILLED or kind.startswith("decimal("))


def add_columns(spark: SparkSession, iceberg: IcebergTable, wanted: Mapping[str, str]) -> None:
    """Add those that the table has never had, nullable. If several drivers do at once, Iceberg refuses the change of a
    schema that was changed meanwhile, and does not try again: here it is tried again. A column that the table does not
    take, such as one that is called as a field of its partition, is left out."""
    for tries_left in reversed(range(BRANCH_TRIES)):
        had = iceberg.ever_had
        missing: dict[str, str] = {}
        for name, kind in wanted.items():
            if name.lower() not in had:
                missing[name] = kind
                # tasks may have met a name in several cases: the first of them stays
                had.add(name.lower())
        if not missing:
            return
        columns = ", ".join(f"{quoted_name(name)} {kind}" for name, kind in missing.items())
        try:
            spark.sql(f"ALTER TABLE {quoted(iceberg.name)} ADD COLUMNS ({columns})")
        except (Py4JJavaError, PySparkException) as error:
            if is_refusal(error):
                log.warning("table %s does not take the columns %s: %s", iceberg.name, columns, cause(error))
                for name, kind in missing.items() if len(missing) > 1 else ():
                    add_columns(spark, iceberg, {name: kind})
                return
            if not tries_left:
                raise
        else:
            log.info("table %s has got the columns %s", iceberg.name, columns)
            return

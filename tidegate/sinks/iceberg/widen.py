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
added: somebody has renamed that column, or dropped it. Who removes old schemas from the metadata makes that unknown
(`expire_snapshots` with `clean_expired_metadata`; the maintenance job keeps them).

Columns are added by Iceberg's own interface. It refuses the change of a schema that was changed since it was read, so
what is decided here of the names is decided for the schema that is changed: two drivers that add `race` and `Race` make
one column. Spark's SQL would make both, and could not read the table any more.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.accumulators import AccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql.types import StructField, StructType

from tidegate.formats.added import both, is_filled, is_name
from tidegate.formats.paths import in_path
from tidegate.sinks.iceberg.causes import cause, is_refusal
from tidegate.sinks.iceberg.data_files.append import LoadedTable
from tidegate.sinks.iceberg.table import BRANCH_TRIES, IcebergTable

MOST_ADDED = 100
"""Columns that a batch may add. More new names look like the keys of a map: then none is added."""
MOST_COLUMNS = 500
"""Of a table with so many, no more are added: each is looked for in each file."""
MOST_IN_METADATA = 20_000
"""Columns of all schemas of a table together. Iceberg's metadata has each schema whole, some 60 bytes for a column, and
is written anew by each commit: beyond that, none is added, either."""
ROUNDS = 3
"""Stagings of a batch for the sake of its columns."""

log = logging.getLogger("tidegate.sinks")


class FoundNames(AccumulatorParam[dict[str, str]]):
    """The names that the tasks have met, with the types of their columns."""

    def zero(self, value: dict[str, str]) -> dict[str, str]:
        return {}

    def addInPlace(self, value1: dict[str, str], value2: dict[str, str]) -> dict[str, str]:  # noqa: N802
        return both(value1, value2)


def beside(table: StructType, known: StructType, partition_by: Sequence[str]) -> list[StructField]:
    """The columns of a table that are filled, although `known`, which are the route's and the lineage, lack them. Any
    text may come into such a column. Where the paths of the table's files would have it, only the route can say that
    it fits (`formats.paths`), so the column is not filled."""
    names, placed = ({name.lower() for name in names} for names in (known.names, in_path(partition_by)))

    def is_beside(column: StructField) -> bool:
        name, kind = column.name.lower(), column.dataType.simpleString()
        if name in names or (name in placed and kind == "string"):
            return False
        return column.nullable and is_name(column.name) and is_filled(kind)

    return list(filter(is_beside, table))


def add_columns(iceberg: IcebergTable, wanted: Mapping[str, str], brought_by: str = "") -> None:
    """Add those that the table has never had, nullable. `brought_by` is the batch whose files have them: then there is
    a limit. If several drivers do at once, all but one are refused, and try again. A column that the table does not
    take, such as one that is called as a field of its partition, is left out."""
    for tries_left in reversed(range(BRANCH_TRIES)):
        loaded = iceberg.loaded()
        missing = _missing(loaded, wanted, limited=bool(brought_by))
        if not missing:
            return
        try:
            _add(loaded, missing, f"came with batch {brought_by} of Tidegate" if brought_by else None)
        except (Py4JJavaError, PySparkException) as error:
            if is_refusal(error):
                log.warning("table %s does not take the columns %s: %s", iceberg.name, missing, cause(error))
                for name, kind in missing.items() if len(missing) > 1 else ():
                    add_columns(iceberg, {name: kind}, brought_by)
                return
            if not tries_left:
                raise
        else:
            log.info("table %s has got the columns %s", iceberg.name, missing)
            return


def _missing(loaded: LoadedTable, wanted: Mapping[str, str], *, limited: bool) -> dict[str, str]:
    """Those that no schema of the table has had. It costs a call of the JVM for each schema."""
    parser = loaded.jvm.org.apache.iceberg.SchemaParser
    schemas = [json.loads(parser.toJson(each))["fields"] for each in loaded.table.operations().current().schemas()]
    columns, in_metadata = len(loaded.table.schema().columns()), sum(map(len, schemas))
    if limited and (columns >= MOST_COLUMNS or in_metadata > MOST_IN_METADATA):
        log.warning(
            "table %s has %s columns, and all its schemas %s: none is added", loaded.table, columns, in_metadata
        )
        return {}
    had = {field["name"].lower() for schema in schemas for field in schema}
    missing: dict[str, str] = {}
    for name, kind in wanted.items():
        # tasks may have met a name in several cases: the first of them stays
        if kind and name.lower() not in had:
            missing[name] = kind
            had.add(name.lower())
    return missing


def _add(loaded: LoadedTable, columns: Mapping[str, str], comment: str | None) -> None:
    """Raises Py4JJavaError and PySparkException, also if the schema has been changed since the table was loaded."""
    jvm: Any = loaded.jvm
    kinds = ", ".join(f"c{number} {kind}" for number, kind in enumerate(columns.values()))
    struct = jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(
        jvm.org.apache.spark.sql.types.StructType.fromDDL(kinds)
    )
    change = loaded.table.updateSchema().caseSensitive(False)
    for name, field in zip(columns, struct.columns(), strict=True):
        change = change.addColumn(None, name, field.type(), comment)
    change.commit()

"""Rows that leave a table for those of a later version: marked by Spark's DELETE, on a driver's branch."""

from collections.abc import Collection, Mapping
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, SparkSession

from tidegate.core.replacing import RowsPlace

ONE_TASK = 8
"""So many files are read by one task."""
OF_A_LIST = 200
"""Iceberg skips files by lists of so many values, and by no longer ones (`IN_PREDICATE_LIMIT` in
`InclusiveMetricsEvaluator`, 1.11.0)."""
MOST_NAMED = 10 * OF_A_LIST
"""So many uris or versions are named in a statement. Of more, files are skipped by the first and the last."""
SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."
"""Iceberg writes such settings of a session into the summary of what it commits (`SparkSQLProperties`, 1.11.0)."""
DELETE_MODE = "write.delete.mode"
REPLACES = {DELETE_MODE: "merge-on-read", "write.metadata.metrics.column._source_uri": "full"}
"""What a table needs whose rows are replaced: a row that goes is marked, so that its file stays for the others; and
files tell exactly which objects they may have rows of."""


def let_rows_go(table: Any, *, ours: str) -> str:
    """See to it that a `DELETE` marks the rows, and leaves their files. A table that Tidegate created, whose property
    `ours` says so, is made fit. Returns which properties another one needs, "" if none."""
    wanted = dict(REPLACES)
    if int(table.operations().current().formatVersion()) < 2:
        wanted["format-version"] = "2"
    there = dict(table.properties())
    needs = {name: value for name, value in wanted.items() if there.get(name) != value}
    if there.get(ours) != "true":
        lacks = needs.keys() & {DELETE_MODE, "format-version"}
        return ", ".join(f"'{name}' = '{value}'" for name, value in needs.items()) if lacks else ""
    if needs:
        change = table.updateProperties()
        for name, value in needs.items():
            change = change.set(name, value)
        change.commit()
    return ""


def among(column: Column, uris: Collection[str]) -> Column:
    """Whether it is one of these uris; of very many, whether it is between them. Iceberg skips files by it."""
    if len(uris) > MOST_NAMED:
        return column.between(min(uris), max(uris))
    return reduce(or_, (column.isin(*some) for some in _lists_of(uris)))


def files_of(jvm: Any, table: Any, snapshot: int, uris: Collection[str]) -> int:
    """How many files of this snapshot may have rows of these uris; it counts up to one more than `ONE_TASK`."""
    files = table.newScan().useSnapshot(snapshot).filter(_among(jvm, uris)).planFiles()
    try:
        found, number = files.iterator(), 0
        while number <= ONE_TASK and found.hasNext():
            found.next()
            number += 1
        return number
    finally:
        files.close()


def may_have_gained(jvm: Any, table: Any, uris: Collection[str], since: int, now: int) -> bool:
    """Whether files that came after the snapshot `since`, up to `now`, may have rows of these uris. False only if all
    that came was appended, and the files' own bounds say so. A file without bounds may have any."""
    if table.schema().findField("_source_uri") is None:
        return True
    since_then = jvm.org.apache.iceberg.util.SnapshotUtil.ancestorsBetween(table, now, since).iterator()
    while since_then.hasNext():
        if since_then.next().operation() != "append":
            return True
    scan = table.newIncrementalAppendScan().fromSnapshotExclusive(since).toSnapshot(now)
    files = scan.filter(_among(jvm, uris)).planFiles()
    try:
        return bool(files.iterator().hasNext())
    finally:
        files.close()


def delete_rows(spark: SparkSession, branch: str, gone: Collection[RowsPlace], properties: Mapping[str, str]) -> None:
    """Delete these rows on a branch, a quoted name. Nothing is committed if there are none. A few are named in the
    statement: a join takes Spark twice as long."""
    # files are left out by a list of uris, and not by one of places
    uris = sorted({uri for uri, _, _ in gone})
    place = f"here._source_uri BETWEEN {_text(uris[0])} AND {_text(uris[-1])}"
    view = "tidegate_gone"
    if len(gone) <= MOST_NAMED:
        lists = (f"here._source_uri IN ({', '.join(map(_text, some))})" for some in _lists_of(uris))
        place = f"({' OR '.join(lists)})"
        places = ", ".join(f"({', '.join(map(_text, each))})" for each in sorted(gone))
        wanted = f"(here._source_uri, coalesce(here._source_version, ''), coalesce(here._batch_id, '')) IN ({places})"
    else:
        columns = "uri string, version string, batch string"
        spark.createDataFrame(sorted(gone), columns).createOrReplaceTempView(view)
        wanted = (
            f"EXISTS (SELECT 1 FROM {view} AS gone"
            " WHERE gone.uri = here._source_uri AND gone.version = coalesce(here._source_version, '')"
            " AND gone.batch = coalesce(here._batch_id, ''))"
        )
    settings = {f"{SNAPSHOT_PROPERTY}{name}": value for name, value in properties.items()}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        spark.sql(f"DELETE FROM {branch} AS here WHERE {place} AND {wanted}")
    finally:
        for name in settings:
            spark.conf.unset(name)
        spark.catalog.dropTempView(view)


def _text(value: str) -> str:
    """A constant of SQL, whatever the session takes for an escape in a text."""
    return f"decode(X'{value.encode().hex()}', 'utf-8')"


def _among(jvm: Any, uris: Collection[str]) -> Any:
    """As `among`, for Iceberg."""
    where = jvm.org.apache.iceberg.expressions.Expressions
    if len(uris) > MOST_NAMED:
        last = where.lessThanOrEqual("_source_uri", max(uris))
        return getattr(where, "and")(where.greaterThanOrEqual("_source_uri", min(uris)), last)
    found = where.alwaysFalse()
    for some in _lists_of(uris):
        values = jvm.java.util.ArrayList()
        for uri in some:
            values.add(uri)
        found = getattr(where, "or")(found, getattr(where, "in")("_source_uri", values))
    return found


def _lists_of(uris: Collection[str]) -> list[list[str]]:
    """Neighbours come together, so that each list leaves most files out."""
    sorted_uris = sorted(uris)
    return [sorted_uris[first : first + OF_A_LIST] for first in range(0, len(sorted_uris), OF_A_LIST)]

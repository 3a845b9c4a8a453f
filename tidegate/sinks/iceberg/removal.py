"""Rows that leave a table for those of a later version: marked by Spark's DELETE, on a driver's branch."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from tidegate.core.replacing import RowsPlace

PLAIN = re.compile(r"[A-Za-z0-9_./:=+@, -]*")
"""Texts that SQL takes as they are between quotes."""
APART = "\x1f"
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
    there = table.properties()
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


def among(column: str, uris: Collection[str]) -> str:
    """The condition that it is one of these uris; of very many, that it is between them. Iceberg skips files by it."""
    if len(uris) > MOST_NAMED:
        return f"{column} BETWEEN {_text(min(uris))} AND {_text(max(uris))}"
    lists = (f"{column} IN ({', '.join(map(_text, some))})" for some in _lists_of(uris))
    return f"({' OR '.join(lists)})"


def files_with(jvm: Any, table: Any, snapshot: int, uris: Collection[str]) -> Iterator[Any]:
    """The files of this snapshot that may have rows of these uris, each as `org.apache.iceberg.FileScanTask`."""
    scan = table.newScan().useSnapshot(snapshot).filter(_among(jvm, uris))
    # what is left to compare in a file is not asked for
    files = scan.ignoreResiduals().planFiles()
    try:
        found = files.iterator()
        while found.hasNext():
            yield found.next()
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
    place = among("here._source_uri", {uri for uri, _, _ in gone})
    view = "tidegate_gone"
    if len(gone) <= MOST_NAMED:
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
    """A constant of SQL, whatever the session takes for an escape in a text. A plain one is parsed in a fraction."""
    return f"'{value}'" if PLAIN.fullmatch(value) else f"decode(X'{value.encode().hex()}', 'utf-8')"


def _among(jvm: Any, uris: Collection[str]) -> Any:
    """As `among`, for Iceberg."""
    where = jvm.org.apache.iceberg.expressions.Expressions
    if len(uris) > MOST_NAMED:
        last = where.lessThanOrEqual("_source_uri", max(uris))
        return getattr(where, "and")(where.greaterThanOrEqual("_source_uri", min(uris)), last)
    found = where.alwaysFalse()
    for some in _lists_of(uris):
        values = _strings(jvm, some)
        found = getattr(where, "or")(found, getattr(where, "in")("_source_uri", values))
    return found


def _strings(jvm: Any, texts: Sequence[str]) -> Any:
    """A list of Java, in two calls where it would take one for each text."""
    if not any(APART in each for each in texts):
        return jvm.java.util.regex.Pattern.compile(APART).splitAsStream(APART.join(texts)).toList()
    values = jvm.java.util.ArrayList()
    for each in texts:
        values.add(each)
    return values


def _lists_of(uris: Collection[str]) -> list[list[str]]:
    """Neighbours come together, so that each list leaves most files out."""
    sorted_uris = sorted(uris)
    return [sorted_uris[first : first + OF_A_LIST] for first in range(0, len(sorted_uris), OF_A_LIST)]

"""What keeps an Iceberg table small: compaction, expiry, orphan files, manifests. Each is one procedure of Iceberg's.

    procedure            what it commits            beside a driver that publishes
    rewrite_data_files   `replace` on main          the driver's append is based on it and tried again: the ancestry
                                                    only grows. Of two compactions one fails for the files of the other
    rewrite_manifests    `replace` on main          the same
    rewrite_position_    `replace` on main          the same; a driver that replaces rows stages anew
      delete_files
    expire_snapshots     snapshots out of the       the driver's condition meets the shorter history on its next try. A
                         metadata, then deletes     branch keeps its snapshot, and a snapshot its files; both are read
                         files                      from the metadata that the commit is based on, unless somebody
                                                    has given them a retention of their own (`TableStanding.obstacle`)
    remove_orphan_files  nothing; deletes files     what a driver has written and not yet staged is younger than
                                                    `orphans_after`; what is staged is in a snapshot

If the process dies within one of them: what is committed is committed, and the rest is for the next run. Files that
expiry has not come to delete are orphans then.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from tidegate.core.maintenance import MILLI, AgedSnapshot, Retention
from tidegate.sinks.iceberg.ancestry import ancestry
from tidegate.sinks.iceberg.columns import quoted
from tidegate.sinks.iceberg.sharing import OtherTable, other_table
from tidegate.sinks.iceberg.table import DRIVERS_BRANCH, MAINTAIN

SMALL = 0.75
"""A data file is small below this share of the target: what rewrite_data_files takes by default
(`min-file-size-bytes`)."""
WORTHWHILE = 5
"""So many small files of a partition are rewritten together, or fewer if they are more than the target
(`min-input-files`; org.apache.iceberg.actions.BinPackRewriteFilePlanner, 1.11.0)."""
TARGET = "write.target-file-size-bytes"
TARGET_DEFAULT = 512 * 1024 * 1024
WITH_POSITIONS = 2
"""The format of tables with files of position deletes."""
GROUP_BYTES = 10 * 1024**3
"""A group of files is rewritten, and may fail, as a whole."""
MANY_MANIFESTS = 100
"""From so many on they are rewritten. Iceberg's appends merge as many (`commit.manifest.min-count-to-merge`)."""
MANY_DELETES = 20
"""From so many files of deletes on they are merged, and data files that lost more than 0.3 of their rows are rewritten
(`delete-ratio-threshold`; org.apache.iceberg.actions.BinPackRewriteFilePlanner, 1.11.0)."""
GC = "gc.enabled"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
"""A table's property. Expiry drops every branch but `main` whose snapshot is older: drivers' branches too."""
MAIN = "main"
OF_SNAPSHOTS = ("max-snapshot-age-ms", "min-snapshots-to-keep")
OF_A_BRANCH = (*OF_SNAPSHOTS, "max-ref-age-ms")
"""A branch's own retention, as `SnapshotRefParser` names it. Where there is one, Iceberg's expiry asks neither
`older_than` nor `retain_last` (org.apache.iceberg.RemoveSnapshots, 1.11.0). `main` itself is never dropped."""


@dataclass(frozen=True, slots=True)
class TableStanding:
    """One consistent reading: the table's uuid, the ancestors of `main` with its head first, and how many snapshots are
    in the metadata. `obstacle` says why Iceberg's expiry would not keep what it is told to keep, and what to do about
    that; it is empty if nothing stands in the way."""

    uuid: str
    ancestors: Sequence[AgedSnapshot]
    snapshots: int
    obstacle: str = ""


class Upkeep:
    """The upkeep of the table `name` (catalog.namespace.table) in Spark's catalog. Raises what Spark raises."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self.name = name
        self._catalog = name.partition(".")[0]

    @property
    def exists(self) -> bool:
        return bool(self._spark.catalog.tableExists(self.name))

    @property
    def is_kept_whole(self) -> bool:
        """Whether its owner lets nobody delete its files: `gc.enabled` is false."""
        return str(self._table().properties().getOrDefault(GC, "true")).lower() == "false"

    @property
    def is_ours(self) -> bool:
        """Whether Tidegate created it, or a person has said so: its property `tidegate.maintain` is true."""
        return str(self._table().properties().getOrDefault(MAINTAIN, "false")).lower() == "true"

    def standing(self) -> TableStanding:
        assert self._spark._jvm is not None
        metadata = self._table().operations().current()
        line = [AgedSnapshot(each.id, each.at, each.parent) for each in ancestry(self._spark._jvm).of_main(metadata)]
        obstacles = "; ".join(self._obstacles(metadata))
        return TableStanding(str(metadata.uuid()), line, int(metadata.snapshots().size()), obstacles)

    def _obstacles(self, metadata: Any) -> Iterator[str]:
        """Settings of the table that Iceberg's expiry prefers to what it is told."""
        assert self._spark._jvm is not None
        age = metadata.properties().get(MAX_REF_AGE)
        if age is not None:
            yield (
                f"the property {MAX_REF_AGE} is {age}, by which drivers' branches would be dropped: remove it"
                f" (ALTER TABLE {quoted(self.name)} UNSET TBLPROPERTIES ('{MAX_REF_AGE}'))"
            )
        to_json = self._spark._jvm.org.apache.iceberg.SnapshotRefParser.toJson
        refs = metadata.refs()
        for name in sorted(each for each in refs if each == MAIN or DRIVERS_BRANCH.fullmatch(each)):
            told = json.loads(to_json(refs.get(name)))
            own = [f"{each} {told[each]}" for each in (OF_SNAPSHOTS if name == MAIN else OF_A_BRANCH) if each in told]
            if own:
                yield (
                    f"branch {name} has a retention of its own ({', '.join(own)}), which Iceberg prefers to what"
                    " batches need: remove it (docs/operations.md, Old tables)"
                )

    def small_files(self) -> tuple[int, int]:
        """How many small data files of `main` a compaction would rewrite, and their bytes. A few small files that are
        alone in their partition stay as they are."""
        table = self._table()
        target = int(table.properties().getOrDefault(TARGET, str(TARGET_DEFAULT)))
        files = f"{quoted(self.name)}.files"
        # files of an earlier spec are taken together
        partitioned = "partition" in self._spark.table(files).columns
        partition = f"CASE WHEN spec_id = {int(table.spec().specId())} THEN partition END" if partitioned else "spec_id"
        row = self._spark.sql(
            "SELECT coalesce(sum(files), 0) AS files, coalesce(sum(bytes), 0) AS bytes FROM"
            f" (SELECT count(*) AS files, sum(file_size_in_bytes) AS bytes FROM {files}"
            f" WHERE content = 0 AND file_size_in_bytes < {int(SMALL * target)} GROUP BY {partition})"
            f" WHERE files >= {WORTHWHILE} OR (files > 1 AND bytes > {target})"
        ).collect()[0]
        return int(row.files), int(row.bytes)

    def compact(self, files: int) -> tuple[int, int, int, int]:
        """Rewrite at most so many files. Returns how many were, into how many, their bytes, and how many failed."""
        options = {
            "max-files-to-rewrite": str(max(2, files)),
            "max-file-group-size-bytes": str(GROUP_BYTES),
            # what was rewritten before an error counts
            "partial-progress.enabled": "true",
        }
        told = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
        row = self._call("rewrite_data_files", f"options => map({told})")
        return (
            int(row.rewritten_data_files_count),
            int(row.added_data_files_count),
            int(row.rewritten_bytes_count),
            int(row.failed_data_files_count),
        )

    def many_deletes(self) -> bool:
        """Whether readers of `main` have to open many files of deletes."""
        files = f"SELECT count(*) AS files FROM {quoted(self.name)}.delete_files"
        return int(self._spark.sql(files).collect()[0].files) >= MANY_DELETES

    def merge_deletes(self) -> int:
        """Merge small files of position deletes, each of a data file. Returns how many were merged. A deletion vector
        is never one of several."""
        if int(self._table().operations().current().formatVersion()) != WITH_POSITIONS:
            return 0
        return int(self._call("rewrite_position_delete_files").rewritten_delete_files_count)

    def rewrite_manifests(self) -> int:
        """Merge small manifests, if they are many. Returns how many were rewritten."""
        sql = f"SELECT count(*) AS manifests FROM {quoted(self.name)}.manifests"
        if int(self._spark.sql(sql).collect()[0].manifests) < MANY_MANIFESTS:
            return 0
        return int(self._call("rewrite_manifests").rewritten_manifests_count)

    def expire(self, keep: Retention) -> int:
        """Returns how many files went with the snapshots."""
        row = self._call(
            "expire_snapshots",
            f"older_than => {_timestamp(keep.older_than)}",
            f"retain_last => {keep.keep_last}",
            # or all names of files come to the driver at once
            "stream_results => true",
        )
        return sum(int(count or 0) for count in row)

    def other_table(self) -> OtherTable | None:
        """Another table whose files are in this one's folder: removing orphans would delete them."""
        return other_table(self._spark._jvm, self._spark.sparkContext._gateway, self._table())

    def remove_orphans(self, older_than: int, *, dry_run: bool) -> int:
        """Delete the files under the table's location that no snapshot names, and that are older than `older_than`
        (epoch seconds). Returns how many they are. Only `dry_run` brings all their names to the driver."""
        listed = self._spark.sql(
            self._statement(
                "remove_orphan_files",
                f"older_than => {_timestamp(older_than * MILLI)}",
                f"dry_run => {str(dry_run).lower()}",
                f"stream_results => {str(not dry_run).lower()}",
                # by the catalog's own way to its files, a thousand names a request
                "prefix_listing => true",
            )
        )
        return int(listed.count())

    def _call(self, procedure: str, *arguments: str) -> Any:
        return self._spark.sql(self._statement(procedure, *arguments)).collect()[0]

    def _statement(self, procedure: str, *arguments: str) -> str:
        told = ", ".join((f"table => '{quoted(self.name)}'", *arguments))
        return f"CALL {quoted(self._catalog)}.system.{procedure}({told})"

    def _table(self) -> Any:
        jvm = self._spark._jvm
        assert jvm is not None
        table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, self.name)
        table.refresh()
        return table


def _timestamp(milliseconds: int) -> str:
    """As a literal of SQL, whatever the session's time zone is."""
    # before 1970 nothing was committed
    at = datetime.fromtimestamp(max(0, milliseconds) / MILLI, UTC)
    return f"TIMESTAMP '{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // MILLI:03}Z'"

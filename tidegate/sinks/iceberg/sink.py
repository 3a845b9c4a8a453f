"""One driver's access to an Iceberg table: it reads and stages with Spark, on a branch of its own."""

import datetime
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import Read
from tidegate.core.publication import Floor, History, Published, Unprovable
from tidegate.core.receipts import RejectedRows
from tidegate.core.replacing import HeldRows, RowsPlace
from tidegate.core.routes import Dataset, reading_of
from tidegate.core.unknown import few
from tidegate.flows.sink import Hopeless, RejectedUndecided, SeenVersion, Staged
from tidegate.formats.decode import decoder
from tidegate.formats.registry import KEEP, REST, adds, share_of_bad_rows, unknown_of
from tidegate.reading.reader import Reader, with_lineage
from tidegate.sinks.iceberg import shares
from tidegate.sinks.iceberg.causes import MISTAKES, cause
from tidegate.sinks.iceberg.columns import misfit
from tidegate.sinks.iceberg.data_files.layout import BySpark, Layout, layout
from tidegate.sinks.iceberg.ddl import facts_of, struct_of
from tidegate.sinks.iceberg.endings import Endings
from tidegate.sinks.iceberg.marks import ATTEMPT, BATCH, DRIVER
from tidegate.sinks.iceberg.rejected import create_rejected, rejected_rows
from tidegate.sinks.iceberg.route_sql import Judge, RouteSql, accounted, in_files, require_sql, session, sql_of, sums_of
from tidegate.sinks.iceberg.shares import is_for_driver, shared_out
from tidegate.sinks.iceberg.splits import Splits, endings_of, read_whole, survey
from tidegate.sinks.iceberg.spoiled import without_spoiled
from tidegate.sinks.iceberg.table import BRANCHES, IcebergTable
from tidegate.sinks.iceberg.target import IcebergTarget, asking
from tidegate.sinks.iceberg.tasks import files_of_driver, files_of_rows, files_of_tasks, rows_of_tasks
from tidegate.sinks.iceberg.told import Task, Told
from tidegate.sinks.iceberg.widen import MOST_ADDED, ROUNDS, FoundNames, add_columns, beside

log = logging.getLogger("tidegate.sinks")


@dataclass
class IcebergSink:
    """`flows.sink.Sink` on Spark's catalog. `driver` is unique to this process, unlike `attempt`.

    `landing_owner` is the account that the uploads' bucket must belong to; without it this is not checked."""

    spark: SparkSession
    dataset: Dataset
    batch: str
    attempt: int
    driver: str
    landing_owner: str = ""
    reads: bool = False
    """Whether the driver itself reads and writes what is small. A file that kills its reader kills it then."""
    opened: list[str] = field(default_factory=list)
    """The tables of rejected rows that this driver has used, once for each time."""
    layout: Layout | None = None  # of the data files that were staged last, unless Spark wrote them

    @property
    def table(self) -> str:
        return self.dataset.table

    @cached_property
    def iceberg(self) -> IcebergTable:
        return self.iceberg_of(self.table)

    def iceberg_of(self, name: str) -> IcebergTable:
        return IcebergTable(self.spark, name)

    @property
    def target(self) -> IcebergTarget:
        return IcebergTarget(self.iceberg, self.batch, self.marks)

    @property
    def replaces(self) -> bool:
        return self.dataset.replaces

    @property
    def skips(self) -> bool:
        return self.dataset.skips

    @property
    def sets_aside(self) -> bool:
        """Whether rows that do not fit are set aside."""
        return share_of_bad_rows(self.dataset.options) is not None

    @property
    def marks(self) -> dict[str, str]:
        """The properties in the summary of each snapshot that this driver stages."""
        marks = {BATCH: self.batch, DRIVER: self.driver, ATTEMPT: str(self.attempt)}
        return {**marks, **self.sql.marks} if self.sql else marks

    @cached_property
    def sql(self) -> RouteSql | None:
        """What the route says of its rows in SQL."""
        return sql_of(self.dataset)

    @property
    def branches(self) -> str:
        """The prefix of the names of the batch's branches."""
        return f"{BRANCHES}{self.batch}_"

    @property
    def branch(self) -> str:
        """The branch on which this driver stages first."""
        return f"{self.branches}{self.driver}"

    # ---- the table

    @property
    def exists(self) -> bool:
        return self.target.exists

    def prepare(self) -> None:
        """Create the table if it is absent; refuse one whose columns do not fit the route's schema. The same of the
        table of rejected rows, if the route has one."""
        struct = in_files(self.dataset, struct_of(self.dataset.schema))
        if self.sql:
            require_sql(self.spark, self.sql, struct)
        try:
            decoder(self.dataset.format, to_arrow_schema(struct), self.dataset.options)
        except (ValueError, TypeError, PySparkException) as error:
            raise Hopeless(
                f"the route's schema has a column that {self.dataset.format} files cannot fill: {cause(error)}."
                " Correct it in tidegate.toml"
            ) from error
        self.create_if_absent()
        self.require_columns()
        if self.sets_aside:
            create_rejected(self.iceberg_of(self.dataset.rejected_table))

    def create_if_absent(self) -> None:
        if self.exists:
            return
        with asking():
            try:
                self.iceberg.create_if_absent(
                    with_lineage(self.dataset.schema), self.dataset.partition_by, replaces=self.replaces or self.skips
                )
            except MISTAKES as error:
                raise Hopeless(
                    f"table {self.dataset.table} cannot be created from the route's schema and partition_by:"
                    f" {cause(error)}. Correct them in tidegate.toml"
                ) from error

    def require_columns(self) -> None:
        with asking():
            wanted = facts_of(struct_of(with_lineage(self.dataset.schema)))
            there = facts_of(self.iceberg.schema)
            lacks = {name: each.type for name, each in wanted.items() if name not in there and each.nullable}
            if not adds(self.dataset.options):
                lacks = {REST: lacks[REST]} if REST in lacks and unknown_of(self.dataset.options) == KEEP else {}
            if lacks:
                add_columns(self.iceberg, lacks)
                there = facts_of(self.iceberg.schema)
            if reason := misfit(self.dataset.table, there, wanted, self.iceberg.now_called):
                raise Hopeless(reason.replace("abort BATCH", f"abort {self.batch}"))

    def position(self) -> Floor:
        return self.target.position()

    def history(self, floor: Floor) -> History:
        return self.target.history(floor)

    def in_line(self, version: int) -> bool:
        with asking():
            return self.iceberg.in_line(version)

    def held(self, position: Floor) -> int:
        with asking():
            held = self.iceberg.rows_of(self.batch, position)
            if not held and (lost := self.iceberg.rows_without_batch(position)):
                raise Hopeless(
                    f"table {self.table} has {lost} rows with a _source_uri and without a _batch_id: whether those of"
                    f" batch {self.batch} are among them cannot be told. The column was renamed or dropped, or the rows"
                    " were changed. Give them their _batch_id again, from a column or a snapshot that has it"
                )
        return held

    def rows_of_objects(self, uris: Collection[str], version: int) -> Sequence[HeldRows]:
        with asking():
            return sorted(self.iceberg.rows_of_objects(uris, version))

    def may_have_gained(self, uris: Collection[str], since: int, now: int) -> bool:
        with asking():
            return self.iceberg.may_have_gained(uris, since, now)

    def rolled_back(self) -> tuple[History, frozenset[str]]:
        with asking():
            return self.iceberg.rolled_back()

    # ---- staging

    def stage(self, items: Sequence[OwnedUpload], *, careful: bool = False, at: int | None = None) -> Staged:
        reader = self._reader(careful)
        with asking():
            splits = survey(self.spark.sparkContext, reader, items, shares.TASK_BYTES)
        branches = self._branches()
        # of the last staging: no name is added for a file that was spoiled
        found: dict[str, str] = {}

        def stage_by(reader: Reader) -> Staged:
            return without_spoiled(items, partial(self._stage_once, reader, splits, at, branches, found))

        staged = first = stage_by(reader)
        for _ in range(ROUNDS - 1):
            if not found:
                break
            former, reader = reader, self._widened(reader, found)
            if reader.beside == former.beside:
                break
            staged = stage_by(reader)
        if staged is not first:
            staged = replace(staged, reads={at: _also(read, first.reads.get(at)) for at, read in staged.reads.items()})
        bad = [item for position, item in enumerate(items) if (read := staged.reads.get(position)) and read.rejected]
        if not bad:
            return staged
        return replace(staged, rejected=self._stage_rejected(reader, bad, self.dataset.rejected_table))

    def _reader(self, careful: bool) -> Reader:
        with asking():
            # the table's own partition, which the route's may not be: what its paths cannot hold, no task may meet
            dataset = replace(self.dataset, partition_by=self.iceberg.partition_by)
            reader = Reader(
                dataset,
                to_arrow_schema(in_files(self.dataset, struct_of(self.dataset.schema))),
                self.batch,
                datetime.datetime.now(datetime.UTC),
                self.landing_owner,
                careful,
            )
            return self._widened(reader, {}) if adds(self.dataset.options) else reader

    def _widened(self, reader: Reader, found: Mapping[str, str]) -> Reader:
        """A reader that fills the columns of the table which the route's schema lacks; those for `found` are added
        before."""
        with asking():
            if len(found) > MOST_ADDED:
                log.warning("table %s: %s new names in a batch, so none becomes a column", self.table, len(found))
            elif found:  # to look costs a call for each schema that the table has had
                add_columns(self.iceberg, found, self.batch)
            filled = beside(
                self.iceberg.schema, struct_of(with_lineage(self.dataset.schema)), reader.dataset.partition_by
            )
        return replace(reader, beside=to_arrow_schema(StructType(filled)))

    def _branches(self) -> Iterator[str]:
        """The names of the branches on which this driver stages, one after the other."""
        yield self.branch
        yield from (f"{self.branch}_{time}" for time in count(2))

    def stage_rejected(self, items: Sequence[OwnedUpload], table: str) -> RejectedRows:
        if not self.sets_aside:
            raise RejectedUndecided(
                f"batch {self.batch} has rows for table {table} that have to be read again, and the route does not set"
                " bad rows aside any more. Set bad_rows_share as it was and resume the batch, or see `tidegate resume"
                " --help`"
            )
        return self._stage_rejected(self._reader(careful=True), items, table)

    def _stage_rejected(self, reader: Reader, items: Sequence[OwnedUpload], table: str) -> RejectedRows:
        self.opened.append(table)
        iceberg = self.iceberg_of(table)
        create_rejected(iceberg)
        with asking():
            rows = self._rejected_rows(reader, items)
            # a driver stages anew if the table was created anew, which has none of its branches
            staged, added = iceberg.stage(rows, f"{self.branch}_{len(self.opened)}", self.marks)
            return RejectedRows(table, iceberg.position().table_uuid, staged, added, reading_of(self.dataset))

    def _rejected_rows(self, reader: Reader, items: Sequence[OwnedUpload]) -> Any:
        return rejected_rows(self.spark, reader, items, shares.TASK_BYTES, shares.TASK_OBJECTS)

    def _stage_once(
        self,
        reader: Reader,
        splits: Splits,
        at: int | None,
        branches: Iterator[str],
        found: dict[str, str],
        items: Sequence[OwnedUpload],
    ) -> Staged:
        """Stage the rows of `items` on a new branch, the next of `branches`. A file that is not to be read in splits
        again leaves `splits`. `found` becomes the names that may become columns."""
        names = self.spark.sparkContext.accumulator({}, FoundNames())
        tasks = shared_out(items, splits, self.spark.sparkContext.defaultParallelism, reads=self.reads)
        with asking(), session(self.spark, self.sql):
            staged, added, told = self._stage_rows(reader, tasks, next(branches), at, names)
            whole = partial(read_whole, self.spark.sparkContext, reader)
            reads = Endings.plain(told.endings.value)
            reads |= endings_of(items, splits, Endings.plain(told.of_splits.value), whole)
            if self.sql:
                reads = accounted(self.spark, self.sql, items, reads, told.sums.value)
        found.clear()
        found.update(names.value)
        return Staged(staged, added, reads, slowly=told.slowly)

    def let_rows_go(self) -> None:
        with asking():
            if needs := self.iceberg.let_rows_go():
                raise Hopeless(
                    f"table {self.table} cannot replace rows: its format is older than 2, or it rewrites whole files"
                    f" for a row that is deleted. ALTER TABLE {self.table} SET TBLPROPERTIES ({needs})"
                )

    def stage_removal(self, staged: int, gone: Collection[RowsPlace]) -> tuple[int, int | None]:
        with asking():
            return self.iceberg.stage_removal(staged, gone, self.marks, self.layout)

    def stage_nothing(self) -> int:
        with asking():
            return self.iceberg.stage_nothing(self.branch, self.marks)

    def _stage_rows(
        self, reader: Reader, tasks: Sequence[Task], branch: str, at: int | None, names: Any
    ) -> tuple[int, int, Told]:
        """Stage the rows of the tasks on a new branch: the snapshot, how many rows Iceberg counted, and how the reading
        ended."""
        iceberg = self.iceberg
        loaded = iceberg.loaded()
        encoded = replace(reader, encoded=not self.sql)
        emitted = self._emitted(encoded)
        found = layout(loaded.facts(), emitted, dict(self.spark.conf.getAll))
        self.layout = found if isinstance(found, Layout) else None
        if isinstance(found, Layout):
            told = self._told(names)
            read = partial(told.read, encoded)
            if self.sql:
                rows = rows_of_tasks(self.spark, tasks, read, from_arrow_schema(encoded.emitted))
                judged = self._judge(emitted, told).rows
                files = files_of_rows(self.sql.evaluated(rows), len(tasks), judged, found, branch)
            elif self.reads and not reader.careful and is_for_driver(tasks):
                files = files_of_driver(tasks[0], read, found, branch)
            else:
                files = files_of_tasks(self.spark, tasks, read, found, branch)
            if files is not None:
                return (*iceberg.stage_files(loaded, files, branch, self.marks, at), told)
            found = BySpark("the rows of a task are in too many partitions, or of years before 1 or after 9999")
        log.info("Spark writes the data files of table %s: %s", self.table, found.reason)
        told = replace(self._told(names), slowly=found.reason if found.avoidable else "")
        rows = rows_of_tasks(self.spark, tasks, partial(told.read, reader), from_arrow_schema(reader.emitted))
        if self.sql:
            judged = self._judge(emitted, told).rows
            rows = self.sql.evaluated(rows).mapInArrow(judged, from_arrow_schema(emitted))
        for name in (each.name for each in iceberg.schema if each.name not in rows.columns):
            rows = rows.withColumn(name, lit(None))
        return (*iceberg.stage(rows, branch, self.marks, at), told)

    def _told(self, names: Any) -> Told:
        context = self.spark.sparkContext
        endings = context.accumulator({}, Endings[int]()), context.accumulator({}, Endings[tuple[int, int]]())
        return Told(*endings, names, sums_of(context))

    def _emitted(self, reader: Reader) -> Any:
        """The schema of the rows that land."""
        if not self.sql:
            return reader.emitted
        columns = to_arrow_schema(struct_of(self.dataset.schema))
        return pa.schema([*columns, *(each for each in reader.emitted if each.name not in reader.schema.names)])

    def _judge(self, emitted: Any, told: Told) -> Judge:
        names = tuple(name for name, _ in self.dataset.generated)
        return Judge(emitted, names, tuple(self.iceberg.partition_by), told.sums)

    # ---- publishing

    def publish(self, staged: int, floor: Floor, seen: SeenVersion | None = None) -> Published | Unprovable:
        return self.target.publish(staged, floor, seen)

    def rejected(self, table: str) -> IcebergTarget:
        self.opened.append(table)
        return IcebergTarget(self.iceberg_of(table), self.batch, self.marks)

    def tidy(self) -> None:
        for table in dict.fromkeys((self.table, *self.opened)):
            with asking():
                self.iceberg_of(table).drop_branches(self.branches)


def _also(read: Read | None, first: Read | None) -> Read | None:
    """What is said of a file, with the names that were no columns when it was read first."""
    if read is None or first is None:
        return read
    return replace(read, unknown=few((*first.unknown, *read.unknown)))

"""Maintaining a real table on a real Spark, beside publishing: rows land once, and what attempts need stays."""

import datetime
import os
import re
import threading
import time
import urllib.parse
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.spark.test_publish import FILES, IDS, publish_other
from tests.spark.world import World
from tests.support.grown import grown
from tidegate.core.maintenance import MaintainedTable, MaintainLimits, MaintenanceRequest, UnfinishedFloors
from tidegate.core.publication import Floor, Published
from tidegate.flows.publish import run
from tidegate.flows.sink import Hopeless
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.sinks.iceberg.upkeep import Upkeep
from tidegate.spark.maintain import maintain_tables

pytestmark = pytest.mark.spark

DAY = 86_400
AT_ONCE = MaintainLimits(keep_for=0, keep_last=1, orphans_after=2 * DAY, compact_bytes=10**9)
"""Everything that no floor keeps may go."""


def maintain(world: World, *floors: tuple[str, Floor], limits: MaintainLimits = AT_ONCE, **options: Any) -> Any:
    assert world.spark is not None
    unfinished = tuple(UnfinishedFloors(batch, (floor,)) for batch, floor in floors)
    # a time that all snapshots are older than
    request = MaintenanceRequest(int(time.time()) + 3_600, (world.dataset.table,), unfinished, limits, **options)
    (done,) = maintain_tables(world.spark, request).tables
    assert not done.trouble
    return done


def folder_of(world: World) -> Path:
    location = IcebergTable(world.spark, world.dataset.table)._load().location()
    return Path(urllib.parse.urlparse(location).path)


def without_retention(spark: Any, name: str) -> None:
    """As docs/operations.md has it."""
    iceberg = spark._jvm.org.apache.iceberg
    operations = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name).operations()
    base = operations.refresh()
    main = iceberg.SnapshotRef.branchBuilder(base.currentSnapshot().snapshotId()).build()
    operations.commit(base, iceberg.TableMetadata.buildFrom(base).setRef("main", main).build())


def sealed(world: World, batch: str) -> None:
    world.seal(batch, world.put(FILES))


@pytest.fixture
def grows(world: World, batch: str) -> World:
    """A table of six small batches."""
    for number in range(100, 106):
        publish_other(world, f"{batch}w{number}", number)
    return world


BEFORE = [*range(100, 106)]


def test_small_files_are_compacted_and_old_snapshots_expire(grows: World) -> None:
    there = len(list(folder_of(grows).glob("data/*.parquet")))
    # six were published, six are the staged ones, and the table began with an empty one; some were on branches
    dry = maintain(grows, dry_run=True)
    assert (dry.small, dry.compacted, dry.deleted) == (6, 0, 0)
    assert dry.expired > 0
    assert len(grows.main()) == 7
    done = maintain(grows)
    assert (done.small, done.compacted, done.compacted_into) == (6, 6, 1)
    assert done.expired == done.snapshots - 1
    assert len(grows.main()) == 1
    assert grows.ids() == BEFORE
    assert there == 6
    assert len(list(folder_of(grows).glob("data/*.parquet"))) == 1
    again = maintain(grows)
    assert (again.compacted, again.expired, again.deleted, again.orphans) == (0, 0, 0, 0)


def test_an_attempt_whose_floor_is_kept_publishes_after_maintenance(grows: World, batch: str) -> None:
    sealed(grows, batch)
    one = grows.attempt(batch, 1)
    floor = one.floor()
    staged = one.stage()
    publish_other(grows, f"{batch}x", 106)
    done = maintain(grows, (batch, floor))
    assert done.compacted == 7
    assert floor.head in [each.id for each in grows.main()]
    assert isinstance(one.publish(staged, floor), Published)
    assert grows.ids() == [*IDS, *BEFORE, 106]
    # and once it is settled nothing keeps the floor
    maintain(grows)
    assert len(grows.main()) == 1
    assert grows.ids() == [*IDS, *BEFORE, 106]


def test_an_attempt_whose_floor_was_expired_publishes_nothing(grows: World, batch: str) -> None:
    sealed(grows, batch)
    one = grows.attempt(batch, 1)
    floor = one.floor()
    staged = one.stage()
    publish_other(grows, f"{batch}x", 106)
    publish_other(grows, f"{batch}y", 107)
    maintain(grows)
    with pytest.raises(Hopeless, match="This attempt published nothing"):
        one.publish(staged, floor)
    assert grows.ids() == [*BEFORE, 106, 107]
    # from now on it keeps what there is, and a person has to act
    done = maintain(grows, (batch, floor))
    assert f"reaches no floor of batch {batch}" in done.remarks[-1]


def test_the_floor_itself_may_go_if_all_above_it_stays(grows: World, batch: str) -> None:
    """A first attempt that begins after the request was made: its floor is an old head, and no one keeps it."""
    sealed(grows, batch)
    one = grows.attempt(batch, 1)
    floor = one.floor()
    publish_other(grows, f"{batch}x", 106)
    # what the request would keep by age: all that was committed after it
    maintain(grows, limits=replace(AT_ONCE, keep_last=2))  # compaction's own snapshot, and the one above the floor
    assert floor.head not in [each.id for each in grows.main()]
    assert isinstance(one.publish(one.stage(), floor), Published)
    assert grows.ids() == [*IDS, *BEFORE, 106]


def test_a_staged_branch_keeps_its_files_and_orphans_of_live_drivers_stay(grows: World, batch: str) -> None:
    sealed(grows, batch)
    one = grows.attempt(batch, 1)
    floor = one.floor()
    staged = one.stage()
    data = folder_of(grows) / "data"
    being_written, forgotten, old_metadata = data / "new.parquet", data / "old.parquet", data.parent / "metadata/x.avro"
    for each in (being_written, forgotten, old_metadata):
        each.write_bytes(b"x")
    for each in [*data.iterdir(), old_metadata]:
        if each != being_written:
            os.utime(each, (time.time() - 3 * DAY,) * 2)
    assert maintain(grows, (batch, floor), dry_run=True).orphans == 2
    done = maintain(grows, (batch, floor))
    assert done.orphans == 2
    assert (being_written.exists(), forgotten.exists(), old_metadata.exists()) == (True, False, False)
    assert grows.branches() == [one.sink.branch]
    one.publish(staged, floor)
    assert grows.ids() == [*IDS, *BEFORE]


@pytest.mark.parametrize("step", ["compact", "expire", "rewrite_manifests", "remove_orphans"])
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_publish_between_two_steps_of_maintenance_lands_once(
    grows: World, batch: str, step: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed(grows, batch)
    one = grows.attempt(batch, 1)
    floor = one.floor()
    staged = one.stage()
    real = getattr(Upkeep, step)
    happened: list[Any] = []

    def beside(self: Upkeep, *arguments: Any, **options: Any) -> Any:
        if order == "before":
            happened.append(one.publish(staged, floor))
        told = real(self, *arguments, **options)
        if order == "after":
            happened.append(one.publish(staged, floor))
        return told

    monkeypatch.setattr(Upkeep, step, beside)
    maintain(grows, (batch, floor))
    assert [type(each) for each in happened] == [Published]
    assert grows.ids() == [*IDS, *BEFORE]
    assert run(grows.attempt(batch, 2), "ingest") == 0
    assert grows.ids() == [*IDS, *BEFORE]


def test_batches_that_are_published_all_the_while_land_once(grows: World, batch: str) -> None:
    """Compaction and expiry in one thread, publishing in another: each rebases over the other."""
    failed: list[BaseException] = []
    stop = threading.Event()

    def go_on() -> None:
        try:
            while not stop.is_set():
                assert grows.spark is not None
                # what the drivers need is younger than the request
                limits = replace(AT_ONCE, keep_for=5, keep_last=3)
                request = MaintenanceRequest(int(time.time()), (grows.dataset.table,), (), limits)
                maintain_tables(grows.spark, request)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    for number in range(200, 208):
        publish_other(grows, f"{batch}v{number}", number)
    stop.set()
    thread.join()
    assert not failed
    assert grows.ids() == [*BEFORE, *range(200, 208)]


def test_a_table_that_its_owner_keeps_whole_or_that_is_not_there_is_left_alone(grows: World) -> None:
    grows.sql("ALTER TABLE {t} SET TBLPROPERTIES ('gc.enabled'='false')")
    done = maintain(grows)
    assert "gc.enabled" in done.remarks[0]
    assert (done.compacted, done.expired) == (0, 0)
    assert grows.spark is not None
    request = MaintenanceRequest(int(time.time()), ("lake.tests.none",), (), AT_ONCE)
    (done,) = maintain_tables(grows.spark, request).tables
    assert done == MaintainedTable("lake.tests.none", remarks=("there is no such table yet",))


def test_a_table_that_others_created_is_left_alone_unless_its_route_asks_for_it(grows: World) -> None:
    """A table that was there before the deployment, or that an earlier version created."""
    grows.sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('tidegate.maintain')")
    before = len(grows.main())
    done = maintain(grows)
    assert "`maintain = true`" in done.remarks[0]
    assert "SET TBLPROPERTIES ('tidegate.maintain' = 'true')" in done.remarks[0]
    assert (done.compacted, done.expired, done.behind) == (0, 0, False)
    assert len(grows.main()) == before
    done = maintain(grows, asked_for=(grows.dataset.table,))
    assert (done.compacted, len(grows.main())) == (6, 1)
    # what the remark says works too
    publish_other(grows, "another", 107)
    grows.sql("ALTER TABLE {t} SET TBLPROPERTIES ('tidegate.maintain' = 'true')")
    assert maintain(grows).expired > 0


def snapshots_of(world: World) -> Any:
    return IcebergTable(world.spark, world.dataset.table)._load().manageSnapshots()


def test_a_main_with_a_retention_of_its_own_keeps_what_a_live_batch_needs(grows: World, batch: str) -> None:
    """Iceberg prefers it to older_than and retain_last: one snapshot of a millisecond would take the floor."""
    sealed(grows, batch)
    one = grows.attempt(batch, 1)
    floor = one.floor()
    publish_other(grows, f"{batch}x", 106)
    publish_other(grows, f"{batch}y", 107)
    snapshots_of(grows).setMaxSnapshotAgeMs("main", 1).setMinSnapshotsToKeep("main", 1).commit()
    for dry_run in (True, False):
        done = maintain(grows, (batch, floor), dry_run=dry_run)
        assert (done.expired, done.behind) == (0, True)
        assert (
            "branch main has a retention of its own (max-snapshot-age-ms 1, min-snapshots-to-keep 1)"
            in (done.remarks[-1])
        )
    assert done.compacted == 8
    assert isinstance(one.publish(one.stage(), floor), Published)
    # the runbook's way to remove it
    assert grows.spark is not None
    without_retention(grows.spark, grows.dataset.table)
    assert maintain(grows).expired > 0
    assert grows.ids() == [*IDS, *BEFORE, 106, 107]


@pytest.mark.parametrize("whose", ["the table", "the branch"])
def test_a_retention_of_branches_keeps_the_branch_of_a_live_driver(grows: World, batch: str, whose: str) -> None:
    sealed(grows, batch)
    one = grows.attempt(batch, 1, driver=uuid.uuid4().hex)
    floor, staged = one.floor(), one.stage()
    if whose == "the table":
        grows.sql("ALTER TABLE {t} SET TBLPROPERTIES ('history.expire.max-ref-age-ms'='1')")
    else:
        snapshots_of(grows).setMaxRefAgeMs(one.sink.branch, 1).commit()
    time.sleep(0.01)
    done = maintain(grows, (batch, floor))
    assert "no snapshot expires: " + ("the property" if whose == "the table" else "branch tidegate_") in done.remarks[0]
    assert (done.expired, done.behind) == (0, True)
    assert grows.branches() == [one.sink.branch]
    one.publish(staged, floor)
    if whose == "the table":
        (remedy,) = re.findall(r"\((ALTER TABLE .*)\)$", done.remarks[0])
        grows.sql(remedy)
        assert maintain(grows).expired > 0
    assert grows.ids() == [*IDS, *BEFORE]


def test_the_work_of_a_run_is_bounded_and_what_is_left_is_told(grows: World) -> None:
    few = replace(AT_ONCE, compact_files=3, expire_snapshots=2)
    done = maintain(grows, limits=few)
    assert done.compacted <= 3
    assert any("3 small files are left for later runs" in each for each in done.remarks)
    assert any("snapshots are left for later runs" in each for each in done.remarks)
    assert done.behind
    assert grows.ids() == BEFORE


def test_a_history_of_thousands_becomes_short(grows: World) -> None:
    table = IcebergTable(grows.spark, grows.dataset.table)
    metadata = Path(urllib.parse.urlparse(table._load().operations().current().metadataFileLocation()).path)
    _, _, name = table.name.partition(".")
    grows.sql(f"CALL lake.system.register_table(table => '{name}_long', metadata_file => '{grown(metadata, 2_000)}')")
    long = replace(grows, dataset=replace(grows.dataset, table=f"{table.name}_long"))
    done = maintain(long, limits=replace(AT_ONCE, keep_last=100))
    assert done.expired >= 1_900
    assert len(long.main()) == 100
    assert long.ids() == BEFORE


def test_one_table_that_fails_does_not_stop_the_next(grows: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert grows.spark is not None
    monkeypatch.setattr(Upkeep, "compact", lambda *_: 1 // 0)
    tables = (grows.dataset.table, "lake.tests.none")
    first, second = maintain_tables(grows.spark, MaintenanceRequest(1, tables, (), AT_ONCE)).tables
    assert "ZeroDivisionError" in first.trouble
    assert second.remarks
    late = iter((0.0, 1.0, AT_ONCE.begin_for + 1.0))
    _, second = maintain_tables(grows.spark, MaintenanceRequest(1, tables, (), AT_ONCE), lambda: next(late)).tables
    assert "took too long" in second.trouble


def aged(folder: Path) -> None:
    """Eight days pass."""
    for file in folder.rglob("*"):
        if file.is_file():
            os.utime(file, (time.time() - 8 * DAY,) * 2)


@pytest.mark.parametrize("renamed", [True, False], ids=["renamed", "dropped"])
def test_a_table_that_left_its_files_where_the_new_one_is_keeps_them(grows: World, batch: str, renamed: bool) -> None:
    assert grows.spark is not None
    name, other = grows.dataset.table, f"{grows.dataset.table}_2025"
    folder = folder_of(grows)
    if renamed:
        grows.spark.sql(f"ALTER TABLE {name} RENAME TO {other.removeprefix('lake.')}")
    else:
        metadata = IcebergTable(grows.spark, name)._load().operations().current().metadataFileLocation()
        grows.spark.sql(f"DROP TABLE {name}")
    publish_other(grows, f"{batch}x", 106)
    assert folder_of(grows) == folder
    aged(folder)
    for dry_run in (True, False):
        done = maintain(grows, dry_run=dry_run)
        assert done.orphans == 0
        assert "orphan files stay: in this table's folder are files of another table" in done.remarks[-1]
        assert not done.behind
    if not renamed:
        grows.spark.sql(f"CALL lake.system.register_table(table => '{other}', metadata_file => '{metadata}')")
    assert sorted(row.id for row in grows.spark.table(other).select("id").collect()) == BEFORE
    assert grows.ids() == [106]
    # who does not need it deletes its metadata, and the next run takes the rest
    grows.spark.sql(f"DROP TABLE {other}")
    known = {Path(each).name for each in current_metadata(grows)}
    for file in folder.glob("metadata/*.metadata.json"):
        if file.name not in known:
            file.unlink()
    done = maintain(grows)
    assert done.orphans > 6
    assert done.remarks == ()
    assert grows.ids() == [106]


def current_metadata(world: World) -> list[str]:
    assert world.spark is not None
    assert world.spark._jvm is not None
    table = IcebergTable(world.spark, world.dataset.table)._load()
    return list(world.spark._jvm.org.apache.iceberg.ReachableFileUtil.metadataFileLocations(table, True))


def test_metadata_that_a_failed_commit_left_is_an_orphan(grows: World) -> None:
    folder = folder_of(grows)
    last = max(folder.glob("metadata/*.metadata.json"))
    for number in range(3):
        last.with_name(f"99999-{number}.metadata.json").write_bytes(last.read_bytes())
    aged(folder)
    done = maintain(grows)
    assert done.remarks == ()
    assert done.orphans >= 3
    assert not list(folder.glob("metadata/99999-*"))
    assert grows.ids() == BEFORE


def test_a_small_file_that_is_alone_in_its_partition_is_not_waited_for(world: World, batch: str) -> None:
    """Compaction leaves it as it is, in every run: it must take no share of a run's bytes, and be no remark."""
    partitioned = replace(world, dataset=replace(world.dataset, schema="id bigint, day date", partition_by=("day",)))
    assert partitioned.spark is not None
    partitioned.attempt(batch, 1).sink.prepare()
    files_of_days(partitioned, {day: 1 for day in range(300)})
    small = Upkeep(partitioned.spark, partitioned.dataset.table).small_files
    assert small() == (0, 0)
    done = maintain(partitioned, dry_run=True, limits=replace(AT_ONCE, compact_bytes=10**9))
    assert (done.small, done.remarks, done.behind) == (0, (), False)
    # four are left alone as well, and five are not
    files_of_days(partitioned, {400: 4, 401: 5})
    assert small() == (5, 5 * 300_000)
    # and two that are more than a file should have
    partitioned.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.target-file-size-bytes' = '500000')")
    files_of_days(partitioned, {402: 2})
    assert small() == (11, 11 * 300_000)
    # when the partitions change, all files of the earlier ones are one group
    partitioned.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)")
    assert small()[0] == 311


def files_of_days(world: World, counts: dict[int, int]) -> None:
    """So many files of 300 KB of each day, in the metadata only."""
    assert world.spark is not None
    table = IcebergTable(world.spark, world.dataset.table)._load()
    append = table.newAppend()
    for day, count in counts.items():
        for number in range(count):
            append = append.appendFile(
                world.spark._jvm.org.apache.iceberg.DataFiles.builder(table.spec())  # type: ignore[union-attr]
                .withPath(f"{table.location()}/data/{day}-{number}.parquet")
                .withFormat("PARQUET")
                .withFileSizeInBytes(300_000)
                .withRecordCount(1_000)
                .withPartitionPath(f"day={datetime.date(2025, 1, 1) + datetime.timedelta(day)}")
                .build()
            )
    append.commit()


@contextmanager
def logged(spark: Any) -> Iterator[Any]:
    """What the JVM logs, with the stack traces: a Java text that grows."""
    log4j, lines = spark._jvm.org.apache.logging.log4j, spark._jvm.java.io.StringWriter()
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%m%n").build()
    appender = log4j.core.appender.WriterAppender.createAppender(layout, None, lines, "written", False, False)
    appender.start()
    root = log4j.LogManager.getRootLogger()
    root.addAppender(appender)
    try:
        yield lines
    finally:
        root.removeAppender(appender)


def test_the_daily_job_looks_for_no_metadata_that_the_table_has_deleted(grows: World, batch: str) -> None:
    """Iceberg logs each earlier list of metadata that it cannot read: a hundred of them, with where it was, a day."""
    grows.spark.sql(
        f"ALTER TABLE {grows.dataset.table} SET TBLPROPERTIES"
        " ('write.metadata.previous-versions-max'='2', 'write.metadata.delete-after-commit.enabled'='true')"
    )
    for number in range(106, 110):
        publish_other(grows, f"{batch}m{number}", number)
    with logged(grows.spark) as lines:
        assert Upkeep(grows.spark, grows.dataset.table).other_table() is None
        grows.spark._jvm.org.slf4j.LoggerFactory.getLogger("org.apache.iceberg").warn("the end")
    written = str(lines.toString())
    assert "the end" in written
    assert "Exception" not in written

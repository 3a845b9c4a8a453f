"""A route that replaces, on a real Spark and a real Iceberg: no version of the table has rows of two versions of an
object, and in the end it has those of the latest that can be read."""

import signal
import uuid
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession

from tests.spark.test_publish import start_driver
from tests.spark.world import World
from tests.support.patience import HANGING, eventually
from tidegate.cli.asking.engine import connected
from tidegate.cli.asking.files import LocalFiles
from tidegate.core.manifests import Sealed, batch_folder, make_part
from tidegate.core.publication import Floor, Published
from tidegate.core.routes import Dataset
from tidegate.core.uploads import Upload
from tidegate.flows.publish import Attempt, run
from tidegate.flows.replacing import Replacement
from tidegate.flows.sink import Hopeless, StagedIsGone
from tidegate.reading.reader import with_lineage
from tidegate.sinks.iceberg.table import IcebergTable

pytestmark = pytest.mark.spark

VERSIONED = "replacing-with-versions"
KEY = "in/a.json"


@pytest.fixture
def world(spark: SparkSession) -> World:
    table = f"lake.tests.r{uuid.uuid4().hex[:12]}"
    made = World(Dataset(table, "id bigint, text string", "json", max_object_bytes=1_000_000, replaces=True), spark)
    made.s3.create_bucket(Bucket=VERSIONED)
    made.s3.put_bucket_versioning(Bucket=VERSIONED, VersioningConfiguration={"Status": "Enabled"})
    return made


def put(world: World, *ids: int, key: str = KEY, broken: bool = False) -> Upload:
    body = b"".join(b'{"id": %d}\n' % each for each in ids) + (b"{" if broken else b"")
    version = world.s3.put_object(Bucket=VERSIONED, Key=key, Body=body)["VersionId"]
    return Upload(VERSIONED, key, version, len(body))


def sealed(world: World, batch: str, *uploads: Upload, reloads: bool = False) -> None:
    part = make_part("n" * 40, uploads[0].bucket, uploads, again=reloads, reloads=reloads)
    world.work.put(batch_folder(batch) + part.name, part.body)
    listed = Sealed(batch, "route", (part.name,), part.objects, part.size)
    world.work.put(batch_folder(batch) + "sealed.json", listed.encode())


def landed(world: World, batch: str, *uploads: Upload, reloads: bool = False) -> None:
    sealed(world, batch, *uploads, reloads=reloads)
    assert run(world.attempt(batch, 1), "ingest") == 0, world.failure(batch, 1)


def staged(world: World, batch: str, upload: Upload) -> tuple[Attempt, int, Floor]:
    """A driver that has looked and staged, and has not published: its snapshot, and its floor."""
    sealed(world, batch, upload)
    attempt = world.attempt(batch, 1)
    floor = attempt.floor()
    return attempt, attempt.stage(), floor


def endings(world: World, batch: str) -> dict[str, str]:
    return {each.version: str(each.outcome) for each in world.outcomes(batch).endings}


def test_a_corrected_file_takes_the_place_of_the_first(world: World, batch: str) -> None:
    other = put(world, 10, key="in/b.json")
    landed(world, f"{batch}1", put(world, 1, 2), other)
    corrected = put(world, 1, 3)
    landed(world, f"{batch}2", corrected)
    assert world.ids() == [1, 3, 10]
    receipt = world.receipt(f"{batch}2")
    assert receipt is not None
    assert (receipt.tally.rows, receipt.tally.replaced) == (2, 2)
    (gone,) = world.outcomes(f"{batch}2").replaced
    assert (gone.uri, gone.batch, gone.rows) == (f"s3://{VERSIONED}/{KEY}", f"{batch}1", 2)
    assert world.branches() == []
    # one commit did both
    assert [each.plain.publishes for each in world.main()[:2]] == [{f"{batch}2"}, {f"{batch}1"}]


def test_an_earlier_version_that_comes_late_changes_nothing(world: World, batch: str) -> None:
    first, corrected = put(world, 1, 2), put(world, 3)
    landed(world, f"{batch}1", corrected)
    landed(world, f"{batch}2", first)
    assert world.ids() == [3]
    assert endings(world, f"{batch}2") == {first.version: "superseded"}


def test_of_a_batch_the_latest_lands(world: World, batch: str) -> None:
    versions = [put(world, number) for number in range(3)]
    landed(world, batch, versions[1], versions[2], versions[0])
    assert world.ids() == [2]
    assert endings(world, batch) == {versions[0].version: "superseded", versions[1].version: "superseded"}


def test_a_version_that_is_broken_or_gone_leaves_the_one_before(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    broken = put(world, 2, broken=True)
    landed(world, f"{batch}2", broken)
    assert world.ids() == [1]
    good, worse = put(world, 3), put(world, 4, broken=True)
    landed(world, f"{batch}3", good, worse)
    assert world.ids() == [3], "the latest that can be read"
    gone = put(world, 5)
    world.s3.delete_object(Bucket=VERSIONED, Key=KEY, VersionId=gone.version)
    landed(world, f"{batch}4", gone)
    assert world.ids() == [3]


def test_an_empty_version_replaces_too(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    landed(world, f"{batch}2", put(world))
    assert world.ids() == []


def test_what_is_not_listed_and_can_be_read_is_the_latest(world: World, batch: str) -> None:
    """While versioning was suspended, the same bytes came back after the versions were listed."""
    (first,) = world.put({f"in/{batch}.json": b'{"id": 1}\n'})
    landed(world, f"{batch}1", first)
    (second,) = world.put({f"in/{batch}.json": b'{"id": 2}\n'})
    landed(world, f"{batch}2", second)
    assert world.ids() == [2]
    sealed(world, f"{batch}3", first)
    attempt = world.attempt(f"{batch}3", 1)
    attempt.newest_first = lambda *_: {second.version: ""}
    world.put({f"in/{batch}.json": b'{"id": 1}\n'})
    assert run(attempt, "ingest") == 0
    assert world.ids() == [1]


def test_two_batches_at_once_leave_one_version(world: World, batch: str) -> None:
    """Both look before either has published. The second one is refused, and its next attempt finds the first one's."""
    first, corrected = put(world, 1), put(world, 2)
    for name, upload in ((f"{batch}1", first), (f"{batch}2", corrected)):
        sealed(world, name, upload)
    one, two = world.attempt(f"{batch}1", 1), world.attempt(f"{batch}2", 1)
    one.sink.prepare()
    floors = one.floor(), two.floor()
    staged = one.stage(), two.stage()
    assert isinstance(one.publish(staged[0], floors[0]), Published)
    with pytest.raises(StagedIsGone, match="rows of the same objects"):
        two.publish(staged[1], floors[1])
    assert world.ids() == [1]
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    assert world.ids() == [2]


def test_others_may_land_meanwhile(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    attempt, snapshot, floor = staged(world, f"{batch}2", put(world, 2))
    landed(world, f"{batch}3", put(world, 10, key="in/b.json"))
    assert isinstance(attempt.publish(snapshot, floor), Published)
    assert world.ids() == [2, 10]


@pytest.mark.parametrize("format_version", [2, 3])
def test_batches_that_replace_rows_of_one_file_at_once(world: World, batch: str, format_version: int) -> None:
    """Position deletes of both add up. A file has one deletion vector, so the second batch stages anew."""
    world.attempt(batch, 1).sink.prepare()
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '{format_version}')")
    keys = [f"in/{name}.json" for name in "abc"]
    landed(world, f"{batch}1", *(put(world, number, key=key) for number, key in enumerate(keys)))
    for time in (1, 2):  # the second time what marked the rows before is there
        attempt, snapshot, floor = staged(world, f"{batch}{time}2", put(world, 10 * time, key=keys[0]))
        landed(world, f"{batch}{time}3", put(world, 10 * time + 1, key=keys[1]))
        if format_version == 2:
            assert isinstance(attempt.publish(snapshot, floor), Published)
        else:
            with pytest.raises(StagedIsGone, match="rewritten"):
                attempt.publish(snapshot, floor)
            again = world.attempt(f"{batch}{time}2", 2)
            assert isinstance(again.publish(again.stage(), floor), Published)
        assert world.ids() == [2, 10 * time, 10 * time + 1]


def test_rows_that_were_rewritten_meanwhile_are_staged_anew(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1), put(world, 10, key="in/b.json"))
    landed(world, f"{batch}2", put(world, 11, key="in/c.json"))
    attempt, snapshot, floor = staged(world, f"{batch}3", put(world, 2))
    world.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('min-input-files', '2'))")
    with pytest.raises(StagedIsGone, match="rewritten"):
        attempt.publish(snapshot, floor)
    assert run(world.attempt(f"{batch}3", 2), "ingest") == 0
    assert world.ids() == [2, 10, 11]
    world.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")
    assert world.ids() == [2, 10, 11]


def test_a_rollback_brings_the_earlier_version_back_and_the_next_one_replaces_it(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    before = world.main()[0].id
    landed(world, f"{batch}2", put(world, 2))
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {before})")
    assert world.ids() == [1]
    landed(world, f"{batch}3", put(world, 3))
    assert world.ids() == [3]


@pytest.mark.parametrize("reloaded", [None, 0, 1])
def test_a_route_that_appended_may_replace(world: World, batch: str, reloaded: int | None) -> None:
    """What is there twice goes with the next version, or with a reload of either."""
    world.dataset = replace(world.dataset, replaces=False)
    uploads = [put(world, number) for number in (1, 2)]
    for number, upload in enumerate(uploads):
        landed(world, f"{batch}{number}", upload)
    assert world.ids() == [1, 2]
    world.dataset = replace(world.dataset, replaces=True)
    if reloaded is None:
        landed(world, f"{batch}3", put(world, 3))
        assert world.ids() == [3]
    else:
        landed(world, f"{batch}3", uploads[reloaded], reloads=True)
        assert world.ids() == [2]
        (gone,) = {each.version for each in world.outcomes(f"{batch}3").replaced} - {uploads[1].version}
        assert gone == uploads[0].version


@pytest.mark.parametrize("format_version", [2, 3])
def test_tables_of_others(world: World, batch: str, format_version: int) -> None:
    """A table that rewrites whole files for a row is refused, with the command that changes that."""
    assert world.spark is not None
    plain = IcebergTable(world.spark, world.dataset.table)
    plain.create_if_absent(with_lineage(world.dataset.schema), ())
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '{format_version}')")
    world.sql("ALTER TABLE {t} UNSET TBLPROPERTIES ('tidegate.maintain')")
    attempt = world.attempt(batch, 1)
    with pytest.raises(Hopeless, match="cannot replace rows") as refused:
        attempt.sink.let_rows_go()
    world.spark.sql(str(refused.value).partition(". ")[2].replace("'2'", f"'{format_version}'"))
    landed(world, f"{batch}1", put(world, 1, 5), put(world, 10, key="in/b.json"))
    for number in (2, 3):
        landed(world, f"{batch}{number}", put(world, number))
        assert world.ids() == [number, 10]


def test_a_twin_finds_what_the_other_one_published(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    sealed(world, f"{batch}2", put(world, 2))
    one, twin = world.attempt(f"{batch}2", 1, "one"), world.attempt(f"{batch}2", 1, "twin")
    floor = one.floor()
    staged = one.stage(), twin.stage()
    first = one.publish(staged[0], floor)
    assert twin.publish(staged[1], floor) == first
    assert world.ids() == [2]


@pytest.mark.parametrize("format_version", [2, 3])
def test_readers_find_no_row_that_was_replaced(world: World, warehouse: Path, batch: str, format_version: int) -> None:
    assert world.spark is not None
    several = [put(world, number, 100 + number, key=f"in/{number}.json") for number in range(6)]
    landed(world, f"{batch}1", *several)
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '{format_version}')")
    landed(world, f"{batch}2", put(world, 200, key="in/3.json"), put(world, key="in/4.json"))
    expected = [0, 1, 2, 5, 100, 101, 102, 105, 200]
    assert world.ids() == expected
    location = world.sql("SELECT file FROM {t}.metadata_log_entries ORDER BY timestamp DESC, file DESC")[0].file
    assert sorted(StaticTable.from_metadata(location).scan().to_arrow()["id"].to_pylist()) == expected
    scan = f"iceberg_scan('{location}')"
    with closing(connected(LocalFiles(warehouse))) as connection:
        assert [each for (each,) in connection.sql(f"SELECT id FROM {scan} ORDER BY id").fetchall()] == expected


@pytest.mark.parametrize("die_before", ["publish", "write_receipt"])
def test_a_driver_that_is_killed_leaves_one_version(world: World, warehouse: Path, batch: str, die_before: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    sealed(world, f"{batch}2", put(world, 2))
    killed = start_driver(world, warehouse, f"{batch}2", 1, die_before=die_before)
    assert killed.wait(HANGING) == -signal.SIGKILL
    assert world.ids() == [2 if die_before == "write_receipt" else 1]
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    assert world.ids() == [2]
    receipt = world.receipt(f"{batch}2")
    assert receipt is not None
    assert (receipt.tally.committed, receipt.tally.replaced) == (1, 1)


def published_at_once(world: World, warehouse: Path, *batches: str, gate: Path) -> list[int]:
    """A driver for each batch stages, and when all have, they publish. Their exit codes, sorted."""
    drivers = [start_driver(world, warehouse, each, 1, gate=gate) for each in batches]

    def waiting() -> int:
        return len(list(gate.glob("waiting-*")))

    eventually(waiting, lambda count: count == len(batches), waiting_for="the drivers to be about to publish")
    (gate / "open").touch()
    return sorted(driver.wait(HANGING) for driver in drivers)


def test_two_processes_with_two_versions_leave_the_latest(
    world: World, warehouse: Path, batch: str, tmp_path: Path
) -> None:
    """Both have staged before either publishes."""
    landed(world, f"{batch}0", put(world, 10, key="in/b.json"))
    for number in (1, 2):
        sealed(world, f"{batch}{number}", put(world, number))
    assert published_at_once(world, warehouse, f"{batch}1", f"{batch}2", gate=tmp_path) == [0, 1], "one looks again"
    assert len(world.ids()) == 2
    for number in (1, 2):
        assert run(world.attempt(f"{batch}{number}", 2), "ingest") == 0
    assert world.ids() == [2, 10]


@pytest.mark.parametrize("key", ["in/o'brien\\b.json", "in/${a}\n\u00e9.json"])
def test_any_key_is_replaced(world: World, batch: str, key: str) -> None:
    assert world.spark is not None
    landed(world, f"{batch}1", put(world, 1, key=key), put(world, 10, key="in/b.json"))
    world.spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        landed(world, f"{batch}2", put(world, 2, key=key))
    finally:
        world.spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert world.ids() == [2, 10]
    assert [(each.plain.adds, each.plain.removes) for each in world.main()[:2]] == [(True, True), (True, False)]


@pytest.mark.parametrize("format_version", [2, 3])
def test_a_file_loses_rows_more_than_once(world: World, batch: str, format_version: int) -> None:
    world.attempt(batch, 1).sink.prepare()
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '{format_version}')")
    landed(world, f"{batch}1", *(put(world, number, key=f"in/{number}.json") for number in range(4)))
    for number in range(3):
        landed(world, f"{batch}{2 + number}", put(world, 100 + number, key=f"in/{number}.json"))
    assert world.ids() == [3, 100, 101, 102]


def test_a_table_of_format_1_is_refused(world: World, batch: str) -> None:
    columns = with_lineage(world.dataset.schema)
    properties = "'format-version' = '1', 'write.delete.mode' = 'merge-on-read'"
    world.sql("CREATE NAMESPACE IF NOT EXISTS lake.tests")
    world.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg TBLPROPERTIES ({properties})")
    with pytest.raises(Hopeless, match="'format-version' = '2'"):
        world.attempt(batch, 1).sink.let_rows_go()


def test_what_expired_before_it_was_published_is_staged_anew(world: World, batch: str) -> None:
    """Expiry keeps the head of a branch, and not the rows under it."""
    landed(world, f"{batch}1", put(world, 1))
    attempt, snapshot, floor = staged(world, f"{batch}2", put(world, 2))
    world.expire()
    with pytest.raises(StagedIsGone, match="is gone"):
        attempt.publish(snapshot, floor)
    assert world.ids() == [1]


@pytest.mark.parametrize("format_version", [2, 3])
@pytest.mark.parametrize("between", ["another one is replaced", "a compaction"])
def test_what_came_between_and_was_rolled_back_changes_nothing(
    world: World, batch: str, format_version: int, between: str
) -> None:
    """It came after the driver had looked at the table, and before it staged."""
    world.attempt(batch, 1).sink.prepare()
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '{format_version}')")
    landed(world, f"{batch}1", put(world, 1), put(world, 10, key="in/b.json"))
    landed(world, f"{batch}2", put(world, 100, key="in/c.json"))
    seen = world.main()[0].id
    corrected = put(world, 2)
    sealed(world, f"{batch}3", corrected)
    attempt = world.attempt(f"{batch}3", 1)
    floor, stage = attempt.floor(), attempt.sink.stage

    def meanwhile(*asked: Any, **named: Any) -> Any:
        if between == "a compaction":
            world.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")
        else:
            landed(world, f"{batch}4", put(world, 11, key="in/b.json"))
        return stage(*asked, **named)

    attempt.sink.stage = meanwhile  # type: ignore[method-assign]
    snapshot = attempt.stage()
    world.sql(f"CALL lake.system.rollback_to_snapshot('{{t}}', {seen})")
    assert isinstance(attempt.publish(snapshot, floor), Published)
    assert world.ids() == [2, 10, 100]


def test_rows_of_the_same_version_that_somebody_brings_back_are_seen(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1, 2))
    whole = world.main()[0].id
    world.sql("DELETE FROM {t} WHERE id = 2")
    attempt, snapshot, floor = staged(world, f"{batch}2", put(world, 3))
    world.sql(f"INSERT INTO {{t}} SELECT * FROM {{t}} VERSION AS OF {whole} WHERE id = 2")
    with pytest.raises(StagedIsGone, match="same objects"):
        attempt.publish(snapshot, floor)


def test_a_lineage_column_that_was_dropped_and_added_stops_what_needs_it(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the rows are is known from before; Spark's DELETE looks for them by the column of today."""
    landed(world, f"{batch}1", put(world, 1))
    world.sql("ALTER TABLE {t} DROP COLUMN _source_version")
    world.sql("ALTER TABLE {t} ADD COLUMN _source_version string")
    sealed(world, f"{batch}2", put(world, 2))
    with monkeypatch.context() as by_spark:
        by_spark.setattr("tidegate.sinks.iceberg.position_deletes.MOST_FILES", 0)
        assert run(world.attempt(f"{batch}2", 1), "ingest") == 1
    failure = world.failure(f"{batch}2", 1)
    assert failure.hopeless
    assert world.ids() == [1]
    assert run(world.attempt(f"{batch}2", 2), "ingest") == 0
    assert world.ids() == [2]


def test_rows_without_a_version_are_replaced(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1, 2))
    world.sql("ALTER TABLE {t} ALTER COLUMN _source_version DROP NOT NULL")
    world.sql("UPDATE {t} SET _source_version = NULL WHERE id = 2")
    landed(world, f"{batch}2", put(world, 3))
    assert world.ids() == [3]


def test_another_writer_that_appends_all_the_time_stops_no_correction(world: World, batch: str) -> None:
    """Its rows are of other objects, which the bounds of its files say: no look at rows has to be faster than it."""
    landed(world, f"{batch}1", put(world, 1))
    attempt, staged_at, floor = staged(world, f"{batch}2", put(world, 2))
    asked: list[Any] = []
    whole = IcebergTable.rows_of_objects
    follow = Replacement.follow

    def append() -> None:
        names = "_source_uri, _source_version, _source_row, _batch_id, _ingested_at"
        world.sql(f"INSERT INTO {{t}} (id, {names}) VALUES (9, 's3://x/y', 'v', 0, 'theirs', now())")

    def followed(self: Replacement) -> Any:
        seen = follow(self)
        if len(asked) < 5:
            asked.append("follow")
            append()
        return seen

    append()
    with (
        patch.object(Replacement, "follow", followed),
        patch.object(IcebergTable, "rows_of_objects", lambda *given: asked.append("rows") or whole(*given)),
    ):
        attempt.publish(staged_at, floor)
    assert asked == ["follow"] * 5, "rows were looked for once more"
    assert world.ids() == [2, *[9] * 6]


def test_an_append_to_the_same_object_is_seen_by_its_file(world: World, batch: str) -> None:
    landed(world, f"{batch}1", put(world, 1))
    attempt, staged_at, floor = staged(world, f"{batch}2", put(world, 2))
    names = "_source_uri, _source_version, _source_row, _batch_id, _ingested_at"
    world.sql(f"INSERT INTO {{t}} (id, {names}) VALUES (9, 's3://{VERSIONED}/{KEY}', 'v', 0, 'theirs', now())")
    with pytest.raises(StagedIsGone, match="has got rows of the same objects"):
        attempt.publish(staged_at, floor)


def test_many_versions_leave_by_a_join(world: World, batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.sinks.iceberg.removal.MOST_NAMED", 0)
    landed(world, f"{batch}1", put(world, 1, 2))
    world.sql("ALTER TABLE {t} ALTER COLUMN _source_version DROP NOT NULL")
    world.sql("UPDATE {t} SET _source_version = NULL WHERE id = 2")
    landed(world, f"{batch}2", put(world, 3))
    assert world.ids() == [3]

"""Rows leave by position deletes that the driver writes, on a real Spark and a real Iceberg; by Spark's DELETE where it
does not know their positions as a few ranges."""

from dataclasses import replace
from operator import attrgetter
from typing import Any

import pytest

from tests.spark.test_maintain import AT_ONCE, maintain
from tests.spark.test_replace import VERSIONED, landed, put, sealed, staged
from tests.spark.test_replace import world as world_that_replaces
from tests.spark.world import World
from tidegate.flows.publish import run
from tidegate.flows.sink import StagedIsGone
from tidegate.sinks.iceberg import position_deletes, removal, upkeep
from tidegate.sinks.iceberg.table import IcebergTable

pytestmark = pytest.mark.spark
replacing = world_that_replaces


@pytest.fixture
def deletes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What was left to Spark's DELETE."""
    asked: list[Any] = []
    whole = removal.delete_rows

    def noted(spark: Any, branch: str, gone: Any, properties: Any) -> None:
        asked.append(sorted(gone))
        whole(spark, branch, gone, properties)

    monkeypatch.setattr(removal, "delete_rows", noted)
    return asked


@pytest.fixture
def world(replacing: World) -> World:
    return replacing


def delete_files(world: World) -> list[Any]:
    return world.sql("SELECT * FROM {t}.delete_files")  # type: ignore[no-any-return]


def test_a_correction_costs_no_delete_of_spark(world: World, batch: str, deletes: list[Any]) -> None:
    landed(world, f"{batch}1", put(world, 1, 2), put(world, 10, 11, key="in/b.json"))
    landed(world, f"{batch}2", put(world, 3, 4))
    landed(world, f"{batch}3", put(world, 12, key="in/b.json"), put(world, 5))
    assert world.ids() == [5, 12]
    assert deletes == []
    assert [each.record_count for each in world.sql("SELECT record_count FROM {t}.delete_files")]
    # rows of its own that lose within a batch have no positions yet
    landed(world, f"{batch}4", put(world, 6), put(world, 7))
    assert world.ids() == [7, 12]
    assert len(deletes) == 1


def test_each_partition_has_its_own(world: World, batch: str, deletes: list[Any]) -> None:
    """The spec says that a delete counts for files of its partition only."""
    world.dataset = replace(
        world.dataset, schema="id bigint, text string, day date", partition_by=("days(day)",), format="json"
    )

    def put_days(*days: int, key: str = "in/a.json") -> Any:
        body = b"".join(b'{"id": %d, "day": "2026-01-%02d"}\n' % (day, day) for day in days)
        version = world.s3.put_object(Bucket="replacing-with-versions", Key=key, Body=body)["VersionId"]
        return replace(put(world, 0, key="in/other.json"), key=key, version=version, size=len(body))

    landed(world, f"{batch}1", put_days(1, 2, 3), put_days(2, 3, key="in/b.json"))
    landed(world, f"{batch}2", put_days(3, 4))
    assert world.ids() == [2, 3, 3, 4]
    assert deletes == []
    assert len({str(each.partition) for each in delete_files(world)}) == 3
    world.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)")
    landed(world, f"{batch}3", put_days(5))
    assert world.ids() == [2, 3, 5], "of files of two specs; the job leaves the new one to Spark"


def both_looks(world: World, monkeypatch: pytest.MonkeyPatch, *keys: str) -> Any:
    """What the driver finds of these keys by itself, which has to be what Spark finds."""
    assert world.spark is not None
    table, uris = IcebergTable(world.spark, world.dataset.table), [f"s3://{VERSIONED}/{key}" for key in keys]
    head = table.position().head
    assert head is not None
    with monkeypatch.context() as low:
        low.setattr("tidegate.sinks.iceberg.table.ranges_of", None)  # Spark is not asked
        held = sorted(table.rows_of_objects(uris, head))
        mine = table._located
    with monkeypatch.context() as low:
        low.setattr("tidegate.sinks.iceberg.few_files.FEW_FILES", 0)
        assert sorted(table.rows_of_objects(uris, head)) == held
    by_file = attrgetter("file", "first")
    assert {place: sorted(some, key=by_file) for place, some in mine.of.items()} == {
        place: sorted(some, key=by_file) for place, some in table._located.of.items()
    }
    return held


def test_the_driver_finds_the_rows_that_spark_finds(world: World, batch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = "in/a.json", "in/b.json", "in/it's c.json"
    landed(world, f"{batch}1", put(world, 1, 2, key=a), put(world, 3, key=b), put(world, 4, 5, key=c))
    assert sum(each.rows for each in both_looks(world, monkeypatch, a, b, c)) == 5
    landed(world, f"{batch}2", put(world, 6, 7, 8, key=a))
    landed(world, f"{batch}3", put(world, 9, key=a), put(world, 10, key=b))
    assert [each.rows for each in both_looks(world, monkeypatch, a, "in/none.json", c)] == [1, 2]
    # by somebody else: within a file, a version that is null, a name that is another one by now
    world.sql("DELETE FROM {t} WHERE id = 4")
    world.sql("UPDATE {t} SET _source_version = '' WHERE id = 10")
    assert [each.version for each in both_looks(world, monkeypatch, b)] == [""]
    world.sql("ALTER TABLE {t} RENAME COLUMN _source_version TO was")
    world.sql("ALTER TABLE {t} ADD COLUMN _source_version string")
    assert both_looks(world, monkeypatch, a, b, c)
    assert both_looks(world, monkeypatch, "in/none.json") == []


@pytest.mark.parametrize(
    "made",
    [
        "'format-version' = '3'",
        "'write.format.default' = 'orc'",
        "'write.delete.mode' = 'merge-on-read', 'write.delete.format.default' = 'avro'",
    ],
)
def test_what_the_driver_cannot_read_is_left_to_spark(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    landed(world, f"{batch}1", put(world, 1, 2), put(world, 3, key="in/b.json"))
    world.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ({made})")
    landed(world, f"{batch}2", put(world, 4, 5))
    world.sql("DELETE FROM {t} WHERE id = 4")
    asked: list[Any] = []
    whole = position_deletes.ranges_of
    noted = lambda *given, **how: asked.append(given) or whole(*given, **how)  # noqa: E731
    monkeypatch.setattr("tidegate.sinks.iceberg.table.ranges_of", noted)
    landed(world, f"{batch}3", put(world, 6))
    assert world.ids() == [3, 6]
    assert asked


def test_rows_that_a_compaction_sorted_apart_leave_by_spark(world: World, batch: str, deletes: list[Any]) -> None:
    landed(world, f"{batch}1", put(world, 1, 9), put(world, 5, key="in/b.json"))
    options = "strategy => 'sort', sort_order => 'id', options => map('rewrite-all', 'true')"
    world.sql(f"CALL lake.system.rewrite_data_files(table => '{{t}}', {options})")
    landed(world, f"{batch}2", put(world, 2))
    assert world.ids() == [2, 5]
    assert len(deletes) == 1
    world.sql("CALL lake.system.rewrite_position_delete_files(table => '{t}', options => map('rewrite-all', 'true'))")
    assert world.ids() == [2, 5]


def test_maintenance_merges_them_and_rewrites_files_that_lost_much(
    world: World, batch: str, deletes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty versions take rows and bring no data file: so nothing else is there to compact."""
    monkeypatch.setattr(upkeep, "MANY_DELETES", 5)
    landed(world, f"{batch}0", *(put(world, number, key=f"in/{number}.json") for number in range(30)))
    for number in range(5):
        landed(world, f"{batch}{1 + number}", put(world, key=f"in/{number}.json"))
    assert len(delete_files(world)) == 5
    attempt, snapshot, floor = staged(world, f"{batch}6", put(world, key="in/5.json"))
    with monkeypatch.context() as refuses:
        refuses.setattr(upkeep.Upkeep, "merge_deletes", lambda _: 1 // 0)
        done = maintain(world, limits=replace(AT_ONCE, keep_last=100))
    assert (done.trouble, done.behind, done.orphans) == ("", False, 0)
    assert done.remarks == ("files of deletes were not merged: ZeroDivisionError: integer division or modulo by zero",)
    done = maintain(world)
    assert (done.trouble, done.deletes, done.compacted) == ("", 5, 0)
    assert len(delete_files(world)) < 5
    assert world.ids() == [*range(5, 30)]
    with pytest.raises(StagedIsGone, match=r"rewritten|is gone"):
        attempt.publish(snapshot, floor)
    assert run(world.attempt(f"{batch}6", 2), "ingest") == 0
    for number in range(6, 15):
        landed(world, f"{batch}7{number}", put(world, key=f"in/{number}.json"))
    assert maintain(world).compacted, "half of its rows were marked"
    assert world.ids() == [*range(15, 30)]
    assert deletes == []


@pytest.mark.parametrize(("replaces", "by_spark"), [(True, False), (True, True), (False, True)])
def test_a_column_that_is_called_as_a_position_is_none(
    world: World, batch: str, deletes: list[Any], replaces: bool, by_spark: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark ignores the case of names. It refuses to delete rows of such a table itself."""
    if by_spark:
        monkeypatch.setattr("tidegate.sinks.iceberg.few_files.FEW_FILES", 0)
    world.dataset = replace(world.dataset, schema="id bigint, _POS bigint", replaces=replaces)
    for name, number in (("a", 1), ("b", 2)):
        body = b'{"id": %d, "_POS": %d}\n' % (number, 2 - number)
        version = world.s3.put_object(Bucket="replacing-with-versions", Key=f"in/{name}.json", Body=body)["VersionId"]
        first = replace(put(world, 0, key="in/other.json"), key=f"in/{name}.json", version=version, size=len(body))
        landed(world, f"{batch}{number}", first)
    world.sql("CALL lake.system.rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")
    sealed(world, f"{batch}3", put(world, 3))
    code = run(world.attempt(f"{batch}3", 1), "ingest")
    expected = (1, 1, [1, 2]) if by_spark else (0, 0, [2, 3])
    assert (code, len(deletes), world.ids()) == (expected if replaces else (0, 0, [1, 2, 3]))


@pytest.mark.parametrize("bound", ["MOST_FILES", "MOST_ROWS"])
def test_very_many_leave_by_spark(
    world: World, batch: str, deletes: list[Any], bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(position_deletes, bound, 0)
    landed(world, f"{batch}1", put(world, 1))
    landed(world, f"{batch}2", put(world, 2))
    assert (world.ids(), len(deletes)) == ([2], 1)


def test_a_file_that_cannot_be_put_leaves_nothing_behind(
    world: World, batch: str, monkeypatch: pytest.MonkeyPatch, warehouse: Any
) -> None:
    landed(world, f"{batch}1", put(world, 1))

    def fails(*_: Any) -> None:
        raise OSError("full")

    corrected = put(world, 2)
    with monkeypatch.context() as broken:
        broken.setattr(position_deletes.PositionDeletes, "_found", fails)
        with pytest.raises(AssertionError):
            landed(world, f"{batch}2", corrected)
    folder = warehouse / "tests" / world.dataset.table.rpartition(".")[2]
    assert not list(folder.rglob("tidegate_*-deletes.parquet"))
    assert world.ids() == [1]

"""How many calls of the JVM the questions about a table's history cost, whatever the table holds."""

import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.world import World
from tests.support.grown import FIRST_SNAPSHOT, batch_of, grown
from tidegate.core.publication import Floor, Published, Unprovable, down_to
from tidegate.flows.publish import run
from tidegate.sinks.iceberg import ancestry
from tidegate.sinks.iceberg.ancestry import FIRST_PAGE, PAGE
from tidegate.sinks.iceberg.table import IcebergTable

pytestmark = pytest.mark.spark

A_PAGE = 5
"""Calls for a page: a spliterator, its stream, the limit, the mapping, the text."""
A_READING = 17
"""Calls beside the pages, at most: the table from the catalog, its metadata and uuid, the head, its ancestors."""


class Calls:
    """Counts commands to the JVM. What Python's collector sends when it drops an object is not counted: it comes at any
    time, and nobody waits for it."""

    def __init__(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        client: Any = spark.sparkContext._gateway._gateway_client
        send = client.send_command

        def counted(command: str, *arguments: Any, **options: Any) -> Any:
            self.count += not command.startswith("m\n")
            return send(command, *arguments, **options)

        monkeypatch.setattr(client, "send_command", counted)

    @contextmanager
    def at_most(self, number: int) -> Iterator[None]:
        before = self.count
        yield
        assert self.count - before <= number


@pytest.fixture
def table(spark: SparkSession, world: World, batch: str) -> IcebergTable:
    world.seal(batch, world.put({"in/a.json": b'{"id": 1}'}))
    assert run(world.attempt(batch, 1), "ingest") == 0
    return IcebergTable(spark, world.dataset.table)


def with_snapshots(table: IcebergTable, number: int) -> IcebergTable:
    """The same table under another name, with so many snapshots."""
    operations = table._load().operations()
    file = Path(urllib.parse.urlparse(operations.current().metadataFileLocation()).path)
    _, _, name = table.name.partition(".")
    other = f"{name}_{number}"
    table._spark.sql(
        f"CALL lake.system.register_table(table => '{other}', metadata_file => '{grown(file, number).as_uri()}')"
    )
    return IcebergTable(table._spark, f"lake.{other}")


def pages(snapshots: int) -> int:
    """How many pages have so many snapshots. A last page that is full is followed by an empty one."""
    return 1 if snapshots < FIRST_PAGE else 2 + (snapshots - FIRST_PAGE) // PAGE


@pytest.mark.parametrize("number", [1, FIRST_PAGE - 1, FIRST_PAGE, FIRST_PAGE + PAGE, 3_000])
def test_all_ancestors_come_in_order_and_by_the_page(
    table: IcebergTable, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = with_snapshots(table, number)
    many.main()  # looks the classes up
    with Calls(many._spark, monkeypatch).at_most(A_READING + A_PAGE * pages(number)):
        found = many.whole_history().ancestors
    assert [each.id for each in found] == [FIRST_SNAPSHOT + n for n in reversed(range(number))]
    assert [each.parent for each in found] == [*(each.id for each in found[1:]), None]
    assert [each.publishes for each in found[:2]] == [{batch_of(n)} for n in (number - 1, number - 2)][:number]


@pytest.mark.parametrize("number", [100, 5_000])
@pytest.mark.parametrize("depth", [0, 3, 50])
def test_a_history_costs_what_lies_above_the_floor(
    table: IcebergTable, number: int, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = with_snapshots(table, number)
    head = many.position().head
    assert head is not None
    floor = Floor(many.position().table_uuid, head - depth)
    with Calls(many._spark, monkeypatch).at_most(A_READING + A_PAGE * pages(depth)):
        found = many.history(floor).ancestors
    assert [each.id for each in found] == [head - n for n in range(depth + 1)]


@pytest.mark.parametrize("number", [200, 5_000])
def test_the_condition_of_a_commit_costs_what_lies_above_the_floor(
    table: IcebergTable, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a commit is the same for both, so a bound that the 150 snapshots one by one would break is enough."""
    many = with_snapshots(table, number)
    position = many.position()
    assert position.head is not None
    floor = Floor(position.table_uuid, position.head - 150)
    staged = many.stage_nothing("tidegate_test", {})
    many.publish(staged, "warm", floor, {})
    with Calls(many._spark, monkeypatch).at_most(125):
        found = many.publish(staged, "B", floor, {})
    assert isinstance(found, Published)


def test_a_condition_whose_floor_is_gone_reads_all_and_refuses(table: IcebergTable) -> None:
    many = with_snapshots(table, 2_500)
    floor = Floor(many.position().table_uuid, 1)
    staged = many.stage_nothing("tidegate_test", {})
    assert isinstance(many.publish(staged, "B", floor, {}), Unprovable)


def test_a_page_takes_no_more_from_the_iterator_than_it_has(table: IcebergTable) -> None:
    """Two readings of one iterator: the second goes on where the page of the first ended."""
    many = with_snapshots(table, 100)
    metadata = many._load().operations().current()
    reading = ancestry.ancestry(many._jvm)
    lookup = reading._as_function(reading._function, reading._lookup.bindTo(metadata))
    snapshots = reading._ancestors_of(metadata.currentSnapshot().snapshotId(), lookup).iterator()
    first = down_to(Floor("", FIRST_SNAPSHOT + 99), (each.plain for each in reading.read(snapshots)))
    assert [each.id for each in first] == [FIRST_SNAPSHOT + 99]
    assert next(reading.read(snapshots)).id == FIRST_SNAPSHOT + 99 - FIRST_PAGE

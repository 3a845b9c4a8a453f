"""Reconciling finds a batch whose rows a real table has lost, because somebody rolled it back."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from tests.spark.world import World
from tests.support.fakes import MemoryLineage
from tests.support.world import small_world
from tidegate.core.batches import State
from tidegate.core.lineage import Landed, decode_history, encode_history
from tidegate.core.outcomes import Tally
from tidegate.core.reconcile import Holding, TableDifference
from tidegate.core.records import batch_key
from tidegate.flows.publish import run
from tidegate.flows.reconcile import Reconciled, reconcile
from tidegate.sinks.iceberg.table import IcebergTable
from tidegate.spark import lineage
from tidegate.wiring import made_at, new_id

pytestmark = pytest.mark.spark


def landed(spark: SparkSession, table: str) -> list[Landed]:
    head = IcebergTable(spark, table).position().head
    assert head is not None
    return [Landed(*row) for row in lineage.grouped(spark, table, head, "").collect()]


def compared(spark: SparkSession, world: World, batches: dict[str, int], abandoned: tuple[str, ...] = ()) -> Reconciled:
    """With a ledger that has committed one upload with so many rows for each batch."""
    small = small_world()
    flights = replace(small.flights, dataset=world.dataset)
    for batch, rows in batches.items():
        small.store.items[batch_key(batch)] = {
            **{"pk": batch_key(batch).pk, "sk": batch_key(batch).sk, "route": "flights", "opened_at": 1},
            **{"state": State.COMMITTED.value, "tally": Tally(committed=1, rows=rows).as_dict()},
            **{"table": world.dataset.table, "objects": 1},
        }
        small.work.put(f"batches/{batch}/sealed.json", b"{}")
    for batch in abandoned:
        small.store.items[batch_key(batch)] = {
            **{"pk": batch_key(batch).pk, "sk": batch_key(batch).sk, "route": "flights", "opened_at": 1},
            **{"state": State.ABANDONED.value, "table": world.dataset.table, "objects": 1, "attempt": 2},
        }
        small.work.put(f"batches/{batch}/sealed.json", b"{}")
        floor = world.work.get(f"batches/{batch}/floor.json")
        assert floor
        small.work.put(f"batches/{batch}/floor.json", floor)
    history = decode_history(encode_history(IcebergTable(spark, world.dataset.table).whole_history()))
    name = world.dataset.table
    held = MemoryLineage({name: landed(spark, name)}, histories={name: history})
    ports = replace(small.ports, lineage=held)
    return reconcile(ports, configured={"flights": flights}, oldest="", made_at=made_at)


def test_a_table_that_was_rolled_back_lacks_the_later_batch(spark: SparkSession, world: World):
    first, second = new_id(), new_id()
    for number, batch in enumerate((first, second)):
        world.seal(batch, world.put({f"in/{number}": b'{"id": 1}\n{"id": 2}\n'}))
        assert run(world.attempt(batch, 1), "ingest") == 0
        if batch == first:
            earlier = IcebergTable(spark, world.dataset.table).position().head
    both = {first: 2, second: 2}
    assert compared(spark, world, both).holds
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{world.dataset.table}', {earlier})")
    (found,) = compared(spark, world, both).findings
    assert (found.difference, found.batch, found.ledger) == (TableDifference.MISSING, second, Holding(1, 2))
    # and some rows of the other one are deleted
    spark.sql(f"DELETE FROM {world.dataset.table} WHERE id = 1")
    kinds = {each.batch: each.difference for each in compared(spark, world, both).findings}
    assert kinds == {first: TableDifference.FEWER, second: TableDifference.MISSING}


def test_a_table_that_was_rolled_back_past_a_fence_lets_a_zombie_publish_and_reconciling_says_so(
    spark: SparkSession, world: World
):
    kept, batch = new_id(), new_id()
    world.seal(kept, world.put({"in/0": b'{"id": 0}\n'}))
    assert run(world.attempt(kept, 1), "ingest") == 0
    world.seal(batch, world.put({"in/1": b'{"id": 1}\n'}))
    zombie = world.attempt(batch, 1)
    zombie.sink.prepare()
    floor = zombie.floor()
    staged = zombie.stage()
    before = IcebergTable(spark, world.dataset.table).position().head
    assert run(world.attempt(batch, 2), "fence") == 0
    assert compared(spark, world, {kept: 1}, (batch,)).holds
    spark.sql(f"CALL lake.system.rollback_to_snapshot('{world.dataset.table}', {before})")
    (found,) = compared(spark, world, {kept: 1}, (batch,)).findings
    assert (found.difference, found.batch) == (TableDifference.NOT_FENCED, batch)
    assert f"flights-{batch}-1 to flights-{batch}-2" in found.advice
    # it is right: the driver of the first attempt wakes, and publishes what was given up
    assert zombie.publish(staged, floor).staged == staged
    (found,) = compared(spark, world, {kept: 1}, (batch,)).findings
    assert (found.difference, found.batch) == (TableDifference.NOT_COMMITTED, batch)


def test_an_expired_fence_is_not_missed(spark: SparkSession, world: World):
    kept, batch = new_id(), new_id()
    world.seal(batch, world.put({"in/1": b'{"id": 1}\n'}))
    assert run(world.attempt(batch, 1), "fence") == 0
    world.seal(kept, world.put({"in/0": b'{"id": 0}\n'}))
    assert run(world.attempt(kept, 1), "ingest") == 0
    world.expire()
    assert compared(spark, world, {kept: 1}, (batch,)).holds

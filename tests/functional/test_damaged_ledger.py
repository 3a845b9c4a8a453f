"""A backup was put in the ledger's place, against the runbook: what it forgot must not be called committed."""

from dataclasses import replace

import pytest

from tests.functional.conftest import World
from tests.support.build import BUCKET, notice
from tests.support.fakes import play_fencing, play_publishing
from tests.support.history import Items, put_items
from tidegate.core.batches import State
from tidegate.core.errors import OutcomeUnknown, Rejected
from tidegate.core.manifests import batch_folder, decode_sealed
from tidegate.core.receipts import decode_receipt
from tidegate.flows.rebuild import rebuild
from tidegate.flows.status import status
from tidegate.flows.trace import trace


def items(world: World) -> Items:
    return dict(world.store.items)


def published_in_a_lost_future(world: World) -> str:
    """A batch that the ledger knows as open, with one upload; in truth it is published with two."""
    world.dispatch(notice("flights/1.json"))
    point_in_time = items(world)
    batch = world.open.id
    world.dispatch(notice("flights/2.json"))
    assert world.ledger.seal(batch, "flights", world.flights.dataset.table)
    assert world.hand_off() == 1
    play_publishing(world.work, batch)
    world.jobs.end(batch, 1)
    assert world.settle() == []
    assert world.batch(batch).state is State.COMMITTED
    put_items(world, point_in_time)
    assert world.open.id == batch
    return batch


def test_an_upload_that_is_in_no_manifest_is_never_called_committed(world: World):
    batch = published_in_a_lost_future(world)
    world.dispatch(notice("flights/3.json"))
    assert world.ledger.seal(batch, "flights", world.flights.dataset.table)
    for _ in range(3):
        (trouble,) = world.settle()
        assert isinstance(trouble, OutcomeUnknown)
        assert "The ledger is damaged" in str(trouble)
    found = world.batch(batch)
    assert (found.state, found.halted) == (State.SEALED, str(trouble))
    (told,) = trace(BUCKET, "flights/3.json", world.ports)
    assert told.outcome == "pending"
    (shown,) = status([world.flights], world.ports)
    assert [each.id for each in shown.halted] == [batch]


def test_a_receipt_of_another_manifest_settles_nothing(world: World):
    """The manifest was restored along with the ledger, and the receipt was not."""
    batch = world.submitted()
    play_publishing(world.work, batch.id)
    name = batch_folder(batch.id) + "receipt.json"
    body = world.work.get(name)
    assert body is not None
    receipt = decode_receipt(body)
    assert receipt.manifest == world.batch(batch.id).manifest != ""
    world.work.put(name, body.replace(receipt.manifest.encode(), b"0" * 32))
    (trouble,) = world.settle()
    assert "what was published is not what this ledger has registered" in str(trouble)
    assert world.batch(batch.id).state is State.SUBMITTED
    assert world.batch(batch.id).halted == str(trouble)
    # and it goes on by itself once the cause is gone
    world.work.put(name, body)
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED


def test_a_fence_of_a_lost_future_abandons_what_the_ledger_has(world: World):
    """Nothing of the batch is in the table, and nothing can be: that is true for whatever is registered now."""
    world.dispatch(notice("flights/1.json"))
    point_in_time = items(world)
    batch = world.open.id
    assert world.ledger.seal(batch, "flights", world.flights.dataset.table)
    assert world.hand_off() == 1
    play_fencing(world.work, batch)
    put_items(world, point_in_time)
    assert world.ledger.seal(batch, "flights", world.flights.dataset.table)
    assert world.hand_off() == 1
    assert world.settle() == []
    assert world.batch(batch).state is State.ABANDONED


def test_a_manifest_that_was_edited_is_refused():
    from tidegate.core.manifests import Sealed

    body = Sealed("B1", "flights", ("parts/a.jsonl.gz",), 2, 20).encode()
    assert decode_sealed(body).objects == 2
    with pytest.raises(Rejected, match="was changed after it was written"):
        decode_sealed(body.replace(b'"objects": 2', b'"objects": 3'))


def test_a_batch_that_is_sealed_anew_for_another_table_is_not_handed_off(world: World):
    """The ledger was restored to when the batch gathered, and the route has been pointed at another table since: in the
    first one the batch may be published by now."""
    world.dispatch(notice("flights/1.json"))
    point_in_time = items(world)
    batch = world.open.id
    first = world.flights.dataset
    assert world.ledger.seal(batch, "flights", first.table)
    assert world.hand_off() == 1
    put_items(world, point_in_time)
    started = len(world.jobs.started)
    world.flights = replace(world.flights, dataset=replace(first, table="lake.raw.other"))
    world.clock.advance(400)
    for _ in range(2):
        (trouble,) = world.settle()
        assert isinstance(trouble, OutcomeUnknown)
        assert f"was sealed for table {first.table}" in str(trouble)
        assert "The ledger is damaged" in str(trouble)
    assert (world.batch(batch).state, world.batch(batch).halted) == (State.SEALED, str(trouble))
    assert len(world.jobs.started) == started
    # built anew, it is handed off for the table that its manifest names
    world.store.items.clear()
    done = rebuild(world.ports, configured=world.routes, oldest="", made_at=lambda batch: world.clock.now)
    assert (done.whole, done.waiting) == (True, 1)
    assert world.batch(batch).table == first.table
    assert world.settle() == []
    assert world.jobs.told[-1][0].table == first.table

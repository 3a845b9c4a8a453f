"""Sealing, and the manifest that can only be the same whoever writes it."""

from dataclasses import replace

import pytest

from tests.support.build import notice, part_of, upload
from tests.support.fakes import Died, Life, every_death
from tests.support.world import World, small_world
from tidegate.core.batches import Batch, State
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.manifests import batch_folder, decode_sealed
from tidegate.flows.seal import ensure_manifest
from tidegate.metrics import Metric
from tidegate.schedule import SCHEDULE


def manifest_of(world: World, batch_id: str) -> bytes | None:
    return world.work.get(batch_folder(batch_id) + "sealed.json")


def ensure(world: World, batch: Batch):
    return ensure_manifest(batch, world.ports)


# ---- when


def test_a_batch_is_sealed_so_early_that_no_upload_waits_longer_than_max_wait(world: World):
    world.arrive()
    batch_id = world.open.id
    world.clock.advance(299 - SCHEDULE)
    assert not world.seal_if_due()
    world.clock.advance(1)
    assert world.seal_if_due()
    assert world.batch(batch_id).state is State.SEALED
    assert world.count.of(Metric.BATCHES_SEALED, "flights") == 1


def test_whoever_looks_in_between_leaves_the_batch_to_the_schedule_until_max_wait(world: World):
    world.arrive()
    world.clock.advance(299)
    assert not world.seal_if_due(next_look=0)
    world.clock.advance(1)
    assert world.seal_if_due(next_look=0)


def test_a_route_that_never_saw_an_upload_has_nothing_to_seal(world: World):
    assert not world.seal_if_due()


def test_an_open_batch_that_nobody_joined_is_not_sealed_however_old(world: World):
    world.ledger.open_batch("flights", world.new_id)
    world.clock.advance(10_000)
    assert not world.seal_if_due()


@pytest.mark.parametrize("limits", [{"target_objects": 3}, {"target_bytes": 30}])
def test_a_full_batch_is_sealed_at_once(limits: dict[str, int]):
    world = small_world(**limits)
    world.arrive(3)
    assert world.seal_if_due()


def test_while_a_job_runs_the_open_batch_gathers_until_it_is_full():
    world = small_world(max_wait=300, target_objects=10)
    world.submitted()
    world.arrive(3, prefix="flights/later")
    world.clock.advance(10_000)
    assert not world.seal_if_due()
    world.arrive(7, prefix="flights/more")
    assert world.seal_if_due()


def test_a_sealed_batch_that_waits_for_the_slot_is_ahead_of_the_open_one(world: World):
    world.sealed()
    world.arrive(3, prefix="flights/later")
    world.clock.advance(10_000)
    assert not world.seal_if_due()


def test_sealing_is_counted_by_who_did_it(world: World):
    world.arrive()
    world.clock.advance(301)
    assert world.seal_if_due()
    assert not world.seal_if_due()
    assert world.count[Metric.BATCHES_SEALED] == 1


# ---- the manifest


def test_the_manifest_lists_every_part_and_its_sums(world: World):
    sent = world.arrive(3, notices=4)
    batch = world.open
    world.ledger.seal(batch.id, "flights")
    sealed = ensure(world, world.batch(batch.id))
    assert sealed.parts == tuple(sorted(part_of(of).name for of in sent))
    assert (sealed.batch, sealed.route, sealed.objects, sealed.size) == (batch.id, "flights", 12, 120)
    body = manifest_of(world, batch.id)
    assert body is not None
    assert decode_sealed(body) == sealed


def test_parts_of_dead_tries_are_ignored(world: World):
    sent = world.arrive(2, notices=2)
    batch_id = world.open.id
    folder = batch_folder(batch_id)
    # a try that died before it registered
    dead = notice("flights/dead.json")
    world.work.put(folder + part_of(dead).name, part_of(dead).body)
    # a twin that claimed less, wrote its part, and lost
    smaller = part_of(sent[0], [sent[0].entries[0].upload])
    world.work.put(folder + smaller.name, smaller.body)
    # a notice that an audit voided after its part was written
    void = notice("flights/void.json")
    world.work.put(folder + part_of(void).name, part_of(void).body)
    world.ledger.void(void.id, "flights")
    world.ledger.seal(batch_id, "flights")
    # a notice that met this batch sealed, and registered in the next one
    late = notice("flights/late.json")
    world.work.put(folder + part_of(late).name, part_of(late).body)
    world.dispatch(late)
    sealed = ensure(world, world.batch(batch_id))
    assert sealed.parts == tuple(sorted(part_of(of).name for of in sent))
    assert sealed.objects == 4
    assert len(world.parts(batch_id)) == 6


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_registered_part_that_is_not_to_be_seen_stops_the_hand_off(world: World, kept: int):
    sent = world.arrive(2, notices=3)
    batch_id = world.open.id
    world.ledger.seal(batch_id, "flights")
    lost = [part_of(of).name for of in sent][kept:]

    class LosesParts:
        def __getattr__(self, name: str):
            return getattr(world.work, name)

        def names(self, prefix: str):
            return (name for name in world.work.names(prefix) if not any(name.endswith(each) for each in lost))

    with pytest.raises(
        OutcomeUnknown, match=rf"{batch_id}: its parts hold .*\({kept}, {2 * kept}, {20 * kept}\).*\(3, 6, 60\)"
    ):
        ensure_manifest(world.batch(batch_id), replace(world.ports, work=LosesParts()))
    assert manifest_of(world, batch_id) is None
    assert "its parts hold" in world.batch(batch_id).halted, "a person does not see it"
    # once they are seen again it goes on
    assert ensure(world, world.batch(batch_id)).objects == 6
    assert world.batch(batch_id).manifest


def test_a_manifest_that_is_there_is_left_alone(world: World):
    batch = world.sealed()
    ensure(world, batch)
    before = manifest_of(world, batch.id)
    assert ensure(world, batch) == ensure(world, world.batch(batch.id))
    assert manifest_of(world, batch.id) == before


def test_whoever_writes_the_manifest_writes_the_same_bytes(world: World):
    world.arrive(3, notices=3)
    batch_id = world.open.id
    world.ledger.seal(batch_id, "flights")
    batch = world.batch(batch_id)
    written = []

    class Bucket:
        """A work bucket from which the manifest keeps disappearing."""

        def __getattr__(self, name: str):
            return getattr(world.work, name)

        def get(self, name: str):
            return None

        def put_if_absent(self, name: str, body: bytes) -> bool:
            written.append((name, body))
            return True

        def names(self, prefix: str):
            return reversed(sorted(world.work.names(prefix)))

    for work in (Bucket(), Bucket()):
        ensure_manifest(batch, replace(world.ports, work=work))
    ensure(world, batch)
    assert written[0] == written[1] == (batch_folder(batch_id) + "sealed.json", manifest_of(world, batch_id))


def test_two_that_write_it_at_once_leave_the_first(world: World):
    batch = world.sealed()

    class Overtaken:
        def __getattr__(self, name: str):
            if name == "put_if_absent":
                ensure(world, batch)
            return getattr(world.work, name)

    ensure_manifest(batch, replace(world.ports, work=Overtaken()))
    body = manifest_of(world, batch.id)
    assert body is not None
    assert decode_sealed(body).objects == 3


def test_an_upload_of_no_bytes_counts_as_an_object(world: World):
    world.dispatch(notice(upload("flights/empty.json", size=0)))
    world.ledger.seal(world.open.id, "flights")
    batch_id = world.record.sealed[0]
    sealed = ensure(world, world.batch(batch_id))
    assert (sealed.objects, sealed.size) == (1, 0)


@pytest.mark.parametrize(
    "death", every_death(5), ids=lambda death: f"{'after' if death.after else 'before'} {death.calls}"
)
def test_dying_while_writing_the_manifest_leaves_it_to_the_next(world: World, death: Life):
    batch = world.sealed()
    life = Life(death.calls, death.after)
    with pytest.raises(Died):
        ensure_manifest(batch, replace(world.ports, ledger=life.wrap(world.ledger), work=life.wrap(world.work)))
    ensure(world, batch)
    body = manifest_of(world, batch.id)
    assert body is not None
    assert decode_sealed(body).objects == 3


def test_a_sealed_batch_that_halted_does_not_delay_the_next(world: World):
    stuck = world.sealed()
    (part,) = world.parts(stuck.id)
    del world.work.objects[f"batches/{stuck.id}/{part}"]
    world.settle()
    assert world.batch(stuck.id).halted
    world.arrive(prefix="flights/next-")
    waiting = world.open
    world.clock.advance(world.flights.limits.max_wait)
    world.settle()
    assert world.batch(waiting.id).state is State.SUBMITTED

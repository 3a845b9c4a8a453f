"""Hand-off: a sealed batch becomes a job, once an attempt, oldest first, within the route's slots."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import Died, Life, every_death
from tests.support.world import World, small_world
from tidegate.core.batches import State
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.manifests import batch_folder
from tidegate.flows.hand_off import begin, hand_off_sealed
from tidegate.metrics import Metric


def test_a_sealed_batch_gets_its_manifest_and_a_job(world: World):
    batch = world.sealed()
    assert world.hand_off() == 1
    assert world.work.get(batch_folder(batch.id) + "sealed.json") is not None
    found = world.batch(batch.id)
    assert (found.state, found.attempt, found.job_run) == (State.SUBMITTED, 1, f"{batch.id}/1")
    assert world.jobs.started == [(batch.id, 1, False)]
    assert world.count.of(Metric.JOBS_STARTED, "flights") == 1


def test_nothing_sealed_nothing_handed_off(world: World):
    world.arrive()
    assert world.hand_off() == 0
    assert world.jobs.started == []


def test_handing_off_again_starts_nothing(world: World):
    world.submitted()
    assert world.hand_off() == 0
    assert len(world.jobs.started) == 1


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_the_oldest_go_first_while_slots_are_free(slots: int):
    world = small_world(in_flight=slots)
    batches = [world.sealed(prefix=f"flights/{number}-").id for number in range(3)]
    assert world.hand_off() == min(slots, 3)
    assert [batch for batch, *_ in world.jobs.started] == batches[:slots]
    assert world.record.sealed == tuple(batches[slots:])


def test_the_manifest_is_in_place_before_the_attempt_begins(world: World):
    batch = world.sealed()

    class LooksAtTheBeginning:
        def __getattr__(self, name: str) -> Any:
            if name == "begin_attempt":
                assert world.work.get(batch_folder(batch.id) + "sealed.json") is not None
            return getattr(world.ledger, name)

    hand_off_sealed(world.flights, replace(world.ports, ledger=LooksAtTheBeginning()))
    assert world.batch(batch.id).state is State.SUBMITTED


def test_an_attempt_that_somebody_else_began_is_left_to_them(world: World):
    batch = world.sealed()
    assert world.ledger.begin_attempt(batch.id, "flights", 1, 1)
    assert not begin(world.flights, batch.id, 1, world.ports)
    assert world.jobs.started == []


def test_a_job_that_somebody_else_is_starting_is_left_to_them(world: World):
    world.jobs.busy = True
    batch = world.sealed()
    assert world.hand_off() == 1
    assert world.batch(batch.id).job_run == ""
    assert world.count[Metric.JOBS_STARTED] == 0
    world.jobs.busy = False
    assert world.settle() == []
    assert world.batch(batch.id).job_run == f"{batch.id}/1"


@pytest.mark.parametrize("kind", [Retryable, OutcomeUnknown])
def test_a_job_that_could_not_be_started_is_started_by_the_next_look(world: World, kind: type[Exception]):
    batch = world.sealed()

    class DoesNotStart:
        code = ""

        def start(self, *_: Any, **__: Any) -> str:
            raise kind("could not start")

    with pytest.raises(kind):
        hand_off_sealed(world.flights, replace(world.ports, jobs=DoesNotStart()))
    assert (world.batch(batch.id).state, world.batch(batch.id).attempt) == (State.SUBMITTED, 1)
    assert world.settle() == []
    assert world.jobs.started == [(batch.id, 1, False)]
    assert world.batch(batch.id).attempt == 1


def test_a_batch_whose_parts_do_not_add_up_holds_up_no_other():
    world = small_world(in_flight=5)
    damaged, sound = world.sealed(prefix="flights/a-"), world.sealed(prefix="flights/b-")
    lose_a_part(world, damaged.id)
    troubles = world.settle()
    assert [damaged.id in str(trouble) for trouble in troubles] == [True]
    assert world.jobs.started == [(sound.id, 1, False)]
    assert world.batch(damaged.id).state is State.SEALED


def test_batches_without_a_slot_have_their_manifests_all_the_same(world: World):
    # what a manifest is made of does not live for ever; the batch may have to wait for long
    batches = [world.sealed(prefix=f"flights/{number}-").id for number in range(3)]
    assert world.hand_off() == 1
    assert all(world.work.get(batch_folder(batch) + "sealed.json") for batch in batches)


def test_an_attempt_of_a_batch_whose_manifest_is_gone_writes_it_again(world: World):
    batch = world.submitted()
    name = batch_folder(batch.id) + "sealed.json"
    before = world.work.get(name)
    del world.work.objects[name]
    world.jobs.end(batch.id, 1)
    world.wait()
    assert world.settle() == []
    assert world.work.get(name) == before


def lose_a_part(world: World, batch_id: str) -> None:
    (part,) = world.parts(batch_id)
    del world.work.objects[batch_folder(batch_id) + part]


def a_whole_hand_off() -> int:
    world = small_world()
    world.sealed()
    life = Life()
    hand_off_with(world, life)
    return life.made


def hand_off_with(world: World, life: Life) -> None:
    hand_off_sealed(
        world.flights,
        life.over(world.ports),
    )


@pytest.mark.parametrize(
    "death", every_death(a_whole_hand_off()), ids=lambda death: f"{'after' if death.after else 'before'} {death.calls}"
)
def test_dying_at_any_step_starts_the_job_once_in_the_end(world: World, death: Life):
    batch = world.sealed()
    life = Life(death.calls, death.after)
    with pytest.raises(Died):
        hand_off_with(world, life)
    for _ in range(2):
        assert world.settle() == []
    found = world.batch(batch.id)
    assert (found.state, found.attempt, found.job_run) == (State.SUBMITTED, 1, f"{batch.id}/1")
    assert world.jobs.started == [(batch.id, 1, False)]
    assert world.record.jobs == 1

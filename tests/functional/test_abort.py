"""Aborting: whatever a batch is doing, it is fenced in the table before it counts as given up."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import Died, Life, every_death, play_fencing, play_giving_up, play_publishing
from tests.support.small_sink import SmallSink, committed
from tests.support.world import World, small_world
from tidegate.core.batches import LONGEST_RETRY_WAIT, Batch, State, Wish
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.manifests import batch_folder, decode_sealed
from tidegate.core.outcomes import ABANDONED
from tidegate.core.receipts import decode_receipt
from tidegate.core.records import settings_key
from tidegate.core.routes import decode_dataset
from tidegate.flows.abort import Aborted, abort
from tidegate.flows.hand_off import hand_off_sealed
from tidegate.flows.publish import Attempt, run
from tidegate.flows.resume import Resumed, resume
from tidegate.flows.seal import registered, seal
from tidegate.flows.status import status
from tidegate.metrics import Metric


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table.db"


def open_batch(world: World) -> Batch:
    world.arrive()
    return world.open


def sealed(world: World) -> Batch:
    return world.sealed()


def submitted(world: World) -> Batch:
    return world.submitted()


def halted(world: World) -> Batch:
    batch = world.submitted()
    play_giving_up(world.work, batch.id, 1, "no such column", hopeless=True)
    world.jobs.end(batch.id, 1)
    world.settle()
    return world.batch(batch.id)


UNFINISHED = pytest.mark.parametrize("made", [open_batch, sealed, submitted, halted], ids=lambda made: made.__name__)


def driver(world: World, table: Path, batch_id: str, attempt: int) -> Attempt:
    return Attempt(
        SmallSink(table, batch_id, committed), world.work, batch_id, attempt, digest=world.batch(batch_id).manifest
    )


def run_jobs(world: World, table: Path) -> None:
    """Every job that was started runs, a zombie's too, the last one first."""
    for batch_id, attempt, fencing in reversed(world.jobs.started):
        assert run(driver(world, table, batch_id, attempt), "fence" if fencing else "ingest") == 0


def rows(table: Path) -> list[Any]:
    return SmallSink(table, "", committed).rows


def conserved(world: World) -> bool:
    return all(each.uploads.holds for each in status([world.flights], world.ports))


@UNFINISHED
def test_a_batch_in_any_state_is_abandoned_once_its_fence_is_in_the_table(
    world: World, table: Path, made: Callable[[World], Batch]
):
    batch = made(world)
    assert abort(batch.id, world.ports) is Aborted.FENCING
    assert world.batch(batch.id).state is State.SUBMITTED, "the table has not decided yet"
    assert (world.batch(batch.id).fencing, world.batch(batch.id).halted) == (True, "")
    assert world.settle() == []
    attempt = batch.attempt + 1
    assert world.jobs.started[-1] == (batch.id, attempt, True)
    assert world.record.jobs == attempt
    assert run(driver(world, table, batch.id, attempt), "fence") == 0
    assert world.settle() == []
    assert world.batch(batch.id).state is State.ABANDONED
    assert world.claim("flights/0000-00000.json").outcome == ABANDONED
    assert (world.record.unfinished, world.record.abandoned_batches, world.record.abandoned_objects) == ((), 1, 3)
    assert conserved(world)
    # a zombie of any attempt wakes
    for number in range(1, attempt + 1):
        assert run(driver(world, table, batch.id, number), "ingest") == 0
    assert decode_receipt(world.work.objects[batch_folder(batch.id) + "receipt.json"]).fence
    assert rows(table) == []


def test_an_open_batch_is_sealed_first_with_what_it_needs_to_be_settled(world: World):
    batch = open_batch(world)
    assert abort(batch.id, world.ports) is Aborted.FENCING
    found = world.batch(batch.id)
    assert found.table == world.flights.dataset.table
    assert decode_dataset(found.sealed_for) == world.flights.dataset
    sealed = decode_sealed(world.work.objects[batch_folder(batch.id) + "sealed.json"])
    assert (found.manifest, sealed.table) == (sealed.digest, found.table)
    assert world.count.of(Metric.BATCHES_SEALED, "flights") == 1
    # what arrives from now on is in another batch
    world.arrive(prefix="flights/later")
    assert world.open.id != batch.id


def test_an_open_batch_is_sealed_by_the_settings_that_were_deployed_last(world: World):
    batch = open_batch(world)
    deployed = replace(world.flights, dataset=replace(world.flights.dataset, table="lake.raw.moved"))
    world.ledger.remember_route(deployed)
    assert abort(batch.id, world.ports) is Aborted.FENCING
    assert world.batch(batch.id).table == "lake.raw.moved"


def test_an_open_batch_without_notices_has_nothing_to_abort(world: World):
    batch = world.ledger.open_batch("flights", world.new_id)
    assert abort(batch.id, world.ports) is Aborted.EMPTY
    assert world.batch(batch.id) == batch
    assert world.record.open_batch == batch.id


def test_an_open_batch_whose_route_has_no_settings_yet_is_left_alone(world: World):
    batch = open_batch(world)
    del world.store.items[settings_key("flights")]
    with pytest.raises(Retryable, match="the ledger has no settings of its route flights"):
        abort(batch.id, world.ports)
    assert world.batch(batch.id) == batch


def test_a_wish_for_a_route_that_a_rebuilt_ledger_does_not_know_says_to_name_the_route(world: World):
    """Settling looks at the routes that are configured, or have settings: the wish would be there for good."""
    batch = world.submitted()
    play_fencing(world.work, batch.id)
    world.settle()
    del world.store.items[settings_key("flights")]
    for skip in (False, True):
        with pytest.raises(Retryable, match=r"its route flights, so nothing would come.*`retired = true`, deploy"):
            abort(batch.id, world.ports, Wish.DROP, skip_missing=skip)
    assert world.batch(batch.id).wish is None
    assert not world.record.wished


def test_what_has_ended_says_how(world: World):
    assert abort("01NEVER", world.ports) is Aborted.NO_SUCH_BATCH
    for play, how in ((play_publishing, Aborted.COMMITTED), (play_fencing, Aborted.ABANDONED)):
        batch = world.submitted(prefix=f"flights/{how.name}")
        play(world.work, batch.id)
        world.settle()
        before = world.batch(batch.id)
        assert abort(batch.id, world.ports) is how
        assert world.batch(batch.id) == before


def test_what_waits_behind_a_halted_batch_is_given_up_without_a_slot(world: World, table: Path):
    first = halted(world)
    behind = world.sealed(prefix="flights/behind")
    assert world.hand_off() == 0, "the halted batch has the slot"
    assert abort(behind.id, world.ports) is Aborted.FENCING
    assert world.record.running == (first.id, behind.id)
    assert world.settle() == []
    assert world.jobs.started[-1] == (behind.id, 1, True)
    assert run(driver(world, table, behind.id, 1), "fence") == 0
    assert world.settle() == []
    assert world.batch(behind.id).state is State.ABANDONED
    assert world.batch(first.id) == first, "it halts as before, and keeps its slot"
    assert world.record.running == (first.id,)


def test_a_fence_that_fails_is_tried_again_and_can_halt_and_be_resumed(world: World):
    batch = sealed(world)
    abort(batch.id, world.ports)
    world.settle()
    attempts = world.flights.limits.attempts
    for attempt in range(1, attempts + 1):
        world.jobs.end(batch.id, attempt)
        world.clock.advance(LONGEST_RETRY_WAIT)
        world.settle()
    assert world.jobs.started == [(batch.id, attempt, True) for attempt in range(1, attempts + 1)]
    assert world.batch(batch.id).halted
    assert resume(batch.id, world.ports) is Resumed.DONE
    world.settle()
    assert world.jobs.started[-1] == (batch.id, attempts + 1, True)


# ---- files that differ from the ledger


Cure = Callable[[], object]


def without_its_part(world: World, batch: Batch) -> Cure:
    (part,) = world.parts(batch.id)
    name = batch_folder(batch.id) + part
    body = world.work.objects.pop(name)
    return lambda: world.work.put(name, body)


def with_another_manifest(world: World, batch: Batch, **differs: Any) -> Cure:
    """As if the ledger had been restored to a time before the batch was sealed."""
    name = batch_folder(batch.id) + "sealed.json"
    world.work.put(name, replace(registered(batch, world.ports), **differs).encode())
    return lambda: world.work.objects.pop(name)


def with_another_part(world: World, batch: Batch) -> Cure:
    return with_another_manifest(world, batch, parts=("parts/other.jsonl.gz",))


def for_another_table(world: World, batch: Batch) -> Cure:
    return with_another_manifest(world, batch, table="lake.raw.moved")


@pytest.mark.parametrize("differs", [without_its_part, with_another_part, for_another_table])
@pytest.mark.parametrize("known", [False, True], ids=["first seen by abort", "halted before"])
def test_a_sealed_batch_whose_files_differ_is_left_as_it_is_until_they_agree(
    world: World, differs: Callable[[World, Batch], Cure], known: bool
):
    """Settling could not record its fence. And it may be in the table, with uploads that the ledger has lost."""
    batch = sealed(world)
    cure = differs(world, batch)
    if known:
        assert len(world.settle()) == 1
    assert abort(batch.id, world.ports) is Aborted.FILES_DIFFER
    found = world.batch(batch.id)
    assert (found.state, found.attempt, found.fencing) == (State.SEALED, 0, False)
    assert batch.id in found.halted, "status says why"
    assert (world.record.sealed, world.record.running) == ((batch.id,), ())
    cure()
    assert abort(batch.id, world.ports) is Aborted.FENCING
    assert world.batch(batch.id).halted == ""


def test_a_work_bucket_that_does_not_answer_says_nothing_about_the_files(world: World, monkeypatch: pytest.MonkeyPatch):
    batch = sealed(world)

    def get(name: str) -> bytes:
        raise OutcomeUnknown("no answer")

    monkeypatch.setattr(world.work, "get", get)
    with pytest.raises(OutcomeUnknown, match="no answer"):
        abort(batch.id, world.ports)
    assert world.batch(batch.id) == batch


# ---- others at the same time


def test_a_batch_whose_job_could_never_be_started_is_given_up(world: World, table: Path):
    world.jobs.busy = True
    batch = submitted(world)
    assert (batch.attempt, batch.job_run) == (1, "")
    assert abort(batch.id, world.ports) is Aborted.FENCING
    world.jobs.busy = False
    world.settle()
    assert world.jobs.started == [(batch.id, 2, True)]
    # whoever was starting the first job does so now
    world.jobs.start(batch, world.flights.dataset, owner="", last=False)
    world.ledger.record_job(batch.id, 1, f"{batch.id}/1")
    assert world.batch(batch.id).job_run == f"{batch.id}/2"
    assert run(driver(world, table, batch.id, 2), "fence") == 0
    assert run(driver(world, table, batch.id, 1), "ingest") == 0
    world.settle()
    assert world.batch(batch.id).state is State.ABANDONED
    assert rows(table) == []


def test_a_batch_that_was_published_in_the_time_that_a_restored_ledger_lost_is_committed(world: World, table: Path):
    """A ledger alone would make it ABANDONED, and its rows are in the table."""
    batch = sealed(world)
    before = dict(world.store.items)
    world.hand_off()
    assert run(driver(world, table, batch.id, 1), "ingest") == 0
    del world.work.objects[batch_folder(batch.id) + "receipt.json"]
    world.store.items.clear()
    world.store.items.update(before)
    assert abort(batch.id, world.ports) is Aborted.FENCING
    world.settle()
    assert run(driver(world, table, batch.id, 1), "fence") == 0
    assert world.settle() == []
    assert world.batch(batch.id).state is State.COMMITTED
    assert len(rows(table)) == 3
    assert conserved(world)


def aborting(world: World, batch_id: str) -> Any:
    return abort(batch_id, world.ports)


def handing_off(world: World, batch_id: str) -> Any:
    seal(world.flights, batch_id, world.ports)
    return world.hand_off()


def settling(world: World, batch_id: str) -> Any:
    return world.settle()


OTHERS = pytest.mark.parametrize("other", [aborting, handing_off, settling], ids=lambda other: other.__name__)


def calls_of_abort(made: Callable[[World], Batch]) -> int:
    world, life = small_world(max_wait=300), Life()
    assert abort(made(world).id, life.over(world.ports)) is Aborted.FENCING
    return life.made


@UNFINISHED
@OTHERS
def test_another_process_before_any_call_of_abort_changes_only_who_begins_the_fence(
    tmp_path: Path, made: Callable[[World], Batch], other: Callable[[World, str], Any]
):
    for call in range(1, calls_of_abort(made) + 1):
        world, table = small_world(max_wait=300), tmp_path / f"{call}.db"
        batch = made(world)
        answers: list[Any] = []
        life = Life(calls=call, before=lambda: answers.append(other(world, batch.id)))  # noqa: B023
        answers.append(abort(batch.id, life.over(world.ports)))
        fenced = Aborted.FENCING in answers
        assert fenced or answers[-1] is Aborted.MOVED_ON
        found = world.batch(batch.id)
        assert (found.state, found.fencing) == (State.SUBMITTED, fenced)
        if not fenced:
            assert abort(batch.id, world.ports) is Aborted.FENCING, "the person asks again"
        world.settle()
        attempts = [attempt for _, attempt, _ in world.jobs.started]
        assert len(attempts) == len(set(attempts)), "an attempt is a fence or is not"
        assert world.record.jobs == world.batch(batch.id).attempt
        run_jobs(world, table)
        world.settle()
        assert world.batch(batch.id).state is State.ABANDONED
        assert rows(table) == []
        assert conserved(world)


@UNFINISHED
def test_of_two_who_abort_at_once_one_begins_each_attempt(world: World, made: Callable[[World], Batch]):
    batch = made(world)
    # both have read the batch before either writes
    last = calls_of_abort(made)
    life = Life(calls=last, before=lambda: abort(batch.id, world.ports))
    assert abort(batch.id, life.over(world.ports)) is Aborted.MOVED_ON
    found = world.batch(batch.id)
    assert (found.attempt, found.fencing) == (batch.attempt + 1, True)


@UNFINISHED
def test_dying_at_any_step_of_abort_leaves_a_batch_that_goes_on_or_can_be_given_up(
    tmp_path: Path, made: Callable[[World], Batch]
):
    for number, death in enumerate(every_death(calls_of_abort(made))):
        for asks_again in (False, True):
            world, table = small_world(max_wait=300), tmp_path / f"{number}-{asks_again}.db"
            batch = made(world)
            life = Life(death.calls, death.after)
            with pytest.raises(Died):
                abort(batch.id, life.over(world.ports))
            world.clock.advance(300)
            world.settle()
            if asks_again or world.batch(batch.id).halted:
                assert abort(batch.id, world.ports) is Aborted.FENCING
                world.settle()
            fencing = world.batch(batch.id).fencing
            assert fencing or not asks_again
            run_jobs(world, table)
            world.settle()
            assert world.batch(batch.id).state is (State.ABANDONED if fencing else State.COMMITTED)
            assert len(rows(table)) == (0 if fencing else 3)
            assert conserved(world)


def test_a_hand_off_that_read_the_batch_before_it_was_given_up_starts_nothing(world: World):
    batch = sealed(world)
    life = Life()
    other = small_world()
    sealed(other)
    hand_off_sealed(other.flights, life.over(other.ports))
    begin = life.names.index("begin_attempt") + 1
    life = Life(calls=begin, before=lambda: abort(batch.id, world.ports))
    assert hand_off_sealed(world.flights, life.over(world.ports)) == 0
    assert world.jobs.started == []
    assert (world.batch(batch.id).attempt, world.batch(batch.id).fencing) == (1, True)

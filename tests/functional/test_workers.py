"""Workers: hand-off offers a first attempt, and a worker takes one after the other."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.build import BUCKET, route, uploads
from tests.support.fakes import Died, Life, every_death, play_giving_up, play_publishing
from tests.support.world import World, small_world
from tidegate.core.batches import Batch, JobState, State
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.notices import pack
from tidegate.core.records import DAY, batch_key
from tidegate.core.workers import (
    ALIVE,
    ALWAYS,
    BEAT,
    GIVES_WAY,
    HANDOVER,
    MOST_WAITING,
    SILENT,
    SMALL_BYTES,
    SMALL_PATIENCE,
    SOON,
    Worker,
)
from tidegate.flows.dispatch import dispatch
from tidegate.flows.hand_off import hand_off_sealed, start_job
from tidegate.flows.ports import JobReport
from tidegate.flows.seal import ensure_manifest
from tidegate.flows.settle import advance_each, settle_all
from tidegate.flows.worker import Taking, beating
from tidegate.metrics import Metric
from tidegate.schedule import SCHEDULE

STAY = 10


@pytest.fixture
def world() -> World:
    made = small_world(in_flight=500)
    made.jobs.code = "code"
    return made


@dataclass
class Driver:
    """The worker that was started for a batch. It makes attempts as `does` says; 0: the table has decided."""

    world: World
    id: str
    does: Callable[[Batch], int] | None = None
    naps: Callable[[], object] = lambda: None
    made: list[str] = field(default_factory=list)
    ledger: Any = None

    @property
    def taking(self) -> Taking:
        world = self.world

        def make(batch: Batch, owner: str) -> int:
            self.made.append(batch.id)
            if self.does:
                return self.does(batch)
            play_publishing(world.work, batch.id, snapshot=int(batch.id[3:]) * 10)
            return 0

        def sleep(seconds: float) -> None:
            world.clock.advance(int(seconds))
            self.naps()

        until = world.clock() + world.jobs.takes_for
        ledger = self.ledger or world.ledger
        return Taking(self.id, "code", ledger, make, STAY, until, sleep, beats=lambda beat: nullcontext())

    def run(self) -> int:
        return self.taking.run()

    def lives(self, batch: str = "", **said: Any) -> None:
        """It gives a sign of life."""
        now = self.world.clock()
        told: dict[str, Any] = {"until": now + 3_600, "seen_at": now, "since": now, **said}
        self.world.ledger.note_alive(Worker(self.id, "code", batch=batch, **told))


@dataclass
class Troubled:
    """A port that refuses what has this name."""

    real: object
    verb: str
    why: str

    def __getattr__(self, name: str) -> Any:
        if name == self.verb:
            raise Retryable(self.why)
        return getattr(self.real, name)


def worker_of(world: World, batch: Batch, **given: Any) -> Driver:
    return Driver(world, f"{batch.id}-1", **given)


def large(world: World, prefix: str) -> Batch:
    batch = world.sealed(prefix=prefix)
    ensure_manifest(batch, world.ports)
    world.edit(batch_key(batch.id), bytes=SMALL_BYTES + 1)
    assert world.hand_off() == 1
    return world.batch(batch.id)


# ---- is a worker there?


def test_a_worker_is_started_for_the_first_batch_and_takes_the_second_too(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    assert world.jobs.started == [(first.id, 1, False)]
    assert (first.job_run, second.job_run) == (f"{first.id}/1", "")
    driver = worker_of(world, first)
    assert driver.run() == 0
    assert driver.made == [first.id, second.id], "the oldest first"
    assert settle_all(world.routes, world.ports) == []
    assert world.batch(second.id).state is State.COMMITTED
    assert world.count.of(Metric.JOBS_STARTED, "flights") == 1
    assert world.ledger.pool().offers == ()


def test_without_workers_each_batch_has_a_job_of_its_own(world: World):
    world.jobs.code = ""
    for name in "ab":
        world.submitted(prefix=f"flights/{name}")
    assert len(world.jobs.started) == 2
    assert world.ledger.pool().offers == ()


def test_a_batch_that_has_one_attempt_only_has_a_job_of_its_own():
    world = small_world(in_flight=2, attempts=1)
    world.jobs.code = "code"
    for name in "ab":
        world.submitted(prefix=f"flights/{name}")
    assert len(world.jobs.started) == 2
    assert world.ledger.pool().offers == ()


def test_a_worker_of_other_code_is_not_counted_on_and_takes_nothing(world: World):
    first = world.submitted()
    world.jobs.code = "newer code"
    second = world.submitted(prefix="flights/b")
    assert len(world.jobs.started) == 2
    driver = worker_of(world, first)
    assert driver.run() == 0
    assert driver.made == [first.id]
    assert [each.batch for each in world.ledger.pool().offers] == [second.id]


def test_what_is_offered_to_workers_that_a_deployment_has_replaced_is_offered_anew(world: World):
    idle = Driver(world, "w")
    idle.lives()
    batch = world.submitted()
    assert world.jobs.started == []
    world.ledger.leave(idle.id)
    world.jobs.code = "newer code"
    world.settle()
    assert world.jobs.started == [(batch.id, 1, False)]
    assert [each.code for each in world.ledger.pool().offers] == ["newer code"]


def test_what_a_worker_of_older_code_is_at_is_not_started_again(world: World):
    batch = world.submitted()
    world.ledger.take(batch.id, f"{batch.id}-1")
    world.jobs.code = "newer code"
    for _ in range(2):
        start_job(world.flights, replace(batch, job_run=""), world.ports)
    assert len(world.jobs.started) == 1
    assert [(each.code, bool(each.worker)) for each in world.ledger.pool().offers] == [("code", True)]


def test_a_worker_that_is_queued_is_counted_on_until_its_job_has_ended(world: World):
    """Another job would be queued behind it."""
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    world.clock.advance(SOON)
    world.settle()
    assert world.jobs.started == [(first.id, 1, False)]
    world.jobs.end(first.id, 1, "cancelled in the queue")
    world.settle()
    assert world.batch(second.id).job_run == f"{second.id}/1"


def test_a_worker_that_died_before_it_spoke_holds_up_what_counted_on_it_for_a_minute(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    world.ledger.withdraw(first.id)
    world.edit(batch_key(first.id), state=State.COMMITTED)
    world.jobs.end(first.id, 1, "killed")
    world.clock.advance(SCHEDULE)
    for _ in range(2):
        settle_all(world.routes, world.ports)
    assert world.batch(second.id).job_run == f"{second.id}/1"


def test_a_queued_worker_whose_batch_another_took_is_forgotten_once_its_job_has_ended(world: World):
    first = world.submitted()
    idle = Driver(world, "idle")
    assert (idle.run(), idle.made) == (0, [first.id])
    settle_all(world.routes, world.ports)
    assert world.batch(first.id).state is State.COMMITTED
    world.jobs.end(first.id, 1, "cancelled in the queue")
    world.clock.advance(SOON)
    settle_all(world.routes, world.ports)
    assert world.ledger.pool().workers == ()


def test_who_has_waited_for_longest_is_taken_first_however_old_its_batch_is(world: World):
    """Batches that were opened earlier, on other routes, may be sealed later, again and again."""
    Driver(world, "w").lives()
    opened = world.submitted(prefix="flights/old-")
    world.clock.advance(1)
    first = world.submitted(prefix="flights/b")
    for each in world.ledger.pool().offers:
        world.ledger.offer(replace(each, submitted_at=world.clock() + (each.batch == opened.id)))
    driver = Driver(world, "w")
    assert driver.run() == 0
    assert driver.made == [first.id, opened.id]


def test_a_batch_that_nobody_took_for_long_has_a_worker_of_its_own(world: World):
    """The workers that there are have others to do, or cannot take it."""
    driver = Driver(world, "w")
    driver.lives()
    batch = world.submitted()
    world.clock.advance(SOON - 1)
    driver.lives("01A")
    world.settle()
    assert world.jobs.started == []
    world.clock.advance(1)
    driver.lives("01B")
    world.settle()
    assert world.jobs.started == [(batch.id, 1, False)]


def test_a_backlog_that_waits_for_vcpu_starts_few_jobs(world: World):
    batches = [world.submitted(prefix=f"flights/{number:03}-") for number in range(5 * MOST_WAITING)]
    for _ in range(20):
        world.clock.advance(60)
        assert settle_all(world.routes, world.ports) == []
    assert len(world.jobs.started) == 5
    assert {world.batch(each.id).attempt for each in batches} == {1}


@pytest.mark.parametrize(
    ("said", "silent", "starts"),
    [
        ({}, 0, 0),
        ({}, ALIVE - 1, 0),
        ({}, ALIVE, 1),
        ({"batch": "01A"}, 0, 0),
        ({"batch": "01A", "small": False}, 0, 1),
        ({"batch": "01A", "since": 0}, 0, 1),
        ({"until": 0}, 0, 1),
    ],
    ids=["idle", "seen lately", "silent", "at a small one", "at a large one", "at one for long", "it takes no more"],
)
def test_who_is_counted_on(world: World, said: dict[str, Any], silent: int, starts: int):
    Driver(world, "w").lives(**said)
    world.clock.advance(silent)
    world.submitted()
    assert len(world.jobs.started) == starts


def test_so_many_wait_for_one_worker(world: World):
    for number in range(MOST_WAITING + 1):
        world.submitted(prefix=f"flights/{number}-")
    assert len(world.jobs.started) == 2


def test_a_large_batch_waits_for_no_other(world: World):
    Driver(world, "idle").lives()
    first = large(world, "flights/a")
    assert world.jobs.started == []
    second = large(world, "flights/b")
    assert world.jobs.started == [(second.id, 1, False)]
    world.ledger.take(first.id, "idle")
    Driver(world, "idle").lives(first.id, small=False)
    assert world.submitted(prefix="flights/c").job_run, "the worker of the second will be at that for long"


def test_a_job_that_cannot_be_started_is_started_by_settling_unless_a_worker_is_there_by_then(world: World):
    world.jobs.busy = True
    batch = world.submitted()
    assert world.ledger.pool().offers[0].batch == batch.id
    Driver(world, "w").lives()
    world.jobs.busy = False
    assert world.settle() == []
    assert world.jobs.started == []


# ---- a worker dies, fails, hangs, falls silent


def test_a_later_attempt_has_a_job_of_its_own(world: World):
    first, second = world.submitted(), world.submitted(prefix="flights/b")

    def gives_up(batch: Batch) -> int:
        play_giving_up(world.work, batch.id, 1, "a reason", hopeless=False)
        return 1

    driver = worker_of(world, first, does=gives_up)
    assert driver.run() == 1
    assert driver.made == [first.id], "what made it fail may be in the process"
    world.jobs.end(first.id, 1)
    world.wait()
    world.settle()
    again = world.batch(first.id)
    assert (again.attempt, again.job_run) == (2, f"{first.id}/2")
    assert world.batch(second.id).attempt == 1
    assert world.batch(second.id).job_run == f"{second.id}/1", "a worker of its own, since the first takes no more"


def test_an_attempt_that_failed_is_not_offered_again(world: World):
    """Of a batch that no worker was started for: nobody has seen that it was taken."""
    first, second = world.submitted(), world.submitted(prefix="flights/b")

    def fails_with_the_second(batch: Batch) -> int:
        if batch.id == second.id:
            play_giving_up(world.work, batch.id, 1, "a reason", hopeless=False)
            return 1
        play_publishing(world.work, batch.id)
        return 0

    assert worker_of(world, first, does=fails_with_the_second).run() == 1
    world.jobs.end(first.id, 1)
    world.settle()
    world.wait()
    world.settle()
    again = world.batch(second.id)
    assert (again.attempt, again.job_run) == (2, f"{second.id}/2")


def test_a_worker_that_dies_costs_what_it_has_taken_an_attempt(world: World):
    first, second = world.submitted(), world.submitted(prefix="flights/b")

    def dies(batch: Batch) -> int:
        raise Died

    with pytest.raises(Died):
        worker_of(world, first, does=dies).run()
    world.jobs.end(first.id, 1, "out of memory")
    world.wait()
    world.settle()
    assert world.batch(first.id).job_run == f"{first.id}/2"
    assert world.batch(second.id).attempt == 1


def test_the_job_of_a_batch_is_that_of_the_worker_that_has_taken_it(world: World):
    first, second = world.submitted(), world.submitted(prefix="flights/b")
    seen: list[str] = []

    def looks(batch: Batch) -> int:
        world.settle()
        seen.append(world.batch(batch.id).job_run)
        play_publishing(world.work, batch.id, snapshot=int(batch.id[3:]) * 10)
        return 0

    worker_of(world, first, does=looks).run()
    assert seen == [first.job_run, first.job_run], second


def test_a_worker_whose_start_failed_costs_an_attempt(world: World):
    """The image is broken: whoever was started for it has ended, and nobody has taken it."""
    batch = world.submitted()
    world.jobs.end(batch.id, 1, "no such image")
    world.wait()
    world.settle()
    assert world.batch(batch.id).attempt == 2


@pytest.mark.parametrize(("seconds", "attempt"), [(SILENT - 1, 1), (SILENT, 2)])
def test_a_worker_that_is_silent_loses_what_it_has_taken(world: World, seconds: int, attempt: int):
    batch = world.submitted()
    driver = worker_of(world, batch)
    driver.lives()
    world.ledger.take(batch.id, driver.id)
    driver.lives(batch.id)
    world.clock.advance(seconds)
    world.settle()
    assert world.batch(batch.id).attempt == attempt


@pytest.mark.parametrize(("seconds", "attempt"), [(SMALL_PATIENCE - 1, 1), (SMALL_PATIENCE, 2)])
def test_a_worker_that_lives_and_does_not_end_loses_it_too(world: World, seconds: int, attempt: int):
    batch = world.submitted()
    driver = worker_of(world, batch)
    world.ledger.take(batch.id, driver.id)
    world.clock.advance(seconds)
    driver.lives(batch.id)
    world.settle()
    assert world.batch(batch.id).attempt == attempt


def test_what_a_worker_was_started_for_does_not_wait_until_it_has_done_something_else(world: World):
    batch = world.submitted()
    driver = worker_of(world, batch)
    driver.lives("01OTHER", small=False)
    world.clock.advance(SOON - 1)
    world.settle()
    assert world.batch(batch.id).attempt == 1
    world.clock.advance(1)
    world.settle()
    assert world.batch(batch.id).job_run == f"{batch.id}/2"


def test_a_worker_that_was_queued_for_long_gets_what_it_was_started_for(world: World):
    batch = world.submitted()
    world.clock.advance(SOON)
    driver = worker_of(world, batch)
    driver.lives("01OLDER")
    world.settle()
    driver.lives()
    world.settle()
    assert (driver.run(), driver.made, world.batch(batch.id).attempt) == (0, [batch.id], 1)


def test_a_large_batch_is_left_to_a_worker_that_lives(world: World):
    batch = large(world, "flights/a")
    driver = worker_of(world, batch)
    world.ledger.take(batch.id, driver.id)
    world.clock.advance(6 * 3_600)
    driver.lives(batch.id, small=False)
    world.settle()
    assert world.batch(batch.id).attempt == 1


def test_an_offer_that_has_expired_and_is_still_there_is_offered_anew(world: World):
    """Settling did not run for more than a day, and TTL has not deleted it."""
    Driver(world, "idle").lives()
    batch = world.submitted()
    world.ledger.take(batch.id, "idle")
    world.clock.advance(DAY + 1)
    Driver(world, "other").lives()
    world.settle()
    driver = Driver(world, "other")
    assert (driver.run(), driver.made) == (0, [batch.id])


def test_what_was_offered_before_a_later_attempt_keeps_no_worker_from_waiting(world: World):
    slow(world)
    batch = world.submitted()
    world.jobs.end(batch.id, 1, "no such image")
    world.wait()
    world.settle()
    assert world.batch(batch.id).attempt == 2
    assert world.ledger.pool().offers == ()


def test_a_take_that_the_client_repeats_is_a_take(world: World):
    batch = world.submitted()
    assert world.ledger.take(batch.id, "w")
    assert world.ledger.take(batch.id, "w")
    assert not world.ledger.take(batch.id, "v")


def test_a_batch_whose_worker_failed_at_another_does_not_wait_after_that_failure(world: World):
    Driver(world, "idle").lives()
    poison = world.submitted()
    world.clock.advance(ALIVE)
    batch = world.submitted(prefix="flights/b")
    assert worker_of(world, batch, does=lambda each: 1).run() == 1
    world.jobs.end(batch.id, 1)
    world.settle()
    assert (world.batch(batch.id).attempt, world.batch(poison.id).attempt) == (2, 1)


def test_what_is_halted_is_not_attempted(world: World):
    batch = world.submitted()
    world.ledger.halt(batch.id, 1, "a person must act")
    driver = worker_of(world, batch)
    assert (driver.run(), driver.made) == (0, [])


def test_what_is_hopeless_halts_also_if_its_worker_falls_silent(world: World):
    batch = world.submitted()
    driver = worker_of(world, batch)
    driver.lives()
    world.ledger.take(batch.id, driver.id)
    play_giving_up(world.work, batch.id, 1, "no such column", hopeless=True)
    world.clock.advance(SILENT)
    world.settle()
    assert world.batch(batch.id).halted == "no such column"


def test_workers_that_are_switched_off_are_judged_to_their_end(world: World):
    Driver(world, "w").lives()
    batch = world.submitted()
    world.ledger.take(batch.id, "w")
    world.jobs.code = ""
    world.settle()
    assert world.jobs.started == []
    world.clock.advance(SILENT)
    world.settle()
    assert world.batch(batch.id).attempt == 2


def test_a_worker_that_nobody_has_noted_is_believed_by_its_signs_of_life(world: World):
    """Hand-off died between the start of its job and the note of it."""
    world.jobs.busy = True
    batch = world.submitted()
    driver = worker_of(world, batch)
    world.ledger.take(batch.id, driver.id)
    driver.lives(batch.id)
    world.jobs.busy = False
    world.settle()
    assert (world.batch(batch.id).attempt, world.jobs.started) == (1, [])
    world.clock.advance(SILENT)
    world.settle()
    assert world.batch(batch.id).job_run == f"{batch.id}/2"


def test_what_changed_since_it_was_offered_is_not_attempted(world: World):
    first, second = world.submitted(), world.submitted(prefix="flights/b")
    world.ledger.resume(first.id, "flights", 2, fencing=True)
    driver = worker_of(world, first)
    assert driver.run() == 0
    assert driver.made == [second.id]
    assert world.ledger.pool().offers == ()


# ---- the worker's side


def test_a_worker_waits_a_while_and_leaves(world: World):
    driver = Driver(world, "w")
    before = world.clock()
    assert driver.run() == 0
    assert world.clock() - before == STAY
    assert world.ledger.pool().workers == ()


def test_a_batch_that_is_offered_while_the_worker_leaves_is_taken(world: World):
    """Hand-off counted on it."""
    batch = world.sealed()
    driver = Driver(world, "w")
    real = world.ledger.leave

    class Late:
        def __getattr__(self, name: str) -> Any:
            return self.leave if name == "leave" else getattr(world.ledger, name)

        def leave(self, worker: str) -> None:
            if not driver.made:
                world.hand_off()
            real(worker)

    driver.ledger = Late()
    assert driver.run() == 0
    assert driver.made == [batch.id]
    assert world.jobs.started == []


def test_a_worker_ends_after_so_many_batches(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.worker.MOST_TAKEN", 3)
    driver = Driver(world, "w")
    driver.lives()
    for number in range(4):
        world.submitted(prefix=f"flights/{number}-")
    taking = driver.taking
    assert taking.run() == 0
    assert len(driver.made) == 3


def test_a_worker_ends_after_a_while_although_there_is_more(world: World):
    driver = Driver(world, "w")
    driver.lives()

    def takes_long(batch: Batch) -> int:
        world.clock.advance(1_000)
        return 0

    driver.does = takes_long
    for number in range(6):
        world.submitted(prefix=f"flights/{number}-")
    assert driver.run() == 0
    assert len(driver.made) == 4


def test_a_take_whose_answer_was_lost_is_this_workers(world: World):
    batch = world.submitted()
    driver = worker_of(world, batch)
    world.ledger.take(batch.id, driver.id)
    assert driver.run() == 0
    assert driver.made == [batch.id]


def test_two_workers_take_each_batch_once(world: World):
    batches = [world.submitted(prefix=f"flights/{number}-").id for number in range(6)]
    other = Driver(world, "other")

    def lets_the_other_go_first(batch: Batch) -> int:
        if not other.made:
            other.run()
        play_publishing(world.work, batch.id, snapshot=int(batch.id[3:]) * 10)
        return 0

    driver = Driver(world, "w", does=lets_the_other_go_first)
    driver.run()
    assert sorted(driver.made + other.made) == batches


def test_an_offer_that_cannot_be_withdrawn_is_not_attempted_again(world: World):
    batch = world.submitted()

    class Forgetful:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.ledger, name)

        def withdraw(self, batch_id: str) -> None:
            raise OutcomeUnknown("no answer")

    driver = worker_of(world, batch, ledger=Forgetful())
    assert driver.run() == 0
    assert driver.made == [batch.id]
    assert settle_all(world.routes, world.ports) == []
    assert world.batch(batch.id).state is State.COMMITTED


def test_signs_of_life_go_on_beside_the_work(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.flows.worker.BEAT", 0.01)
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 1:
            raise Retryable("the ledger does not answer")

    with beating(beat):
        while len(beats) < 3:
            pass
    after = len(beats)
    assert after >= 3


def test_a_worker_that_waits_gives_signs_of_life(world: World):
    driver = Driver(world, "w")
    seen: list[int] = []

    def looks() -> None:
        (worker,) = world.ledger.pool().workers
        seen.append(world.clock() - worker.seen_at)

    driver.naps = looks
    driver.run()
    assert max(seen) <= BEAT


# ---- deaths of hand-off


def test_whenever_hand_off_dies_there_is_one_attempt_and_not_one_more_job():
    def begin() -> tuple[World, Batch]:
        world = small_world()
        world.jobs.code = "code"
        return world, world.sealed()

    living = Life()
    world, _ = begin()
    hand_off_sealed(world.flights, living.over(world.ports))
    for life in every_death(living.made):
        world, batch = begin()
        with pytest.raises(Died):
            hand_off_sealed(world.flights, life.over(world.ports))
        world.settle()
        assert world.batch(batch.id).attempt == 1, life.names
        assert world.jobs.started == [(batch.id, 1, False)], life.names
        driver = worker_of(world, batch)
        assert (driver.run(), driver.made) == (0, [batch.id])


def test_whenever_a_worker_dies_its_batches_land(world: World):
    def begin() -> tuple[World, list[Batch]]:
        world = small_world(in_flight=2)
        world.jobs.code = "code"
        return world, [world.submitted(prefix=f"flights/{name}") for name in "ab"]

    living = Life()
    world, batches = begin()
    worker_of(world, batches[0], ledger=living.wrap(world.ledger)).run()
    assert living.made > 10
    for life in every_death(living.made):
        world, batches = begin()
        with pytest.raises(Died):
            worker_of(world, batches[0], ledger=life.wrap(world.ledger)).run()
        world.jobs.end(batches[0].id, 1, "it died")
        for _ in range(3):
            world.wait()
            world.settle()
            for batch in map(world.batch, [each.id for each in batches]):
                # a job of its own, or another worker
                run = world.jobs.runs.get(batch.job_run)
                if batch.state is State.SUBMITTED and run and run.state is JobState.ACTIVE:
                    play_publishing(world.work, batch.id, snapshot=int(batch.id[3:]) * 10)
        world.settle()
        assert [world.batch(each.id).state for each in batches] == [State.COMMITTED] * 2, life.names


# ---- a worker that waits


def arrives(world: World, prefix: str) -> None:
    """A notice, and what the function does that got it."""
    for sent in pack("flights", BUCKET, uploads(1, prefix)):
        dispatch(sent.encode(), world.ports, routes=world.routes)
    assert advance_each(world.routes.values(), world.ports) == []


def slow(world: World) -> None:
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=600, in_flight=1))


def test_what_arrives_while_a_worker_waits_is_offered_at_once(world: World):
    slow(world)
    driver = Driver(world, "w")
    driver.lives()
    arrives(world, "flights/b")
    (first,) = world.record.running
    arrives(world, "flights/c")  # the worker has something to do, so this gathers until it waits again
    assert world.record.open_batch
    assert driver.run() == 0
    assert driver.made == [first]
    driver.lives(first)  # it has yet to say that it waits
    assert settle_all(world.routes, world.ports) == []
    assert not world.record.open_batch
    assert world.jobs.started == []


@pytest.mark.parametrize(
    "why", ["it is silent", "it takes no more", "it is at another one", "it runs other code", "none"]
)
def test_what_arrives_when_no_worker_waits_gathers(world: World, why: str):
    slow(world)
    driver = Driver(world, "w")
    match why:
        case "it is silent":
            driver.lives()
            world.clock.advance(ALIVE)
        case "it takes no more":
            driver.lives(until=world.clock())
        case "it is at another one":
            driver.lives("01OTHER")
        case "it runs other code":
            driver.lives()
            world.jobs.code = "newer code"
        case _:
            driver.lives()
            world.jobs.code = ""
    arrives(world, "flights/b")
    assert world.record.open_batch


def test_a_large_batch_is_not_sealed_early(world: World):
    slow(world)
    Driver(world, "w").lives()
    world.arrive(prefix="flights/a")
    world.edit(batch_key(world.record.open_batch), bytes=SMALL_BYTES + 1)
    assert advance_each(world.routes.values(), world.ports) == []
    assert world.record.open_batch


def test_trouble_with_the_workers_is_told_and_keeps_no_batch(world: World):
    batch = world.sealed()

    troubled = replace(world.ports, ledger=Troubled(world.ledger, "pool", "denied"))  # type: ignore[arg-type]
    assert len(advance_each(world.routes.values(), troubled)) == 2
    assert world.batch(batch.id).state is State.SUBMITTED
    assert world.settle() == []
    assert world.jobs.started == [(batch.id, 1, False)]


def jobs_in_an_hour(code: str) -> tuple[int, int]:
    """(jobs, batches) of an hour of 20 quiet routes, whose first uploads come at different minutes, and that wait for
    10 minutes each. Every worker starts within a minute."""
    world, configured = small_world(), {name: route(name, max_wait=600) for name in map("r{:02}".format, range(20))}
    world.jobs.code = code
    for minute in range(60):
        for number, name in enumerate(configured):
            if minute >= number % 10:
                (sent,) = pack(name, BUCKET, uploads(1, f"{name}/{minute:02}-"))
                dispatch(sent.encode(), world.ports, routes=configured)
        assert settle_all(configured, world.ports) == []
        world.clock.advance(30)
        for run, report in list(world.jobs.runs.items()):
            if report.state is JobState.ACTIVE:
                batch = run.partition("/")[0]
                if code:
                    naps = lambda: settle_all(configured, world.ports)  # noqa: E731
                    Driver(world, f"{batch}-1", naps=naps).run()
                else:
                    play_publishing(world.work, batch, snapshot=int(batch[3:]) * 10)
                world.jobs.end(batch, 1)
        world.clock.advance(20 if code else 30)
    assert settle_all(configured, world.ports) == []
    return len(world.jobs.started), sum(world.ledger.route(name).committed_batches for name in configured)


def test_twenty_quiet_routes_need_one_driver():
    alone, batches = jobs_in_an_hour("")
    assert alone >= batches > 90
    shared, more_batches = jobs_in_an_hour("code")
    assert shared < 12, "one at a time, each ten minutes, and a few until they are in step"
    assert more_batches < 1.5 * batches


def test_a_trickle_keeps_no_worker_that_its_route_could_do_without(world: World):
    """A route that gathers for an hour, an upload every 9 seconds: the worker ends, and the next one comes in time."""
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=3_600))
    arrives(world, "flights/00000-")
    world.clock.advance(3_600)
    assert settle_all(world.routes, world.ports) == []
    ((first, _, _),) = world.jobs.started
    began = world.clock()

    def goes_on() -> None:
        if world.clock() % 9 == 0:
            arrives(world, f"flights/{world.clock()}-")
        settle_all(world.routes, world.ports)

    driver = Driver(world, f"{first}-1", naps=goes_on)
    assert driver.run() == 0
    assert 1 < len(driver.made) < 4, "what came meanwhile landed in seconds"
    assert world.clock() - began <= STAY + 2
    assert world.record.open_batch or not world.record.unfinished


def test_a_trickle_that_would_need_a_start_each_time_keeps_its_worker(world: World):
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=STAY))
    first = world.submitted()
    ends = world.clock() + 100

    def goes_on() -> None:
        if world.clock() % 5 == 0 and world.clock() < ends:
            arrives(world, f"flights/{world.clock()}-")
        settle_all(world.routes, world.ports)

    driver = worker_of(world, first, naps=goes_on)
    assert driver.run() == 0
    assert len(driver.made) > 15
    assert len(world.jobs.started) == 1


def test_a_trickle_after_a_burst_keeps_one_of_the_workers_that_took_the_burst(world: World):
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=STAY))
    took = Driver(world, "a")
    first = took.taking
    first._say()
    began, ends = world.clock(), world.clock() + 100

    def goes_on() -> None:
        if world.clock() % 5 == 0 and world.clock() < ends:
            arrives(world, f"flights/{world.clock()}-")
        settle_all(world.routes, world.ports)
        if offer := first._take():
            first._serve(offer)
        first._say()

    second = Driver(world, "b", naps=goes_on)
    assert second.run() == 0
    assert (second.made, len(took.made) >= 2) == ([], True)
    assert world.clock() - began <= STAY + 2
    assert not world.jobs.started


def test_what_the_first_worker_that_waits_does_not_take_another_takes(world: World):
    Driver(world, "a").lives()
    offered = world.submitted()
    taken: list[int] = []
    driver = Driver(world, "b", does=lambda batch: taken.append(world.clock() - batch.submitted_at) or 0)
    assert driver.run() == 0
    assert (driver.made, taken) == ([offered.id], [GIVES_WAY])


# ---- a worker that is always there


@pytest.fixture
def always(world: World) -> World:
    world.jobs.stay = ALWAYS
    return world


def settled(world: World) -> list[str]:
    """The workers that settling has started for no batch."""
    assert settle_all(world.routes, world.ports) == []
    return [batch for batch, _, _ in world.jobs.started if batch.startswith("always-")]


def test_one_worker_is_always_there_and_the_next_is_started_before_it_takes_no_more(always: World):
    (first,) = settled(always)
    assert settled(always) == [first], "it is queued"
    driver, until = Driver(always, first), always.clock() + always.jobs.takes_for
    driver.lives(until=until)
    always.clock.advance(always.jobs.takes_for - HANDOVER - 1)
    driver.lives(until=until)
    assert settled(always) == [first]
    always.clock.advance(1)
    driver.lives(until=until)
    assert len(settled(always)) == 2
    assert len(settled(always)) == 2


def test_a_worker_that_died_is_replaced(always: World):
    (first,) = settled(always)
    Driver(always, first).lives()
    always.clock.advance(SOON)
    assert settled(always) == [first]
    always.jobs.runs[first] = JobReport(JobState.ENDED)
    always.clock.advance(60)
    assert len(settled(always)) == 2


@pytest.mark.parametrize("skew", [-3_600, -31, 31, 3_600])
def test_a_worker_whose_clock_differs_is_not_started_again(always: World, skew: int):
    (first,) = settled(always)
    driver, until = Driver(always, first), always.clock() + always.jobs.takes_for
    for _ in range(50):
        always.clock.advance(60)
        driver.lives(seen_at=always.clock() + skew, until=until + skew)
        assert settled(always) == [first]


def test_a_worker_that_was_queued_for_long_and_runs_now_is_not_started_again(always: World):
    (first,) = settled(always)
    always.clock.advance(SOON)
    always.jobs.runs[first] = JobReport(JobState.ACTIVE, running=True)
    for _ in range(3):
        assert settled(always) == [first]
        always.clock.advance(60)
        Driver(always, first).lives()


def test_a_worker_whose_code_was_replaced_ends_once_nothing_is_left_for_it(always: World):
    offered = always.submitted()
    (first,) = settled(always)
    always.clock.advance(60)
    always.jobs.code = "newer"
    second = settled(always)[-1]
    always.jobs.code = "code"
    assert second > first
    began, driver = always.clock(), Driver(always, first)
    assert driver.run() == 0
    assert (driver.made, always.clock()) == ([offered.id], began)


def test_while_one_is_queued_no_other_is_started_however_long_that_takes(always: World):
    (first,) = settled(always)
    always.clock.advance(5 * always.jobs.takes_for)
    assert settled(always) == [first]


def test_after_code_was_taken_back_its_worker_is_started_anew(always: World):
    """The first one ends when it is free: a later one runs other code."""
    settled(always)
    always.clock.advance(60)
    always.jobs.code = "newer"
    settled(always)
    always.clock.advance(60)
    always.jobs.code = "code"
    assert len(settled(always)) == 3
    assert len(settled(always)) == 3


def test_workers_that_die_at_once_again_and_again_are_a_trouble(always: World):
    told = []
    for _ in range(20):
        told.append([str(each) for each in settle_all(always.routes, always.ports)])
        for run in always.jobs.runs:
            always.jobs.runs[run] = JobReport(JobState.ENDED, "no such image")
        always.clock.advance(SCHEDULE)
    assert told[:6] == [[]] * 6, "one may"
    assert all("ended at once: no such image" in one for (one,) in told[7:])
    assert len(always.ledger.pool().workers) <= 4


def test_a_worker_for_a_batch_is_not_the_one_that_is_always_there(always: World):
    batch = always.submitted()
    worker_of(always, batch).lives()
    assert len(settled(always)) == 1


def test_a_worker_that_runs_and_never_says_so_is_not_counted_on(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    world.jobs.runs[first.job_run] = JobReport(JobState.ACTIVE, running=True)
    world.clock.advance(SOON)
    for _ in range(2):
        settle_all(world.routes, world.ports)
    assert world.batch(second.id).job_run == f"{second.id}/1"
    world.clock.advance(SMALL_PATIENCE)
    settle_all(world.routes, world.ports)
    assert world.batch(first.id).attempt == 2


def test_a_worker_that_has_just_begun_to_run_is_counted_on_although_it_has_not_spoken(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    world.jobs.runs[first.job_run] = JobReport(JobState.ACTIVE, running=True)
    world.clock.advance(SOON - 1)
    for _ in range(2):
        settle_all(world.routes, world.ports)
    assert world.batch(second.id).job_run == ""


def test_a_worker_for_no_batch_that_died_at_once_keeps_no_batch_waiting(always: World):
    (first,) = settled(always)
    offered = always.submitted()
    assert offered.job_run == "", "the one that is queued will take it"
    always.jobs.runs[first] = JobReport(JobState.ENDED, "killed")
    always.clock.advance(SCHEDULE)
    settled(always)
    assert len(settled(always)) == 1
    assert always.batch(offered.id).job_run == f"{offered.id}/1"


def test_a_queued_worker_that_nobody_can_ask_for_keeps_no_other_from_being_asked(always: World):
    always.ledger.note_started(
        Worker("01A-1", "code", "unknown", started_at=always.clock() - SOON, until=always.clock() + 2)
    )
    troubles = settle_all(always.routes, always.ports)
    assert [type(each) for each in troubles] == [KeyError]
    assert len(always.jobs.started) == 1


def test_early_batches_alone_keep_no_worker_beyond_its_stay(world: World):
    """Each is sealed when the one before it lands, before the worker looks again."""
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=3_600))
    began = world.clock()

    def takes_long(batch: Batch) -> int:
        world.clock.advance(6)
        play_publishing(world.work, batch.id, snapshot=int(batch.id[3:]) * 10)
        arrives(world, f"flights/{world.clock()}-")
        driver.lives(batch.id, small=True, until=0 if taking.stayed else world.clock() + 3_600)
        settle_all(world.routes, world.ports)
        return 0

    driver = Driver(world, "w", does=takes_long)
    taking = driver.taking
    driver.lives()
    arrives(world, "flights/first-")
    assert taking.run() == 0
    assert world.clock() - began < 4 * STAY


def test_a_worker_that_cannot_start_is_tried_again_every_few_minutes(always: World):
    (first,) = settled(always)
    always.jobs.runs[first] = JobReport(JobState.ENDED, "no such image")
    for _ in range(4):
        always.clock.advance(60)
        assert settled(always) == [first]
    always.clock.advance(SOON - 4 * 60)
    assert len(settled(always)) == 2


def test_no_worker_is_there_for_routes_that_take_nothing(always: World):
    for name in always.routes:
        always.ledger.pause(name)
    assert settled(always) == []


def test_a_worker_that_is_always_there_takes_what_arrives_at_once(always: World):
    slow(always)
    (first,) = settled(always)
    driver = Driver(always, first)
    driver.lives()
    arrives(always, "flights/a")
    assert (driver.run(), len(driver.made)) == (0, 1)
    assert len(always.jobs.started) == 1


def test_what_arrives_before_it_runs_is_there_for_it_when_it_does(always: World):
    slow(always)
    (first,) = settled(always)
    arrives(always, "flights/a")
    arrives(always, "flights/b")
    assert always.record.open_batch, "it has something to do, so this gathers"
    driver = Driver(always, first)
    assert (driver.run(), len(driver.made)) == (0, 1)


def test_a_worker_that_cannot_be_started_is_told(always: World):
    refused = replace(always.ports, jobs=Troubled(always.jobs, "start_worker", "the quota"))  # type: ignore[arg-type]
    assert [str(each) for each in settle_all(always.routes, refused)] == ["the quota"]


def test_a_worker_that_is_at_one_batch_for_long_is_not_counted_on_however_often_it_says_so(world: World):
    first = world.submitted()
    beats: list[Callable[[], None]] = []

    def takes_long(batch: Batch) -> int:
        if batch.id == first.id:
            world.clock.advance(SOON)
            beats[0]()
            world.submitted(prefix="flights/b")
        return 0

    taking = worker_of(world, first, does=takes_long).taking
    taking.beats = lambda beat: beats.append(beat) or nullcontext()  # type: ignore[func-returns-value]
    assert taking.run() == 0
    assert len(world.jobs.started) == 2


def test_a_worker_that_failed_is_not_counted_on(world: World):
    first = world.submitted()
    assert worker_of(world, first, does=lambda batch: 1).run() == 1
    second = world.submitted(prefix="flights/b")
    assert second.job_run == f"{second.id}/1"


def test_what_is_offered_to_older_code_keeps_nothing_from_a_worker_that_waits(world: World):
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=600))
    world.submitted()
    world.jobs.code = "newer code"
    now = world.clock()
    world.ledger.note_alive(Worker("w", "newer code", until=now + 3_600, seen_at=now))
    arrives(world, "flights/b")
    assert not world.record.open_batch


def test_a_batch_whose_own_worker_is_queued_for_long_is_not_attempted_again(world: World):
    batch = world.submitted()
    world.clock.advance(SMALL_PATIENCE)
    assert settle_all(world.routes, world.ports) == []
    assert (world.batch(batch.id).attempt, len(world.jobs.started)) == (1, 1)


def test_a_worker_that_is_always_there_does_not_end_because_of_an_older_one_of_other_code(always: World):
    always.jobs.code = "older"
    settled(always)
    always.clock.advance(60)
    always.jobs.code = "code"
    second = settled(always)[-1]
    began = always.clock()
    assert Driver(always, second).run() == 0
    assert always.clock() - began == STAY


def test_a_worker_that_leaves_before_it_offers_is_not_counted_on(world: World):
    """It has looked for the last time, so hand-off has to look after it has offered."""
    Driver(world, "w").lives()
    batch = world.sealed()

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(world.ledger, name)

        def offer(self, offered: Any) -> None:
            world.ledger.leave("w")
            world.ledger.offer(offered)

    assert hand_off_sealed(world.flights, replace(world.ports, ledger=Slow())) == 1  # type: ignore[arg-type]
    assert world.jobs.started == [(batch.id, 1, False)]


def test_a_queued_worker_that_will_take_no_more_lets_no_batch_wait_for_the_busy_ones(world: World):
    world.jobs.runs["q"] = JobReport(JobState.ACTIVE)
    now = world.clock()
    world.ledger.note_started(Worker("01Q-1", "code", "q", started_at=now, until=now + SOON))
    Driver(world, "w").lives()
    batch = world.submitted()
    world.clock.advance(SOON)
    Driver(world, "w").lives("01OTHER")
    world.settle()
    assert world.jobs.started == [(batch.id, 1, False)]


def test_what_another_worker_has_taken_waits_for_none(world: World):
    Driver(world, "busy").lives()
    first = large(world, "flights/a")
    world.ledger.take(first.id, "busy")
    Driver(world, "busy").lives(first.id, small=False)
    Driver(world, "idle").lives()
    large(world, "flights/b")
    assert world.jobs.started == []


def test_an_offer_that_is_withdrawn_while_it_is_taken_is_not_taken(world: World):
    batch = world.submitted()
    world.ledger.withdraw(batch.id)
    assert not world.ledger.take(batch.id, "w")
    assert world.ledger.pool().offers == ()


def test_a_worker_that_runs_and_never_says_so_is_not_counted_on_from_the_look_that_finds_it(world: World):
    first = world.submitted()
    world.jobs.runs[f"{first.id}/1"] = replace(world.jobs.runs[f"{first.id}/1"], running=True)
    world.clock.advance(SOON)
    settle_all(world.routes, world.ports)
    assert world.submitted(prefix="flights/b").job_run

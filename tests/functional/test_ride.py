"""A batch rides in the job of another one; and the job's side of it, with its seats."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.build import BUCKET, route, uploads
from tests.support.fakes import Died, Life, MemoryWork, every_death, play_giving_up, play_publishing
from tests.support.world import World, small_world
from tidegate.core.batches import Batch, JobState, State
from tidegate.core.errors import Retryable
from tidegate.core.notices import pack
from tidegate.core.records import batch_key
from tidegate.core.routes import decode_dataset
from tidegate.core.seats import (
    CLOSED,
    LATEST_IN,
    LONGEST_SHARED,
    MOST_SEATS,
    RIDER_PATIENCE,
    SMALL_BYTES,
    TO_A_SEAT,
    Seat,
    SharedJob,
    decode_seat,
    seat_name,
    seats_folder,
)
from tidegate.flows.dispatch import dispatch
from tidegate.flows.hand_off import hand_off_sealed, start_job
from tidegate.flows.ports import JobReport
from tidegate.flows.seal import ensure_manifest
from tidegate.flows.settle import advance_each, settle_all
from tidegate.flows.take_along import Seats
from tidegate.metrics import Metric


@pytest.fixture
def world() -> World:
    made = small_world(in_flight=500)
    made.jobs.code = "code"
    return made


def seats_in(world: World, batch: Batch) -> list[Seat | None]:
    names = sorted(world.work.names(seats_folder(batch.id, 1)))
    bodies = [world.work.get(name) for name in names]
    return [decode_seat(body) for body in bodies if body]


def test_the_second_batch_gets_a_seat_in_the_job_of_the_first(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    assert world.jobs.started == [(first.id, 1, False)]
    assert (second.state, second.attempt, second.job_run, second.rides) == (State.SUBMITTED, 1, first.job_run, True)
    (seat,) = seats_in(world, first)
    assert seat is not None
    assert (seat.batch, seat.digest, seat.last, seat.small) == (second.id, second.manifest, False, True)
    assert seat.line == (first.id,)
    assert decode_dataset(seat.dataset) == world.flights.dataset
    assert world.count.of(Metric.JOBS_STARTED, "flights") == 1


def test_every_further_batch_gets_the_next_seat(world: World):
    first = world.submitted()
    others = [world.submitted(prefix=f"flights/{number}-").id for number in range(3)]
    assert [seat.batch for seat in seats_in(world, first) if seat] == others


def test_without_a_shared_job_each_batch_has_one_of_its_own(world: World):
    world.jobs.code = ""
    for name in "ab":
        world.submitted(prefix=f"flights/{name}")
    assert len(world.jobs.started) == 2
    assert world.ledger.shared_job() is None


def test_a_job_of_other_code_takes_nothing_along(world: World):
    first = world.submitted()
    world.jobs.code = "newer code"
    world.submitted(prefix="flights/b")
    assert len(world.jobs.started) == 2
    assert seats_in(world, first) == []


def test_a_job_that_has_ended_takes_nothing_along(world: World):
    first = world.submitted()
    world.jobs.end(first.id, 1)
    world.submitted(prefix="flights/b")
    assert len(world.jobs.started) == 2


def test_a_job_that_has_closed_takes_nothing_along(world: World):
    first = world.submitted()
    world.work.put(seat_name(seats_folder(first.id, 1), 1), CLOSED)
    second = world.submitted(prefix="flights/b")
    assert second.job_run == f"{second.id}/1"
    assert seats_in(world, first) == [None]


def test_a_job_that_closes_meanwhile_takes_nothing_along(world: World):
    first = world.submitted()
    real = world.work.put_if_absent

    def closed_first(name: str, body: bytes) -> bool:
        if "/seats/" in name:
            world.work.put(name, CLOSED)
        return real(name, body)

    world.work.put_if_absent = closed_first  # type: ignore[method-assign]
    second = world.submitted(prefix="flights/b")
    assert second.job_run == f"{second.id}/1"
    assert seats_in(world, first) == [None]


def test_a_job_takes_batches_along_for_an_hour(world: World):
    first = world.submitted()
    play_publishing(world.work, first.id)
    world.settle()
    world.clock.advance(LONGEST_SHARED)
    second = world.submitted(prefix="flights/b")
    assert second.job_run == f"{second.id}/1"


def test_nothing_gets_in_line_behind_what_may_be_stuck(world: World):
    world.submitted()
    world.clock.advance(LATEST_IN)
    assert not world.submitted(prefix="flights/b").rides


def test_it_is_the_first_in_line_that_may_be_stuck(world: World):
    first = world.submitted()
    for number in range(10):
        world.clock.advance(60)
        world.submitted(prefix=f"flights/{number}-")
    # those that came later have the next job: nobody stands in line for half an hour
    assert len(seats_in(world, first)) == LATEST_IN // 60 - 1
    assert len(world.jobs.started) == 3


def test_nothing_rides_in_a_job_that_lost_a_batch(world: World):
    """The job hangs; what was in it landed elsewhere. That it has ended says nothing about the job."""
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    world.clock.advance(RIDER_PATIENCE)
    world.settle()
    play_publishing(world.work, second.id)
    world.settle()
    assert world.batch(second.id).state is State.COMMITTED
    world.ledger.note_shared_job(
        SharedJob(first.id, 1, first.job_run, "code", world.clock(), until=world.clock() + 1_000, latest=first.id)
    )
    third = world.submitted(prefix="flights/c")
    assert third.job_run == f"{third.id}/1"


def test_a_batch_that_has_one_attempt_only_has_a_job_of_its_own():
    world = small_world(in_flight=2, attempts=1)
    world.jobs.code = "code"
    for name in "ab":
        world.submitted(prefix=f"flights/{name}")
    assert len(world.jobs.started) == 2
    assert world.ledger.shared_job() is None


@pytest.mark.parametrize("port", ["jobs", "work", "ledger"])
def test_trouble_with_the_shared_job_means_a_job_of_its_own(world: World, port: str):
    world.submitted()
    batch = world.sealed(prefix="flights/b")
    real = getattr(world.ports, port)

    class Troubled:
        def __getattr__(self, name: str) -> Any:
            if name in ("report", "shared_job") or (name == "names" and self.seats):
                raise Retryable("denied")
            return getattr(real, name)

        seats = False

    troubled = Troubled()
    ensure_manifest(batch, world.ports)
    troubled.seats = True
    assert hand_off_sealed(world.flights, replace(world.ports, **{port: troubled})) == 1
    assert world.batch(batch.id).job_run == f"{batch.id}/1"


def test_a_job_has_so_many_seats(world: World):
    first = world.submitted()
    play_publishing(world.work, first.id)
    world.settle()
    for number in range(1, MOST_SEATS + 1):
        world.work.put(seat_name(seats_folder(first.id, 1), number), Seat(first.id, "", False, "", "", True).encode())
    second = world.submitted(prefix="flights/b")
    assert second.job_run == f"{second.id}/1"


def test_a_large_batch_gets_into_a_job_that_has_nothing_to_do_and_in_line_behind_none(world: World):
    def large(prefix: str) -> Batch:
        batch = world.sealed(prefix=prefix)
        ensure_manifest(batch, world.ports)
        world.edit(batch_key(batch.id), bytes=SMALL_BYTES + 1)
        assert world.hand_off() == 1
        return world.batch(batch.id)

    first = world.submitted()
    in_line = large("flights/b")
    assert in_line.job_run == f"{in_line.id}/1"
    # that job is the one that counts now
    assert not world.submitted(prefix="flights/c").rides, "nothing gets in line behind a large batch"

    world = small_world(in_flight=500)
    world.jobs.code = "code"
    first = world.submitted()
    play_publishing(world.work, first.id)
    world.settle()
    rides = large("flights/b")
    assert (rides.job_run, rides.rides) == (first.job_run, True)


def test_a_later_attempt_has_a_job_of_its_own(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    play_publishing(world.work, first.id)
    play_giving_up(world.work, second.id, 1, "a reason", hopeless=False)
    world.settle()
    assert world.batch(second.id).attempt == 1, "its job goes on"
    world.jobs.end(first.id, 1)
    world.wait()
    world.settle()
    again = world.batch(second.id)
    assert (again.attempt, again.job_run, again.rides) == (2, f"{second.id}/2", False)


def test_a_job_that_dies_costs_each_of_its_batches_an_attempt(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    world.jobs.end(first.id, 1, "out of memory")
    world.wait()
    world.settle()
    for batch in (first, second):
        assert world.batch(batch.id).job_run == f"{batch.id}/2"


def test_what_waits_in_line_for_too_long_has_a_job_of_its_own(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    world.clock.advance(RIDER_PATIENCE - 1)
    world.settle()
    assert world.batch(second.id).attempt == 1
    world.clock.advance(1)
    world.settle()
    assert world.batch(second.id).job_run == f"{second.id}/2"
    assert world.batch(first.id).attempt == 1, "it has had the job all the time"


def test_settling_a_batch_that_rode_is_as_any_other(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    for batch in (first, second):
        play_publishing(world.work, batch.id, snapshot=int(batch.id[3:]) * 10)
    assert world.settle() == []
    assert world.batch(second.id).state is State.COMMITTED


def half_ridden() -> tuple[World, Batch, Batch]:
    """A batch whose job runs, and a sealed one."""
    world = small_world(in_flight=2)
    world.jobs.code = "code"
    return world, world.submitted(), world.sealed(prefix="flights/b")


def test_whenever_hand_off_dies_the_batch_gets_one_seat():
    living = Life()
    world, *_ = half_ridden()
    hand_off_sealed(world.flights, living.over(world.ports))
    for life in every_death(living.made):
        world, first, batch = half_ridden()
        with pytest.raises(Died):
            hand_off_sealed(world.flights, life.over(world.ports))
        world.settle()
        assert world.batch(batch.id).job_run == first.job_run, life.names
        assert [seat.batch for seat in seats_in(world, first) if seat] == [batch.id], life.names


def test_whenever_hand_off_dies_with_a_new_job_the_batch_has_one():
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
        assert world.batch(batch.id).job_run == f"{batch.id}/1"
        assert len(world.jobs.started) == 1


def test_twins_give_a_batch_one_seat(world: World):
    first = world.submitted()
    second = world.submitted(prefix="flights/b")
    start_job(world.flights, replace(second, job_run=""), world.ports)
    assert [seat.batch for seat in seats_in(world, first) if seat] == [second.id]


def test_a_job_whose_state_cannot_be_told_is_not_ridden(world: World):
    first = world.submitted()
    world.jobs.runs[first.job_run] = JobReport(JobState.UNKNOWN)
    assert world.submitted(prefix="flights/b").job_run != first.job_run


# ---- routes that share a job


def an_hour_of(routes: int, code: str) -> tuple[int, int]:
    """(jobs, batches) of an hour of so many quiet routes, whose first uploads come at different minutes, and that wait
    for 10 minutes each. A job takes less than a minute for all of its batches."""
    names = [f"r{number:02}" for number in range(routes)]
    world = small_world()
    world.jobs.code = code
    configured = {name: route(name, max_wait=600) for name in names}
    for minute in range(60):
        for number, name in enumerate(names):
            if minute >= number % 10:
                (sent,) = pack(name, BUCKET, uploads(1, f"{name}/{minute:02}-"))
                dispatch(sent.encode(), world.ports, routes=configured)
        assert settle_all(configured, world.ports) == []
        world.clock.advance(30)
        for name in names:
            for batch in world.ledger.route(name).running:
                play_publishing(world.work, batch, snapshot=int(batch[3:]) * 10)
        for run, report in world.jobs.runs.items():
            if report.state is JobState.ACTIVE:
                world.jobs.end(*run.split("/", 1)[:1], 1)
        world.clock.advance(30)
    assert settle_all(configured, world.ports) == []
    return len(world.jobs.started), sum(world.ledger.route(name).committed_batches for name in names)


def test_twenty_quiet_routes_need_one_driver():
    alone, batches = an_hour_of(20, "")
    assert alone >= batches > 90
    shared, more_batches = an_hour_of(20, "code")
    assert shared < 12, "one at a time, each ten minutes, and a few until they are in step"
    assert more_batches < 1.5 * batches


def test_a_route_joins_in_only_if_its_batch_is_half_due_and_it_has_a_slot(world: World):
    configured = {name: route(name, max_wait=600, in_flight=1) for name in ("early", "late", "young")}

    def arrive(name: str) -> None:
        (sent,) = pack(name, BUCKET, uploads(1, f"{name}/"))
        dispatch(sent.encode(), world.ports, routes=configured)

    arrive("early")
    world.clock.advance(200)
    arrive("late")
    world.clock.advance(180)
    arrive("young")
    world.clock.advance(200)
    assert settle_all(configured, world.ports) == []
    running = {name: len(world.ledger.route(name).running) for name in configured}
    assert running == {"early": 1, "late": 1, "young": 0}
    assert len(world.jobs.started) == 1


# ---- a job that waits


def lands(world: World, batch: str) -> None:
    play_publishing(world.work, batch, snapshot=int(batch[3:]) * 10)
    assert settle_all(world.routes, world.ports) == []
    assert world.batch(batch).state is State.COMMITTED


def arrives(world: World, prefix: str) -> None:
    """A notice, and what the function does that got it."""
    for sent in pack("flights", BUCKET, uploads(1, prefix)):
        dispatch(sent.encode(), world.ports, routes=world.routes)
    assert advance_each(world.routes.values(), world.ports) == []


def test_what_arrives_while_a_job_waits_is_handed_to_it_at_once(world: World):
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=600, in_flight=1))
    first = world.submitted()
    lands(world, first.id)
    arrives(world, "flights/b")
    (second,) = world.record.running
    assert world.batch(second).job_run == first.job_run
    arrives(world, "flights/c")  # the job is busy, so this gathers until it waits again
    assert world.record.open_batch
    lands(world, second)
    assert not world.record.open_batch
    assert world.jobs.started == [(first.id, 1, False)]


@pytest.mark.parametrize(
    "why", ["too late", "it has ended", "it has closed", "nobody knows it", "jobs take nothing along"]
)
def test_what_arrives_when_no_job_waits_gathers(world: World, why: str):
    world.flights = replace(world.flights, limits=replace(world.flights.limits, max_wait=600))
    first = world.submitted()
    lands(world, first.id)
    match why:
        case "too late":
            world.clock.advance(world.jobs.linger - TO_A_SEAT)
        case "it has ended":
            world.jobs.end(first.id, 1)
        case "it has closed":
            world.work.put(seat_name(seats_folder(first.id, 1), 1), CLOSED)
        case "nobody knows it":
            world.jobs.runs[first.job_run] = JobReport(JobState.UNKNOWN)
        case _:
            world.jobs.code = ""
    arrives(world, "flights/b")
    assert world.record.open_batch


# ---- the job's side


@dataclass
class Time:
    now: float = 1_000.0
    naps: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.now += seconds


FOLDER = seats_folder("01A", 1)
SEAT = Seat("01B", "digest", False, "{}", "", True)


def taking(work: MemoryWork, time: Time, linger: int = 5) -> Seats:
    return Seats(work, FOLDER, linger, now=time, sleep=time.sleep, until=time.now + 100)


def test_a_job_takes_what_is_there_at_once():
    work, time = MemoryWork(), Time()
    for number in (1, 2):
        work.put(seat_name(FOLDER, number), replace(SEAT, batch=f"01B{number}").encode())
    seats = taking(work, time)
    found = [seats.next(more=True) for _ in range(2)]
    assert [seat.batch for seat in found if seat] == ["01B1", "01B2"]
    assert time.naps == []


def test_a_job_waits_a_moment_and_closes():
    work, time = MemoryWork(), Time()
    assert taking(work, time).next(more=True) is None
    assert sum(time.naps) == 5
    assert work.get(seat_name(FOLDER, 1)) == CLOSED


def test_a_job_that_has_failed_waits_for_nothing_and_takes_what_is_there():
    work, time = MemoryWork(), Time()
    work.put(seat_name(FOLDER, 1), SEAT.encode())
    seats = taking(work, time)
    assert seats.next(more=False) == SEAT
    assert seats.next(more=False) is None
    assert time.naps == []


def test_an_old_job_closes_without_waiting():
    work, time = MemoryWork(), Time()
    seats = taking(work, time)
    time.now += 100
    assert seats.next(more=True) is None
    assert time.naps == []


def test_a_batch_that_comes_while_the_job_waits_is_taken():
    work, time = MemoryWork(), Time()
    seats = taking(work, time)

    def comes(seconds: float) -> None:
        time.sleep(seconds)
        if len(time.naps) == 3:
            work.put_if_absent(seat_name(FOLDER, 1), SEAT.encode())

    seats.sleep = comes
    assert seats.next(more=True) == SEAT


def test_a_batch_that_comes_while_the_job_closes_is_taken():
    work, time = MemoryWork(), Time()
    real = work.put_if_absent

    def faster(name: str, body: bytes) -> bool:
        real(name, SEAT.encode())
        return real(name, body)

    work.put_if_absent = faster  # type: ignore[method-assign]
    assert taking(work, time).next(more=True) == SEAT


def test_a_twin_of_the_driver_that_has_closed_ends_both():
    work, time = MemoryWork(), Time()
    work.put(seat_name(FOLDER, 1), CLOSED)
    assert taking(work, time).next(more=True) is None
    assert time.naps == []

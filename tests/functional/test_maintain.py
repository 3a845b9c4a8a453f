"""The flow that has tables maintained: which floors it asks to keep, one job a period, and each result counted once."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.fakes import Died, Life, MemoryWork, every_death
from tests.support.world import World, small_world
from tidegate.core.batches import JobState
from tidegate.core.errors import Retryable
from tidegate.core.maintenance import (
    CompleteMaintenance,
    MaintainedTable,
    MaintainLimits,
    UnfinishedFloors,
    decode_maintenance_request,
    maintenance_folder,
    scheduled_run,
)
from tidegate.core.manifests import batch_folder, floor_name
from tidegate.core.publication import Floor
from tidegate.core.receipts import encode_floor
from tidegate.flows.maintain import (
    MaintenanceLook,
    maintain_now,
    maintain_on_schedule,
    request_maintenance,
    unfinished_floors,
)
from tidegate.flows.ports import JobReport, Ports
from tidegate.metrics import Metric

DAY = 86_400
LIMITS = MaintainLimits(5 * DAY, 100, 7 * DAY, 10**9)
TABLE = "lake.flights.departures"
GOOD = CompleteMaintenance((MaintainedTable(TABLE, compacted=3),))
BAD = CompleteMaintenance((MaintainedTable(TABLE), MaintainedTable("lake.a.b", trouble="no"), MaintainedTable("c")))


@dataclass
class MemoryMaintenance:
    """Starts jobs that tests play. It knows its client tokens."""

    world: World
    started: list[str] = field(default_factory=list)
    code: str = "first"
    """What a deployment has put in place of the job's script."""
    tokens: dict[str, str] = field(default_factory=dict)

    def start(self, run: str) -> str:
        self.started.append(run)
        if self.tokens.setdefault(run, self.code) != self.code:
            raise Retryable("could not start the job that maintains the tables: ConflictException")
        self.world.jobs.runs.setdefault(f"job-{run}", JobReport(JobState.ACTIVE))
        return f"job-{run}"

    def end(self, run: str, done: CompleteMaintenance | None = None, reason: bytes = b"") -> None:
        if done:
            self.world.work.put(f"{maintenance_folder(run)}complete.json", done.encode())
        if reason:
            self.world.work.put(f"{maintenance_folder(run)}failure.json", reason)
        self.world.jobs.runs[f"job-{run}"] = JobReport(JobState.ENDED)


@pytest.fixture
def world() -> World:
    world = small_world(in_flight=2)
    world.work = MemoryWork()  # type: ignore[assignment]
    return world


@pytest.fixture
def maintenance(world: World) -> MemoryMaintenance:
    return MemoryMaintenance(world)


def look(world: World, maintenance: MemoryMaintenance, ports: Ports | None = None, **given: Any) -> list[Any]:
    named = {"tables": (TABLE,), "limits": LIMITS, "every": DAY, **given}
    tables, limits, every = named["tables"], named["limits"], named["every"]
    return maintain_on_schedule(
        tables,
        limits,
        every,
        ports or world.ports,
        maintenance,
        routes=world.routes,
        asked_for=named.get("asked_for", ()),
    )


def floor(world: World, batch: str, number: int, head: int) -> Floor:
    found = Floor("uuid", head)
    world.work.put(batch_folder(batch) + floor_name(number), encode_floor(found))
    return found


def current(world: World) -> str:
    return scheduled_run(world.clock(), DAY)


def not_maintained(world: World) -> int:
    return world.count[Metric.TABLES_NOT_MAINTAINED]


def test_the_floors_of_all_unfinished_batches_are_asked_for_and_of_no_other(world: World) -> None:
    running, other = world.submitted(), world.submitted(prefix="flights/b/")
    halted = [floor(world, running.id, number, 10 + number) for number in range(2)]
    theirs = floor(world, other.id, 0, 7)
    waiting = world.sealed(prefix="flights/c/")
    floor(world, "01ENDED", 0, 1)
    found = {each.batch: each.floors for each in unfinished_floors(world.routes, world.ports)}
    assert found == {running.id: tuple(halted), other.id: (theirs,)}
    # begun before it was handed off, as a restored ledger may see it
    early = floor(world, waiting.id, 0, 5)
    assert UnfinishedFloors(waiting.id, (early,)) in list(unfinished_floors(world.routes, world.ports))


def test_a_route_that_only_the_ledger_knows_is_asked_for_too(world: World) -> None:
    running = world.submitted()
    floor(world, running.id, 0, 1)
    assert [each.batch for each in unfinished_floors((), world.ports)] == [running.id]


def test_the_time_is_noted_before_anything_is_read(world: World) -> None:
    """A floor that is written while the lists are read must be younger than the request's time."""
    world.submitted()
    noted = []
    ports = replace(world.ports, clock=lambda: noted.append(True) or world.clock())  # type: ignore[func-returns-value]

    def get(name: str, real: Any = world.work.get) -> bytes | None:
        assert noted or not name.startswith("batches/")
        found: bytes | None = real(name)
        return found

    world.work.get = get  # type: ignore[method-assign]
    request = request_maintenance((TABLE,), LIMITS, replace(ports, work=world.work))
    assert (request.at, noted) == (world.clock(), [True])


def test_a_job_is_started_once_a_period_and_its_result_is_counted_once(
    world: World, maintenance: MemoryMaintenance
) -> None:
    run = current(world)
    assert look(world, maintenance) == [MaintenanceLook(run, f"job-{run}")]
    world.clock.advance(60)
    assert look(world, maintenance) == [MaintenanceLook(run, f"job-{run}")]
    maintenance.end(run, BAD)
    (found,) = look(world, maintenance)
    assert found.done == BAD
    assert not_maintained(world) == 1
    assert look(world, maintenance) == []
    assert not_maintained(world) == 1
    assert set(maintenance.started) == {run}
    world.clock.advance(DAY)
    assert [each.run for each in look(world, maintenance)] == [current(world)]


def test_what_is_asked_is_written_once_and_kept(world: World, maintenance: MemoryMaintenance) -> None:
    run = current(world)
    look(world, maintenance)
    body = world.work.get(f"{maintenance_folder(run)}request.json")
    batch = world.submitted()
    floor(world, batch.id, 0, 3)
    look(world, maintenance, limits=replace(LIMITS, keep_for=DAY), tables=("lake.a.b",))
    assert body is not None
    assert world.work.get(f"{maintenance_folder(run)}request.json") == body
    request = decode_maintenance_request(body)
    assert (request.tables, request.limits, request.unfinished, request.dry_run) == ((TABLE,), LIMITS, (), False)


@pytest.mark.parametrize(("reason", "told"), [(b"", "it left no reason"), (b'{"reason": "no memory"}', "no memory")])
def test_a_job_that_ends_without_a_result_has_failed(
    world: World, maintenance: MemoryMaintenance, reason: bytes, told: str
) -> None:
    run = current(world)
    look(world, maintenance)
    maintenance.end(run, reason=reason)
    assert look(world, maintenance) == [MaintenanceLook(run, f"job-{run}", failure=told)]
    assert not_maintained(world) == 1
    assert look(world, maintenance) == []


def test_a_result_that_nobody_has_seen_is_reported_in_the_next_period(
    world: World, maintenance: MemoryMaintenance
) -> None:
    run = current(world)
    look(world, maintenance)
    maintenance.end(run, BAD)
    world.clock.advance(DAY)
    assert [each.run for each in look(world, maintenance)] == [run, current(world)]
    assert not_maintained(world) == 1


def test_a_deployment_while_a_job_runs_changes_nothing_for_that_job(
    world: World, maintenance: MemoryMaintenance
) -> None:
    run = current(world)
    look(world, maintenance)
    maintenance.code = "second"
    assert look(world, maintenance) == [MaintenanceLook(run, f"job-{run}")]
    maintenance.end(run, reason=b'{"reason": "no memory"}')
    assert look(world, maintenance) == [MaintenanceLook(run, f"job-{run}", failure="no memory")]
    assert maintenance.started == [run]


def test_a_run_whose_job_nobody_can_ask_for_does_not_keep_the_next_from_starting(
    world: World, maintenance: MemoryMaintenance
) -> None:
    """The function died before it noted the id, and then the code changed."""
    run = current(world)
    look(world, maintenance)
    del world.work.objects[f"{maintenance_folder(run)}job.json"]
    maintenance.code = "second"
    world.clock.advance(DAY)
    with pytest.raises(Retryable, match="ConflictException"):
        look(world, maintenance)
    assert maintenance.started[-1] == current(world)
    maintenance.end(current(world), GOOD)
    with pytest.raises(Retryable, match="ConflictException"):
        look(world, maintenance)
    assert world.work.get(f"{maintenance_folder(current(world))}reported.json")
    maintenance.end(run, BAD)
    assert [each.run for each in look(world, maintenance)] == [run]


def test_a_table_that_three_runs_left_behind_is_counted_as_not_maintained(
    world: World, maintenance: MemoryMaintenance
) -> None:
    late = CompleteMaintenance((MaintainedTable(TABLE, behind=True), MaintainedTable("lake.a.b")))
    found = []
    for done in (late, late, GOOD, late, late, late, BAD):
        look(world, maintenance)
        maintenance.end(current(world), done)
        (told,) = look(world, maintenance)
        found.append((told.behind, not_maintained(world), world.count[Metric.TABLES_BEHIND]))
        world.clock.advance(DAY)
    none: tuple[str, ...] = ()
    assert found == [
        (none, 0, 1),
        (none, 0, 2),
        (none, 0, 2),
        (none, 0, 3),
        (none, 0, 4),
        ((TABLE,), 1, 5),
        (none, 2, 6),
    ]


def test_each_period_asks_for_the_tables_in_another_order(world: World, maintenance: MemoryMaintenance) -> None:
    orders = []
    for _ in range(3):
        look(world, maintenance, tables=("lake.a.a", "lake.a.b", "lake.a.c"), asked_for=("lake.a.b",))
        body = world.work.get(f"{maintenance_folder(current(world))}request.json")
        assert body is not None
        request = decode_maintenance_request(body)
        assert request.asked_for == ("lake.a.b",)
        orders.append(request.tables[0])
        maintenance.end(current(world), GOOD)
        world.clock.advance(DAY)
    assert sorted(orders) == ["lake.a.a", "lake.a.b", "lake.a.c"]


def test_nothing_is_started_where_nothing_is_maintained(world: World, maintenance: MemoryMaintenance) -> None:
    assert look(world, maintenance, tables=()) == []
    assert maintenance.started == []


@pytest.mark.parametrize("life", every_death(14), ids=lambda life: f"{life.calls}{'+' * life.after}")
def test_whenever_it_dies_one_job_runs_and_its_failure_is_counted(life: Life) -> None:
    there = small_world()
    there.work = MemoryWork()
    maintenance = MemoryMaintenance(there)
    ports = replace(
        there.ports, work=life.wrap(there.work), measure=life.wrap(SimpleNamespace(count=there.count)).count
    )
    run = current(there)
    for _ in range(3):
        with suppress(Died):
            look(there, maintenance, ports)
        if run in maintenance.started:
            maintenance.end(run, BAD)
    for _ in range(2):
        look(there, maintenance)
        maintenance.end(run, BAD)
    assert set(maintenance.started) == {run}
    assert not_maintained(there) in (1, 2)
    assert look(there, maintenance) == []


def test_a_person_gets_the_result_or_the_reason(world: World, maintenance: MemoryMaintenance) -> None:
    request = request_maintenance((TABLE,), LIMITS, world.ports, dry_run=True)
    maintenance.start = lambda run: maintenance.end(run, GOOD) or "job run 1"  # type: ignore[method-assign, func-returns-value]
    assert maintain_now(request, "one", world.ports, maintenance).done == GOOD
    maintenance.start = lambda run: maintenance.end(run, reason=b'{"reason": "x"}') or "job run 2"  # type: ignore[method-assign, func-returns-value]
    assert maintain_now(request, "two", world.ports, maintenance) == MaintenanceLook("two", "job run 2", failure="x")
    body = world.work.get(f"{maintenance_folder('one')}request.json")
    assert body is not None
    assert decode_maintenance_request(body) == request


def test_a_job_that_cannot_be_started_is_started_by_the_next_look(
    world: World, maintenance: MemoryMaintenance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(run: str) -> str:
        raise Retryable("no capacity")

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "start", refused)
        with pytest.raises(Retryable):
            look(world, maintenance)
    assert [each.job for each in look(world, maintenance)] == [f"job-{current(world)}"]

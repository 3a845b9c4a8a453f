"""Maintain: have a job maintain the tables of the deployment (`tidegate.core.maintenance`), once in each period.

    step                                     if the process dies right after it     if a twin runs beside it
    1 note the time, read the routes and     nothing has happened                   each has its own
      the floors of their unfinished batches
    2 write the request, if there is none    the next look starts its job           one of the two requests counts
    3 start the job, if no id is noted       started again: EMR knows its token     the same job; or two, which harm
                                                                                    nothing (`tidegate.spark.maintain`)
    4 note the id of its run, if none is     the next look asks for this run        one of the two ids counts
    5 ask for the job, then read its result  nothing has happened                   both read it
    6 count tables that were not maintained  counted again                          counted twice
    7 note that this is reported             done                                   one notes it

**The order in 1.** The time comes first. A floor that is written after it lies at the head of then or above, and all
that is committed above that head is younger than the time: no run takes anything that young. A floor that was written
before it belongs to a batch that is SUBMITTED now, and is read; or to one that has ended, which the table has decided.
The ledger lists a batch in its route's record from before its first attempt until it has ended, and a record is read
once, consistently. A job that publishes a batch again has its floor in memory only. It ends within a day, and
`keep_for` is a day at least.

A request is never written twice in a period, so a job that starts late, or again, has an older time and more floors
than it needs. The next period's run begins a day later at the earliest, when EMR has ended this one
(a job queues and runs for less than a day). That saves money; two runs at once do no harm.

If the code changes, a job that has started keeps its own: EMR refuses the token of step 3 for another script
(ConflictException), hence step 4. If the function dies between the two and then the code changes, no look learns the
run's id: the looks fail until the job's result is there, and those of the next period go on to its own run.

If the settings change, the request of this period keeps the old ones. If the ledger was rebuilt in between,
a floor may be missed: its batch then cannot be published by itself, and a person decides. Nothing lands twice.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from tidegate.core.batches import JobState
from tidegate.core.errors import OutcomeUnknown, Rejected, Retryable, TidegateError
from tidegate.core.maintenance import (
    RUNS_BEHIND,
    CompleteMaintenance,
    MaintainLimits,
    MaintenanceRequest,
    UnfinishedFloors,
    decode_maintenance,
    in_turn,
    long_behind,
    maintenance_folder,
    scheduled_run,
)
from tidegate.core.manifests import REJECTED_FLOORS, batch_folder, floor_name
from tidegate.core.publication import Floor
from tidegate.core.receipts import decode_floor
from tidegate.flows.ports import Maintenance, Ports
from tidegate.metrics import Metric


@dataclass(frozen=True, slots=True)
class MaintenanceLook:
    """A run as one look found it: its job, and what it has done, or why it failed. `behind` are tables that it and the
    runs before it have left behind."""

    run: str
    job: str = ""
    done: CompleteMaintenance | None = None
    failure: str = ""
    behind: tuple[str, ...] = ()


def request_maintenance(
    tables: Iterable[str],
    limits: MaintainLimits,
    ports: Ports,
    *,
    routes: Iterable[str] = (),
    asked_for: Iterable[str] = (),
    dry_run: bool = False,
) -> MaintenanceRequest:
    """Step 1. `routes` are the configured ones; those that only the ledger knows are read as well. `asked_for` are
    maintained whoever created them."""
    at = ports.clock()
    unfinished = tuple(unfinished_floors(routes, ports))
    return MaintenanceRequest(at, tuple(tables), unfinished, limits, dry_run, tuple(asked_for))


def unfinished_floors(routes: Iterable[str], ports: Ports) -> Iterator[UnfinishedFloors]:
    """The batches that have not ended and have a floor, of these routes and of all that the ledger knows."""
    for route in sorted({*routes, *ports.ledger.known_routes()}):
        for batch in ports.ledger.route(route).unfinished:
            if floors := tuple(_floors(batch, ports)):
                yield UnfinishedFloors(batch, floors)


def _floors(batch: str, ports: Ports) -> Iterator[Floor]:
    """All that are there, whatever the ledger knows of a person's decisions; those of the rejected rows, too."""
    for name in ports.work.names(batch_folder(batch) + REJECTED_FLOORS):
        if body := ports.work.get(name):
            yield decode_floor(body)
    for number in count():
        body = ports.work.get(batch_folder(batch) + floor_name(number))
        if body is None:
            return
        yield decode_floor(body)


def maintain_on_schedule(
    tables: tuple[str, ...],
    limits: MaintainLimits,
    every: int,
    ports: Ports,
    maintenance: Maintenance,
    *,
    routes: Iterable[str],
    asked_for: Iterable[str] = (),
) -> list[MaintenanceLook]:
    """One look: report the run of the period before, if nobody has, and begin or go on with the one of now. Returns the
    runs that were looked at. Raises Retryable or OutcomeUnknown: the next look repeats it. An error of the run before
    is raised after the look at the one of now."""
    now = ports.clock()
    before, current = _runs(now, every)[1], scheduled_run(now, every)
    looks = []
    error: TidegateError | None = None
    if ports.work.get(_name(before, "request")) is not None and not _is_reported(before, ports):
        try:
            looks.append(_look_at(_runs(now - every, every), ports, maintenance))
        except (Retryable, OutcomeUnknown, Rejected) as raised:
            error = raised
    if tables and not _is_reported(current, ports):
        if ports.work.get(_name(current, "request")) is None:
            named = in_turn(tables, now, every)
            request = request_maintenance(named, limits, ports, routes=routes, asked_for=asked_for)
            ports.work.put_if_absent(_name(current, "request"), request.encode())
        looks.append(_look_at(_runs(now, every), ports, maintenance))
    if error is not None:
        raise error
    return looks


def _runs(at: int, every: int) -> list[str]:
    """The run of the period that `at` is in, and those before it that decide whether a table is long behind."""
    return [scheduled_run(at - number * every, every) for number in range(RUNS_BEHIND)]


def _look_at(runs: list[str], ports: Ports, maintenance: Maintenance) -> MaintenanceLook:
    """Steps 3 to 7 of the first of the runs. The others are those before it, the latest first."""
    run, *earlier = runs
    look = MaintenanceLook(run, done=maintained(run, ports))
    if look.done is None:
        job = _job_of(run, ports, maintenance)
        # the job first and its result second
        state = ports.jobs.report(job).state
        look = MaintenanceLook(run, job, maintained(run, ports))
        if look.done is None:
            if state is not JobState.ENDED:
                return look
            look = MaintenanceLook(run, job, failure=why_not_maintained(run, ports) or "it left no reason")
    if look.done is not None and look.done.behind:
        results = [look.done, *(maintained(each, ports) for each in earlier)]
        look = replace(look, behind=long_behind(results))
    ports.measure(Metric.TABLES_BEHIND, len(look.done.behind) if look.done else 0)
    ports.measure(Metric.TABLES_NOT_MAINTAINED, len(_not_maintained(look)) if look.done else 1)
    ports.work.put_if_absent(_name(run, "reported"), json.dumps({"job": look.job, "failure": look.failure}).encode())
    return look


def _not_maintained(look: MaintenanceLook) -> set[str]:
    return {*look.behind, *(each.table for each in (look.done.troubled if look.done else ()))}


def _job_of(run: str, ports: Ports, maintenance: Maintenance) -> str:
    """Steps 3 and 4: the job run that an earlier look has noted, or a new one."""
    name = _name(run, "job")
    noted = ports.work.get(name)
    if noted is None:
        job = maintenance.start(run)
        ports.work.put_if_absent(name, json.dumps({"job": job}).encode())
        return job
    return str(json.loads(noted)["job"])


def maintained(run: str, ports: Ports) -> CompleteMaintenance | None:
    body = ports.work.get(_name(run, "complete"))
    return decode_maintenance(body) if body else None


def why_not_maintained(run: str, ports: Ports) -> str:
    """What the job's driver has told; empty if it told nothing."""
    body = ports.work.get(_name(run, "failure"))
    return str(json.loads(body)["reason"]) if body else ""


def maintain_now(request: MaintenanceRequest, run: str, ports: Ports, maintenance: Maintenance) -> MaintenanceLook:
    """What `maintain_on_schedule` does, for a person who waits: `maintenance` waits for the job, and `run` is new."""
    ports.work.put_if_absent(_name(run, "request"), request.encode())
    job = maintenance.start(run)
    done = maintained(run, ports)
    return MaintenanceLook(run, job, done, "" if done else why_not_maintained(run, ports) or "it left no reason")


def _is_reported(run: str, ports: Ports) -> bool:
    return ports.work.get(_name(run, "reported")) is not None


def _name(run: str, file: str) -> str:
    return f"{maintenance_folder(run)}{file}.json"

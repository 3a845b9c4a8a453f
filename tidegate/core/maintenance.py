"""Maintaining tables: what may be expired, and what a run was asked and has done.

A run is one job for the tables of a deployment (`tidegate.spark.maintain`). In the work bucket:

    maintenance/<run>/request.json    what is asked, written once before the job is started
    maintenance/<run>/job.json        the id of its job run, written once by the function that started it
    maintenance/<run>/complete.json   what was done, by the driver that ended first
    maintenance/<run>/failure.json    why a driver gave up
    maintenance/<run>/reported.json   the function has counted the result

What decision 3 needs of the history is kept: everything from the head of `main` down to the floor of each batch that
has not ended, and everything younger than `keep_for` before the run was asked for. `tidegate.flows.maintain` argues why
that is enough.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from tidegate.core.publication import Floor
from tidegate.core.versions import check_version, known_fields

VERSION = 1
MILLI = 1_000
SKEW_MS = 60 * MILLI
"""Milliseconds by which a snapshot may be older than its parent: Iceberg refuses more
(org.apache.iceberg.TableMetadata, 1.11.0)."""


@dataclass(frozen=True, slots=True)
class MaintainLimits:
    """`keep_for` and `orphans_after` in seconds. `keep_last` is how many ancestors of `main` stay whatever their age.
    `compact_bytes`, `compact_files` and `expire_snapshots` bound one run, for each table. `begin_for` is how many
    seconds after the job's begin a further table may be begun."""

    keep_for: int
    keep_last: int
    orphans_after: int
    compact_bytes: int
    compact_files: int = 20_000
    expire_snapshots: int = 20_000
    begin_for: int = 4 * 3_600


@dataclass(frozen=True, slots=True)
class UnfinishedFloors:
    """The floors of a batch that has not ended, as its attempts have written them."""

    batch: str
    floors: tuple[Floor, ...]


@dataclass(frozen=True, slots=True)
class AgedSnapshot:
    """An ancestor of `main`, and when it was committed (epoch milliseconds). `parent` is None for a table's first; it
    may have expired."""

    id: int
    at: int
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """What expiring may take: snapshots older than `older_than` (epoch milliseconds), but the last `keep_last` of each
    branch stay. `held_by` is a batch for whose sake nothing may expire. `expirable` ancestors of `main` may, and more
    of them, `later`, in a later run."""

    older_than: int
    keep_last: int
    held_by: str = ""
    expirable: int = 0
    later: int = 0


def retention(
    ancestors: Sequence[AgedSnapshot],
    table_uuid: str,
    unfinished: Iterable[UnfinishedFloors],
    limits: MaintainLimits,
    at: int,
) -> Retention:
    """What may be expired of a table with these ancestors of `main`, its head first. `at` is a time (epoch seconds)
    before `unfinished` was read.

    A batch keeps every ancestor down to its lowest floor that the history reaches. As in decision 3
    (`tidegate.core.publication.verdict`), the history reaches a floor whose own snapshot has expired if it is the
    parent of the last ancestor: then the batch keeps them all. If the history reaches none of its floors of this table,
    a person has to decide about the batch, may roll the table forward for it, and until then nothing expires. A floor
    of another uuid was of a table that is gone, and keeps nothing.
    """
    # a floor, and how many ancestors must stay for it
    reach = {each.id: place for place, each in enumerate(ancestors, start=1)}
    if ancestors and ancestors[-1].parent is not None:
        reach[ancestors[-1].parent] = len(ancestors)
    needed = 0
    for batch in unfinished:
        floors = [floor for floor in batch.floors if floor.table_uuid == table_uuid]
        reached = [reach[floor.head] for floor in floors if floor.head is not None and floor.head in reach]
        if floors and not reached:
            return Retention(0, max(1, limits.keep_last), held_by=batch.batch)
        needed = max(needed, *reached, 0)
    keep_last = max(1, limits.keep_last, needed)
    # by age as well: what is committed from now on moves the count, and not the age
    youngest_needed = min((each.at for each in ancestors[:needed]), default=at * MILLI)
    older_than = min((at - limits.keep_for) * MILLI, youngest_needed - SKEW_MS)
    expirable = _expirable(ancestors, older_than, keep_last)
    if len(expirable) > limits.expire_snapshots:
        # the oldest first
        older_than = min(older_than, expirable[-limits.expire_snapshots - 1].at)
    now = _expirable(ancestors, older_than, keep_last)
    return Retention(older_than, keep_last, expirable=len(now), later=len(expirable) - len(now))


def _expirable(ancestors: Sequence[AgedSnapshot], older_than: int, keep_last: int) -> Sequence[AgedSnapshot]:
    """Iceberg walks from the head, and keeps all up to the first one that is too old."""
    first = next(
        (place for place, each in enumerate(ancestors) if place >= keep_last and each.at < older_than), len(ancestors)
    )
    return ancestors[first:]


@dataclass(frozen=True, slots=True)
class MaintenanceRequest:
    """What a run is asked: which tables, as of `at` (epoch seconds), with the floors that were read after that.

    `asked_for` are those of the tables that are maintained whoever created them. Of the others only those are that
    Tidegate created.
    """

    at: int
    tables: tuple[str, ...]
    unfinished: tuple[UnfinishedFloors, ...]
    limits: MaintainLimits
    dry_run: bool = False
    asked_for: tuple[str, ...] = ()

    def encode(self) -> bytes:
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1).encode()


def decode_maintenance_request(body: bytes) -> MaintenanceRequest:
    """Raises Rejected if newer code wrote it."""
    told = json.loads(body)
    check_version(told["v"], "request.json of maintenance", VERSION)
    unfinished = (
        UnfinishedFloors(each["batch"], tuple(Floor(**floor) for floor in each["floors"]))
        for each in told["unfinished"]
    )
    return MaintenanceRequest(
        told["at"],
        tuple(told["tables"]),
        tuple(unfinished),
        MaintainLimits(**known_fields(MaintainLimits, told["limits"])),
        told["dry_run"],
        tuple(told.get("asked_for", ())),
    )


@dataclass(frozen=True, slots=True)
class MaintainedTable:
    """What was done to one table, or would be. Sizes in bytes.

    `small` data files were found, of which `compacted` were rewritten into `compacted_into`. So many files of position
    `deletes` were merged. `snapshots` were in the metadata, of which `expired` went, and with them `deleted` files.
    `orphans` are files that no snapshot names. `remarks` are for people: what was left for the next run, and why.
    `behind`: something was left for the next run, or nothing may expire. `trouble` is empty if every step was done.
    """

    table: str
    small: int = 0
    compacted: int = 0
    compacted_into: int = 0
    compacted_bytes: int = 0
    manifests: int = 0
    snapshots: int = 0
    expired: int = 0
    deleted: int = 0
    orphans: int = 0
    remarks: tuple[str, ...] = ()
    trouble: str = ""
    behind: bool = False
    deletes: int = 0


@dataclass(frozen=True, slots=True)
class CompleteMaintenance:
    """What a run has done to its tables, in their order."""

    tables: tuple[MaintainedTable, ...]

    @property
    def troubled(self) -> tuple[MaintainedTable, ...]:
        return tuple(each for each in self.tables if each.trouble)

    @property
    def behind(self) -> frozenset[str]:
        """The tables that are not as small as they should be."""
        return frozenset(each.table for each in self.tables if each.behind or each.trouble)

    def encode(self) -> bytes:
        return json.dumps({"v": VERSION, "tables": [asdict(each) for each in self.tables]}, indent=1).encode()


def decode_maintenance(body: bytes) -> CompleteMaintenance:
    """Raises Rejected if newer code wrote it."""
    told = json.loads(body)
    check_version(told["v"], "complete.json of maintenance", VERSION)
    return CompleteMaintenance(
        tuple(
            MaintainedTable(**{**known_fields(MaintainedTable, each), "remarks": tuple(each["remarks"])})
            for each in told["tables"]
        )
    )


def maintenance_folder(run: str) -> str:
    return f"maintenance/{run}/"


def scheduled_run(now: int, every: int) -> str:
    """The run of the period that `now` is in (epoch seconds): the same for everyone who asks in that period."""
    return f"scheduled-{now // every}"


def in_turn(tables: Sequence[str], now: int, every: int) -> tuple[str, ...]:
    """The tables in the order of this period's run: each period begins one further. A run that cannot reach all of them
    misses others the next time, and one that dies of its first table begins the next time behind it."""
    first = now // every % len(tables) if tables else 0
    return (*tables[first:], *tables[:first])


RUNS_BEHIND = 3
"""A table that so many runs in a row left behind is counted as not maintained."""


def long_behind(runs: Sequence[CompleteMaintenance | None]) -> tuple[str, ...]:
    """The tables that the last `RUNS_BEHIND` runs all left behind. `runs` are their results, None for one without."""
    told = [run.behind for run in runs[:RUNS_BEHIND] if run is not None]
    return tuple(sorted(frozenset.intersection(*told))) if len(told) == RUNS_BEHIND else ()

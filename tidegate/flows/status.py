"""Status: the state of each route, and whether its sums hold. Reads a few items, independent of the traffic."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.core.batches import Batch, State
from tidegate.core.outcomes import ABANDONED, DROPPED, Conservation, Tally
from tidegate.core.records import RouteRecord
from tidegate.core.routes import Route
from tidegate.core.unknown import MORE
from tidegate.flows.ports import Ports
from tidegate.formats.registry import REPORT, unknown_of
from tidegate.schedule import SCHEDULE

ORDINARY_JOB = 60 * 60
"""Seconds. A job takes minutes. A job that hangs is ended only after hours. A batch is late in between."""


@dataclass(frozen=True, slots=True)
class RouteStatus:
    """One route: the conservation of its uploads, its batches, and the number of refused uploads (rule 10).
    `configured`: the configuration still has the route. `paused`, `aside`, `wished`, `quarantined_since` and `unknown`
    as in `RouteRecord`."""

    route: Route
    uploads: Conservation
    refused: int
    jobs: int
    unfinished: tuple[Batch, ...]
    committed_batches: int
    abandoned_batches: int
    configured: bool = True
    paused: int = 0
    wished: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()
    quarantined_since: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    wishes: tuple[Batch, ...] = ()
    """The batches of `wished`, but for those that the ledger does not know any more."""
    abandoned_uploads: int = 0
    """How many of the pending uploads are in abandoned batches that the ledger still has: nobody has sent them again,
    or dropped them."""
    in_quarantine: int = 0
    """How many uploads in quarantine may still be released, at most. The sums keep those, too, whose claims have
    expired. Only `status` reads it."""
    slots_taken: int = 0
    """How many of the route's `in_flight` slots are taken."""

    @property
    def waiting_for_resend(self) -> int:
        """How many uploads wait for a person's resend: not those of batches with a wish, which settling carries
        out."""
        wished = sum(batch.objects for batch in self.wishes if batch.wish and batch.state is State.ABANDONED)
        return max(0, self.abandoned_uploads - wished)

    @property
    def halted(self) -> tuple[Batch, ...]:
        return tuple(batch for batch in self.unfinished if batch.halted)


def status(routes: Iterable[Route], ports: Ports) -> list[RouteStatus]:
    """The state of each route. The routes' records are read together, and then their batches."""
    wanted = list(routes)
    records = ports.ledger.routes(route.name for route in wanted)
    named = {each for record in records.values() for each in (*record.unfinished, *record.wished)}
    found = ports.ledger.batches(named) if named else {}
    return [_with_quarantine(status_of(route, records[route.name], ports, found), ports) for route in wanted]


def _with_quarantine(found: RouteStatus, ports: Ports) -> RouteStatus:
    """A route that has something in quarantine costs a read of its leftovers."""
    count = found.uploads.ended.quarantined
    if not found.quarantined_since or count <= 0:
        return found
    there = sum(each.quarantined for each in ports.ledger.leftovers(found.route.name) if not each.emptied)
    # of a batch some of whose uploads came back, the sums know better
    return replace(found, in_quarantine=min(count, there))


def everything(configured: Mapping[str, Route], ports: Ports) -> list[RouteStatus]:
    """The configured routes, and the removed routes that still have pending uploads, uploads in quarantine that can be
    released, or sums that do not hold."""
    lost = [route for name, route in sorted(ports.ledger.known_routes().items()) if name not in configured]
    left = (replace(each, configured=False) for each in status(lost, ports))
    return [
        *status(configured.values(), ports),
        *(each for each in left if each.uploads.pending or each.quarantined_since or not each.uploads.holds),
    ]


UNKNOWN_FOR = 24 * 60 * 60
"""Seconds for which names are told after a batch whose files had them. Files of several producers come in turns, so one
batch without them ends nothing; and what no file has any more is told no longer."""


def still_lacked(record: RouteRecord, route: Route, now: int) -> dict[str, int]:
    """The names in files of the route that its schema lacks as it is today; none if nobody wants to know."""
    from tidegate.schemas.paths import paths_of  # most routes have none

    asked = unknown_of(route.dataset.options) == REPORT
    if not asked or (record.unknown_at and now - record.unknown_at >= UNKNOWN_FOR):
        return {}
    there = paths_of(route.dataset.schema)
    lacks = {name: count for name, count in record.unknown.items() if name not in there}
    return lacks if {*lacks} - {MORE} else {}


def status_of(route: Route, record: RouteRecord, ports: Ports, known: Mapping[str, Batch] | None = None) -> RouteStatus:
    """The state of a route by this record of it. `known` are its batches, if they were read after the record; else they
    are read. Of a route without batches nothing else is read."""
    found = known or (ports.ledger.batches(record.unfinished) if record.unfinished else {})
    batches = tuple(found[batch_id] for batch_id in record.unfinished if batch_id in found)
    # the uploads of an abandoned batch wait for a resend: they have not ended, unless they were dropped
    gathered, back = sum(batch.objects for batch in batches), record.back
    abandoned = record.abandoned_objects - record.dropped - back.get(ABANDONED, 0)
    pending = gathered + abandoned
    # after `claims` nobody can resend them any more: they stay in the sums, and wait for nobody
    left = ports.ledger.leftovers(route.name) if abandoned > 0 else ()
    redrivable = min(abandoned, sum(each.abandoned - each.dropped for each in left))
    # what came back is counted by the batch that gathered it anew
    notified = record.notified + gathered - sum(back.values())
    ended = record.tally - Tally.from_dict(back)
    wished = (found.get(each) or ports.ledger.batch(each) for each in record.wished)
    return RouteStatus(
        route=route,
        uploads=Conservation(notified, ended, pending, record.dropped - back.get(DROPPED, 0)),
        refused=record.refused,
        paused=record.paused,
        wished=record.wished,
        aside=record.aside,
        quarantined_since=record.quarantined_since,
        unknown=still_lacked(record, route, ports.clock()) if record.unknown else {},
        wishes=tuple(batch for batch in wished if batch),
        abandoned_uploads=redrivable,
        slots_taken=len(record.running),
        jobs=record.jobs,
        unfinished=batches,
        committed_batches=record.committed_batches,
        abandoned_batches=record.abandoned_batches,
    )


@dataclass(frozen=True, slots=True)
class Standing:
    """A route's unfinished batches: the age of the oldest that waits for no person (seconds, 0 if there is none), how
    many of these are late, the number of all, and how many of them have halted. And its uploads in quarantine: their
    number, and for how long the oldest has been there (seconds, 0 if there is none)."""

    oldest_pending: int
    halted: int
    unfinished: int
    late: int = 0
    quarantined: int = 0
    oldest_quarantined: int = 0


def standing(route: Route, record: RouteRecord, ports: Ports) -> Standing:
    """The state of the route by this record, which was read after settling.

    The age counts from when the batch was opened. That is a moment before its first notice joined, or longer if the
    process that opened it died right then. So the age is never too low. A batch without notices is not pending. The age
    of one that waits for a person is left out: the alarm would stay on, and hide the next batch.
    """
    found = status_of(route, record, ports)
    now = ports.clock()
    pending = [batch for batch in found.unfinished if batch.notices]
    ages = [now - batch.opened_at for batch in pending if not _waits_for_a_person(batch, found)]
    return Standing(
        oldest_pending=max([0, *ages]),
        halted=len(found.halted),
        unfinished=len(pending),
        late=sum(age >= late_after(route) for age in ages),
        # what came back while its batch was ending is counted there first
        quarantined=max(0, found.uploads.ended.quarantined),
        oldest_quarantined=max(0, now - found.quarantined_since) if found.quarantined_since else 0,
    )


def late_after(route: Route) -> int:
    """An age, in seconds, that no batch reaches in ordinary operation: `max_wait`, one interval of the schedule, the
    job that holds the slot, and the batch's own job."""
    return route.limits.max_wait + SCHEDULE + 2 * ORDINARY_JOB


def _waits_for_a_person(batch: Batch, found: RouteStatus) -> bool:
    """It has halted and stepped aside, or its route is paused and it has not begun. What has begun goes on in a paused
    route, and is as old as in any other."""
    return batch.id in found.aside or (bool(found.paused) and batch.state in (State.OPEN, State.SEALED))

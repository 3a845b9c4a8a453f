"""The audit: compare a place in a bucket with the ledger, page by page, and send what is lost.

A scheduled run belongs to a place: the keys of a bucket with a prefix and a suffix (`tidegate.flows.watch` says which
ones are watched, and since when). It looks at what was put there while the place was watched. What is lost is sent to
the route that takes its key today, whichever took it then. So a route may be renamed, split or merged, its prefix
changed, its name used again: the upload lands where it would if it came now. If no route takes it any more, it is left
alone, and counted as outside. A place that was left is audited for `max_age` after that, as if it had not been left, if
a route takes a part of it.

    step                                    if the process dies right after it
    1 list a page                           nothing has happened
    2 read its claims, their notices,       nothing has happened
      and the batches of these; judge
    3 void each notice that is stale        void is final; the next pass over the page finds it void: its uploads are
                                            lost, and are sent
    4 publish what is lost                  the next pass finds it pending, or publishes it again: claims refuse repeats
    5 count what was found (a metric)       the next pass counts again what is still lost; none is left uncounted
    6 note the page in the place's run      done; the next invocation begins with the next page
    7 wait, so that the queue keeps up      nothing: the next invocation does not know of the wait

A large bucket is screened by a job first (`tidegate.core.screening`), and the pages are those of its suspects:

    a begin the run                         the next invocation starts the job
    b start the job                         the next invocation starts it again; the client token, which names the run,
                                            makes that the same job. If EMR has forgotten the token it is a second one:
                                            one of the two is complete first, and that one counts
    c note the job run                      the next invocation asks for it
    d ask; once it has ended, read what it  nothing has happened
      found
    e steps 1 to 7, for pages of suspects   as above
    f if the job found nothing out, or its  done: the next run begins where this one did, with the settings of then
      findings are gone, give the run up

The order in d is the job first and its result second: a job writes its result before it ends. What a job found may be
hours old, or of a job that was thought dead. A suspect is no finding: steps 1 and 2 are made for it as for any upload,
in the bucket and in the ledger as they are now. And an upload that was no suspect then had a claim, was too young, or
was not in the bucket: what becomes of it the next run sees.

Twins (two invocations on one run, or a person's run beside the scheduled one) list and judge the same pages. Both may
publish an upload. In one run it is the same notice, if they found the same. In two runs decision 1 lets one notice own
it: an entry that takes over names the owner, and the put requires that owner. A twin's late step 6 is refused, and the
twin stops.

What else may happen between two steps:

- The notification arrives after all, between 2 and 4: one of the two notices claims the upload, the other is refused.
- A stale notice registers between 2 and 3: voiding it fails, and its uploads are pending.
- Dispatch still holds a notice that step 3 voids. It has claimed some of the uploads, or claims them now. Registering
  fails, and dispatch sends what the void notice still owns in another notice (`tidegate.flows.dispatch`). That one and
  ours name the same owner, and one of them takes the upload.
- The object is overwritten or deleted after 1: the upload is sent, and ends as superseded or vanished.
- Uploads are added, or deleted, while the run goes on. S3 lists by key, and the marker is a key and a version: none
  that stays is passed over. The window ends before the run begins, so new uploads are not in it.
- The settings change: a run keeps its window. What is older than the horizon of today is left out at each page. A page
  that is repeated goes to the routes of then: a notice of the former route is in the way as any other (decision 1).
- The place is left, or taken again, while a run goes on: its window ended before.
- The ledger was made anew: it has no claims on what is in a table, and refuses to answer until it is rebuilt.
- The store answers with something old: it does not, each read is consistent. S3's listings are, too
  (https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel).

A page is at most 1,000 uploads, so memory does not grow with the bucket. The origin of the notices names the run, so
that none is taken for an earlier delivery.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tidegate.core.audit import (
    BEGINNING,
    SENT,
    AuditCounts,
    AuditFinding,
    AuditLimits,
    AuditRun,
    Listed,
    Marker,
    Window,
    count_findings,
    next_run,
    scope_of,
)
from tidegate.core.batches import JobState
from tidegate.core.errors import Retryable
from tidegate.core.notices import Entry
from tidegate.core.routes import Route, RouteIndex
from tidegate.core.screening import CompleteScreening, screening_failure
from tidegate.flows.ports import Ports, Screens
from tidegate.flows.screen import Judged, judge_page
from tidegate.flows.send import send
from tidegate.flows.suspects import ScreeningFailed, SuspectListing, screening_of
from tidegate.metrics import Metric

Pace = Callable[[int], None]
"""Waits after so many uploads were sent."""

TellLost = Callable[[Listed, AuditFinding], None]
"""Is told of each upload that is lost."""


def _no_one(listed: Listed, finding: AuditFinding) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Look:
    """How a run looks at pages: `id` is the run's. With `dry` it neither voids nor publishes, and measures nothing."""

    id: str
    window: Window
    tell: TellLost = _no_one
    dry: bool = False


def audit_place(
    last: AuditRun,
    routes: Collection[Route],
    limits: AuditLimits,
    ports: Ports,
    *,
    go_on: Callable[[], bool],
    pace: Pace,
    screens: Screens,
    tell: TellLost = _no_one,
    remark: Callable[[str], None] = lambda text: None,
) -> AuditRun | None:
    """Go on with `last`, the scheduled run of a place, or begin the next one if that is due. `routes` are those of
    today. `go_on` is asked before each page. `screens` starts the job of a run that needs one. `remark` gets what its
    job has to say of the source, at each invocation.

    Returns the run as it stands; None if a twin is at it, which goes on. Raises Retryable or OutcomeUnknown: the page
    is not noted, and the next invocation repeats it. Raises Retryable as well if a run is given up.
    """
    route = scope_of(last, routes)
    if route is None:
        return last
    run = last
    if begun := next_run(last, limits, run_id=ports.new_id(), now=ports.clock(), source=route.audit_from):
        if not ports.ledger.begin_audit(begun, last):
            return None
        run = begun
    takers = RouteIndex(routes)
    if run.finished_at or not run.source:
        return _audit_pages(route, takers, run, limits, ports, None, go_on=go_on, pace=pace, tell=tell)
    try:
        screening = _screening_of(route, run, limits, screens, ports)
        if not isinstance(screening, CompleteScreening):
            return screening
        for each in screening.remarks:
            remark(each)
        # what the source does not know yet is left to the next run
        known = replace(run, until=min(run.until, screening.until))
        ports = replace(ports, listing=SuspectListing(run.id, screening, ports.listing, ports.work))
        done = _audit_pages(route, takers, known, limits, ports, screening, go_on=go_on, pace=pace, tell=tell)
        if done and done.finished_at and (none_is_there := screening.remark_on(done.counts)):
            remark(none_is_there)
        return done
    except ScreeningFailed as failed:
        stands = ports.ledger.audit(run.place, run.number)
        if stands is not None and stands.id == run.id and not stands.finished_at:
            ports.ledger.give_up_audit(stands)
        why = f"route {route.name}: {failed}. This audit is given up, and the next one begins where it did"
        raise Retryable(why) from failed


def _audit_pages(
    route: Route,
    takers: RouteIndex,
    run: AuditRun,
    limits: AuditLimits,
    ports: Ports,
    screening: CompleteScreening | None,
    *,
    go_on: Callable[[], bool],
    pace: Pace,
    tell: TellLost,
) -> AuditRun | None:
    look = Look(run.id, run.window(limits), tell)
    while not run.finished_at and go_on():
        counts, after = _audit_page(route, takers, look, run.after, ports)
        total = run.counts + counts
        if screening and not after:
            total += screening.rest(total)
        run = replace(
            run,
            page=run.page + 1,
            after=after or BEGINNING,
            counts=total,
            finished_at=0 if after else ports.clock(),
        )
        if not ports.ledger.note_audit(run):
            return None
        pace(counts.sent)
    return run


def _screening_of(
    route: Route, run: AuditRun, limits: AuditLimits, screens: Screens, ports: Ports
) -> CompleteScreening | AuditRun | None:
    """What the run's job has found. Else the run as it stands: its job is under way. None if a twin is at it. Raises
    ScreeningFailed if the job found nothing out, or if what it found is gone."""
    # the job first and its result second
    state = ports.jobs.report(run.job).state if run.job else JobState.UNKNOWN
    found = screening_of(run.id, ports.work)
    if found:
        return found
    if run.page:
        # somebody deleted it, or code that knows nothing of jobs has gone on with the run
        raise ScreeningFailed(f"what job run {run.job} has found for audit {run.id} is gone from the work bucket")
    if not run.job:
        started = replace(run, job=screens.start(run.id, route, run.source, run.window(limits)))
        return started if ports.ledger.note_screening(started) else None
    if state is not JobState.ENDED:
        return run
    failure = ports.work.get(screening_failure(run.id))
    why = str(json.loads(failure)["reason"]) if failure else "it left no reason"
    raise ScreeningFailed(
        f"job run {run.job}, which screens the bucket for the audit, has failed: {why}. {screens.log_of(run.job)}"
    )


def audit_window(
    route: Route, look: Look, ports: Ports, *, pace: Pace, screening: CompleteScreening | None = None
) -> AuditCounts:
    """A run that is not on record: all pages at once. If it dies, it is begun again from the first page. With a
    `screening` the pages are those of its suspects."""
    if screening:
        ports = replace(ports, listing=SuspectListing(look.id, screening, ports.listing, ports.work))
    takers = RouteIndex([route])
    counts = AuditCounts()
    after: Marker | None = BEGINNING
    while after:
        found, after = _audit_page(route, takers, look, after, ports)
        counts += found
        if not look.dry:
            pace(found.sent)
    return counts + screening.rest(counts) if screening else counts


def _audit_page(
    route: Route, takers: RouteIndex, look: Look, after: Marker, ports: Ports
) -> tuple[AuditCounts, Marker | None]:
    """The counts of one page of the uploads that `route` takes, and where the next begins; None after the last. What is
    lost is sent to those of `takers` that take it."""
    page = ports.listing.page(route.bucket, route.prefix, after, route.owner)
    now = ports.clock()
    listed = [each for each in page.listed if each.is_of(route)]
    taken_by = {
        each: taker
        for each in listed
        if look.window.has(each, now) and (taker := takers.route_of(each.upload)) and each.is_of(taker)
    }
    judged = judge_page(list(taken_by), look.window, ports.ledger, now)
    found = {each: said.finding for each, said in judged.items()}
    if not look.dry:
        found |= _void_stale(taken_by, judged, ports)
    lost: dict[str, list[Entry]] = {}
    for each, finding in found.items():
        if finding in SENT:
            lost.setdefault(taken_by[each].name, []).append(Entry(each.upload, takes_from=judged[each].notice))
            look.tell(each, finding)
    if not look.dry:
        for name, entries in lost.items():
            # `now` is before the claims were read. If the topic does not take all of them, the page is not noted
            send(name, entries, ports, origin=f"audit-{look.id}", at=now)
            ports.measure(Metric.UPLOADS_FOUND_LOST, len(entries))
    return count_findings(len(listed), found.values()), page.after


def _void_stale(
    taken_by: Mapping[Listed, Route], judged: Mapping[Listed, Judged], ports: Ports
) -> dict[Listed, AuditFinding]:
    """Void the notices that were found stale. Returns the uploads of those that had registered meanwhile: pending."""
    stale = {each: said.notice for each, said in judged.items() if said.finding is AuditFinding.STALE}
    # a notice that never registered left no record of its route
    named = {notice: taken_by[each].name for each, notice in stale.items()}
    void = {notice: ports.ledger.void(notice, name) for notice, name in named.items()}
    return {each: AuditFinding.PENDING for each, notice in stale.items() if not void[notice]}

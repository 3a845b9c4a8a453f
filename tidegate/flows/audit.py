"""The audit: compare a route's bucket with the ledger, page by page, and send what is lost.

    step                                    if the process dies right after it
    1 list a page                           nothing has happened
    2 read its claims, their notices,       nothing has happened
      and the batches of these; judge
    3 void each notice that is stale        void is final; the next pass over the page finds it void: its uploads are
                                            lost, and are sent
    4 publish what is lost                  the next pass finds it pending, or publishes it again: claims refuse repeats
    5 count what was found (a metric)       the next pass counts again what is still lost; none is left uncounted
    6 note the page in the route's run      done; the next invocation begins with the next page
    7 wait, so that the queue keeps up      nothing: the next invocation does not know of the wait

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
- The settings change: a run keeps its window. What is older than the horizon of today is left out at each page.
- The ledger was restored to an earlier time. It then has no claims on uploads that are in a table, and an audit would
  send them again. So nothing that dispatches or audits may run before `tidegate ledger recover` has ended.
- The store answers with something old: it does not, each read is consistent. S3's listings are, too
  (https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel).

A page is at most 1,000 uploads, so memory does not grow with the bucket. The origin of the notices names the run, so
that none is taken for an earlier delivery.
"""

from collections.abc import Callable, Mapping, Sequence
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
    is_audit_due,
    judge_listed,
    next_run,
)
from tidegate.core.claims import Claim
from tidegate.core.errors import Retryable
from tidegate.core.notices import Entry, pack_entries
from tidegate.core.routes import Route
from tidegate.flows.ports import Ports
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


def audit_route(
    route: Route,
    limits: AuditLimits,
    ports: Ports,
    *,
    go_on: Callable[[], bool],
    pace: Pace,
    tell: TellLost = _no_one,
) -> AuditRun | None:
    """Go on with the route's scheduled run, or begin one if one is due. `go_on` is asked before each page.

    Returns the run as it stands; None if a twin is at it, which goes on. Raises Retryable or OutcomeUnknown: the page
    is not noted, and the next invocation repeats it.
    """
    last = ports.ledger.audit(route.name)
    now = ports.clock()
    if is_audit_due(last, limits, now=now):
        begun = next_run(route.name, last, limits, run_id=ports.new_id(), now=now)
        if not ports.ledger.begin_audit(begun, last):
            return None
        last = begun
    run = last
    assert run is not None, "a route without a run is due"
    look = Look(run.id, run.window(limits), tell)
    while not run.finished_at and go_on():
        counts, after = _audit_page(route, look, run.after, ports)
        run = replace(
            run,
            page=run.page + 1,
            after=after or BEGINNING,
            counts=run.counts + counts,
            finished_at=0 if after else ports.clock(),
        )
        if not ports.ledger.note_audit(run):
            return None
        pace(counts.sent)
    return run


def audit_window(route: Route, look: Look, ports: Ports, *, pace: Pace) -> AuditCounts:
    """A run that is not on record: all pages at once. If it dies, it is begun again from the first page."""
    counts = AuditCounts()
    after: Marker | None = BEGINNING
    while after:
        found, after = _audit_page(route, look, after, ports)
        counts += found
        if not look.dry:
            pace(found.sent)
    return counts


def _audit_page(route: Route, look: Look, after: Marker, ports: Ports) -> tuple[AuditCounts, Marker | None]:
    """The counts of one page, and where the next begins; None after the last."""
    page = ports.listing.page(route.bucket, route.prefix, after, route.owner)
    now = ports.clock()
    listed = [each for each in page.listed if route.takes(each.upload)]
    within = [each for each in listed if look.window.has(each, now)]
    claims = ports.ledger.claims_on(each.upload for each in within)
    found = _judge_page(route, within, claims, look, now, ports)
    sent: list[Entry] = []
    for each, finding in found.items():
        if finding in SENT:
            claim = claims.get(each.upload.identity)
            sent.append(Entry(each.upload, takes_from=claim.notice if claim else ""))
            look.tell(each, finding)
    if sent and not look.dry:
        _send_lost(route, sent, look, ports, at=now)
        ports.measure(Metric.UPLOADS_FOUND_LOST, len(sent), route.name)
    return count_findings(len(listed), found.values()), page.after


def _judge_page(
    route: Route,
    within: Sequence[Listed],
    claims: Mapping[tuple[str, str, str], Claim],
    look: Look,
    now: int,
    ports: Ports,
) -> dict[Listed, AuditFinding]:
    """The finding on each upload. The notices that were found stale are void then; with `dry` they stay."""
    owners = ports.ledger.notices({claim.notice for claim in claims.values() if not claim.outcome})
    batches = ports.ledger.batches({owner.batch for owner in owners.values() if owner.batch})
    found: dict[Listed, AuditFinding] = {}
    void: dict[str, bool] = {}
    for each in within:
        claim = claims.get(each.upload.identity)
        owner = owners.get(claim.notice) if claim else None
        batch = batches.get(owner.batch) if owner else None
        finding = judge_listed(
            each, claim, owner, batch, now=now, min_age=look.window.min_age, horizon=look.window.horizon
        )
        if finding is AuditFinding.STALE and claim and not look.dry:
            if claim.notice not in void:
                void[claim.notice] = ports.ledger.void(claim.notice, route.name)
            if not void[claim.notice]:
                finding = AuditFinding.PENDING
        found[each] = finding
    return found


def _send_lost(route: Route, lost: list[Entry], look: Look, ports: Ports, *, at: int) -> None:
    """`at` is a time before the claims were read. Raises Retryable if the topic did not take all of them: the page is
    not noted then, and is repeated."""
    notices = list(pack_entries(route.name, route.bucket, lost, origin=f"audit-{look.id}", at=at))
    if len(ports.topic.publish(notices)) < len(notices):
        raise Retryable(f"route {route.name}: the topic did not take the notices of {len(lost)} lost uploads")

"""Mistakes of the audit, and with what it has voided."""

from dataclasses import replace
from typing import Any

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Planting, Strike, replaced, rewired, rewritten
from simulation.world.faults import Kind
from tidegate.core.audit import BEGINNING, AuditFinding, Listed
from tidegate.core.uploads import Upload
from tidegate.flows.ports import ListedPage

JUDGE = "tidegate.core.audit:judge_listed"


def _judged(was: AuditFinding, becomes: AuditFinding) -> Planting:
    def make(real: Any) -> Any:
        def judge_listed(*arguments: Any, **named: Any) -> AuditFinding:
            finding: AuditFinding = real(*arguments, **named)
            return becomes if finding is was else finding

        return judge_listed

    return replaced(JUDGE, make)


def _from_nobody(real: Any) -> Any:
    def send(route: str, lost: Any, ports: Any, **said: Any) -> None:
        real(route, [replace(each, takes_from="") for each in lost], ports, **said)

    return send


def _since_ever(real: Any) -> Any:
    def next_run(*arguments: Any, **named: Any) -> Any:
        run = real(*arguments, **named)
        return run and replace(run, since=run.watched_since)

    return next_run


def _whenever_it_was_left(real: Any) -> Any:
    def next_run(last: Any, limits: Any, **named: Any) -> Any:
        run = real(replace(last, left_at=0), limits, **named)
        return run and replace(run, left_at=last.left_at)

    return next_run


def _left_first(real: Any) -> Any:
    def watch_places(routes: Any, limits: Any, ports: Any) -> Any:
        for run in ports.ledger.audits():
            if not run.left_at and not any(route.place == run.place for route in routes):
                ports.ledger.end_watch(run, ports.clock(), limits.horizon)
        return real(routes, limits, ports)

    return watch_places


def _while_it_is_taken(real: Any) -> Any:
    def scope_of(run: Any, routes: Any) -> Any:
        return None if run.left_at else real(run, routes)

    return scope_of


def _from_since_to_until(real: Any) -> Any:
    return lambda window, listed, now: window.since <= listed.modified <= window.until


def _whatever_is_listed(real: Any) -> Any:
    return lambda window, listed, now: max(window.since, now - window.horizon) <= listed.modified <= window.until


def _after_the_key(parameters: dict[str, Any]) -> dict[str, Any]:
    parameters.pop("VersionIdMarker", None)
    return parameters


def _whoever_registered(write: WriteRequest) -> None:
    if "Item" in write.request and "batch" not in write.request["Item"]:
        write.unconditional()


def _noted_first(real: Any) -> Any:
    """The page is noted when its notices are about to be published."""

    def audit_page(route: Any, takers: Any, look: Any, after: Any, ports: Any) -> Any:
        page = ports.listing.page(route.bucket, route.prefix, after, route.owner)
        run = ports.ledger.audit(route.place)
        if run and run.id == look.id and not run.finished_at:
            noted = replace(run, page=run.page + 1, after=page.after or after, finished_at=0 if page.after else 1)
            ports.ledger.note_audit(noted)
        return real(route, takers, look, after, ports)

    return audit_page


def _believed(real: Any) -> Any:
    """The suspects as the inventory names them."""

    def page(listing: Any, bucket: str, prefix: str, after: Any, owner: str) -> ListedPage:
        there = listing._listing.page(bucket, prefix, BEGINNING, owner).listed
        modified = {each.upload.key: each.modified for each in there}
        suspects = [each for number in range(len(listing._parts)) for each in listing._part(number)]
        listed = [Listed(Upload(bucket, each.key, each.version, 1), modified[each.key]) for each in suspects]
        return ListedPage(tuple(listed), None)

    return page


def _waited_for(real: Any) -> Any:
    def screening_of(route: Any, run: Any, limits: Any, screens: Any, ports: Any) -> Any:
        failed = run.job and not ports.work.get(f"audits/{run.id}/complete.json")
        return run if failed else real(route, run, limits, screens, ports)

    return screening_of


BUGS = (
    Bug(
        "the audit finds nothing",
        "The audit takes an upload without a claim for one that is pending.",
        (_judged(AuditFinding.LOST, AuditFinding.PENDING),),
        "unannounced",
    ),
    Bug(
        "lost uploads are taken from nobody",
        "The notice of an audit does not name the void owner of its uploads: their claims refuse it.",
        (replaced("tidegate.flows.send:send", _from_nobody, within="tidegate.flows.audit"),),
        "claimed_and_purged",
        (Strike("dispatch dynamodb.PutItem o", Kind.DIE_AFTER),),
    ),
    Bug(
        "a void notice is dropped",
        "Dispatch acknowledges a void notice and sends none of its uploads on.",
        (replaced("tidegate.flows.dispatch:_send_on", lambda real: lambda notice, ports: None),),
        "audited_under_way",
    ),
    Bug(
        "voided whatever it is by now",
        "The audit voids a notice without the condition that it is undecided.",
        (rewritten("n#", _whoever_registered),),
        "audited_under_way",
        (Strike("person dynamodb.PutItem n", Kind.SLOW),),
    ),
    Bug(
        "an old claim is stale",
        "A claim that is older than the horizon counts as stale if its owner has no record. The record has expired.",
        (_judged(AuditFinding.FORGOTTEN, AuditFinding.STALE),),
        "audited_for_months",
    ),
    Bug(
        "what nobody can read is lost",
        "The audit looks at versions that are not current and have no version id: each ends as superseded, and the next"
        " run finds it lost again.",
        (replaced("tidegate.core.audit:Window.has", _whatever_is_listed),),
        "overwritten_while_suspended",
    ),
    Bug(
        "a place that was left is not audited",
        "The audit ends with the route: what was put before, and never announced, is in no run.",
        (replaced("tidegate.core.audit:scope_of", _while_it_is_taken),),
        "split_unannounced",
    ),
    Bug(
        "a place is left before its followers are watched",
        "The audit dies between the two: what is put until its next invocation is in no run.",
        (replaced("tidegate.flows.watch:watch_places", _left_first),),
        "split_unannounced",
        (Strike("audit dynamodb.UpdateItem ", Kind.DIE_AFTER),),
    ),
    Bug(
        "the window ignores when the place was left",
        "What was put while no route took it is sent to a route that came later.",
        (replaced("tidegate.core.audit:next_run", _whenever_it_was_left),),
        "split_unannounced",
    ),
    Bug(
        "the listing goes on after the key",
        "The next page of a listing begins after the last key, not after its last version.",
        (rewired("s3", "ListObjectVersions", _after_the_key),),
        "unannounced_versions",
    ),
    Bug(
        "an inventory is believed",
        "The audit sends the suspects of a job as the inventory names them, without a look into the bucket.",
        (replaced("tidegate.flows.suspects:SuspectListing.page", _believed),),
        "screened",
    ),
    Bug(
        "a job that failed is waited for",
        "The audit takes a job that ended without a result for one that is under way.",
        (replaced("tidegate.flows.audit:_screening_of", _waited_for),),
        "screened",
        (Strike("driver s3.ListObjectVersions", Kind.DIE_AFTER),),
    ),
)

HARMLESS = (
    Bug(
        "the audit looks back for ever",
        "The job finds what the ledger has forgotten in the table.",
        (
            replaced("tidegate.core.audit:next_run", _since_ever),
            replaced("tidegate.core.audit:Window.has", _from_since_to_until),
        ),
        "audited_for_months",
    ),
    Bug(
        "what is pending is sent, too",
        "The notice names an owner that has not let go.",
        (_judged(AuditFinding.PENDING, AuditFinding.LOST),),
        "audited_under_way",
    ),
    Bug(
        "a page is noted before its notices are published",
        "If the audit dies in between, its next run finds the uploads.",
        (replaced("tidegate.flows.audit:_audit_page", _noted_first),),
        "unannounced",
    ),
)

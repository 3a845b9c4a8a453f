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
    return lambda route, lost, look, ports: real(route, [replace(each, takes_from="") for each in lost], look, ports)


def _since_ever(real: Any) -> Any:
    def next_run(*arguments: Any, **named: Any) -> Any:
        run = real(*arguments, **named)
        return replace(run, since=run.watched_since)

    return next_run


def _from_since_to_until(real: Any) -> Any:
    return lambda window, listed, now: window.since <= listed.modified <= window.until


def _after_the_key(parameters: dict[str, Any]) -> dict[str, Any]:
    parameters.pop("VersionIdMarker", None)
    return parameters


def _whoever_registered(write: WriteRequest) -> None:
    if "Item" in write.request and "batch" not in write.request["Item"]:
        write.unconditional()


def _noted_first(real: Any) -> Any:
    """The page is noted when its notices are about to be published."""

    def audit_page(route: Any, look: Any, after: Any, ports: Any) -> Any:
        page = ports.listing.page(route.bucket, route.prefix, after, route.owner)
        run = ports.ledger.audit(route.name)
        if run and run.id == look.id and not run.finished_at:
            noted = replace(run, page=run.page + 1, after=page.after or after, finished_at=0 if page.after else 1)
            ports.ledger.note_audit(noted)
        return real(route, look, after, ports)

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
        (replaced("tidegate.flows.audit:_send_lost", _from_nobody),),
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
        "the audit looks back for ever",
        "The audit looks at uploads that are older than the claims that the ledger keeps.",
        (
            replaced("tidegate.core.audit:next_run", _since_ever),
            replaced("tidegate.core.audit:Window.has", _from_since_to_until),
        ),
        "audited_for_months",
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
        "what is pending is sent, too",
        "The audit sends uploads that are pending, and names their owner, which has not let go.",
        (_judged(AuditFinding.PENDING, AuditFinding.LOST),),
        "audited_under_way",
    ),
    Bug(
        "a page is noted before its notices are published",
        "If the audit dies between the two, the next run finds the uploads.",
        (replaced("tidegate.flows.audit:_audit_page", _noted_first),),
        "unannounced",
    ),
)

"""Mistakes of the audit, and with what it has voided."""

from dataclasses import replace
from typing import Any

from simulation.checker.mistakes.writes import WriteRequest
from simulation.checker.planting import Bug, Planting, Strike, replaced, rewired, rewritten
from simulation.world.faults import Kind
from tidegate.core.audit import AuditFinding

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

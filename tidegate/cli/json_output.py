"""What `--json` prints. docs/json has an example of each, and tests compare the two.

Fields may be added. If a field changes its name or meaning, `VERSION` changes. Times are ISO 8601 in UTC, and null for
"not yet".
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.cli.checks import Check, CheckState
from tidegate.cli.printed import runnable
from tidegate.core import times
from tidegate.core.audit import AuditCounts, AuditFinding, Listed, Window
from tidegate.core.backfill import BackfillCounts, BackfillFinding, BackfillScope, Survey
from tidegate.core.batches import Batch, State
from tidegate.core.landed_files import LandedPage
from tidegate.core.landed_versions import several_landed
from tidegate.core.maintenance import CompleteMaintenance
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import Outcome
from tidegate.core.routes import Route
from tidegate.core.spans import spans
from tidegate.core.unknown import ranked
from tidegate.flows.batch_list import BatchPage, PastBatch
from tidegate.flows.files import FilesPage, KnownFile
from tidegate.flows.needs import NextStep
from tidegate.flows.overview import Overview
from tidegate.flows.quarantine import Quarantined
from tidegate.flows.rebuild import Rebuilt
from tidegate.flows.reconcile import Reconciled
from tidegate.flows.status import RouteStatus
from tidegate.flows.trace import Trace

VERSION = 1


def dumps(document: Mapping[str, Any]) -> str:
    """Text as it is, but for what a terminal would act on: that is escaped, and no reader of JSON sees a difference."""
    text = json.dumps({"version": VERSION, **document}, indent=2, ensure_ascii=False)
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


_NOT_PLAIN = re.compile(r"[^\n -~]")


def compact(value: Any) -> str:
    """A value within a text."""
    return json.dumps(value, ensure_ascii=False)


def status(deployment: str, found: Overview) -> dict[str, Any]:
    waiting, letters = found.waiting, found.letters
    return {
        "deployment": deployment,
        "holds": all(each.uploads.holds for each in found.statuses),
        "halted": sum(len(each.halted) for each in found.statuses),
        "unannounced": {"batches": waiting.batches, "more": waiting.more, "since": iso(waiting.since)},
        "dead_letters": {"notifications": letters.notifications, "notices": letters.notices} if letters else None,
        "earlier_files": [
            {
                "route": each.route.name,
                "files": each.count,
                "more": each.more,
                "trouble": each.trouble or None,
            }
            for each in found.earlier
        ],
        "needs": [
            {
                "need": each.kind.value,
                "what": each.what,
                "route": each.route or None,
                "batch": each.batch or None,
                "count": each.count,
                "since": iso(each.since),
                "next": _next(each.next),
            }
            for each in found.needs
        ],
        "routes": [_route_status(each, found.hosts) for each in found.statuses],
    }


def _next(steps: Sequence[NextStep]) -> list[dict[str, Any]]:
    return [{"why": each.why, "command": runnable(each.command) or None} for each in steps]


def _route_status(status: RouteStatus, hosts: Mapping[str, str]) -> dict[str, Any]:
    ended = status.uploads.ended
    in_state = [batch.state for batch in status.unfinished]
    return {
        "route": status.route.name,
        "configured": status.configured,
        "table": status.route.dataset.table,
        "paused_at": iso(status.paused),
        "uploads": {
            "notified": status.uploads.notified,
            "committed": ended.committed,
            "quarantined": ended.quarantined,
            "superseded": ended.superseded,
            "vanished": ended.vanished,
            "dropped": status.uploads.dropped,
            "pending": status.uploads.pending,
            "holds": status.uploads.holds,
        },
        "quarantined_since": iso(status.quarantined_since),
        "rows": ended.rows,
        "rejected_rows": ended.rejected,
        "duplicates_refused": status.refused,
        "jobs": status.jobs,
        "batches": {
            "open": in_state.count(State.OPEN),
            "sealed": in_state.count(State.SEALED),
            "submitted": in_state.count(State.SUBMITTED),
            "halted": len(status.halted),
            "committed": status.committed_batches,
            "abandoned": status.abandoned_batches,
        },
        "unfinished": [_batch(batch) for batch in status.unfinished],
        "riding": [
            {"batch": batch.id, "job_run": batch.job_run, "job_of": hosts[batch.id] or None}
            for batch in status.unfinished
            if batch.id in hosts
        ],
        "wished": list(status.wished),
        "wishes": [
            {"batch": each.id, "state": each.state.value, "wish": each.wish.value, "uploads": each.objects}
            for each in status.wishes
            if each.wish
        ],
        "aside": list(status.aside),
        "unknown": _unknown(status.unknown),
    }


def _unknown(names: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "uploads": count} for name, count in ranked(names)]


def trace(uri: str, traces: Sequence[Trace], near: Sequence[str] = ()) -> dict[str, Any]:
    """`near` are the URIs of known objects that look like this one, if it is not known."""
    return {
        "uri": uri,
        "near": list(near),
        "versions": [
            {
                "version": each.claim.version,
                "outcome": each.outcome,
                "answer": each.answer,
                "explanation": each.explanation,
                "rows": each.rows,
                "rejected_rows": each.rejected,
                "table": each.batch.table or None if each.batch else None,
                "next": _next(each.next_steps(uri)),
                "claimed_at": iso(each.claim.claimed_at),
                "notice": _notice(each.notice, each.claim.notice),
                "batch": _batch(each.batch) if each.batch else None,
            }
            for each in traces
        ],
        "several_landed": [
            {"table": each.table, "versions": list(each.versions), "ordered": each.ordered, "delete": each.delete}
            for each in several_landed(uri, ((trace.claim, trace.batch) for trace in traces))
        ],
    }


def _notice(record: NoticeRecord | None, notice_id: str) -> dict[str, Any]:
    if record is None:
        return {"id": notice_id, "state": "claiming", "decided_at": None}
    return {"id": notice_id, "state": "void" if record.void else "registered", "decided_at": iso(record.decided_at)}


def _batch(batch: Batch) -> dict[str, Any]:
    return {
        "id": batch.id,
        "state": batch.state.value,
        "objects": batch.objects,
        "bytes": batch.bytes,
        "attempt": batch.attempt,
        "job_run": batch.job_run or None,
        # text: a 64-bit number does not survive JavaScript, nor every jq
        "snapshot": str(batch.snapshot) if batch.snapshot else None,
        "halted": batch.halted or None,
        "fencing": batch.fencing and batch.state is State.SUBMITTED,
        "wish": batch.wish.value if batch.wish else None,
        "opened_at": iso(batch.opened_at),
        "sealed_at": iso(batch.sealed_at),
        "submitted_at": iso(batch.submitted_at),
        "ended_at": iso(batch.ended_at),
        "unknown": _unknown(batch.unknown),
    }


def files(page: FilesPage) -> dict[str, Any]:
    return {
        "source": "ledger",
        "unknown": None,
        "after": str(page.after) if page.after else None,
        "troubles": list(page.troubles),
        "files": [_file(each) for each in page.files],
    }


def _file(each: KnownFile) -> dict[str, Any]:
    return {
        "uri": each.upload.uri,
        "version": each.upload.version,
        "route": each.batch.route,
        "outcome": each.state.outcome,
        "rows": each.rows,
        "rejected_rows": each.rejected,
        "landed_versions": each.versions,
        "error": each.state.error or None,
        "claimed_at": iso(each.claimed_at),
        "ended_at": iso(each.batch.ended_at),
        "table": each.batch.table or None,
        "batch": each.batch.id,
        "batch_state": each.batch.state.value,
        "snapshot": str(each.batch.snapshot) if each.batch.snapshot else None,
    }


def landed_files(page: LandedPage) -> dict[str, Any]:
    """In the shape of `files`, from what the tables hold."""
    return {
        "source": "tables",
        "unknown": page.unknown,
        "after": page.after or None,
        "troubles": list(page.troubles),
        "files": [
            {
                "uri": each.uri,
                "version": each.version,
                "route": None,
                "outcome": "committed",
                "rows": each.rows,
                "rejected_rows": None,
                "landed_versions": each.versions,
                "error": None,
                "claimed_at": None,
                "ended_at": iso(each.ingested_at),
                "table": each.table,
                "batch": each.batch,
                "batch_state": None,
                "snapshot": str(each.snapshot) if each.snapshot else None,
            }
            for each in page.files
        ],
    }


def batches(page: BatchPage, now: int) -> dict[str, Any]:
    return {"after": page.after or None, "batches": [_past_batch(each, now) for each in page.batches]}


def _past_batch(each: PastBatch, now: int) -> dict[str, Any]:
    batch, took = each.batch, spans(each.batch, now)
    return {
        "route": batch.route,
        "table": batch.table or None,
        **_batch(batch),
        "uploads": {name: count for name, count in batch.tally.as_dict().items() if name in tuple(Outcome)},
        "rows": batch.tally.rows,
        "rejected_rows": batch.tally.rejected,
        "gathered_seconds": took.gathered,
        "waited_seconds": took.waited,
        "ran_seconds": took.ran,
        "error": each.error or None,
    }


def routes(config: Path, routes: Sequence[Route], maintained: Collection[str]) -> dict[str, Any]:
    """`maintained` are the tables that a job maintains."""
    return {
        "config": str(config),
        "routes": [
            {
                "route": route.name,
                "retired": route.retired,
                "bucket": route.bucket,
                "prefix": route.prefix,
                "suffix": route.suffix,
                "format": route.dataset.format,
                "table": route.dataset.table,
                "schema": " ".join(route.dataset.schema.split()),
                "partition_by": list(route.dataset.partition_by),
                "maintained": route.dataset.table in maintained,
                "max_object_bytes": route.dataset.max_object_bytes,
                "audit_from": route.audit_from,
                "lanes": route.lanes,
                "batch": {
                    "max_wait_seconds": route.limits.max_wait,
                    "target_bytes": route.limits.target_bytes,
                    "target_objects": route.limits.target_objects,
                    "in_flight": route.limits.in_flight,
                    "attempts": route.limits.attempts,
                    "retry_wait_seconds": route.limits.retry_wait,
                    "step_aside_seconds": route.limits.step_aside,
                },
            }
            for route in routes
        ],
    }


def rebuilt(done: Rebuilt, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "whole": done.whole,
        "tables": [{"table": table, "uploads": uploads} for table, uploads in sorted(done.rows.landed.items())],
        "uploads_before_the_memory": done.rows.before,
        "uploads_of_other_tools": done.rows.strangers,
        "written_from_rows": {"batches": done.rows.written, "uploads": done.rows.uploads},
        "batches": {"read": done.batches, "ended": done.ended, "waiting": done.waiting},
        "claims": done.claims,
        "uploads_sent_again": done.sent,
        "loaded_once_more": [
            {"batch": each.batch, "other": each.other, "uploads": each.uploads, "example": each.example}
            for each in done.twice
        ],
        "troubles": done.troubles,
    }


def reconciled(done: Reconciled) -> dict[str, Any]:
    return {
        "holds": done.holds,
        "committed_batches": done.committed,
        "committed_rows": done.rows,
        "pending_batches": done.pending,
        "forgotten_batches": done.forgotten,
        "uploads_of_other_tools": done.strangers,
        "abandoned_batches": done.abandoned,
        "tables": [
            {
                "table": table,
                "uploads": held.uploads,
                "rows": held.rows,
                "objects_in_several_versions": done.several.get(table, 0),
            }
            for table, held in sorted(done.tables.items())
        ],
        "findings": [
            {
                "difference": each.difference.value,
                "route": each.route,
                "table": each.name_of_table,
                "batch": each.batch,
                "other_batch": each.other or None,
                "in_the_ledger": {"uploads": each.ledger.uploads, "rows": each.ledger.rows},
                "in_the_table": {"uploads": each.table.uploads, "rows": each.table.rows},
                "example": each.example or None,
                "job_runs": each.job_runs or None,
                "advice": each.advice,
            }
            for each in done.findings
        ],
    }


def maintained(done: CompleteMaintenance, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "tables": [
            {
                "table": each.table,
                "small_files": each.small,
                "compacted_files": each.compacted,
                "into_files": each.compacted_into,
                "compacted_bytes": each.compacted_bytes,
                "rewritten_manifests": each.manifests,
                "snapshots": each.snapshots,
                "expired_snapshots": each.expired,
                "deleted_files": each.deleted,
                "orphan_files": each.orphans,
                "remarks": list(each.remarks),
                "trouble": each.trouble or None,
            }
            for each in done.tables
        ],
    }


def quarantine(found: Sequence[Quarantined], *, more: bool) -> dict[str, Any]:
    return {
        "more": more,
        "uploads": [
            {
                "route": each.route,
                "uri": f"s3://{each.bucket}/{each.key}",
                "version": each.version,
                "batch": each.batch,
                "attempt": each.attempt,
                "ended_at": iso(each.ended_at),
                "error": each.error,
            }
            for each in found
        ],
    }


def audited(
    window: Window,
    counts: Mapping[str, AuditCounts],
    until: Mapping[str, int],
    first: Sequence[tuple[Listed, AuditFinding]],
    *,
    dry_run: bool,
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "since": iso(window.since),
        "until": iso(window.until),
        "sent": sum(each.sent for each in counts.values()),
        "routes": [
            {
                "route": name,
                "until": iso(until.get(name, window.until)),
                **each.as_dict(),
                "holds": each.holds,
            }
            for name, each in counts.items()
        ],
        "first": [
            {
                "uri": each.upload.uri,
                "version": each.upload.version,
                "modified": iso(each.modified),
                "finding": finding.value,
            }
            for each, finding in first
        ],
    }


def backfilled(
    scopes: Sequence[BackfillScope],
    surveys: Mapping[str, Survey],
    counts: Mapping[str, BackfillCounts],
    first: Sequence[tuple[Listed, BackfillFinding]],
    rate: int,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "sent": 0 if dry_run else sum(each.sent for each in counts.values()),
        "routes": [
            {
                "route": scope.route.name,
                "prefix": scope.uri,
                "table": scope.route.dataset.table,
                "listed": surveys[scope.route.name].listed,
                "dollars": round(surveys[scope.route.name].dollars(scope.route.limits, rate), 2),
                "bytes": counts[scope.route.name].size,
                **counts[scope.route.name].as_dict(),
            }
            for scope in scopes
        ],
        "first": [
            {
                "uri": each.upload.uri,
                "version": each.upload.version,
                "modified": iso(each.modified),
                "finding": finding.value,
            }
            for each, finding in first
        ],
    }


def doctor(checks: Sequence[Check]) -> dict[str, Any]:
    return {
        "healthy": all(check.state is not CheckState.FAIL for check in checks),
        "checks": [
            {"name": check.name, "state": check.state.value, "finding": check.finding, "advice": check.advice or None}
            for check in checks
        ],
    }


def serving(deployment: str, address: str) -> dict[str, Any]:
    return {"deployment": deployment, "address": address}


def iso(seconds: int) -> str | None:
    """Epoch seconds as "2026-11-21T10:21:00Z"; None for 0, which is "not yet"."""
    return times.iso(seconds) if seconds else None

"""What `--json` prints: the records of the verbs, field by field. docs/json has an example of each, and tests compare
the two.

`document` encodes any dataclass. `SHOWN` has those of which only some fields are shown, or by other names. Fields may
be added. If a field changes its name or meaning, `VERSION` changes.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tidegate.cli.printed import runnable
from tidegate.core import times
from tidegate.core.audit import AuditCounts, AuditFinding, Listed, Window
from tidegate.core.backfill import BackfillCounts, BackfillFinding, BackfillScope, Survey
from tidegate.core.batches import Batch, State
from tidegate.core.landed_files import LandedFile, LandedPage
from tidegate.core.landed_versions import SeveralLanded
from tidegate.core.maintenance import MaintainedTable
from tidegate.core.outcomes import Conservation, Outcome
from tidegate.core.spans import spans
from tidegate.core.unknown import ranked
from tidegate.flows.batch_list import BatchPage, PastBatch
from tidegate.flows.earlier_files import EarlierFiles
from tidegate.flows.files import FilesPage, KnownFile
from tidegate.flows.landed_versions import Left
from tidegate.flows.needs import Need, NextStep
from tidegate.flows.overview import Overview
from tidegate.flows.quarantine import Quarantined
from tidegate.flows.rebuild import Rebuilt
from tidegate.flows.reconcile import Reconciled, TableFinding
from tidegate.flows.status import RouteStatus
from tidegate.flows.trace import Trace, landed_beside

VERSION = 1


# --- any record ---


def document(record: Any = None, /, **more: Any) -> dict[str, Any]:
    """These fields, and then those of the record."""
    return {name: _plain(value, name) for name, value in {**more, **_fields(record)}.items()}


def dumps(document: Mapping[str, Any]) -> str:
    """Text as it is, but for what a terminal would act on: that is escaped, and no reader of JSON sees a difference."""
    text = json.dumps({"version": VERSION, **document}, indent=2, ensure_ascii=False)
    return _NOT_PLAIN.sub(lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text)


_NOT_PLAIN = re.compile(r"[^\n -~]")


def compact(value: Any) -> str:
    """A value within a text."""
    return json.dumps(value, ensure_ascii=False)


def iso(seconds: int) -> str | None:
    """Epoch seconds as "2026-11-21T10:21:00Z"; None for 0, which is "not yet"."""
    return times.iso(seconds) if seconds else None


_OF_TIMES = re.compile(r"(_at|since|until|modified)$")
"""How the names of fields end that hold epoch seconds."""


def _plain(value: Any, name: str = "") -> Any:
    """A value as JSON has it. `name` is that of a field of ours. What others have named, such as the columns of a row,
    has none, and stays as it is."""
    match value:
        case None | bool():
            return value
        case Enum():
            return value.value
        case int() if _OF_TIMES.search(name):
            return iso(value)
        case int() if name == "snapshot":
            # text: a 64-bit number does not survive JavaScript, nor every jq
            return str(value) if value else None
        case "" if name:
            return None
        case str() | int() | float():
            return value
        case Path():
            return str(value)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case Iterable():
            return [_plain(each) for each in value]
        case _:
            return document(value)


def _fields(record: Any) -> dict[str, Any]:
    if record is None:
        return {}
    if shown := SHOWN.get(type(record)):
        return shown(record)
    assert is_dataclass(record)
    return {each.name: getattr(record, each.name) for each in fields(record)}


def picked(record: Any, names: str) -> dict[str, Any]:
    """These attributes of a record: `name`, or `name=way.to.it` for one that is called otherwise there. None stays None
    on the way."""
    found = {}
    for each in names.split():
        name, _, way = each.partition("=")
        value = record
        for part in (way or name).split("."):
            value = None if value is None else getattr(value, part)
        found[name] = value
    return found


def _unknown(names: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "uploads": count} for name, count in ranked(names)]


def _in_state(status: RouteStatus) -> dict[str, int]:
    of = [batch.state for batch in status.unfinished]
    return {
        **{each.lower(): of.count(each) for each in (State.OPEN, State.SEALED, State.SUBMITTED)},
        "halted": len(status.halted),
        "committed": status.committed_batches,
        "abandoned": status.abandoned_batches,
    }


_LANDED = {
    "outcome": "committed",
    **dict.fromkeys(
        ["route", "rejected_rows", "error", "claimed_at", "batch_state", "replaced_rows", "deletion", "left"]
    ),
}
"""Of a file that only its table tells of."""

SHOWN: dict[type, Callable[[Any], dict[str, Any]]] = {
    Batch: lambda it: {
        **picked(it, "id state objects bytes attempt job_run snapshot halted wish"),
        "fencing": it.fencing and it.state is State.SUBMITTED,
        **picked(it, "opened_at sealed_at submitted_at ended_at"),
        "unknown": _unknown(it.unknown),
    },
    NextStep: lambda it: {"why": it.why, "command": runnable(it.command)},
    Need: lambda it: picked(it, "need=kind what route batch count since next"),
    EarlierFiles: lambda it: picked(it, "route=route.name files=count more trouble"),
    Conservation: lambda it: picked(
        it,
        "notified committed=ended.committed quarantined=ended.quarantined superseded=ended.superseded"
        " vanished=ended.vanished present=ended.present dropped pending holds",
    ),
    RouteStatus: lambda it: {
        **picked(it, "route=route.name configured table=route.dataset.table paused_at=paused uploads"),
        **picked(it, "quarantined_since rows=uploads.ended.rows rejected_rows=uploads.ended.rejected"),
        **picked(it, "replaced_rows=uploads.ended.replaced left_out_rows=uploads.ended.left_out"),
        **picked(it, "duplicates_refused=refused jobs unfinished wished aside"),
        "batches": _in_state(it),
        "wishes": [document(**picked(each, "batch=id state wish uploads=objects")) for each in it.wishes if each.wish],
        "unknown": _unknown(it.unknown),
    },
    Trace: lambda it: {
        **picked(it, "version=claim.version outcome answer explanation rows rejected_rows=rejected replaced_by"),
        **picked(it, "table=batch.table claimed_at=claim.claimed_at batch"),
        "notice": document(id=it.claim.notice, state="claiming", decided_at=0)
        if it.notice is None
        else document(
            id=it.notice.id, state="void" if it.notice.void else "registered", decided_at=it.notice.decided_at
        ),
    },
    SeveralLanded: lambda it: picked(it, "table versions ordered delete"),
    KnownFile: lambda it: picked(
        it,
        "uri=upload.uri version=upload.version route=batch.route outcome=state.outcome rows rejected_rows=rejected"
        " landed_versions=versions error=state.error claimed_at ended_at=batch.ended_at table=batch.table"
        " batch=batch.id batch_state=batch.state snapshot=batch.snapshot replaced_rows=replaced deletion left",
    ),
    Left: lambda it: picked(it, "replaced_by=version left_at=at deletion=deleted"),
    FilesPage: lambda it: {"after": str(it.after) if it.after else None, **picked(it, "troubles files")},
    LandedFile: lambda it: {
        **picked(it, "uri version rows landed_versions=versions ended_at=ingested_at table batch snapshot"),
        **_LANDED,
    },
    PastBatch: lambda it: {
        **picked(it, "route=batch.route table=batch.table error"),
        **_fields(it.batch),
        "uploads": {name: count for name, count in it.batch.tally.as_dict().items() if name in tuple(Outcome)},
        **picked(it.batch.tally, "rows rejected_rows=rejected replaced_rows=replaced left_out_rows=left_out"),
    },
    Quarantined: lambda it: {
        **picked(it, "route version batch attempt ended_at error"),
        "uri": f"s3://{it.bucket}/{it.key}",
    },
    Rebuilt: lambda it: {
        "whole": it.whole,
        "tables": [{"table": table, "uploads": uploads} for table, uploads in sorted(it.rows.landed.items())],
        **picked(it.rows, "uploads_before_the_memory=before uploads_of_other_tools=strangers"),
        "written_from_rows": picked(it.rows, "batches=written uploads"),
        "batches": picked(it, "read=batches ended waiting"),
        **picked(it, "claims uploads_sent_again=sent loaded_once_more=twice troubles"),
        "unknown_routes": sorted(it.unknown_routes),
    },
    Reconciled: lambda it: {
        **picked(it, "committed_batches=committed committed_rows=rows pending_batches=pending"),
        **picked(it, "forgotten_batches=forgotten uploads_of_other_tools=strangers abandoned_batches=abandoned"),
        "tables": [
            {"table": table, **_fields(held), "objects_in_several_versions": it.several.get(table, 0)}
            for table, held in sorted(it.tables.items())
        ],
        "findings": it.findings,
    },
    MaintainedTable: lambda it: picked(
        it,
        "table small_files=small compacted_files=compacted into_files=compacted_into compacted_bytes"
        " rewritten_manifests=manifests merged_deletes=deletes snapshots expired_snapshots=expired"
        " deleted_files=deleted orphan_files=orphans remarks trouble",
    ),
    TableFinding: lambda it: picked(
        it,
        "difference route table=name_of_table batch other_batch=other in_the_ledger=ledger in_the_table=table example"
        " job_runs advice",
    ),
}


# --- what verbs, and the page of `ui`, put together ---


def status(deployment: str, found: Overview) -> dict[str, Any]:
    return document(
        deployment=deployment,
        holds=all(each.uploads.holds for each in found.statuses),
        halted=sum(len(each.halted) for each in found.statuses),
        waiting_workers=len(found.waiting_workers),
        **picked(found, "unannounced=waiting dead_letters=letters earlier_files=earlier needs"),
        routes=[document(each) for each in found.statuses],
    )


def trace(uri: str, traces: Sequence[Trace], near: Sequence[str] = ()) -> dict[str, Any]:
    """`near` are the URIs of known objects that look like this one, if it is not known."""
    return document(
        uri=uri,
        near=near,
        versions=[{**document(each), "next": _plain(each.next_steps(uri))} for each in traces],
        several_landed=landed_beside(uri, traces),
    )


def files(page: FilesPage | LandedPage) -> dict[str, Any]:
    """What the ledger knows; or, in the same shape, what the tables hold."""
    if isinstance(page, LandedPage):
        return document(page, source="tables")
    return document(page, source="ledger", unknown=None)


def batches(page: BatchPage, now: int) -> dict[str, Any]:
    found = []
    for each in page.batches:
        took = picked(spans(each.batch, now), "gathered_seconds=gathered waited_seconds=waited ran_seconds=ran")
        found.append({**document(each), **took})
    return document(after=page.after, batches=found)


def audited(
    window: Window,
    counts: Mapping[str, AuditCounts],
    until: Mapping[str, int],
    first: Sequence[tuple[Listed, AuditFinding]],
    *,
    dry_run: bool,
) -> dict[str, Any]:
    return document(
        dry_run=dry_run,
        **picked(window, "since until"),
        sent=sum(each.sent for each in counts.values()),
        routes=[
            document(each, route=name, until=until.get(name, window.until), holds=each.holds)
            for name, each in counts.items()
        ],
        first=_first(first),
    )


def backfilled(
    scopes: Sequence[BackfillScope],
    surveys: Mapping[str, Survey],
    counts: Mapping[str, BackfillCounts],
    first: Sequence[tuple[Listed, BackfillFinding]],
    rate: int,
    *,
    dry_run: bool,
) -> dict[str, Any]:
    return document(
        dry_run=dry_run,
        sent=0 if dry_run else sum(each.sent for each in counts.values()),
        routes=[
            {
                **picked(scope, "route=route.name prefix=uri table=route.dataset.table"),
                "listed": surveys[scope.route.name].listed,
                "dollars": round(surveys[scope.route.name].dollars(scope.route.limits, rate), 2),
                "bytes": counts[scope.route.name].size,
                **counts[scope.route.name].as_dict(),
            }
            for scope in scopes
        ],
        first=_first(first),
    )


def _first(found: Iterable[tuple[Listed, Enum]]) -> list[dict[str, Any]]:
    return [
        document(**picked(each, "uri=upload.uri version=upload.version modified"), finding=finding)
        for each, finding in found
    ]

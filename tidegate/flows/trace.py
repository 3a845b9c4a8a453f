"""Trace: what happened to every version of one object, from claim to snapshot."""

import glob
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tidegate.core.advice import about_the_table
from tidegate.core.batches import Batch, BatchLimits, State, Wish
from tidegate.core.claims import Claim
from tidegate.core.errors import TidegateError
from tidegate.core.file_states import outcome_of
from tidegate.core.landed_versions import SeveralLanded, several_landed
from tidegate.core.manifests import batch_folder, decode_part, decode_sealed
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import DROPPED, Outcome
from tidegate.core.outlook import outlook
from tidegate.core.quantities import counted
from tidegate.core.receipts import rejected_in_parts, rows_in_parts
from tidegate.core.replacing import HeldRows, RowsPlace
from tidegate.core.routes import REJECTED, Route
from tidegate.core.times import iso
from tidegate.flows.drop_quarantined import landed_later
from tidegate.flows.landed_versions import Left, keeps_latest_only, left_the_table
from tidegate.flows.needs import NextStep, ways_out
from tidegate.flows.outcomes import published_outcomes
from tidegate.flows.ports import Ports, Work

MOST_ROWS = 10
"""Of so many versions, the newest, the number of rows, or the whole error, is looked up: four reads of the work bucket
for each batch."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One version: its claim, and its notice and batch if there are any. `limits` are those of the batch's route as the
    ledger has them, None if no attempt is under way. `rows` is how many it brought, and `rejected` how many of its rows
    do not fit; None if it is not committed, or if nobody recorded how many. `replaced_by` is the later version for
    which its rows left the table, or which has landed while this one is in quarantine; "" if there is none. `deleted`:
    that is a deletion. `deletion`: it is one itself, and `removed` is how many rows have left for it. `where` is where
    in the file the error of a quarantined one is, "" if nobody knows."""

    claim: Claim
    notice: NoticeRecord | None
    batch: Batch | None
    limits: BatchLimits | None = None
    rows: int | None = None
    rejected: int | None = None
    where: str = ""
    replaced_by: str = ""
    deleted: bool = False
    deletion: bool = False
    removed: int = 0

    @property
    def outcome(self) -> str:
        """One of `core.file_states.FILE_STATES`."""
        return outcome_of(self.claim, self.batch)

    @property
    def answer(self) -> str:
        """What became of it, in one sentence that begins with the outcome."""
        batch = self.batch
        if self.outcome != Outcome.COMMITTED or batch is None:
            since = f". Version {self.replaced_by} has landed since: settling gives this one up"
            return f"{self.outcome}: {self.explanation}{since if self.replaced_by else ''}"
        rows = "" if self.rows is None else f": {counted(self.rows, 'row')}"
        if self.deletion:
            rows = f": the object is deleted, and {counted(self.removed, 'row')} of it left"
        table = f", in {batch.table}" if batch.table else ""
        bad = ""
        if self.rejected:
            rows_are = counted(self.rejected, "row does not fit and is", "rows do not fit and are")
            bad = f"; {rows_are} in {batch.table}{REJECTED}"
        gone = f". Its rows left the table for those of version {self.replaced_by}" if self.replaced_by else ""
        if self.deletion and self.replaced_by:
            gone = f". Version {self.replaced_by} came after it"
        elif self.deleted:
            gone = f". Its rows left the table when the object was deleted (version {self.replaced_by})"
        return f"landed{rows} at {iso(batch.ended_at)}{table}{bad}{gone}"

    def next_steps(self, uri: str) -> tuple[NextStep, ...]:
        """What a person may do about it; nothing if it landed, or goes on by itself. `uri` is the object's."""
        again = f"tidegate resend {shlex.quote(uri)} --version {shlex.quote(self.claim.version)}"
        match self.outcome:
            case Outcome.QUARANTINED if self.replaced_by:
                return ()
            case Outcome.QUARANTINED:
                key = shlex.quote(glob.escape(uri.removeprefix("s3://").partition("/")[2]))
                release = NextStep("when the cause is removed", f"tidegate resend quarantine --key {key}")
                about = about_the_table(self.claim.error, self.batch.table if self.batch else "")
                return (*([NextStep(about)] if about else []), release)
            case outcome if outcome == DROPPED:
                return (NextStep("to bring it back", again),)
        if self.batch is None or self.outcome in tuple(Outcome):
            return ()
        if self.batch.halted:
            return ways_out(self.batch)
        if self.batch.state is State.ABANDONED and self.batch.wish is None:
            return (NextStep("to send it again", again),)
        return ()

    @property
    def explanation(self) -> str:
        """The state in one sentence, and what happens next."""
        before = self.claim.before
        had_landed = before is not None and before.outcome == Outcome.COMMITTED and not self.claim.outcome
        if had_landed and self.batch is not None and self.batch.state is not State.COMMITTED:
            return f"{self._told}. It had landed before: those rows stay until then, unless somebody has removed them"
        return self._told

    @property
    def _told(self) -> str:
        if self.claim.error and not self.claim.rows_of:
            return self.claim.error
        if self.notice is None and self.claim.later:
            return (
                "the same bytes came again, and its own notice is not on record: either that is not registered yet and"
                " will be delivered again, or it is so old that the ledger has forgotten it (see _source_version in the"
                " table)"
            )
        if self.notice is None:
            return "claimed, its notice not registered yet: the notice will be delivered again and registered"
        if self.notice.void or self.batch is None:
            return "its notice is void: the upload belongs to a later notice, which an audit made"
        batch = self.batch
        if self.claim.outcome == Outcome.PRESENT:
            had = f"table {batch.table} had its rows, of batch {self.claim.rows_of}"
            why = self.claim.why_present
            if self.claim.same_as:
                return f"it came with batch {batch.id}, and {had}: {why}"
            if why:
                return f"it was to be reloaded with batch {batch.id}, and {had}: they stay. {why}"
            return f"it came again with batch {batch.id}, and {had}"
        if self.claim.outcome == DROPPED:
            return f"batch {batch.id} was abandoned, and its uploads were dropped: only a resend brings it back"
        if batch.halted:
            return f"batch {batch.id} halted after attempt {batch.attempt}: {batch.halted}"
        if self.limits is not None:
            return f"in batch {batch.id}: {outlook(batch, self.limits)}"
        return {
            State.OPEN: f"gathering with {counted(batch.objects, 'upload')} in batch {batch.id}",
            State.SEALED: f"in batch {batch.id}, which waits for a free slot",
            State.SUBMITTED: f"in batch {batch.id}, attempt {batch.attempt} is under way",
            State.COMMITTED: (
                f"in the table since snapshot {batch.snapshot}"
                if batch.snapshot
                else "in the table: its rows say so, from which the ledger was rebuilt"
            ),
            State.ABANDONED: f"batch {batch.id} was abandoned: {_WAITS_FOR[batch.wish]}",
        }[batch.state]


_WAITS_FOR = {
    None: "the upload waits for a resend",
    Wish.RESEND: "settling sends the upload again",
    Wish.DROP: "settling drops the upload",
}


def landed_beside(uri: str, traces: Iterable[Trace]) -> tuple[SeveralLanded, ...]:
    """`several_landed` of those that a route has landed which appends, and whose rows have not left the table since. Of
    those without a row only the newest counts, if S3 has said that it is: the older ones have rows that it has not."""
    there = [each for each in traces if not (each.replaced_by or (each.batch and keeps_latest_only(each.batch)))]
    empty = {each.claim.version for each in there if each.rows == 0}
    with_rows = several_landed(uri, ((each.claim, each.batch) for each in there if each.rows != 0))
    found = {each.table: each for each in with_rows}
    for each in several_landed(uri, ((each.claim, each.batch) for each in there)):
        *before, newest = each.versions
        if each.ordered and newest in empty and (older := [one for one in before if one not in empty]):
            found[each.table] = replace(each, versions=(*older, newest))
    return tuple(found[table] for table in sorted(found))


def trace(bucket: str, key: str, ports: Ports) -> list[Trace]:
    """Every live claim on the object, oldest first. However many there are, their notices are read together, and then
    their batches."""
    traces: list[Trace] = []
    rows_known = 0
    known: Mapping[str, Route] = {}
    claims = ports.ledger.claims(bucket, key)
    owners = ports.ledger.owners(claims)
    for claim in reversed(sorted(claims, key=lambda each: each.claimed_at)):
        notice, batch = owners[claim]
        limits = None
        if batch is not None and batch.state is State.SUBMITTED and not batch.halted:
            known = known or ports.ledger.known_routes()
            limits = known[batch.route].limits if batch.route in known else None
        rows = rejected = None
        where, deletion, removed, later = "", False, 0, ""
        if notice and batch and rows_known < MOST_ROWS:
            identity = (bucket, key, claim.version)
            match outcome_of(claim, batch):
                case Outcome.COMMITTED:
                    rows, rejected = _rows(identity, notice, batch, ports.work)
                    left, deletion = _replaced(f"s3://{bucket}/{key}", batch, rows, ports.work)
                    removed = sum(each.rows for each in left)
                    rows_known += 1
                case Outcome.QUARANTINED:
                    landed = landed_later(claim, owners)
                    later = landed.version if landed else ""
                    error, where = _refusal(identity, notice, batch, ports.work)
                    claim = replace(claim, error=error or claim.error)
                    rows_known += 1
        traces.append(Trace(claim, notice, batch, limits, rows, rejected, where, later, False, deletion, removed))
    gone_since = _left(bucket, key, traces, ports)
    return [
        replace(each, replaced_by=gone.version, deleted=gone.deleted)
        if each.batch and (gone := gone_since.get((f"s3://{bucket}/{key}", each.claim.version, each.batch.id)))
        else each
        for each in traces[::-1]
    ]


def _left(bucket: str, key: str, traces: Sequence[Trace], ports: Ports) -> Mapping[RowsPlace, Left]:
    """What has left the table since; nothing if the work bucket does not answer."""
    if sum(each.outcome == Outcome.COMMITTED for each in traces) < 2:
        return {}
    with suppress(TidegateError):
        return left_the_table({(bucket, key): [(each.claim, each.batch) for each in traces]}, ports)
    return {}


RowCounts = tuple[int | None, int | None]
"""Of rows that landed, and of rows that do not fit."""


def _rows(identity: tuple[str, str, str], notice: NoticeRecord, batch: Batch, work: Work) -> RowCounts:
    """None also if the work bucket does not answer: whoever may read the ledger only still learns that it landed."""
    try:
        return rows_of(identity, notice, batch, work)
    except TidegateError:
        return None, None


def _replaced(uri: str, batch: Batch, rows: int | None, work: Work) -> tuple[list[HeldRows], bool]:
    """What has left the table of this object for the batch, and whether its upload without `rows` is a deletion, as far
    as that can be read."""
    with suppress(TidegateError):
        outcomes = published_outcomes(batch.id, work) if batch.tally.replaced or rows == 0 else None
        if outcomes:
            return [each for each in outcomes.replaced if each.uri == uri], not rows and uri in outcomes.deleted
    return [], False


def _refusal(identity: tuple[str, str, str], notice: NoticeRecord, batch: Batch, work: Work) -> tuple[str, str]:
    """Why an upload is in quarantine, and where in the file that is; "" for what nobody knows. Its claim has the
    beginning of the error only."""
    with suppress(TidegateError):
        outcomes = published_outcomes(batch.id, work)
        for each in outcomes.endings if outcomes else ():
            if (each.notice, each.bucket, each.key, each.version) == (notice.id, *identity):
                return each.error, each.where
    return "", ""


def rows_of(identity: tuple[str, str, str], notice: NoticeRecord, batch: Batch, work: Work) -> RowCounts:
    """How many rows an upload of a committed batch brought; None if nobody recorded it."""
    if batch.tally.committed == 1:
        return batch.tally.rows, batch.tally.rejected
    outcomes = published_outcomes(batch.id, work)
    manifest = work.get(batch_folder(batch.id) + "sealed.json") if outcomes and outcomes.rows else None
    if outcomes is None or manifest is None:
        return None, None
    sealed = decode_sealed(manifest)
    counts = rows_in_parts(sealed, outcomes).get(notice.part)
    part = work.get(batch_folder(batch.id) + notice.part) if counts else None
    owned = [each.upload.identity for each in decode_part(part)] if part else []
    if not counts or len(counts) != len(owned) or identity not in owned:
        return None, None
    place = owned.index(identity)
    bad = rejected_in_parts(sealed, outcomes).get(notice.part)
    return counts[place], bad[place] if bad else 0

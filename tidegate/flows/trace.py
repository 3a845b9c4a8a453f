"""Trace: what happened to every version of one object, from claim to snapshot."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.core.batches import Batch, BatchLimits, State, Wish
from tidegate.core.claims import Claim
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome
from tidegate.core.outlook import outlook
from tidegate.core.routes import Route
from tidegate.flows.ports import Ports

PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Trace:
    """One version: its claim, and its notice and batch if there are any. `limits` are those of the batch's route as the
    ledger has them, None if no attempt is under way."""

    claim: Claim
    notice: NoticeRecord | None
    batch: Batch | None
    limits: BatchLimits | None = None

    @property
    def outcome(self) -> str:
        """One of `Outcome`, `dropped`, or `pending`."""
        if self.claim.outcome and self.claim.outcome != ABANDONED:
            return self.claim.outcome
        if self.batch is not None and self.batch.state is State.COMMITTED:
            return Outcome.COMMITTED
        return PENDING

    @property
    def explanation(self) -> str:
        """The state in one sentence, and what happens next."""
        if self.claim.error:
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
            maker = "an audit or `tidegate ledger recover`"
            return f"its notice is void: the upload belongs to a later notice, which {maker} made"
        batch = self.batch
        if self.claim.outcome == DROPPED:
            return f"batch {batch.id} was abandoned, and its uploads were dropped: only a redrive brings it back"
        if batch.halted:
            return f"batch {batch.id} halted after attempt {batch.attempt}: {batch.halted}"
        if self.limits is not None:
            return f"in batch {batch.id}: {outlook(batch, self.limits)}"
        return {
            State.OPEN: f"gathering with {batch.objects} uploads in batch {batch.id}",
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
    None: "the upload waits for a redrive",
    Wish.REDRIVE: "settling sends the upload again",
    Wish.DROP: "settling drops the upload",
}


def trace(bucket: str, key: str, ports: Ports) -> list[Trace]:
    """Every live claim on the object, oldest first. However many there are, their notices are read together, and then
    their batches."""
    traces: list[Trace] = []
    known: Mapping[str, Route] = {}
    claims = ports.ledger.claims(bucket, key)
    notices = ports.ledger.notices({claim.notice for claim in claims})
    batches = ports.ledger.batches({notice.batch for notice in notices.values() if notice.batch})
    for claim in sorted(claims, key=lambda each: each.claimed_at):
        notice = notices.get(claim.notice)
        batch = batches.get(notice.batch) if notice else None
        limits = None
        if batch is not None and batch.state is State.SUBMITTED and not batch.halted:
            known = known or ports.ledger.known_routes()
            limits = known[batch.route].limits if batch.route in known else None
        traces.append(Trace(claim, notice, batch, limits))
    return traces

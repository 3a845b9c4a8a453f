"""What became of an upload, judged from what is recorded of it: its claim, its batch, and the batch's outcomes."""

from dataclasses import dataclass

from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import Claim
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome
from tidegate.core.receipts import Ending

PENDING = "pending"
"""In place of an outcome, for an upload that has none."""

UNKNOWN = "unknown"
"""In place of it, if what told of it has expired and is missing. Nobody can ask for these."""

FILE_STATES = (*(each.value for each in Outcome), DROPPED, PENDING)
"""What a file may be. Every upload is exactly one of these (rule 10)."""


@dataclass(frozen=True, slots=True)
class FileState:
    """One of `FILE_STATES`, and why: the error of an upload, or the reason for which its batch has halted."""

    outcome: str
    error: str = ""


def outcome_of(claim: Claim, batch: Batch | None) -> str:
    """One of `FILE_STATES`. `batch` is that of the claim's notice, None if that is not registered."""
    if claim.outcome and claim.outcome != ABANDONED:
        return claim.outcome
    return Outcome.COMMITTED.value if batch is not None and batch.state is State.COMMITTED else PENDING


def state_in_batch(
    notice: str, claim: Claim | None, batch: Batch, ending: Ending | None, *, known: bool = True
) -> FileState | None:
    """The state of an upload that `notice` brought into `batch`; None if it belongs to another notice by now.

    `claim` is None if it has expired, `ending` if the batch's outcomes have none for the upload, or if they were not
    read: then they are not `known`. An ending has the whole error, and a claim the beginning of it. So the ending goes
    first, unless the upload was dropped out of quarantine since: only the claim tells of that.
    """
    if claim is not None and claim.notice != notice:
        return None
    if ending is not None and (claim is None or claim.outcome != DROPPED):
        return FileState(ending.outcome, ending.error)
    outcome = _of_batch(batch, known=known) if claim is None else outcome_of(claim, batch)
    error = claim.error if claim is not None else ""
    return FileState(outcome, error or (batch.halted if outcome == PENDING else ""))


def _of_batch(batch: Batch, *, known: bool) -> str:
    """What an upload of the batch is, of which neither a claim nor an ending tells."""
    if batch.state is State.COMMITTED:
        return Outcome.COMMITTED.value if known or batch.tally.uploads == batch.tally.committed else UNKNOWN
    return DROPPED if batch.state is State.ABANDONED and batch.wish is Wish.DROP else PENDING


def _quarantined(batch: Batch) -> bool:
    return batch.state is State.COMMITTED and batch.tally.quarantined > 0


def may_hold(batch: Batch, outcome: str) -> bool:
    """Whether an upload of the batch may be in this state, as far as the batch's header tells; `outcome` is one of
    `FILE_STATES`, or "" for any."""
    match outcome:
        case "":
            return batch.objects > 0
        case "pending":
            return batch.objects > 0 and batch.state is not State.COMMITTED
        case "dropped":
            return batch.state is State.ABANDONED or _quarantined(batch)
        case _:
            return batch.state is State.COMMITTED and bool(batch.tally.as_dict()[outcome])

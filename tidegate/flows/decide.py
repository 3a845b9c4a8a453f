"""Decide: a person records whether a batch is published, if the table's history cannot prove it.

A batch whose floor is lost halts. A person must find out whether it was published, for example by a query for its rows.

    "it is not in the table"   one more attempt begins, with a new floor. It checks every earlier floor first: if the
                               history reaches one after all, that overrules the person. A zombie has the earlier
                               floor, and its commit is refused as long as that floor is lost
    "it is in the table"       the receipt is written that the driver could not write. Settling reads it within a minute

Each may be repeated. If both are recorded, the receipt wins: settling reads it also for an attempt that began after it.
"""

from dataclasses import dataclass
from enum import Enum, auto

from tidegate.core.batches import Batch, State
from tidegate.core.manifests import batch_folder, failure_name
from tidegate.core.receipts import Failure, Outcomes, Receipt, RejectedRows, decode_failure, decode_outcomes
from tidegate.flows.ports import Ports


class Decided(Enum):
    """How a decision ended."""

    DONE = auto()
    NO_SUCH_BATCH = auto()
    NOT_HALTED = auto()  # nothing to decide: the batch has not halted
    NOT_ASKED = auto()  # it halted for another reason than a lost floor
    MOVED_ON = auto()  # it changed during this command: check it again
    RECEIPT = auto()  # the table has decided: there is a receipt, and the batch halted for another reason
    NOT_STAGED = auto()  # nothing was ever staged for it, so it cannot be in the table
    REJECTED = auto()  # rows of it that do not fit belong in a table of their own: the person must say what of them
    WHICH = auto()  # several drivers staged: the person must name the one whose rows are in the table


@dataclass(frozen=True, slots=True)
class Decision:
    """`staged` are the snapshots to choose from, newest last, if one must be named; `rejected` the rows that something
    must be said of."""

    ended: Decided
    staged: tuple[int, ...] = ()
    rejected: RejectedRows | None = None


def decide_unpublished(batch_id: str, ports: Ports) -> Decision:
    """The batch is not in the table: attempt it anew. Whoever was asked about its rejected rows only is told so: a new
    floor would be one of the batch's own table."""
    batch = _halted(batch_id, ports)
    if not isinstance(batch, Batch):
        return Decision(batch)
    if _failure(batch, ports).rejected:
        return Decision(Decided.REJECTED)
    done = ports.ledger.resume(batch_id, batch.route, batch.attempt + 1, batch.fencing, batch.floors + 1)
    return Decision(Decided.DONE if done else Decided.MOVED_ON)


def decide_published(batch_id: str, staged: int | None, ports: Ports, *, rejected_done: bool = False) -> Decision:
    """The batch is in the table, published from the staged snapshot `staged`; None if only one driver ever staged.

    No driver runs after that. So if the batch has rejected rows, the person must say (`rejected_done`) that these are
    in their table, too, or are not wanted there."""
    batch = _halted(batch_id, ports)
    if not isinstance(batch, Batch):
        return Decision(batch)
    # a fence has no rows that could be in the table
    found = {outcomes.staged: outcomes for outcomes in _outcomes(batch_id, ports) if not outcomes.fence}
    if not found:
        return Decision(Decided.NOT_STAGED)
    if staged is None and len(found) == 1:
        (staged,) = found
    if staged is None:
        # whoever halted over the rejected rows knew what the batch was published from
        staged = _failure(batch, ports).staged or None
    if staged not in found:
        return Decision(Decided.WHICH, tuple(found))
    outcomes = found[staged]
    if outcomes.rejected and not rejected_done:
        return Decision(Decided.REJECTED, rejected=outcomes.rejected)
    # the published snapshot cannot be found any more: the receipt names the staged one instead
    receipt = Receipt.of(outcomes, batch_id, staged)
    ports.work.put_if_absent(batch_folder(batch_id) + "receipt.json", receipt.encode())
    return Decision(Decided.DONE)


def _failure(batch: Batch, ports: Ports) -> Failure:
    """Why the batch's last attempt gave up."""
    body = ports.work.get(failure_name(batch_folder(batch.id), batch.attempt))
    return decode_failure(body) if body else Failure(batch.attempt, "", False)


def _halted(batch_id: str, ports: Ports) -> Batch | Decided:
    batch = ports.ledger.batch(batch_id)
    if batch is None:
        return Decided.NO_SUCH_BATCH
    if batch.state is not State.SUBMITTED or not batch.halted:
        return Decided.NOT_HALTED
    if ports.work.get(batch_folder(batch_id) + "receipt.json"):
        return Decided.RECEIPT
    return batch if _failure(batch, ports).undecided else Decided.NOT_ASKED


def _outcomes(batch_id: str, ports: Ports) -> list[Outcomes]:
    bodies = (ports.work.get(name) for name in sorted(ports.work.names(f"{batch_folder(batch_id)}outcomes/")))
    return [decode_outcomes(body) for body in bodies if body is not None]

"""Decide: a person says what the table's history cannot say any more.

A batch whose floor is lost halts: the history does not prove whether it was published. Nothing but knowledge from
outside can settle that, such as a query for its rows, so this is for people.

    "it is not in the table"   one more attempt begins, with a floor of its own. Before it uses that, it asks every
                               earlier floor: one that answers after all outranks the person. A zombie has the earlier
                               floor, and as long as that is lost its commit is refused
    "it is in the table"       the receipt is written that its driver could not write. Settling reads it within a minute

Each may be repeated. The two contradict each other: the receipt, once written, wins, because an attempt that is
begun after it is settled by it.
"""

from dataclasses import dataclass
from enum import Enum, auto

from tidegate.core.batches import Batch, State
from tidegate.core.manifests import batch_folder
from tidegate.core.receipts import Outcomes, Receipt, decode_failure, decode_outcomes
from tidegate.flows.ports import Ledger, Work


class Decided(Enum):
    """How a decision ended."""

    DONE = auto()
    NO_SUCH_BATCH = auto()
    NOT_HALTED = auto()  # nothing to decide: the table is still being asked
    NOT_ASKED = auto()  # it has halted for a reason that says nothing against the table's history
    MOVED_ON = auto()  # it changed while this was asked: look again
    RECEIPT = auto()  # the table has answered already: the batch has halted for another reason
    NOT_STAGED = auto()  # nothing was ever staged for it, so it cannot be in the table
    WHICH = auto()  # several drivers staged: say which one's rows are there


@dataclass(frozen=True, slots=True)
class Decision:
    """`staged` are the snapshots to choose from, newest last, where one must be named."""

    ended: Decided
    staged: tuple[int, ...] = ()


def decide_unpublished(batch_id: str, *, ledger: Ledger, work: Work) -> Decision:
    """The batch is not in the table: attempt it anew."""
    batch = _halted(batch_id, ledger, work)
    if not isinstance(batch, Batch):
        return Decision(batch)
    done = ledger.resume(batch_id, batch.route, batch.attempt + 1, batch.fencing, batch.floors + 1)
    return Decision(Decided.DONE if done else Decided.MOVED_ON)


def decide_published(batch_id: str, staged: int | None, *, ledger: Ledger, work: Work) -> Decision:
    """The batch is in the table, as what was staged as `staged`; None if only one driver ever staged."""
    batch = _halted(batch_id, ledger, work)
    if not isinstance(batch, Batch):
        return Decision(batch)
    # of a fence there are no rows that could be in the table
    found = {outcomes.staged: outcomes for outcomes in _outcomes(batch_id, work) if not outcomes.fence}
    if not found:
        return Decision(Decided.NOT_STAGED)
    if staged is None and len(found) == 1:
        (staged,) = found
    if staged not in found:
        return Decision(Decided.WHICH, tuple(found))
    outcomes = found[staged]
    # the snapshot that published it is not to be found any more: what was staged stands for it
    receipt = Receipt(batch_id, staged, staged, outcomes.fence, outcomes.tally, outcomes.manifest)
    work.put_if_absent(batch_folder(batch_id) + "receipt.json", receipt.encode())
    return Decision(Decided.DONE)


def _halted(batch_id: str, ledger: Ledger, work: Work) -> Batch | Decided:
    batch = ledger.batch(batch_id)
    if batch is None:
        return Decided.NO_SUCH_BATCH
    if batch.state is not State.SUBMITTED or not batch.halted:
        return Decided.NOT_HALTED
    folder = batch_folder(batch_id)
    if work.get(folder + "receipt.json"):
        return Decided.RECEIPT
    failure = work.get(f"{folder}failures/{batch.attempt}.json")
    return batch if failure and decode_failure(failure).undecided else Decided.NOT_ASKED


def _outcomes(batch_id: str, work: Work) -> list[Outcomes]:
    bodies = (work.get(name) for name in sorted(work.names(f"{batch_folder(batch_id)}outcomes/")))
    return [decode_outcomes(body) for body in bodies if body is not None]

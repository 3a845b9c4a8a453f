"""Resume: a person has removed the cause; a halted batch gets one more attempt.

One conditional write. Settling finds an attempt without a job within a minute and starts it, which is what it does
for any attempt whose starter died.
"""

from enum import Enum, auto

from tidegate.core.batches import State
from tidegate.flows.ports import Ledger


class Resumed(Enum):
    """How a request to resume, or to abort, ended."""

    DONE = auto()
    NO_SUCH_BATCH = auto()
    NOT_HALTED = auto()  # nothing to resume: it has not been submitted, still runs, or has ended
    MOVED_ON = auto()  # it changed while this was asked: look again


def resume(batch_id: str, *, ledger: Ledger) -> Resumed:
    batch = ledger.batch(batch_id)
    if batch is None:
        return Resumed.NO_SUCH_BATCH
    if batch.state is not State.SUBMITTED or not batch.halted:
        return Resumed.NOT_HALTED
    # a batch that was being fenced goes on being fenced: only the table could say that it is not too late
    done = ledger.resume(batch_id, batch.route, batch.attempt + 1, batch.fencing, batch.floors)
    return Resumed.DONE if done else Resumed.MOVED_ON

"""Resume: a halted batch gets one more attempt, after a person has removed the cause.

One conditional write. Within a minute settling finds the attempt without a job and starts one, as for any attempt
whose starter died.
"""

from enum import Enum, auto

from tidegate.core.batches import State
from tidegate.flows.ports import Ports


class Resumed(Enum):
    """The result of a request to resume."""

    DONE = auto()
    NO_SUCH_BATCH = auto()
    NOT_HALTED = auto()  # nothing to resume: it was not submitted yet, still runs, or has ended
    MOVED_ON = auto()  # it changed during this command: check it again


def resume(batch_id: str, ports: Ports) -> Resumed:
    batch = ports.ledger.batch(batch_id)
    if batch is None:
        return Resumed.NO_SUCH_BATCH
    if batch.state is not State.SUBMITTED or not batch.halted:
        return Resumed.NOT_HALTED
    # a fencing batch stays fencing: its fence may already be in the table
    done = ports.ledger.resume(batch_id, batch.route, batch.attempt + 1, batch.fencing, batch.floors)
    return Resumed.DONE if done else Resumed.MOVED_ON

"""Resume: a halted batch gets one more attempt, after a person has removed the cause. One that waits between two
attempts gets the next one now.

One conditional write. Within a minute settling finds the attempt without a job and starts one, as for any attempt
whose starter died.

A batch waits if its job has ended without a receipt. The job's state is read before the receipt, as by settling
(`core.batches.next_step`). A twin, or settling itself, may begin the same attempt: the write requires the attempt that
was read, so one of them does. A driver that still runs although its job has ended meets the next attempt at the table,
as it would after the wait: decision 3.
"""

from enum import Enum, auto

from tidegate.core.batches import Batch, JobState, State
from tidegate.core.manifests import batch_folder
from tidegate.flows.ports import Ports


class Resumed(Enum):
    """The result of a request to resume."""

    DONE = auto()
    NO_SUCH_BATCH = auto()
    NOT_HALTED = auto()  # nothing to resume: it was not submitted yet, still runs, or has ended
    MOVED_ON = auto()  # it changed during this command: check it again


def resume(batch_id: str, ports: Ports) -> Resumed:
    """Raises Retryable or OutcomeUnknown, also if the state of the batch's job cannot be read."""
    batch = ports.ledger.batch(batch_id)
    if batch is None:
        return Resumed.NO_SUCH_BATCH
    if batch.state is not State.SUBMITTED:
        return Resumed.NOT_HALTED
    if batch.halted:
        # a fencing batch stays fencing: its fence may already be in the table
        done = ports.ledger.resume(batch_id, batch.route, batch.attempt + 1, batch.fencing, batch.floors)
    elif _waits(batch, ports):
        # no slot is asked for: the batch has one
        done = ports.ledger.begin_attempt(batch_id, batch.route, batch.attempt + 1, in_flight=1)
    else:
        return Resumed.NOT_HALTED
    return Resumed.DONE if done else Resumed.MOVED_ON


def _waits(batch: Batch, ports: Ports) -> bool:
    """Whether the batch's attempt has failed, and the next one begins after a wait."""
    if not batch.job_run or ports.jobs.report(batch.job_run).state is not JobState.ENDED:
        return False
    return ports.work.get(batch_folder(batch.id) + "receipt.json") is None

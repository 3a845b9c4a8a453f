"""Abort: give a batch up for good, even while its drivers run.

The ledger cannot decide this: a zombie may publish at any moment. So abort begins an attempt whose job fences the batch
in the table. The batch is ABANDONED only when settling reads the fence's receipt. If a driver publishes first, the
receipt records that, and the batch is committed.
"""

from tidegate.core.batches import State
from tidegate.flows.ports import Ports
from tidegate.flows.resume import Resumed


def abort(batch_id: str, ports: Ports) -> Resumed:
    batch = ports.ledger.batch(batch_id)
    if batch is None:
        return Resumed.NO_SUCH_BATCH
    if batch.state is not State.SUBMITTED:
        return Resumed.NOT_HALTED
    done = ports.ledger.resume(batch_id, batch.route, batch.attempt + 1, fencing=True, floors=batch.floors)
    return Resumed.DONE if done else Resumed.MOVED_ON

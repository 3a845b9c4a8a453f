"""Abort: give a batch up for good, whatever its drivers are doing.

The ledger cannot decide that: a zombie may publish at any moment. So an attempt is begun whose job fences the batch in
the table; the batch is ABANDONED only when settling reads the fence's receipt. If a driver was faster, the receipt says
published, and the batch is committed after all.
"""

from tidegate.core.batches import State
from tidegate.flows.ports import Ledger
from tidegate.flows.resume import Resumed


def abort(batch_id: str, *, ledger: Ledger) -> Resumed:
    batch = ledger.batch(batch_id)
    if batch is None:
        return Resumed.NO_SUCH_BATCH
    if batch.state is not State.SUBMITTED:
        return Resumed.NOT_HALTED
    done = ledger.resume(batch_id, batch.route, batch.attempt + 1, fencing=True, floors=batch.floors)
    return Resumed.DONE if done else Resumed.MOVED_ON

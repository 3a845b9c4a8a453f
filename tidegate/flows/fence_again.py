"""Fence again: a batch has landed, and its table was rolled back past it. It shall never land again, so that its
uploads may land with other batches.

A rollback may have cut off the batch's own floors, and a driver of its attempts that still runs may have one that was
not cut off. So this driver takes the table's position as a floor of its own, proves by the rows at that position that
nothing of the batch is below it, and publishes an empty append under the batch's id.

    step                              if the driver dies right after it     if a twin, or a zombie, runs beside it
    1 the batch's receipt             nothing has happened                  the same
    2 the floor: the head; rows of    the same                              a publication after the floor is met by
      the batch below it?                                                   the condition; one before it shows by rows
    3 is what the receipt names       the same                              the same
      still in main?
    4 write the outcomes of the       named by its snapshot: harmless       each writes its own
      fence, with the endings that
      the batch had
    5 publish it, on condition        the next run publishes one more       the table accepts one of them. Of a zombie's
                                      fence: harmless                       rows this driver learns, and refuses
    6 write the receipt               the command goes on                   both write the table's decision

A zombie with a floor that is still in the history meets the fence there. One whose floor is not proves nothing, and
publishes nothing. The fence's outcomes have the endings of the first publication: what was quarantined stays so.

Rows that somebody deleted are no rollback: the snapshot that brought them is still in main, and step 3 refuses. If that
snapshot has expired as well, nothing but the person who asked for it can tell the two apart.
"""

from tidegate.core.manifests import outcomes_name
from tidegate.core.receipts import Outcomes, Receipt, decode_outcomes, decode_receipt
from tidegate.flows.publish import Attempt
from tidegate.flows.sink import Hopeless


def fence_again(attempt: Attempt) -> Receipt:
    """Fence the batch, or find that this was done. Returns the table's decision, which is a fence.

    Raises Hopeless if rows of the batch are in the table, or if it was not rolled back past the batch.
    """
    before = _receipt(attempt)
    sink = attempt.sink
    sink.create_if_absent()
    floor = sink.position()
    if held := sink.held(floor):
        raise Hopeless(
            f"table {sink.table} holds {held} of the {before.tally.rows} rows of batch {attempt.batch}. Only a batch"
            f" whose rows are all missing can be fenced and sent again. `tidegate resend {attempt.batch} --reload`"
            " replaces these"
        )
    if sink.in_line(before.snapshot):
        if before.fence:
            return before
        raise Hopeless(
            f"snapshot {before.snapshot}, which brought batch {attempt.batch} into table {sink.table}, is still in its"
            " history: the table was not rolled back past it. Rows that are missing were deleted since: `tidegate audit"
            " s3://BUCKET/PREFIX --send` sends their uploads"
        )
    decided = attempt.publish(attempt.stage_fence(_ended(attempt, before)), floor)
    receipt = Receipt.of(attempt.outcomes_of(decided), attempt.batch, decided.snapshot)
    attempt.work.put(attempt.folder + "receipt.json", receipt.encode())
    if not receipt.fence:
        raise Hopeless(
            f"batch {attempt.batch} is in table {sink.table} as snapshot {receipt.snapshot}, which another driver has"
            " published just now: nothing of it is missing"
        )
    return receipt


def _receipt(attempt: Attempt) -> Receipt:
    body = attempt.work.get(attempt.folder + "receipt.json")
    if body is None:
        raise Hopeless(f"batch {attempt.batch} has no receipt: it was never published")
    return decode_receipt(body)


def _ended(attempt: Attempt, before: Receipt) -> Outcomes:
    name = outcomes_name(attempt.folder, before.staged)
    body = attempt.work.get(name)
    if body is None:
        raise Hopeless(f"{name} is missing in the work bucket")
    return decode_outcomes(body)

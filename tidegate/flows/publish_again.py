"""Publish again: a committed batch, once more, because the table was rolled back past it.

Nothing in the ledger changes. The batch is committed, its uploads are claimed and counted, and decision 3 still admits
its rows to the table once: the same condition is checked in the same commit. Only the floor is another one. A rollback
may have cut off the floor of the first attempt, so each driver takes the table's position as its own floor, and proves
by the rows at that position that the batch is not below it.

    step                              if the driver dies right after it     if a twin, or a zombie, runs beside it
    1 the batch's receipt             nothing has happened                  the same
    2 the floor: the head; rows of    the same                              a publication after the floor is met by
      the batch below it?                                                   the condition; one before it shows by rows
    3 is its snapshot still in main?  the same                              the same
    4 write the outcomes under the    found by their name; harmless         the same bytes
      name of what is published
    5 let a branch hold what is       dropped by a later batch of the       each has a branch of its own
      published, so that it does      table
      not expire meanwhile
    6 publish, on condition           the next run finds the rows at 2      the table accepts one of them
    7 write the receipt               it names a snapshot that is not in    both write the table's decision
                                      main: 2 finds the rows all the same

A zombie of the batch's first attempts has the first floor. Where that is still in the history, its check meets what
this driver published; where it is not, its check proves nothing and it publishes nothing.

The uploads may not land in another batch meanwhile. That is so while their claims live, and name this batch's notices:
whoever asks for this checks it (`flows.republish`).

Rows that somebody deleted are no rollback: the snapshot that brought them is still in main, and step 3 refuses. If that
snapshot has expired as well, nothing but the person who asked for it can tell the two apart.
"""

from dataclasses import replace

from tidegate.core.manifests import outcomes_name
from tidegate.core.outcomes import Tally
from tidegate.core.receipts import Outcomes, Receipt, decode_outcomes, decode_receipt
from tidegate.flows.publish import Attempt
from tidegate.flows.sink import Hopeless, StagedIsGone


def publish_again(attempt: Attempt) -> Receipt:
    """Publish the batch once more, or find that its rows are in the table. Returns the table's decision.

    Raises Hopeless if its rows are not missing as a whole, or cannot be brought back as they were.
    """
    before = _receipt(attempt)
    sink = attempt.sink
    sink.prepare()
    floor = sink.position()
    held = sink.held(floor)
    if held == before.tally.rows:
        return before
    if sink.in_line(before.snapshot):
        raise Hopeless(
            f"snapshot {before.snapshot}, which brought batch {attempt.batch} into table {sink.table}, is still in its"
            " history: the table was not rolled back past it. Rows that are missing were deleted since"
        )
    if held:
        raise Hopeless(
            f"table {sink.table} holds {held} of the {before.tally.rows} rows of batch {attempt.batch}. Only a batch"
            " whose rows are all missing can land again: delete these, or keep them"
        )
    _copy_outcomes(attempt, before)
    try:
        # no branch has it any more: it could expire, with its files, between here and the commit
        sink.hold(before.snapshot)
        published = attempt.publish(before.snapshot, floor)
    except StagedIsGone:
        # its files may be gone with it: read the uploads again
        published = attempt.publish(_stage_alike(attempt, before), floor)
    after = attempt.write_receipt(published)
    if _landed(after.tally) != _landed(before.tally):
        raise Hopeless(
            f"batch {attempt.batch} is in table {sink.table} as snapshot {after.snapshot}, which another driver"
            f" published. Its uploads ended there as {after.tally.as_dict()}; the ledger counts"
            f" {before.tally.as_dict()}"
        )
    return after


def _receipt(attempt: Attempt) -> Receipt:
    body = attempt.work.get(attempt.folder + "receipt.json")
    if body is None:
        raise Hopeless(f"batch {attempt.batch} has no receipt: it was never published")
    receipt = decode_receipt(body)
    if receipt.fence:
        raise Hopeless(f"batch {attempt.batch} was given up: its uploads are sent again by `tidegate resend`")
    return receipt


def _copy_outcomes(attempt: Attempt, before: Receipt) -> None:
    """Outcomes are found by the snapshot that the published files come from. That is the earlier publication now."""
    outcomes = replace(_outcomes(attempt, before.staged), staged=before.snapshot)
    attempt.work.put(outcomes_name(attempt.folder, before.snapshot), outcomes.encode())


def _stage_alike(attempt: Attempt, before: Receipt) -> int:
    """Stage the batch anew. It must end as it did: the ledger has counted its uploads by these endings."""
    staged = attempt.stage()
    then, now = _outcomes(attempt, before.staged), _outcomes(attempt, staged)
    if _landed(now.tally) != _landed(then.tally) or _endings(now) != _endings(then):
        changed = sorted(_endings(now) ^ _endings(then))
        example = f", e.g. s3://{changed[0][0]}/{changed[0][1]} as {changed[0][3]}" if changed else ""
        raise Hopeless(
            f"batch {attempt.batch} cannot land as it did: its uploads ended as {then.tally.as_dict()}, and would end"
            f" now as {now.tally.as_dict()}{example}. Nothing was published"
        )
    return staged


def _landed(tally: Tally) -> Tally:
    """Without rejected rows: they stay in a table of their own, and a ledger that was rebuilt does not count them."""
    return replace(tally, rejected=0)


def _endings(outcomes: Outcomes) -> set[tuple[str, str, str, str]]:
    """What did not land, and how. An upload that ended otherwise may have landed in another batch since."""
    return {(each.bucket, each.key, each.version, str(each.outcome)) for each in outcomes.endings}


def _outcomes(attempt: Attempt, staged: int) -> Outcomes:
    name = outcomes_name(attempt.folder, staged)
    body = attempt.work.get(name)
    if body is None:
        raise Hopeless(f"{name} is missing in the work bucket")
    return decode_outcomes(body)

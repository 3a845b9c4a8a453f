"""Land the rows that do not fit, in a table of their own (`bad_rows = "set aside"`).

Iceberg commits one table at a time. So two commits are made, and one decision: decision 3 about the batch's own table.
Each driver stages its rejected rows in the other table, where no reader sees them, and names them in the outcomes of
its staged snapshot. The outcomes of the published snapshot count, and with them these rejected rows, and no others.
They land after the decision and before the receipt: so the batch ends when both tables have it, and a fenced batch has
none.

    step                              if the driver dies right after it     if a twin, or a zombie, runs beside it
    1 the outcomes that count: are    nothing has happened                  the same
      there rejected rows?
    2 the floor of their table, for   the next driver finds it              one writes it, both read it; it is written
      this table's uuid                                                     before anything is published
    3 does their table's history      the same                              the same
      have the batch?
    4 publish them, on the condition  the next attempt finds it at 3        the table accepts one of them
      of decision 3
    5 if what was staged is gone:     branches that nobody publishes        each stages its own, and 4 accepts one
      read the uploads again, stage
      them anew, then 2 to 4
    6 the receipt                     the batch ends                        the same bytes

- The condition at 4 is asked of the other table's own history: the batch is not in it, since this floor. What is staged
  by a driver whose snapshot was not published is never published there, because no outcomes that count name it.
- If the table was dropped and created again, it has another uuid, and a floor of its own. What the former one had is
  gone with it: the batch's rows land in the new one.
- If the settings change in between, nothing changes: the outcomes name the table and the snapshot. Only step 5 reads
  files. It lands nothing if the route reads them otherwise now, or if the rows are not as many as the outcomes say.
- If its history proves nothing, or step 5 cannot find the rows any more, a person says that they are there, or does
  without them (`flows.decide`). The batch's own rows are in the table all the while.
"""

import logging
from typing import TYPE_CHECKING

from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload, rejected_floor_name
from tidegate.core.publication import Floor, NotPublished, Published, Unprovable, verdict
from tidegate.core.receipts import Outcomes, RejectedRows, decode_floor, encode_floor
from tidegate.flows.sink import RejectedUndecided, StagedIsGone

if TYPE_CHECKING:
    from tidegate.flows.publish import Attempt

log = logging.getLogger("tidegate")


def land_rejected(attempt: "Attempt", decided: Published, outcomes: Outcomes) -> None:
    """Land the rejected rows of what was published, or find that they landed. Raises Hopeless, Retryable or
    OutcomeUnknown: then the batch does not end in this attempt."""
    rejected = outcomes.rejected
    if rejected is None:
        return
    try:
        landed = _land(attempt, rejected, outcomes)
    except RejectedUndecided as error:
        error.staged = decided.staged
        raise
    log.info("batch %s: its rejected rows are in %s as snapshot %s", attempt.batch, rejected.table, landed.snapshot)


def _land(attempt: "Attempt", rejected: RejectedRows, outcomes: Outcomes) -> Published:
    try:
        return _publish(attempt, rejected)
    except StagedIsGone:
        again = attempt.sink.stage_rejected(_with_rejected(attempt, outcomes), rejected.table)
        if (again.rows, again.reading) != (rejected.rows, rejected.reading):
            raise RejectedUndecided(
                f"batch {attempt.batch} is in table {attempt.sink.table}, and {rejected.rows} of its rows are not: they"
                f" were staged for {rejected.table}, and are gone from it. Reading the files again, as the route has it"
                f" now, found {again.rows}."
                " Set bad_rows and schema of the route as they were and resume the batch, or do without them: see"
                " `tidegate decide --help`"
            ) from None
        return _publish(attempt, again)


def _publish(attempt: "Attempt", rejected: RejectedRows) -> Published:
    """What the history says comes first: what landed once need not be there any more as it was staged."""
    target = attempt.sink.rejected(rejected.table)
    if not target.exists:
        raise StagedIsGone(f"table {rejected.table} is gone")

    def undecided(reason: str, perhaps: int = 0) -> RejectedUndecided:
        return RejectedUndecided(
            f"batch {attempt.batch} is in table {attempt.sink.table}. Whether its {rejected.rows} rejected rows are in"
            f" {rejected.table} cannot be proven: {reason}. A person has to decide: see `tidegate decide --help`"
        )

    position = target.position()
    floor = _floor(attempt, position)
    match verdict(target.history(floor), attempt.batch, floor):
        case Published() as landed:
            return landed
        case Unprovable(reason):
            raise undecided(reason)
        case NotPublished():
            if position.table_uuid != rejected.table_uuid:
                raise StagedIsGone(f"table {rejected.table} is another one than when rows were staged in it")
            return attempt.publish_to(target, rejected.staged, floor, undecided)


def _floor(attempt: "Attempt", position: Floor) -> Floor:
    """Where the table of rejected rows stood before any of this batch was published there: here, or where another
    driver found it."""
    name = attempt.folder + rejected_floor_name(position.table_uuid)
    attempt.work.put_if_absent(name, encode_floor(position))
    known = attempt.work.get(name)
    if known is None:
        raise Retryable(f"{name} was written but cannot be read")
    return decode_floor(known)


def _with_rejected(attempt: "Attempt", outcomes: Outcomes) -> list[OwnedUpload]:
    """The uploads that have rejected rows, as the outcomes count them."""
    counts = [count for part in outcomes.rejected_rows for count in part]
    return [item for item, count in zip(attempt.manifest(), counts, strict=True) if count]

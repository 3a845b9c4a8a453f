"""Land the rows that do not fit, in a table of their own (`bad_rows_share`).

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
- If their table is rolled back to its floor, or above it, the history proves that they are not there, and they land. If
  it is rolled back past its floor, it proves nothing. To count the batch's rows would not either: rows that landed and
  were dealt with, and deleted, look like rows that never landed. So the batch halts. A person brings the history back
  and resumes it, or inserts what is staged by hand: nothing else can come meanwhile, because every driver has that
  floor.
- If the batch's own table is rolled back after step 4 and before step 6, another driver publishes the batch again, by a
  reading of its own. Their table has the rows of the earlier one. As a rule these are the same rows. If their number,
  or how the files are read, has changed, the batch halts: its table has other rows than its outcomes count.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Protocol

from tidegate.core.errors import Retryable
from tidegate.core.manifests import REJECTED_FLOORS, OwnedUpload, rejected_floor_name
from tidegate.core.publication import Floor, NotPublished, Published, Unprovable, verdict
from tidegate.core.receipts import Outcomes, RejectedRows, decode_floor, decode_outcomes, encode_floor
from tidegate.flows.ports import Work
from tidegate.flows.sink import PublishTarget, RejectedUndecided, Sink, StagedIsGone, Undecided

log = logging.getLogger("tidegate")


class Attempted(Protocol):
    """What is needed of the attempt that has published the batch (`flows.publish.Attempt`)."""

    sink: Sink
    work: Work
    batch: str
    attempt: int

    @property
    def folder(self) -> str: ...

    def manifest(self) -> list[OwnedUpload]: ...

    def publish_to(
        self, target: PublishTarget, staged: int, floor: Floor, undecided: Callable[[str, int], Undecided]
    ) -> Published: ...


def land_rejected(attempt: Attempted, decided: Published, outcomes: Outcomes) -> None:
    """Land the rejected rows of what was published, or find that they landed. Raises Hopeless, Retryable or
    OutcomeUnknown: then the batch does not end in this attempt."""
    rejected = outcomes.rejected
    try:
        if rejected is None:
            _require_none(attempt, outcomes)
            return
        landed = _land(attempt, rejected, outcomes)
    except RejectedUndecided as error:
        error.staged = decided.staged
        raise
    log.info("batch %s: its rejected rows are in %s as snapshot %s", attempt.batch, rejected.table, landed.snapshot)


def _land(attempt: Attempted, rejected: RejectedRows, outcomes: Outcomes) -> Published:
    try:
        return _publish(attempt, rejected)
    except StagedIsGone:
        again = attempt.sink.stage_rejected(_with_rejected(attempt, outcomes), rejected.table)
        if (again.rows, again.reading) != (rejected.rows, rejected.reading):
            raise RejectedUndecided(
                f"batch {attempt.batch} is in table {attempt.sink.table}, and {rejected.rows} of its rows are not: they"
                f" were staged for {rejected.table}, and are gone from it. Reading the files again, as the route has it"
                f" now, found {again.rows}."
                " Set bad_rows_share and schema of the route as they were and resume the batch, or do without them: see"
                " `tidegate resume --help`"
            ) from None
        return _publish(attempt, again)


def _require_none(attempt: Attempted, outcomes: Outcomes) -> None:
    """Rejected rows of an earlier reading must not be in their table, if the one that counts has none. Only a floor
    says that somebody had come to land them. Of a fence nothing can be said that a person could do."""
    if outcomes.fence or attempt.attempt == 1 or not any(attempt.work.names(attempt.folder + REJECTED_FLOORS)):
        return
    for earlier in _staged_before(attempt):
        floor = attempt.work.get(attempt.folder + rejected_floor_name(earlier.table_uuid))
        target = attempt.sink.rejected(earlier.table)
        if floor is None or not target.exists:
            continue
        known = decode_floor(floor)
        if isinstance(verdict(target.history(known), attempt.batch, known), Published):
            raise _of_another_reading(attempt, earlier, "")


def _require_same(attempt: Attempted, rejected: RejectedRows, landed: Published) -> None:
    """What landed may be of an earlier reading of the batch: it must be the same rows."""
    if landed.staged == rejected.staged:
        return
    for earlier in _staged_before(attempt):
        # what step 5 has staged is in no outcomes, and was compared there
        if earlier.staged == landed.staged and (earlier.rows, earlier.reading) != (rejected.rows, rejected.reading):
            raise _of_another_reading(attempt, earlier, f" {_by_hand(attempt, rejected)}")


def _staged_before(attempt: Attempted) -> Iterator[RejectedRows]:
    """What the batch's drivers have staged for a table of rejected rows."""
    for name in attempt.work.names(f"{attempt.folder}outcomes/"):
        body = attempt.work.get(name)
        if body and (rejected := decode_outcomes(body).rejected):
            yield rejected


def _of_another_reading(attempt: Attempted, earlier: RejectedRows, then: str) -> RejectedUndecided:
    return RejectedUndecided(
        f"batch {attempt.batch} is in table {attempt.sink.table}, which was rolled back before that. Table"
        f" {earlier.table} has {earlier.rows} rejected rows of an earlier reading of the batch, and not those that"
        f" count now. Run: DELETE FROM {earlier.table} WHERE _batch_id = '{attempt.batch}'.{then} Then say that it is"
        " done: see `tidegate resume --help`"
    )


def _by_hand(attempt: Attempted, rejected: RejectedRows) -> str:
    """How a person lands what is staged, as long as it is there."""
    return (
        f"INSERT INTO {rejected.table} SELECT * FROM {rejected.table} VERSION AS OF {rejected.staged} WHERE"
        f" _batch_id = '{attempt.batch}'."
    )


def _publish(attempt: Attempted, rejected: RejectedRows) -> Published:
    """What the history says comes first: what landed once need not be there any more as it was staged."""
    target = attempt.sink.rejected(rejected.table)
    if not target.exists:
        raise StagedIsGone(f"table {rejected.table} is gone")

    def undecided(reason: str, perhaps: int = 0) -> RejectedUndecided:
        return RejectedUndecided(
            f"batch {attempt.batch} is in table {attempt.sink.table}. Whether its {rejected.rows} rejected rows are in"
            f" {rejected.table} cannot be proven: {reason}. If you can undo that, do, and resume the batch. Else look"
            f" for its rows; if they were never there, run: {_by_hand(attempt, rejected)} A person has to decide: see"
            " `tidegate resume --help`"
        )

    position = target.position()
    floor = _floor(attempt, position)
    match verdict(target.history(floor), attempt.batch, floor):
        case Published() as landed:
            _require_same(attempt, rejected, landed)
            return landed
        case Unprovable(reason):
            raise undecided(reason)
        case NotPublished():
            if position.table_uuid != rejected.table_uuid:
                raise StagedIsGone(f"table {rejected.table} is another one than when rows were staged in it")
            return attempt.publish_to(target, rejected.staged, floor, undecided)


def _floor(attempt: Attempted, position: Floor) -> Floor:
    """Where the table of rejected rows stood before any of this batch was published there: here, or where another
    driver found it."""
    name = attempt.folder + rejected_floor_name(position.table_uuid)
    attempt.work.put_if_absent(name, encode_floor(position))
    known = attempt.work.get(name)
    if known is None:
        raise Retryable(f"{name} was written but cannot be read")
    return decode_floor(known)


def _with_rejected(attempt: Attempted, outcomes: Outcomes) -> list[OwnedUpload]:
    """The uploads that have rejected rows, as the outcomes count them."""
    counts = [count for part in outcomes.rejected_rows for count in part]
    return [item for item, count in zip(attempt.manifest(), counts, strict=True) if count]

"""What the ledger has of a batch, compared with what its table holds of it.

Only numbers of a batch are compared: how many uploads have rows, and how many rows there are. That one row is missing
and another one is there twice is not seen, if both are of one batch.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tidegate.core.batches import Batch, State
from tidegate.core.publication import Floor, History, NotPublished, verdict


class TableDifference(Enum):
    """How a table differs from the ledger."""

    MISSING = "missing"  # committed, and the table holds no row of it: it was rolled back, or its rows were deleted
    FEWER = "fewer"  # committed, and the table holds fewer rows than were committed
    MORE = "more"  # committed, and the table holds more rows than were committed
    NOT_COMMITTED = "not committed"  # the table holds rows of it, and it is open, or was given up
    UNKNOWN = "unknown"  # the table holds rows of it, and the ledger has no such batch
    TWICE = "twice"  # the table holds one upload in two batches
    NOT_FENCED = "not fenced"  # its uploads may go to other batches, and a rollback made it possible to publish it


@dataclass(frozen=True, slots=True)
class Holding:
    """So many uploads with rows, and so many rows: of one batch in its table, or as the ledger has committed them."""

    uploads: int = 0
    rows: int = 0

    def __add__(self, other: "Holding") -> "Holding":
        return Holding(self.uploads + other.uploads, self.rows + other.rows)


NOTHING_HELD = Holding()


def judge_committed(rows: int, held: Holding, *, sent_again: bool = False) -> TableDifference | None:
    """A batch with so many committed rows. `held` was read after the ledger's record said so. `sent_again` as
    `Batch.sent_again` has it: then others bring its rows."""
    if held.rows == rows or (sent_again and not held.rows):
        return None
    if not held.rows:
        return TableDifference.MISSING
    return TableDifference.FEWER if held.rows < rows else TableDifference.MORE


def judge_found(batch: Batch | None, held: Holding, *, remembered: bool) -> TableDifference | None:
    """A batch of which the table holds rows. `batch` is the ledger's record, read after the table. `remembered`: the
    ledger cannot have forgotten it yet.

    It was published before the record was read. So a batch that is committed by now may be compared: its rows became
    visible together. One that is SEALED or SUBMITTED is pending: settling has not recorded it yet. One that is OPEN, or
    ABANDONED, or has no record, cannot become committed with these rows any more.
    """
    if batch is None:
        return TableDifference.UNKNOWN if remembered else None
    if batch.state is State.COMMITTED:
        return judge_committed(batch.tally.rows, held, sent_again=batch.sent_again)
    return None if batch.state in (State.SEALED, State.SUBMITTED) else TableDifference.NOT_COMMITTED


def is_fenced(history: History, batch: str, floors: Iterable[Floor]) -> bool:
    """Whether no driver can publish this batch any more. `floors` are all that it ever had.

    A driver publishes if its floor is in the history, and no ancestor above that was published under the batch's id:
    neither rows nor a fence. A driver whose floor is not in the history publishes nothing. So a fence that has expired
    together with the floor is not missed.
    """
    return not any(isinstance(verdict(history, batch, floor), NotPublished) for floor in floors)


def advice(
    difference: TableDifference,
    batch: str,
    *,
    other: str = "",
    job_runs: str = "",
    goes_to: str = "",
    landed: bool = False,
) -> str:
    """What a person does about it. `other` is the second batch of an upload that is there twice. `job_runs` names the
    job runs of the batch. `goes_to` is the table of its route today, if it is another one. `landed`: it did once."""
    match difference:
        case TableDifference.MISSING:
            where = f", to {goes_to}, where its route goes today" if goes_to else ""
            return (
                f"if the table was rolled back: `tidegate resend {batch}` sends its uploads again{where}. If its rows"
                " were deleted on purpose: nothing"
            )
        case TableDifference.FEWER:
            return "rows that were deleted on purpose look the same. Else find out what changed the table"
        case TableDifference.MORE:
            return (
                "find the rows that are there twice: GROUP BY _source_uri, _source_version, _source_row HAVING count(*)"
                f" > 1, WHERE _batch_id = '{batch}'"
            )
        case TableDifference.NOT_COMMITTED:
            return (
                f"delete the rows whose _batch_id is {batch} before its uploads land in another batch; if the ledger"
                " was damaged, rebuild it first: `tidegate ledger rebuild --help`"
            )
        case TableDifference.UNKNOWN:
            return (
                "if the ledger was damaged: `tidegate ledger rebuild --help`. Else another deployment, or another tool,"
                " writes this table"
            )
        case TableDifference.TWICE:
            return f"delete the rows of these uploads whose _batch_id is {other}, or is {batch}"
        case TableDifference.NOT_FENCED if landed:
            return f"`tidegate resend {batch}` fences it again, and sends what nobody has sent yet"
        case TableDifference.NOT_FENCED:
            return (
                "a driver of the batch that is still alive could publish it. Look in EMR Studio for its job runs"
                f" ({job_runs}), cancel what has not ended, and do not resend its uploads until all have ended. Then"
                " run this again: see docs/operations.md, `The ledger and the table differ`"
            )

"""Accounting: every upload of a batch has one ending in what a driver staged, and the counts agree with the table's."""

from collections.abc import Callable, Iterator, Sequence

from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import ROWS_OF, Outcome, Read
from tidegate.core.receipts import Ending, Outcomes, rows_by_part, tally_of
from tidegate.core.replacing import HeldRows
from tidegate.core.unknown import gathered
from tidegate.core.uploads import Upload, neighbourhood
from tidegate.flows.sink import Staged

Ended = Sequence[tuple[OwnedUpload, Read]]


class Contradiction(Exception):
    """One upload was read twice by this attempt, with different endings."""


def accounted(batch: str, items: Sequence[OwnedUpload], staged: Staged) -> Ended:
    """Each upload of the manifest with how its reading ended. Raises Retryable if one was not read, Contradiction."""
    reads = [staged.reads.get(position) for position in range(len(items))]
    missing = [item for position, item in enumerate(items) if position not in staged.reads]
    if missing:
        raise Retryable(f"batch {batch}: {len(missing)} uploads were not accounted for, e.g. {missing[0].upload}")
    ended = [(item, read) for item, read in zip(items, reads, strict=True) if read is not None]
    if len(ended) < len(items):
        raise Contradiction(f"batch {batch}: an upload was read twice with different endings; staged {staged.id}")
    return ended


def present(batch: str, why: str = "") -> Read:
    """How an upload ends whose rows are of this batch; and why, if it did not just come again."""
    return Read(Outcome.PRESENT, error=f"{ROWS_OF}{batch}{': ' if why else ''}{why}")


def outcomes_of_staged(
    batch: str, ended: Ended, staged: Staged, digest: str, replaced: tuple[HeldRows, ...] | None = None
) -> Outcomes:
    """The outcomes of the staged snapshot, checked against the table's own row count: Retryable if they differ.
    `digest` is that of the manifest. `replaced` rows leave the table with it, if the route replaces."""
    tally = tally_of(
        (read.outcome for _, read in ended),
        sum(read.rows for _, read in ended),
        sum(read.rejected for _, read in ended),
        sum(each.rows for each in replaced or ()),
        sum(read.left_out for _, read in ended),
    )
    if staged.rows != tally.rows:
        raise Retryable(f"batch {batch}: {tally.rows} rows were read, {staged.rows} are in snapshot {staged.id}")
    rejected = staged.rejected.rows if staged.rejected else 0
    if rejected != tally.rejected:
        raise Retryable(f"batch {batch}: {tally.rejected} rows did not fit, and {rejected} were staged as rejected")
    exceptions = tuple(
        Ending(item.notice, *item.upload.identity, read.outcome, read.error, read.where)
        for item, read in ended
        if read.outcome is not Outcome.COMMITTED
    )
    return Outcomes(
        staged.id,
        fence=False,
        tally=tally,
        endings=exceptions,
        manifest=digest,
        rows=rows_by_part((item.notice, read.rows) for item, read in ended),
        rejected=staged.rejected,
        rejected_rows=rows_by_part((item.notice, read.rejected) for item, read in ended) if rejected else (),
        unknown=gathered((item.upload.uri, read.unknown) for item, read in ended if read.outcome is Outcome.COMMITTED),
        slowly=staged.slowly,
        replaced=replaced or (),
        deleted=tuple(item.upload.uri for item, read in ended if read.deletion),
        emptied=() if replaced is None else tuple(_without_rows(ended)),
    )


def _without_rows(ended: Ended) -> Iterator[str]:
    return (item.upload.uri for item, read in ended if read.outcome is Outcome.COMMITTED and not read.rows)


def no_neighbour(upload: Upload) -> bool:
    """No object near an upload can be read. Then refusals by S3 prove nothing."""
    return False


def judge_refused(batch: str, ended: Ended, *, last: bool, can_read_near: Callable[[Upload], bool]) -> None:
    """Accept S3's refusals of some uploads as their endings, or raise Retryable.

    A fault of one object must not stop the others. A fault of the role, of the bucket, or of the moment must not
    end an upload. So a refusal is an ending only in the last attempt, and only if an object of the same folder and
    suffix could be read: a role may be allowed one prefix and not another.
    """
    refused = [(item.upload, read) for item, read in ended if read.refused]
    if not refused:
        return
    upload, read = refused[0]
    what = f"batch {batch}: {len(refused)} uploads were refused by S3, e.g. {upload}: {read.error}"
    if not last:
        raise Retryable(f"{what}. If the last attempt finds the same, and neighbours can be read, they end so")
    readable = {neighbourhood(item.upload) for item, read in ended if read.outcome is Outcome.COMMITTED}
    alone = {neighbourhood(each): each for each, _ in refused if neighbourhood(each) not in readable}
    for each in alone.values():
        if not can_read_near(each):
            raise Retryable(
                f"{what}. Nothing near it in bucket {each.bucket} could be read either, or it can be read by now: look"
                " at the job role's permissions, the bucket's policy and its keys"
            )

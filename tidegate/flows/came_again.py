"""What came again: a job that would land it looks whether its rows are in the table, and whether others may bring them.

Whoever sent it has looked at another time, or at another table (docs/adr/0074).
"""

from collections.abc import Collection, Mapping, Sequence

from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload
from tidegate.core.publication import History
from tidegate.core.quantities import counted
from tidegate.core.replacing import Identity
from tidegate.core.uploads import Upload
from tidegate.flows.outcomes import brings_again
from tidegate.flows.ports import Work
from tidegate.flows.sink import Sink


def look_for(again: Sequence[OwnedUpload], sink: Sink, work: Work, *, batch: str) -> tuple[int, Mapping[Identity, str]]:
    """The version of the table that was looked at, and those of the uploads that have rows in it, each with the batch
    of these; but for what is reloaded, whose rows give way (`flows.replacing`). `batch` is the one that asks. Raises
    Retryable if a batch needs a fence first."""
    history, taken = sink.rolled_back()
    seen = history.ancestors[0].id
    stays = [item.upload for item in again if not item.reloads]
    held = {(each.uri, each.version): each.batch for each in sink.rows_of_objects({each.uri for each in stays}, seen)}
    there = {each.identity: held[each.uri, each.version] for each in stays if (each.uri, each.version) in held}
    comes = {item.upload.identity: item.upload for item in again if item.upload.identity not in there}
    _require_fences(comes, history, taken - {batch}, sink, work, batch=batch)
    return seen, there


def _require_fences(
    comes: Mapping[Identity, Upload],
    history: History,
    taken: Collection[str],
    sink: Sink,
    work: Work,
    *,
    batch: str,
) -> None:
    """Raises Retryable if another batch, which had one of these before the table was rolled back past it, has no fence:
    a driver of it that is still alive could publish it beside this batch.

    Such a batch is known by its snapshot, which a rollback has `taken` from the history: once that has expired, a
    driver must have outlived it. It costs a few requests for each batch that a rollback took, and one for each of its
    parts."""
    for other in sorted(taken) if comes else ():
        if found := comes.keys() & brings_again(other, history, work):
            raise Retryable(
                f"batch {batch}: {counted(len(found), 'upload')} came again, e.g. {comes[min(found)]}. Batch {other}"
                f" had it before table {sink.table} was rolled back past that batch, and is not fenced there:"
                f" `tidegate resend {other}` does that"
            )

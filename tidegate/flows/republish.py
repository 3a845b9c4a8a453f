"""Republish: a person brings back a batch whose rows a rollback has taken out of its table.

    step                                   if it dies right after it
    1 the batch: is it committed, and      nothing has happened
      does it still own its uploads?
    2 note that it is asked for            nobody takes its uploads over any more: the next command goes on
    3 a job publishes it again, if the     the job goes on: the next command finds its rows, or publishes them
      table lacks it (`publish_again`)
    4 note the new snapshot                the header names a snapshot that is not in main. The next command says that
                                           the rows are there, and notes it

Nothing here decides anything: the job does, in the table. The ledger's claims, endings and sums stay as they are, so
nothing is counted twice, and no notification of these uploads is taken for new. A twin starts a second job; the table
accepts one publication. The batch goes to the table that it was sealed for, whatever its route's table is now.

No other batch may land these uploads in its table meanwhile. That is so while their claims live and name this batch's
notices: the claim of an upload that has landed moves only to a notice of a backfill (rule 4). Step 2 excludes the
backfill that has found rows of this batch removed: one of the two is refused, for good. A backfill into another table
moves the claims too, and what it lands is in that table. Once a claim has expired, a backfill finds the upload missing
and lands it in another batch. So step 1 refuses a batch with a claim that does not outlive the job by a day, or that
has moved. A backfill is what brings its uploads back.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from tidegate.core.batches import Batch, State
from tidegate.core.manifests import batch_folder, decode_part
from tidegate.core.receipts import decode_receipt
from tidegate.core.routes import Dataset, decode_dataset
from tidegate.flows.hand_off import dataset_of
from tidegate.flows.outcomes import published_outcomes
from tidegate.flows.ports import Ports, Republisher
from tidegate.flows.seal import ensure_manifest

MARGIN = 24 * 60 * 60
"""Seconds by which the claims must outlive the job."""


class Republished(Enum):
    """How a request ended that did not fail."""

    DONE = auto()  # its rows are in the table, now or already
    NO_SUCH_BATCH = auto()
    NOT_COMMITTED = auto()  # only what has landed can land again
    NO_ROUTE = auto()  # the ledger has no settings of its route, which say how its files are read
    REMOVED = auto()  # a backfill found rows of it removed, and has sent their uploads again
    FILES_MISSING = auto()  # nobody knows what it landed: its outcomes or a part are gone from the work bucket
    NOT_ITS_OWN = auto()  # the claims of some of its uploads have expired, or will soon: only a backfill can bring them


@dataclass(frozen=True, slots=True)
class Republication:
    """`snapshot` is the one that brought the rows, `before` the one that the ledger named."""

    ended: Republished
    rows: int = 0
    snapshot: int = 0
    before: int = 0


def find(batch_id: str, ports: Ports, job_timeout: int) -> tuple[Batch, Dataset, str] | Republished:
    """A batch that may land again, how its files are read, and the account of its bucket; or why it may not. A job ends
    after `job_timeout` seconds. It costs a read of each of the batch's claims.

    Raises FilesDiffer if the work bucket has other files than the ledger has registered."""
    batch = ports.ledger.batch(batch_id)
    if batch is None:
        return Republished.NO_SUCH_BATCH
    if batch.state is not State.COMMITTED:
        return Republished.NOT_COMMITTED
    if batch.rows_removed:
        return Republished.REMOVED
    route = ports.ledger.known_route(batch.route)
    if route is None:
        return Republished.NO_ROUTE
    match _owns_all(batch, ports.clock() + job_timeout + MARGIN, ports):
        case None:
            return Republished.FILES_MISSING
        case False:
            return Republished.NOT_ITS_OWN
    return batch, _as_it_landed(batch, dataset_of(batch, route)), route.owner


def _as_it_landed(batch: Batch, today: Dataset) -> Dataset:
    """The table's columns are those of today, and the files are read as they were: by other options they would become
    other values."""
    if not batch.dataset:
        return today
    landed = decode_dataset(batch.dataset)
    return replace(today, format=landed.format, options=landed.options)


def _owns_all(batch: Batch, until: int, ports: Ports) -> bool | None:
    """Whether the claims of all uploads that the batch has landed are its own until then (epoch seconds). None if its
    files in the work bucket do not say which these are."""
    outcomes = published_outcomes(batch.id, ports.work)
    if outcomes is None:
        return None
    elsewhere = {(each.bucket, each.key, each.version) for each in outcomes.endings}
    for name in ensure_manifest(batch, ports).parts:
        part = ports.work.get(batch_folder(batch.id) + name)
        if part is None:
            return None
        landed = [each for each in decode_part(part) if each.upload.identity not in elsewhere]
        claims = ports.ledger.claims_on(each.upload for each in landed)
        for each in landed:
            claim = claims.get(each.upload.identity)
            if claim is None or claim.notice != each.notice or claim.expires_at < until:
                return False
    return True


def republish(batch_id: str, ports: Ports, republisher: Republisher, job_timeout: int) -> Republication:
    """Waits for the job. Raises Rejected if it refused to publish the batch, and Retryable if it failed; both with its
    reason."""
    found = find(batch_id, ports, job_timeout)
    if isinstance(found, Republished):
        return Republication(found)
    batch, dataset, owner = found
    if not ports.ledger.note_republish(batch_id):
        return Republication(Republished.REMOVED)
    republisher.publish(batch, dataset, owner=owner)
    body = ports.work.get(batch_folder(batch_id) + "receipt.json")
    receipt = decode_receipt(body) if body else None
    snapshot = receipt.snapshot if receipt else batch.snapshot
    if snapshot != batch.snapshot:
        ports.ledger.note_snapshot(batch_id, batch.snapshot, snapshot)
    return Republication(Republished.DONE, batch.tally.rows, snapshot, batch.snapshot)

"""Republish: a person brings back a batch whose rows a rollback has taken out of its table.

    step                                   if it dies right after it
    1 the batch: is it committed?          nothing has happened
    2 a job publishes it again, if the     the job goes on: the next command finds its rows, or publishes them
      table lacks it (`publish_again`)
    3 note the new snapshot                the header names a snapshot that is not in main. The next command says that
                                           the rows are there, and notes it

Nothing here decides anything: the job does, in the table. The ledger's claims, endings and sums stay as they are, so
nothing is counted twice, and no notification of these uploads is taken for new. A twin starts a second job; the table
accepts one publication. The batch goes to the table that it was sealed for, whatever its route's table is now.
"""

from dataclasses import dataclass
from enum import Enum, auto

from tidegate.core.batches import Batch, State
from tidegate.core.manifests import batch_folder
from tidegate.core.receipts import decode_receipt
from tidegate.core.routes import Dataset
from tidegate.flows.hand_off import dataset_of
from tidegate.flows.ports import Ports, Republisher


class Republished(Enum):
    """How a request ended that did not fail."""

    DONE = auto()  # its rows are in the table, now or already
    NO_SUCH_BATCH = auto()
    NOT_COMMITTED = auto()  # only what has landed can land again
    NO_ROUTE = auto()  # the ledger has no settings of its route, which say how its files are read


@dataclass(frozen=True, slots=True)
class Republication:
    """`snapshot` is the one that brought the rows, `before` the one that the ledger named."""

    ended: Republished
    rows: int = 0
    snapshot: int = 0
    before: int = 0


def find(batch_id: str, ports: Ports) -> tuple[Batch, Dataset, str] | Republished:
    """A batch that may land again, how its files are read, and the account of its bucket; or why it may not."""
    batch = ports.ledger.batch(batch_id)
    if batch is None:
        return Republished.NO_SUCH_BATCH
    if batch.state is not State.COMMITTED:
        return Republished.NOT_COMMITTED
    route = ports.ledger.known_route(batch.route)
    return (batch, dataset_of(batch, route), route.owner) if route else Republished.NO_ROUTE


def republish(batch_id: str, ports: Ports, republisher: Republisher) -> Republication:
    """Waits for the job. Raises Retryable with its reason if it failed."""
    found = find(batch_id, ports)
    if isinstance(found, Republished):
        return Republication(found)
    batch, dataset, owner = found
    republisher.publish(batch, dataset, owner=owner)
    body = ports.work.get(batch_folder(batch_id) + "receipt.json")
    receipt = decode_receipt(body) if body else None
    snapshot = receipt.snapshot if receipt else batch.snapshot
    if snapshot != batch.snapshot:
        ports.ledger.note_snapshot(batch_id, batch.snapshot, snapshot)
    return Republication(Republished.DONE, batch.tally.rows, snapshot, batch.snapshot)

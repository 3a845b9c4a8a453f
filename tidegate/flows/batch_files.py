"""What the work bucket has of a batch."""

from dataclasses import dataclass

from tidegate.core.manifests import Sealed, batch_folder, decode_sealed
from tidegate.core.receipts import Receipt, decode_receipt
from tidegate.flows.ports import Work


@dataclass(frozen=True, slots=True)
class BatchFiles:
    sealed: Sealed
    receipt: Receipt | None

    @property
    def landed(self) -> bool:
        return self.receipt is not None and not self.receipt.fence

    @property
    def fenced(self) -> bool:
        return self.receipt is not None and self.receipt.fence


def files_of(batch_id: str, work: Work) -> BatchFiles | None:
    """None of a batch without a manifest."""
    folder = batch_folder(batch_id)
    body = work.get(folder + "sealed.json")
    if body is None:
        return None
    receipt = work.get(folder + "receipt.json")
    return BatchFiles(decode_sealed(body), decode_receipt(receipt) if receipt else None)

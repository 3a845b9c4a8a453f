"""The outcomes of a batch that the table has decided, from its folder in the work bucket."""

from tidegate.core.manifests import batch_folder, outcomes_name
from tidegate.core.receipts import Outcomes, decode_outcomes, decode_receipt
from tidegate.flows.ports import Work


def published_outcomes(batch_id: str, work: Work) -> Outcomes | None:
    """Those of the snapshot that was published, as the receipt names it. None if one of the two files is missing."""
    folder = batch_folder(batch_id)
    receipt = work.get(folder + "receipt.json")
    body = work.get(outcomes_name(folder, decode_receipt(receipt).staged)) if receipt else None
    return decode_outcomes(body) if body else None

"""What the drivers of a batch have left in its folder of the work bucket: its outcomes, once the table has decided, and
its floors. And what follows for its uploads."""

from collections.abc import Iterator, Mapping
from itertools import count

from tidegate.core.errors import Retryable
from tidegate.core.manifests import batch_folder, decode_part, decode_sealed, floor_name, outcomes_name
from tidegate.core.outcomes import NO_TALLY
from tidegate.core.publication import Floor, History
from tidegate.core.receipts import Outcomes, Receipt, decode_floor, decode_outcomes, decode_receipt, rows_in_parts
from tidegate.core.reconcile import is_fenced
from tidegate.flows.ports import Work


def published_outcomes(batch_id: str, work: Work) -> Outcomes | None:
    """Those of the snapshot that was published, as the receipt names it. None if one of the two files is missing."""
    folder = batch_folder(batch_id)
    receipt = work.get(folder + "receipt.json")
    body = work.get(outcomes_name(folder, decode_receipt(receipt).staged)) if receipt else None
    return decode_outcomes(body) if body else None


def floors_of(batch_id: str, work: Work) -> Iterator[Floor]:
    """All floors of a batch that are there: a ledger that was rebuilt does not know how many they are."""
    for number in count():
        body = work.get(batch_folder(batch_id) + floor_name(number))
        if body is None:
            return
        yield decode_floor(body)


def rows_of_uploads(batch_id: str, work: Work) -> Mapping[tuple[str, str, str], int]:
    """How many rows each upload of a committed batch brought, by identity, if that was recorded."""
    outcomes = published_outcomes(batch_id, work)
    manifest = work.get(batch_folder(batch_id) + "sealed.json") if outcomes and outcomes.rows else None
    found: dict[tuple[str, str, str], int] = {}
    for name, counts in (rows_in_parts(decode_sealed(manifest), outcomes) if outcomes and manifest else {}).items():
        part = work.get(batch_folder(batch_id) + name)
        owned = decode_part(part) if part else []
        if len(owned) == len(counts):
            found |= zip((each.upload.identity for each in owned), counts, strict=True)
    return found


def brings_again(batch_id: str, history: History, work: Work) -> frozenset[tuple[str, str, str]]:
    """The identities of the uploads of a batch that a driver which is still alive could publish once more in the table
    of `history`. None if it is fenced there; nor of a batch that was given up and never landed, whose uploads are for a
    person to ask about (`tidegate audit --tables`).

    How they ended when it was published says nothing: another attempt may have staged what that one could not read.
    Raises Retryable if a part is missing."""
    folder = batch_folder(batch_id)
    receipt, manifest = work.get(folder + "receipt.json"), work.get(folder + "sealed.json")
    if not manifest or (receipt and never_landed(decode_receipt(receipt))):
        return frozenset()
    if is_fenced(history, batch_id, floors_of(batch_id, work)):
        return frozenset()
    found: set[tuple[str, str, str]] = set()
    for name in decode_sealed(manifest).parts:
        part = work.get(folder + name)
        if part is None:
            raise Retryable(
                f"batch {batch_id}: {name} is missing in the work bucket, so what it could bring is unknown"
            )
        found |= {each.upload.identity for each in decode_part(part)}
    return frozenset(found)


def never_landed(receipt: Receipt) -> bool:
    """Whether the receipt is of a fence, and no row of the batch was ever published as far as that fence knew."""
    return receipt.fence and receipt.tally == NO_TALLY

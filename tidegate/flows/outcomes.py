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
    receipt = work.get(batch_folder(batch_id) + "receipt.json")
    return staged_outcomes(batch_id, decode_receipt(receipt).staged, work) if receipt else None


def staged_outcomes(batch_id: str, staged: int, work: Work) -> Outcomes | None:
    """Those of this staged snapshot. None if the file is missing."""
    body = work.get(outcomes_name(batch_folder(batch_id), staged))
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
    person to ask about (`tidegate audit --tables`); nor of one that has no file here: it is another deployment's.

    How they ended when it was published says nothing: another attempt may have staged what that one could not read.
    Raises Retryable if the manifest or a part is missing."""
    folder = batch_folder(batch_id)
    receipt, manifest = work.get(folder + "receipt.json"), work.get(folder + "sealed.json")
    told = decode_receipt(receipt) if receipt else None
    floors = tuple(floors_of(batch_id, work))
    if (told and never_landed(told)) or not (told or manifest or floors):
        return frozenset()
    # without its floors only its fence tells, as long as that is in the history: none is written after the receipt
    by_receipt = told is not None and told.fence and told.snapshot in {each.id for each in history.ancestors}
    if is_fenced(history, batch_id, floors) if floors else by_receipt:
        return frozenset()
    if manifest is None:
        raise _lost(batch_id, "sealed.json")
    found: set[tuple[str, str, str]] = set()
    for name in decode_sealed(manifest).parts:
        part = work.get(folder + name)
        if part is None:
            raise _lost(batch_id, name)
        found |= {each.upload.identity for each in decode_part(part)}
    return frozenset(found)


def _lost(batch_id: str, name: str) -> Retryable:
    return Retryable(
        f"batch {batch_id}, which a rollback took: {name} is missing in the work bucket, so what a driver of it could"
        f" bring is unknown. `tidegate resend {batch_id}` fences it"
    )


def never_landed(receipt: Receipt) -> bool:
    """Whether the receipt is of a fence, and no row of the batch was ever published as far as that fence knew."""
    return receipt.fence and receipt.tally == NO_TALLY

"""What the work bucket has of a batch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from tidegate.core.errors import Rejected
from tidegate.core.manifests import (
    BATCHES,
    OwnedUpload,
    Sealed,
    batch_folder,
    decode_part,
    decode_sealed,
    outcomes_name,
)
from tidegate.core.receipts import Ending, Receipt, decode_outcomes, decode_receipt, given_up
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


OwnedByPart = Mapping[str, Sequence[OwnedUpload]]
"""The parts of a batch, by name."""


def parts_of(batch_id: str, files: BatchFiles, work: Work) -> OwnedByPart:
    """The parts that the manifest lists. Of a fenced batch one may be missing: nothing of it is in a table. Raises
    Rejected if one of another batch is."""
    found: dict[str, Sequence[OwnedUpload]] = {}
    for name in files.sealed.parts:
        body = work.get(batch_folder(batch_id) + name)
        if body is not None:
            found[name] = decode_part(body)
        elif not files.fenced:
            raise Rejected(
                f"{batch_folder(batch_id)}{name} is missing in the work bucket. Restore it and run this again. If it is"
                " gone for good, delete the batch's sealed.json when no job runs, make the ledger's table empty again,"
                " and run this again: the batch is then read from the rows in its table, and what is left of its"
                " uploads is sent again"
            )
    return found


def endings_of(
    batch_id: str, files: BatchFiles, parts: OwnedByPart, work: Work
) -> Mapping[tuple[str, str, str], Ending]:
    """The endings of a decided batch's uploads that ended without a row, by identity. Raises Rejected if they are
    missing."""
    if files.receipt is None:
        return {}
    if files.receipt.fence:
        return {each.upload.identity: given_up(each) for owned in parts.values() for each in owned}
    name = outcomes_name(batch_folder(batch_id), files.receipt.staged)
    body = work.get(name)
    if body is None:
        raise Rejected(f"{name} is missing in the work bucket; restore it and run this again")
    return {(each.bucket, each.key, each.version): each for each in decode_outcomes(body).endings}


def unfinished_before(oldest: str, work: Work) -> Iterator[str]:
    """The batches before the id `oldest` that have a manifest and no receipt. It lists every name in their folders, a
    thousand with each request. A folder without a manifest is left out: what it lists was sent long ago."""
    for batch_id, names in groupby(work.names(BATCHES), key=_folder_of):
        if batch_id >= oldest:
            return
        files = {name.removeprefix(batch_folder(batch_id)) for name in names}
        if "sealed.json" in files and "receipt.json" not in files:
            yield batch_id


def _folder_of(name: str) -> str:
    return name.removeprefix(BATCHES).partition("/")[0]

"""The uploads of a sealed batch, as its manifest in the work bucket lists them."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from tidegate.core.errors import Retryable
from tidegate.core.manifests import OwnedUpload, batch_folder, decode_part, decode_sealed
from tidegate.flows.ports import Work
from tidegate.flows.sink import Hopeless

PARTS_AT_ONCE = 10
"""As many as a client of botocore keeps connections."""
FEW_PARTS = 10
DIFFERS = "Nothing was published. The ledger is damaged: docs/operations.md, `A lost ledger`"


def read_manifest(batch: str, digest: str, work: Work) -> list[OwnedUpload]:
    """The uploads, each once, in a fixed order. `digest` is that of the parts that the ledger has registered; without
    it the manifest is not compared."""
    body = work.get(batch_folder(batch) + "sealed.json")
    if body is None:
        raise Retryable(f"batch {batch}: sealed.json is missing in the work bucket")
    sealed = decode_sealed(body)
    if digest and sealed.digest != digest:
        raise Hopeless(
            f"batch {batch}: its manifest has the digest {sealed.digest}, the ledger registered parts with the"
            f" digest {digest}: they are of different histories. {DIFFERS}"
        )
    items: list[OwnedUpload] = []
    for part in _parts(batch, sealed.parts, work):
        items += decode_part(part)
    identities = {item.upload.identity for item in items}
    if not len(identities) == len(items) == sealed.objects:
        raise Hopeless(
            f"batch {batch}: its parts name {len(items)} uploads, {len(identities)} different ones, and its"
            f" manifest says {sealed.objects}. Nothing was published; compare parts/ and sealed.json"
        )
    return items


def _parts(batch: str, names: Sequence[str], work: Work) -> Iterator[bytes]:
    """The parts in this order. Many are read at once: a batch of small notices has thousands of them. The first
    that cannot be read ends it, and those that were not asked for yet are left out."""

    def read(name: str) -> bytes:
        part = work.get(batch_folder(batch) + name)
        if part is None:
            raise Retryable(f"batch {batch}: {name} is missing in the work bucket")
        return part

    if len(names) <= FEW_PARTS:
        yield from map(read, names)
        return
    with ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="parts") as pool:
        yield from pool.map(read, names)

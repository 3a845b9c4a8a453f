"""What a batch's folder in the work bucket lacks: somebody has deleted a part, or the manifest.

Nothing here decides or changes anything. A part that is missing keeps a fence from being settled, and a wish from being
carried out. A person restores the file (the work bucket keeps deleted versions for a while), or says to go on without
it (`tidegate abort BATCH --drop --skip-missing`).

**Without a part** nobody can name its uploads, so:

    what settling would do              what becomes of it
    write "abandoned" into each claim   nothing lands twice or is taken wrongly: an owner has let go as soon as its
                                        batch is abandoned, whether or not its claims say so
    send what was uploaded again        an audit of the bucket finds it, as long as it looks that far back
    meanwhile
    drop, or resend, the uploads       they stay pending in the sums. `tidegate resend s3://BUCKET/KEY` sends one of
                                        them, since that is found by its claim
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.batches import Batch
from tidegate.core.manifests import batch_folder, decode_sealed, notice_of_part
from tidegate.flows.ports import Ports
from tidegate.flows.seal import registered_parts


@dataclass(frozen=True, slots=True)
class Missing:
    """`files` are names in the batch's folder. `uploads` is how many only the missing parts name; those whose notices
    the ledger has forgotten are not counted."""

    files: tuple[str, ...]
    uploads: int


NOTHING_MISSING = Missing((), 0)


def known_parts(batch: Batch, ports: Ports) -> Sequence[str]:
    """The parts that the manifest lists; if it is missing, those of the registered ones that are there."""
    body = ports.work.get(batch_folder(batch.id) + "sealed.json")
    return decode_sealed(body).parts if body else [record.part for record in registered_parts(batch, ports)]


def missing(batch: Batch, ports: Ports) -> Missing:
    """What the folder of a sealed batch lacks now. It costs a listing of its parts, and a read of each notice whose
    part is missing."""
    folder = batch_folder(batch.id)
    body = ports.work.get(folder + "sealed.json")
    if body is None:
        there = sum(record.objects for record in registered_parts(batch, ports))
        return Missing(("sealed.json",), batch.objects - there)
    there_are = {name.removeprefix(folder) for name in ports.work.names(folder + "parts/")}
    lost = tuple(name for name in decode_sealed(body).parts if name not in there_are)
    notices = ports.ledger.notices({notice_of_part(name) for name in lost}) if lost else {}
    return Missing(lost, sum(record.objects for record in notices.values()))

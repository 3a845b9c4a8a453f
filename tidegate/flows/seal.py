"""Seal: the open batch takes no more, and its manifest is written.

Two writes with a gap between them. The ledger's OPEN to SEALED comes first: from then on nobody registers, so the
set of registered notices is final and the manifest that lists them can only be the same, whoever writes it. A
process that dies in the gap leaves a sealed batch without a manifest; the next one that wants to hand it off writes it.
"""

from tidegate.core.batches import Batch, is_due
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.manifests import Sealed, batch_folder, notice_of_part
from tidegate.core.routes import Route
from tidegate.flows.ports import Clock, Counter, Ledger, Work

# The schedule that runs `settle` (seconds); EventBridge has nothing finer.
SCHEDULE = 60


def seal_if_due(route: Route, *, ledger: Ledger, clock: Clock, next_look: int, count: Counter) -> bool:
    """Seal the route's open batch if it is full, or old and a job could start. True if this call did it.

    `next_look` is how long (seconds) a batch that is left open now may have to wait until somebody looks again: the
    schedule says `SCHEDULE`, whoever looks in between says 0, because the schedule will look in time.
    """
    record = ledger.route(route.name)
    batch = ledger.batch(record.open_batch) if record.open_batch else None
    if batch is None:
        return False
    # a sealed batch that waits for a slot is ahead in the line, so the slot is not this one's
    slot_free = len(record.running) + len(record.sealed) < route.limits.in_flight
    if not is_due(batch, route.limits, now=clock(), slot_free=slot_free, next_look=next_look):
        return False
    if not ledger.seal(batch.id, route.name):
        return False
    count("BatchesSealed", 1, route.name)
    return True


def ensure_manifest(batch: Batch, *, ledger: Ledger, work: Work) -> Sealed | None:
    """Write the manifest of a sealed batch unless it is there. Returns it if this call made it.

    Raises OutcomeUnknown if the parts found do not add up to the header: then something that was registered is not
    to be seen, and handing off would lose it.
    """
    folder = batch_folder(batch.id)
    if work.get(folder + "sealed.json") is not None:
        return None
    names = sorted(name.removeprefix(folder) for name in work.names(folder + "parts/"))
    notices = ledger.notices({notice_of_part(name) for name in names})
    # a part that no registration names was left by a try that died, or by a twin that lost
    registered = [
        record
        for name in names
        if (record := notices.get(notice_of_part(name))) and record.batch == batch.id and record.part == name
    ]
    sealed = Sealed(
        batch=batch.id,
        route=batch.route,
        parts=tuple(record.part for record in registered),
        objects=sum(record.objects for record in registered),
        size=sum(record.bytes for record in registered),
    )
    found = (len(registered), sealed.objects, sealed.size)
    expected = (batch.notices, batch.objects, batch.bytes)
    if found != expected:
        raise OutcomeUnknown(
            f"batch {batch.id}: its parts hold (notices, objects, bytes) {found}, its header says {expected}."
            " Nothing was handed off; look for missing files under parts/ in the work bucket"
        )
    work.put_if_absent(folder + "sealed.json", sealed.encode())
    return sealed

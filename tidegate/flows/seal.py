"""Seal: the open batch takes no more, and its manifest is written.

Two writes with a gap between them. The ledger's OPEN to SEALED comes first: from then on nobody registers, so the
set of registered notices is final and the manifest that lists them can only be the same, whoever writes it. A
process that dies in the gap leaves a sealed batch without a manifest; the next one that wants to hand it off writes it.
"""

from tidegate.core.batches import Batch, is_due
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.manifests import Sealed, batch_folder, decode_sealed, notice_of_part
from tidegate.core.routes import Route, encode_dataset
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
    # which table it goes to is decided here: a later change of the route's table is for later batches
    if not ledger.seal(batch.id, route.name, route.dataset.table, encode_dataset(route.dataset)):
        return False
    count("BatchesSealed", 1, route.name)
    return True


def ensure_manifest(batch: Batch, *, ledger: Ledger, work: Work) -> Sealed:
    """The manifest of a sealed batch, which is written unless it is there.

    step                          if the process dies right after it
    1 add up what is registered   nothing has happened
    2 write the manifest          the next one finds it, and that it says the same
    3 note its digest             done; from then on one read is enough

    Raises OutcomeUnknown, and marks the batch as halted, if the parts found do not add up to the header (something that
    was registered is not to be seen, and handing off would lose it), or if a manifest of other parts, or for another
    table, is there: then the ledger was restored to a time before it was written. The batch may be published with
    uploads that this ledger does not know, or in that other table.
    """
    name = batch_folder(batch.id) + "sealed.json"
    body = work.get(name)
    there = decode_sealed(body) if body else None
    if there and batch.manifest == there.digest:
        return there
    sealed = registered(batch, ledger=ledger, work=work)
    if there is None:
        body = sealed.encode()
        if not work.put_if_absent(name, body):
            body = work.get(name) or body
        there = decode_sealed(body)
    if there.table and batch.table and there.table != batch.table:
        raise halted(
            batch,
            f"batch {batch.id}: by sealed.json in the work bucket it was sealed for table {there.table}, by the ledger"
            f" for {batch.table}. The ledger was restored to a time before the batch was sealed, and the route's table"
            " changed since. Nothing was handed off; see `tidegate ledger recover --help`",
            ledger,
        )
    if there.digest != sealed.digest or not ledger.note_manifest(batch.id, sealed.digest):
        raise halted(
            batch,
            f"batch {batch.id}: sealed.json in the work bucket lists {there.objects} uploads in {len(there.parts)}"
            f" parts (digest {there.digest}), the ledger has registered {sealed.objects} in {len(sealed.parts)} (digest"
            f" {sealed.digest}). The ledger was restored to a time before the batch was sealed. Nothing was handed off;"
            " see `tidegate ledger recover --help`",
            ledger,
        )
    return there


def registered(batch: Batch, *, ledger: Ledger, work: Work) -> Sealed:
    """What the manifest of a sealed batch must say. Raises OutcomeUnknown as `ensure_manifest`."""
    folder = batch_folder(batch.id)
    names = sorted(name.removeprefix(folder) for name in work.names(folder + "parts/"))
    notices = ledger.notices({notice_of_part(name) for name in names})
    # a part that no registration names was left by a try that died, or by a twin that lost
    found = [
        record
        for name in names
        if (record := notices.get(notice_of_part(name))) and record.batch == batch.id and record.part == name
    ]
    sealed = Sealed(
        batch=batch.id,
        route=batch.route,
        parts=tuple(record.part for record in found),
        objects=sum(record.objects for record in found),
        size=sum(record.bytes for record in found),
        table=batch.table,
    )
    summed = (len(found), sealed.objects, sealed.size)
    expected = (batch.notices, batch.objects, batch.bytes)
    if summed != expected:
        raise halted(
            batch,
            f"batch {batch.id}: its parts hold (notices, objects, bytes) {summed}, its header says {expected}."
            " Nothing was handed off; look for missing files under parts/ in the work bucket",
            ledger,
        )
    return sealed


def halted(batch: Batch, reason: str, ledger: Ledger) -> OutcomeUnknown:
    """Have a person see what is wrong with a batch's files; returns what to raise. The batch is looked at again all the
    same, and goes on by itself once the cause is gone."""
    if batch.halted != reason:
        ledger.halt(batch.id, batch.attempt, reason)
    return OutcomeUnknown(reason)

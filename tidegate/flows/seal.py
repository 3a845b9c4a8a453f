"""Seal: the open batch takes no more notices, and its manifest is written.

These are two writes. The ledger's OPEN to SEALED comes first: from then on no notice can register, so the set of
registered notices is final, and every process writes the same manifest. A process that dies between the two leaves a
sealed batch without a manifest. The next hand-off writes it.
"""

from dataclasses import replace

from tidegate.core.batches import Batch, is_due
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.manifests import Sealed, batch_folder, decode_sealed, notice_of_part
from tidegate.core.notices import NoticeRecord
from tidegate.core.records import RouteRecord
from tidegate.core.routes import Route, encode_dataset
from tidegate.core.workers import is_small
from tidegate.flows.ports import Ports
from tidegate.metrics import Metric


class FilesDiffer(OutcomeUnknown):
    """A batch's files in the work bucket differ from what the ledger has registered. The batch is marked as halted, and
    this is its reason."""


def seal_if_due(route: Route, ports: Ports, *, next_look: int, share: float = 1) -> bool:
    """Seal the route's open batch if it is full, or old and a job could start. True if this call did it. This `share`
    of `max_wait` is old enough for a small one.

    `next_look` is the time in seconds until the next check of a batch that is left open now. The schedule passes
    `SCHEDULE`. Callers in between pass 0, because the schedule checks in time.
    """
    record = ports.ledger.route(route.name)
    batch = ports.ledger.batch(record.open_batch) if record.open_batch else None
    if batch is None:
        return False
    slot_free = not record.paused and len(record.running) + _waiting(record, route, ports) < route.limits.in_flight
    # a large one keeps a worker for long
    share = share if is_small(batch) else 1
    limits = replace(route.limits, max_wait=int(route.limits.max_wait * share))
    if not is_due(batch, limits, now=ports.clock(), slot_free=slot_free, next_look=next_look):
        return False
    return seal(route, batch.id, ports)


def _waiting(record: RouteRecord, route: Route, ports: Ports) -> int:
    """How many sealed batches wait for a slot, and get it first. One that halted over its files waits for a person."""
    if len(record.running) >= route.limits.in_flight:
        return 0
    return sum(not batch.halted for batch in ports.ledger.batches(record.sealed).values())


def seal(route: Route, batch_id: str, ports: Ports) -> bool:
    """Seal the route's open batch now. True if this call did it; False if it is not open any more, or is empty."""
    # this decides the batch's table: a later change of the route's table applies to later batches
    dataset = route.dataset
    if not ports.ledger.seal(batch_id, route.name, dataset.table, encode_dataset(dataset)):
        return False
    ports.measure(Metric.BATCHES_SEALED, 1, route.name)
    return True


def ensure_manifest(batch: Batch, ports: Ports) -> Sealed:
    """The manifest of a sealed batch. It is written if it is absent.

    step                          if the process dies right after it
    1 add up what is registered   nothing has happened
    2 write the manifest          the next process finds it, with the same content
    3 note its digest             done; from then on one read is enough

    Raises FilesDiffer, and marks the batch as halted:

    - if the parts found do not add up to the header: something registered is missing, and a hand-off would lose it;
    - if there is a manifest of other parts or for another table: then the ledger is damaged. The batch may be published
      with uploads that this ledger has lost, or in that other table.
    """
    name = batch_folder(batch.id) + "sealed.json"
    body = ports.work.get(name)
    there = decode_sealed(body) if body else None
    if there and batch.manifest == there.digest:
        return there
    sealed = registered(batch, ports)
    if there is None:
        body = sealed.encode()
        if not ports.work.put_if_absent(name, body):
            body = ports.work.get(name) or body
        there = decode_sealed(body)
    if there.table != batch.table:
        raise halted(
            batch,
            f"batch {batch.id}: by sealed.json in the work bucket it was sealed for table {there.table}, by the ledger"
            f" for {batch.table}. Nothing was handed off. The ledger is damaged: docs/operations.md, `A lost ledger`",
            ports,
        )
    if there.digest != sealed.digest or not ports.ledger.note_manifest(batch.id, sealed.digest):
        raise halted(
            batch,
            f"batch {batch.id}: sealed.json in the work bucket lists {there.objects} uploads in {len(there.parts)}"
            f" parts (digest {there.digest}), the ledger has registered {sealed.objects} in {len(sealed.parts)} (digest"
            f" {sealed.digest}). Nothing was handed off. The ledger is damaged: docs/operations.md, `A lost ledger`",
            ports,
        )
    return there


def registered(batch: Batch, ports: Ports) -> Sealed:
    """The manifest that the ledger's registrations give. Raises FilesDiffer as `ensure_manifest`."""
    found = registered_parts(batch, ports)
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
            ports,
        )
    return sealed


def registered_parts(batch: Batch, ports: Ports) -> list[NoticeRecord]:
    """The batch's notices whose parts are there, by the parts' names."""
    folder = batch_folder(batch.id)
    names = sorted(name.removeprefix(folder) for name in ports.work.names(folder + "parts/"))
    notices = ports.ledger.notices({notice_of_part(name) for name in names})
    # a part that no registration names is from a try that died, or from a twin that did not register
    return [
        record
        for name in names
        if (record := notices.get(notice_of_part(name))) and record.batch == batch.id and record.part == name
    ]


def halted(batch: Batch, reason: str, ports: Ports) -> FilesDiffer:
    """Mark a batch as halted, with what is wrong with its files. Returns the error to raise.

    A sealed batch is still checked on each run of the schedule, and goes on by itself once the cause is gone. So does a
    submitted one that has a receipt. A submitted one without a receipt starts nothing more until a person resumes it.
    """
    if not batch.halted:
        ports.measure(Metric.BATCHES_HALTED, 1, batch.route)
    if batch.halted != reason:
        ports.ledger.halt(batch.id, batch.attempt, reason)
    return FilesDiffer(reason)

"""A ledger that is built anew (`flows.rebuild`)."""

from collections.abc import Mapping

from tidegate.core.batches import Batch, State
from tidegate.core.items import Is, Item, Key, Lacks, NeverWritten, Put, Transition, Update, Vacant, Write
from tidegate.core.notices import NoticeRecord
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import NOTICE_OUTLIVES_CLAIM, VERSION, WHOLE, batch_key, notice_key, route_key
from tidegate.core.transitions.common import (
    counted_in,
    cut_error,
    ended_fields,
    left_outside,
    single,
    to_announce,
    upload_key,
)
from tidegate.core.uploads import Upload


def is_whole(item: Item | None) -> bool:
    """What the record under `WHOLE` says."""
    return whole_since(item) is not None


def whole_since(item: Item | None) -> int | None:
    """Epoch seconds; None if it is not whole."""
    since = item.get("since") if item else None
    return since if isinstance(since, int) else None


def open_ledger(*, now: int) -> Transition:
    """A new deployment's ledger is whole. Refused if a rebuild has begun, or if it is whole already."""
    return single("note that the ledger is whole", Write(WHOLE, Put({"v": VERSION, "since": now}), (NeverWritten(),)))


def begin_rebuild(since: int | None) -> Transition:
    """Nothing works any more until the ledger is whole. A function that took it for new may not open it now.

    `since` is what the record said when it was read: since when the ledger is whole; None if there was no record. It
    must still be the same. So a request that arrives after the rebuild has ended does not begin another one."""
    same = NeverWritten() if since is None else Is("since", since)
    return single("note that the ledger is being rebuilt", Write(WHOLE, Put({"v": VERSION}), (same,)))


def end_rebuild(*, now: int) -> Transition:
    """Every function and every verb works from now on."""
    whole = Put({"v": VERSION, "since": now})
    return single("note that the ledger is whole", Write(WHOLE, whole, (Lacks("since"),)))


def index_notice(record: NoticeRecord, *, now: int, retention: int) -> Transition:
    """A manifest lists the notice. The sums are those of its batch (`index_batch`)."""
    item: Item = {
        "v": VERSION,
        "route": record.route,
        "batch": record.batch,
        "part": record.part,
        "objects": record.objects,
        "bytes": record.bytes,
        "decided_at": now,
        "expires_at": now + retention + NOTICE_OUTLIVES_CLAIM,
    }
    return single(f"note notice {record.id} of batch {record.batch}", _vacant(notice_key(record.id), item, now))


def index_claim(notice_id: str, upload: Upload, ending: Ending | None, *, now: int, retention: int) -> Transition:
    item: Item = {**_indexed(notice_id, upload, ending), "v": VERSION, "claimed_at": now, "expires_at": now + retention}
    return single(f"note the owner of {upload}", _vacant(upload_key(upload), item, now))


def index_over(notice_id: str, upload: Upload, ending: Ending | None, *, owner: str) -> Transition:
    """The claim names this notice in place of `owner`."""
    sets = _indexed(notice_id, upload, ending)
    removes = tuple(each for each in ("sequencer", "outcome", "error", "was", "was_of", "later") if each not in sets)
    change = Update(sets=sets, removes=removes)
    return single(f"note the owner of {upload}", Write(upload_key(upload), change, (Is("notice", owner),)))


def index_batch(
    batch: Batch,
    receipt: Receipt | None,
    back: Mapping[str, int],
    *,
    announce: bool = False,
    now: int,
    retention: int,
) -> Transition:
    """A batch as its manifest and its receipt tell of it: SEALED without a receipt, else ended and counted. `back`: how
    many of its uploads later batches own, by what they were counted as here. `announce` as in `end_batch`."""
    item: Item = {
        "v": VERSION,
        "route": batch.route,
        "state": State.SEALED.value,
        "opened_at": batch.opened_at,
        "objects": batch.objects,
        "bytes": batch.bytes,
        "notices": batch.notices,
        "attempt": 0,
        "sealed_at": now,
        "table": batch.table,
        "manifest": batch.manifest,
        **({"rows_removed": 1} if batch.rows_removed else {}),
        **(ended_fields(receipt, now, retention) if receipt else {}),
    }
    return Transition(
        f"note how batch {batch.id} stands",
        (
            _vacant(batch_key(batch.id), item, now),
            Write(
                route_key(batch.route),
                counted_in(batch, receipt, back, now) if receipt else Update(joins={"sealed": batch.id}),
            ),
            *(left_outside(batch, receipt, now, retention) if receipt else ()),
            *((to_announce(batch, receipt, now),) if receipt and announce and not receipt.fence else ()),
        ),
    )


def _indexed(notice_id: str, upload: Upload, ending: Ending | None) -> Item:
    return {
        "notice": notice_id,
        **({"sequencer": upload.sequencer} if upload.sequencer else {}),
        **({"outcome": str(ending.outcome), "error": cut_error(ending.error)} if ending else {}),
    }


def _vacant(key: Key, item: Item, now: int) -> Write:
    return Write(key, Put(item), (Vacant(now),))

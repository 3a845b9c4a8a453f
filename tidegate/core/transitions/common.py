"""What several modules of transitions are made of."""

from collections.abc import Mapping

from tidegate.core.announcements import Announcement
from tidegate.core.batches import Batch, State
from tidegate.core.claims import CountedAs
from tidegate.core.items import Is, Item, Key, Put, Requirement, Transition, Update, Write
from tidegate.core.receipts import Receipt
from tidegate.core.records import (
    BATCH_OUTLIVES_NOTICE,
    NOTICE_OUTLIVES_CLAIM,
    VERSION,
    claim_key,
    leftover_key,
    outbox_key,
)
from tidegate.core.uploads import Upload


def single(what: str, write: Write) -> Transition:
    return Transition(what, (write,))


def upload_key(upload: Upload) -> Key:
    return claim_key(*upload.identity)


def cut_error(error: str) -> str:
    """As much of an upload's error as a claim stores."""
    return error.encode()[:MAX_ERROR_BYTES].decode(errors="ignore")


def under_way(attempt: int) -> tuple[Requirement, ...]:
    return (Is("state", State.SUBMITTED.value), Is("attempt", attempt))


def sums_left(back: Mapping[CountedAs, int]) -> Mapping[str, Mapping[str, int]]:
    left: dict[str, dict[str, int]] = {}
    for each, how_many in back.items():
        left.setdefault(each.route, {})[f"back_{each.outcome}"] = how_many
    return left


def forgotten_at(now: int, retention: int) -> int:
    return now + retention + NOTICE_OUTLIVES_CLAIM + BATCH_OUTLIVES_NOTICE


def ended_fields(receipt: Receipt, now: int, retention: int) -> Item:
    """What the record of a batch says of its end."""
    return {
        "state": (State.ABANDONED if receipt.fence else State.COMMITTED).value,
        "ended_at": now,
        "snapshot": receipt.snapshot,
        "tally": receipt.tally.as_dict(),
        "expires_at": forgotten_at(now, retention),
        **({"unknown": dict(receipt.unknown.names)} if receipt.unknown.names else {}),
    }


def counted_in(batch: Batch, receipt: Receipt, back: Mapping[str, int], now: int) -> Update:
    """The route's sums with this batch. `back`: how many of its uploads are counted elsewhere, by what they were."""
    sums = (
        {"abandoned_batches": 1, "abandoned_objects": batch.objects}
        if receipt.fence
        else {"committed_batches": 1, **receipt.tally.as_dict()}
    )
    unknown = {} if receipt.fence else dict(receipt.unknown.names)
    return Update(
        sets={"unknown": unknown, "unknown_at": now} if unknown else {},
        sets_once={"quarantined_since": now} if receipt.tally.quarantined else {},
        adds={"notified": batch.objects, **sums, **{f"back_{outcome}": count for outcome, count in back.items()}},
    )


def left_outside(batch: Batch, receipt: Receipt, now: int, retention: int) -> tuple[Write, ...]:
    quarantined, abandoned = receipt.tally.quarantined, batch.objects if receipt.fence else 0
    left: Item = {
        "v": VERSION,
        "ended_at": now,
        "quarantined": quarantined,
        "abandoned": abandoned,
        "expires_at": forgotten_at(now, retention),
    }
    return (Write(leftover_key(batch.route, batch.id), Put(left)),) if quarantined or abandoned else ()


def to_announce(batch: Batch, receipt: Receipt, now: int) -> Write:
    event = Announcement(batch.id, batch.route, batch.table, receipt.snapshot, receipt.tally, now)
    item: Item = {
        "v": VERSION,
        "event": event.id,
        "route": event.route,
        "table": event.table,
        "snapshot": event.snapshot,
        "tally": event.tally.as_dict(),
        "committed_at": event.committed_at,
    }
    return Write(outbox_key(batch.id), Put(item))


MAX_ERROR_BYTES = 300
"""The most of an upload's error that a claim stores. It keeps a claim under 1 KB, hence at 1 write unit."""

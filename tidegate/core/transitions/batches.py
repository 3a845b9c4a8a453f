"""Decision 2, and the life of a batch."""

from collections.abc import Mapping
from dataclasses import replace

from tidegate.core.announcements import Announcement
from tidegate.core.batches import Batch, State
from tidegate.core.claims import CountedAs
from tidegate.core.items import (
    Delete,
    FewerThan,
    Has,
    Holds,
    Is,
    Item,
    Lacks,
    LacksOrIs,
    MoreThan,
    NeverWritten,
    Put,
    Transition,
    Update,
    Vacant,
    Write,
)
from tidegate.core.manifests import Part
from tidegate.core.notices import Notice
from tidegate.core.receipts import Receipt
from tidegate.core.records import NOTICE_OUTLIVES_CLAIM, VERSION, batch_key, notice_key, outbox_key, route_key
from tidegate.core.transitions.common import (
    counted_in,
    ended_fields,
    left_outside,
    single,
    sums_left,
    to_announce,
    under_way,
)

MAX_REASON = 4_000
"""Characters of a batch's reason for halting."""


def open_batch(batch: Batch) -> Transition:
    """`batch` has only its id, its route, and when it was opened."""
    item: Item = {
        "v": VERSION,
        "route": batch.route,
        "state": State.OPEN.value,
        "opened_at": batch.opened_at,
        "objects": 0,
        "bytes": 0,
        "notices": 0,
        "attempt": 0,
    }
    return Transition(
        f"open batch {batch.id}",
        (
            Write(batch_key(batch.id), Put(item), (NeverWritten(),)),
            Write(route_key(batch.route), Update(sets={"open_batch": batch.id}), (Lacks("open_batch"),)),
        ),
    )


def register(
    notice: Notice,
    batch_id: str,
    part: Part,
    back: Mapping[CountedAs, int],
    *,
    now: int,
    retention: int,
) -> Transition:
    """`back` is how many of the part's uploads were counted before, and how. The batch counts them anew, so they leave
    the sums that they were in: one more write for each route."""
    item: Item = {
        "v": VERSION,
        "route": notice.route,
        "batch": batch_id,
        "part": part.name,
        "objects": part.objects,
        "bytes": part.size,
        "decided_at": now,
        "expires_at": now + retention + NOTICE_OUTLIVES_CLAIM,
    }
    more = Update(adds={"objects": part.objects, "bytes": part.size, "notices": 1})
    return Transition(
        f"register notice {notice.id} in batch {batch_id}",
        (
            Write(notice_key(notice.id), Put(item), (Vacant(now),)),
            Write(batch_key(batch_id), more, (Is("state", State.OPEN.value),)),
            *(Write(route_key(route), Update(adds=left)) for route, left in sums_left(back).items()),
        ),
    )


def void(notice_id: str, route: str, *, now: int, retention: int) -> Transition:
    item: Item = {
        "v": VERSION,
        "route": route,
        "decided_at": now,
        "expires_at": now + retention + NOTICE_OUTLIVES_CLAIM,
    }
    return single(f"void notice {notice_id}", Write(notice_key(notice_id), Put(item), (Vacant(now),)))


HALT = ("halted", "halted_at", "undecided")


OF_THE_LAST_ATTEMPT = ("job_run", "dataset", *HALT)
"""What the batch's record says about an attempt, and a further attempt begins without."""


def seal(batch_id: str, route: str, *, table: str, dataset: str, now: int) -> Transition:
    """OPEN to SEALED, with this table and this dataset (JSON)."""
    sealed = Update(sets={"state": State.SEALED.value, "sealed_at": now, "table": table, "sealed_for": dataset})
    listed = Update(removes=("open_batch",), joins={"sealed": batch_id})
    return Transition(
        f"seal batch {batch_id}",
        (
            Write(batch_key(batch_id), sealed, (Is("state", State.OPEN.value), MoreThan("notices", 0))),
            Write(route_key(route), listed, (Is("open_batch", batch_id),)),
        ),
    )


def note_manifest(batch_id: str, digest: str) -> Transition:
    change = Update(sets={"manifest": digest})
    return single(
        f"note the manifest of batch {batch_id}",
        Write(batch_key(batch_id), change, (Has("state"), LacksOrIs("manifest", digest))),
    )


def begin_attempt(batch_id: str, route: str, attempt: int, *, in_flight: int, now: int) -> Transition:
    """SEALED to SUBMITTED(1), if fewer than `in_flight` batches of the route are submitted and it is not paused; or
    SUBMITTED(attempt - 1) to SUBMITTED(attempt), if the batch has not halted."""
    begun = Update(
        sets={"state": State.SUBMITTED.value, "attempt": attempt, "submitted_at": now}, removes=OF_THE_LAST_ATTEMPT
    )
    before = Is("attempt", attempt - 1)
    if attempt == 1:
        batch = Write(batch_key(batch_id), begun, (Is("state", State.SEALED.value), before))
        taken = Update(adds={"jobs": 1}, joins={"running": batch_id}, leaves={"sealed": batch_id})
        slot = Write(route_key(route), taken, (FewerThan("running", in_flight), Lacks("paused")))
    else:
        batch = Write(batch_key(batch_id), begun, (Is("state", State.SUBMITTED.value), Lacks("halted"), before))
        slot = Write(route_key(route), Update(adds={"jobs": 1}))
    return Transition(f"begin attempt {attempt} of batch {batch_id}", (batch, slot))


def fix_dataset(batch_id: str, attempt: int, dataset: str) -> Transition:
    change = Update(sets_once={"dataset": dataset})
    return single(
        f"fix how attempt {attempt} of batch {batch_id} reads", Write(batch_key(batch_id), change, under_way(attempt))
    )


def record_job(batch_id: str, attempt: int, job_run: str, *, taken: bool = False) -> Transition:
    change = Update(sets={"job_run": job_run})
    requires = under_way(attempt) if taken else (*under_way(attempt), Lacks("job_run"))
    return single(f"record job {job_run} of batch {batch_id}", Write(batch_key(batch_id), change, requires))


def note_endings(batch_id: str, done: int) -> Transition:
    change = Update(sets={"endings": done})
    return single(
        f"note that {done} endings of batch {batch_id} are recorded",
        Write(batch_key(batch_id), change, (Is("state", State.SUBMITTED.value),)),
    )


def end_batch(batch: Batch, receipt: Receipt, *, announce: bool = False, now: int, retention: int) -> Transition:
    """SUBMITTED to COMMITTED, or to ABANDONED if the receipt is of a fence. If it leaves uploads outside the table that
    a person may want, a leftover is written, so that they are found without a search through all batches. With
    `announce`, a batch that is COMMITTED gets a record in the outbox, and no other batch ever has one.

    It is counted once, because the batch is SUBMITTED once at most: no transition leads back from COMMITTED or
    ABANDONED. So the route's record requires nothing. The batch may be in a slot or aside, and may change between the
    two while its receipt is read: it leaves both sets, and the one that lacks it stays as it is.

    If it quarantines uploads and the route has none in quarantine, they are the oldest from now on. If there are some,
    those are older.

    The batch keeps which names its files have that the schema lacks, and the route those of the last committed batch
    that had some: one without says nothing of other files.
    """
    ended = Update(sets=ended_fields(receipt, now, retention), removes=HALT)
    summed = counted_in(batch, receipt, {}, now)
    return Transition(
        f"settle batch {batch.id}",
        (
            Write(batch_key(batch.id), ended, (Is("state", State.SUBMITTED.value),)),
            Write(route_key(batch.route), replace(summed, leaves={"running": batch.id, "aside": batch.id})),
            *left_outside(batch, receipt, now, retention),
            *((to_announce(batch, receipt, now),) if announce and not receipt.fence else ()),
        ),
    )


def note_announced(event: Announcement) -> Transition:
    """The record is deleted, so that what was sent costs no reading."""
    return single(
        f"note that batch {event.batch} was announced",
        Write(outbox_key(event.batch), Delete(), (Is("snapshot", event.snapshot),)),
    )


def halt(batch_id: str, attempt: int, reason: str, *, undecided: bool, now: int) -> Transition:
    """A batch that has halted may get another reason. It has halted since the first one. `undecided` goes with the
    reason: a person must decide whether the batch is in the table."""
    either = Is("state", State.SEALED.value, (State.SUBMITTED.value,))
    change = Update(
        sets={"halted": reason[:MAX_REASON], **({"undecided": True} if undecided else {})},
        sets_once={"halted_at": now},
        removes=() if undecided else ("undecided",),
    )
    return single(f"halt batch {batch_id}", Write(batch_key(batch_id), change, (either, Is("attempt", attempt))))


def step_aside(batch_id: str, route: str, attempt: int, *, now: int) -> Transition:
    """A halted batch gives up its slot. It stays SUBMITTED, keeps its claims and its place in the route's sums, and is
    settled if a driver publishes it.

    beside it                     what happens
    a twin                        one transaction succeeds: the batch leaves `running` once
    `resume`                      if it is first, the attempt is another one, and this is refused; if it is second, it
                                  takes the batch back. So what is under way is never aside
    `end_batch`                   if it is first, the batch is not SUBMITTED, and this is refused; if it is second, it
                                  takes the batch out of `aside`
    `halt`, with another reason   the batch is aside with the new reason
    `begin_attempt` of the next   it gets the slot if it comes second, and waits for the next look otherwise
    """
    halted = (Is("state", State.SUBMITTED.value), Has("halted"), Is("attempt", attempt))
    return Transition(
        f"let batch {batch_id} step aside",
        (
            Write(batch_key(batch_id), Update(sets={"aside_at": now}), halted),
            Write(
                route_key(route),
                Update(joins={"aside": batch_id}, leaves={"running": batch_id}),
                (Holds("running", batch_id),),
            ),
        ),
    )


def note_removed(batch_id: str, *, sent: bool = False) -> Transition:
    """Rows of the batch are not in its table any more, and the table proves that no driver can bring them again. With
    `sent` all its uploads were sent again since."""
    done = {"sent_again": 1} if sent else {}
    return single(
        f"note that rows of batch {batch_id} were removed",
        Write(batch_key(batch_id), Update(sets={"rows_removed": 1, **done}), (Is("state", State.COMMITTED.value),)),
    )

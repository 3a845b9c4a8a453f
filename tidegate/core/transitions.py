"""Every change of the ledger: what each transition requires, and what it writes.

    transition      decides                                        requires
    claim           1: this version belongs to that notice         it has no live claim
    take_over       1: it belongs to this notice from now on       its owner is still the one that let go
    note_again      that the same bytes were uploaded again        its owner is the same, no outcome is recorded
    open_batch      which batch the route's notices join           the route has no open batch
    register        2: this notice belongs to that batch           the notice is undecided, the batch is open
    void            2: this notice belongs to no batch             the notice is undecided
    seal            that nothing joins the batch any more          it is open and not empty
    note_manifest   which parts count                              no other digest is recorded
    begin_attempt   that an attempt is made, in a slot             the attempt before it is the last; a slot is free
    fix_dataset     how an attempt reads its files                 the attempt is under way; the first write counts
    record_job      which job run an attempt has                   the attempt is under way, and has none
    record_ending   how an upload ended, if not committed          it is live, and its owner is the ending's notice
    note_endings    how many endings are recorded                  the batch is submitted
    end_batch       3, after the table: published, or fenced       the batch is submitted
    note_emptied    that nothing of a batch is in quarantine       the leftover is the one that was read
    note_oldest     since when uploads are in quarantine           no batch has put one there since it was read
    note_announced  that its event was sent                        the record is still of that event
    halt            that nothing is started until a person acts    the attempt is the last
    step_aside      that the route goes on past it                 the attempt is the last; halted, and in a slot
    resume          that one more attempt is made, or a fence      the attempt is the last; halted, unless for a fence
    give_up         that the first attempt is a fence              the batch is sealed, and was never attempted
    wish            what becomes of a batch's uploads afterwards   it is abandoned, or the attempt is the last
    note_wish       that a wish is carried out so far              the wish is the last
    end_wish        that a wish is carried out, or is pointless    the wish is the last
    forget_wish     that there is no wish                          there is none, though the route lists one
    note_removed    that a batch can never bring its rows again    it is committed, and nobody republishes it
    note_republish  that a batch's rows may come back              it is committed, and nobody took its uploads over
    drop            that uploads have ended, because a person      the batch's notices own them, and they are recorded
                    gave them up                                   as abandoned
    drop_quarantined   the same, of what is in quarantine          the notices own them, and they are in quarantine
    note_snapshot   that a batch landed again                      it is committed, as the snapshot that was read
    pause, unpause  that the route begins no new batch             it is not paused yet; it is
    index_notice    what a manifest lists, while a ledger is       there is no record
    index_claim     built anew: which notice owns an upload,       it has no live claim
    index_over      instead of another notice,                     its owner is still the one that was read
    index_batch     and how the batch stands                       there is no record
    declare_whole   that the ledger is whole                       nobody has
    take_back_whole that it is not                                 nothing
    begin_watch     since when a place is watched                  it is not, or was not for as long as is remembered
    end_watch       that no route takes the place any more         it was not left
    resume_watch    that a route takes it again                    it was left when it was read
    begin_audit     which run audits the place                     the one before is the last, and has ended
    note_audit      that a page of the run is done                 the run is the last, the page its next
    note_screening  which job screens the bucket for the run       the run is the last; it has no job, and no page
    give_up_audit   that a run has ended without its findings      the run is the last, its pages and job as read
    remember_route, note_shared_job, count_refused: no decisions

Decision 3 itself is made in the table (`core.publication`); `end_batch` records it. Nothing else writes the ledger.
Add a new rule here, and let the model explore it (`simulation/model/`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.core.announcements import Announcement
from tidegate.core.audit import AuditRun
from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import CountedAs, LetGo
from tidegate.core.items import (
    Delete,
    FewerThan,
    Has,
    Holds,
    Is,
    IsNot,
    Item,
    Key,
    Lacks,
    LacksOrIs,
    MoreThan,
    NeverWritten,
    Put,
    Requirement,
    Transition,
    Update,
    Vacant,
    Write,
)
from tidegate.core.manifests import OwnedUpload, Part
from tidegate.core.notices import Notice, NoticeRecord
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome
from tidegate.core.receipts import Ending, Receipt
from tidegate.core.records import (
    BATCH_OUTLIVES_NOTICE,
    NOTICE_OUTLIVES_CLAIM,
    SHARED_JOB,
    VERSION,
    WHOLE,
    Leftover,
    RouteRecord,
    audit_key,
    batch_key,
    claim_key,
    leftover_key,
    notice_key,
    outbox_key,
    route_key,
    settings_key,
)
from tidegate.core.routes import Route, encode_route
from tidegate.core.seats import SharedJob
from tidegate.core.uploads import Upload

MAX_ERROR_BYTES = 300
"""The most of an upload's error that a claim stores. It keeps a claim under 1 KB, hence at 1 write unit."""
MOST_DROPPED = 90
"""Uploads that one transition drops. DynamoDB takes 100 items in a transaction."""
MAX_REASON = 4_000
"""Characters of a batch's reason for halting."""

# ---- decision 1


def claim(notice_id: str, upload: Upload, *, now: int, retention: int) -> Transition:
    return _own(notice_id, upload, (Vacant(now),), LetGo(None), now=now, retention=retention)


def take_over(notice_id: str, upload: Upload, *, owner: str, let_go: LetGo, now: int, retention: int) -> Transition:
    """From `owner`, the notice that let go. It is refused if a twin of this notice was faster. An upload that is
    counted as abandoned, or in quarantine, must not have been dropped meanwhile: that is another place in the sums."""
    droppable = let_go.before is not None and let_go.before.outcome in (ABANDONED, Outcome.QUARANTINED)
    still = (IsNot("outcome", DROPPED),) if droppable else ()
    return _own(notice_id, upload, (Is("notice", owner), *still), let_go, now=now, retention=retention)


def _own(
    notice_id: str,
    upload: Upload,
    requires: tuple[Requirement, ...],
    let_go: LetGo,
    *,
    now: int,
    retention: int,
) -> Transition:
    before = let_go.before
    item: Item = {
        "v": VERSION,
        "notice": notice_id,
        **({"sequencer": upload.sequencer} if upload.sequencer else {}),
        **({"was": before.outcome, "was_of": before.route} if before else {}),
        **({"rows_in": let_go.rows_in} if let_go.rows_in else {}),
        "claimed_at": now,
        "expires_at": now + retention,
    }
    return _one(f"claim {upload}", Write(_claim_key(upload), Put(item), requires))


def note_again(owner: str, upload: Upload, *, now: int, retention: int) -> Transition:
    """The same bytes were uploaded again. The write that records that they did not land returns this too. The claim's
    retention begins anew: the new notification may be delivered again as long as any other (docs/adr/0038)."""
    change = Update(sets={"later": upload.sequencer, "expires_at": now + retention})
    return _one(
        f"note that {upload} came again", Write(_claim_key(upload), change, (Is("notice", owner), Lacks("outcome")))
    )


# ---- decision 2


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
    table: str = "",
    dataset: str = "",
    now: int,
    retention: int,
) -> Transition:
    """`back` is how many of the part's uploads were counted before, and how. The batch counts them anew, so they leave
    the sums that they were in: one more write for each route.

    The notice is for `table`, so it joins no batch that is bound to another one. With a `dataset` (JSON) the batch is
    bound to that table, and read so: uploads of the part have rows in other tables, and the route's table may become
    one of these before the batch is sealed."""
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
    more = Update(
        sets={"table": table, "sealed_for": dataset} if dataset else {},
        adds={"objects": part.objects, "bytes": part.size, "notices": 1},
    )
    fits = (LacksOrIs("table", table),) if table else ()
    return Transition(
        f"register notice {notice.id} in batch {batch_id}",
        (
            Write(notice_key(notice.id), Put(item), (Vacant(now),)),
            Write(batch_key(batch_id), more, (Is("state", State.OPEN.value), *fits)),
            *(Write(route_key(route), Update(adds=left)) for route, left in _sums_left(back).items()),
        ),
    )


def _sums_left(back: Mapping[CountedAs, int]) -> Mapping[str, Mapping[str, int]]:
    left: dict[str, dict[str, int]] = {}
    for each, how_many in back.items():
        left.setdefault(each.route, {})[f"back_{each.outcome}"] = how_many
    return left


def void(notice_id: str, route: str, *, now: int, retention: int) -> Transition:
    item: Item = {
        "v": VERSION,
        "route": route,
        "decided_at": now,
        "expires_at": now + retention + NOTICE_OUTLIVES_CLAIM,
    }
    return _one(f"void notice {notice_id}", Write(notice_key(notice_id), Put(item), (Vacant(now),)))


# ---- the life of a batch

_HALT = ("halted", "halted_at", "undecided")
_OF_THE_LAST_ATTEMPT = ("job_run", "rides", "dataset", *_HALT)
"""What the batch's record says about an attempt, and a further attempt begins without."""


def seal(batch_id: str, route: str, *, table: str, dataset: str, now: int) -> Transition:
    """OPEN to SEALED, with this table and this dataset (JSON). Refused if the batch goes to another table already."""
    sealed = Update(sets={"state": State.SEALED.value, "sealed_at": now, "table": table, "sealed_for": dataset})
    listed = Update(removes=("open_batch",), joins={"sealed": batch_id})
    return Transition(
        f"seal batch {batch_id}",
        (
            Write(
                batch_key(batch_id),
                sealed,
                (Is("state", State.OPEN.value), MoreThan("notices", 0), LacksOrIs("table", table)),
            ),
            Write(route_key(route), listed, (Is("open_batch", batch_id),)),
        ),
    )


def note_manifest(batch_id: str, digest: str) -> Transition:
    change = Update(sets={"manifest": digest})
    return _one(
        f"note the manifest of batch {batch_id}",
        Write(batch_key(batch_id), change, (Has("state"), LacksOrIs("manifest", digest))),
    )


def begin_attempt(batch_id: str, route: str, attempt: int, *, in_flight: int, now: int) -> Transition:
    """SEALED to SUBMITTED(1), if fewer than `in_flight` batches of the route are submitted and it is not paused; or
    SUBMITTED(attempt - 1) to SUBMITTED(attempt), if the batch has not halted."""
    begun = Update(
        sets={"state": State.SUBMITTED.value, "attempt": attempt, "submitted_at": now}, removes=_OF_THE_LAST_ATTEMPT
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
    return _one(
        f"fix how attempt {attempt} of batch {batch_id} reads", Write(batch_key(batch_id), change, _under_way(attempt))
    )


def record_job(batch_id: str, attempt: int, job_run: str, *, rides: bool = False) -> Transition:
    change = Update(sets={"job_run": job_run, **({"rides": True} if rides else {})})
    requires = (*_under_way(attempt), Lacks("job_run"))
    return _one(f"record job {job_run} of batch {batch_id}", Write(batch_key(batch_id), change, requires))


def record_ending(ending: Ending, *, now: int) -> Transition:
    """Write the ending into the claim, unless another notice has taken the claim over, or a person has dropped the
    upload: a slow twin of settling would make it abandoned again, and it is counted as dropped.

    A claim that has expired counts as absent, and gets no ending. If it did, whoever reads the answer would learn that
    the same bytes came again, as long as TTL has not deleted the claim, and not afterwards."""
    error = ending.error.encode()[:MAX_ERROR_BYTES].decode(errors="ignore")
    change = Update(sets={"outcome": str(ending.outcome), "error": error})
    key = claim_key(ending.bucket, ending.key, ending.version)
    return _one(
        f"record that s3://{ending.bucket}/{ending.key} was {ending.outcome}",
        Write(key, change, (Is("notice", ending.notice), IsNot("outcome", DROPPED), MoreThan("expires_at", now))),
    )


def note_endings(batch_id: str, done: int) -> Transition:
    change = Update(sets={"endings": done})
    return _one(
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
    ended = Update(sets=_ended(receipt, now, retention), removes=_HALT)
    summed = _counted(batch, receipt, {}, now)
    return Transition(
        f"settle batch {batch.id}",
        (
            Write(batch_key(batch.id), ended, (Is("state", State.SUBMITTED.value),)),
            Write(route_key(batch.route), replace(summed, leaves={"running": batch.id, "aside": batch.id})),
            *_left_outside(batch, receipt, now, retention),
            *((_to_announce(batch, receipt, now),) if announce and not receipt.fence else ()),
        ),
    )


def _forgotten_at(now: int, retention: int) -> int:
    return now + retention + NOTICE_OUTLIVES_CLAIM + BATCH_OUTLIVES_NOTICE


def _ended(receipt: Receipt, now: int, retention: int) -> Item:
    """What the record of a batch says of its end."""
    return {
        "state": (State.ABANDONED if receipt.fence else State.COMMITTED).value,
        "ended_at": now,
        "snapshot": receipt.snapshot,
        "tally": receipt.tally.as_dict(),
        "expires_at": _forgotten_at(now, retention),
        **({"unknown": dict(receipt.unknown.names)} if receipt.unknown.names else {}),
    }


def _counted(batch: Batch, receipt: Receipt, back: Mapping[str, int], now: int) -> Update:
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


def _left_outside(batch: Batch, receipt: Receipt, now: int, retention: int) -> tuple[Write, ...]:
    quarantined, abandoned = receipt.tally.quarantined, batch.objects if receipt.fence else 0
    left: Item = {
        "v": VERSION,
        "ended_at": now,
        "quarantined": quarantined,
        "abandoned": abandoned,
        "expires_at": _forgotten_at(now, retention),
    }
    return (Write(leftover_key(batch.route, batch.id), Put(left)),) if quarantined or abandoned else ()


def note_emptied(left: Leftover) -> Transition:
    """No upload of the batch is in quarantine any more. That is final: no transition gives a claim back to an owner
    that has lost it. So two processes may both find it."""
    return _one(
        f"note that nothing of batch {left.batch} is in quarantine",
        Write(leftover_key(left.route, left.batch), Update(sets={"emptied": True}), (Is("ended_at", left.ended_at),)),
    )


def note_oldest(there: RouteRecord, since: int, seen: int) -> Transition:
    """Move the time since which the route has had uploads in quarantine: from what the record `there` says to `since`
    (epoch seconds; 0 if there are none any more). `seen` as in `RouteRecord.quarantine_seen`.

    beside it                     what happens
    a twin                        the field is as it was read, so one of two that found different times is refused
    `end_batch` that quarantines  it adds to the sum `quarantined`. If it is first, this is refused: its leftover may be
                                  missing in what was read. If it is second, it sets the field if there is none; else
                                  what is there is older
    `end_batch` that does not     the sum stays as it was read, and so does what is in quarantine
    `register` of what came back  it adds to `back_quarantined`. `seen` was read before the claims, so the record is
                                  behind again, and is looked at again
    """
    change = Update(
        sets={"quarantine_seen": seen, **({"quarantined_since": since} if since else {})},
        removes=() if since else ("quarantined_since",),
    )
    as_read = (
        Is("quarantined", there.tally.quarantined),
        Is("quarantined_since", there.quarantined_since) if there.quarantined_since else Lacks("quarantined_since"),
    )
    return _one(
        f"note since when route {there.name} has uploads in quarantine", Write(route_key(there.name), change, as_read)
    )


def _to_announce(batch: Batch, receipt: Receipt, now: int) -> Write:
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


def note_announced(event: Announcement) -> Transition:
    """The record is deleted, so that what was sent costs no reading."""
    return _one(
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
    return _one(f"halt batch {batch_id}", Write(batch_key(batch_id), change, (either, Is("attempt", attempt))))


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


def resume(
    batch_id: str, route: str, attempt: int, *, fencing: bool, floors: int, now: int, wish: Wish | None = None
) -> Transition:
    """Begin `attempt` of a halted batch. A fence needs no halt: the table decides between it and a running job.

    It needs no free slot. A batch that stepped aside is in work again beside those that went past it, and their number
    may exceed `in_flight` until one of them ends. A batch that is in its slot stays there.

    A fence may come with a `wish`. Without one, an earlier wish stays.
    """
    begun = Update(
        sets={"attempt": attempt, "submitted_at": now, "fencing": fencing, "floors": floors, **_of_wish(wish)},
        removes=(*_OF_THE_LAST_ATTEMPT, *(("wish_skips",) if wish else ())),
    )
    back = Update(
        adds={"jobs": 1}, joins={"running": batch_id, **_listed_wish(batch_id, wish)}, leaves={"aside": batch_id}
    )
    halted = () if fencing else (Has("halted"),)
    requires = (Is("state", State.SUBMITTED.value), Is("attempt", attempt - 1), *halted)
    return Transition(
        f"begin attempt {attempt} of batch {batch_id} on request",
        (
            Write(batch_key(batch_id), begun, requires),
            Write(route_key(route), back),
        ),
    )


def give_up(batch_id: str, route: str, *, now: int, wish: Wish | None = None) -> Transition:
    """SEALED to SUBMITTED(1), to fence the batch instead of publishing it. Beside `begin_attempt`, one of the two is
    refused: attempt 1 is either a fence or not. `wish` as in `resume`.

    It needs no free slot. A person gives up what waits behind a halted batch, too, and that batch may have the
    slot."""
    begun = Update(
        sets={"state": State.SUBMITTED.value, "attempt": 1, "submitted_at": now, "fencing": True, **_of_wish(wish)},
        removes=_OF_THE_LAST_ATTEMPT,
    )
    taken = Update(
        adds={"jobs": 1}, joins={"running": batch_id, **_listed_wish(batch_id, wish)}, leaves={"sealed": batch_id}
    )
    return Transition(
        f"give up batch {batch_id}",
        (
            Write(batch_key(batch_id), begun, (Is("state", State.SEALED.value), Is("attempt", 0))),
            Write(route_key(route), taken),
        ),
    )


# ---- what becomes of the uploads of an abandoned batch


def _of_wish(wish: Wish | None) -> Item:
    return {"wish": wish.value, "wished_parts": 0} if wish else {}


def _listed_wish(batch_id: str, wish: Wish | None) -> Mapping[str, str]:
    return {"wished": batch_id} if wish else {}


def wish(batch: Batch, wish: Wish, *, skips: bool = False) -> Transition:
    """Record what a person wants done with the uploads of a batch that is abandoned, or is being fenced. A later wish
    replaces an earlier one, and begins with the first part. `skips` as in `Batch`."""
    still: tuple[Requirement, ...] = (
        (Is("state", State.ABANDONED.value),) if batch.state is State.ABANDONED else _under_way(batch.attempt)
    )
    change = (
        Update(sets={**_of_wish(wish), "wish_skips": 1})
        if skips
        else Update(sets=_of_wish(wish), removes=("wish_skips",))
    )
    return Transition(
        f"note what becomes of the uploads of batch {batch.id}",
        (
            Write(batch_key(batch.id), change, still),
            Write(route_key(batch.route), Update(joins=_listed_wish(batch.id, wish))),
        ),
    )


def _same_wish(wish: Wish, skips: bool) -> tuple[Requirement, ...]:
    return (Is("wish", wish.value), Has("wish_skips") if skips else Lacks("wish_skips"))


def note_wish(batch_id: str, wish: Wish, parts: int, *, skips: bool = False) -> Transition:
    change = Update(sets={"wished_parts": parts})
    return _one(
        f"note that the wish to {wish} batch {batch_id} is carried out for {parts} parts",
        Write(batch_key(batch_id), change, _same_wish(wish, skips)),
    )


def end_wish(batch_id: str, route: str, wish: Wish, *, skips: bool = False) -> Transition:
    """If another wish was noted meanwhile, this is refused, and the route still lists the batch."""
    return Transition(
        f"note that the wish to {wish} batch {batch_id} is carried out",
        (
            Write(batch_key(batch_id), Update(removes=("wish", "wished_parts", "wish_skips")), _same_wish(wish, skips)),
            Write(route_key(route), Update(leaves={"wished": batch_id})),
        ),
    )


def forget_wish(batch_id: str, route: str, *, there: bool) -> Transition:
    """The route lists a wish that its batch does not have: the batch's record was put right, or (`there` is false) has
    expired. Then nobody can note a wish for it."""
    none = Write(batch_key(batch_id), Update(removes=("wish",)), (Has("state"), Lacks("wish")))
    listed = Write(route_key(route), Update(leaves={"wished": batch_id}))
    return Transition(f"forget the wish for batch {batch_id}", (none, listed) if there else (listed,))


# ---- uploads that have landed, once more

_COMMITTED = Is("state", State.COMMITTED.value)


def note_removed(batch_id: str, *, in_line: bool) -> Transition:
    """A backfill did not find rows of the batch in its table, and the table proves that no driver of its attempts can
    bring them again. With `in_line` its publication is in the history of `main`: then no job that publishes it once
    more does either. Else this is refused beside `note_republish`, or that is, for good."""
    alone = () if in_line else (Lacks("republished"),)
    return _one(
        f"note that rows of batch {batch_id} were removed",
        Write(batch_key(batch_id), Update(sets={"rows_removed": 1}), (_COMMITTED, *alone)),
    )


def note_republish(batch_id: str) -> Transition:
    """A job is about to publish the batch once more."""
    return _one(
        f"note that batch {batch_id} is published again",
        Write(batch_key(batch_id), Update(sets={"republished": 1}), (_COMMITTED, Lacks("rows_removed"))),
    )


def drop(batch_id: str, route: str, owned: Sequence[OwnedUpload], *, leftover: bool, now: int) -> Transition:
    """Abandoned uploads have ended: a person has given them up. All of `owned`, or none; `MOST_DROPPED` at most.
    `leftover`: the batch is listed among what is left.

    Each claim must still be live, name the notice that the manifest names, and say "abandoned". So an upload is counted
    as dropped once, and never if a redrive was faster.
    """
    change = Update(sets={"outcome": DROPPED})
    claims = [
        Write(
            _claim_key(each.upload),
            change,
            (Is("notice", each.notice), Is("outcome", ABANDONED), MoreThan("expires_at", now)),
        )
        for each in owned
    ]
    count = Update(adds={"dropped": len(owned)})
    listed = Write(leftover_key(route, batch_id), count, (MoreThan("expires_at", now),))
    return Transition(
        f"drop {len(owned)} uploads of batch {batch_id}",
        (*claims, Write(route_key(route), count), *((listed,) if leftover else ())),
    )


def drop_quarantined(route: str, owned: Sequence[OwnedUpload], reason: str, *, now: int) -> Transition:
    """Uploads in quarantine are given up. All of `owned`, or none; `MOST_DROPPED` at most.

    Each leaves the sum of the quarantined ones, as if it came back, and is counted as an abandoned one that was
    dropped: so it is notified once, and has ended once. Each claim must still be live, name the notice, and be in
    quarantine."""
    error = reason.encode()[:MAX_ERROR_BYTES].decode(errors="ignore")
    change = Update(sets={"outcome": DROPPED, "error": error})
    claims = [
        Write(
            _claim_key(each.upload),
            change,
            (Is("notice", each.notice), Is("outcome", Outcome.QUARANTINED.value), MoreThan("expires_at", now)),
        )
        for each in owned
    ]
    count = len(owned)
    counted = {"back_quarantined": count, "notified": count, "abandoned_objects": count, "dropped": count}
    return Transition(
        f"drop {count} uploads of route {route} that are in quarantine",
        (*claims, Write(route_key(route), Update(adds=counted))),
    )


def _under_way(attempt: int) -> tuple[Requirement, ...]:
    return (Is("state", State.SUBMITTED.value), Is("attempt", attempt))


def note_snapshot(batch_id: str, before: int, snapshot: int) -> Transition:
    """A committed batch was published again, as another snapshot (`flows.publish_again`). Nothing else changes."""
    as_read = (Is("state", State.COMMITTED.value), Is("snapshot", before))
    return _one(
        f"note that batch {batch_id} is snapshot {snapshot}",
        Write(batch_key(batch_id), Update(sets={"snapshot": snapshot}), as_read),
    )


# ---- a route that waits


def pause(route: str, *, now: int) -> Transition:
    return _one(f"pause route {route}", Write(route_key(route), Update(sets={"paused": now}), (Lacks("paused"),)))


def unpause(route: str) -> Transition:
    change = Update(removes=("paused",))
    return _one(f"end the pause of route {route}", Write(route_key(route), change, (Has("paused"),)))


# ---- a ledger that is built anew (`flows.rebuild`)


def declare_whole(*, now: int) -> Transition:
    """Every function and every verb works from now on."""
    return _one("note that the ledger is whole", Write(WHOLE, Put({"v": VERSION, "since": now}), (NeverWritten(),)))


def take_back_whole() -> Transition:
    """Nothing works any more until the ledger is whole again."""
    return _one("note that the ledger is not whole", Write(WHOLE, Delete()))


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
    return _one(f"note notice {record.id} of batch {record.batch}", _vacant(notice_key(record.id), item, now))


def index_claim(notice_id: str, upload: Upload, ending: Ending | None, *, now: int, retention: int) -> Transition:
    item: Item = {**_indexed(notice_id, upload, ending), "v": VERSION, "claimed_at": now, "expires_at": now + retention}
    return _one(f"note the owner of {upload}", _vacant(_claim_key(upload), item, now))


def index_over(notice_id: str, upload: Upload, ending: Ending | None, *, owner: str, rows_in: str = "") -> Transition:
    """The claim names this notice in place of `owner`. It keeps which tables have rows of the upload, and gets one more
    (`rows_in`)."""
    sets = _indexed(notice_id, upload, ending)
    removes = tuple(each for each in ("sequencer", "outcome", "error", "was", "was_of", "later") if each not in sets)
    change = Update(sets=sets, removes=removes, joins={"rows_in": rows_in} if rows_in else {})
    return _one(f"note the owner of {upload}", Write(_claim_key(upload), change, (Is("notice", owner),)))


def index_rows(owner: str, upload: Upload, table: str) -> Transition:
    """One more table has rows of the upload, of a batch that does not own it any more."""
    change = Update(joins={"rows_in": table})
    return _one(f"note that {table} has rows of {upload}", Write(_claim_key(upload), change, (Is("notice", owner),)))


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
        **(_ended(receipt, now, retention) if receipt else {}),
    }
    return Transition(
        f"note how batch {batch.id} stands",
        (
            _vacant(batch_key(batch.id), item, now),
            Write(
                route_key(batch.route),
                _counted(batch, receipt, back, now) if receipt else Update(joins={"sealed": batch.id}),
            ),
            *(_left_outside(batch, receipt, now, retention) if receipt else ()),
            *((_to_announce(batch, receipt, now),) if receipt and announce and not receipt.fence else ()),
        ),
    )


def _indexed(notice_id: str, upload: Upload, ending: Ending | None) -> Item:
    error = ending.error.encode()[:MAX_ERROR_BYTES].decode(errors="ignore") if ending else ""
    return {
        "notice": notice_id,
        **({"sequencer": upload.sequencer} if upload.sequencer else {}),
        **({"outcome": str(ending.outcome), "error": error} if ending else {}),
    }


def _vacant(key: Key, item: Item, now: int) -> Write:
    return Write(key, Put(item), (Vacant(now),))


# ---- audits


def begin_watch(run: AuditRun, now: int) -> Transition:
    """The place is watched from now on: `run` is its first one, which has ended."""
    item: Item = {
        "v": VERSION,
        "bucket": run.place.bucket,
        "prefix": run.place.prefix,
        "suffix": run.place.suffix,
        "number": run.number,
        "watched_since": run.watched_since,
        **_begun(run),
        **_progress(run),
    }
    return _one(f"begin to watch {run.place}", Write(_watch(run), Put(item), (Vacant(now),)))


def end_watch(run: AuditRun, at: int, until: int) -> Transition:
    """No route takes the place any more since `at`. Nothing of it is looked at after `until`."""
    requires = (Is("watched_since", run.watched_since), Lacks("left_at"))
    change = Update(sets={"left_at": at, "expires_at": until})
    return _one(f"note that no route takes {run.place} any more", Write(_watch(run), change, requires))


def resume_watch(run: AuditRun, now: int) -> Transition:
    """A route takes the place again: it is watched as if it had not been left."""
    change = Update(removes=("left_at", "expires_at"))
    requires = (Is("left_at", run.left_at), MoreThan("expires_at", now))
    return _one(f"watch {run.place} on", Write(_watch(run), change, requires))


def begin_audit(run: AuditRun, last: AuditRun) -> Transition:
    """`run` has no page yet. It replaces `last`, which has ended. Whether the place was left meanwhile does not matter:
    the window ends before."""
    sets = {**_begun(run), **_progress(run)}
    gone = tuple(name for name in ("finished_at", "source", "job", "given_up") if name not in sets)
    requires = (Is("run", last.id), Has("finished_at"))
    return _one(f"begin audit {run.id} of {run.place}", Write(_watch(run), Update(sets=sets, removes=gone), requires))


def note_audit(run: AuditRun) -> Transition:
    """One more page is done: `run` is as it stands after that page."""
    change = Update(sets=_progress(run))
    requires = (Is("run", run.id), Is("page", run.page - 1), Lacks("finished_at"))
    return _one(f"note page {run.page} of audit {run.id}", Write(_watch(run), change, requires))


def note_screening(run: AuditRun) -> Transition:
    """The job was started: `run` names it."""
    requires = (Is("run", run.id), Is("page", 0), Lacks("finished_at"), Lacks("job"))
    change = Update(sets={"job": run.job})
    return _one(f"note job {run.job} of audit {run.id}", Write(_watch(run), change, requires))


def give_up_audit(run: AuditRun, at: int) -> Transition:
    """`run` is as it was read. The next run begins where it did."""
    change = Update(sets={"finished_at": at, "given_up": True, "until": run.since})
    job = Is("job", run.job) if run.job else Lacks("job")
    requires = (Is("run", run.id), Is("page", run.page), job, Lacks("finished_at"))
    return _one(f"give up audit {run.id}", Write(_watch(run), change, requires))


def _watch(run: AuditRun) -> Key:
    return audit_key(run.place, run.number)


def _begun(run: AuditRun) -> Item:
    return {
        "run": run.id,
        "started_at": run.started_at,
        "since": run.since,
        **({"source": run.source} if run.source else {}),
    }


def _progress(run: AuditRun) -> Item:
    return {
        "until": run.until,
        "page": run.page,
        "after_key": run.after.key,
        "after_version": run.after.version,
        "counts": run.counts.as_dict(),
        **({"finished_at": run.finished_at} if run.finished_at else {}),
    }


# ---- no decisions


def remember_route(route: Route) -> Transition:
    settings = encode_route(route)
    return _one(
        f"remember route {route.name}",
        Write(
            settings_key(route.name),
            Update(sets={"settings": settings, "v": VERSION}),
            (IsNot("settings", settings),),
        ),
    )


def note_shared_job(job: SharedJob) -> Transition:
    """It replaces the one before, whichever was started first: hand-off asks whether it is under way before it uses
    it."""
    item: Item = {
        "v": VERSION,
        "batch": job.batch,
        "attempt": job.attempt,
        "job_run": job.job_run,
        "code": job.code,
        "started_at": job.started_at,
        "expires_at": job.until,
    }
    return _one(f"note that job {job.job_run} takes batches along", Write(SHARED_JOB, Put(item)))


def count_refused(route: str, count: int) -> Transition:
    return _one(f"count duplicates of route {route}", Write(route_key(route), Update(adds={"refused": count})))


def _one(what: str, write: Write) -> Transition:
    return Transition(what, (write,))


def _claim_key(upload: Upload) -> Key:
    return claim_key(*upload.identity)

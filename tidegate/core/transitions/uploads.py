"""Decision 1, and how an upload ended: the transitions of claims."""

from collections.abc import Sequence

from tidegate.core.claims import Claim, LetGo
from tidegate.core.items import Is, IsNot, Item, Lacks, MoreThan, Put, Requirement, Transition, Update, Vacant, Write
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import ABANDONED, DROPPED, Outcome
from tidegate.core.receipts import Ending
from tidegate.core.records import VERSION, claim_key, leftover_key, route_key
from tidegate.core.transitions.common import cut_error, single, upload_key
from tidegate.core.uploads import Upload

MOST_DROPPED = 90
"""Uploads that one transition drops. DynamoDB takes 100 items in a transaction."""


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
        "claimed_at": now,
        "expires_at": now + retention,
    }
    return single(f"claim {upload}", Write(upload_key(upload), Put(item), requires))


def note_again(there: Claim, upload: Upload, *, now: int, retention: int) -> Transition:
    """The same bytes were uploaded again. The write that records that they did not land returns this too, so it must
    not come after that: the outcome is still the one that `there`, the claim as it was read, has. The claim's retention
    begins anew: the new notification may be delivered again as long as any other (docs/adr/0030)."""
    change = Update(sets={"later": upload.sequencer, "expires_at": now + retention})
    still = Is("outcome", there.outcome) if there.outcome else Lacks("outcome")
    return single(
        f"note that {upload} came again", Write(upload_key(upload), change, (Is("notice", there.notice), still))
    )


def record_ending(ending: Ending, *, now: int) -> Transition:
    """Write the ending into the claim, unless another notice has taken the claim over, or a person has dropped the
    upload: a slow twin of settling would make it abandoned again, and it is counted as dropped.

    A claim that has expired counts as absent, and gets no ending. If it did, whoever reads the answer would learn that
    the same bytes came again, as long as TTL has not deleted the claim, and not afterwards."""
    change = Update(sets={"outcome": str(ending.outcome), "error": cut_error(ending.error)})
    key = claim_key(ending.bucket, ending.key, ending.version)
    return single(
        f"record that s3://{ending.bucket}/{ending.key} was {ending.outcome}",
        Write(key, change, (Is("notice", ending.notice), IsNot("outcome", DROPPED), MoreThan("expires_at", now))),
    )


def drop(batch_id: str, route: str, owned: Sequence[OwnedUpload], *, leftover: bool, now: int) -> Transition:
    """Abandoned uploads have ended: a person has given them up. All of `owned`, or none; `MOST_DROPPED` at most.
    `leftover`: the batch is listed among what is left.

    Each claim must still be live, name the notice that the manifest names, and say "abandoned". So an upload is counted
    as dropped once, and never if a resend was faster.
    """
    change = Update(sets={"outcome": DROPPED})
    claims = [
        Write(
            upload_key(each.upload),
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
    change = Update(sets={"outcome": DROPPED, "error": cut_error(reason)})
    claims = [
        Write(
            upload_key(each.upload),
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

"""Wishes: what a person wants done with the uploads of a batch once it is abandoned (`core.batches.Wish`).

`abort` notes the wish with the batch, and lists the batch in its route's `wished`. Settling looks at what is listed.

    step                            if the process dies right after it     if a twin runs beside it
    1 read the batch                nothing has happened                   both go on
    2 not abandoned yet: wait;      nothing; or the next look finds        one transaction succeeds
      published: end the wish       nothing listed
    3 read the next part
    4 drop: portions of its         the next look reads which of them      a portion is dropped once: each claim must
      uploads, with the sums        are dropped, and goes on               still say "abandoned". The other reads anew
      resend: publish notices      the same notices are published         the same notices. Claims refuse repeats
                                    again, of what nobody took over
    5 note that the part is done    the next look begins with the next     it may be noted again, or go back by parts
                                                                           that are done. They are found done
    6 after the last part: end the  done                                   one transaction succeeds
      wish

- A resend has the run `wish-`, the batch's id, and when the wish was noted. So its notices are the same at each repeat,
  while the same uploads are left. A later wish makes others: a rebuilt ledger may know those of an earlier one, and
  name the batch as the owner again (`flows.rebuild`).
- Another wish may be noted meanwhile. Steps 5 and 6 require the wish that was read, so the next look begins with the
  other one. What was dropped is then sent again, because a person said so last. What was sent is not called back: a
  drop leaves alone what another notice has taken over, and what is on its way still takes over what was dropped.
- An upload whose claim has expired is neither dropped nor sent. The ledger cannot know whether it came back. It stays
  pending in the sums.
- The settings change in between: a resend's uploads are read as their route is then, as after any resend.
- A part is missing, and a person said to skip it (`Batch.skips`): step 4 is done for the others. Steps 5 and 6 require
  that this is still what the person wants. So a plain wish that follows begins with the first part, and waits for what
  is missing (`flows.missing`).
- An old answer: claims are read consistently, and a portion is written only if each claim is as it was read.
"""

from collections import Counter
from dataclasses import dataclass

from tidegate.core.batches import Batch, State, Wish
from tidegate.core.claims import Claim
from tidegate.core.errors import OutcomeUnknown
from tidegate.core.manifests import OwnedUpload, batch_folder, decode_part, decode_sealed
from tidegate.core.outcomes import DROPPED
from tidegate.core.receipts import given_up
from tidegate.flows.missing import known_parts
from tidegate.flows.ports import Ports
from tidegate.flows.resend import resend_part
from tidegate.flows.send import send
from tidegate.metrics import Metric

UPLOADS_PER_LOOK = 10_000
PART_COST = 20
"""One look must fit a function's timeout, and leave time for the other routes. To read a part takes as long as to drop
`PART_COST` uploads."""


def carry_out(batch_id: str, route: str, ports: Ports) -> bool:
    """Carry out the wish for a batch that its route lists, or a portion of it. True if nothing is left to do.

    Raises OutcomeUnknown if the manifest or a part is missing in the work bucket, and nobody said to skip it.
    """
    batch = ports.ledger.batch(batch_id)
    if batch is None or batch.wish is None:
        return ports.ledger.forget_wish(batch_id, route, there=batch is not None)
    if batch.state is State.COMMITTED:
        return ports.ledger.end_wish(batch_id, route, batch.wish, skips=batch.skips)
    if batch.state is not State.ABANDONED:
        return False
    names = known_parts(batch, ports) if batch.skips else decode_sealed(_read(batch, "sealed.json", ports)).parts
    budget = UPLOADS_PER_LOOK
    for done, name in enumerate(names[batch.wished_parts :], start=batch.wished_parts + 1):
        if budget <= 0:
            return False
        body = ports.work.get(batch_folder(batch_id) + name) if batch.skips else _read(batch, name, ports)
        owned = decode_part(body) if body else []
        _carry_out(batch, batch.wish, owned, ports)
        if not ports.ledger.note_wish(batch_id, batch.wish, done, skips=batch.skips):
            return False
        budget -= max(PART_COST, len(owned))
    return ports.ledger.end_wish(batch_id, route, batch.wish, skips=batch.skips)


@dataclass(frozen=True, slots=True)
class Droppable:
    """What a drop finds of a batch's uploads: those that it drops, once the batch is abandoned; those that are dropped
    already; those that another notice has taken over; and those whose claims have expired. Nobody knows whether these
    came back, so they stay pending."""

    here: int = 0
    dropped: int = 0
    elsewhere: int = 0
    forgotten: int = 0

    @property
    def uploads(self) -> int:
        return self.here + self.dropped + self.elsewhere + self.forgotten


def droppable(batch_id: str, ports: Ports) -> Droppable | None:
    """For a person who has asked for a drop, from the claims as they are now. Settling may be at it already. None if
    the manifest or a part is missing in the work bucket."""
    folder = batch_folder(batch_id)
    manifest = ports.work.get(folder + "sealed.json")
    if manifest is None:
        return None
    found: Counter[str] = Counter()
    for name in decode_sealed(manifest).parts:
        part = ports.work.get(folder + name)
        if part is None:
            return None
        owned = decode_part(part)
        claims = ports.ledger.claims_on(each.upload for each in owned)
        found.update(_how_it_stands(claims.get(each.upload.identity), each.notice) for each in owned)
    return Droppable(**found)


def _how_it_stands(claim: Claim | None, notice: str) -> str:
    if claim is None:
        return "forgotten"
    if claim.notice != notice:
        return "elsewhere"
    return "dropped" if claim.outcome == DROPPED else "here"


def _carry_out(batch: Batch, wish: Wish, owned: list[OwnedUpload], ports: Ports) -> None:
    match wish:
        case Wish.DROP:
            dropped = ports.ledger.drop(batch.id, batch.route, owned)
            if dropped < len(owned):
                # a part that was missing when the fence was settled was skipped: its claims do not say it yet
                again = ports.ledger.record_endings([given_up(each) for each in owned])
                send(batch.route, again, ports)
                dropped += ports.ledger.drop(batch.id, batch.route, owned)
            if dropped:
                ports.measure(Metric.UPLOADS_DROPPED, dropped, batch.route)
        case Wish.RESEND:
            resend_part(batch.route, owned, ports, run=f"wish-{batch.id}-{batch.wished_at}")


def _read(batch: Batch, name: str, ports: Ports) -> bytes:
    body = ports.work.get(batch_folder(batch.id) + name)
    if body is None:
        raise OutcomeUnknown(
            f"batch {batch.id}: {name} is missing in the work bucket, so its uploads cannot be"
            f" {'dropped' if batch.wish is Wish.DROP else 'resent'}. Restore it (docs/operations.md, `A file of the"
            f" work bucket is missing`), or go on without it: `tidegate abort {batch.id} --{batch.wish} --skip-missing`"
        )
    return body

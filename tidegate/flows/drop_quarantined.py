"""Give up what is in quarantine: because a person says so, or because a later version of the object has landed.

An upload that is given up ends as *dropped*, with the reason in its claim. It waits for nobody any more. A resend that
names the object still brings it back, as anything that was dropped.

    step                                 if it dies right after it       if a twin, or another way back, runs beside it
    1 list what is in quarantine         nothing has happened            both go on
    2 of each, has a later version       the same                        both find the same: a batch that is committed
      landed? (`corrected`)                                              stays so
    3 drop a portion, with the sums      the next run lists the rest     each claim must still be in quarantine, with
                                                                         the same notice: dropped once, and not if a
                                                                         release was faster

If what was read is old, step 3 is refused for that upload. If the settings change in between, nothing depends on them.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from zlib import crc32

from tidegate.core.batches import Batch
from tidegate.core.claims import Claim, in_table
from tidegate.core.manifests import OwnedUpload
from tidegate.core.notices import NoticeRecord
from tidegate.core.outcomes import Outcome
from tidegate.core.times import iso
from tidegate.core.transitions import MOST_DROPPED
from tidegate.core.uploads import Upload, is_later
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import Quarantined, some_quarantined
from tidegate.metrics import Metric

LOOKED_AT = 200
"""How many uploads that a route has quarantined are looked at in an hour, the next ones in the next hour. Each may cost
four reads, and a function settles many routes."""
HOUR = 60 * 60


def is_its_minute(route: str, now: int, every: int) -> bool:
    """Whether this look of settling, one in `every` seconds, is the one in an hour that looks for what was corrected.
    Routes look in different minutes, since one run settles them all."""
    return (now + crc32(route.encode())) % HOUR < every


def drop_quarantined(found: Iterable[Quarantined], reason: str, ports: Ports) -> int:
    """Give these up, for this reason. Returns how many this call has dropped."""
    dropped = 0
    coming = iter(found)
    while portion := list(islice(coming, MOST_DROPPED)):
        by_route: dict[str, list[OwnedUpload]] = {}
        for each in portion:
            owned = OwnedUpload(each.notice, Upload(each.bucket, each.key, each.version, 0))
            by_route.setdefault(each.route, []).append(owned)
        for route, these in by_route.items():
            done = ports.ledger.drop_quarantined(route, these, reason)
            if done:
                ports.measure(Metric.UPLOADS_DROPPED, done, route)
            dropped += done
    return dropped


def drop_corrected(route: str, ports: Ports) -> int:
    """Give up what a later version of the same object has taken the place of, among `LOOKED_AT` uploads: others in each
    hour. Returns how many were dropped."""
    dropped = 0
    some = some_quarantined(route, ports.clock() // HOUR * LOOKED_AT, LOOKED_AT, ports)
    for each, landed in corrected(some, ports):
        reason = f"version {landed.version}, claimed at {iso(landed.claimed_at)}, has landed"
        dropped += drop_quarantined([each], reason, ports)
    return dropped


def corrected(found: Iterable[Quarantined], ports: Ports) -> Iterator[tuple[Quarantined, Claim]]:
    """Those of which a later version has landed, each with that version's claim. A query for each of them."""
    for each in found:
        claims = ports.ledger.claims(each.bucket, each.key)
        mine = next((claim for claim in claims if claim.version == each.version), None)
        others = [claim for claim in claims if mine and _may_correct(claim, mine)]
        owners = ports.ledger.owners(others) if others else {}
        if mine and (landed := landed_later(mine, owners)):
            yield each, landed


def landed_later(mine: Claim, owners: Mapping[Claim, tuple[NoticeRecord | None, Batch | None]]) -> Claim | None:
    """A later version of the same object that has landed, among these with what owns them."""
    landed = (claim for claim, (_, batch) in owners.items() if _may_correct(claim, mine) and in_table(claim, batch))
    return next(landed, None)


def _may_correct(claim: Claim, other: Claim) -> bool:
    return claim.outcome in ("", Outcome.PRESENT) and _is_after(claim, other)


def _is_after(claim: Claim, other: Claim) -> bool:
    """By S3's order of the two puts. What a listing has found has no order, and may be the older one though it was
    claimed later."""
    return bool(claim.sequencer and other.sequencer) and is_later(claim.sequencer, other.sequencer)

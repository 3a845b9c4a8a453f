"""Since when the uploads of a route are in quarantine: the oldest of them, kept up to date on the route's record.

Settling looks only if the record may be behind (`core.quarantine.is_behind`): uploads came back since the last look, or
have been there for so long that their claims have expired. So an idle route costs no further read.

    step                                    if it dies right after it      if a twin runs beside it
    1 read the route's record               nothing has happened           both go on
    2 list the leftovers                    nothing has happened           both go on
    3 oldest first: is anything of it       it is asked again              both read the same, or what has left since
      still in quarantine?
    4 if not, note that the batch is empty  it is not asked again          both note the same, which is final
    5 note the time of the first that is    done; or the next look does    one of two that found different times is
      not empty                             it                             refused, and looks again in a minute

- The order is what makes it right. The record is read first. What comes back after that is counted on the record, and
  step 5 writes the count of step 1: so the record is behind again, and the next look finds it.
- A batch that ends after step 2 and quarantines something is not in the list. It adds to the route's sum, and step 5
  requires the sum of step 1 (`core.transitions.note_oldest`).
- So the time is never too late, but for an upload that is on its way: its claim has another notice, which is not
  registered yet. `tidegate files --state quarantined` does not list that one either.
- A look asks about `BATCHES_PER_LOOK` batches, and about not many more than `UPLOADS_PER_LOOK` uploads. What is left is
  asked about in the next look, and the time of the first batch that was not asked about counts until then.
- An old answer: every read is consistent, but for the work bucket. There the outcomes were written before the batch
  ended, and never change.
- If a batch's outcomes are missing in the work bucket, nobody can tell. It counts until its claims have expired.
- The settings change in between: the claims themselves are read, so a shorter `claims` empties no batch whose claims
  live on. Only where the outcomes are missing, the setting says whether the claims have expired.
"""

from tidegate.core.outcomes import Outcome
from tidegate.core.quarantine import has_expired, is_behind
from tidegate.core.records import Leftover
from tidegate.flows.ports import Ports
from tidegate.flows.quarantine import has_quarantined

BATCHES_PER_LOOK = 20
UPLOADS_PER_LOOK = 20_000
"""One look must fit a function's timeout, and leave time for the other routes."""


def look_for_oldest(route: str, ports: Ports) -> bool:
    """Bring the record of the route up to date, or closer to it. True if it is certain now."""
    record = ports.ledger.route(route)
    if not is_behind(record, now=ports.clock(), retention=ports.ledger.claim_retention):
        return True
    asked = uploads = 0
    for left in _by_age(route, ports):
        if asked == BATCHES_PER_LOOK or uploads >= UPLOADS_PER_LOOK:
            # not certain yet: `seen` stays as it is
            ports.ledger.note_oldest(record, left.ended_at, record.quarantine_seen)
            return False
        if not _is_empty(left, ports):
            return ports.ledger.note_oldest(record, left.ended_at, record.back.get(Outcome.QUARANTINED.value, 0))
        ports.ledger.note_emptied(left)
        asked, uploads = asked + 1, uploads + left.quarantined
    return ports.ledger.note_oldest(record, 0, record.back.get(Outcome.QUARANTINED.value, 0))


def _by_age(route: str, ports: Ports) -> list[Leftover]:
    """The batches of the route that may have something in quarantine, by the time at which they ended: a batch that
    halted may end long after a younger one."""
    left = (each for each in ports.ledger.leftovers(route) if each.quarantined and not each.emptied)
    return sorted(left, key=lambda each: (each.ended_at, each.batch))


def _is_empty(left: Leftover, ports: Ports) -> bool:
    there = has_quarantined(left.batch, ports)
    if there is None:
        return has_expired(left, now=ports.clock(), retention=ports.ledger.claim_retention)
    return not there

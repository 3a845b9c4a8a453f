"""What becomes of the uploads of a batch that was given up, or whose rows are gone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.core import transitions
from tidegate.core.batches import Batch, Wish
from tidegate.core.errors import Retryable
from tidegate.core.items import Transition
from tidegate.core.manifests import OwnedUpload
from tidegate.core.outcomes import ABANDONED, Outcome
from tidegate.core.records import leftover_key
from tidegate.flows.ledger.records import LedgerRecords

DROPS = 5
"""How often claims may change while their uploads are being dropped."""


@dataclass(frozen=True)
class Afterwards(LedgerRecords):
    def wish(self, batch: Batch, wish: Wish, *, skips: bool = False) -> bool:
        """Record what a person wants done with the uploads of a batch that is abandoned, or is being fenced. `skips` as
        in `Batch`. False if the batch has moved on meanwhile."""
        return self._applied(transitions.wish(batch, wish, skips=skips, now=self.clock()))

    def note_wish(self, batch_id: str, wish: Wish, parts: int, *, skips: bool = False) -> bool:
        """Record that the wish is carried out for `parts` of the batch's parts. False if there is another one now."""
        return self._applied(transitions.note_wish(batch_id, wish, parts, skips=skips))

    def end_wish(self, batch_id: str, route: str, wish: Wish, *, skips: bool = False) -> bool:
        """The wish is carried out. False if there is another one now, or if another process has recorded it."""
        return self._applied(transitions.end_wish(batch_id, route, wish, skips=skips))

    def forget_wish(self, batch_id: str, route: str, *, there: bool) -> bool:
        """The route lists a batch that has no wish, or (`there` is false) no record any more. False if it has one."""
        return self._applied(transitions.forget_wish(batch_id, route, there=there))

    def drop(self, batch_id: str, route: str, owned: Sequence[OwnedUpload]) -> int:
        """Drop those of the uploads whose claims say that they are abandoned, and that no other notice has taken over.
        Returns how many this call has dropped.

        Each claim is read, and then changed on the condition that it is as it was read, together with the route's sum.
        If it dies, or the answer is lost, the next call reads what is done.
        """
        listed = self._live(self.store.get(leftover_key(route, batch_id))) is not None
        return sum(
            self._drop(batch_id, route, owned[start : start + transitions.MOST_DROPPED], listed)
            for start in range(0, len(owned), transitions.MOST_DROPPED)
        )

    def _drop(self, batch_id: str, route: str, owned: Sequence[OwnedUpload], listed: bool) -> int:
        def drop(left: Sequence[OwnedUpload]) -> Transition:
            return transitions.drop(batch_id, route, left, leftover=listed, now=self.clock())

        return self._dropped(owned, ABANDONED, drop, f"batch {batch_id}")

    def drop_quarantined(self, route: str, owned: Sequence[OwnedUpload], reason: str) -> int:
        """Drop those of the uploads, `transitions.MOST_DROPPED` at most, that are still in quarantine. Returns how many
        this call has dropped. If it dies, or the answer is lost, the next call reads what is done."""

        def drop(left: Sequence[OwnedUpload]) -> Transition:
            return transitions.drop_quarantined(route, left, reason, now=self.clock())

        return self._dropped(owned, Outcome.QUARANTINED.value, drop, f"route {route}")

    def _dropped(
        self, owned: Sequence[OwnedUpload], were: str, drop: Callable[[Sequence[OwnedUpload]], Transition], whose: str
    ) -> int:
        for _ in range(DROPS):
            claims = self.claims_on(each.upload for each in owned)
            left = [
                each
                for each in owned
                if (claim := claims.get(each.upload.identity)) and (claim.notice, claim.outcome) == (each.notice, were)
            ]
            if not left:
                return 0
            if self._applied(drop(left)):
                return len(left)
        raise Retryable(
            f"{whose}: the claims on its uploads changed {DROPS} times while they were dropped; it will be tried again"
        )

    def note_removed(self, batch_id: str, *, sent: bool = False) -> bool:
        """The batch can never bring its rows again; with `sent` all that it landed was sent again. False if it is not
        committed."""
        return self._applied(transitions.note_removed(batch_id, sent=sent))

"""A store that answers only while its ledger is whole.

The ledger is an index of the work bucket and of the tables. One record in it says that the index is whole
(`core.records.WHOLE`). A table that was made anew lacks that record: then what it does not know may have landed long
ago, and every answer that it gives could double rows. So nothing is read or written until the ledger is rebuilt.

The record is looked for once, before the first call: one consistent read for each invocation of a function. A new
deployment has no record either, and nothing to forget: no batch is in its work bucket. There the first write is the
record.

    if the process dies              nothing has happened, or the record is there: nobody writes before it
    if a twin writes the first batch between the two looks, its record is there before that batch: the record is looked
                                     for again after a batch was found
    if a rebuild begins between them its record is in the way of that first write, which is refused
    if the table is replaced while a function runs, that invocation goes on with what it has seen: nobody makes a new
                                     table before the longest invocation is over (docs/operations.md)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate.core.errors import Retryable
from tidegate.core.items import Applied, Item, Key, Refused, Transition
from tidegate.core.records import WHOLE
from tidegate.core.transitions import open_ledger
from tidegate.core.transitions.index import is_whole
from tidegate.flows.store import Clock, Store

NOT_WHOLE = (
    "the ledger is not whole: its table was made anew, and the work bucket has batches that it does not know. Nothing"
    " was done. `tidegate ledger rebuild` builds it from the work bucket and the tables"
)


@dataclass
class GuardedStore:
    """`flows.store.Store`. `is_new` says whether the deployment has no batch yet."""

    beneath: Store
    clock: Clock
    is_new: Callable[[], bool]
    _whole: bool = field(default=False, repr=False)
    _new: bool = field(default=False, repr=False)

    def get(self, key: Key) -> Item | None:
        self._look()
        return self.beneath.get(key)

    def get_many(self, keys: Sequence[Key], what: str) -> Mapping[Key, Item]:
        self._look()
        return self.beneath.get_many(keys, what)

    def query(self, pk: str, what: str, most: int = 0) -> Sequence[Item]:
        self._look()
        return self.beneath.query(pk, what, most)

    def apply(self, transition: Transition) -> Applied | Refused:
        self._begin()
        return self.beneath.apply(transition)

    def apply_each(self, transitions: Sequence[Transition]) -> Sequence[Applied | Refused]:
        self._begin()
        return self.beneath.apply_each(transitions)

    def _look(self) -> None:
        """Raises Retryable if the ledger is not whole."""
        if self._whole or self._new:
            return
        there = self.beneath.get(WHOLE)
        if there is None and self.is_new():
            self._new = True
            return
        self._whole = is_whole(there or self.beneath.get(WHOLE))
        if not self._whole:
            raise Retryable(NOT_WHOLE)

    def _begin(self) -> None:
        self._look()
        if not self._whole:
            done = self.beneath.apply(open_ledger(now=self.clock()))
            if isinstance(done, Refused) and not is_whole(done.there[0]):
                raise Retryable(NOT_WHOLE)
            self._whole = True

"""The ledger's dependencies: a store, a clock, and new ids."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tidegate.core.items import Applied, Item, Key, Refused, Transition

Clock = Callable[[], int]
"""Now, in epoch seconds."""

NewId = Callable[[], str]
"""A new batch id: random, unique, sortable by time (a ULID)."""


class Store(Protocol):
    """The database of the ledger's items. It reads consistently and changes items atomically.

    It states no rule: `core.items` defines what a transition means, `core.transitions` lists the transitions. Every
    method may raise Retryable (nothing happened) or OutcomeUnknown (it may have happened). If a transition is applied
    twice because an answer was lost, the second time may be refused over what the first time wrote.
    """

    def get(self, key: Key) -> Item | None:
        """The item, even if it has expired."""
        ...

    def get_many(self, keys: Sequence[Key], what: str) -> Mapping[Key, Item]:
        """The items that exist under these keys. The keys differ. `what` names the items in errors."""
        ...

    def query(self, pk: str, what: str, most: int = 0) -> Sequence[Item]:
        """The items of a partition, in the order of their `sk`: the first `most`, or every one if that is 0."""
        ...

    def apply(self, transition: Transition) -> Applied | Refused:
        """Apply all writes of the transition if every item meets its requirements; else none, and return the items that
        do not."""
        ...

    def apply_each(self, transitions: Sequence[Transition]) -> Sequence[Applied | Refused]:
        """Apply independent transitions, each of one write, as `apply` one by one. All of them are tried before the
        first error is raised."""
        ...

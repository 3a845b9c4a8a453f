"""Items in this process's memory: for tests, for the model, and for a rehearsal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from tidegate.core.items import Applied, Item, Key, Refused, Transition, judged
from tidegate.flows.store import Store


@dataclass
class MemoryStore:
    """`flows.store.Store` on a dictionary."""

    items: dict[Key, Item] = field(default_factory=dict)
    _turn: Lock = field(default_factory=Lock, repr=False, compare=False)

    def get(self, key: Key) -> Item | None:
        return self.items.get(key)

    def get_many(self, keys: Sequence[Key], what: str) -> Mapping[Key, Item]:
        return {key: self.items[key] for key in keys if key in self.items}

    def query(self, pk: str, what: str, most: int = 0) -> Sequence[Item]:
        return [self.items[key] for key in sorted(self.items) if key.pk == pk][: most or None]

    def apply(self, transition: Transition) -> Applied | Refused:
        with self._turn:
            after = judged(transition, self.items)
            if isinstance(after, Refused):
                return after
            for key, item in after.items():
                if item is None:
                    self.items.pop(key, None)
                else:
                    self.items[key] = item
        return applied(after)

    def apply_each(self, transitions: Sequence[Transition]) -> Sequence[Applied | Refused]:
        return [self.apply(each) for each in transitions]


@dataclass
class Rehearsal:
    """A store that keeps every write in memory. It reads as the store `beneath` would after these writes, as long as no
    other process writes there."""

    beneath: Store
    kept: MemoryStore = field(default_factory=MemoryStore)
    gone: set[Key] = field(default_factory=set)
    """What was deleted here, and is still there beneath."""

    def get(self, key: Key) -> Item | None:
        return self.get_many([key], key.pk).get(key)

    def get_many(self, keys: Sequence[Key], what: str) -> Mapping[Key, Item]:
        kept = self.kept.get_many(keys, what)
        missing = [key for key in keys if key not in kept and key not in self.gone]
        return {**(self.beneath.get_many(missing, what) if missing else {}), **kept}

    def query(self, pk: str, what: str, most: int = 0) -> Sequence[Item]:
        found = {Key(pk, str(item["sk"])): item for item in self.beneath.query(pk, what)}
        there = {key: item for key, item in found.items() if key not in self.gone}
        there |= {Key(pk, str(item["sk"])): item for item in self.kept.query(pk, what)}
        return [there[key] for key in sorted(there)][: most or None]

    def apply(self, transition: Transition) -> Applied | Refused:
        return self.apply_each([transition])[0]

    def apply_each(self, transitions: Sequence[Transition]) -> Sequence[Applied | Refused]:
        keys = {write.key for transition in transitions for write in transition.writes}
        there = self.get_many(sorted(keys), "what would change")
        self.kept.items.update(there)
        done = self.kept.apply_each(transitions)
        for key in keys:  # what was read may have been deleted, and what was deleted may be there again
            if key in self.kept.items:
                self.gone.discard(key)
            elif key in there:
                self.gone.add(key)
        return done


def applied(after: Mapping[Key, Item | None]) -> Applied:
    """The result of `apply` if the items are then `after`."""
    return Applied(next(iter(after.values())) if len(after) == 1 else None)

"""A dict whose keys also stand on shelves, so that the few of one kind are found among very many others."""

from collections import UserDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shelved(UserDict[K, V]):
    """`shelf` says where a key stands, for good. `shelves` hold their keys in the order in which they came."""

    def __init__(self, shelf: Callable[[K], str]) -> None:
        super().__init__()
        self._shelf = shelf
        self.shelves: dict[str, dict[K, None]] = {}

    def __setitem__(self, key: K, value: V) -> None:
        self.data[key] = value
        self.shelves.setdefault(self._shelf(key), {})[key] = None

    def __delitem__(self, key: K) -> None:
        del self.data[key]
        shelf = self._shelf(key)
        del self.shelves[shelf][key]
        if not self.shelves[shelf]:
            del self.shelves[shelf]

    def on(self, shelf: str) -> list[tuple[K, V]]:
        """What stands on one shelf."""
        return [(key, self.data[key]) for key in self.shelves.get(shelf, ())]

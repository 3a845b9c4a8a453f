"""A dict that also groups its keys by kind, so that the few keys of one kind are found quickly."""

from collections import UserDict
from collections.abc import Callable, Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shelved(UserDict[K, V]):
    """`shelf` returns the group of a key, always the same. `shelves` have their keys in the order of insertion."""

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
        """The items of one shelf."""
        return [(key, self.data[key]) for key in self.shelves.get(shelf, ())]

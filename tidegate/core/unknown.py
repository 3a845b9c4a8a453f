"""The names in files that the schema of their route lacks: what is kept of them.

Their values are not in the table, so whoever looks at a batch has to learn their names. Nothing is decided by them, and
what is kept is bounded: a file may have any names.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from tidegate.core.quantities import counted

MORE = "..."
"""It stands after the names of something that has more of them."""
MOST_OF_A_FILE = 50
MOST_OF_A_TASK, MOST_SEEN = 1_000, 50_000
MOST_OF_OUTCOMES = 50
MOST_OF_A_RECEIPT, CHARACTERS_OF_A_RECEIPT = 10, 300
"""A receipt's names are in the ledger, too, in the records of the batch and of the route, which are paid for by their
size."""


def few(names: Iterable[str]) -> tuple[str, ...]:
    """The names of one file: at most `MOST_OF_A_FILE`, each once, and `MORE` if it has others."""
    all_of = dict.fromkeys(names)
    found = [name for name in all_of if name != MORE]
    more = MORE in all_of or len(found) > MOST_OF_A_FILE
    return (*found[:MOST_OF_A_FILE], *([MORE] if more else []))


class NamesOfTask:
    """What a task tells of its files: their names, as long as they are `MOST_OF_A_TASK` different ones together. The
    driver holds the names of all files of a batch, and each may have names of its own. A further name is `MORE` in the
    first file that has it, and told of the others, as long as there are as many of these: what many files have is
    never hidden by what one has."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._once: set[str] = set()

    def of(self, names: Iterable[str]) -> tuple[str, ...]:
        return few([self._of_one(name) for name in names])

    def _of_one(self, name: str) -> str:
        most = MOST_OF_A_TASK * (2 if name in self._once else 1)
        if name in self._told or len(self._told) < most:
            return self._told.setdefault(name, name)
        if len(self._once) < MOST_SEEN:
            self._once.add(name)
        return MORE


@dataclass(frozen=True, slots=True)
class UnknownNames:
    """What the files of a batch have that the schema lacks. `uploads`: how many of the committed uploads have some.
    `names`: for each name how many have it, the most frequent first. `examples`: the address of the first upload with
    it, where that is kept. `MORE` is among the names if there are others; its number is at most theirs."""

    uploads: int = 0
    names: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, str] = field(default_factory=dict)

    def brief(self) -> "UnknownNames":
        """As a receipt has them."""
        return UnknownNames(self.uploads, _most(self.names, MOST_OF_A_RECEIPT, CHARACTERS_OF_A_RECEIPT))

    def as_header(self) -> dict[str, Any]:
        """As files of outcomes have them; empty if there are none."""
        found = {name: [count, self.examples.get(name, "")] for name, count in self.names.items()}
        return {"unknown": found, "unknown_uploads": self.uploads} if found else {}

    def as_counts(self) -> dict[str, Any]:
        """As a receipt has them; empty if there are none."""
        return {"unknown": dict(self.names), "unknown_uploads": self.uploads} if self.names else {}


NO_NAMES = UnknownNames()


def gathered(files: Iterable[tuple[str, Iterable[str]]]) -> UnknownNames:
    """Of the committed uploads of a batch: the address of each, and its names."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    uploads = 0
    for uri, names in files:
        uploads += bool(names)
        for name in names:
            counts[name] += 1
            examples.setdefault(name, uri)
    kept = _most(counts, MOST_OF_OUTCOMES)
    return UnknownNames(uploads, kept, {name: examples[name] for name in kept if name in examples})


def from_header(told: Mapping[str, Any]) -> UnknownNames:
    """Of a file of outcomes, or of a receipt, by any version."""
    given: Mapping[str, Any] = told.get("unknown", {})
    pairs = {name: each if isinstance(each, list) else [each, ""] for name, each in given.items()}
    return UnknownNames(
        told.get("unknown_uploads", 0),
        {name: count for name, (count, _) in pairs.items()},
        {name: uri for name, (_, uri) in pairs.items() if uri},
    )


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The names with their numbers, the most frequent first, and `MORE` last: a map of the ledger has no order."""
    return sorted(counts.items(), key=lambda each: (each[0] == MORE, -each[1], each[0]))


def told(counts: Mapping[str, int]) -> str:
    """The names for people: `coupon (412 uploads), customer.vip (1 upload) and more`."""
    found = [f"{name} ({counted(count, 'upload')})" for name, count in ranked(counts) if name != MORE]
    return f"{', '.join(found)}{' and more' if MORE in counts else ''}"


def _most(counts: Mapping[str, int], most: int, characters: int | None = None) -> dict[str, int]:
    """The most frequent names, which have so many characters together, and `MORE` if there are others."""
    names = [name for name, _ in ranked(counts) if name != MORE]
    sizes = list(accumulate(map(len, names)))
    fit = most if characters is None else min(most, sum(size <= characters for size in sizes))
    left = [counts[name] for name in (*names[fit:], MORE) if name in counts]
    return {**{name: counts[name] for name in names[:fit]}, **({MORE: max(left)} if left else {})}

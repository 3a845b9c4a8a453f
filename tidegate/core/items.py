"""Items, the requirements on them, and their changes. Transitions are written in these terms.

A store holds items under keys. It applies a transition whole or not at all, and only if every item meets the
transition's requirements. `satisfied` and `changed` define each requirement and each change. A store on a database
compiles them into that database's own conditions; `tests/contract/` holds it to the definitions here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

Value: TypeAlias = str | int | bool | frozenset[str] | Mapping[str, int]
Item: TypeAlias = Mapping[str, Value]
"""Attributes by name, `pk` and `sk` among them. A set is never empty: without members the attribute is absent."""


class Key(NamedTuple):
    """The key of an item: its partition, and its sort key in that partition."""

    pk: str
    sk: str


# ---- requirements


@dataclass(frozen=True, slots=True)
class Vacant:
    """There is no item, or it expired by `now` (epoch seconds): an expired item counts as absent (rule 5)."""

    now: int


@dataclass(frozen=True, slots=True)
class NeverWritten:
    """There is no item, not even an expired one."""


@dataclass(frozen=True, slots=True)
class Has:
    name: str


@dataclass(frozen=True, slots=True)
class Lacks:
    name: str


@dataclass(frozen=True, slots=True)
class Is:
    """The attribute has this value, or one of these `others`."""

    name: str
    value: str | int
    others: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class IsNot:
    """The attribute has another value, or is absent."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class LacksOrIs:
    """The attribute is absent, or has this value already."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class MoreThan:
    """The attribute is a larger number."""

    name: str
    number: int


@dataclass(frozen=True, slots=True)
class FewerThan:
    """The attribute is a set of fewer members (at least 1). An absent attribute has none."""

    name: str
    members: int


@dataclass(frozen=True, slots=True)
class Holds:
    """The attribute is a set, and this is a member of it."""

    name: str
    member: str


Requirement: TypeAlias = Vacant | NeverWritten | Has | Lacks | Is | IsNot | LacksOrIs | MoreThan | FewerThan | Holds


def satisfied(requirement: Requirement, item: Item | None) -> bool:
    """Whether the item meets the requirement. None stands for no item."""
    there: Item = item or {}
    match requirement:
        case Vacant(now):
            expires_at = there.get("expires_at")
            return item is None or (isinstance(expires_at, int) and expires_at <= now)
        case NeverWritten():
            return item is None
        case Has(name):
            return name in there
        case Lacks(name):
            return name not in there
        case Is(name, value, others):
            return there.get(name) in (value, *others)
        case IsNot(name, value):
            return there.get(name) != value
        case LacksOrIs(name, value):
            return name not in there or there[name] == value
        case MoreThan(name, number):
            found = there.get(name)
            return isinstance(found, int) and found > number
        case FewerThan(name, members):
            return len(_members(there, name)) < members
        case Holds(name, member):
            return member in _members(there, name)


# ---- changes


@dataclass(frozen=True, slots=True)
class Put:
    """Replace the whole item."""

    attributes: Item


@dataclass(frozen=True, slots=True)
class Update:
    """Change attributes of the item, which is created if it is absent.

    `sets` sets values, `sets_once` only absent ones. `adds` adds to a number, from 0. `joins` adds a member to a set,
    `leaves` removes one.
    """

    sets: Item = field(default_factory=dict)
    sets_once: Item = field(default_factory=dict)
    removes: tuple[str, ...] = ()
    adds: Mapping[str, int] = field(default_factory=dict)
    joins: Mapping[str, str] = field(default_factory=dict)
    leaves: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [*self.sets, *self.sets_once, *self.removes, *self.adds, *self.joins, *self.leaves]
        assert names, "an update changes something"
        assert len(names) == len(set(names)), f"an update changes an attribute once: {names}"


@dataclass(frozen=True, slots=True)
class Delete:
    """The item is gone. To delete what is not there changes nothing."""


ItemChange: TypeAlias = Put | Update | Delete


def changed(key: Key, change: ItemChange, item: Item | None) -> Item | None:
    """The item after the change; None if there is none."""
    if isinstance(change, Delete):
        return None
    after: dict[str, Value] = {"pk": key.pk, "sk": key.sk}
    if isinstance(change, Put):
        return {**after, **change.attributes}
    after |= item or {}
    after |= change.sets
    after |= {name: value for name, value in change.sets_once.items() if name not in (item or {})}
    for name in change.removes:
        after.pop(name, None)
    for name, number in change.adds.items():
        before = after.get(name, 0)
        assert isinstance(before, int), f"{name} of {key.pk} is no number"
        after[name] = before + number
    for name, member in change.joins.items():
        after[name] = _members(after, name) | {member}
    for name, member in change.leaves.items():
        left = _members(after, name) - {member}
        after.pop(name, None)
        if left:
            after[name] = left
    return after


def _members(item: Item, name: str) -> frozenset[str]:
    found = item.get(name, frozenset())
    return found if isinstance(found, frozenset) else frozenset()


# ---- transitions


@dataclass(frozen=True, slots=True)
class Write:
    """A change of one item, if it meets all of `requires`."""

    key: Key
    change: ItemChange
    requires: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Transition:
    """Writes to different items, applied together or not at all. `what` finishes the sentence "could not ..."."""

    what: str
    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """It happened. `item` is the item after a transition of one write; None if it was deleted, or if several items
    changed."""

    item: Item | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing happened. `there` has for each write the item that did not meet its requirements. It is None if the write
    would have been possible, or if there was no item."""

    there: tuple[Item | None, ...]


def judged(transition: Transition, items: Mapping[Key, Item]) -> Mapping[Key, Item | None] | Refused:
    """The result of a transition on these items: the items after it (None for one that is deleted), or the refusal.

    Stores that hold items in memory, or one at a time, need no more than this.
    """
    there = [items.get(write.key) for write in transition.writes]
    met = [
        all(satisfied(requirement, item) for requirement in write.requires)
        for write, item in zip(transition.writes, there, strict=True)
    ]
    if not all(met):
        return Refused(tuple(None if fine else item for fine, item in zip(met, there, strict=True)))
    return {
        write.key: changed(write.key, write.change, item) for write, item in zip(transition.writes, there, strict=True)
    }

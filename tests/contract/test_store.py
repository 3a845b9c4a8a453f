"""What every `flows.store.Store` must do, asked through the port and nothing else.

The words of `core.items` mean what `satisfied` and `changed` say; a store on a database compiles them into conditions
of its own. So each word is tested here by an example, and all of them together by sequences that are drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.ledgers import racing
from tidegate.core.items import (
    Applied,
    Delete,
    FewerThan,
    Has,
    Holds,
    Is,
    IsNot,
    Item,
    Key,
    Lacks,
    LacksOrIs,
    MoreThan,
    NeverWritten,
    Put,
    Refused,
    Requirement,
    Transition,
    Update,
    Vacant,
    Write,
)
from tidegate.flows.store import Store
from tidegate.stores.memory import MemoryStore

NOW = 1_000
HERE = Key("p#1", "one")
THERE = Key("p#1", "two")


def put(key: Key, *requires: Requirement, **attributes: Any) -> Transition:
    return Transition(f"put {key}", (Write(key, Put(attributes), requires),))


def update(key: Key, change: Update, *requires: Requirement) -> Transition:
    return Transition(f"update {key}", (Write(key, change, requires),))


def delete(key: Key, *requires: Requirement) -> Transition:
    return Transition(f"delete {key}", (Write(key, Delete(), requires),))


def item(key: Key, **attributes: Any) -> Item:
    return {**key._asdict(), **attributes}


# ---- reading


def test_what_was_never_written_is_not_there(store: Store):
    assert store.get(HERE) is None
    assert store.get_many([HERE, THERE], "things") == {}
    assert store.query(HERE.pk, "things") == []


def test_every_kind_of_value_comes_back_as_it_was(store: Store):
    values = {
        "text": "é😀",
        "empty": "",
        "number": -(10**15),
        "yes": True,
        "no": False,
        "members": frozenset({"a", "b"}),
        "sums": {"rows": 3, "none": 0},
    }
    store.apply(put(HERE, **values))
    found = store.get(HERE)
    assert found == item(HERE, **values)
    assert {name: type(value) for name, value in found.items() if name in values} == {
        name: type(value) for name, value in values.items()
    }
    assert store.get_many([HERE, THERE], "things") == {HERE: found}


def test_a_partition_is_read_whole_and_in_order(store: Store):
    keys = [Key("p#1", f"{number:03}") for number in range(120)]
    store.apply_each([put(key, number=number) for number, key in enumerate(reversed(keys))])
    store.apply(put(Key("p#10", "other")))
    assert [found["sk"] for found in store.query("p#1", "things")] == [key.sk for key in keys]
    assert len(store.get_many(keys, "things")) == 120
    assert [found["sk"] for found in store.query("p#1", "things", 7)] == [key.sk for key in keys[:7]]
    assert len(store.query("p#1", "things", 500)) == 120


# ---- requirements

THERE_IS: Item = {
    "expires_at": NOW,
    "text": "a",
    "number": 3,
    "members": frozenset({"a", "b"}),
}
REQUIREMENTS: list[tuple[Requirement, bool, bool]] = [
    # the requirement; whether it holds for the item above; whether it holds for no item
    (Vacant(NOW), True, True),
    (Vacant(NOW - 1), False, True),
    (NeverWritten(), False, True),
    (Has("text"), True, False),
    (Has("nothing"), False, False),
    (Lacks("text"), False, True),
    (Lacks("nothing"), True, True),
    (Is("text", "a"), True, False),
    (Is("text", "b"), False, False),
    (Is("text", "b", ("c", "a")), True, False),
    (Is("number", 3), True, False),
    (Is("number", 4), False, False),
    (Is("nothing", "a"), False, False),
    (IsNot("text", "a"), False, True),
    (IsNot("text", "b"), True, True),
    (IsNot("nothing", "a"), True, True),
    (LacksOrIs("text", "a"), True, True),
    (LacksOrIs("text", "b"), False, True),
    (LacksOrIs("nothing", "a"), True, True),
    (MoreThan("number", 2), True, False),
    (MoreThan("number", 3), False, False),
    (MoreThan("nothing", -1), False, False),
    (FewerThan("members", 3), True, True),
    (FewerThan("members", 2), False, True),
    (FewerThan("nothing", 1), True, True),
    (Holds("members", "a"), True, False),
    (Holds("members", "c"), False, False),
    (Holds("nothing", "a"), False, False),
]


@pytest.mark.parametrize(("requirement", "of_it", "of_none"), REQUIREMENTS, ids=[str(each[0]) for each in REQUIREMENTS])
def test_what_each_requirement_means(store: Store, requirement: Requirement, of_it: bool, of_none: bool):
    store.apply(put(HERE, **THERE_IS))
    for key, holds in ((HERE, of_it), (THERE, of_none)):
        before = store.get(key)
        done = store.apply(put(key, requirement, is_new=True))
        if holds:
            assert done == Applied(item(key, is_new=True))
            assert store.get(key) == item(key, is_new=True)
        else:
            assert done == Refused((before,))
            assert store.get(key) == before


def test_all_requirements_must_hold(store: Store):
    store.apply(put(HERE, text="a", number=3))
    both = (Is("text", "a"), IsNot("text", "b"), MoreThan("number", 2))
    assert isinstance(store.apply(update(HERE, Update(sets={"n": 1}), *both)), Applied)
    # each of these has an "or" in it, and must not let the others through
    assert isinstance(store.apply(update(HERE, Update(sets={"n": 2}), Lacks("text"), Vacant(NOW))), Refused)
    assert isinstance(store.apply(update(HERE, Update(sets={"n": 2}), LacksOrIs("other", "x"), Has("none"))), Refused)
    assert store.get(HERE) == item(HERE, text="a", number=3, n=1)


# ---- changes

CHANGES: list[tuple[Update, dict[str, Any]]] = [
    (Update(sets={"text": "b", "more": 1}), {"text": "b", "more": 1}),
    (Update(sets={"text": "", "sums": {"rows": 1}}), {"text": "", "sums": {"rows": 1}}),
    (Update(sets_once={"text": "b", "more": "c"}), {"more": "c"}),
    (Update(removes=("text", "nothing")), {"text": None}),
    (Update(adds={"number": 2, "more": -1}), {"number": 5, "more": -1}),
    (Update(joins={"members": "c", "more": "x"}), {"members": frozenset("abc"), "more": frozenset("x")}),
    (Update(joins={"members": "a"}), {}),
    (Update(leaves={"members": "a"}), {"members": frozenset("b")}),
    (Update(leaves={"members": "c", "nothing": "x"}), {}),
    (Update(leaves={"alone": "x"}), {"alone": None}),
]


@pytest.mark.parametrize(("change", "becomes"), CHANGES, ids=[str(change) for change, _ in CHANGES])
def test_what_each_change_means(store: Store, change: Update, becomes: dict[str, Any]):
    there = {**THERE_IS, "alone": frozenset("x")}
    store.apply(put(HERE, **there))
    after = item(HERE, **{name: value for name, value in {**there, **becomes}.items() if value is not None})
    assert store.apply(update(HERE, change)) == Applied(after)
    assert store.get(HERE) == after


def test_an_update_makes_the_item_that_is_not_there(store: Store):
    assert store.apply(update(HERE, Update(adds={"n": 2}, joins={"s": "a"}))) == Applied(
        item(HERE, n=2, s=frozenset("a"))
    )


def test_a_put_leaves_nothing_of_what_was_there(store: Store):
    store.apply(put(HERE, old=1))
    store.apply(put(HERE, new=1))
    assert store.get(HERE) == item(HERE, new=1)


def test_what_is_deleted_is_gone(store: Store):
    store.apply_each([put(HERE, n=1), put(THERE, n=2)])
    assert store.apply(delete(HERE, Is("n", 2))) == Refused((item(HERE, n=1),))
    assert store.apply(delete(HERE, Is("n", 1))) == Applied()
    assert store.get(HERE) is None
    assert store.get_many([HERE, THERE], "things") == {THERE: item(THERE, n=2)}
    assert list(store.query(HERE.pk, "things", 1)) == [item(THERE, n=2)]
    assert store.apply(delete(HERE, Is("n", 1))) == Refused((None,))
    assert store.apply(delete(HERE)) == Applied()
    assert isinstance(store.apply(put(HERE, NeverWritten(), n=3)), Applied)
    assert store.get(HERE) == item(HERE, n=3)


# ---- several writes


def test_writes_happen_together_or_not_at_all(store: Store):
    both = Transition("do both", (*put(HERE, NeverWritten(), n=1).writes, *put(THERE, NeverWritten(), n=1).writes))
    assert store.apply(both) == Applied()
    assert store.get_many([HERE, THERE], "things") == {key: item(key, n=1) for key in (HERE, THERE)}


def test_a_refusal_names_what_stood_in_the_way_write_by_write(store: Store):
    store.apply(put(THERE, n=1))
    writes = (*put(HERE, n=2).writes, *put(THERE, NeverWritten(), n=2).writes)
    assert store.apply(Transition("do both", writes)) == Refused((None, item(THERE, n=1)))
    assert store.get(HERE) is None
    # nothing there is not as required either, and then there is nothing to name
    missing = (*put(HERE, Has("n")).writes, *update(THERE, Update(adds={"n": 1})).writes)
    assert store.apply(Transition("do both", missing)) == Refused((None, None))
    assert store.get(THERE) == item(THERE, n=1)


def test_independent_transitions_are_answered_one_by_one_and_in_order(store: Store):
    store.apply(put(HERE, n=1))
    done = store.apply_each([put(HERE, NeverWritten()), put(THERE, NeverWritten(), n=2)])
    assert list(done) == [Refused((item(HERE, n=1),)), Applied(item(THERE, n=2))]
    assert list(store.apply_each([])) == []


def test_of_those_that_race_one_is_first(store: Store):
    done = racing(*(lambda n=n: store.apply(put(HERE, NeverWritten(), n=n)) for n in range(8)))
    assert [isinstance(each, Applied) for each in done].count(True) == 1


def test_no_count_is_lost_in_a_race(store: Store):
    racing(*(lambda: store.apply(update(HERE, Update(adds={"n": 1}))) for _ in range(8)))
    assert store.get(HERE) == item(HERE, n=8)


# ---- all of it together

NAMES = st.sampled_from(["a", "b"])
TEXTS = st.sampled_from(["x", "y"])
NUMBERS = st.integers(-2, 2)
# each name has values of one kind: a condition that compares different kinds is a mistake, not a decision
REQUIRED = st.one_of(
    st.builds(Vacant, st.integers(0, 3)),
    st.just(NeverWritten()),
    st.builds(Has, NAMES),
    st.builds(Lacks, NAMES),
    st.builds(Is, st.just("t"), TEXTS, st.lists(TEXTS, max_size=1).map(tuple)),
    st.builds(Is, st.just("n"), NUMBERS),
    st.builds(IsNot, st.just("t"), TEXTS),
    st.builds(LacksOrIs, st.just("t"), TEXTS),
    st.builds(MoreThan, st.just("n"), NUMBERS),
    st.builds(FewerThan, st.just("s"), st.integers(1, 3)),
    st.builds(Holds, st.just("s"), TEXTS),
)
ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "t": TEXTS,
        "n": NUMBERS,
        "s": st.frozensets(TEXTS, min_size=1),
        "expires_at": st.integers(0, 3),
        "a": TEXTS,
        "b": st.booleans(),
    },
)


@st.composite
def updates(draw: st.DrawFn) -> Update:
    """No attribute changes twice."""
    free = set(draw(st.lists(st.sampled_from(["t", "n", "s", "a", "c"]), unique=True, min_size=1, max_size=4)))
    sets: dict[str, Any] = {name: draw(TEXTS) for name in free & {"t"}}
    return Update(
        sets=sets,
        sets_once={name: draw(TEXTS) for name in free & {"c"}},
        removes=tuple(free & {"a"}),
        adds={name: draw(NUMBERS) for name in free & {"n"}},
        **draw(st.sampled_from([{"joins": {"s": "x"}}, {"leaves": {"s": "x"}}])) if "s" in free else {},
    )


WRITES = st.lists(
    st.builds(
        Write,
        st.sampled_from([HERE, THERE]),
        st.one_of(st.builds(Put, ATTRIBUTES), updates(), st.just(Delete())),
        st.lists(REQUIRED, max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda write: write.key,
)


@dataclass
class Fresh:
    """The keys of one example, which no other example has."""

    store: Store
    example: int = 0

    def named(self, writes: list[Write]) -> Transition:
        moved = tuple(Write(Key(f"q#{self.example}", each.key.sk), each.change, each.requires) for each in writes)
        return Transition("do what was drawn", moved)

    def there(self) -> Mapping[str, Item]:
        return {str(each["sk"]): each for each in self.store.query(f"q#{self.example}", "things")}


@pytest.fixture
def fresh(store: Store) -> Fresh:
    return Fresh(store)


@settings(
    max_examples=60,
    deadline=None,
    # to shrink an example takes thousands of requests
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(WRITES, min_size=2, max_size=6))
def test_any_sequence_is_answered_as_in_memory(fresh: Fresh, sequence: list[list[Write]]):
    fresh.example += 1
    memory = MemoryStore()
    for writes in sequence:
        transition = fresh.named(writes)
        assert fresh.store.apply(transition) == memory.apply(transition)
    assert fresh.there() == {key.sk: found for key, found in memory.items.items()}

"""Nothing reads or writes a ledger that is not whole."""

from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.build import route, upload
from tidegate.core import transitions
from tidegate.core.errors import Retryable
from tidegate.core.records import ROUTES, WHOLE, route_key
from tidegate.stores.guarded import GuardedStore
from tidegate.stores.memory import MemoryStore

ANY = transitions.remember_route(route("flights"))
CLAIM = transitions.claim("n", upload("a"), now=1, retention=9)
CALLS = {
    "get": lambda store: store.get(route_key("flights")),
    "get_many": lambda store: store.get_many([route_key("flights")], "routes"),
    "query": lambda store: store.query(ROUTES, "routes"),
    "apply": lambda store: store.apply(ANY),
    "apply_each": lambda store: store.apply_each([CLAIM]),
}
WRITES = ("apply", "apply_each")


@dataclass
class Counting(MemoryStore):
    looked: int = 0

    def get(self, key: Any) -> Any:
        self.looked += key == WHOLE
        return super().get(key)


def guarded(beneath: MemoryStore, *, new: bool) -> GuardedStore:
    return GuardedStore(beneath, lambda: 7, lambda: new)


@pytest.mark.parametrize("call", CALLS)
def test_nothing_is_read_or_written_while_it_is_not_whole(call: str):
    store = MemoryStore()
    with pytest.raises(Retryable, match="`tidegate ledger rebuild`"):
        CALLS[call](guarded(store, new=False))
    assert store.items == {}


@pytest.mark.parametrize("call", CALLS)
def test_one_look_is_enough_while_it_is(call: str):
    store = Counting()
    store.apply(transitions.end_rebuild(now=1))
    guard = guarded(store, new=False)
    CALLS[call](guard)
    for each in CALLS.values():
        each(guard)
    assert store.looked == 1


@pytest.mark.parametrize("call", CALLS)
def test_of_a_new_deployment_the_first_write_says_that_it_is_whole(call: str):
    store = MemoryStore()
    CALLS[call](guarded(store, new=True))
    assert (WHOLE in store.items) == (call in WRITES)


def test_a_new_deployment_asks_once_whether_it_is_new():
    asked: list[int] = []
    guard = GuardedStore(MemoryStore(), lambda: 7, lambda: not asked.append(1))
    for call in (*CALLS.values(), *CALLS.values()):
        call(guard)
    assert asked == [1]


def test_the_first_batch_of_a_twin_is_no_reason_to_refuse():
    """It was not whole, then a twin wrote the record and a batch, then this one saw the batch."""
    store = MemoryStore()

    def is_new() -> bool:
        store.apply(transitions.end_rebuild(now=1))
        return False

    GuardedStore(store, lambda: 7, is_new).apply(ANY)
    assert len(store.items) == 2


def test_who_took_the_ledger_for_new_does_not_open_it_once_a_rebuild_has_begun():
    """Its work bucket is lost, too: nothing is there that a new deployment would not have."""
    store = MemoryStore()
    early = guarded(store, new=True)
    assert early.get(route_key("flights")) is None
    store.apply(transitions.begin_rebuild(None))
    for guard in (early, guarded(store, new=True)):
        with pytest.raises(Retryable, match="`tidegate ledger rebuild`"):
            guard.apply(ANY)
    assert list(store.items) == [WHOLE]
    store.apply(transitions.end_rebuild(now=1))
    guarded(store, new=True).apply(ANY)
    assert len(store.items) == 2

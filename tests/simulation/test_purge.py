"""TTL may delete an expired item at once, in days, or never: the outcome is the same."""

from collections import Counter
from collections.abc import Iterator

import pytest

from simulation.checker.explore import simulation
from simulation.checker.mistakes.expiring import PAIRED
from simulation.checker.planting import Bug, planted
from simulation.checker.purge import Pair, compared, outcome
from simulation.world.dynamodb import DynamoDb, Ttl
from simulation.world.kernel import Kernel

SEEDS = 20
"""A pair takes half a second."""

MET = {
    ("o#", "read"),  # claims
    ("o#", "write"),
    ("n#", "read"),  # notices
    ("n#", "write"),
    ("b#", "read"),  # batches: only those that have ended expire, and nothing is written into them
    ("l#", "read"),  # leftovers
    ("wo", "read"),  # what workers take, and the workers
    ("h#", "write"),  # hand-offs: Powertools puts before it reads
    ("in", "write"),  # a consumer's inbox
}
"""The kinds of items that expire, and how requests meet them in the run that keeps them."""


@pytest.fixture(scope="module", autouse=True)
def _simulated() -> Iterator[None]:
    with simulation():
        yield


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [compared(seed) for seed in range(SEEDS)]


def test_what_ttl_deletes_and_when_changes_no_outcome(pairs: list[Pair]):
    assert [str(pair) for pair in pairs if pair.differing] == []


def test_the_worlds_meet_expired_items_of_every_kind(pairs: list[Pair]):
    met = sum((pair.met for pair in pairs), Counter())
    assert met.keys() == MET
    assert sum(bool(pair.met) for pair in pairs) > SEEDS / 2


def test_the_worlds_come_to_rest(pairs: list[Pair]):
    """Else little of what is compared would have happened."""
    assert sum(pair.ended == "at rest" for pair in pairs) > 0.75 * SEEDS


def test_a_world_has_rows_uploads_sums_and_files_to_compare():
    parts = outcome(17, Ttl.NEVER).parts
    for name in ("the tables", "the sums", "the uploads", "the records", "the work bucket"):
        assert parts[name], name


@pytest.mark.parametrize("bug", PAIRED, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_condition_or_a_read_that_forgets_what_has_expired_is_found(bug: Bug):
    assert bug.seed is not None
    with planted(bug):
        pair = compared(bug.seed)
    assert set(pair.differing) - {"the calls"}, "only the calls differ: find another seed"
    assert compared(bug.seed).differing == ()


# ---- the table that keeps what has expired

KEY = {"pk": {"S": "o#1"}, "sk": {"S": "v1"}}
PUT = {"TableName": "t", "Item": {**KEY, "expires_at": {"N": "0"}, "n": {"N": "1"}}}


@pytest.mark.parametrize("ttl", [Ttl.AT_ONCE, Ttl.NEVER], ids=lambda ttl: ttl.name)
def test_who_asks_meets_an_expired_item_only_if_ttl_keeps_it(ttl: Ttl):
    table = DynamoDb(Kernel(0))
    table.ttl = ttl
    table.answer("PutItem", PUT)
    kept = ttl is Ttl.NEVER
    assert ("Item" in table.answer("GetItem", {"TableName": "t", "Key": KEY, "ConsistentRead": True})) is kept
    everything = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "o#1"}}}
    assert table.answer("Query", {"TableName": "t", **everything, "ConsistentRead": True})["Count"] == kept
    assert table.met["o#", "read"] == (2 if kept else 0)
    assert not table.items  # for who looks from outside it is gone in both


def test_a_change_brings_no_expired_item_back_and_a_new_one_takes_its_place():
    table = DynamoDb(Kernel(0))
    table.ttl = Ttl.NEVER
    table.answer("PutItem", PUT)
    add = {"UpdateExpression": "ADD #n :n", "ExpressionAttributeNames": {"#n": "n"}}
    table.answer("UpdateItem", {"TableName": "t", "Key": KEY, **add, "ExpressionAttributeValues": {":n": {"N": "1"}}})
    assert not table.items
    assert table.lingering["t", "o#1", "v1"]["n"] == 2
    table.answer("PutItem", {"TableName": "t", "Item": {**KEY, "n": {"N": "7"}}})
    assert not table.lingering
    assert table.items["t", "o#1", "v1"]["n"] == 7

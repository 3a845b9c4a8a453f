"""Puts of what must be vacant, 25 in a request: the claims of a notice.

`INSERT` puts an item if there is none under its key, not even an expired one
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.insert.html). That is less than `Vacant`
allows, so an insert never overwrites anything. BatchExecuteStatement carries up to 25 of them and answers for each by
itself. An upload that is new needs nothing else. Whatever is not answered with a plain success is settled by the
ordinary means: a consistent read shows the item that is in the way, and a conditional put decides about the rest.

    what may happen                         what is done about it
    the insert is answered with success     the item was not there, and is: applied
    DuplicateItem, the item is live         the read finds it: refused, with this item. It has the owner (rule 1)
    DuplicateItem, the item has expired     the read finds it vacant: the conditional put replaces it
    DuplicateItem, the item was deleted     the read finds none: the conditional put
      by TTL meanwhile
    the answer was lost, the SDK repeats    DuplicateItem for what the lost request has put: the read finds the claim,
      the request                           which names its own notice
    the request or a statement fails        it may have been done or not: read and put, as above
    a statement whose answer was lost is    it finds an item and does nothing; or it puts this same item first, and the
      carried out later, after the read     put is refused with it
    a twin inserts the same claims          one of two inserts puts the item, and both claims name the same notice
    the process dies between any two lines  some are claimed. The message comes again, and the read finds them

So each transition has happened, or has been refused with an item that was there, at one moment during the call, as with
a conditional put. The read asks for consistency. If it showed an old item all the same, nothing would be overwritten: a
put has its own condition, and whoever acts on a refusal requires the owner that it was told.

A request is refused as a whole if a key comes twice, so the transitions must be on different items.

Where most uploads of a notice are there already, its later ones are read first, 100 in a request, and only those that
are not there are inserted. Only of the first `PROBE` is a refused insert paid for, too.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from botocore.exceptions import BotoCoreError, ClientError

from tidegate.aws.errors import code_of
from tidegate.core.errors import TidegateError
from tidegate.core.items import Applied, Item, Key, Put, Refused, Transition, Vacant, changed, satisfied

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

log = logging.getLogger("tidegate")

Done: TypeAlias = Applied | Refused | Exception

INSERTS = 25
"""The statements of a request
(https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-reference.multiplestatements.batching.html)."""
READS = 100
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchGetItem.html"""
FEW = 4
"""As many as this are put one by one: a put that is refused tells the item in the way, and needs no read."""
PROBE = INSERTS
WAVE = 16 * INSERTS
"""How many are tried, after the first `PROBE`, before it is asked again whether most of them are there already."""


class Inserts:
    """`apply_each` for transitions that are `insertable`.

    `put` applies one transition and returns its error. `read` returns the items that exist under these keys. `typed`
    makes DynamoDB's attributes of an item. The requests of a wave run in `pool`.
    """

    def __init__(
        self,
        client: "DynamoDBClient",
        table: str,
        pool: ThreadPoolExecutor,
        *,
        put: Callable[[Transition], Done],
        read: Callable[[Sequence[Key], str], Mapping[Key, Item]],
        typed: Callable[[Item], dict[str, Any]],
    ) -> None:
        self._client = client
        self._table = table
        self._pool = pool
        self._put = put
        self._read = read
        self._typed = typed
        self._told = False

    def apply_each(self, transitions: Sequence[Transition]) -> list[Done]:
        """All are tried. An error takes the place of its transition's result."""
        done: dict[Key, Done] = {}
        crowded = False
        for wave in _waves(transitions):
            left = self._not_there(wave, done) if crowded else wave
            left = self._not_inserted(left, done)
            left = self._not_there(left, done)
            done.update(zip(map(_key, left), self._pool.map(self._put, left), strict=True))
            there = sum(isinstance(done[_key(each)], Refused) for each in wave)
            crowded = 2 * there > len(wave)
        return [done[_key(each)] for each in transitions]

    def _not_inserted(self, wanted: Sequence[Transition], done: dict[Key, Done]) -> list[Transition]:
        """Insert them, and return those whose insert was not answered with success."""
        if len(wanted) <= FEW:
            return list(wanted)
        portions = list(_portions(wanted, INSERTS))
        left: list[Transition] = []
        for portion, inserted in zip(portions, self._pool.map(self._insert, portions), strict=True):
            for each, success in zip(portion, inserted, strict=True):
                if success:
                    done[_key(each)] = Applied(_item(each))
                else:
                    left.append(each)
        return left

    def _insert(self, wanted: Sequence[Transition]) -> list[bool]:
        """By transition, whether its insert was answered with success."""
        items = [self._typed(_item(each)) for each in wanted]
        try:
            answer = self._client.batch_execute_statement(
                Statements=[
                    {"Statement": _statement(self._table, tuple(item)), "Parameters": list(item.values())}
                    for item in items
                ]
            )
        except (ClientError, BotoCoreError) as error:
            # the puts that follow meet the same trouble, and name it; but not a permission that only inserts need
            if isinstance(error, ClientError) and code_of(error) == "AccessDeniedException" and not self._told:
                self._told = True
                log.warning(
                    "this role may not insert into ledger %s (dynamodb:PartiQLInsert): claims are put one by one, which"
                    " takes ten times as long: %s",
                    self._table,
                    error,
                )
            return [False] * len(wanted)
        answers = answer.get("Responses", [])
        if len(answers) != len(wanted):
            return [False] * len(wanted)
        return ["Error" not in each for each in answers]

    def _not_there(self, wanted: Sequence[Transition], done: dict[Key, Done]) -> Sequence[Transition]:
        """Read their items, and return those that may be put: their item is not there or has expired. If it cannot be
        read, the put decides."""
        if len(wanted) <= FEW:
            return wanted
        there: dict[Key, Item] = {}
        for found in self._pool.map(self._found, _portions(wanted, READS)):
            there.update(found)
        left: list[Transition] = []
        for each in wanted:
            (write,) = each.writes
            item = there.get(write.key)
            if all(satisfied(requirement, item) for requirement in write.requires):
                left.append(each)
            else:
                done[write.key] = Refused((item,))
        return left

    def _found(self, wanted: Sequence[Transition]) -> Mapping[Key, Item]:
        try:
            return self._read([_key(each) for each in wanted], "claims")
        except TidegateError:
            return {}


def insertable(transitions: Sequence[Transition]) -> bool:
    """Whether there are more than a few, each puts one item that must be vacant, and the items differ."""
    if len(transitions) <= FEW or any(len(each.writes) != 1 for each in transitions):
        return False
    writes = [each.writes[0] for each in transitions]
    return len({write.key for write in writes}) == len(writes) and all(
        isinstance(write.change, Put)
        and len(write.requires) == 1
        and isinstance(write.requires[0], Vacant)
        and all(name.isidentifier() for name in write.change.attributes)
        for write in writes
    )


def _key(transition: Transition) -> Key:
    return transition.writes[0].key


def _item(transition: Transition) -> Item:
    """The item that it puts."""
    (write,) = transition.writes
    item = changed(write.key, write.change, None)
    assert item is not None, f"could not {transition.what}: it puts nothing"
    return item


@cache
def _statement(table: str, names: tuple[str, ...]) -> str:
    fields = ", ".join(f"'{name}': ?" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{fields}}}'


def _waves(transitions: Sequence[Transition]) -> Iterator[Sequence[Transition]]:
    yield transitions[:PROBE]
    yield from _portions(transitions[PROBE:], WAVE)


def _portions(wanted: Sequence[Transition], size: int) -> Iterator[Sequence[Transition]]:
    for start in range(0, len(wanted), size):
        yield wanted[start : start + size]

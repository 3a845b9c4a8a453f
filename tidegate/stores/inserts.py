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
    a statement is throttled                no SDK repeats it, because the request has succeeded. A read and a put
                                            would be two more requests to a table that has too many. So after a pause it
                                            is inserted again, with the others that were throttled. If it was carried
                                            out all the same: DuplicateItem, and the read finds this claim
    the request is throttled                the SDK has repeated it: the same for all of its statements
    throttling outlasts the pauses          Retryable. Some are claimed. The message comes again, and the read finds
                                            them
    the process dies in a pause             the same
    the request or a statement fails in     it may have been done or not: read and put, as above
      another way
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
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum, auto
from functools import cache
from time import sleep
from typing import TYPE_CHECKING, Any, TypeAlias

from botocore.exceptions import BotoCoreError, ClientError

from tidegate.aws.errors import code_of
from tidegate.core.errors import Retryable, TidegateError
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
PAUSES = 11
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""After so many pauses throttling is given up, in all waves together. The nth pause is some part of 2^n times the
first, in seconds: 7.6 together at most. dispatch takes up to ten notices, and has two minutes."""


class Insert(Enum):
    """What the answer says of an insert."""

    DONE = auto()
    THROTTLED = auto()
    UNDECIDED = auto()


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
        pauses = _pauses()
        for wave in _waves(transitions):
            left = self._not_there(wave, done) if crowded else wave
            left = self._not_inserted(left, done, pauses)
            left = self._not_there(left, done)
            done.update(zip(map(_key, left), self._pool.map(self._put, left), strict=True))
            there = sum(isinstance(done[_key(each)], Refused) for each in wave)
            crowded = 2 * there > len(wave)
        return [done[_key(each)] for each in transitions]

    def _not_inserted(
        self, wanted: Sequence[Transition], done: dict[Key, Done], pauses: Iterator[float]
    ) -> list[Transition]:
        """Insert them, those that are throttled again after each pause. Returns those of which the answer decides
        nothing."""
        if len(wanted) <= FEW:
            return list(wanted)
        left: list[Transition] = []
        throttled = self._inserted(wanted, done, left)
        while throttled:
            pause = next(pauses, None)
            if pause is None:
                for each in throttled:
                    done[_key(each)] = Retryable(
                        f"could not {each.what} in ledger {self._table}: DynamoDB throttles its writes, and went on"
                        f" after {PAUSES} pauses. If that lasts, warm its table (docs/performance.md)"
                    )
                break
            sleep(pause)
            throttled = self._inserted(throttled, done, left)
        return left

    def _inserted(
        self, wanted: Sequence[Transition], done: dict[Key, Done], left: list[Transition]
    ) -> list[Transition]:
        """Insert each once, and add those that are undecided to `left`. Returns those that were throttled."""
        portions = list(_portions(wanted, INSERTS))
        throttled: list[Transition] = []
        for portion, answers in zip(portions, self._pool.map(self._insert, portions), strict=True):
            for each, answer in zip(portion, answers, strict=True):
                match answer:
                    case Insert.DONE:
                        done[_key(each)] = Applied(_item(each))
                    case Insert.THROTTLED:
                        throttled.append(each)
                    case Insert.UNDECIDED:
                        left.append(each)
        return throttled

    def _insert(self, wanted: Sequence[Transition]) -> list[Insert]:
        """By transition, what the answer says of its insert."""
        items = [self._typed(_item(each)) for each in wanted]
        try:
            answer = self._client.batch_execute_statement(
                Statements=[
                    {"Statement": _statement(self._table, tuple(item)), "Parameters": list(item.values())}
                    for item in items
                ]
            )
        except (ClientError, BotoCoreError) as error:
            code = code_of(error) if isinstance(error, ClientError) else ""
            if throttles(code):
                return [Insert.THROTTLED] * len(wanted)
            # the puts that follow meet the same trouble, and name it; but not a permission that only inserts need
            if code == "AccessDeniedException" and not self._told:
                self._told = True
                log.warning(
                    "this role may not insert into ledger %s (dynamodb:PartiQLInsert): claims are put one by one, which"
                    " takes ten times as long: %s",
                    self._table,
                    error,
                )
            return [Insert.UNDECIDED] * len(wanted)
        answers = answer.get("Responses", [])
        if len(answers) != len(wanted):
            return [Insert.UNDECIDED] * len(wanted)
        return [_said(each.get("Error")) for each in answers]

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


def throttles(code: str) -> bool:
    """Whether the error says that DynamoDB has done nothing because there were too many requests. Of a statement it is
    called ThrottlingError, of a request ThrottlingException
    (https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchStatementError.html)."""
    throttling = ("Throttling", "ProvisionedThroughputExceeded", "RequestLimitExceeded")
    return code.removesuffix("Exception").removesuffix("Error") in throttling


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


def _said(error: Mapping[str, Any] | None) -> Insert:
    if error is None:
        return Insert.DONE
    return Insert.THROTTLED if throttles(str(error.get("Code", ""))) else Insert.UNDECIDED


def _pauses() -> Iterator[float]:
    """In seconds. They differ, or all who were throttled would come back together
    (https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/)."""
    for number in range(PAUSES):
        yield random.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**number))


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

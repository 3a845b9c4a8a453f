"""The ledger's items in one DynamoDB table.

A transition of one write is one conditional PutItem, UpdateItem or DeleteItem, one of several is a TransactWriteItems.
Many puts of items that must be vacant go 25 in a request (`tidegate.stores.inserts`).
If a condition fails, DynamoDB returns the existing item (`ReturnValuesOnConditionCheckFailure`), so the owner of a
claim costs no read. Every read is strongly consistent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from tidegate.aws.errors import asking, code_of
from tidegate.core.errors import OutcomeUnknown, Retryable
from tidegate.core.items import (
    Applied,
    Delete,
    FewerThan,
    Has,
    Holds,
    Is,
    IsNot,
    Item,
    ItemChange,
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
from tidegate.stores.inserts import READS, Done, Inserts, insertable

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_dynamodb.type_defs import KeysAndAttributesTypeDef, TransactWriteItemTypeDef

T = TypeVar("T")

THREADS = 16
TRIES = 12
"""After so many conflicts in a row a write is given up. With sixteen lanes that register in one batch, each transaction
10 ms, that is one registration of some 300,000 (docs/adr/0059-lanes.md)."""

_serialize = TypeSerializer().serialize
_deserialize = TypeDeserializer().deserialize


class DynamoDbStore:
    """`flows.store.Store` on a table with the keys `pk` and `sk`. `client` must allow `THREADS` connections at once."""

    def __init__(self, client: "DynamoDBClient", table: str) -> None:
        self._client = client
        self._table = table
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="ledger")
        self._inserts = Inserts(client, table, self._pool, put=self._tried, read=self.get_many, typed=_typed)

    # ---- reading

    def get(self, key: Key) -> Item | None:
        with asking(f"read {key.pk} in ledger {self._table}"):
            answer = self._client.get_item(TableName=self._table, Key=_typed(key._asdict()), ConsistentRead=True)
        return _plain(answer["Item"]) if "Item" in answer else None

    def get_many(self, keys: Sequence[Key], what: str) -> Mapping[Key, Item]:
        return {_key(item): item for item in self._each(keys, what)}

    def _each(self, keys: Sequence[Key], what: str) -> Iterator[Item]:
        """DynamoDB leaves keys over when it is throttled or an answer grows too large. They are read again, after a
        pause if none was read."""
        wanted = [_typed(key._asdict()) for key in keys]
        while wanted:
            portion, wanted = wanted[:READS], wanted[READS:]
            while portion:
                found, portion = _patiently(self._read_some, what, portion)
                yield from map(_plain, found)

    def _read_some(self, what: str, keys: list[Any]) -> tuple[list[Any], list[Any]]:
        """Some of these items, and the keys of those that were left over. Raises _Conflict if all were."""
        request: KeysAndAttributesTypeDef = {"Keys": keys, "ConsistentRead": True}
        with asking(f"read {what} in ledger {self._table}"):
            answer = self._client.batch_get_item(RequestItems={self._table: request})
        unread = answer.get("UnprocessedKeys", {}).get(self._table)
        left_over: list[Any] = unread["Keys"] if unread else []
        if len(left_over) == len(keys):
            raise _Conflict(f"could not read {what} in ledger {self._table}: it left over all {len(keys)} keys")
        return answer["Responses"].get(self._table, []), left_over

    def query(self, pk: str, what: str, most: int = 0) -> Sequence[Item]:
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues=_typed({":pk": pk}),
            ConsistentRead=True,
            # PageSize bounds what a request reads, and MaxItems the number of requests
            PaginationConfig={"PageSize": most, "MaxItems": most} if most else {},
        )
        with asking(f"read {what} in ledger {self._table}"):
            return [_plain(raw) for page in pages for raw in page["Items"]]

    # ---- writing

    def apply(self, transition: Transition) -> Applied | Refused:
        requests = [compiled(write, self._table) for write in transition.writes]
        once = self._write if len(requests) == 1 else self._transact
        return _patiently(once, transition.what, requests)

    def apply_each(self, transitions: Sequence[Transition]) -> Sequence[Applied | Refused]:
        done: list[Done]
        if insertable(transitions):
            done = self._inserts.apply_each(transitions)
        else:
            # list() waits for all: a failed write must not leave others running in the pool
            done = list(self._pool.map(self._tried, transitions))
        for each in done:
            if isinstance(each, Exception):
                raise each
        return [each for each in done if not isinstance(each, Exception)]

    def _tried(self, transition: Transition) -> Done:
        try:
            return self.apply(transition)
        except Exception as error:
            return error

    def _write(self, what: str, requests: Sequence[Mapping[str, Any]]) -> Applied | Refused:
        ((kind, request),) = requests[0].items()
        with asking(f"{what} in ledger {self._table}"):
            try:
                if kind == "Put":
                    self._client.put_item(**request)
                    return Applied(_plain(request["Item"]))
                if kind == "Delete":
                    self._client.delete_item(**request)
                    return Applied()
                answer = self._client.update_item(**request, ReturnValues="ALL_NEW")
                return Applied(_plain(answer["Attributes"]))
            except ClientError as error:
                if code_of(error) == "TransactionConflictException":
                    raise _Conflict(f"could not {what} in ledger {self._table}: {code_of(error)}") from error
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                there: Any = error.response.get("Item")
        return Refused((_plain(there) if there else None,))

    def _transact(self, what: str, requests: "Sequence[TransactWriteItemTypeDef]") -> Applied | Refused:
        """boto3 adds a request token, by which DynamoDB recognises the SDK's own retries for 10 minutes."""
        with asking(f"{what} in ledger {self._table}"):
            try:
                self._client.transact_write_items(TransactItems=list(requests))
                return Applied()
            except ClientError as error:
                if code_of(error) != "TransactionCanceledException":
                    raise
                reasons: list[Any] = error.response.get("CancellationReasons", [])
        codes = [reason.get("Code", "None") for reason in reasons]
        if "ConditionalCheckFailed" not in codes:
            # a conflict with another transaction, or throttling
            raise _Conflict(f"could not {what} in ledger {self._table}: {', '.join(codes) or 'no reason given'}")
        if len(reasons) != len(requests):
            raise OutcomeUnknown(f"could not {what} in ledger {self._table}: unreadable answer {reasons}")
        return Refused(
            tuple(
                _plain(reason["Item"]) if reason.get("Code") == "ConditionalCheckFailed" and "Item" in reason else None
                for reason in reasons
            )
        )


class _Conflict(Retryable):
    """DynamoDB did nothing, because of another request or of too many: a moment later it will go through."""


def _patiently(call: Callable[..., T], *arguments: Any) -> T:
    """Call it again after a conflict, for some seconds: SQS would take minutes. The SDK does not retry conflicts."""
    retrying = Retrying(
        retry=retry_if_exception_type(_Conflict),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(0.03, max=0.5),
        reraise=True,
    )
    return retrying(call, *arguments)


# ---- transitions as DynamoDB's expressions


def compiled(write: Write, table: str) -> dict[str, dict[str, Any]]:
    """The write for TransactWriteItems: the request of PutItem, UpdateItem or DeleteItem, under its kind."""
    words = _Words()
    request: dict[str, Any] = {"TableName": table}
    if isinstance(write.change, Put):
        request["Item"] = _typed({**write.key._asdict(), **write.change.attributes})
    else:
        request["Key"] = _typed(write.key._asdict())
    if isinstance(write.change, Update):
        request["UpdateExpression"] = _update(write.change, words)
    if write.requires:
        conditions = [_condition(each, words) for each in write.requires]
        request["ConditionExpression"] = (
            conditions[0] if len(conditions) == 1 else " AND ".join(f"({each})" for each in conditions)
        )
        request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    if words.names:
        request["ExpressionAttributeNames"] = words.names
    if words.values:
        request["ExpressionAttributeValues"] = words.values
    return {_KINDS[type(write.change)]: request}


_KINDS: Mapping[type[ItemChange], str] = {Put: "Put", Update: "Update", Delete: "Delete"}


class _Words:
    """The names and values that an expression uses. Every attribute is written `#name`: DynamoDB reserves 573 words,
    `state` and `rows` among them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def name(self, name: str) -> str:
        self.names[f"#{name}"] = name
        return f"#{name}"

    def value(self, name: str, value: Any) -> str:
        word, number = f":{name}", 1
        while word in self.values:
            number += 1
            word = f":{name}_{number}"
        self.values[word] = _serialize(value)
        return word


def _condition(requirement: Requirement, words: _Words) -> str:
    match requirement:
        case Vacant(now):
            absent = f"attribute_not_exists({words.name('pk')})"
            return f"{absent} OR {words.name('expires_at')} <= {words.value('now', now)}"
        case NeverWritten():
            return f"attribute_not_exists({words.name('pk')})"
        case Has(name):
            return f"attribute_exists({words.name(name)})"
        case Lacks(name):
            return f"attribute_not_exists({words.name(name)})"
        case Is(name, value, others):
            return " OR ".join(f"{words.name(name)} = {words.value(name, each)}" for each in (value, *others))
        case IsNot(name, value):
            there = words.name(name)
            return f"attribute_not_exists({there}) OR {there} <> {words.value(name, value)}"
        case LacksOrIs(name, value):
            there = words.name(name)
            return f"attribute_not_exists({there}) OR {there} = {words.value(name, value)}"
        case MoreThan(name, number):
            return f"{words.name(name)} > {words.value(name, number)}"
        case FewerThan(name, members):
            there = words.name(name)
            return f"attribute_not_exists({there}) OR size({there}) < {words.value(name, members)}"
        case Holds(name, member):
            return f"contains({words.name(name)}, {words.value(name, member)})"


def _update(change: Update, words: _Words) -> str:
    sets = [f"{words.name(name)} = {words.value(name, value)}" for name, value in change.sets.items()]
    for name, value in change.sets_once.items():
        there = words.name(name)
        sets.append(f"{there} = if_not_exists({there}, {words.value(name, value)})")
    adds = [f"{words.name(name)} {words.value(name, number)}" for name, number in change.adds.items()]
    adds += [f"{words.name(name)} {words.value(name, {member})}" for name, member in change.joins.items()]
    leaves = [f"{words.name(name)} {words.value(name, {member})}" for name, member in change.leaves.items()]
    clauses = {"SET": sets, "REMOVE": list(map(words.name, change.removes)), "ADD": adds, "DELETE": leaves}
    return " ".join(f"{clause} {', '.join(each)}" for clause, each in clauses.items() if each)


# ---- items as DynamoDB's attributes


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _attribute(value) for name, value in values.items()}


def _attribute(value: Any) -> Any:
    # what claims are made of; boto3's serializer tries each of its types in turn
    if type(value) is str:
        return {"S": value}
    return {"N": str(value)} if type(value) is int else _serialize(value)


def _plain(item: Mapping[str, Any]) -> Item:
    return {name: _value(_deserialize(value)) for name, value in item.items()}


def _value(found: Any) -> Any:
    if isinstance(found, Decimal):
        return int(found)
    if isinstance(found, set):
        return frozenset(found)
    if isinstance(found, dict):
        return {name: _value(each) for name, each in found.items()}
    return found


def _key(item: Item) -> Key:
    return Key(str(item["pk"]), str(item["sk"]))

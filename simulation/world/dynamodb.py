"""DynamoDB as AWS documents it: conditions, transactions and their token, items that exist after their expiry."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import cache
from typing import Any

from simulation.world.expressions import StoredItem, holds, updated
from simulation.world.kernel import Kernel
from simulation.world.shelves import Shelved
from simulation.world.wire import Refusal

TOKEN_SECONDS = 600
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

TableKey = tuple[str, str, str]


def plain(attribute: dict[str, Any]) -> Any:
    ((kind, value),) = attribute.items()
    if kind == "N":
        return int(value)
    if kind == "SS":
        return frozenset(value)
    if kind == "M":
        return {name: plain(each) for name, each in value.items()}
    if kind == "L":
        return [plain(each) for each in value]
    if kind == "S":
        return str(value)  # plain text, whatever kind of string the caller has
    return None if kind == "NULL" else value


def typed(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, frozenset):
        return {"SS": sorted(value)}
    if isinstance(value, dict):
        return {"M": {name: typed(each) for name, each in value.items()}}
    if isinstance(value, list):
        return {"L": [typed(each) for each in value]}
    assert value is None, value
    return {"NULL": True}


def _plain(item: dict[str, Any]) -> StoredItem:
    return {name: plain(each) for name, each in item.items()}


def _typed(item: StoredItem) -> dict[str, Any]:
    return {name: typed(each) for name, each in item.items()}


class Ttl(Enum):
    """When TTL deletes an expired item. DynamoDB promises no time
    (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html)."""

    WHEN_TOLD = auto()  # by `DynamoDb.expire`
    AT_ONCE = auto()  # before the next request
    NEVER = auto()  # every request finds it, until a write replaces or deletes it


class DynamoDb:
    """Every table has the keys `pk` and `sk`. With `forgets_tokens` the service ignores the tokens of transactions."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.items: Shelved[TableKey, StoredItem] = Shelved(lambda key: key[1][:2])
        """Grouped by the prefix of their `pk`, such as `b#` for batches."""
        self.ttl = Ttl.WHEN_TOLD
        self.lingering: dict[TableKey, StoredItem] = {}
        """The expired items that `Ttl.NEVER` keeps. Requests find them. They are not in `items`, so that the people and
        the oracle of a world see the same, whatever TTL does."""
        self.met: Counter[tuple[str, str]] = Counter()
        """How often a request met a lingering item, by (prefix of its `pk`, "read" or "write")."""
        self.gone = False
        self.writes = 0
        """The number of requests that changed something."""
        self.forgets_tokens = False
        self.behind: Callable[[], float] = lambda: 0.0
        """How old the answer to a read without `ConsistentRead` may be, in seconds."""
        self.holds_back: Callable[[], bool] = lambda: False
        """Whether an answer to BatchGetItem leaves some of its keys unprocessed."""
        self.fails: Callable[[], tuple[str, bool]] = lambda: ("", True)
        """For each statement of a batch: the code of its error, "" for none, and whether it is carried out."""
        self.page = 0
        """The number of items in a page of a query; 0 for all."""
        self.on_replaced: Callable[[TableKey, StoredItem, StoredItem], None] = lambda key, before, after: None
        """Called with each item that is about to be replaced or updated, and with the item after that."""
        self._tokens: dict[str, float] = {}
        self._before: dict[TableKey, tuple[float, StoredItem | None]] = {}
        """The time of each item's last write, and the item before it."""

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if self.gone:
            raise Refusal(400, "ResourceNotFoundException", "Requested resource not found")
        self._let_expire()
        handler = getattr(self, _method(operation), None)
        assert handler, f"DynamoDB {operation} is not simulated"
        answered: dict[str, Any] = handler(parameters)
        self._let_expire()  # a change does not bring an expired item back
        return answered

    def _let_expire(self) -> None:
        if self.ttl is Ttl.WHEN_TOLD:
            return
        expired = self._take_expired()
        if self.ttl is Ttl.NEVER:
            self.lingering |= expired

    def expire(self) -> int:
        """Delete expired items, as TTL does. Returns the number."""
        return len(self._take_expired())

    def _take_expired(self) -> dict[TableKey, StoredItem]:
        over = {key: item for key, item in self.items.items() if item.get("expires_at", 2**60) <= self.kernel.now}
        for key in over:
            del self.items[key]
        return over

    def _find(self, key: TableKey, how: str) -> StoredItem | None:
        if key in self.lingering:
            self.met[key[1][:2], how] += 1
            return self.lingering[key]
        return self.items.get(key)

    def drop(self) -> None:
        """Delete the table. Another one of its name does not exist yet."""
        self.gone = True

    def become(self, items: Mapping[TableKey, StoredItem]) -> None:
        """Replace the table by another one of its name."""
        for key in list(self.items):
            del self.items[key]
        self.items.update(items)
        self.lingering.clear()
        self.gone = False
        self.writes += 1
        self._tokens.clear()
        self._before.clear()

    # ---- operations

    def _get_item(self, request: Any) -> Any:
        item = self._read(_key(request, request["Key"]), request.get("ConsistentRead", False))
        return {"Item": _typed(item)} if item is not None else {}

    def _read(self, key: TableKey, consistent: bool) -> StoredItem | None:
        if not consistent and key in self._before:
            written, before = self._before[key]
            if self.kernel.now - written < self.behind():
                return before
        return self._find(key, "read")

    def _batch_get_item(self, request: Any) -> Any:
        found: dict[str, list[Any]] = {}
        unprocessed: dict[str, Any] = {}
        for table, wanted in request["RequestItems"].items():
            keys = [_key({"TableName": table}, each) for each in wanted["Keys"]]
            if len(set(keys)) < len(keys):
                raise Refusal(400, "ValidationException", "Provided list of item keys contains duplicates")
            if len(keys) > 100:
                raise Refusal(400, "ValidationException", "Too many items requested for the BatchGetItem call")
            if len(keys) > 1 and self.holds_back():
                unprocessed[table] = {**wanted, "Keys": wanted["Keys"][1:]}
                keys = keys[:1]
            items = [self._read(key, wanted.get("ConsistentRead", False)) for key in keys]
            found[table] = [_typed(item) for item in items if item is not None]
        return {"Responses": found, "UnprocessedKeys": unprocessed}

    def _query(self, request: Any) -> Any:
        values = {name: plain(each) for name, each in request["ExpressionAttributeValues"].items()}
        assert request["KeyConditionExpression"] == "pk = :pk", request["KeyConditionExpression"]
        on = self.items.on(values[":pk"][:2])
        there = [*(key for key, _ in on), *self.lingering]
        found = sorted(key for key in there if key[:2] == (request["TableName"], values[":pk"]))
        if start := request.get("ExclusiveStartKey"):
            found = [key for key in found if key > _key(request, start)]
        most = min(filter(None, (self.page, request.get("Limit", 0))), default=0)
        page = found[:most] if most else found
        read = [self._read(key, request.get("ConsistentRead", False)) for key in page]
        items = [_typed(item) for item in read if item is not None]
        more = {"LastEvaluatedKey": {"pk": {"S": page[-1][1]}, "sk": {"S": page[-1][2]}}} if page != found else {}
        return {"Items": items, "Count": len(items), **more}

    def _put_item(self, request: Any) -> Any:
        self._write([("Put", request)])
        return {}

    def _update_item(self, request: Any) -> Any:
        self._write([("Update", request)])
        if request.get("ReturnValues") == "ALL_NEW":
            return {"Attributes": _typed(self.items[_key(request, request["Key"])])}
        return {}

    def _delete_item(self, request: Any) -> Any:
        self._write([("Delete", request)])
        return {}

    def _transact_write_items(self, request: Any) -> Any:
        token = request.get("ClientRequestToken", "")
        if not self.forgets_tokens and self.kernel.now - self._tokens.get(token, float("-inf")) < TOKEN_SECONDS:
            return {}
        writes = [next(iter(each.items())) for each in request["TransactItems"]]
        if len(writes) > 100:
            raise Refusal(400, "ValidationException", "Member must have length less than or equal to 100")
        keys = [_key(write, write.get("Key") or write["Item"]) for _, write in writes]
        if len(set(keys)) < len(keys):
            raise Refusal(
                400, "ValidationException", "Transaction request cannot include multiple operations on one item"
            )
        self._write(writes, transaction=True)
        if token:
            self._tokens[token] = self.kernel.now
        return {}

    def _batch_execute_statement(self, request: Any) -> Any:
        """Each statement by itself: some may fail, and the others are carried out."""
        puts = [_inserted(each) for each in request["Statements"]]
        if len(puts) > 25:
            raise Refusal(400, "ValidationException", "Member must have length less than or equal to 25")
        keys = [_key(put, put["Item"]) for put in puts]
        if len(set(keys)) < len(keys):
            raise Refusal(400, "ValidationException", "Provided list of item keys contains duplicates")
        return {"Responses": [{"TableName": put["TableName"], **self._insert(put)} for put in puts]}

    def _insert(self, put: dict[str, Any]) -> dict[str, Any]:
        code, carried_out = self.fails()
        try:
            if carried_out:
                self._write([("Put", put)])
        except Refusal:
            code = code or "DuplicateItem"
        return {"Error": {"Code": code, "Message": code}} if code else {}

    def _write(self, writes: list[tuple[str, Any]], *, transaction: bool = False) -> None:
        """All of them or none."""
        after: dict[TableKey, StoredItem | None] = {}
        reasons: list[dict[str, Any]] = []
        for kind, write in writes:
            key = _key(write, write.get("Key") or write["Item"])
            before = self._find(key, "write")
            names = write.get("ExpressionAttributeNames", {})
            values = {name: plain(each) for name, each in write.get("ExpressionAttributeValues", {}).items()}
            if not holds(write.get("ConditionExpression", ""), before, names, values):
                reason: dict[str, Any] = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
                if before is not None and write.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
                    reason["Item"] = _typed(before)
                reasons.append(reason)
                continue
            reasons.append({"Code": "None"})
            if kind == "Put":
                after[key] = _plain(write["Item"])
            elif kind == "Update":
                start = before if before is not None else {"pk": key[1], "sk": key[2]}
                after[key] = updated(write["UpdateExpression"], start, names, values)
            elif kind == "Delete":
                after[key] = None
            else:
                assert kind == "ConditionCheck", kind
        if any(reason["Code"] != "None" for reason in reasons):
            if transaction:
                raise Refusal(400, "TransactionCanceledException", "Transaction cancelled", CancellationReasons=reasons)
            extra = {"Item": reasons[0]["Item"]} if "Item" in reasons[0] else {}
            raise Refusal(400, "ConditionalCheckFailedException", "The conditional request failed", **extra)
        self.writes += bool(after)
        for key, item in after.items():
            self.lingering.pop(key, None)
            there = self.items.get(key)
            if there is not None and item is not None:
                self.on_replaced(key, there, item)
            self._before[key] = self.kernel.now, there
            if item is None:
                self.items.pop(key, None)
            else:
                self.items[key] = item


_INSERT = re.compile(r"""INSERT INTO "(.+)" VALUE \{(.+)\}""")
_FIELD = re.compile(r"'(\w+)': \?")


def _inserted(statement: Mapping[str, Any]) -> dict[str, Any]:
    """The put that an insert stands for."""
    found = _INSERT.fullmatch(statement["Statement"])
    assert found, f"not simulated: {statement['Statement']}"
    return {
        "TableName": found[1],
        "Item": dict(zip(_FIELD.findall(found[2]), statement["Parameters"], strict=True)),
        "ConditionExpression": "attribute_not_exists(#pk)",
        "ExpressionAttributeNames": {"#pk": "pk"},
    }


@cache
def _method(operation: str) -> str:
    return re.sub(r"([A-Z])", lambda letter: f"_{letter[1].lower()}", operation)


def _key(request: Any, attributes: Any) -> TableKey:
    return request["TableName"], attributes["pk"]["S"], attributes["sk"]["S"]

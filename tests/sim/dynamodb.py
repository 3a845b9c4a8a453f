"""DynamoDB as AWS documents it: conditions, transactions and their token, items that outlive their time."""

import json
import re
from typing import Any

from tests.sim.expressions import Item, holds, updated
from tests.sim.kernel import Kernel
from tests.sim.shelves import Shelved
from tests.sim.wire import Answer, Refusal, json_answer

TOKEN_SECONDS = 600
"""https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"""

Key = tuple[str, str, str]


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


def _plain(item: dict[str, Any]) -> Item:
    return {name: plain(each) for name, each in item.items()}


def _typed(item: Item) -> dict[str, Any]:
    return {name: typed(each) for name, each in item.items()}


class DynamoDb:
    """Every table has the keys `pk` and `sk`. `forgets_tokens` is a service that honours no transaction's token."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.items: Shelved[Key, Item] = Shelved(lambda key: key[1][:2])
        """On shelves by what their `pk` begins with: `b#` for batches."""
        self.writes = 0
        """How many requests have changed something."""
        self.forgets_tokens = False
        self._tokens: dict[str, float] = {}

    def answer(self, operation: str, body: bytes) -> Answer:
        name = re.sub(r"([A-Z])", lambda letter: f"_{letter[1].lower()}", operation)
        handler = getattr(self, name, None)
        assert handler, f"DynamoDB {operation} is not simulated"
        return json_answer(handler(json.loads(body)))

    def expire(self) -> int:
        """What TTL does in its own time: delete items whose time is over. Returns how many."""
        over = [key for key, item in self.items.items() if item.get("expires_at", 2**60) <= self.kernel.now]
        for key in over:
            del self.items[key]
        return len(over)

    # ---- operations

    def _get_item(self, request: Any) -> Any:
        item = self.items.get(_key(request, request["Key"]))
        return {"Item": _typed(item)} if item is not None else {}

    def _batch_get_item(self, request: Any) -> Any:
        found: dict[str, list[Any]] = {}
        for table, wanted in request["RequestItems"].items():
            keys = [_key({"TableName": table}, each) for each in wanted["Keys"]]
            if len(set(keys)) < len(keys):
                raise Refusal(400, "ValidationException", "Provided list of item keys contains duplicates")
            if len(keys) > 100:
                raise Refusal(400, "ValidationException", "Too many items requested for the BatchGetItem call")
            found[table] = [_typed(self.items[key]) for key in keys if key in self.items]
        return {"Responses": found, "UnprocessedKeys": {}}

    def _query(self, request: Any) -> Any:
        values = {name: plain(each) for name, each in request["ExpressionAttributeValues"].items()}
        assert request["KeyConditionExpression"] == "pk = :pk", request["KeyConditionExpression"]
        found = sorted(key for key in self.items if key[:2] == (request["TableName"], values[":pk"]))
        return {"Items": [_typed(self.items[key]) for key in found], "Count": len(found)}

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

    def _write(self, writes: list[tuple[str, Any]], *, transaction: bool = False) -> None:
        """All of them or none."""
        after: dict[Key, Item | None] = {}
        reasons: list[dict[str, Any]] = []
        for kind, write in writes:
            key = _key(write, write.get("Key") or write["Item"])
            before = self.items.get(key)
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
            if item is None:
                self.items.pop(key, None)
            else:
                self.items[key] = item


def _key(request: Any, attributes: Any) -> Key:
    return request["TableName"], attributes["pk"]["S"], attributes["sk"]["S"]

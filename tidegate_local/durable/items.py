"""DynamoDB's items, as requests and answers have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict

from tidegate_local.durable.changes import CHANGES
from tidegate_local.durable.database import Database, Transaction
from tidegate_local.durable.text import dumps, loads
from tidegate_local.environment import ACCOUNT, REGION
from tidegate_local.mends.costs import table_keys
from tidegate_local.mends.statements import insert_of

if TYPE_CHECKING:
    from moto.dynamodb.models import DynamoDBBackend


def backend() -> DynamoDBBackend:
    return dynamodb_backends[ACCOUNT][REGION]


def named(operation: str, asked: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The items that a request may change, as their table and a mapping that holds their key.

    Raises ValueError for a statement that is not known here, KeyError or the like for what is no such request.
    """
    match operation:
        case "PutItem":
            yield asked["TableName"], asked["Item"]
        case "UpdateItem" | "DeleteItem":
            yield asked["TableName"], asked["Key"]
        case "BatchWriteItem":
            for table, writes in asked["RequestItems"].items():
                for write in writes:
                    yield table, write["PutRequest"]["Item"] if "PutRequest" in write else write["DeleteRequest"]["Key"]
        case "TransactWriteItems":
            for each in asked["TransactItems"]:
                (write,) = each.values()
                yield write["TableName"], write.get("Key") or write["Item"]
        case "BatchExecuteStatement":
            for statement in asked["Statements"]:
                if (inserted := insert_of(statement)) is not None:
                    yield inserted
                elif not statement["Statement"].lstrip().upper().startswith("SELECT"):
                    raise ValueError(f"the statement {statement['Statement']!r} is not kept on this machine")


def touch(names: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Say that these items may have changed. What makes no sense has changed nothing: moto has refused it."""
    for name, values in names:
        table = backend().tables.get(name.rpartition("/")[2])
        if table is not None and all(each in values for each in table.table_key_attrs):
            CHANGES.touch("item", table.name, *table_keys(table, dict(values)))


class KeptItems:
    """The rows of the items."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @staticmethod
    def write(transaction: Transaction, table: str, hash_key: DynamoType, range_key: DynamoType | None) -> None:
        """What a table has under this key now, which may be nothing."""
        found: Any = backend().tables[table].items.get(hash_key) if table in backend().tables else None
        if found is not None and range_key is not None:
            found = found.get(range_key)
        names = (table, _name(hash_key), _name(range_key))
        if found is None:
            transaction.say("DELETE FROM items WHERE owner = ? AND hash = ? AND range = ?", *names)
        else:
            item = dumps({name: _wire(value) for name, value in found.attrs.items()})
            transaction.say("INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?)", *names, item)

    def fill(self) -> int:
        """Put every item into its table; the number of them."""
        count = 0
        for name, attributes in self._database.rows("SELECT owner, item FROM items"):
            table: Any = backend().tables[name]
            values = loads(attributes)
            hash_key, range_key = table_keys(table, values)
            item = Item(hash_key, range_key, {})
            # past the check of its size, which it has passed, and which looks at all attributes for each
            known = LimitedSizeDict()
            dict.update(known, {each: DynamoType(value) for each, value in values.items()})
            item.attrs = known
            if range_key is None:
                table.items[hash_key] = item
            else:
                table.items[hash_key][range_key] = item
            count += 1
        return count


def _wire(value: DynamoType) -> dict[str, Any]:
    """A value as a request has it, but for bytes that moto has decoded."""
    inner = value.value
    if value.is_map():
        inner = {name: _wire(each) for name, each in inner.items()}
    elif value.is_list():
        inner = [_wire(each) for each in inner]
    return {value.type: inner}


def _name(key: DynamoType | None) -> str:
    """The same text for the same key, however a number is written."""
    return "" if key is None else f"{key.type}:{key.cast_value}"
